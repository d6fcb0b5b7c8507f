//! Looks up the addresses of hosts in threads of their own: a name server may take long or never answer, and whoever asks has other
//! things to do.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

use crate::internet_address::resolve;
use crate::lock::lock;
use crate::wakeup::EventFd;

/// The addresses of `HOST:PORT`, or why there are none, for people. May take as long as it likes.
pub type LookUp = dyn Fn(&str) -> Result<Vec<SocketAddr>, String> + Send + Sync;

/// What was found for `HOST:PORT`.
pub type Answer = (String, Result<Vec<SocketAddr>, String>);

/// See the module.
pub struct Resolver {
    look_up: Arc<LookUp>,
    /// Those that are being looked up.
    under_way: BTreeSet<String>,
    found: Arc<Mutex<Vec<Answer>>>,
    bell: Arc<EventFd>,
}

impl Resolver {
    /// Asks whomever the system asks.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new() -> io::Result<Resolver> {
        Resolver::with(Arc::new(|address: &str| resolve(address).map_err(|error| error.to_string())))
    }

    /// Asks like this.
    ///
    /// # Errors
    /// As of [`Resolver::new`].
    pub fn with(look_up: Arc<LookUp>) -> io::Result<Resolver> {
        let (found, bell) = (Arc::default(), Arc::new(EventFd::new()?));
        Ok(Resolver { look_up, under_way: BTreeSet::new(), found, bell })
    }

    /// Begins to look up `HOST:PORT`, if that is not under way.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn ask(&mut self, address: &str) -> io::Result<()> {
        if self.under_way.contains(address) {
            return Ok(());
        }
        let (look_up, found, bell) = (self.look_up.clone(), self.found.clone(), self.bell.clone());
        let asked = address.to_owned();
        // It ends by itself: nobody can hurry it.
        std::thread::Builder::new().name("names".into()).spawn(move || {
            let answer = catch_unwind(AssertUnwindSafe(|| look_up(&asked)))
                .unwrap_or_else(|_| Err("the search for its address ended by a fault of the program".to_owned()));
            lock(&found).push((asked, answer));
            bell.raise();
        })?;
        self.under_way.insert(address.to_owned());
        Ok(())
    }

    /// What was found since the last call.
    pub fn answers(&mut self) -> Vec<Answer> {
        self.bell.lower();
        let found = std::mem::take(&mut *lock(&self.found));
        for (address, _) in &found {
            self.under_way.remove(address);
        }
        found
    }
}

impl AsRawFd for Resolver {
    /// Readable when there are answers.
    fn as_raw_fd(&self) -> RawFd {
        self.bell.as_raw_fd()
    }
}
