//! Small calls of the system that the standard library lacks.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{IntoRawFd, RawFd};
use std::path::Path;
use std::time::Duration;

/// Returns what the system says of an error, without its number.
pub fn strerror(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else { return error.to_string() };
    let mut text = [0; 256];
    // SAFETY: pointer and length describe `text`, which ends with a zero byte then.
    let said = unsafe {
        libc::strerror_r(number, text.as_mut_ptr(), text.len());
        CStr::from_ptr(text.as_ptr())
    };
    said.to_string_lossy().into_owned()
}

/// Returns the name of an error of those that have one for `xmml-run`; else nothing.
pub fn name_of_error(error: &io::Error) -> &'static str {
    match error.raw_os_error().unwrap_or_default() {
        libc::E2BIG => "E2BIG",
        libc::EACCES => "EACCES",
        libc::EAGAIN => "EAGAIN",
        libc::EDQUOT => "EDQUOT",
        libc::EINVAL => "EINVAL",
        libc::EIO => "EIO",
        libc::EISDIR => "EISDIR",
        libc::ELOOP => "ELOOP",
        libc::EMFILE => "EMFILE",
        libc::ENAMETOOLONG => "ENAMETOOLONG",
        libc::ENFILE => "ENFILE",
        libc::ENOENT => "ENOENT",
        libc::ENOEXEC => "ENOEXEC",
        libc::ENOMEM => "ENOMEM",
        libc::ENOSPC => "ENOSPC",
        libc::ENOTDIR => "ENOTDIR",
        libc::EPERM => "EPERM",
        libc::ETXTBSY => "ETXTBSY",
        _ => "",
    }
}

/// Returns the name of this host.
pub fn host_name() -> String {
    let mut name = [0; 256];
    // SAFETY: pointer and length describe `name`; its last byte stays zero.
    let said = unsafe {
        libc::gethostname(name.as_mut_ptr(), name.len() - 1);
        CStr::from_ptr(name.as_ptr())
    };
    said.to_string_lossy().into_owned()
}

/// Closes a file that was written. On a network file system only that tells whether all of it could be stored.
///
/// # Errors
/// It could not.
pub fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is nobody else's any more.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Writes a whole file.
///
/// # Errors
/// It could not be made, or not all of it be stored.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    close(file)
}

/// Puts a file in the place of one that others may be reading. Its name until then is no other process's, on whatever host.
///
/// # Errors
/// It could not be made, or not all of it be stored.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension(random_hex()?);
    write_file(&new, content).and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        let _ = fs::remove_file(&new); // it may never have been there
    })
}

/// Returns 32 hexadecimal digits that nobody can guess.
///
/// # Errors
/// The system has no random numbers.
pub fn random_hex() -> io::Result<String> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(hexadecimal(&random))
}

/// Returns bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Raises the limit of open files as far as is allowed; returns the limit that was.
///
/// # Errors
/// The system does not say what the limit is.
pub fn raise_limit_of_descriptors() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structures outlive the calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return Err(io::Error::last_os_error());
        }
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised);
    }
    Ok(limit)
}

/// What a poll waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Bytes to read, or the end.
    Reading(RawFd),
    /// Room to write; of a connection that is being made, that it stands or has failed.
    Writing(RawFd),
}

/// Waits until something can be read or written, at most for a time; returns what can, in the order of `what`.
///
/// # Errors
/// The system refuses.
pub fn poll(what: &[For], limit: Duration) -> io::Result<Vec<bool>> {
    let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let mut entries: Vec<libc::pollfd> = what
        .iter()
        .map(|each| match each {
            For::Reading(fd) => entry(*fd, libc::POLLIN),
            For::Writing(fd) => entry(*fd, libc::POLLOUT),
        })
        .collect();
    // Rounded up, so that nobody wakes just before the time and spins.
    let milliseconds = i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    // SAFETY: pointer and length describe `entries`.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, milliseconds) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(entries.iter().map(|entry| entry.revents != 0).collect())
}

/// Returns the CPUs that this process may use, in order.
pub fn own_cpus() -> Vec<usize> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut mask = vec![0 as libc::c_ulong; 16];
    loop {
        let bytes = size_of_val(mask.as_slice());
        // SAFETY: the set is as long as is said.
        if unsafe { libc::sched_getaffinity(0, bytes, mask.as_mut_ptr().cast()) } == 0 {
            return (0..mask.len() * BITS).filter(|cpu| mask[cpu / BITS] >> (cpu % BITS) & 1 == 1).collect();
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) || mask.len() > 1 << 16 {
            return Vec::new();
        }
        mask.resize(2 * mask.len(), 0); // the kernel knows more CPUs than that
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_in_words_and_by_its_name() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!((strerror(&error).as_str(), name_of_error(&error)), ("No such file or directory", "ENOENT"));
    }

    #[test]
    fn what_a_file_system_says_only_when_a_file_is_closed_is_an_error() {
        use std::os::fd::{AsRawFd, FromRawFd};
        let nowhere = File::create("/dev/null").unwrap();
        // SAFETY: the copy, whose number no other test gets meanwhile, is closed once here, and in vain by `close`.
        let closed = unsafe {
            let number = libc::fcntl(nowhere.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 500);
            assert_eq!(libc::close(number), 0);
            File::from_raw_fd(number)
        };
        assert_eq!(close(closed).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert!(close(nowhere).is_ok());
    }

    #[test]
    fn the_own_cpus_are_as_many_as_the_standard_library_counts() {
        let count = std::thread::available_parallelism().unwrap().get();
        assert!(own_cpus().len() >= count); // it knows of control groups, too
    }
}
