//! Plain memory that loom watches.

use std::sync::Arc;

use loom::cell::UnsafeCell;

/// Stands in for the plain memory of a ring: loom ends the test if two threads touch a byte and one of them writes, without an order
/// between them.
#[derive(Clone, Debug)]
pub struct Bytes(Arc<Vec<Byte>>);

#[derive(Debug)]
struct Byte(UnsafeCell<u8>);

// SAFETY: what the ring promises for its memory, and what is tested here.
unsafe impl Send for Byte {}
// SAFETY: as above.
unsafe impl Sync for Byte {}

impl Bytes {
    /// `capacity` zeros.
    pub fn of(capacity: usize) -> Bytes {
        Bytes(Arc::new((0..capacity).map(|_| Byte(UnsafeCell::new(0))).collect()))
    }

    /// How many there are.
    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    fn at(&self, position: u64) -> &UnsafeCell<u8> {
        &self.0[position as usize % self.0.len()].0
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
