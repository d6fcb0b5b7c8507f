//! A stream of bytes through memory that two processes share: one writes, one reads, nobody locks.
//!
//! Positions count bytes since the beginning and never go back; a byte of position `p` lies at `p % capacity`. The writer publishes what
//! it has written by moving `head`, the reader frees what it has read by moving `tail`. A process that dies in between leaves only what
//! it had published: there is no lock to hold and nothing half visible.
//!
//! Who finds nothing to do says so (`reader_sleeps`, `writer_sleeps`), looks once more, and sleeps; the other one sees the flag after its
//! next move and wakes it. Flag and position are ordered by fences on both sides, so that one of the two always sees the other.
//!
//! A fence is dear beside a short message. The reader spares most of its own: a writer sleeps only while the ring is full, so whoever has
//! read less than half of it since he looked for the writer's flag has the other half still before him, and will look when he comes there.
//!
//! The other process may write anything into the positions: every one that is read is checked before it is used.
//!
//! `native/core/interleavings` runs this file under a model checker.

use std::fmt;
use std::io::IoSlice;

use crate::concurrency::{fence, AtomicU32, AtomicU64, Ordering};

pub use super::bytes::Bytes;

/// What both sides see of a ring besides its bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Positions {
    /// Bytes published so far; moved by the writer.
    pub head: Apart<AtomicU64>,
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
            head: Apart(AtomicU64::new(0)),
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

/// The positions say something impossible: the other process does not keep to the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// Where the writer is said to be.
    pub head: u64,
    /// Where the reader is said to be.
    pub tail: u64,
}

impl std::error::Error for Corrupt {}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shared memory says {} bytes were written and {} read, which cannot be", self.head, self.tail)
    }
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
    /// For a ring that nothing was written to.
    pub fn new(bytes: Bytes) -> Writer {
        Writer { bytes, head: 0, tail: 0 }
    }

    /// Writes as much of `parts` as there is room for, and publishes it. 0: the ring is full (or there was nothing to write).
    pub fn write(&mut self, positions: &Positions, parts: &[IoSlice<'_>]) -> Result<usize, Corrupt> {
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        let room = self.room(positions, wanted)?;
        Ok(self.put(positions, parts, wanted.min(room)))
    }

    /// Writes `parts` and publishes them, if there is room for all of them; false: nothing was written.
    pub fn write_whole(&mut self, positions: &Positions, parts: &[IoSlice<'_>]) -> Result<bool, Corrupt> {
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        let fits = wanted <= self.room(positions, wanted)?;
        if fits {
            self.put(positions, parts, wanted);
        }
        Ok(fits)
    }

    /// Room in bytes; looks for more only if that is less than `wanted`.
    fn room(&mut self, positions: &Positions, wanted: usize) -> Result<usize, Corrupt> {
        let room = self.bytes.capacity() - (self.head - self.tail) as usize;
        if room < wanted {
            return self.look(positions);
        }
        Ok(room)
    }

    /// Writes the first `count` bytes of `parts`, for which there is room, and publishes them.
    fn put(&mut self, positions: &Positions, parts: &[IoSlice<'_>], count: usize) -> usize {
        let mut left = count;
        let mut head = self.head;
        for part in parts {
            let count = part.len().min(left);
            // SAFETY: there is room for so many bytes: the reader does not read this part before it is published.
            unsafe { self.bytes.put(head, &part[..count]) };
            head += count as u64;
            left -= count;
        }
        let written = (head - self.head) as usize;
        if written > 0 {
            self.head = head;
            positions.head.0.store(head, Ordering::Release);
        }
        written
    }

    /// Room in bytes, now.
    fn look(&mut self, positions: &Positions) -> Result<usize, Corrupt> {
        let tail = positions.tail.0.load(Ordering::Acquire);
        if tail < self.tail || tail > self.head {
            return Err(Corrupt { head: self.head, tail });
        }
        self.tail = tail;
        Ok(self.bytes.capacity() - (self.head - tail) as usize)
    }

    /// Whether the reader must be woken, after something was published. Each sleep is answered once.
    pub fn must_wake_reader(positions: &Positions) -> bool {
        fence(Ordering::SeqCst);
        positions.reader_sleeps.0.load(Ordering::Relaxed) != 0
            && positions.reader_sleeps.0.swap(0, Ordering::Relaxed) != 0
    }
}

/// The reading side.
#[derive(Debug)]
pub struct Reader {
    bytes: Bytes,
    tail: u64,
    /// The writer's position when it was looked at last.
    head: u64,
    /// Bytes freed since the writer's flag was looked at.
    unannounced: usize,
}

impl Reader {
    /// For a ring that nothing was read from.
    pub fn new(bytes: Bytes) -> Reader {
        Reader { bytes, tail: 0, head: 0, unannounced: 0 }
    }

    /// Reads what is there into `into`, and frees its place. 0: nothing is there (or nothing fits).
    pub fn read(&mut self, positions: &Positions, into: &mut [u8]) -> Result<usize, Corrupt> {
        if self.head - self.tail < into.len() as u64 {
            self.look(positions)?;
        }
        let count = into.len().min((self.head - self.tail) as usize);
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: this part was published, and is not written to before it is freed.
        unsafe { self.bytes.get(self.tail, &mut into[..count]) };
        self.tail += count as u64;
        self.unannounced += count;
        positions.tail.0.store(self.tail, Ordering::Release);
        Ok(count)
    }

    /// Bytes to read, now.
    fn look(&mut self, positions: &Positions) -> Result<u64, Corrupt> {
        let head = positions.head.0.load(Ordering::Acquire);
        if head < self.head || head - self.tail > self.bytes.capacity() as u64 {
            return Err(Corrupt { head, tail: self.tail });
        }
        self.head = head;
        Ok(head - self.tail)
    }

    /// Whether the writer must be woken, after something was freed. Each sleep is answered once, when half of the ring is free.
    pub fn must_wake_writer(&mut self, positions: &Positions) -> bool {
        if self.unannounced < self.bytes.capacity() / 2 {
            return false; // should it sleep, as much again is here to be read
        }
        self.unannounced = 0;
        fence(Ordering::SeqCst);
        positions.writer_sleeps.0.load(Ordering::Relaxed) != 0
            && positions.writer_sleeps.0.swap(0, Ordering::Relaxed) != 0
    }
}

/// The reader is about to sleep until something is published. False: something is there already (or the positions cannot be, which the
/// next read finds).
pub fn reader_may_sleep(positions: &Positions) -> bool {
    positions.reader_sleeps.0.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    // The flag stays up also if this thread will not sleep: it may be that of another thread of this process, which does.
    !has_news(positions)
}

/// The writer is about to sleep until there is room in a ring of `capacity` bytes. False: there is room already (or the positions cannot
/// be, which the next write finds).
pub fn writer_may_sleep(positions: &Positions, capacity: usize) -> bool {
    positions.writer_sleeps.0.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let head = positions.head.0.load(Ordering::Relaxed);
    head.wrapping_sub(positions.tail.0.load(Ordering::Acquire)) == capacity as u64
}

/// Whether something was published that is not read yet: a glance without any lock, for who spins.
pub fn has_news(positions: &Positions) -> bool {
    positions.head.0.load(Ordering::Acquire) != positions.tail.0.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(memory: &mut Vec<u8>) -> (Positions, Writer, Reader) {
        // SAFETY: the memory outlives the ring in every test below, and nobody else touches it.
        let bytes = unsafe { Bytes::new(memory.as_mut_ptr(), memory.len()) };
        (Positions::new(), Writer::new(bytes), Reader::new(bytes))
    }

    #[test]
    fn bytes_come_out_as_they_went_in_around_the_end_of_the_ring() {
        let mut memory = vec![0; 16];
        let (positions, mut writer, mut reader) = ring(&mut memory);
        let mut next = 0u8;
        let mut expected = 0u8;
        for length in (1..=16).cycle().take(200) {
            let sent: Vec<u8> = (0..length).map(|at| next.wrapping_add(at)).collect();
            let (one, two) = sent.split_at(usize::from(length) / 3);
            let written = writer.write(&positions, &[IoSlice::new(one), IoSlice::new(two)]).unwrap();
            next = next.wrapping_add(written as u8);
            let mut got = [0; 11];
            let read = reader.read(&positions, &mut got).unwrap();
            for byte in &got[..read] {
                assert_eq!(*byte, expected);
                expected = expected.wrapping_add(1);
            }
        }
    }

    #[test]
    fn a_full_ring_takes_nothing_until_something_was_read() {
        let mut memory = vec![0; 8];
        let (positions, mut writer, mut reader) = ring(&mut memory);
        assert_eq!(writer.write(&positions, &[IoSlice::new(&[1; 12])]), Ok(8));
        assert_eq!(writer.write(&positions, &[IoSlice::new(&[1])]), Ok(0));
        assert!(writer_may_sleep(&positions, 8));
        assert_eq!(reader.read(&positions, &mut [0; 3]), Ok(3));
        assert!(!reader.must_wake_writer(&positions), "most of it is still to be read");
        assert_eq!(writer.write(&positions, &[IoSlice::new(&[1; 12])]), Ok(3));
        assert!(writer_may_sleep(&positions, 8));
        assert_eq!(reader.read(&positions, &mut [0; 1]), Ok(1));
        assert!(reader.must_wake_writer(&positions) && !reader.must_wake_writer(&positions));
    }

    #[test]
    fn what_must_go_as_a_whole_waits_for_room_for_all_of_it() {
        let mut memory = vec![0; 8];
        let (positions, mut writer, mut reader) = ring(&mut memory);
        let parts = [IoSlice::new(&[1, 2]), IoSlice::new(&[3, 4, 5])];
        assert_eq!(writer.write_whole(&positions, &parts), Ok(true));
        assert_eq!(writer.write_whole(&positions, &parts), Ok(false));
        assert_eq!(reader.read(&positions, &mut [0; 2]), Ok(2));
        assert_eq!(writer.write_whole(&positions, &parts), Ok(true));
        let mut got = [0; 8];
        assert_eq!(reader.read(&positions, &mut got), Ok(8));
        assert_eq!(got, [3, 4, 5, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_reader_may_not_sleep_on_what_was_published() {
        let mut memory = vec![0; 8];
        let (positions, mut writer, _) = ring(&mut memory);
        assert!(reader_may_sleep(&positions));
        writer.write(&positions, &[IoSlice::new(&[1])]).unwrap();
        assert!(Writer::must_wake_reader(&positions) && !Writer::must_wake_reader(&positions));
        assert!(has_news(&positions));
        assert!(!reader_may_sleep(&positions));
        assert!(Writer::must_wake_reader(&positions), "another thread may sleep");
    }

    #[test]
    fn impossible_positions_are_refused_before_they_are_used() {
        let mut memory = vec![0; 8];
        for head in [9, u64::MAX, 1 << 63] {
            let (positions, _, mut reader) = ring(&mut memory);
            positions.head.0.store(head, Ordering::Release);
            assert!(reader.read(&positions, &mut [0; 4]).is_err());
        }
        for tail in [1, u64::MAX] {
            let (positions, mut writer, _) = ring(&mut memory);
            positions.tail.0.store(tail, Ordering::Release);
            assert!(writer.write(&positions, &[IoSlice::new(&[0; 9])]).is_err());
        }
    }
}
