//! Who can be reached at this relay, and which streams wait to be taken; for one run. No socket and no clock here.

use std::collections::{BTreeMap, HashMap};

/// A connection of the relay, by its number.
pub type Token = u64;

/// Streams that wait to be taken, at most, per run.
pub const WAITING_MAX: usize = 4096;

/// Names that can be registered, at most, per run.
pub const NAMES_MAX: usize = 65_536;

/// A stream that somebody opened and nobody has taken yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting<Opener> {
    /// For whom it is.
    pub name: String,
    /// Who opened it.
    pub opener: Opener,
}

/// See the module. `Opener` is where an answer goes.
#[derive(Debug)]
pub struct Registry<Opener> {
    names: BTreeMap<String, Token>,
    waiting: HashMap<u64, Waiting<Opener>>,
    last_ticket: u64,
}

impl<Opener> Default for Registry<Opener> {
    fn default() -> Registry<Opener> {
        Registry { names: BTreeMap::new(), waiting: HashMap::new(), last_ticket: 0 }
    }
}

impl<Opener> Registry<Opener> {
    /// `name` can be reached by this connection from now on. Returns the one by which it could be reached before: the newer one counts,
    /// because a lost connection is often missed later by the relay than by whoever made a new one.
    ///
    /// # Errors
    /// There are too many names.
    pub fn register(&mut self, name: &str, token: Token) -> Result<Option<Token>, String> {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(name) {
            return Err(format!("{NAMES_MAX} names of this run are registered already"));
        }
        Ok(self.names.insert(name.to_owned(), token))
    }

    /// The connection is gone.
    pub fn withdraw(&mut self, name: &str, token: Token) {
        if self.names.get(name) == Some(&token) {
            self.names.remove(name);
        }
    }

    /// By which connection a name can be reached.
    pub fn find(&self, name: &str) -> Option<Token> {
        self.names.get(name).copied()
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Somebody opens a stream to a name; returns the ticket with which it can be taken.
    ///
    /// # Errors
    /// Too many wait.
    pub fn open(&mut self, name: &str, opener: Opener) -> Result<u64, String> {
        if self.waiting.len() >= WAITING_MAX {
            return Err(format!("{WAITING_MAX} streams of this run wait to be taken already"));
        }
        self.last_ticket += 1;
        self.waiting.insert(self.last_ticket, Waiting { name: name.to_owned(), opener });
        Ok(self.last_ticket)
    }

    /// `name` takes a stream.
    ///
    /// # Errors
    /// There is none with this ticket for this name (any more).
    pub fn take(&mut self, name: &str, ticket: u64) -> Result<Opener, String> {
        match self.waiting.remove(&ticket) {
            Some(waiting) if waiting.name == name => Ok(waiting.opener),
            Some(other) => {
                self.waiting.insert(ticket, other);
                Err("this stream is for somebody else".to_owned())
            }
            None => Err("nobody waits at the other end of this stream any more".to_owned()),
        }
    }

    /// Whoever opened it waits no longer.
    pub fn give_up(&mut self, ticket: u64) -> Option<Waiting<Opener>> {
        self.waiting.remove(&ticket)
    }

    /// How many streams wait to be taken.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_reached_by_the_connection_that_registered_it_last() {
        let mut registry = Registry::<()>::default();
        assert_eq!(registry.register("a", 1), Ok(None));
        assert_eq!(registry.register("a", 2), Ok(Some(1)));
        registry.withdraw("a", 1); // the older connection breaks at last
        assert_eq!(registry.find("a"), Some(2));
        registry.withdraw("a", 2);
        assert_eq!(registry.find("a"), None);
    }

    #[test]
    fn a_stream_is_taken_once_and_by_whom_it_is_for() {
        let mut registry = Registry::default();
        let ticket = registry.open("b", "a's stream").unwrap();
        assert!(registry.take("c", ticket).unwrap_err().contains("somebody else"));
        assert_eq!(registry.take("b", ticket), Ok("a's stream"));
        assert!(registry.take("b", ticket).unwrap_err().contains("any more"));
    }

    #[test]
    fn streams_that_nobody_takes_are_bounded() {
        let mut registry = Registry::default();
        for number in 0..WAITING_MAX {
            registry.open("b", number).unwrap();
        }
        assert!(registry.open("b", 0).unwrap_err().contains("wait to be taken"));
        registry.give_up(1).unwrap();
        assert!(registry.open("b", 0).is_ok());
    }
}
