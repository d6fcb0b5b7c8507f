//! Signals that are read from a descriptor, so that no handler interrupts anything.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Signals of this thread, which are blocked from now on and read here.
pub struct Signals {
    fd: OwnedFd,
    taken: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks signals and has them read here.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn take_over(numbers: &[i32]) -> io::Result<Signals> {
        // SAFETY: the sets are initialised by sigemptyset and sigprocmask, and outlive the calls.
        unsafe {
            let mut taken: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut taken);
            for number in numbers {
                libc::sigaddset(&raw mut taken, *number);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const taken, &raw mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            for number in numbers {
                libc::signal(*number, libc::SIG_DFL); // nobody hears of the end of a child while SIGCHLD is ignored
            }
            let fd = libc::signalfd(-1, &raw const taken, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd), taken, before })
        }
    }

    /// Returns the signals that were blocked before, as programs that are started shall have them.
    pub fn blocked_before(&self) -> libc::sigset_t {
        self.before
    }

    /// Returns the number of the next signal that has come; `None`: none has.
    pub fn next(&self) -> Option<i32> {
        // SAFETY: a zeroed signalfd_siginfo is valid, and read writes at most its size.
        let (info, count) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let count = libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size);
            (info, usize::try_from(count).unwrap_or(0))
        };
        (count == size_of::<libc::signalfd_siginfo>()).then_some(info.ssi_signo as i32)
    }

    /// Waits until one of the signals comes, at most for a time.
    pub fn wait(&self, limit: Duration) {
        let limit = libc::timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
        // SAFETY: set and time outlive the call; nobody asks what the signal says.
        unsafe { libc::sigtimedwait(&raw const self.taken, std::ptr::null_mut(), &raw const limit) };
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Has signals do nothing to this process.
pub fn ignore(numbers: &[i32]) {
    for number in numbers {
        // SAFETY: no handler of ours is installed.
        unsafe { libc::signal(*number, libc::SIG_IGN) };
    }
}
