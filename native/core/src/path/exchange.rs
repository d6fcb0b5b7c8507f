//! Patterns over paths: send and receive at once, cycle, barrier, relay, scatter, gather.

use std::sync::OnceLock;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use super::{until, Lane, Path, Received};
use crate::buffer::Buffer;
use crate::error::{Error, NotPassedOn, Result};

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
    /// Why the path has failed.
    pub fn barrier(&self, limit: Option<Duration>) -> Result<bool> {
        Ok(self.barrier_again(&mut None, limit)?.is_some())
    }

    /// The same for those who wait in several pieces: `number` is none in the first, and kept between them.
    ///
    /// # Errors
    /// Why the path has failed.
    pub fn barrier_again(&self, number: &mut Option<u64>, limit: Option<Duration>) -> Result<Option<()>> {
        let mine = match *number {
            Some(mine) => mine,
            None => {
                let mine = self.shared.session().send_barrier().ok_or_else(super::finished)?;
                self.shared.pump();
                *number.insert(mine)
            }
        };
        let come = || self.shared.session().inbox(Lane::Bulk).barriers() >= mine;
        self.shared.wait(until(limit), || Ok(come().then_some(())))
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

/// Passes on every message of each path to the other, on both lanes, until both have ended; an end is passed on as well. Returns how many
/// messages went from the first to the second, and back.
///
/// # Errors
/// [`Error::Relay`]: why one of the paths has failed, and what was lost. Both are given up then, and whoever is at their other ends is told.
pub fn relay(one: &Path, other: &Path) -> Result<(u64, u64)> {
    let failed = OnceLock::new();
    let give_up = |error: Error| {
        let reason = format!("the relay between the two ends has lost a path: {error}");
        if failed.set(error).is_ok() {
            one.shared.give_up(&reason);
            other.shared.give_up(&reason);
        }
    };
    let ways = [Way::new(one, other), Way::new(other, one)];
    let (there, back) = std::thread::scope(|scope| {
        let back = scope.spawn(|| ways[1].pass_on(&give_up));
        (ways[0].pass_on(&give_up), joined(back))
    });
    match failed.into_inner() {
        None => Ok((there.count, back.count)),
        Some(cause) => {
            let (there, back) = (ways[0].not_passed_on(there), ways[1].not_passed_on(back));
            Err(Error::Relay { cause: Box::new(cause), there, back })
        }
    }
}

/// One direction of a relay.
struct Way<'a> {
    from: &'a Path,
    to: &'a Path,
    /// Where what is passed on begins on the lanes of `to`.
    begins: [u64; 2],
}

/// What has passed one way.
#[derive(Default)]
struct Passed {
    count: u64,
    /// Taken from one path when the other did not take it any more.
    in_hand: NotPassedOn,
}

impl<'a> Way<'a> {
    fn new(from: &'a Path, to: &'a Path) -> Way<'a> {
        let session = to.shared.session();
        Way { from, to, begins: Lane::ALL.map(|lane| session.outbox(lane).end()) }
    }

    /// Both lanes, until both have ended or `give_up` was called.
    fn pass_on(&self, give_up: &(impl Fn(Error) + Sync)) -> Passed {
        let pass = |lane: Lane| {
            let mut passed = Passed::default();
            let status = self.pass_lane_on(lane, &mut passed);
            (passed, status.map_err(give_up).is_ok())
        };
        let ((mut passed, is_whole), (control, is_control_whole)) = std::thread::scope(|scope| {
            let control = scope.spawn(|| pass(Lane::Control));
            (pass(Lane::Bulk), joined(control))
        });
        if is_whole && is_control_whole {
            self.to.finish();
        }
        passed.count += control.count;
        passed.in_hand += control.in_hand;
        passed
    }

    fn pass_lane_on(&self, lane: Lane, passed: &mut Passed) -> Result<()> {
        while let Some(Received::Message(message)) = self.from.receive(lane, None)? {
            passed.in_hand.add(message.len() as u64);
            self.to.send(lane, message, None)?;
            passed.in_hand = NotPassedOn::default();
            passed.count += 1;
        }
        Ok(())
    }

    /// What was taken of `from` and is not known to have come through `to`, when nothing passes any more.
    fn not_passed_on(&self, passed: Passed) -> NotPassedOn {
        let mut lost = passed.in_hand;
        for lane in Lane::ALL {
            lost += self.from.shared.session().inbox(lane).not_taken();
            lost += self.to.shared.session().outbox(lane).not_arrived(self.begins[lane as usize]);
        }
        lost
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn late(path: &Path, what: &str, limit: Option<Duration>) -> Error {
    let within = limit.map(|limit| format!(" within {} s", limit.as_secs_f64())).unwrap_or_default();
    Error::Late { peer: path.peer().to_owned(), problem: format!("it {what}{within}") }
}
