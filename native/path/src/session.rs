//! The state of one end of a path, without sockets and clocks: both lanes in both directions, and which stream has taken what.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::error::NotPassedOn;

use super::frame::{ChunkHead, Lane, PathFrame, Purpose, Receipt};
use super::inbox::{Arrived, Delivers, Inbox, Part, Place};
use super::outbox::Outbox;

/// A frame to be written, and the data that belongs behind it.
#[derive(Debug)]
pub struct Outgoing {
    /// Everything but the data of a chunk.
    pub head: Vec<u8>,
    /// The data of a chunk.
    pub payload: Buffer,
    /// Of the data so many bytes, the first, belong to what an encrypted stream encrypts.
    pub closed: usize,
}

impl Outgoing {
    /// A frame without data.
    pub fn of(frame: &PathFrame) -> Outgoing {
        Outgoing { head: frame.encode(), payload: Buffer::empty(), closed: 0 }
    }

    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Bytes that an encrypted stream encrypts.
    pub fn closed_len(&self) -> usize {
        self.head.len() + self.closed
    }

    /// Whether it has no bytes; no frame has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How much may wait, and how large a message may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Positions of the control lane that may come without being asked for.
    pub control_window: u64,
    /// Positions of the bulk lane that may come without being asked for.
    pub bulk_window: u64,
    /// Bytes of the longest message that is taken.
    pub max_message: u64,
    /// Whether the program passes on what comes: it is delivered only then.
    pub relays: bool,
}

/// How far the messages of this end are, by lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Everything before was given to a stream.
    pub given: [u64; 2],
    /// Everything before has come to the other end.
    pub arrived: [u64; 2],
    /// Everything before is delivered.
    pub delivered: [u64; 2],
}

/// Pieces are not made shorter than that only because there are many streams.
const LEAST_SHARE: u64 = 64 * 1024;

/// From so many streams on, the first is kept for what is urgent.
const KEEPS_ONE_FROM: usize = 3;

/// See the module.
pub struct Session {
    outgoing: [Outbox; 2],
    incoming: [Inbox; 2],
    /// What each stream has taken and the other end is not known to have.
    streams: BTreeMap<u32, VecDeque<(Lane, Range<u64>)>>,
    /// This end says that it sends nothing more: by lane.
    finished: [bool; 2],
    /// The other end has said so, and the program has taken everything before: by lane.
    ended: [bool; 2],
    /// How many barriers this end has come to.
    barriers: u64,
}

impl Session {
    /// Nothing sent, nothing come.
    pub fn new(bounds: Bounds, pool: &BufferPool) -> Session {
        let inbox = |lane, window| Inbox::new(lane, window, bounds.max_message, pool.clone());
        let mut session = Session {
            outgoing: Lane::ALL.map(Outbox::new),
            incoming: [inbox(Lane::Control, bounds.control_window), inbox(Lane::Bulk, bounds.bulk_window)],
            streams: BTreeMap::new(),
            finished: [false; 2],
            ended: [false; 2],
            barriers: 0,
        };
        session.set_relays(bounds.relays);
        session
    }

    /// Whether the program passes on what comes. Where it does so already ([`Delivers::PassedOn`]), that stays.
    pub fn set_relays(&mut self, relays: bool) {
        let delivers = if relays { Delivers::Taken } else { Delivers::Come };
        let inboxes = self.incoming.iter_mut().filter(|inbox| inbox.delivers() != Delivers::PassedOn);
        inboxes.for_each(|inbox| inbox.set_delivers(delivers));
    }

    /// Sets how long a message may be of which nothing has come yet.
    pub fn set_max_message(&mut self, bytes: u64) {
        self.incoming.iter_mut().for_each(|inbox| inbox.set_max_message(bytes));
    }

    /// Why a message that the other end sends can not be taken: the path cannot go on without it.
    pub fn refusal(&self) -> Option<String> {
        self.incoming.iter().find_map(Inbox::refusal).map(str::to_owned)
    }

    /// How many positions have come at either end: more and more as long as a path gets on.
    pub fn progress(&self) -> u64 {
        self.incoming.iter().map(Inbox::count).sum::<u64>() + self.outgoing.iter().map(Outbox::arrived).sum::<u64>()
    }

    /// The sending end of a lane.
    pub fn outbox(&self, lane: Lane) -> &Outbox {
        &self.outgoing[lane as usize]
    }

    /// The sending end of a lane.
    pub fn outbox_mut(&mut self, lane: Lane) -> &mut Outbox {
        &mut self.outgoing[lane as usize]
    }

    /// The receiving end of a lane.
    pub fn inbox(&self, lane: Lane) -> &Inbox {
        &self.incoming[lane as usize]
    }

    /// The receiving end of a lane.
    pub fn inbox_mut(&mut self, lane: Lane) -> &mut Inbox {
        &mut self.incoming[lane as usize]
    }

    /// Queues a message; the position behind it on its lane. `None`: this end has finished.
    pub fn send(&mut self, lane: Lane, payload: Buffer) -> Option<u64> {
        self.send_message(lane, payload, false)
    }

    /// The same for a message that is protected already.
    pub fn send_protected(&mut self, lane: Lane, payload: Buffer) -> Option<u64> {
        self.send_message(lane, payload, true)
    }

    fn send_message(&mut self, lane: Lane, payload: Buffer, is_protected: bool) -> Option<u64> {
        (!self.finished[lane as usize]).then(|| self.outbox_mut(lane).push(Purpose::Data, payload, is_protected))
    }

    /// Tells the other end that this one has come to a barrier; which it is, from 1. `None`: this end has finished.
    pub fn send_barrier(&mut self) -> Option<u64> {
        if self.is_finished() {
            return None;
        }
        self.outbox_mut(Lane::Bulk).push(Purpose::Barrier, Buffer::empty(), false);
        self.barriers += 1;
        Some(self.barriers)
    }

    /// Nothing more is sent on either lane.
    pub fn finish(&mut self) {
        for lane in Lane::ALL {
            if !std::mem::replace(&mut self.finished[lane as usize], true) {
                self.outbox_mut(lane).push(Purpose::End, Buffer::empty(), false);
            }
        }
    }

    /// Whether this end has said that it sends nothing more.
    pub fn is_finished(&self) -> bool {
        self.finished[Lane::Bulk as usize]
    }

    /// Whether the other end has everything that was sent.
    pub fn all_arrived(&self) -> bool {
        self.outgoing.iter().all(|outbox| outbox.kept() == 0)
    }

    /// Whether everything that was sent is where it goes to.
    pub fn all_delivered(&self) -> bool {
        self.outgoing.iter().all(|outbox| outbox.delivered_before() == outbox.end())
    }

    /// The messages of the program that are not known to be delivered.
    pub fn not_delivered(&self) -> NotPassedOn {
        let mut found = NotPassedOn::default();
        self.outgoing.iter().for_each(|outbox| found += outbox.not_delivered(0));
        found
    }

    /// The other end has said farewell: everything has come, and is delivered.
    ///
    /// # Errors
    /// If that cannot be, for people.
    pub fn farewell(&mut self) -> Result<(), String> {
        self.outgoing.iter_mut().try_for_each(Outbox::all_delivered)
    }

    /// Whether the other end sends nothing more on this lane, and everything before that was taken.
    pub fn has_ended(&self, lane: Lane) -> bool {
        self.ended[lane as usize]
    }

    /// Whether nothing remains to be done in either direction.
    pub fn is_over(&self) -> bool {
        let passed_on = self.incoming.iter().all(Inbox::all_delivered);
        self.is_finished() && self.all_delivered() && self.peer_has_finished() && passed_on
    }

    /// Whether the other end has said on both lanes that it sends nothing more, and everything before has come.
    pub fn peer_has_finished(&self) -> bool {
        Lane::ALL.into_iter().all(|lane| self.peer_has_finished_on(lane))
    }

    /// The same of one lane.
    pub fn peer_has_finished_on(&self, lane: Lane) -> bool {
        self.ended[lane as usize] || self.inbox(lane).ends()
    }

    /// The next message of a lane for the program; an end is noted on the way.
    pub fn take(&mut self, lane: Lane) -> Option<Buffer> {
        while let Some(Arrived { purpose, payload, .. }) = self.incoming[lane as usize].take() {
            match purpose {
                Purpose::Data => return Some(payload),
                Purpose::Barrier => {} // the inbox counts them
                Purpose::End => self.ended[lane as usize] = true,
            }
        }
        None
    }

    /// Notes the end of a lane if that is what comes next.
    pub fn take_end(&mut self, lane: Lane) {
        let inbox = &self.incoming[lane as usize];
        if inbox.waiting() > 0 && inbox.next_len().is_none() {
            self.take(lane);
        }
    }

    /// What has come at this end, for the opening of a stream.
    pub fn have(&mut self) -> [Receipt; 2] {
        [self.incoming[0].receipt(), self.incoming[1].receipt()]
    }

    /// A stream may carry from now on; `have` is what has come at the other end.
    ///
    /// # Errors
    /// As of [`Session::receipted`].
    pub fn attach(&mut self, stream: u32, have: &[Receipt; 2]) -> Result<(), String> {
        have.iter().try_for_each(|receipt| self.receipted(receipt))?;
        self.streams.insert(stream, VecDeque::new());
        Ok(())
    }

    /// A stream is gone: what it had taken, and is not known to have come, is sent again by others.
    pub fn detach(&mut self, stream: u32) {
        for (lane, range) in self.streams.remove(&stream).into_iter().flatten() {
            self.outgoing[lane as usize].lose(range);
        }
        self.incoming.iter_mut().for_each(Inbox::forget_told);
    }

    /// A stream does not get on: others send what it has taken as well, receipts included. The other end takes what comes first.
    pub fn send_again(&mut self, stream: u32) {
        self.incoming.iter_mut().for_each(Inbox::forget_told);
        let Some(taken) = self.streams.get_mut(&stream) else { return };
        for (lane, range) in std::mem::take(taken) {
            self.outgoing[lane as usize].lose(range);
        }
    }

    /// How far the messages of this end are.
    pub fn sent(&self) -> Sent {
        let of = |position: fn(&Outbox) -> u64| [position(&self.outgoing[0]), position(&self.outgoing[1])];
        Sent {
            given: of(Outbox::given_before),
            arrived: of(Outbox::arrived_before),
            delivered: of(Outbox::delivered_before),
        }
    }

    /// How many streams carry.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// How much of what `stream` has taken is not known to have come.
    pub fn open_of(&self, stream: u32) -> u64 {
        self.streams.get(&stream).into_iter().flatten().map(|(_, range)| range.end - range.start).sum()
    }

    /// The next frame for `stream`: receipts first, then control, then bulk in pieces of at most `chunk` bytes, and shorter ones where
    /// little is left, so that all streams have a part of it. `None`: nothing to be sent now.
    pub fn next(&mut self, stream: u32, chunk: u64) -> Option<Outgoing> {
        let streams = self.streams.len();
        let is_kept = stream == 0 && streams >= KEEPS_ONE_FROM;
        let taken = self.streams.get_mut(&stream)?;
        let lane = Lane::ALL.into_iter().find(|&lane| self.incoming[lane as usize].receipt_is_due());
        if let Some(lane) = lane {
            return Some(Outgoing::of(&PathFrame::Receipt(self.incoming[lane as usize].receipt())));
        }
        let lanes = if is_kept { 1 } else { 2 };
        let (head, payload) = self.outgoing[..lanes].iter_mut().find_map(|outbox| {
            let share = outbox.sendable() / streams as u64;
            outbox.cut(chunk.min(share.max(LEAST_SHARE)))
        })?;
        while taken.front().is_some_and(|(lane, range)| self.outgoing[*lane as usize].has_arrived(range)) {
            taken.pop_front();
        }
        let range = head.covers(u64::from(head.length));
        match taken.back_mut() {
            Some((lane, last)) if *lane == head.lane && last.end == range.start => last.end = range.end,
            _ => taken.push_back((head.lane, range)),
        }
        Some(Outgoing { head: head.encode().to_vec(), payload, closed: head.closed() as usize })
    }

    /// Whether a stream would find something to send.
    pub fn has_work(&self) -> bool {
        self.outgoing.iter().any(|outbox| outbox.sendable() > 0 && !outbox.waits_for_credit())
            || self.incoming.iter().any(Inbox::receipt_is_due)
    }

    /// Whether more is to be sent than the streams have taken.
    pub fn has_unsent(&self) -> bool {
        self.outgoing.iter().any(|outbox| outbox.sendable() > 0)
    }

    /// Whether complete messages wait for the program.
    pub fn has_messages(&self) -> bool {
        self.incoming.iter().any(|inbox| inbox.waiting() > 0)
    }

    /// A receipt that is not urgent but goes along with what is sent anyway, or after a moment.
    pub fn late_receipt(&mut self) -> Option<Outgoing> {
        let inbox = self.incoming.iter_mut().find(|inbox| inbox.has_news())?;
        Some(Outgoing::of(&PathFrame::Receipt(inbox.receipt())))
    }

    /// Whether the other end does not know yet what has come.
    pub fn owes_receipt(&self) -> bool {
        self.incoming.iter().any(Inbox::has_news)
    }

    /// Takes in a receipt.
    ///
    /// # Errors
    /// If it claims what cannot be, for people.
    pub fn receipted(&mut self, receipt: &Receipt) -> Result<(), String> {
        self.outgoing[receipt.lane as usize].receipted(receipt)
    }

    /// Takes in the head of a chunk; its data follows by [`Session::place`] and [`Session::filled`].
    ///
    /// # Errors
    /// If there is no place for it, for people.
    pub fn begin(&mut self, chunk: &ChunkHead) -> Result<(), String> {
        self.incoming[chunk.lane as usize].begin(chunk)
    }

    /// Where the data of a chunk belongs from its byte `at` on.
    pub fn place(&mut self, chunk: &ChunkHead, at: u64) -> Place {
        self.incoming[chunk.lane as usize].place(chunk, at)
    }

    /// Gives a part back, the first `count` bytes of which are filled.
    pub fn filled(&mut self, lane: Lane, part: Part, count: usize) {
        self.incoming[lane as usize].filled(part, count);
    }
}
