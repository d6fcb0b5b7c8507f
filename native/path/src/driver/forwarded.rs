//! What a relay passes on by a path: of what has come through, the end that sent it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use xmml_wire::lock::lock;

use crate::frame::Lane;

use super::Shared;

/// What is on its way on a path, and where it has come from.
pub(crate) struct ForwardedMessages {
    from: Weak<Shared>,
    /// By lane, in the order in which they were sent.
    marks: Mutex<[VecDeque<PositionPair>; 2]>,
}

/// What lies before `from` on the lane of the path on which it came is delivered when what lies before `to` is on that on which it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionPair {
    pub from: u64,
    pub to: u64,
}

impl ForwardedMessages {
    /// Nothing yet of what comes on `path`.
    pub fn from(path: &Arc<Shared>) -> ForwardedMessages {
        ForwardedMessages { from: Arc::downgrade(path), marks: Mutex::default() }
    }

    /// Takes down where a message, or the end of a lane, stands on both paths.
    pub fn mark(&self, lane: Lane, mark: PositionPair) {
        self.marks()[lane as usize].push_back(mark);
    }

    fn marks(&self) -> MutexGuard<'_, [VecDeque<PositionPair>; 2]> {
        lock(&self.marks)
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
    pub(crate) fn hand_back(&self) {
        let onward = lock(&self.onward).clone();
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
