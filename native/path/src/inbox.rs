//! The receiving end of a lane: puts pieces together in whatever order they come, hands messages on in theirs, and says how much more may
//! come.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use xmml_wire::buffer::{Buffer, BufferMut, BufferPool};
use xmml_wire::error::NotPassedOn;

use super::frame::{ChunkHead, Lane, Purpose, Receipt, MAX_RANGES, OVERHEAD};
use super::ranges::Ranges;

/// From so many positions on, what has come is receipted at once.
const RECEIPT_EVERY: u64 = 1 << 20;

/// The memory of a message that is being put together. Several streams may fill different parts of it at the same time; the inbox lends
/// each part to one at a time ([`Inbox::place`]).
pub struct Memory {
    start: *mut u8,
    len: usize,
    whole: BufferMut,
}

// SAFETY: the memory is written only through the parts that the inbox lends, each to one holder at a time.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(mut whole: BufferMut) -> Memory {
        Memory { start: whole.as_mut_ptr(), len: whole.len(), whole }
    }
}

/// A part of a message's memory, lent for one read.
pub struct Part {
    memory: Arc<Memory>,
    at: usize,
    len: usize,
    /// Its positions.
    positions: Range<u64>,
}

impl Part {
    /// The bytes to fill.
    pub fn bytes(&mut self) -> &mut [u8] {
        debug_assert!(self.at + self.len <= self.memory.len);
        // SAFETY: within the memory (checked when it was lent), initialised, and lent to this holder alone until it is given back.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(self.at), self.len) }
    }
}

/// Where the next bytes of a chunk belong.
pub enum Place {
    /// Here; to be given back with [`Inbox::filled`].
    Into(Part),
    /// So many bytes have come before, by another stream: they are read and forgotten.
    Known(u64),
    /// Another stream is just filling them: ask again.
    Busy,
}

/// A message, complete and next in its lane.
#[derive(Debug)]
pub struct Arrived {
    /// What it is for.
    pub purpose: Purpose,
    /// Its bytes.
    pub payload: Buffer,
    end: u64,
}

/// What the other end is told to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivers {
    /// What has come.
    Come,
    /// What the program has taken: it may still pass it on.
    Taken,
    /// What has come to where it was passed on to ([`Inbox::deliver`]).
    PassedOn,
}

struct Assembly {
    total: u64,
    purpose: Purpose,
    memory: Option<Arc<Memory>>,
}

/// See the module.
pub struct Inbox {
    lane: Lane,
    window: u64,
    max_message: u64,
    pool: BufferPool,
    /// Positions that have come.
    arrived: Ranges,
    /// How many they are.
    count: u64,
    /// Parts that are lent.
    lent: Ranges,
    assemblies: BTreeMap<u64, Assembly>,
    /// Where the first message begins that is not complete.
    front: u64,
    ready: VecDeque<Arrived>,
    /// Everything before this position was taken by the program.
    taken: u64,
    delivers: Delivers,
    /// Everything before this position is delivered, unless all that has come is.
    delivered: u64,
    /// Where barriers lie that have come and are not delivered: nobody passes them on.
    barriers_at: Ranges,
    credit: u64,
    /// What the other end was told last: how many positions had come, credit, what was delivered.
    told: Option<(u64, u64, Option<u64>)>,
    /// The sender waits for the receipt.
    is_urgent: bool,
    barriers: u64,
    /// Why a message that the other end sends can not be taken.
    refusal: Option<String>,
}

impl Inbox {
    /// Takes at most `window` positions that nobody has asked for, and messages of at most `max_message` bytes.
    pub fn new(lane: Lane, window: u64, max_message: u64, pool: BufferPool) -> Inbox {
        Inbox {
            lane,
            window,
            max_message,
            pool,
            arrived: Ranges::default(),
            count: 0,
            lent: Ranges::default(),
            assemblies: BTreeMap::new(),
            front: 0,
            ready: VecDeque::new(),
            taken: 0,
            delivers: Delivers::Come,
            delivered: 0,
            barriers_at: Ranges::default(),
            credit: window,
            told: None,
            is_urgent: false,
            barriers: 0,
            refusal: None,
        }
    }

    /// Sets how much may come that nobody has asked for; what was granted stays granted.
    pub fn set_window(&mut self, window: u64) {
        self.window = window;
        self.grant();
    }

    /// Sets how long a message may be of which nothing has come yet.
    pub fn set_max_message(&mut self, max_message: u64) {
        self.max_message = max_message;
    }

    /// What the other end is told to be delivered from now on; what it was told stays true.
    pub fn set_delivers(&mut self, delivers: Delivers) {
        self.is_urgent |= std::mem::replace(&mut self.delivers, delivers) != delivers;
    }

    /// What the other end is told to be delivered.
    pub fn delivers(&self) -> Delivers {
        self.delivers
    }

    /// Everything before `position` is delivered.
    pub fn deliver(&mut self, position: u64) {
        let before = self.delivered;
        self.delivered = before.max(position);
        while let Some(barriers) = self.barriers_at.first().filter(|barriers| barriers.start <= self.delivered) {
            self.delivered = self.delivered.max(barriers.end);
            self.barriers_at.remove(barriers);
        }
        self.is_urgent |= self.delivered > before && self.delivers != Delivers::Come;
    }

    /// Whether everything that has come is delivered.
    pub fn all_delivered(&self) -> bool {
        self.delivers == Delivers::Come || self.delivered >= self.arrived_before()
    }

    /// What is delivered, if that is not all that has come.
    fn delivered_before(&self) -> Option<u64> {
        (self.delivers != Delivers::Come).then_some(self.delivered)
    }

    /// Everything before this position was taken by the program.
    pub fn taken_before(&self) -> u64 {
        self.taken
    }

    /// Takes in the head of a chunk whose data follows.
    ///
    /// # Errors
    /// If there is no place for it, for people.
    pub fn begin(&mut self, chunk: &ChunkHead) -> Result<(), String> {
        let last = chunk.covers(u64::from(chunk.length)).end;
        if last > self.credit {
            return Err(format!("it sends position {last} while {} are allowed", self.credit));
        }
        if chunk.end() <= self.front {
            return Ok(()); // a message that is complete
        }
        match self.assemblies.get(&chunk.start) {
            Some(known) if known.total == chunk.total && known.purpose == chunk.purpose => {}
            Some(known) => {
                return Err(format!("a message of {} bytes has now {}", known.total, chunk.total));
            }
            None => self.open(chunk)?,
        }
        self.come(chunk.covers(0));
        self.complete();
        Ok(())
    }

    fn open(&mut self, chunk: &ChunkHead) -> Result<(), String> {
        let (total, limit) = (chunk.total, self.max_message);
        if total > limit {
            return Err(self.refuse(format!(
                "a message has {total} bytes, and the end to which it was sent takes at most {limit} (its setting max_message): set that higher there, or send shorter ones"
            )));
        }
        let before = self.assemblies.range(..chunk.start).next_back();
        let overlaps = before.is_some_and(|(start, other)| start + OVERHEAD + other.total > chunk.start)
            || self.assemblies.range(chunk.start..).next().is_some_and(|(start, _)| *start < chunk.end())
            || chunk.start < self.front;
        if overlaps {
            return Err(format!("a message at position {} lies across another", chunk.start));
        }
        let memory = match total {
            0 => None,
            _ => {
                let len = usize::try_from(total).unwrap_or(usize::MAX);
                let whole = self.pool.take(len).map_err(|none| {
                    self.refuse(format!("a message of {total} bytes came to an end without room for it: {none}"))
                })?;
                Some(Arc::new(Memory::new(whole)))
            }
        };
        self.assemblies.insert(chunk.start, Assembly { total: chunk.total, purpose: chunk.purpose, memory });
        Ok(())
    }

    /// It would come again and again: nothing on this lane gets on from here.
    fn refuse(&mut self, reason: String) -> String {
        self.refusal = Some(reason.clone());
        reason
    }

    /// Why a message that the other end sends can not be taken, if there is one: for people at both ends.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// How many positions have come.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Where the data of `chunk` belongs from its byte `at` on.
    pub fn place(&mut self, chunk: &ChunkHead, at: u64) -> Place {
        let left = u64::from(chunk.length) - at;
        let Some(memory) = self.assemblies.get(&chunk.start).and_then(|assembly| assembly.memory.clone()) else {
            return Place::Known(left);
        };
        let position = chunk.start + OVERHEAD + chunk.offset + at;
        if let Some(known) = self.arrived.around(position) {
            return Place::Known(left.min(known.end - position));
        }
        if self.lent.around(position).is_some() {
            return Place::Busy;
        }
        let next = [&self.arrived, &self.lent].into_iter().filter_map(|ranges| ranges.next_after(position)).min();
        let len = next.map_or(left, |next| left.min(next - position));
        let positions = position..position + len;
        self.lent.insert(positions.clone());
        Place::Into(Part { memory, at: (chunk.offset + at) as usize, len: len as usize, positions })
    }

    /// Gives a part back, the first `count` bytes of which are filled.
    pub fn filled(&mut self, part: Part, count: usize) {
        let Part { memory, positions, .. } = part;
        drop(memory);
        self.lent.remove(positions.clone());
        self.come(positions.start..positions.start + count as u64);
        self.complete();
    }

    fn come(&mut self, range: Range<u64>) {
        let new: u64 = self.arrived.gaps(range.clone()).iter().map(|gap| gap.end - gap.start).sum();
        self.count += new;
        self.arrived.insert(range);
    }

    /// Moves what is complete to where the program takes it.
    fn complete(&mut self) {
        while let Some(first) = self.assemblies.first_entry() {
            let end = first.key() + OVERHEAD + first.get().total;
            if *first.key() != self.front || !self.arrived.holds(&(self.front..end)) {
                break;
            }
            let Assembly { purpose, memory, .. } = first.remove();
            let payload = match memory.map(Arc::try_unwrap) {
                None => Buffer::empty(),
                Some(Ok(memory)) => memory.whole.freeze(),
                Some(Err(_)) => unreachable!("no part of a message is lent when all of it has come"),
            };
            self.is_urgent |= purpose == Purpose::End;
            let start = std::mem::replace(&mut self.front, end);
            match purpose {
                // Nobody has to take it.
                Purpose::Barrier => {
                    self.barriers += 1;
                    self.barriers_at.insert(start..end);
                    self.deliver(self.delivered);
                }
                _ => self.ready.push_back(Arrived { purpose, payload, end }),
            }
        }
        self.grant();
    }

    /// While messages wait for the program, only so much may come besides; else the message that is under way may come whole.
    fn grant(&mut self) {
        let base = match self.ready.is_empty() {
            true => self.arrived_before(),
            false => self.taken,
        };
        self.credit = self.credit.max(base + self.window);
    }

    /// The next message, if it is complete.
    pub fn take(&mut self) -> Option<Arrived> {
        let arrived = self.ready.pop_front()?;
        self.taken = arrived.end;
        if self.delivers != Delivers::PassedOn {
            self.deliver(self.taken);
        }
        self.grant();
        Some(arrived)
    }

    /// How many barriers of the other end have come, with everything that was sent before them.
    pub fn barriers(&self) -> u64 {
        self.barriers
    }

    /// Whether the other end has said that nothing follows, and everything before has come.
    pub fn ends(&self) -> bool {
        self.ready.back().is_some_and(|arrived| arrived.purpose == Purpose::End)
    }

    /// How long the next message is, if it is complete.
    pub fn next_len(&self) -> Option<usize> {
        self.ready.front().filter(|next| next.purpose == Purpose::Data).map(|next| next.payload.len())
    }

    /// The messages for the program that wait for it.
    pub fn not_taken(&self) -> NotPassedOn {
        let mut found = NotPassedOn::default();
        let messages = self.ready.iter().filter(|arrived| arrived.purpose == Purpose::Data);
        messages.for_each(|message| found.add(message.payload.len() as u64));
        found
    }

    /// How many complete messages wait.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    fn arrived_before(&self) -> u64 {
        self.arrived.around(0).map_or(0, |range| range.end)
    }

    /// Whether the other end should be told at once: it may be waiting, or keeps much.
    pub fn receipt_is_due(&self) -> bool {
        let every = RECEIPT_EVERY.min(self.window / 8);
        self.is_urgent
            || self
                .told
                .is_none_or(|(count, credit, _)| self.count - count >= every || self.credit - credit >= self.window / 4)
    }

    /// Whether there is something that the other end does not know.
    pub fn has_news(&self) -> bool {
        self.told != Some((self.count, self.credit, self.delivered_before()))
    }

    /// What has come; the other end is taken to know it from now on.
    pub fn receipt(&mut self) -> Receipt {
        let delivered = self.delivered_before();
        self.told = Some((self.count, self.credit, delivered));
        self.is_urgent = false;
        let all_before = self.arrived_before();
        let besides = self.arrived.iter().filter(|range| range.start > all_before).take(MAX_RANGES).collect();
        Receipt { lane: self.lane, all_before, delivered, credit: self.credit, besides }
    }

    /// What the other end was told may be lost: it will be told again.
    pub fn forget_told(&mut self) {
        self.told = None;
    }
}
