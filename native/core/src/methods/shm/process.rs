//! Whether another process still lives.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Whether a process has ended for certain, so that nothing is mapped by it any more. If its number was given to another process
/// meanwhile, or the system cannot tell: false.
pub fn has_ended(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|process| *process > 0) else { return false };
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    if fd < 0 {
        return io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    }
    // SAFETY: the descriptor is new and nobody else's.
    let handle = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut entry = libc::pollfd { fd: handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one entry. Readable: all its threads have ended (its parent may not have asked for its status yet).
    unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_before_its_parent_asks_for_its_status() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!has_ended(child.id()) && !has_ended(std::process::id()) && !has_ended(0));
        child.kill().unwrap();
        while !has_ended(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(child.id()));
    }
}
