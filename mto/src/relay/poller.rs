//! The descriptors that the relay waits for: one epoll instance, and the tokens by which its events name them.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use xmml_wire::wakeup::{Epoll, Interest, Ready};

use crate::registry::Token;

/// Token of the flag that stops the relay.
pub const STOP: Token = 0;

/// Token of the signals.
pub const SIGNALS: Token = 1;

/// Token of the name look-ups.
pub const NAMES: Token = 2;

/// Watches descriptors. Every part of the relay that owns descriptors holds a reference to the one poller.
pub struct Poller {
    epoll: Epoll,
    last_token: AtomicU64,
}

impl Poller {
    /// Returns a poller that watches nothing yet.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new() -> io::Result<Arc<Poller>> {
        Ok(Arc::new(Poller { epoll: Epoll::new()?, last_token: AtomicU64::new(NAMES) }))
    }

    /// Returns a new token, higher than all before.
    pub fn token(&self) -> Token {
        self.last_token.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Watches a descriptor for input, and returns its token.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn watch(&self, fd: RawFd) -> io::Result<Token> {
        let token = self.token();
        self.add(fd, token, Interest::READ)?;
        Ok(token)
    }

    /// Begins to watch a descriptor.
    ///
    /// # Errors
    /// It cannot be watched, or is watched already.
    pub fn add(&self, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.epoll.add(fd, token, interest)
    }

    /// Watches a descriptor for something else. This can only fail where the descriptor was not watched: nothing is lost then.
    pub fn change(&self, fd: RawFd, token: Token, interest: Interest) {
        let _ = self.epoll.change(fd, token, interest);
    }

    /// Stops watching a descriptor, which must still be open.
    pub fn remove(&self, fd: RawFd) {
        self.epoll.remove(fd);
    }

    /// Waits until a descriptor is ready or the time has come (`None`: without end), and lists what is ready.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn wait(&self, ready: &mut Vec<Ready>, until: Option<Instant>) -> io::Result<()> {
        self.epoll.wait(ready, until)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use xmml_wire::wakeup::EventFd;

    use super::*;
    use crate::relay::testing::await_ready;

    #[test]
    fn an_event_carries_the_token_of_its_descriptor() {
        let poller = Poller::new().unwrap();
        let [first, second] = [EventFd::new().unwrap(), EventFd::new().unwrap()];
        let tokens = [&first, &second].map(|flag| poller.watch(flag.as_raw_fd()).unwrap());
        assert!(NAMES < tokens[0] && tokens[0] < tokens[1]);
        second.raise();
        let ready = await_ready(&poller);
        assert_eq!(ready.iter().map(|event| event.token).collect::<Vec<_>>(), [tokens[1]]);
    }

    #[test]
    fn a_descriptor_that_was_removed_wakes_nobody() {
        let poller = Poller::new().unwrap();
        let flag = EventFd::new().unwrap();
        poller.watch(flag.as_raw_fd()).unwrap();
        poller.remove(flag.as_raw_fd());
        flag.raise();
        let mut ready = Vec::new();
        poller.wait(&mut ready, Some(Instant::now())).unwrap();
        assert!(ready.is_empty());
    }
}
