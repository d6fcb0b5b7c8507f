//! A flag that one thread raises and another one waits for.

use loom::sync::{Condvar, Mutex};

/// As with an eventfd and poll(2), it stays up until it is lowered.
pub struct EventFd {
    is_up: Mutex<bool>,
    raised: Condvar,
}

impl EventFd {
    /// A lowered flag.
    pub fn new() -> EventFd {
        EventFd { is_up: Mutex::new(false), raised: Condvar::new() }
    }

    /// Raises it.
    pub fn raise(&self) {
        *self.is_up.lock().unwrap() = true;
        self.raised.notify_all();
    }

    /// Lowers it.
    pub fn lower(&self) {
        *self.is_up.lock().unwrap() = false;
    }

    /// Sleeps until it is up. Nobody raises it any more: loom reports a deadlock.
    pub fn wait(&self) {
        let mut is_up = self.is_up.lock().unwrap();
        while !*is_up {
            is_up = self.raised.wait(is_up).unwrap();
        }
    }
}

impl Default for EventFd {
    fn default() -> EventFd {
        EventFd::new()
    }
}
