//! Files of a run, as the supervisor opens them.
//!
//! The supervisor works in the folder of its run. Whoever may write in a folder further above can put another in the place of that
//! one at any time. So a file of the run is named by a relative path, and none of the parts of that path may be a symbolic link.

use std::ffi::{c_int, CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Mode of a file that is made.
const MODE: libc::c_uint = 0o644;
const FOLDER: c_int = libc::O_PATH | libc::O_DIRECTORY;

/// Opens a folder, to be worked in.
///
/// # Errors
/// As [`open`].
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open(path, FOLDER)
}

/// Opens a file or folder: one with a relative path in the working folder, and not through a link.
///
/// # Errors
/// It cannot be opened; `EINVAL`: the path is none.
pub fn open(path: &Path, flags: c_int) -> io::Result<OwnedFd> {
    if path.is_absolute() {
        return open_at(libc::AT_FDCWD, path.as_os_str(), flags);
    }
    let mut folder: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { break };
        let flags = if parts.peek().is_some() { FOLDER } else { flags };
        let at = folder.as_ref().map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
        let opened = open_at(at, name, flags | libc::O_NOFOLLOW)?;
        if parts.peek().is_none() {
            return Ok(opened);
        }
        folder = Some(opened);
    }
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

fn open_at(folder: RawFd, name: &OsStr, flags: c_int) -> io::Result<OwnedFd> {
    let name = CString::new(name.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the name ends with a zero byte.
    match unsafe { libc::openat(folder, name.as_ptr(), flags | libc::O_CLOEXEC, MODE) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it has just been opened, and nobody else knows it.
        opened => Ok(unsafe { OwnedFd::from_raw_fd(opened) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_of_the_folder_is_none() {
        for path in ["", ".", "..", "../a", "src/../../a"] {
            let error = open(Path::new(path), libc::O_RDONLY).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{path}");
        }
    }

    #[test]
    fn a_file_is_found_in_the_working_folder() {
        open(Path::new("src/run_folder.rs"), libc::O_RDONLY).unwrap();
        open_folder(Path::new("src")).unwrap();
        let error = open_folder(Path::new("src/run_folder.rs")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTDIR));
    }
}
