//! The listening end as programs see it.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use xmml_wire::error::{Error, Result};
use xmml_wire::internet_address::resolve;
use xmml_wire::lock::lock;
use xmml_wire::methods::Stream as Wire;
use xmml_wire::wakeup::poll_readable;

use crate::driver::acceptor::{Acceptor, AcceptorThread};

use crate::identity::Identity;
use crate::limit::until;
use crate::path::Path;
use crate::settings::Settings;

/// Where paths come in. A path that was accepted goes on getting its streams here, also when the listener is dropped; only new paths are
/// not taken any more then.
pub struct Listener {
    acceptor: Arc<Acceptor>,
    thread: Mutex<Option<AcceptorThread>>,
}

impl Listener {
    /// Listens at `address`, `host:port` (port 0: any free one; `[::]`: everywhere, over IPv4 as well).
    ///
    /// # Errors
    /// [`Error::Usage`] for settings that cannot be; [`Error::Io`] naming the address that cannot be listened at, and why.
    pub fn bind(address: &str, me: &Identity, settings: Settings) -> Result<Listener> {
        me.check()?;
        let address = resolve(address)?[0];
        Ok(Listener { acceptor: Acceptor::open(Some(address), me.clone(), settings)?, thread: Mutex::default() })
    }

    /// Listens nowhere: streams are brought by [`Listener::admit`], by a program that has a acceptor of its own.
    ///
    /// # Errors
    /// As of [`Listener::bind`].
    pub fn without_door(me: &Identity, settings: Settings) -> Result<Listener> {
        me.check()?;
        Ok(Listener { acceptor: Acceptor::open(None, me.clone(), settings)?, thread: Mutex::default() })
    }

    /// Where it listens, `host:port`; empty without a acceptor.
    pub fn address(&self) -> String {
        self.acceptor.address().map_or_else(String::new, |address| address.to_string())
    }

    /// Readable when [`Listener::drive`] has something to do: for poll, select, epoll.
    pub fn fd(&self) -> RawFd {
        self.acceptor.fd()
    }

    /// Starts a thread that answers those who dial while nobody waits for them; a second call does nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no thread.
    pub fn attend(&self) -> Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            *thread = Some(AcceptorThread::start(&self.acceptor)?);
        }
        Ok(())
    }

    /// Does what can be done now; never waits. Accepted paths do this as well when they are driven.
    pub fn drive(&self) {
        self.acceptor.drive();
    }

    /// Takes a connection on which the ends have proved themselves to each other in the role [`xmml_wire::handshake::Role::Path`]; `peer` is who
    /// dialled, `rest` what was read behind the handshake.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no room to watch it.
    pub fn admit(&self, wire: Box<dyn Wire>, peer: &str, rest: &[u8]) -> Result<()> {
        self.acceptor.admit(wire, peer.to_owned(), rest)
    }

    /// The next new path, if one has come.
    pub fn take(&self) -> Option<Path> {
        self.acceptor.take().map(Path::over)
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
            let polled = poll_readable(&[self.fd(), self.acceptor.bell()], until);
            polled.map_err(|error| Error::io("wait for a path", &error))?;
        }
    }

    /// How many connections were turned away, and why the last was.
    pub fn refusals(&self) -> (u64, Option<String>) {
        self.acceptor.refusals()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.acceptor.close();
    }
}
