//! The sending end of a lane: keeps every message until the other end has it, cuts pieces for streams, and cuts again what was lost with one.

use std::collections::VecDeque;
use std::ops::Range;

use xmml_wire::buffer::{Buffer, BufferPool, OutOfMemory};
use xmml_wire::error::NotPassedOn;

use super::frame::{ChunkHead, Lane, Purpose, Receipt, CLOSED, GRAIN, OVERHEAD};
use super::ranges::Ranges;

/// So many messages may have come to a program that passes them on and not be delivered: of each its length is kept.
pub const MOST_UNDELIVERED: usize = 1 << 20;

/// A message that the other end does not have yet.
#[derive(Debug)]
struct Queued {
    /// Its position.
    start: u64,
    purpose: Purpose,
    total: u64,
    /// Its program has protected it.
    is_protected: bool,
    /// Its bytes from `kept_from` on; those before have arrived.
    payload: Buffer,
    kept_from: u64,
}

impl Queued {
    fn end(&self) -> u64 {
        self.start + OVERHEAD + self.total
    }
}

/// See the module.
#[derive(Debug)]
pub struct Outbox {
    lane: Lane,
    messages: VecDeque<Queued>,
    /// Messages of programs that have come to the other end, which passes them on, and are not delivered: the position behind, bytes.
    passing: VecDeque<(u64, u64)>,
    /// Nothing at or behind this position has been given to a stream yet.
    next: u64,
    /// The position behind the last message.
    end: u64,
    /// What the other end has told that it has.
    arrived: Ranges,
    /// Everything before is delivered: it has come to the last end that the messages go to.
    delivered: u64,
    /// What was lost with a stream.
    lost: Ranges,
    /// The other end takes nothing at or behind this position yet.
    credit: u64,
}

impl Outbox {
    /// An empty one.
    pub fn new(lane: Lane) -> Outbox {
        Outbox {
            lane,
            messages: VecDeque::new(),
            passing: VecDeque::new(),
            next: 0,
            end: 0,
            arrived: Ranges::default(),
            delivered: 0,
            lost: Ranges::default(),
            credit: 0,
        }
    }

    /// Puts a message behind all others; returns the position behind it: when [`Outbox::delivered_before`] comes to it, it is delivered.
    pub fn push(&mut self, purpose: Purpose, payload: Buffer, is_protected: bool) -> u64 {
        let total = payload.len() as u64;
        let message = Queued { start: self.end, purpose, total, is_protected, payload, kept_from: 0 };
        self.end = message.end();
        self.messages.push_back(message);
        self.end
    }

    /// Everything before this position has come to the other end.
    pub fn arrived_before(&self) -> u64 {
        self.arrived.around(0).map_or(0, |range| range.end)
    }

    /// How many positions have come to the other end.
    pub fn arrived(&self) -> u64 {
        self.arrived.len()
    }

    /// Everything before this position is delivered: the other end has it, or if that passes it on, the end where it goes to.
    pub fn delivered_before(&self) -> u64 {
        self.delivered
    }

    /// Whether a message stays within `limit` positions that are kept, and what may be known of messages that are passed on. One always may.
    pub fn has_room(&self, limit: u64) -> bool {
        self.kept() < limit && self.passing.len() < MOST_UNDELIVERED
    }

    /// Everything before this position was given to a stream at least once.
    pub fn given_before(&self) -> u64 {
        self.next
    }

    /// The position behind the last message.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The messages of programs from this position on that are not known to be delivered.
    pub fn not_delivered(&self, from: u64) -> NotPassedOn {
        let mut found = NotPassedOn::default();
        let passing = self.passing.iter().filter(|(end, bytes)| end - OVERHEAD - bytes >= from);
        passing.for_each(|(_, bytes)| found.add(*bytes));
        let kept = self.messages.iter().filter(|message| message.start >= from && message.end() > self.delivered);
        kept.filter(|message| message.purpose == Purpose::Data).for_each(|message| found.add(message.total));
        found
    }

    /// How many positions are kept.
    pub fn kept(&self) -> u64 {
        self.end - self.arrived_before()
    }

    /// How many positions wait for a stream, as far as credit goes.
    pub fn sendable(&self) -> u64 {
        self.lost.len() + self.end.min(self.credit).saturating_sub(self.next)
    }

    /// Whether messages wait only because the other end does not take them yet.
    pub fn waits_for_credit(&self) -> bool {
        self.next < self.end && self.credit < self.end && self.next_piece(GRAIN).is_none() && self.lost.is_empty()
    }

    /// Cuts the next piece of at most `most` bytes.
    pub fn cut(&mut self, most: u64) -> Option<(ChunkHead, Buffer)> {
        let most = (most / GRAIN).max(1) * GRAIN;
        while let Some(lost) = self.lost.first() {
            let Some(message) = self.message_at(lost.start) else {
                self.lost.remove(lost);
                continue;
            };
            let data = message.start + OVERHEAD;
            let offset = lost.start.saturating_sub(data) / GRAIN * GRAIN;
            let wanted = lost.end.saturating_sub(data + offset).div_ceil(GRAIN) * GRAIN;
            let length = wanted.min(most).min(message.total - offset);
            let piece = self.piece(message, offset, length);
            self.lost.remove(piece.0.covers(length));
            return Some(piece);
        }
        let (head, payload) = self.next_piece(most)?;
        self.next = head.covers(u64::from(head.length)).end;
        Some((head, payload))
    }

    /// The next piece that was never given to a stream.
    fn next_piece(&self, most: u64) -> Option<(ChunkHead, Buffer)> {
        if self.next >= self.end {
            return None;
        }
        let message = self.message_at(self.next)?;
        let data = message.start + OVERHEAD;
        let offset = self.next.saturating_sub(data);
        let room = self.credit.checked_sub(data + offset)?;
        let left = message.total - offset;
        let length = match left <= room.min(most) {
            true => left,
            false => room.min(most) / GRAIN * GRAIN,
        };
        (length > 0 || left == 0).then(|| self.piece(message, offset, length))
    }

    fn piece(&self, message: &Queued, offset: u64, length: u64) -> (ChunkHead, Buffer) {
        let head = ChunkHead {
            lane: self.lane,
            purpose: message.purpose,
            length: length as u32,
            start: message.start,
            total: message.total,
            offset,
            is_open: message.is_protected && length > CLOSED,
        };
        let at = (offset - message.kept_from) as usize;
        (head, message.payload.slice(at..at + length as usize))
    }

    fn message_at(&self, position: u64) -> Option<&Queued> {
        let at = self.messages.partition_point(|message| message.end() <= position);
        self.messages.get(at).filter(|message| message.start <= position)
    }

    /// A stream is gone that had taken `range`: what has not come is to be sent again.
    pub fn lose(&mut self, range: Range<u64>) {
        for gap in self.arrived.gaps(range) {
            self.lost.insert(gap);
        }
    }

    /// Whether all of `range` is known to have come.
    pub fn has_arrived(&self, range: &Range<u64>) -> bool {
        self.arrived.holds(range)
    }

    /// Takes in what the other end has.
    ///
    /// # Errors
    /// If it claims to have what was never sent, for people.
    pub fn receipted(&mut self, receipt: &Receipt) -> Result<(), String> {
        let last = receipt.besides.last().map_or(receipt.all_before, |range| range.end);
        if last > self.next {
            return Err(format!("it receipts position {last} of a lane of which {} were sent", self.next));
        }
        for range in std::iter::once(0..receipt.all_before).chain(receipt.besides.iter().cloned()) {
            self.lost.remove(range.clone());
            self.arrived.insert(range);
        }
        self.credit = self.credit.max(receipt.credit);
        self.delivered = self.delivered.max(receipt.delivered.unwrap_or(receipt.all_before));
        self.forget();
        Ok(())
    }

    /// The other end says that everything has come, and is delivered.
    ///
    /// # Errors
    /// If not all of it was sent, for people.
    pub fn all_delivered(&mut self) -> Result<(), String> {
        if self.next < self.end {
            return Err(format!("it has everything of a lane of which {} of {} were sent", self.next, self.end));
        }
        self.lost = Ranges::default();
        self.arrived.insert(0..self.end);
        self.delivered = self.end;
        self.forget();
        Ok(())
    }

    /// Lets go of what has come; of what is not delivered its length is kept.
    fn forget(&mut self) {
        let before = self.arrived_before();
        while self.messages.front().is_some_and(|message| message.end() <= before) {
            let Some(message) = self.messages.pop_front() else { break };
            if message.purpose == Purpose::Data && message.end() > self.delivered {
                self.passing.push_back((message.end(), message.total));
            }
        }
        while self.passing.front().is_some_and(|(end, _)| *end <= self.delivered) {
            self.passing.pop_front();
        }
    }

    /// Copies what has not arrived of a message in the memory of `lent`, so that nothing here refers to that memory any more.
    pub fn own(&mut self, lent: &Buffer, pool: &BufferPool) -> Result<(), OutOfMemory> {
        let before = self.arrived_before();
        for message in &mut self.messages {
            if message.payload.shares_memory_with(lent) {
                let arrived = before.saturating_sub(message.start + OVERHEAD).min(message.total) / GRAIN * GRAIN;
                let from = arrived.max(message.kept_from);
                let kept = &message.payload[(from - message.kept_from) as usize..];
                (message.payload, message.kept_from) = (pool.copy_of(kept)?, from);
            }
        }
        Ok(())
    }
}
