//! The listening end as programs see it.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::listener::{Door, Porter};
use super::{locked, until, Identity, Path, Settings};
use crate::error::{Error, Result};
use crate::internet_address::resolve;
use crate::methods::Stream as Wire;
use crate::wakeup::poll_readable;

/// Where paths come in. A path that was accepted goes on getting its streams here, also when the listener is dropped; only new paths are
/// not taken any more then.
pub struct Listener {
    door: Arc<Door>,
    porter: Mutex<Option<Porter>>,
}

impl Listener {
    /// Listens at `address`, `host:port` (port 0: any free one; `[::]`: everywhere, over IPv4 as well).
    ///
    /// # Errors
    /// [`Error::Usage`] for settings that cannot be; [`Error::Io`] naming the address that cannot be listened at, and why.
    pub fn bind(address: &str, me: &Identity, settings: Settings) -> Result<Listener> {
        me.check()?;
        let address = resolve(address)?[0];
        Ok(Listener { door: Door::open(Some(address), me.clone(), settings)?, porter: Mutex::default() })
    }

    /// Listens nowhere: streams are brought by [`Listener::admit`], by a program that has a door of its own.
    ///
    /// # Errors
    /// As of [`Listener::bind`].
    pub fn without_door(me: &Identity, settings: Settings) -> Result<Listener> {
        me.check()?;
        Ok(Listener { door: Door::open(None, me.clone(), settings)?, porter: Mutex::default() })
    }

    /// Where it listens, `host:port`; empty without a door.
    pub fn address(&self) -> String {
        self.door.address().map_or_else(String::new, |address| address.to_string())
    }

    /// Readable when [`Listener::drive`] has something to do: for poll, select, epoll.
    pub fn fd(&self) -> RawFd {
        self.door.fd()
    }

    /// Starts a thread that answers those who dial while nobody waits for them; a second call does nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no thread.
    pub fn attend(&self) -> Result<()> {
        let mut porter = locked(&self.porter);
        if porter.is_none() {
            *porter = Some(Porter::start(&self.door)?);
        }
        Ok(())
    }

    /// Does what can be done now; never waits. Accepted paths do this as well when they are driven.
    pub fn drive(&self) {
        self.door.drive();
    }

    /// Takes a connection on which the ends have proved themselves to each other in the role [`crate::handshake::Role::Path`]; `peer` is who
    /// dialled, `rest` what was read behind the handshake.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no room to watch it.
    pub fn admit(&self, wire: Box<dyn Wire>, peer: &str, rest: &[u8]) -> Result<()> {
        self.door.admit(wire, peer.to_owned(), rest)
    }

    /// The next new path, if one has come.
    pub fn take(&self) -> Option<Path> {
        self.door.take().map(Path::over)
    }

    /// Waits for the next new path; `None`: none within `limit`.
    ///
    /// # Errors
    /// [`Error::Io`] if the system cannot wait.
    pub fn accept(&self, limit: Option<Duration>) -> Result<Option<Path>> {
        let until = until(limit);
        loop {
            self.drive();
            if let Some(path) = self.take() {
                return Ok(Some(path));
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(None);
            }
            let polled = poll_readable(&[self.fd(), self.door.bell()], until);
            polled.map_err(|error| Error::io("wait for a path", &error))?;
        }
    }

    /// How many connections were turned away, and why the last was.
    pub fn refusals(&self) -> (u64, Option<String>) {
        self.door.refusals()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.door.close();
    }
}
