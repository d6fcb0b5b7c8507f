//! Waiting for descriptors and waking those who wait: eventfd, poll(2), epoll(7).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// A flag that a poll can wait for.
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A lowered flag.
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Raises it; whoever polls it wakes.
    pub fn raise(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are read from `one`. It can only fail when the counter is full: then the flag is up anyway.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Lowers it.
    pub fn lower(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes are written to `count`. It fails when the flag is down already.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A clock that a poll can wait for.
pub struct Timer(OwnedFd);

impl Timer {
    /// One that is not set.
    pub fn new() -> io::Result<Timer> {
        // SAFETY: timerfd_create takes no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Timer(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Readable from `at` on; `None`: never. What was set before does not count any more.
    pub fn set(&self, at: Option<Instant>) {
        let left = at.map_or(Duration::ZERO, |at| {
            at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1))
            // zero would mean never
        });
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            libc::timespec { tv_sec: left.as_secs().min(1 << 30) as _, tv_nsec: left.subsec_nanos() as libc::c_long };
        let setting = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: `setting` outlives the call, the old setting is not asked for. It cannot fail: the numbers are in range.
        unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut()) };
    }

    /// Not readable any more, until it is set again.
    pub fn lower(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes are written to `count`. It fails when the time has not come.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// What a poll ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// At least one descriptor is ready.
    Ready,
    /// The time has passed.
    TimedOut,
    /// A signal came.
    Interrupted,
}

/// Waits until one of `fds` is readable (or broken), or `until`; `None`: without end.
pub fn poll_readable(fds: &[RawFd], until: Option<Instant>) -> io::Result<Polled> {
    let mut entries: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    poll(&mut entries, until)
}

/// Waits until `fd` takes bytes again (or is broken), or `until`.
pub fn poll_writable(fd: RawFd, until: Option<Instant>) -> io::Result<Polled> {
    poll(&mut [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }], until)
}

fn poll(entries: &mut [libc::pollfd], until: Option<Instant>) -> io::Result<Polled> {
    // SAFETY: the pointer and length describe `entries`.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, milliseconds_until(until)) };
    match ready {
        0 => Ok(Polled::TimedOut),
        ready if ready > 0 => Ok(Polled::Ready),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(Polled::Interrupted),
            error => Err(error),
        },
    }
}

/// Rounded up, so that nobody wakes just before the time and spins; -1 = no end.
fn milliseconds_until(until: Option<Instant>) -> i32 {
    let Some(until) = until else { return -1 };
    let left = until.saturating_duration_since(Instant::now());
    let left = left.checked_add(Duration::from_nanos(999_999)).unwrap_or(left);
    i32::try_from(left.as_millis()).unwrap_or(i32::MAX)
}

/// Which descriptors an I/O thread watches, each under a token.
pub struct Epoll(OwnedFd);

/// What happened to a watched descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Under which token it is watched.
    pub token: u64,
    /// There is something to read, or the end of the stream.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The connection is broken, or the peer has closed it.
    pub hung_up: bool,
}

/// What to watch a descriptor for. Hang-ups are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Bytes to read.
    pub read: bool,
    /// Room to write.
    pub write: bool,
    /// The peer's closing (also while not reading).
    pub close: bool,
}

impl Interest {
    /// Only reading.
    pub const READ: Interest = Interest { read: true, write: false, close: false };
    /// Nothing (hang-ups apart).
    pub const NONE: Interest = Interest { read: false, write: false, close: false };

    fn events(self) -> u32 {
        let mut events = 0;
        if self.read {
            events |= libc::EPOLLIN as u32;
        }
        if self.write {
            events |= libc::EPOLLOUT as u32;
        }
        if self.close {
            events |= libc::EPOLLRDHUP as u32;
        }
        events
    }
}

impl Epoll {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: epoll_create1 takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Begins to watch `fd`.
    pub fn add(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Watches `fd` for something else.
    pub fn change(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Stops watching `fd`, which must still be open.
    pub fn remove(&self, fd: RawFd) {
        // Fails only if it was not watched.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest { read: false, write: false, close: false });
    }

    fn control(&self, operation: i32, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.events(), u64: token };
        // SAFETY: `event` outlives the call.
        let status = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &raw mut event) };
        if status == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Waits for the first of the watched descriptors, or `until` (`None`: without end), and lists what is ready in `ready`.
    pub fn wait(&self, ready: &mut Vec<Ready>, until: Option<Instant>) -> io::Result<()> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let timeout = milliseconds_until(until);
        // SAFETY: the pointer and length describe `events`.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, timeout) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        for event in &events[..count as usize] {
            let flags = event.events as i32;
            ready.push(Ready {
                token: event.u64,
                readable: flags & (libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) != 0,
                writable: flags & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) != 0,
                hung_up: flags & (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) != 0,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_flag_ends_a_poll() {
        let flag = EventFd::new().unwrap();
        let soon = Some(Instant::now() + Duration::from_millis(5));
        assert_eq!(poll_readable(&[flag.as_raw_fd()], soon).unwrap(), Polled::TimedOut);
        flag.raise();
        assert_eq!(poll_readable(&[flag.as_raw_fd()], None).unwrap(), Polled::Ready);
        flag.lower();
        assert_eq!(poll_readable(&[flag.as_raw_fd()], soon).unwrap(), Polled::TimedOut);
    }

    #[test]
    fn epoll_tells_who_is_ready_by_token() {
        let (one, two) = (EventFd::new().unwrap(), EventFd::new().unwrap());
        let epoll = Epoll::new().unwrap();
        epoll.add(one.as_raw_fd(), 1, Interest::READ).unwrap();
        epoll.add(two.as_raw_fd(), 2, Interest::READ).unwrap();
        two.raise();
        let mut ready = Vec::new();
        epoll.wait(&mut ready, None).unwrap();
        assert_eq!(ready.len(), 1);
        assert_eq!((ready[0].token, ready[0].readable), (2, true));
    }
}
