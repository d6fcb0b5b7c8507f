//! The sending end of a conduit: numbers messages, counts what the receiver has not taken yet, and keeps what may have to be sent
//! (again).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::connection::Outgoing;
use xmml_wire::frame;

use crate::conduit::meter::Meter;
use crate::spec::ConduitSpec;

/// Of so many messages one is timed: a look at the clock is dear.
const TIMED_EVERY: u64 = 32;

/// Whether a message can be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Yes.
    Free,
    /// Not before the receiver has taken some.
    Full,
    /// The receiver has left: it would be dropped.
    Gone,
}

/// A frame to be written to the connection; `None`: it waits here.
pub type Now = Option<Outgoing>;

/// How frames leave this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// No connection yet (or none now): frames wait here.
    Held,
    /// Frames go to the connection and are its business.
    Once,
    /// Frames go to the connection, and stay here until the receiver has them.
    Kept,
}

/// The sending end of one conduit.
#[derive(Debug)]
pub struct SendingEnd {
    /// The coupling.
    pub spec: Arc<ConduitSpec>,
    /// Which link to the receiver it uses.
    pub link: usize,
    /// The link that it will use as soon as that has a connection.
    pub next_link: Option<usize>,
    /// The change of methods that has not come about yet, by its number.
    pub change: Option<u64>,
    /// It was made by a handle, and nothing has gone out by it yet: the receiver, who has nothing, need not say so.
    pub is_fresh: bool,
    /// Messages sent; also the sequence number of the last one.
    pub sent: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Messages that will never be received because the receiver has left.
    pub dropped: u64,
    /// Messages that a newer one has replaced before the receiver asked for the newest.
    pub replaced: u64,
    /// How fast that grows.
    pub meter: Meter,
    /// Time stamp of the last message.
    pub last_timestamp: f64,
    taken: u64,
    capacity: u32,
    byte_budget: u64,
    untaken_sizes: VecDeque<u64>,
    untaken_bytes: u64,
    /// The receiver, which sees the newest message only, asks for what comes after this one.
    asked_after: Option<u64>,
    kept: VecDeque<(u64, Outgoing)>,
    flow: Flow,
    /// Up to this number frames were left to a connection that the conduit does not use any more.
    left_behind: u64,
    /// A message whose receipt is awaited, and when it was sent.
    timed: Option<(u64, Instant)>,
    /// From sending to the receipt, lately.
    latency: Option<Duration>,
    ended: bool,
    gone: bool,
}

impl SendingEnd {
    /// Nothing sent yet.
    pub fn new(spec: impl Into<Arc<ConduitSpec>>, link: usize) -> SendingEnd {
        let spec = spec.into();
        SendingEnd {
            capacity: spec.room(),
            byte_budget: spec.byte_budget,
            spec,
            link,
            next_link: None,
            change: None,
            is_fresh: false,
            sent: 0,
            bytes: 0,
            dropped: 0,
            replaced: 0,
            meter: Meter::new(),
            last_timestamp: f64::NEG_INFINITY,
            taken: 0,
            untaken_sizes: VecDeque::new(),
            untaken_bytes: 0,
            asked_after: None,
            kept: VecDeque::new(),
            flow: Flow::Held,
            left_behind: 0,
            timed: None,
            latency: None,
            ended: false,
            gone: false,
        }
    }

    /// Of a conduit that was made by a handle.
    pub fn fresh(spec: impl Into<Arc<ConduitSpec>>, link: usize) -> SendingEnd {
        SendingEnd { is_fresh: true, ..SendingEnd::new(spec, link) }
    }

    /// Whether a message of `bytes` can be sent. One always can when the conduit is empty.
    pub fn room(&self, bytes: u64) -> Room {
        let untaken = self.untaken();
        if self.gone {
            Room::Gone
        } else if untaken == 0
            || (untaken < u64::from(self.capacity) && self.untaken_bytes.saturating_add(bytes) <= self.byte_budget)
        {
            Room::Free
        } else {
            Room::Full
        }
    }

    /// Bytes of what was sent and is not known to have been taken.
    pub fn untaken_bytes(&self) -> u64 {
        self.untaken_bytes
    }

    /// Whether receipts may be waiting in the connection: the receiver sends none before it has taken so many.
    pub fn may_have_receipts(&self) -> bool {
        let untaken = self.untaken();
        untaken >= super::receipt_every(self.spec.capacity) || self.untaken_bytes >= super::RECEIPT_BYTES
    }

    /// Number of the next message.
    pub fn next_sequence(&self) -> u64 {
        self.sent + 1
    }

    /// Sends the message with the next number; there must be room.
    pub fn send(&mut self, frame: Outgoing, bytes: u64) -> Now {
        self.count(bytes);
        self.pass(self.sent, frame)
    }

    /// Counts a message with the next number that was written to the connection already; there must have been room.
    pub fn count(&mut self, bytes: u64) {
        self.sent += 1;
        self.bytes += bytes;
        self.untaken_sizes.push_back(bytes);
        self.untaken_bytes += bytes;
        // One with which a receipt is due: the receipt of others waits until more are sent.
        let every = super::receipt_every(self.spec.capacity);
        if self.sent % every == 0 && self.sent % TIMED_EVERY < every && self.timed.is_none() {
            self.timed = Some((self.sent, Instant::now()));
        }
    }

    /// How many messages the receiver has not taken, as far as is known.
    pub fn untaken(&self) -> u64 {
        self.sent - self.taken
    }

    /// Counts a message that has no receiver any more.
    pub fn drop_message(&mut self) {
        self.dropped += 1;
    }

    /// Ends the conduit behind all messages.
    pub fn end(&mut self) -> Now {
        if self.ended || self.gone {
            return None;
        }
        self.ended = true;
        self.pass(self.sent + 1, frame::encode_end(self.spec.id, self.sent + 1).to_vec().into())
    }

    /// Whether nothing more will be sent.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    fn pass(&mut self, sequence: u64, frame: Outgoing) -> Now {
        match self.flow {
            Flow::Held => {
                if self.kept.capacity() == 0 {
                    self.kept.reserve_exact(1); // frames are large, and very many conduits may wait for their first connection
                }
                self.kept.push_back((sequence, frame));
                None
            }
            Flow::Once => Some(frame),
            Flow::Kept => {
                self.kept.push_back((sequence, frame.clone()));
                Some(frame)
            }
        }
    }

    /// Whether frames wait here because there is no connection (or the receiver has not said yet what it has).
    pub fn is_held(&self) -> bool {
        self.flow == Flow::Held && !self.gone
    }

    /// Whether frames stay here after they were handed to the connection (then they must own what they hold).
    pub fn keeps(&self) -> bool {
        self.flow != Flow::Once
    }

    /// The receiver has taken everything up to `sequence`. An error names what is impossible.
    pub fn on_receipt(&mut self, sequence: u64) -> Result<(), String> {
        self.has_arrived(sequence)?;
        // On a slow connection an older question may come again behind a newer one.
        self.asked_after = self.asked_after.max(Some(sequence));
        while self.taken < sequence.min(self.sent) {
            self.taken += 1;
            self.untaken_bytes -= self.untaken_sizes.pop_front().unwrap_or(0);
        }
        if let Some((_, sent)) = self.timed.take_if(|(timed, _)| *timed <= sequence) {
            let now = sent.elapsed();
            self.latency = Some(self.latency.map_or(now, |before| (before * 3 + now) / 4));
        }
        Ok(())
    }

    /// Whether the receiver lacks nothing but a message that it has asked for; one that sees every message need not ask.
    pub fn may_be_given(&self) -> bool {
        !self.spec.is_latest() || self.asked_after == Some(self.sent)
    }

    /// The receiver has everything up to `sequence`, taken or not.
    pub fn has_arrived(&mut self, sequence: u64) -> Result<(), String> {
        let last = self.sent + u64::from(self.ended);
        if sequence > last {
            return Err(format!("{}: it acknowledges message {sequence} of {last}", self.spec.name));
        }
        while self.kept.front().is_some_and(|(kept, _)| *kept <= sequence) {
            self.kept.pop_front();
        }
        Ok(())
    }

    /// A connection is there, and the receiver says what it has: hands out the rest. If the connection may break (`breaks`), copies
    /// stay here. On a connection that flows already it is only an acknowledgement.
    pub fn resend_from(&mut self, sequence: u64, can_break: bool) -> Result<Vec<Outgoing>, String> {
        self.has_arrived(sequence)?;
        if self.flow != Flow::Held {
            return Ok(Vec::new());
        }
        self.is_fresh = false;
        let mut frames: Vec<Outgoing> = self.continues(sequence).into_iter().collect();
        if can_break {
            self.flow = Flow::Kept;
            frames.extend(self.kept.iter().map(|(_, frame)| frame.clone()));
        } else {
            self.flow = Flow::Once;
            // Nothing is kept any more, so nor is the memory for it.
            frames.extend(std::mem::take(&mut self.kept).into_iter().map(|(_, frame)| frame));
        }
        Ok(frames)
    }

    /// Goes over to another connection, whose receiver has everything up to `sequence` (0 if it has not said): hands out what that must
    /// carry first. What was given to a connection that does not break stays there, and arrives there; what was kept goes out again.
    pub fn go_over(&mut self, sequence: u64, can_break: bool) -> Result<Vec<Outgoing>, String> {
        if self.flow == Flow::Once {
            self.has_arrived(sequence)?;
            self.left_behind = self.sent + u64::from(self.ended);
            self.flow = if can_break { Flow::Kept } else { Flow::Once };
            return Ok(self.continues(sequence).into_iter().collect());
        }
        self.hold();
        self.resend_from(sequence, can_break)
    }

    /// Says that frames are still under way on another connection, unless the receiver has them.
    fn continues(&self, sequence: u64) -> Option<Outgoing> {
        (sequence < self.left_behind).then(|| frame::encode_continues(self.spec.id, self.left_behind).to_vec().into())
    }

    /// How long a message took lately until the receiver had taken it and this end had heard of that.
    pub fn latency(&self) -> Option<Duration> {
        self.latency
    }

    /// The connection is lost: from now on frames wait here.
    pub fn hold(&mut self) {
        self.flow = Flow::Held;
    }

    /// The receiver has left, having taken `taken` messages.
    pub fn receiver_gone(&mut self, taken: u64) -> Result<(), String> {
        if self.gone {
            return Ok(());
        }
        if taken > self.sent || taken < self.taken {
            let (name, sent, before) = (&self.spec.name, self.sent, self.taken);
            return Err(format!(
                "{name}: it left having taken {taken} messages of {sent}, of which it had taken {before}"
            ));
        }
        self.gone = true;
        match self.spec.pool.as_ref().is_some_and(|pool| pool.has_backlog()) {
            true => self.taken = taken, // what it has not taken goes back to the backlog
            false => self.dropped += self.sent - taken,
        }
        self.forget();
        Ok(())
    }

    /// The receiver has died: what it had taken, beyond what it has acknowledged, nobody knows.
    pub fn receiver_died(&mut self) {
        self.gone = true;
        if self.spec.pool.as_ref().is_none_or(|pool| !pool.has_backlog()) {
            self.dropped += self.sent - self.taken;
        }
        self.forget();
    }

    /// Nobody takes any more what was sent.
    fn forget(&mut self) {
        self.kept.clear();
        self.untaken_sizes.clear();
        self.untaken_bytes = 0;
    }

    /// Whether the receiver has left.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// How many messages the receiver is known to have, its end counted as one.
    pub fn arrived(&self) -> u64 {
        (self.sent + u64::from(self.ended)).saturating_sub(self.kept.len() as u64)
    }

    /// Whether nothing waits here: all is with the connection, or with the receiver, or has no receiver any more.
    pub fn is_flushed(&self) -> bool {
        self.gone || self.kept.is_empty()
    }

    /// Whether no frame waits here for a connection: all were handed to one.
    pub fn is_handed_over(&self) -> bool {
        self.gone || self.flow != Flow::Held || self.kept.is_empty()
    }

    /// Whether this end waits for nothing but a first connection, and has no message to deliver by it.
    pub fn is_unused(&self) -> bool {
        self.gone || (self.sent == 0 && self.flow == Flow::Held)
    }

    /// Lets the conduit hold more.
    pub fn grow(&mut self, capacity: u32) {
        if capacity > self.capacity || self.spec.pool.is_some() {
            self.capacity = self.capacity.max(capacity);
            self.byte_budget = self.byte_budget.saturating_mul(2);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::spec::PoolSpec;

    pub(in crate::conduit) fn spec(capacity: u32, byte_budget: u64) -> ConduitSpec {
        ConduitSpec { capacity, byte_budget, ..ConduitSpec::new(1, ("a", "o"), ("b", "i")) }
    }

    /// Of a conduit that shows the newest only.
    pub(in crate::conduit) fn latest() -> ConduitSpec {
        let pool = Some(Box::new(PoolSpec { is_latest: true, ..PoolSpec::default() }));
        ConduitSpec { pool, ..spec(1, 0) }
    }

    fn frame() -> Outgoing {
        vec![0; 4].into()
    }

    #[test]
    fn a_conduit_is_full_at_its_capacity_and_free_after_a_receipt() {
        let mut end = SendingEnd::new(spec(2, 1000), 0);
        end.send(frame(), 10);
        assert_eq!(end.room(10), Room::Free);
        end.send(frame(), 10);
        assert_eq!(end.room(10), Room::Full);
        end.on_receipt(1).unwrap();
        assert_eq!(end.room(10), Room::Free);
    }

    #[test]
    fn a_message_above_the_byte_budget_fits_only_into_an_empty_conduit() {
        let mut end = SendingEnd::new(spec(10, 100), 0);
        assert_eq!(end.room(5000), Room::Free);
        end.send(frame(), 60);
        assert_eq!(end.room(41), Room::Full);
        assert_eq!(end.room(40), Room::Free);
        end.on_receipt(1).unwrap();
        assert_eq!(end.room(5000), Room::Free);
    }

    #[test]
    fn a_message_is_timed_with_which_a_receipt_is_due() {
        for (capacity, timed) in [(1, 32), (10, 35), (1000, 32)] {
            let mut end = SendingEnd::new(spec(capacity, 1 << 20), 0);
            let first = (1..).find(|number| {
                end.send(frame(), 1);
                let is_timed = end.timed.is_some();
                end.on_receipt(*number).unwrap();
                is_timed
            });
            assert_eq!(first, Some(timed), "room for {capacity}");
        }
    }

    #[test]
    fn growing_makes_room() {
        let mut end = SendingEnd::new(spec(1, 1000), 0);
        end.send(frame(), 10);
        assert_eq!(end.room(1), Room::Full);
        end.grow(2);
        assert_eq!(end.room(1), Room::Free);
    }

    #[test]
    fn growing_makes_room_for_bytes_too() {
        let mut end = SendingEnd::new(spec(4, 100), 0);
        end.send(frame(), 80);
        assert_eq!(end.room(80), Room::Full);
        end.grow(8);
        assert_eq!(end.room(80), Room::Free);
    }

    #[test]
    fn messages_wait_for_a_connection_and_are_sent_once_over_one_that_does_not_break() {
        let mut end = SendingEnd::new(spec(10, 1000), 0);
        assert!(end.send(frame(), 1).is_none());
        assert!(!end.is_flushed());
        assert_eq!(end.resend_from(0, false).unwrap().len(), 1);
        assert!(end.send(frame(), 1).is_some());
        assert!(end.is_flushed());
    }

    #[test]
    fn over_one_that_breaks_messages_are_kept_until_the_receiver_has_them() {
        let mut end = SendingEnd::new(spec(10, 1000), 0);
        end.send(frame(), 1);
        assert_eq!(end.resend_from(0, true).unwrap().len(), 1);
        assert!(end.send(frame(), 1).is_some());
        assert!(end.end().is_some());
        end.hold();
        assert_eq!(end.resend_from(1, true).unwrap().len(), 2);
        assert!(end.resend_from(3, true).unwrap().is_empty());
        assert!(end.is_flushed());
    }

    #[test]
    fn what_was_left_to_the_connection_before_is_announced_to_the_next_one() {
        let mut end = SendingEnd::new(spec(10, 1000), 0);
        end.resend_from(0, false).unwrap();
        end.send(frame(), 1);
        end.send(frame(), 1);
        assert_eq!(end.go_over(1, true).unwrap().len(), 1);
        assert!(end.send(frame(), 1).is_some());
        end.hold();
        assert_eq!(end.resend_from(1, true).unwrap().len(), 2, "announced again, and message 3");
        end.hold();
        assert_eq!(end.resend_from(2, true).unwrap().len(), 1, "message 3");
    }

    #[test]
    fn what_was_kept_goes_out_again_by_the_next_connection() {
        let mut end = SendingEnd::new(spec(10, 1000), 0);
        end.resend_from(0, true).unwrap();
        end.send(frame(), 1);
        end.send(frame(), 1);
        assert_eq!(end.go_over(1, false).unwrap().len(), 1);
        assert!(end.is_flushed());
    }

    #[test]
    fn the_newest_is_given_to_a_receiver_that_asks_for_what_comes_after_all_that_was_sent() {
        let mut end = SendingEnd::new(latest(), 0);
        assert!(!end.may_be_given());
        end.on_receipt(0).unwrap();
        assert!(end.may_be_given());
        end.send(frame(), 1);
        end.on_receipt(0).unwrap();
        assert!(!end.may_be_given(), "asked again by another connection");
        end.on_receipt(1).unwrap();
        assert!(end.may_be_given());
        end.on_receipt(0).unwrap();
        assert!(end.may_be_given(), "an older question came late");
    }

    #[test]
    fn an_acknowledgement_of_what_was_not_sent_is_an_error() {
        let mut end = SendingEnd::new(spec(10, 1000), 0);
        end.send(frame(), 1);
        assert!(end.on_receipt(2).unwrap_err().contains("message 2 of 1"));
    }

    #[test]
    fn a_receiver_that_left_with_more_than_was_sent_or_less_than_it_had_taken_is_not_believed() {
        let mut end = SendingEnd::new(spec(10, 1000), 0);
        for _ in 0..5 {
            end.send(frame(), 1);
        }
        end.on_receipt(3).unwrap();
        assert!(end.receiver_gone(6).unwrap_err().contains("6 messages of 5"));
        assert!(end.receiver_gone(2).unwrap_err().contains("had taken 3"));
        assert!(!end.is_gone());
    }

    #[test]
    fn what_a_receiver_that_died_has_not_acknowledged_is_dropped_and_counted() {
        let mut end = SendingEnd::new(spec(10, 1000), 0);
        for _ in 0..5 {
            end.send(frame(), 1);
        }
        assert!(!end.is_handed_over());
        end.on_receipt(2).unwrap();
        end.receiver_died();
        assert_eq!((end.room(1), end.dropped), (Room::Gone, 3));
        assert!(end.is_flushed() && end.is_handed_over());
    }

    #[test]
    fn what_the_receiver_has_not_taken_is_dropped_and_counted_when_it_leaves() {
        let mut end = SendingEnd::new(spec(10, 1000), 0);
        for _ in 0..5 {
            end.send(frame(), 1);
        }
        end.receiver_gone(2).unwrap();
        assert_eq!((end.room(1), end.dropped), (Room::Gone, 3));
        end.drop_message();
        assert_eq!(end.dropped, 4);
        assert!(end.is_flushed());
    }
}
