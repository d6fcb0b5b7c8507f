//! Signals, as something that can be read: no handler interrupts anything.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End (SIGTERM, SIGINT).
    Stop,
    /// Read the configuration again, and open the log again (SIGHUP).
    Reload,
}

/// See the module.
pub struct Signals(OwnedFd);

impl Signals {
    /// From now on the signals of this thread, and of those that it starts, come here.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn take_over() -> io::Result<Signals> {
        // SAFETY: the set is initialised by sigemptyset, and outlives the calls.
        let fd = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that has come; `None`: none.
    pub fn next(&self) -> Option<Signal> {
        // SAFETY: a zeroed signalfd_siginfo is valid, and read writes at most its size.
        let (info, count) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let count = libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size);
            (info, usize::try_from(count).unwrap_or(0))
        };
        if count < size_of::<libc::signalfd_siginfo>() {
            return None;
        }
        Some(if info.ssi_signo == libc::SIGHUP as u32 { Signal::Reload } else { Signal::Stop })
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
