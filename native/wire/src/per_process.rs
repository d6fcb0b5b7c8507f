//! What the instances of one process share.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Bytes of a page.
const PAGE: usize = 4096;

/// The number of this process. To ask for it is a system call, several of which would cost a twentieth of the time that 64 KiB take through
/// shared memory: here it is noted on a page that the system clears in a child after fork.
pub fn process_id() -> u32 {
    static NOTE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: the pointer is null or that of a page, which is never unmapped.
    if let Some(note) = unsafe { NOTE.load(Ordering::Acquire).as_ref() } {
        let noted = note.load(Ordering::Relaxed);
        if noted != 0 {
            return noted;
        }
        note.store(std::process::id(), Ordering::Relaxed);
    } else if let Some(page) = page_cleared_by_fork() {
        if NOTE.compare_exchange(std::ptr::null_mut(), page.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: another thread was faster; nobody has seen this page.
            unsafe { libc::munmap(page, PAGE) };
        }
    }
    std::process::id()
}

/// A page of zeros; `None` where the system has none of the kind.
fn page_cleared_by_fork() -> Option<*mut libc::c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, access, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page is the one just mapped, and nobody else's.
    if unsafe { libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above.
        unsafe { libc::munmap(page, PAGE) };
        return None;
    }
    Some(page)
}

/// A value that is made once in each process. A child after fork makes its own: that of its parent may have been locked by a thread
/// which the child does not have.
pub struct PerProcess<T>(AtomicPtr<Made<T>>);

struct Made<T> {
    process: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Not made yet.
    pub const fn new() -> PerProcess<T> {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The value of this process. It is never freed: others may still look at it while the process ends.
    pub fn get(&'static self, make: impl Fn() -> T) -> &'static T {
        let process = process_id();
        loop {
            let found = self.0.load(Ordering::Acquire);
            // SAFETY: the pointer is null or comes from Box::leak below, so it is valid as long as the process lives.
            if let Some(made) = unsafe { found.as_ref() }.filter(|made| made.process == process) {
                return &made.value;
            }
            let new = std::ptr::from_mut(Box::leak(Box::new(Made { process, value: make() })));
            if self.0.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: another thread was faster; nobody else has seen this one, which was leaked just above.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

impl<T: Send + Sync> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_after_fork_has_a_number_of_its_own() {
        assert_eq!((process_id(), process_id()), (std::process::id(), std::process::id()));
        // SAFETY: the child calls nothing but what may be called after fork, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right = process_id() == std::process::id() && process_id() == std::process::id();
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: the pointer is to `status`.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child took itself for its parent");
    }

    #[test]
    fn all_threads_see_the_same_value() {
        static VALUE: PerProcess<u64> = PerProcess::new();
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|at| scope.spawn(move || std::ptr::from_ref(VALUE.get(|| at)) as usize)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|address| *address == addresses[0]));
    }
}
