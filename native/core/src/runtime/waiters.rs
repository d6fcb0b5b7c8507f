//! Threads that sleep until the state of their instance changes.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use xmml_wire::wakeup::EventFd;

/// So many flags are kept for later: more threads of an instance seldom wait at a time.
const SPARE_FLAGS: usize = 4;

/// What a waiting thread polls beside its connections. Raised and lowered under the lock of the state only, so that it is known whether
/// it is up, and the system need not be asked.
pub struct Flag {
    event: EventFd,
    is_up: AtomicBool,
}

impl Flag {
    fn raise(&self) {
        if !self.is_up.swap(true, Ordering::Relaxed) {
            self.event.raise();
        }
    }

    /// Lowers it. Whoever does so holds the state, and looks at it next.
    pub fn lower(&self) {
        if self.is_up.swap(false, Ordering::Relaxed) {
            self.event.lower();
        }
    }
}

impl AsRawFd for Flag {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

/// The flags of the threads of an instance that wait.
#[derive(Default)]
pub struct Waiters {
    flags: Vec<Arc<Flag>>,
    /// Flags of waits that are over, for those to come.
    spare: Vec<Arc<Flag>>,
}

impl Waiters {
    /// Returns a flag that from now on is raised when the state changes.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn enrol(&mut self) -> io::Result<Arc<Flag>> {
        let flag = match self.spare.pop() {
            Some(flag) => flag,
            None => Arc::new(Flag { event: EventFd::new()?, is_up: AtomicBool::new(false) }),
        };
        self.flags.push(flag.clone());
        Ok(flag)
    }

    /// Has a flag raised no more.
    pub fn withdraw(&mut self, flag: &Arc<Flag>) {
        self.flags.retain(|other| !Arc::ptr_eq(other, flag));
        if self.spare.len() < SPARE_FLAGS {
            self.spare.push(flag.clone());
        }
    }

    /// Raises all flags but the caller's own.
    pub fn wake(&self, own: Option<&Arc<Flag>>) {
        let others = self.flags.iter().filter(|flag| own.is_none_or(|own| !Arc::ptr_eq(flag, own)));
        others.for_each(|flag| flag.raise());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use xmml_wire::wakeup::{poll_readable, Polled};

    use super::*;

    fn is_up(flag: &Flag) -> bool {
        poll_readable(&[flag.as_raw_fd()], Some(Instant::now())).unwrap() == Polled::Ready
    }

    #[test]
    fn all_who_wait_are_woken_but_the_one_who_wakes_them() {
        let mut waiters = Waiters::default();
        let (one, two) = (waiters.enrol().unwrap(), waiters.enrol().unwrap());
        waiters.wake(Some(&one));
        assert!(!is_up(&one) && is_up(&two));
        two.lower();
        waiters.withdraw(&two);
        waiters.wake(None);
        assert!(is_up(&one) && !is_up(&two));
    }

    #[test]
    fn the_flag_of_a_wait_that_is_over_serves_the_next_one() {
        let mut waiters = Waiters::default();
        let flag = waiters.enrol().unwrap();
        waiters.withdraw(&flag);
        assert!(Arc::ptr_eq(&waiters.enrol().unwrap(), &flag));
    }
}
