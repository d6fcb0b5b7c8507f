//! A program between two paths that passes on what comes. The ends that send are told that a message has arrived when it has come through:
//! the receipts of the path on which it came wait for those of the path on which it goes on.

use std::sync::{Arc, OnceLock};
use std::thread::ScopedJoinHandle;

use xmml_wire::buffer::Buffer;
use xmml_wire::error::{Error, NotPassedOn, Result};
use xmml_wire::lock::lock;

use crate::inbox::Delivers;

use crate::driver::forwarded::{ForwardedMessages, PositionPair};
use crate::frame::Lane;
use crate::path::Path;

/// Passes on every message of each path to the other, on both lanes, until both have ended; an end is passed on as well. Returns how many
/// messages went from the first to the second, and back, when all of them have arrived. Both paths are attended ([`Path::attend`]).
///
/// From here on the ends that send are told that a message has arrived when it has come through; [`crate::Settings::relays`] says so from
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
    let ways = [ForwardingDirection::new(one, other), ForwardingDirection::new(other, one)];
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
struct ForwardingDirection<'a> {
    from: &'a Path,
    to: &'a Path,
    onward: Arc<ForwardedMessages>,
    /// Where what is passed on begins on the lanes of `to`.
    begins: [u64; 2],
}

/// What has passed one way.
#[derive(Default)]
struct ForwardedCount {
    count: u64,
    /// Taken from one path when the other did not take it any more.
    in_hand: NotPassedOn,
}

impl<'a> ForwardingDirection<'a> {
    fn new(from: &'a Path, to: &'a Path) -> ForwardingDirection<'a> {
        let onward = Arc::new(ForwardedMessages::from(&from.shared));
        *lock(&to.shared.onward) = Some(onward.clone());
        let mut session = from.shared.session();
        Lane::ALL.iter().for_each(|&lane| session.inbox_mut(lane).set_delivers(Delivers::PassedOn));
        drop(session);
        let session = to.shared.session();
        ForwardingDirection { from, to, onward, begins: Lane::ALL.map(|lane| session.outbox(lane).end()) }
    }

    /// Both lanes, until both have ended and everything has come through, or `give_up` was called.
    fn pass_on(&self, give_up: &(impl Fn(Error) + Sync)) -> ForwardedCount {
        let pass = |lane: Lane| {
            let mut passed = ForwardedCount::default();
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

    fn pass_lane_on(&self, lane: Lane, passed: &mut ForwardedCount) -> Result<()> {
        while let Some((message, from)) = self.receive(lane)? {
            passed.in_hand.add(message.len() as u64);
            self.to.wait_room(lane, None)?;
            let to = self.to.post(lane, message)?.position();
            passed.in_hand = NotPassedOn::default();
            passed.count += 1;
            self.mark(lane, PositionPair { from, to });
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

    fn mark(&self, lane: Lane, mark: PositionPair) {
        self.onward.mark(lane, mark);
        // Its receipt may have come before the mark was there.
        self.to.shared.hand_back();
    }

    /// Passes the end on, and waits until it has come through with everything before it.
    fn end(&self) -> Result<()> {
        self.to.finish();
        for lane in Lane::ALL {
            let from = self.from.shared.session().inbox(lane).taken_before();
            let to = self.to.shared.session().outbox(lane).end();
            self.mark(lane, PositionPair { from, to });
        }
        self.to.shared.wait(None, || Ok(self.to.shared.session().all_delivered().then_some(())))?;
        self.to.shared.hand_back();
        Ok(())
    }

    /// What was taken of `from` and is not known to have come through, when nothing passes any more.
    fn not_passed_on(&self, passed: ForwardedCount) -> NotPassedOn {
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
