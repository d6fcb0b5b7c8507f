//! Records through memory that two processes share: one writes, one reads, nobody locks.
//!
//! Positions count bytes since the beginning and never go back; what has position `p` lies at `p % capacity`. A record begins at a cache
//! line, with a word:
//!
//! | bits of the word | |
//! |---|---|
//! | 0 to 31 | bytes of the record; 0: it is not written yet |
//! | 32 | the record is one whole frame, and its first eight bytes are left out: they give its length, which the word says already |
//!
//! The bytes follow the word. The writer clears the word of the next record, writes the bytes, and writes the word last; it is the word
//! that the reader looks at. So a frame of 64 bytes, which is that of a message of one number, reaches the other processor with a single
//! cache line. A process that dies in between leaves only what it had published: there is no lock to hold and nothing half visible.
//!
//! The reader frees what it has read by moving `tail`, at which the writer looks only when the room that it knows of is used up.
//!
//! Who finds nothing to do says so (`reader_sleeps`, `writer_sleeps`), looks once more, and sleeps; the other one sees the flag after its
//! next move and wakes it. Flag and record (or position) are ordered by fences on both sides, so that one of the two always sees the other.
//!
//! A fence is dear beside a short message. The reader spares most of its own: a writer sleeps only while the ring is full, so whoever has
//! read less than half of it since he looked for the writer's flag has the other half still before him, and will look when he comes there.
//!
//! The other process may write anything anywhere: words and positions are checked before they are used, and everything is read once.
//!
//! `native/wire/interleavings` runs this file under a model checker.

use std::fmt;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use crate::concurrency::{fence, AtomicU32, AtomicU64, Ordering};

pub use super::bytes::Bytes;

/// Records begin at multiples of this: a cache line.
pub const LINE: usize = 64;

/// Bytes of the word in front of a record.
const WORD: usize = 8;

/// Says in a word that the record is a whole frame.
const FRAME: u64 = 1 << 32;

/// Bytes of a frame's head, which its length does not count.
pub const FRAME_HEAD: usize = 24;

/// Bytes of a frame that give its length.
const FRAME_LENGTH: usize = 8;

/// How many lines are fetched before they are needed, at most.
const LINES_AHEAD: usize = 20;

/// What both sides see of a ring besides its records.
#[derive(Debug)]
#[repr(C)]
pub struct Positions {
    /// Bytes freed so far; moved by the reader.
    pub tail: Apart<AtomicU64>,
    /// 1: the reader wants to be woken by what is published next.
    pub reader_sleeps: Apart<AtomicU32>,
    /// 1: the writer wants to be woken by what is freed next.
    pub writer_sleeps: Apart<AtomicU32>,
}

/// Something in cache lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Apart<T>(pub T);

impl Positions {
    /// An empty ring.
    pub fn new() -> Positions {
        Positions {
            tail: Apart(AtomicU64::new(0)),
            reader_sleeps: Apart(AtomicU32::new(0)),
            writer_sleeps: Apart(AtomicU32::new(0)),
        }
    }
}

impl Default for Positions {
    fn default() -> Positions {
        Positions::new()
    }
}

/// The shared memory says something impossible: the other process does not keep to the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// A record with this word.
    Record(u64),
    /// The reader is said to be at `tail`, the writer is at `head`.
    Tail {
        /// Bytes published.
        head: u64,
        /// Bytes that are said to be freed.
        tail: u64,
    },
}

impl std::error::Error for Corrupt {}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Corrupt::Record(word) => {
                write!(f, "the shared memory says that a record {word:#x} follows, which cannot be")
            }
            Corrupt::Tail { head, tail } => {
                write!(f, "the shared memory says {tail} bytes were read of {head}, which cannot be")
            }
        }
    }
}

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    /// Bytes, with those that are left out.
    count: usize,
    is_frame: bool,
}

impl Record {
    /// What `word` says in a ring of `capacity` bytes; `None`: nothing is there yet.
    #[inline]
    fn read(word: u64, capacity: usize) -> Result<Option<Record>, Corrupt> {
        if word == 0 {
            return Ok(None);
        }
        let record = Record { count: (word & u64::from(u32::MAX)) as usize, is_frame: word & FRAME != 0 };
        let least = if record.is_frame { FRAME_HEAD } else { 1 };
        if word > FRAME | u64::from(u32::MAX) || record.count < least || record.stored() > room(capacity, 0) {
            return Err(Corrupt::Record(word));
        }
        Ok(Some(record))
    }

    #[inline]
    fn word(self) -> u64 {
        self.count as u64 | if self.is_frame { FRAME } else { 0 }
    }

    /// Bytes that are not stored.
    #[inline]
    fn left_out(self) -> usize {
        if self.is_frame {
            FRAME_LENGTH
        } else {
            0
        }
    }

    /// Bytes behind the word.
    #[inline]
    fn stored(self) -> usize {
        self.count - self.left_out()
    }

    /// Bytes of the ring that it takes.
    #[inline]
    fn extent(self) -> usize {
        (WORD + self.stored()).next_multiple_of(LINE)
    }

    /// The bytes that are left out.
    #[inline]
    fn length(self) -> [u8; FRAME_LENGTH] {
        (self.count as u64).wrapping_sub(FRAME_HEAD as u64).to_le_bytes()
    }
}

/// How many bytes a record may store in a ring of `capacity` bytes of which `used` are not free: its own word and that of the next record
/// need room too.
#[inline]
fn room(capacity: usize, used: u64) -> usize {
    (capacity - used as usize).saturating_sub(LINE + WORD)
}

/// The writing side. Its own position is kept here: what stands in shared memory is for the other side.
#[derive(Debug)]
pub struct Writer {
    bytes: Bytes,
    head: u64,
    /// The reader's position when it was looked at last: touching its cache line is what costs.
    tail: u64,
}

impl Writer {
    /// For a ring that nothing was written to, whose memory is all zeros.
    pub fn new(bytes: Bytes) -> Writer {
        Writer { bytes, head: 0, tail: 0 }
    }

    /// Writes as much of `parts` as there is room for, and publishes it. 0: the ring is full (or there was nothing to write).
    pub fn write(&mut self, positions: &Positions, parts: &[IoSlice<'_>]) -> Result<usize, Corrupt> {
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        let count = wanted.min(self.room(positions, wanted)?);
        if count > 0 {
            self.put(Record { count, is_frame: false }, parts.iter().map(|part| &part[..]));
        }
        Ok(count)
    }

    /// Writes a whole frame and publishes it, if there is room for all of it; false: nothing was written.
    ///
    /// `front` holds at least the frame's head; `payload` follows it.
    #[inline]
    pub fn write_frame(&mut self, positions: &Positions, front: &[u8], payload: &[u8]) -> Result<bool, Corrupt> {
        let record = Record { count: front.len() + payload.len(), is_frame: true };
        debug_assert_eq!(front[..FRAME_LENGTH], record.length(), "a frame says how long it is");
        let fits = record.stored() <= self.room(positions, record.stored())?;
        if fits {
            self.put(record, [&front[FRAME_LENGTH..], payload].into_iter());
        }
        Ok(fits)
    }

    /// How many bytes a record may store; looks for more room only if that is less than `wanted`.
    #[inline]
    fn room(&mut self, positions: &Positions, wanted: usize) -> Result<usize, Corrupt> {
        let room = room(self.bytes.capacity(), self.head - self.tail);
        if room < wanted {
            return self.refresh_tail(positions);
        }
        Ok(room)
    }

    /// Writes a record, for which there is room, of the first bytes of `parts`, and publishes it.
    ///
    /// The first line, at which the reader looks again and again, is written last, together with its word: else it would go to the reader
    /// and come back in between.
    #[inline]
    fn put<'a>(&mut self, record: Record, parts: impl Iterator<Item = &'a [u8]> + Clone) {
        let next = self.head + record.extent() as u64;
        self.bytes.word(next).store(0, Ordering::Relaxed);
        let in_first_line = record.stored().min(LINE - WORD);
        if record.stored() > in_first_line {
            self.put_some(parts.clone(), in_first_line..record.stored());
        }
        self.put_some(parts, 0..in_first_line);
        self.bytes.word(self.head).store(record.word(), Ordering::Release);
        self.head = next;
        // The reader looks at the next word. What lies behind that is fetched before it is needed, if the next record is as long.
        for line in 1..=(record.extent() / LINE).min(LINES_AHEAD) {
            self.bytes.fetch_for_writing(next + (line * LINE) as u64);
        }
    }

    /// Writes the bytes of `parts` that are in `range`, counted over all of them, where they belong in the record at the head.
    #[inline]
    fn put_some<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>, range: Range<usize>) {
        let mut before = 0;
        for part in parts {
            let from = range.start.saturating_sub(before).min(part.len());
            let to = range.end.saturating_sub(before).min(part.len());
            if from < to {
                let at = self.head + (WORD + before + from) as u64;
                // SAFETY: there is room for the record: the reader does not read this part before it is published.
                unsafe { self.bytes.put(at, &part[from..to]) };
            }
            before += part.len();
        }
    }

    /// How many bytes a record may store, now.
    #[cold]
    fn refresh_tail(&mut self, positions: &Positions) -> Result<usize, Corrupt> {
        let tail = positions.tail.0.load(Ordering::Acquire);
        if tail < self.tail || tail > self.head || tail % LINE as u64 != 0 {
            return Err(Corrupt::Tail { head: self.head, tail });
        }
        self.tail = tail;
        Ok(room(self.bytes.capacity(), self.head - tail))
    }

    /// Whether the reader has announced its sleep, after something was published: the caller must wake it then. Each announcement is taken
    /// once.
    #[inline]
    pub fn take_reader_sleep(positions: &Positions) -> bool {
        fence(Ordering::SeqCst);
        positions.reader_sleeps.0.load(Ordering::Relaxed) != 0
            && positions.reader_sleeps.0.swap(0, Ordering::Relaxed) != 0
    }

    /// Announces that the writer is about to sleep until there is room. False: there is room already (or the positions cannot be, which the next write
    /// finds).
    pub fn announce_sleep(&mut self, positions: &Positions) -> bool {
        positions.writer_sleeps.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.refresh_tail(positions) == Ok(0)
    }
}

/// A look at what comes next in a ring, without a lock.
#[derive(Debug)]
pub struct Glance {
    bytes: Bytes,
    /// Where the reader is. (What stands in the shared memory may have been changed.)
    at: AtomicU64,
}

impl Glance {
    /// Whether something was published that is not read yet.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.bytes.word(self.at.load(Ordering::Relaxed)).load(Ordering::Acquire) != 0
    }

    /// Announces that the reader is about to sleep until something is published. False: something is there already.
    pub fn announce_sleep(&self, positions: &Positions) -> bool {
        positions.reader_sleeps.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // The flag stays up also if this thread will not sleep: it may be that of another thread of this process, which does.
        !self.has_news()
    }
}

/// The reading side.
#[derive(Debug)]
pub struct Reader {
    bytes: Bytes,
    at: u64,
    glance: Arc<Glance>,
    /// The record at `at`, once its word was read.
    record: Option<Record>,
    /// So many bytes of it were read.
    begun: usize,
    /// Bytes freed since the writer's flag was looked at.
    unannounced: usize,
}

impl Reader {
    /// For a ring that nothing was read from.
    pub fn new(bytes: Bytes) -> Reader {
        let glance = Glance { bytes: bytes.clone(), at: AtomicU64::new(0) };
        Reader { bytes, at: 0, glance: Arc::new(glance), record: None, begun: 0, unannounced: 0 }
    }

    /// For those who look for news without having the reader.
    pub fn glance(&self) -> Arc<Glance> {
        self.glance.clone()
    }

    /// Reads what is there into `into`, and frees its place. 0: nothing is there (or nothing fits).
    pub fn read(&mut self, positions: &Positions, into: &mut [u8]) -> Result<usize, Corrupt> {
        let mut count = 0;
        while count < into.len() {
            let record = match self.record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(_) if count > 0 => break, // found again by the next read
                Err(problem) => return Err(problem),
            };
            let piece = (record.count - self.begun).min(into.len() - count);
            self.copy(record, self.begun, &mut into[count..count + piece]);
            count += piece;
            self.begun += piece;
            if self.begun == record.count {
                self.free(positions, record);
            }
        }
        Ok(count)
    }

    /// How many bytes the frame has that comes next as a whole; `None`: no record is there, or it is none.
    #[inline]
    pub fn frame(&mut self) -> Result<Option<usize>, Corrupt> {
        let record = self.record()?.filter(|record| record.is_frame && self.begun == 0);
        Ok(record.map(|record| record.count))
    }

    /// Copies bytes of the frame that comes next (see [`Reader::frame`]), from `from` on, which with the length of `into` lies within it.
    #[inline]
    pub fn copy_of_frame(&self, from: usize, into: &mut [u8]) {
        if let Some(record) = self.record {
            self.copy(record, from, into);
        }
    }

    /// Goes on behind the frame that comes next.
    #[inline]
    pub fn skip_frame(&mut self, positions: &Positions) {
        if let Some(record) = self.record {
            self.free(positions, record);
        }
    }

    #[inline]
    fn record(&mut self) -> Result<Option<Record>, Corrupt> {
        if self.record.is_none() {
            let word = self.bytes.word(self.at).load(Ordering::Acquire);
            self.record = Record::read(word, self.bytes.capacity())?;
            if let Some(record) = self.record {
                // All lines at once: one after the other, each would be waited for.
                for line in 1..(record.extent() / LINE).min(LINES_AHEAD) {
                    self.bytes.fetch_for_reading(self.at + (line * LINE) as u64);
                }
            }
        }
        Ok(self.record)
    }

    /// Copies bytes of a record that is there.
    #[inline]
    fn copy(&self, record: Record, from: usize, into: &mut [u8]) {
        let left_out = record.left_out();
        let (of_length, stored) = into.split_at_mut(left_out.saturating_sub(from).min(into.len()));
        if !of_length.is_empty() {
            of_length.copy_from_slice(&record.length()[from..from + of_length.len()]);
        }
        let at = self.at + (WORD + from + of_length.len() - left_out) as u64;
        // SAFETY: this part was published, and is not written to before it is freed.
        unsafe { self.bytes.get(at, stored) };
    }

    #[inline]
    fn free(&mut self, positions: &Positions, record: Record) {
        self.record = None;
        self.begun = 0;
        self.at += record.extent() as u64;
        self.unannounced += record.extent();
        self.glance.at.store(self.at, Ordering::Relaxed);
        positions.tail.0.store(self.at, Ordering::Release);
    }

    /// Whether the writer has announced its sleep, after something was freed: the caller must wake it then. Each announcement is taken once,
    /// when half of the ring is free.
    #[inline]
    pub fn take_writer_sleep(&mut self, positions: &Positions) -> bool {
        if self.unannounced < self.bytes.capacity() / 2 {
            return false; // should it sleep, as much again is here to be read
        }
        self.unannounced = 0;
        fence(Ordering::SeqCst);
        positions.writer_sleeps.0.load(Ordering::Relaxed) != 0
            && positions.writer_sleeps.0.swap(0, Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    #[repr(align(64))]
    struct Line(#[allow(dead_code)] [u8; LINE]);

    fn lines(count: usize) -> Vec<Line> {
        vec![Line([0; LINE]); count]
    }

    fn ring(memory: &mut [Line]) -> (Positions, Writer, Reader) {
        // SAFETY: the memory outlives the ring in every test below, and nobody else touches it.
        let bytes = unsafe { Bytes::new(memory.as_mut_ptr().cast(), memory.len() * LINE) };
        (Positions::new(), Writer::new(bytes.clone()), Reader::new(bytes))
    }

    /// A frame with a body of so many bytes.
    fn frame(body: usize) -> Vec<u8> {
        let mut frame = vec![7; FRAME_HEAD + body];
        frame[..FRAME_LENGTH].copy_from_slice(&(body as u64).to_le_bytes());
        frame
    }

    #[test]
    fn bytes_come_out_as_they_went_in_around_the_end_of_the_ring() {
        let mut memory = lines(8);
        let (positions, mut writer, mut reader) = ring(&mut memory);
        let (mut next, mut expected) = (0u8, 0u8);
        for length in (1..=200).cycle().take(5_000) {
            let sent: Vec<u8> = (0..length).map(|at| next.wrapping_add(at)).collect();
            let (one, two) = sent.split_at(usize::from(length) / 3);
            let written = writer.write(&positions, &[IoSlice::new(one), IoSlice::new(two)]).unwrap();
            next = next.wrapping_add(written as u8);
            let mut got = [0; 150];
            let read = reader.read(&positions, &mut got).unwrap();
            for byte in &got[..read] {
                assert_eq!(*byte, expected);
                expected = expected.wrapping_add(1);
            }
        }
    }

    #[test]
    fn frames_are_read_as_bytes_whatever_the_pieces() {
        let mut memory = lines(8);
        for step in [1, 3, 7, 8, 9, 100] {
            let (positions, mut writer, mut reader) = ring(&mut memory);
            let frames = [frame(0), frame(32), frame(33), frame(100)];
            for frame in &frames {
                assert_eq!(writer.write_frame(&positions, &frame[..24], &frame[24..]), Ok(true));
            }
            let (mut got, mut piece) = (Vec::<u8>::new(), vec![0; step]);
            while let Some(count) = reader.read(&positions, &mut piece).ok().filter(|count| *count > 0) {
                got.extend(&piece[..count]);
            }
            assert_eq!(got, frames.concat());
            memory.fill(Line([0; LINE]));
        }
    }

    #[test]
    fn a_frame_of_one_number_takes_one_line() {
        let mut memory = lines(4);
        let (positions, mut writer, mut reader) = ring(&mut memory);
        for _ in 0..20 {
            let frame = frame(40);
            assert_eq!(writer.write_frame(&positions, &frame, &[]), Ok(true));
            let before = positions.tail.0.load(Ordering::Relaxed);
            assert_eq!(reader.frame(), Ok(Some(64)));
            let mut got = [0; 64];
            reader.copy_of_frame(0, &mut got);
            assert_eq!(got[..], frame[..]);
            reader.skip_frame(&positions);
            assert_eq!(positions.tail.0.load(Ordering::Relaxed) - before, LINE as u64);
        }
    }

    #[test]
    fn a_frame_that_was_read_in_part_does_not_come_next_as_a_whole() {
        let mut memory = lines(4);
        let (positions, mut writer, mut reader) = ring(&mut memory);
        writer.write_frame(&positions, &frame(0), &[]).unwrap();
        writer.write_frame(&positions, &frame(1), &[]).unwrap();
        assert_eq!(reader.read(&positions, &mut [0; 3]), Ok(3));
        assert_eq!(reader.frame(), Ok(None));
        assert_eq!(reader.read(&positions, &mut [0; 21]), Ok(21));
        assert_eq!(reader.frame(), Ok(Some(25)));
    }

    #[test]
    fn a_full_ring_takes_nothing_until_a_record_was_read() {
        let mut memory = lines(4);
        let (positions, mut writer, mut reader) = ring(&mut memory);
        assert_eq!(writer.write(&positions, &[IoSlice::new(&[1; 300])]), Ok(256 - LINE - WORD));
        assert_eq!(writer.write(&positions, &[IoSlice::new(&[1])]), Ok(0));
        assert!(writer.announce_sleep(&positions));
        assert_eq!(reader.read(&positions, &mut [0; 3]), Ok(3));
        assert!(!reader.take_writer_sleep(&positions), "nothing is free yet");
        assert_eq!(writer.write(&positions, &[IoSlice::new(&[1])]), Ok(0));
        assert_eq!(reader.read(&positions, &mut [0; 300]), Ok(256 - LINE - WORD - 3));
        assert!(reader.take_writer_sleep(&positions) && !reader.take_writer_sleep(&positions));
        assert!(!writer.announce_sleep(&positions));
        assert_eq!(writer.write(&positions, &[IoSlice::new(&[1; 50])]), Ok(50));
    }

    #[test]
    fn a_frame_waits_for_room_for_all_of_it() {
        let mut memory = lines(4);
        let (positions, mut writer, mut reader) = ring(&mut memory);
        let frame = frame(41);
        assert_eq!(writer.write_frame(&positions, &frame, &[]), Ok(true));
        assert_eq!(writer.write_frame(&positions, &frame, &[]), Ok(false));
        assert_eq!(reader.frame(), Ok(Some(65)));
        reader.skip_frame(&positions);
        assert_eq!(writer.write_frame(&positions, &frame, &[]), Ok(true));
        let mut got = [0; 100];
        assert_eq!(reader.read(&positions, &mut got), Ok(65));
        assert_eq!(got[..65], frame[..]);
    }

    #[test]
    fn a_reader_may_not_sleep_on_what_was_published() {
        let mut memory = lines(4);
        let (positions, mut writer, reader) = ring(&mut memory);
        assert!(reader.glance().announce_sleep(&positions));
        writer.write(&positions, &[IoSlice::new(&[1])]).unwrap();
        assert!(Writer::take_reader_sleep(&positions) && !Writer::take_reader_sleep(&positions));
        assert!(reader.glance().has_news());
        assert!(!reader.glance().announce_sleep(&positions));
        assert!(Writer::take_reader_sleep(&positions), "another thread may sleep");
    }

    #[test]
    fn what_was_read_is_no_news() {
        let mut memory = lines(4);
        let (positions, mut writer, mut reader) = ring(&mut memory);
        for _ in 0..20 {
            writer.write(&positions, &[IoSlice::new(&[1; 70])]).unwrap();
            assert!(reader.glance().has_news());
            assert_eq!(reader.read(&positions, &mut [0; 99]), Ok(70));
            assert!(!reader.glance().has_news());
        }
    }

    #[test]
    fn impossible_words_and_positions_are_refused_before_they_are_used() {
        let mut memory = lines(4);
        for word in [185, u64::MAX, 1 << 63, 1 << 33, FRAME, FRAME | 23, FRAME | 200] {
            let (positions, _, mut reader) = ring(&mut memory);
            reader.bytes.word(0).store(word, Ordering::Release);
            assert_eq!(reader.read(&positions, &mut [0; 4]), Err(Corrupt::Record(word)));
            assert_eq!(reader.frame(), Err(Corrupt::Record(word)));
        }
        for tail in [1, 64, u64::MAX] {
            let (positions, mut writer, _) = ring(&mut memory);
            positions.tail.0.store(tail, Ordering::Release);
            assert!(writer.write(&positions, &[IoSlice::new(&[0; 299])]).is_err());
        }
    }
}
