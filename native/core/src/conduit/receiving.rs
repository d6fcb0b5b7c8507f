//! The receiving end of a conduit: checks numbers, queues messages, and tells the sender what was taken.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use xmml_wire::connection::Connection;
use xmml_wire::frame::{self, MessageFrame};
use xmml_wire::message::Message;

use crate::conduit::meter::Meter;
use crate::filters;
use crate::spec::ConduitSpec;

/// How much more than a conduit holds may wait here: a sender may hear before this end that the conduit has grown.
const EXCESS: u64 = 4;

/// The same of a conduit that holds few messages.
const EXCESS_MESSAGES: u64 = 64;

/// Changes of connection that may be under way at a time.
const CHANGES_MAX: usize = 1024;

/// What a frame with a number is to this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one.
    New,
    /// One that is here already (sent again after a reconnection).
    Again,
    /// One whose predecessors are still under way on the connection by which the conduit came before.
    Early,
}

/// The receiving end of one conduit.
pub struct ReceivingEnd {
    /// The coupling.
    pub spec: Arc<ConduitSpec>,
    /// Messages taken by the program (before filters).
    pub taken: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// How fast that grows.
    pub meter: Meter,
    /// Method by which messages come, once the sender has connected.
    pub method: Option<&'static str>,
    /// The connection on which they come is protected.
    pub is_protected: bool,
    /// When and why the connection was lost; cleared by the next one.
    pub lost: Option<(std::time::Instant, String)>,
    /// Every message must have a checksum.
    is_checked: bool,
    /// The connection by which the conduit comes, where that is certain; else it may be any from the sender.
    pub via: Option<Arc<Connection>>,
    /// Other methods are allowed now, and nothing has come by another connection since.
    pub is_changing: bool,
    /// How many messages, and bytes, the sender may have sent without a receipt.
    capacity: u32,
    byte_budget: u64,
    queue: VecDeque<(Message, u64)>,
    /// Bytes that wait here.
    held_bytes: u64,
    /// What came before its time, by number; `None`: the end.
    early: BTreeMap<u64, Option<(Message, u64)>>,
    /// After these numbers the sender has gone over to another connection.
    changes: Vec<u64>,
    arrived: u64,
    /// Messages that the program has dealt with, if the sender hears of that, and not when they were taken.
    settled: Option<u64>,
    /// Messages that the next one has replaced here, of a conduit that shows the newest only.
    pub replaced: u64,
    /// On such a conduit: the program was told that there is nothing after this message, and the sender was asked for what comes.
    asked_after: Option<u64>,
    receipted: u64,
    unreceipted_bytes: u64,
    /// How many messages there will ever be, once that is known.
    total: Option<u64>,
    has_sender_left: bool,
    /// Nothing more comes than what is under way by connections that have not ended.
    has_sender_died: bool,
    /// Objects without a receipt that were given to others before, who died: to how many, by number.
    redelivered: BTreeMap<u64, u32>,
}

impl ReceivingEnd {
    /// Nothing received yet.
    pub fn new(spec: impl Into<Arc<ConduitSpec>>) -> ReceivingEnd {
        let spec = spec.into();
        ReceivingEnd {
            is_checked: filters::checksum(&spec.receiver_filters).is_some(),
            capacity: spec.room(),
            // However large the newest message is, it may come while the one before is still under way by another connection.
            byte_budget: if spec.is_latest() { u64::MAX } else { spec.byte_budget },
            settled: spec.pool.as_ref().is_some_and(|pool| pool.is_queue).then_some(0),
            spec,
            taken: 0,
            bytes: 0,
            meter: Meter::new(),
            method: None,
            is_protected: false,
            lost: None,
            via: None,
            is_changing: false,
            queue: VecDeque::new(),
            held_bytes: 0,
            early: BTreeMap::new(),
            changes: Vec::new(),
            arrived: 0,
            replaced: 0,
            asked_after: None,
            receipted: 0,
            unreceipted_bytes: 0,
            total: None,
            has_sender_left: false,
            has_sender_died: false,
            redelivered: BTreeMap::new(),
        }
    }

    /// What the frame with this number is; the last one has the number `last`, if that is known.
    fn arrival(&mut self, sequence: u64, what: &str, last: Option<u64>) -> Result<Arrival, String> {
        if sequence <= self.arrived || self.early.contains_key(&sequence) {
            return Ok(Arrival::Again);
        }
        if last.is_some_and(|last| sequence > last) {
            return Err(format!("{}: {what} {sequence} came after the end", self.spec.name));
        }
        let may_be_early = self.changes.iter().any(|change| self.arrived < *change && *change < sequence);
        if may_be_early && sequence != self.arrived + 1 {
            return Ok(Arrival::Early);
        }
        if sequence != self.arrived + 1 {
            return Err(format!(
                "{}: {what} {sequence} came after {}: messages were lost",
                self.spec.name, self.arrived
            ));
        }
        self.arrived = sequence;
        Ok(Arrival::New)
    }

    /// A message came. An error names what is impossible.
    pub fn message(&mut self, frame: MessageFrame) -> Result<Arrival, String> {
        if self.is_checked && frame.checked.is_none() {
            return Err(format!("{}: message {} has lost its checksum", self.spec.name, frame.sequence));
        }
        let arrival = self.arrival(frame.sequence, "message", self.total)?;
        if arrival != Arrival::Again {
            self.make_room(frame.sequence, frame.frame_len)?;
            if let (Some(times), true) = (frame.sender_copy, self.is_settled_by_program()) {
                self.redelivered.insert(frame.sequence, times);
            }
        }
        match arrival {
            Arrival::New => {
                if self.queue.capacity() == 0 {
                    self.queue.reserve_exact(1); // left to itself it begins with four, and most conduits hold one at a time
                }
                self.queue.push_back((frame.message, frame.frame_len));
                self.take_in_early();
                self.forget_changes();
                if self.spec.is_latest() {
                    self.keep_newest();
                }
            }
            Arrival::Early => drop(self.early.insert(frame.sequence, Some((frame.message, frame.frame_len)))),
            Arrival::Again => {}
        }
        Ok(arrival)
    }

    /// Of what is queued, only the newest message is delivered.
    fn keep_newest(&mut self) {
        while self.queue.len() > 1 {
            self.take();
            self.replaced += 1;
        }
    }

    /// The program has seen nothing of a message that was taken, and gets a newer one instead, if there is one.
    pub fn take_newer(&mut self) -> Option<Message> {
        if !self.spec.is_latest() {
            return None;
        }
        let newer = self.take()?;
        self.replaced += 1;
        Some(newer)
    }

    /// One more waits here, if that may be: a sender that sends on without receipts would take all memory.
    fn make_room(&mut self, sequence: u64, bytes: u64) -> Result<(), String> {
        let waiting = (self.queue.len() + self.early.len()) as u64;
        let most = u64::from(self.capacity) * EXCESS + EXCESS_MESSAGES;
        let most_bytes = self.byte_budget.saturating_mul(EXCESS);
        let held = self.held_bytes.saturating_add(bytes);
        if waiting > 0 && (waiting >= most || held > most_bytes) {
            let (name, held) = (&self.spec.name, self.held_bytes);
            return Err(format!(
                "{name}: message {sequence} came while {waiting} ({held} bytes) wait; the conduit holds {} ({} bytes)",
                self.capacity, self.byte_budget
            ));
        }
        self.held_bytes = held;
        Ok(())
    }

    /// The conduit holds more from now on.
    pub fn grow(&mut self, capacity: u32) {
        if capacity > self.capacity || self.spec.pool.is_some() {
            self.capacity = self.capacity.max(capacity);
            self.byte_budget = self.byte_budget.saturating_mul(2);
        }
    }

    /// What came again must have come by another connection before: on one, every number comes once.
    pub fn check_repeat(&self, connection: &Connection, what: &str, sequence: u64) -> Result<(), String> {
        match self.comes_by(connection) {
            false => Ok(()),
            true => Err(format!("{}: {what} {sequence} came twice by one connection", self.spec.name)),
        }
    }

    /// Whether it is certain that messages come by this connection.
    pub fn comes_by(&self, connection: &Connection) -> bool {
        self.via.as_ref().is_some_and(|via| via.token == connection.token)
    }

    /// Messages come by this connection from now on, as far as is known.
    pub fn goes_over_to(&mut self, connection: &Connection) {
        self.method = Some(connection.method);
        self.is_protected = connection.is_protected();
    }

    /// No message comes by this connection any more.
    pub fn comes_by_no_more(&mut self, connection: &Connection) {
        self.via.take_if(|via| via.token == connection.token);
    }

    /// The connection by which the next message comes, if nothing is queued before it, none is out of order, and it needs no checksum.
    #[inline]
    pub fn straight_way(&self) -> Option<&Arc<Connection>> {
        let is_straight = self.queue.is_empty()
            && self.early.is_empty()
            && self.changes.is_empty()
            && self.total.is_none()
            && !self.is_checked;
        self.via.as_ref().filter(|_| is_straight)
    }

    /// The next message has come and is taken in one: it has this number and so many bytes. False: it is not the next one.
    #[inline]
    pub fn take_straight(&mut self, sequence: u64, bytes: u64) -> bool {
        let is_next = sequence == self.arrived + 1;
        if is_next {
            self.arrived = sequence;
            self.taken += 1;
            self.bytes += bytes;
            self.unreceipted_bytes += bytes;
        }
        is_next
    }

    /// Forgets changes of connection before which nothing is missing any more.
    fn forget_changes(&mut self) {
        if !self.changes.is_empty() {
            self.changes.retain(|change| self.arrived < *change);
        }
    }

    /// The sender says that what follows `sequence` comes on another connection than what came before.
    pub fn continues(&mut self, sequence: u64) -> Result<(), String> {
        self.forget_changes();
        if self.arrived < sequence && !self.changes.contains(&sequence) {
            if self.changes.len() >= CHANGES_MAX {
                return Err(format!(
                    "{}: it changed connections {CHANGES_MAX} times ahead of its messages",
                    self.spec.name
                ));
            }
            self.changes.push(sequence);
        }
        Ok(())
    }

    /// Whether messages come by the connection used before and by the next one at the same time.
    pub fn is_coming_by_two(&self) -> bool {
        self.changes.iter().any(|change| self.arrived < *change)
    }

    /// What came before its time, as far as nothing is missing any more.
    fn take_in_early(&mut self) {
        while let Some(early) = self.early.remove(&(self.arrived + 1)) {
            self.arrived += 1;
            match early {
                Some(message) => self.queue.push_back(message),
                None => self.total = Some(self.arrived - 1),
            }
        }
    }

    /// The sender has ended the conduit; `sequence` is one more than the number of its last message.
    pub fn end(&mut self, sequence: u64) -> Result<Arrival, String> {
        let arrival = self.arrival(sequence, "the end, with number", self.total.map(|total| total + 1))?;
        if let (Some(total), true) = (self.total.filter(|total| sequence != total + 1), arrival != Arrival::Again) {
            return Err(format!(
                "{}: it ended after {} messages, and left having sent {total}",
                self.spec.name,
                sequence.saturating_sub(1)
            ));
        }
        match arrival {
            Arrival::New => self.total = Some(sequence - 1),
            Arrival::Early => drop(self.early.insert(sequence, None)),
            Arrival::Again => {}
        }
        Ok(arrival)
    }

    /// The coordinator says that the sender has left, having sent `total` messages on this conduit.
    pub fn sender_left(&mut self, total: u64) -> Result<(), String> {
        let have = self.total.unwrap_or(self.arrived);
        if total < have || (self.total.is_some() && total != have) {
            return Err(format!("{}: it left having sent {total} messages, of which {have} have come", self.spec.name));
        }
        self.total = Some(total);
        self.has_sender_left = true;
        Ok(())
    }

    /// The sender has died. What is under way by connections that have not ended still comes.
    pub fn sender_died(&mut self) {
        self.has_sender_died = true;
    }

    /// Whether the sender has died.
    pub fn is_of_dead(&self) -> bool {
        self.has_sender_died
    }

    /// Nothing more comes from a sender that has died: the conduit ends with what is here, as if it had been ended.
    pub fn end_of_dead(&mut self) {
        self.early.clear();
        self.lost = None;
        self.total.get_or_insert(self.arrived);
    }

    /// How many of those died to whom the object with this number was given before.
    pub fn redelivered(&self, sequence: u64) -> Option<u32> {
        self.redelivered.get(&sequence).copied()
    }

    /// Whether the sender has left, and messages have not come of which it said that they were sent.
    pub fn lacks_messages_of_one_that_left(&self) -> Option<String> {
        let total = self.total.filter(|total| self.has_sender_left && self.arrived < *total)?;
        Some(format!("{}: it left having sent {total} messages, of which {} came", self.spec.name, self.arrived))
    }

    /// Fills the queue of an instance that is alone, and ends the conduit behind it.
    pub fn preload(&mut self, messages: Vec<Message>) {
        self.arrived = messages.len() as u64;
        self.total = Some(self.arrived);
        self.queue.extend(messages.into_iter().map(|message| (message, 0)));
    }

    /// Whether everything was received and taken.
    pub fn is_finished(&self) -> bool {
        self.queue.is_empty() && self.has_everything()
    }

    /// Whether nothing more will come (though something may be queued).
    pub fn has_everything(&self) -> bool {
        self.total.is_some_and(|total| self.arrived >= total)
    }

    /// Whether it is known how many messages come in all.
    pub fn has_end(&self) -> bool {
        self.total.is_some()
    }

    /// Whether a message is queued.
    pub fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next message, taken.
    pub fn take(&mut self) -> Option<Message> {
        let (message, bytes) = self.queue.pop_front()?;
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
        self.taken += 1;
        self.bytes += bytes;
        self.unreceipted_bytes += bytes;
        Some(message)
    }

    /// The program has dealt with so many messages.
    pub fn settle(&mut self, settled: u64) {
        if let Some(known) = &mut self.settled {
            *known = settled;
        }
    }

    /// Whether the sender hears of messages when the program has dealt with them: it may leave without.
    pub fn is_settled_by_program(&self) -> bool {
        self.settled.is_some()
    }

    /// How many messages the sender need not care for any more.
    pub fn done(&self) -> u64 {
        self.settled.unwrap_or(self.taken)
    }

    /// Whether the sender should hear at once what was taken.
    pub fn receipt_due(&self) -> bool {
        let unreceipted = self.done() - self.receipted;
        let has_room = self.queue.is_empty() && self.spec.pool.as_ref().is_some_and(|pool| pool.has_backlog());
        unreceipted >= super::receipt_every(self.spec.capacity)
            || self.unreceipted_bytes >= super::RECEIPT_BYTES.min(self.spec.byte_budget / 2)
            || (has_room && unreceipted > 0)
            // Whoever dies with an object must be known to have dealt with those before it.
            || (unreceipted > 0 && !self.redelivered.is_empty())
    }

    /// The frame that asks for the next message, of a conduit that shows the newest only; `None`: it was asked for, nothing more will come,
    /// or the conduit shows every message. It is a receipt, which such a conduit sends at no other time.
    pub fn encode_demand(&mut self) -> Option<Vec<u8>> {
        if !self.spec.is_latest() || self.has_everything() || self.asked_after == Some(self.taken) {
            return None;
        }
        self.asked_after = Some(self.taken);
        self.encode_demand_again()
    }

    fn encode_demand_again(&self) -> Option<Vec<u8>> {
        self.asked_after.map(|sequence| frame::encode_receipt(self.spec.id, sequence).to_vec())
    }

    /// The receipt for what was taken since the last one; `None` if that is nothing, or nobody needs it any more.
    pub fn encode_receipt(&mut self) -> Option<Vec<u8>> {
        if self.done() == self.receipted || self.has_everything() || self.spec.is_latest() {
            return None;
        }
        Some(self.receipt())
    }

    /// The receipt for all that was taken, whether or not it was said before; `None` if that is nothing.
    pub fn encode_receipt_again(&mut self) -> Option<Vec<u8>> {
        if self.spec.is_latest() {
            return self.encode_demand_again();
        }
        if self.done() == 0 {
            return None;
        }
        Some(self.receipt())
    }

    fn receipt(&mut self) -> Vec<u8> {
        self.receipted = self.done();
        self.unreceipted_bytes = 0;
        if !self.redelivered.is_empty() {
            self.redelivered.retain(|sequence, _| *sequence > self.receipted);
        }
        frame::encode_receipt(self.spec.id, self.receipted).to_vec()
    }

    /// The frame that says what has arrived: where the sender must go on, and that it may forget the rest.
    pub fn encode_resume(&self) -> Vec<u8> {
        frame::encode_resume(self.spec.id, self.arrived).to_vec()
    }

    /// The frame that says that nothing more will be taken.
    pub fn encode_gone(&self) -> Vec<u8> {
        frame::encode_gone(self.spec.id, self.done()).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sending::tests::{latest, spec};
    use super::*;

    fn message(sequence: u64) -> MessageFrame {
        MessageFrame {
            conduit: 1,
            sequence,
            sender_copy: None,
            frame_len: 100,
            checked: None,
            message: Message::default(),
        }
    }

    #[test]
    fn a_message_that_came_before_is_not_delivered_again() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        assert_eq!(end.message(message(1)), Ok(Arrival::New));
        assert_eq!(end.message(message(1)), Ok(Arrival::Again));
        assert!(end.take().is_some());
        assert!(end.take().is_none());
    }

    #[test]
    fn a_gap_in_the_numbers_is_an_error() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        assert!(end.message(message(2)).unwrap_err().contains("lost"));
    }

    #[test]
    fn a_conduit_is_finished_after_its_queued_messages() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        end.message(message(1)).unwrap();
        end.end(2).unwrap();
        assert!(!end.is_finished());
        end.take();
        assert!(end.is_finished());
        assert!(end.message(message(3)).unwrap_err().contains("after the end"));
    }

    #[test]
    fn a_sender_that_left_without_sending_ends_the_conduit() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        end.sender_left(0).unwrap();
        assert!(end.is_finished());
    }

    #[test]
    fn a_sender_that_left_with_messages_under_way_does_not_end_it_before_they_came() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        end.sender_left(1).unwrap();
        assert!(!end.is_finished());
        end.message(message(1)).unwrap();
        end.take();
        assert!(end.is_finished());
    }

    #[test]
    fn the_conduit_of_a_sender_that_died_ends_behind_what_has_come() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        end.message(message(1)).unwrap();
        end.sender_died();
        end.message(message(2)).unwrap();
        end.end_of_dead();
        assert!(end.take().is_some() && !end.is_finished());
        assert!(end.take().is_some() && end.is_finished());
    }

    #[test]
    fn a_sender_that_left_with_fewer_messages_than_came_is_not_believed() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        end.message(message(1)).unwrap();
        assert!(end.sender_left(0).unwrap_err().contains("1 have come"));
        end.end(2).unwrap();
        assert!(end.sender_left(2).unwrap_err().contains("sent 2"));
        end.sender_left(1).unwrap();
    }

    #[test]
    fn a_message_or_an_end_beyond_what_the_sender_left_with_is_an_error() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        end.sender_left(1).unwrap();
        assert!(end.end(1).unwrap_err().contains("ended after 0"));
        end.message(message(1)).unwrap();
        assert!(end.message(message(2)).unwrap_err().contains("after the end"));
    }

    #[test]
    fn a_sender_that_waits_for_no_receipt_takes_bounded_memory() {
        let mut end = ReceivingEnd::new(spec(2, 1 << 20));
        let refused = (1..).find(|number| end.message(message(*number)).is_err()).unwrap();
        assert_eq!(refused, 2 * EXCESS + EXCESS_MESSAGES + 1);
        let mut end = ReceivingEnd::new(spec(1000, 1 << 10));
        end.message(MessageFrame { frame_len: 1 << 20, ..message(1) }).unwrap();
        assert!(end.message(message(2)).unwrap_err().contains("while 1 (1048576 bytes) wait"));
        end.take();
    }

    #[test]
    fn what_comes_early_by_the_next_connection_waits_for_what_comes_late_by_the_one_before() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        end.message(message(1)).unwrap();
        end.continues(3).unwrap();
        assert_eq!(end.message(message(4)), Ok(Arrival::Early));
        assert_eq!(end.end(5), Ok(Arrival::Early));
        assert_eq!(end.message(message(4)), Ok(Arrival::Again));
        assert!(end.take().is_some() && end.take().is_none());
        assert_eq!(end.message(message(2)), Ok(Arrival::New));
        assert_eq!(end.message(message(3)), Ok(Arrival::New));
        assert!((0..3).all(|_| end.take().is_some()));
        assert!(end.is_finished());
    }

    #[test]
    fn a_gap_behind_the_change_of_connections_is_an_error_too() {
        let mut end = ReceivingEnd::new(spec(10, 1 << 20));
        end.continues(2).unwrap();
        assert!(end.message(message(2)).unwrap_err().contains("lost"));
        end.message(message(1)).unwrap();
        end.message(message(2)).unwrap();
        assert!(end.message(message(4)).unwrap_err().contains("lost"));
    }

    #[test]
    fn the_newest_is_asked_for_once_and_asks_again_by_another_connection() {
        let mut end = ReceivingEnd::new(latest());
        assert!(end.encode_demand().is_some() && end.encode_demand().is_none());
        assert!(end.encode_receipt_again().is_some());
        end.message(message(1)).unwrap();
        assert!(end.take().is_some() && end.encode_receipt().is_none());
        assert!(end.encode_demand().is_some());
        end.end(2).unwrap();
        assert!(end.encode_demand().is_none());
    }

    #[test]
    fn a_newer_message_takes_the_place_of_one_that_waits_however_large_it_is() {
        let mut end = ReceivingEnd::new(latest());
        end.message(message(1)).unwrap();
        end.message(MessageFrame { frame_len: 1 << 40, ..message(2) }).unwrap();
        assert!(end.take().is_some() && end.take().is_none());
        assert_eq!((end.taken, end.replaced), (2, 1));
    }

    #[test]
    fn receipts_come_every_half_capacity_or_every_mebibyte() {
        let mut end = ReceivingEnd::new(spec(8, 64 << 20));
        for sequence in 1..=4 {
            end.message(message(sequence)).unwrap();
            assert!(!end.receipt_due());
            end.take();
        }
        assert!(end.receipt_due());
        assert!(end.encode_receipt().is_some());
        assert!(!end.receipt_due() && end.encode_receipt().is_none());
        end.message(MessageFrame { frame_len: 2 << 20, ..message(5) }).unwrap();
        end.take();
        assert!(end.receipt_due());
    }
}
