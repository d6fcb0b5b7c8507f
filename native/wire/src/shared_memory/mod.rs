//! Anonymous memory that can be passed to another process: a memfd, mapped. It has no name anywhere, and is gone with the last process
//! that holds it, however that ends.

pub mod arena;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// What is sealed: who maps the memory must never find a page of it gone.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A mapping of a memfd, readable and writable.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    length: usize,
    /// Kept by the owner, to pass it on; a borrower has no use for it.
    file: Option<OwnedFd>,
}

// SAFETY: plain memory at a fixed place; who reads and writes what is ruled by its users.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory of `length` bytes, all zero. Pages cost nothing before they are touched.
    ///
    /// # Errors
    /// The system has no memory, address space or descriptor for it, or a limit on file sizes forbids it.
    pub fn new(name: &CStr, length: usize) -> io::Result<SharedMemory> {
        refuse_beyond_file_limit(length)?;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = libc::off_t::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the descriptor is open.
        check(unsafe { libc::ftruncate(file.as_raw_fd(), size) })?;
        // SAFETY: as above.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
        let start = map(&file, length)?;
        Ok(SharedMemory { start, length, file: Some(file) })
    }

    /// Maps memory that another process passed: `length` bytes, which it must have and must not be able to take away again.
    pub fn open(file: OwnedFd, length: usize) -> io::Result<SharedMemory> {
        // SAFETY: the descriptor is open; a file that is no memfd has no seals and is refused.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(io::Error::other("what was passed as shared memory can be taken away again"));
        }
        if !has_ordinary_pages(&file)? {
            return Err(io::Error::other("what was passed as shared memory has pages that the system may not have"));
        }
        if size_of_file(&file)? < length as u64 {
            return Err(io::Error::other(format!("what was passed as shared memory is smaller than {length} bytes")));
        }
        let start = map(&file, length)?;
        Ok(SharedMemory { start, length, file: None })
    }

    /// Gives the pages of a part back to the system; it reads as zeros after that.
    pub fn give_back(&self, offset: usize, length: usize) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        if let Some(file) = &self.file {
            // SAFETY: the descriptor is open. A refusal only means that the memory stays.
            unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as libc::off_t, length as libc::off_t) };
        }
    }

    /// Has the system find pages for a part (whose offset is that of a page) now, all in one go, which takes a sixth less time than to touch
    /// them one by one.
    pub fn populate(&self, offset: usize, length: usize) {
        debug_assert!(offset + length <= self.length);
        // SAFETY: within the mapping. A refusal (by a system that does not know this, or has no memory) changes nothing: pages are found
        // when they are touched, or are not.
        unsafe { libc::madvise(self.start.as_ptr().add(offset).cast(), length, libc::MADV_POPULATE_WRITE) };
    }

    /// Where it begins here.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// It will not be passed on any more: closes the descriptor. The mapping stays.
    pub fn keep_to_itself(&mut self) {
        self.file = None;
    }

    /// For passing it on; `None` if it was passed to here.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }
}

fn map(file: &OwnedFd, length: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; whoever refers to the memory keeps this value alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A process with a limit on the size of its files would be killed by a signal for exceeding it.
fn refuse_beyond_file_limit(length: usize) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to `limit`.
    check(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) })?;
    if limit.rlim_cur != libc::RLIM_INFINITY && length as u64 > limit.rlim_cur {
        let limit = limit.rlim_cur;
        return Err(io::Error::other(format!(
            "the limit on file sizes (ulimit -f) is {limit} bytes, {length} are needed"
        )));
    }
    Ok(())
}

/// Whether the pages of a memfd come from ordinary memory. Touching huge pages that are not there kills a process.
fn has_ordinary_pages(file: &OwnedFd) -> io::Result<bool> {
    // SAFETY: an all-zero statfs is a value of it, and fstatfs fills it.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the pointer is to `system`.
    check(unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut system) })?;
    Ok(system.f_type == libc::TMPFS_MAGIC as _)
}

fn size_of_file(file: &OwnedFd) -> io::Result<u64> {
    // SAFETY: an all-zero stat is a value of it, and fstat fills it.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the pointer is to `status`.
    check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) })?;
    Ok(u64::try_from(status.st_size).unwrap_or(0))
}

fn check(status: i32) -> io::Result<()> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_show_the_same_bytes() {
        let mine = SharedMemory::new(c"xmml-test", 1 << 16).unwrap();
        let theirs = SharedMemory::open(mine.file().unwrap().try_clone_to_owned().unwrap(), 1 << 16).unwrap();
        // SAFETY: within both mappings, and nobody else is there.
        unsafe {
            mine.start().add(5000).write(7);
            assert_eq!(theirs.start().add(5000).read(), 7);
        }
    }

    #[test]
    fn memory_that_could_be_taken_away_is_refused() {
        let pipe = std::io::pipe().unwrap();
        assert!(SharedMemory::open(pipe.0.into(), 4096).is_err());
        // SAFETY: a new descriptor without seals.
        let file = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"open".as_ptr(), libc::MFD_ALLOW_SEALING)) };
        assert!(SharedMemory::open(file, 0).unwrap_err().to_string().contains("taken away"));
    }

    #[test]
    fn memory_of_huge_pages_is_refused() {
        let flags = libc::MFD_ALLOW_SEALING | libc::MFD_HUGETLB;
        // SAFETY: a new descriptor.
        let fd = unsafe { libc::memfd_create(c"huge".as_ptr(), flags) };
        if fd < 0 {
            return; // a kernel without them
        }
        // SAFETY: the descriptor is new; sealing it touches no memory.
        let file = unsafe {
            libc::fcntl(fd, libc::F_ADD_SEALS, SEALS);
            OwnedFd::from_raw_fd(fd)
        };
        assert!(SharedMemory::open(file, 0).unwrap_err().to_string().contains("pages"));
    }

    #[test]
    fn what_was_sealed_cannot_be_cut_off_under_the_reader() {
        let mine = SharedMemory::new(c"xmml-test", 8192).unwrap();
        let fd = mine.file().unwrap().as_raw_fd();
        // SAFETY: the descriptor is open; nothing may come of either call.
        let refused = unsafe { [libc::ftruncate(fd, 0), libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_WRITE)] };
        assert_eq!(refused, [-1, -1]);
        // SAFETY: within the mapping.
        assert_eq!(unsafe { mine.start().add(8191).read_volatile() }, 0);
    }

    #[test]
    fn memory_that_is_too_small_is_refused() {
        let mine = SharedMemory::new(c"xmml-test", 4096).unwrap();
        let error = SharedMemory::open(mine.file().unwrap().try_clone_to_owned().unwrap(), 8192).unwrap_err();
        assert!(error.to_string().contains("smaller"), "{error}");
    }

    #[test]
    fn memory_given_back_reads_as_zeros() {
        let memory = SharedMemory::new(c"xmml-test", 8192).unwrap();
        // SAFETY: within the mapping, and nobody else is there.
        unsafe {
            memory.start().write(1);
            memory.give_back(0, 4096);
            assert_eq!(memory.start().read(), 0);
        }
    }
}
