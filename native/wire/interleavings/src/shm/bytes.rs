//! The memory of a ring, watched by loom.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use crate::concurrency::AtomicU64;

/// Stands in for the memory of a ring: loom ends the test if two threads touch a byte and one of them writes, without an order between
/// them. A word lies apart from the bytes that share its place in the real memory: the ring never uses a place as both at a time.
#[derive(Clone, Debug)]
pub struct Bytes {
    words: Arc<Vec<AtomicU64>>,
    bytes: Arc<Vec<Byte>>,
}

#[derive(Debug)]
struct Byte(UnsafeCell<u8>);

// SAFETY: what the ring promises for its memory, and what is tested here.
unsafe impl Send for Byte {}
// SAFETY: as above.
unsafe impl Sync for Byte {}

/// A word lies at the front of each.
const LINE: usize = 64;

impl Bytes {
    /// `capacity` zeros.
    pub fn of(capacity: usize) -> Bytes {
        Bytes {
            words: Arc::new((0..capacity / LINE).map(|_| AtomicU64::new(0)).collect()),
            bytes: Arc::new((0..capacity).map(|_| Byte(UnsafeCell::new(0))).collect()),
        }
    }

    /// How many there are.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The word at the front of the line of `position`.
    pub fn word(&self, position: u64) -> &AtomicU64 {
        &self.words[position as usize % self.bytes.len() / LINE]
    }

    /// Nothing to loom.
    pub fn fetch_for_reading(&self, _position: u64) {}

    /// Nothing to loom.
    pub fn fetch_for_writing(&self, _position: u64) {}

    fn at(&self, position: u64) -> &UnsafeCell<u8> {
        &self.bytes[position as usize % self.bytes.len()].0
    }

    /// Writes `bytes` from `position` on.
    ///
    /// # Safety
    /// None is needed: loom tells if another thread is there.
    pub unsafe fn put(&self, position: u64, bytes: &[u8]) {
        for (position, byte) in (position..).zip(bytes) {
            // SAFETY: loom tells if another thread is there.
            self.at(position).with_mut(|place| unsafe { *place = *byte });
        }
    }

    /// Reads from `position` on.
    ///
    /// # Safety
    /// As for `put`.
    pub unsafe fn get(&self, position: u64, into: &mut [u8]) {
        for (position, byte) in (position..).zip(into) {
            // SAFETY: as above.
            *byte = self.at(position).with(|place| unsafe { *place });
        }
    }
}
