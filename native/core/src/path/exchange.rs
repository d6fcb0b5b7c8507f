//! Patterns over paths: send and receive at once, cycle, barrier, scatter, gather.

use std::time::{Duration, Instant};

use super::{until, Lane, Path, Received};
use crate::buffer::Buffer;
use crate::error::{Error, Result};

/// A message that is lent is copied at once up to this size; of a longer one only what is not with the kernel when it might be.
const COPIED: usize = 128 * 1024;

impl Path {
    /// Sends a message from memory that belongs to the caller again when this returns: what has not left by then is copied. False: it
    /// was not even begun within `limit`.
    ///
    /// # Errors
    /// As of [`Path::send`].
    pub fn send_from(&self, lane: Lane, bytes: &[u8], limit: Option<Duration>) -> Result<bool> {
        if bytes.len() <= COPIED {
            return self.send(lane, Buffer::copy_of(bytes), limit);
        }
        if !self.wait_room(lane, limit)? {
            return Ok(false);
        }
        // SAFETY: nobody but this path has the buffer or a part of it, and it has none when this function returns, however it does.
        let lent = unsafe { Buffer::wrap(bytes.as_ptr(), bytes.len(), Box::new(())) };
        let ticket = self.post(lane, lent.clone())?;
        let owned = Owned { path: self, lent };
        let status = self.wait_left(ticket, limit);
        drop(owned);
        status.map(|_| true)
    }

    /// Sends one message and receives one; both travel at once, and neither side needs to know how long the other's is.
    ///
    /// # Errors
    /// As of [`Path::send`] and [`Path::receive`]; [`Error::Late`] if nothing comes within `limit`.
    pub fn send_receive(&self, lane: Lane, message: impl Into<Buffer>, limit: Option<Duration>) -> Result<Received> {
        cycle(self, self, lane, message, limit)
    }

    /// Waits until both ends have come here as many times; everything that either sent on the bulk lane before has come then. False: the
    /// other end has not within `limit`.
    ///
    /// # Errors
    /// Why the path has failed; [`Error::Protocol`] if the other end has finished before it has come here as many times.
    pub fn barrier(&self, limit: Option<Duration>) -> Result<bool> {
        Ok(self.barrier_again(&mut None, limit)?.is_some())
    }

    /// The same for those who wait in several pieces: `number` is none in the first, and kept between them.
    ///
    /// # Errors
    /// As of [`Path::barrier`].
    pub fn barrier_again(&self, number: &mut Option<u64>, limit: Option<Duration>) -> Result<Option<()>> {
        let mine = match *number {
            Some(mine) => mine,
            None => {
                let mine = self.shared.session().send_barrier().ok_or_else(super::finished)?;
                self.shared.pump();
                *number.insert(mine)
            }
        };
        self.shared.wait(until(limit), || {
            let session = self.shared.session();
            if session.inbox(Lane::Bulk).barriers() >= mine {
                return Ok(Some(()));
            }
            if session.peer_has_finished_on(Lane::Bulk) {
                let problem = "it has finished, and comes to no barrier any more".to_owned();
                return Err(Error::Protocol { peer: self.peer().to_owned(), problem });
            }
            Ok(None)
        })
    }
}

/// Takes memory of a caller back, whatever happens.
struct Owned<'a> {
    path: &'a Path,
    lent: Buffer,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.path.own(&self.lent);
    }
}

/// Sends a message on one path and receives one from another (or the same).
///
/// # Errors
/// As of [`Path::send_receive`].
pub fn cycle(
    to: &Path,
    from: &Path,
    lane: Lane,
    message: impl Into<Buffer>,
    limit: Option<Duration>,
) -> Result<Received> {
    if !to.send(lane, message, limit)? {
        return Err(late(to, "took no message", limit));
    }
    from.receive(lane, limit)?.ok_or_else(|| late(from, "sent no message", limit))
}

/// Sends each path its part.
///
/// # Errors
/// [`Error::Usage`] if there are not as many parts as paths; else as of [`Path::send`].
pub fn scatter(paths: &[&Path], lane: Lane, parts: Vec<Buffer>, limit: Option<Duration>) -> Result<()> {
    if parts.len() != paths.len() {
        let problem = format!("{} parts for {} paths: each takes one", parts.len(), paths.len());
        return Err(Error::Usage { problem });
    }
    for (path, part) in paths.iter().zip(parts) {
        if !path.send(lane, part, limit)? {
            return Err(late(path, "took no message", limit));
        }
    }
    Ok(())
}

/// Receives one message of each path, in their order. None is taken before all have come: after an error they are all still there.
///
/// # Errors
/// [`Error::Usage`] if a path is there twice, [`Error::Late`] if one brings nothing within `limit`, [`Error::Protocol`] if one has ended; else as of [`Path::receive`].
pub fn gather(paths: &[&Path], lane: Lane, limit: Option<Duration>) -> Result<Vec<Buffer>> {
    if (1..paths.len()).any(|at| paths[..at].iter().any(|other| std::ptr::eq(*other, paths[at]))) {
        return Err(Error::Usage { problem: "a path is there twice; expected each path once".to_owned() });
    }
    let until = until(limit);
    let left = || until.map(|until| until.saturating_duration_since(Instant::now()));
    for path in paths {
        match path.wait_next(lane, left())? {
            Some(Some(_)) => {}
            Some(None) => {
                return Err(Error::Protocol { peer: path.peer().to_owned(), problem: "it has ended".to_owned() })
            }
            None => return Err(late(path, "sent no message", limit)),
        }
    }
    let part = |path: &&Path| match path.receive(lane, left())? {
        Some(Received::Message(part)) => Ok(part),
        _ => Err(Error::Usage { problem: format!("another thread has taken the message of {}", path.peer()) }),
    };
    paths.iter().map(part).collect()
}

fn late(path: &Path, what: &str, limit: Option<Duration>) -> Error {
    let within = limit.map(|limit| format!(" within {} s", limit.as_secs_f64())).unwrap_or_default();
    Error::Late { peer: path.peer().to_owned(), problem: format!("it {what}{within}") }
}
