//! Messages on their way from memory that belongs to a caller, to one path or several.

use std::fmt;
use std::time::Duration;

use xmml_wire::buffer::Buffer;
use xmml_wire::error::{Error, Result};

use crate::frame::Lane;
use crate::limit::left;
use crate::path::{Path, Ticket};

/// A message that is lent is copied at once up to this size; of a longer one only what is not with the kernel when it might be.
const COPIED: usize = 128 * 1024;

/// What a wait for several paths brings: what was waited for, or who was late.
pub type InTime<'a, T> = std::result::Result<T, Late<'a>>;

/// Whose doing it was that a time has passed.
#[derive(Clone, Copy, Debug)]
pub struct Late<'a> {
    pub(super) path: &'a Path,
    /// What it has not done: "took no message".
    pub(super) what: &'static str,
}

impl Late<'_> {
    /// The error for those who have waited so long.
    pub fn within(self, limit: Option<Duration>) -> Error {
        let within = limit.map(|limit| format!(" within {} s", limit.as_secs_f64())).unwrap_or_default();
        Error::Late { peer: self.path.peer().to_owned(), problem: format!("it {}{within}", self.what) }
    }
}

impl fmt::Display for Late<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in this time", self.path.peer(), self.what)
    }
}

/// One message for each of some paths, for those who wait in several pieces.
pub struct Sending<'a> {
    lane: Lane,
    takes_back: bool,
    waiting: Vec<(&'a Path, Buffer)>,
    lent: Vec<Lent<'a>>,
}

/// A message that the path reads where it lies.
struct Lent<'a> {
    path: &'a Path,
    message: Buffer,
    ticket: Ticket,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.path.own(&self.message);
    }
}

impl<'a> Sending<'a> {
    /// The messages are kept until they have arrived. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are not as many messages as paths.
    pub fn new(paths: &[&'a Path], lane: Lane, messages: Vec<Buffer>) -> Result<Sending<'a>> {
        if messages.len() != paths.len() {
            let problem = format!("{} parts for {} paths: each takes one", messages.len(), paths.len());
            return Err(Error::Usage { problem });
        }
        let waiting = paths.iter().copied().zip(messages).collect();
        Ok(Sending { lane, takes_back: false, waiting, lent: Vec::new() })
    }

    /// The same, but memory that may change ([`Buffer::is_constant`]) belongs to who has lent it again when this is dropped: what has not
    /// left by then is copied.
    ///
    /// # Errors
    /// As of [`Sending::new`].
    pub fn lent(paths: &[&'a Path], lane: Lane, messages: Vec<Buffer>) -> Result<Sending<'a>> {
        Ok(Sending { takes_back: true, ..Sending::new(paths, lane, messages)? })
    }

    pub(super) fn lane(&self) -> Lane {
        self.lane
    }

    /// Waits until each path has room, and begins to send on all of them. On none if one has no room within `limit`; to be called again
    /// then.
    ///
    /// # Errors
    /// As of [`Path::send`].
    pub fn begin(&mut self, limit: Option<Duration>) -> Result<InTime<'a, ()>> {
        let left = left(limit);
        for (path, _) in &self.waiting {
            if !path.wait_room(self.lane, left())? {
                return Ok(Err(Late { path, what: "took no message" }));
            }
        }
        for (path, message) in self.waiting.drain(..) {
            if !self.takes_back || message.is_constant() {
                path.post(self.lane, message)?;
            } else if message.len() <= COPIED {
                path.post(self.lane, Buffer::copy_of(&message))?;
            } else {
                let ticket = path.post(self.lane, message.clone())?;
                self.lent.push(Lent { path, message, ticket });
            }
        }
        Ok(Ok(()))
    }

    /// Waits until all that is taken back has left at least once; false: not within `limit`.
    ///
    /// # Errors
    /// Why a path has failed.
    pub fn wait_left(&self, limit: Option<Duration>) -> Result<bool> {
        let left = left(limit);
        for lent in &self.lent {
            if !lent.path.wait_left(lent.ticket, left())? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
