//! The bytes of a ring: plain memory that two processes see.

/// Where the bytes of a ring lie. A byte of position `p` lies at `p % capacity`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    start: *mut u8,
    capacity: usize,
}

// SAFETY: plain memory; who writes and who reads which part of it is ruled by the positions.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// `capacity` (a power of two) bytes at `start`.
    ///
    /// # Safety
    /// The memory must be readable and writable as long as the value is used, and touched by nobody but one writer and one reader that
    /// share the positions.
    pub unsafe fn new(start: *mut u8, capacity: usize) -> Bytes {
        assert!(capacity.is_power_of_two(), "a ring of {capacity} bytes");
        Bytes { start, capacity }
    }

    /// How many there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn place(&self, position: u64) -> usize {
        position as usize & (self.capacity - 1)
    }

    /// Writes `bytes` (at most the capacity) from `position` on.
    ///
    /// # Safety
    /// Nobody reads these places meanwhile.
    pub unsafe fn put(&self, position: u64, bytes: &[u8]) {
        let at = self.place(position);
        let first = bytes.len().min(self.capacity - at);
        // SAFETY: both pieces lie within the ring.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), first);
            if first < bytes.len() {
                std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), self.start, bytes.len() - first);
            }
        }
    }

    /// Reads `into.len()` bytes (at most the capacity) from `position` on.
    ///
    /// # Safety
    /// Nobody who keeps to the rules writes to these places meanwhile.
    pub unsafe fn get(&self, position: u64, into: &mut [u8]) {
        let at = self.place(position);
        let first = into.len().min(self.capacity - at);
        // SAFETY: both pieces lie within the ring.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.add(at), into.as_mut_ptr(), first);
            if first < into.len() {
                std::ptr::copy_nonoverlapping(self.start, into.as_mut_ptr().add(first), into.len() - first);
            }
        }
    }
}
