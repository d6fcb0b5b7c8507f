//! A program between two paths that passes on what comes. The ends that send are told that a message has arrived when it has come through:
//! the receipts of the path on which it came wait for those of the path on which it goes on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::thread::ScopedJoinHandle;

use super::driver::Shared;
use super::inbox::Delivers;
use super::{locked, Lane, Path};
use crate::buffer::Buffer;
use crate::error::{Error, NotPassedOn, Result};

/// Passes on every message of each path to the other, on both lanes, until both have ended; an end is passed on as well. Returns how many
/// messages went from the first to the second, and back, when all of them have arrived. Both paths are attended ([`Path::attend`]).
///
/// From here on the ends that send are told that a message has arrived when it has come through; [`super::Settings::relays`] says so from
/// the first message on.
///
/// # Errors
/// [`Error::Relay`]: why one of the paths has failed, and what it cannot say to have come through. Both are given up then, and whoever is at
/// their other ends is told. [`Error::Io`] if the system has no thread.
pub fn relay(one: &Path, other: &Path) -> Result<(u64, u64)> {
    one.attend()?;
    other.attend()?;
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

/// What is on its way on a path, and where it has come from.
pub(super) struct Onward {
    from: Weak<Shared>,
    /// By lane, in the order in which they were sent.
    marks: Mutex<[VecDeque<Mark>; 2]>,
}

/// What lies before `from` on the lane of the path on which it came is delivered when what lies before `to` is on that on which it goes on.
#[derive(Clone, Copy, Debug)]
struct Mark {
    from: u64,
    to: u64,
}

impl Onward {
    fn marks(&self) -> MutexGuard<'_, [VecDeque<Mark>; 2]> {
        locked(&self.marks)
    }

    /// Takes out what is delivered; up to which position of each lane on which it came.
    fn delivered(&self, delivered: [u64; 2]) -> [Option<u64>; 2] {
        let mut marks = self.marks();
        Lane::ALL.map(|lane| {
            let marks = &mut marks[lane as usize];
            let count = marks.partition_point(|mark| mark.to <= delivered[lane as usize]);
            marks.drain(..count).next_back().map(|mark| mark.from)
        })
    }
}

impl Shared {
    /// Of what a relay passes on by this path, tells who sent it what is delivered. To be called when receipts may have come.
    pub(super) fn hand_back(&self) {
        let onward = locked(&self.onward).clone();
        let Some(onward) = onward else { return };
        let reached = onward.delivered(self.session().sent().delivered);
        let Some(from) = onward.from.upgrade().filter(|_| reached != [None; 2]) else { return };
        let mut session = from.session();
        for lane in Lane::ALL {
            if let Some(position) = reached[lane as usize] {
                session.inbox_mut(lane).deliver(position);
            }
        }
        drop(session);
        from.pump();
    }
}

/// One direction of a relay.
struct Way<'a> {
    from: &'a Path,
    to: &'a Path,
    onward: Arc<Onward>,
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
        let onward = Arc::new(Onward { from: Arc::downgrade(&from.shared), marks: Mutex::default() });
        *locked(&to.shared.onward) = Some(onward.clone());
        let mut session = from.shared.session();
        Lane::ALL.iter().for_each(|&lane| session.inbox_mut(lane).set_delivers(Delivers::PassedOn));
        drop(session);
        let session = to.shared.session();
        Way { from, to, onward, begins: Lane::ALL.map(|lane| session.outbox(lane).end()) }
    }

    /// Both lanes, until both have ended and everything has come through, or `give_up` was called.
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
            let _ = self.end().map_err(give_up);
        }
        passed.count += control.count;
        passed.in_hand += control.in_hand;
        passed
    }

    fn pass_lane_on(&self, lane: Lane, passed: &mut Passed) -> Result<()> {
        while let Some((message, from)) = self.receive(lane)? {
            passed.in_hand.add(message.len() as u64);
            self.to.wait_room(lane, None)?;
            let to = self.to.post(lane, message)?.position();
            passed.in_hand = NotPassedOn::default();
            passed.count += 1;
            self.mark(lane, Mark { from, to });
        }
        Ok(())
    }

    /// The next message of a lane and the position behind it; `None`: it has ended.
    fn receive(&self, lane: Lane) -> Result<Option<(Buffer, u64)>> {
        let received = self.from.shared.wait(None, || {
            if let Some(taken) = self.from.take_with_end(lane) {
                return Ok(Some(Some(taken)));
            }
            Ok(self.from.has_ended(lane).then_some(None))
        })?;
        Ok(received.flatten())
    }

    fn mark(&self, lane: Lane, mark: Mark) {
        self.onward.marks()[lane as usize].push_back(mark);
        // Its receipt may have come before the mark was there.
        self.to.shared.hand_back();
    }

    /// Passes the end on, and waits until it has come through with everything before it.
    fn end(&self) -> Result<()> {
        self.to.finish();
        for lane in Lane::ALL {
            let from = self.from.shared.session().inbox(lane).taken_before();
            let to = self.to.shared.session().outbox(lane).end();
            self.mark(lane, Mark { from, to });
        }
        self.to.shared.wait(None, || Ok(self.to.shared.session().all_delivered().then_some(())))?;
        self.to.shared.hand_back();
        Ok(())
    }

    /// What was taken of `from` and is not known to have come through, when nothing passes any more.
    fn not_passed_on(&self, passed: Passed) -> NotPassedOn {
        let mut lost = passed.in_hand;
        for lane in Lane::ALL {
            lost += self.from.shared.session().inbox(lane).not_taken();
            lost += self.to.shared.session().outbox(lane).not_delivered(self.begins[lane as usize]);
        }
        lost
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
