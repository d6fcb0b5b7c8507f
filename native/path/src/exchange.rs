//! Patterns over paths: send and receive at once, cycle, barrier, scatter, gather.

use std::time::Duration;

use xmml_wire::buffer::Buffer;
use xmml_wire::error::{Error, Result};

use super::sending::{InTime, Late, Sending};
use crate::frame::Lane;
use crate::limit::{left, until};
use crate::path::{finished, Path, Received};

impl Path {
    /// Sends a message from memory that belongs to the caller again when this returns: what has not left by then is copied. False: it
    /// was not even begun within `limit`.
    ///
    /// # Errors
    /// As of [`Path::send`].
    pub fn send_from(&self, lane: Lane, bytes: &[u8], limit: Option<Duration>) -> Result<bool> {
        let left = left(limit);
        // SAFETY: nobody but this path has the buffer or a part of it, and it has none when this function returns, however it does.
        let lent = unsafe { Buffer::wrap(bytes.as_ptr(), bytes.len()) };
        let mut sending = Sending::lent(&[self], lane, vec![lent])?;
        let has_begun = sending.begin(left())?.is_ok();
        if has_begun {
            sending.wait_left(left())?;
        }
        Ok(has_begun)
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
                let mine = self.shared.session().send_barrier().ok_or_else(finished)?;
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

/// A message to one path and one from another (or the same), for those who wait in several pieces.
pub struct Cycle<'a> {
    sending: Sending<'a>,
    from: &'a Path,
}

impl<'a> Cycle<'a> {
    /// Of a message that is not sent yet; the other comes on its lane.
    pub fn new(sending: Sending<'a>, from: &'a Path) -> Cycle<'a> {
        Cycle { sending, from }
    }

    /// Waits until the message is on its way and the other has come; to be called again if that takes longer than `limit`.
    ///
    /// # Errors
    /// As of [`Path::send`] and [`Path::receive`].
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<InTime<'a, Received>> {
        let left = left(limit);
        if let Err(late) = self.sending.begin(left())? {
            return Ok(Err(late));
        }
        Ok(self.from.receive(self.sending.lane(), left())?.ok_or(Late { path: self.from, what: NONE_CAME }))
    }
}

const NONE_CAME: &str = "sent no message";

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
    let sending = Sending::new(&[to], lane, vec![message.into()])?;
    Cycle::new(sending, from).wait(limit)?.map_err(|late| late.within(limit))
}

/// Sends each path its part, on all of them at once. On none if one has no room within `limit`.
///
/// # Errors
/// [`Error::Usage`] if there are not as many parts as paths, [`Error::Late`] if one has no room; else as of [`Path::send`].
pub fn scatter(paths: &[&Path], lane: Lane, parts: Vec<Buffer>, limit: Option<Duration>) -> Result<()> {
    Sending::new(paths, lane, parts)?.begin(limit)?.map_err(|late| late.within(limit))
}

/// Receives one message of each path, in their order. None is taken before all have come: after an error they are all still there.
///
/// # Errors
/// [`Error::Usage`] if a path is there twice, [`Error::Late`] if one brings nothing within `limit`, [`Error::Protocol`] if one has ended; else as of [`Path::receive`].
pub fn gather(paths: &[&Path], lane: Lane, limit: Option<Duration>) -> Result<Vec<Buffer>> {
    gather_again(paths, lane, limit)?.map_err(|late| late.within(limit))
}

/// The same for those who wait in several pieces: to be called again if it takes longer than `limit`.
///
/// # Errors
/// As of [`gather`].
pub fn gather_again<'a>(paths: &[&'a Path], lane: Lane, limit: Option<Duration>) -> Result<InTime<'a, Vec<Buffer>>> {
    if (1..paths.len()).any(|at| paths[..at].iter().any(|other| std::ptr::eq(*other, paths[at]))) {
        return Err(Error::Usage { problem: "a path is there twice; expected each path once".to_owned() });
    }
    let left = left(limit);
    for path in paths {
        match path.wait_next(lane, left())? {
            Some(Some(_)) => {}
            Some(None) => {
                let problem = "it has ended before its part came".to_owned();
                return Err(Error::Protocol { peer: path.peer().to_owned(), problem });
            }
            None => return Ok(Err(Late { path, what: NONE_CAME })),
        }
    }
    let part = |path: &&Path| match path.receive(lane, left())? {
        Some(Received::Message(part)) => Ok(part),
        _ => Err(Error::Usage { problem: format!("another thread has taken the message of {}", path.peer()) }),
    };
    paths.iter().map(part).collect::<Result<_>>().map(Ok)
}
