//! The memory of a ring: words that say what is there, and bytes.

use crate::concurrency::AtomicU64;

/// Where the memory of a ring lies. What has position `p` lies at `p % capacity`.
#[derive(Clone, Debug)]
pub struct Bytes {
    start: *mut u8,
    capacity: usize,
}

// SAFETY: plain memory; the records say who may write to which part of it and who may read it.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

/// Copies of this size and more are left to one instruction of the processor.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LONG: usize = 256;

impl Bytes {
    /// `capacity` (a power of two) bytes at `start`, a multiple of eight.
    ///
    /// # Safety
    /// The memory must be readable and writable as long as the value is used, and no part of this process may touch it but one
    /// [`super::ring::Writer`] or one [`super::ring::Reader`] (or both, if it is a ring within this process).
    pub unsafe fn new(start: *mut u8, capacity: usize) -> Bytes {
        assert!(capacity.is_power_of_two() && start as usize % 8 == 0, "a ring of {capacity} bytes");
        Bytes { start, capacity }
    }

    /// How many bytes there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    fn place(&self, position: u64) -> usize {
        position as usize & (self.capacity - 1)
    }

    /// The word at `position`, a multiple of eight.
    #[inline]
    pub fn word(&self, position: u64) -> &AtomicU64 {
        debug_assert!(position % 8 == 0);
        // SAFETY: within the ring and aligned; atomics may be changed by anybody at any time, and any bits are a value of them.
        unsafe { &*self.start.add(self.place(position)).cast() }
    }

    /// Has the processor fetch the cache line of `position`, to be read soon.
    #[inline]
    pub fn fetch_for_reading(&self, position: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: within the ring; a prefetch changes nothing.
        unsafe {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            _mm_prefetch::<_MM_HINT_T0>(self.start.add(self.place(position)).cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = position;
    }

    /// Has the processor fetch the cache line of `position`, to be written soon.
    #[inline]
    pub fn fetch_for_writing(&self, position: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: within the ring; a prefetch changes nothing. (`_mm_prefetch` fetches for reading on processors of any age.)
        unsafe {
            let line = self.start.add(self.place(position));
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = position;
    }

    /// Writes `bytes` (at most the capacity) from `position` on.
    ///
    /// # Safety
    /// Nobody who keeps to the rules reads these places meanwhile.
    #[inline]
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

    /// Copies `into.len()` bytes (at most the capacity) from `position` on. Each byte is read once, so that what is checked in the copy
    /// stays as it was checked, whatever another process writes meanwhile.
    ///
    /// # Safety
    /// Nobody in this process writes to these places meanwhile.
    #[inline]
    pub unsafe fn get(&self, position: u64, into: &mut [u8]) {
        let at = self.place(position);
        let (first, second) = into.split_at_mut(into.len().min(self.capacity - at));
        // SAFETY: both pieces lie within the ring.
        unsafe {
            read_once(self.start.add(at), first);
            if !second.is_empty() {
                read_once(self.start, second);
            }
        }
    }
}

/// Copies memory that another process may change, which a plain copy must not be told of.
///
/// # Safety
/// `into.len()` bytes at `from` are readable.
#[inline]
unsafe fn read_once(from: *const u8, into: &mut [u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if into.len() >= LONG {
        // SAFETY: the caller's promise; the two do not overlap, and the direction flag is clear wherever Rust code runs.
        unsafe {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") into.len() => _,
                inout("rsi") from => _,
                inout("rdi") into.as_mut_ptr() => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    let words = if from as usize % 8 == 0 { into.len() / 8 * 8 } else { 0 };
    let (in_words, rest) = into.split_at_mut(words);
    for (at, word) in in_words.chunks_exact_mut(8).enumerate() {
        // SAFETY: the caller's promise, and aligned.
        word.copy_from_slice(&unsafe { from.add(8 * at).cast::<u64>().read_volatile() }.to_ne_bytes());
    }
    for (at, byte) in rest.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *byte = unsafe { from.add(words + at).read_volatile() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_at_every_place_is_copied_as_it_is() {
        let memory: Vec<u64> = (0..128_u64).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        // SAFETY: the memory is not changed while the ring is used.
        let bytes = unsafe { Bytes::new(memory.as_ptr().cast_mut().cast(), 1024) };
        let expected: Vec<u8> = memory.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for position in [0, 1, 7, 8, 600, 1000, 1023, 5000] {
            for length in [0, 1, 7, 8, 9, 63, 64, 255, 256, 257, 1000, 1024] {
                let mut got = vec![0; length];
                // SAFETY: nobody writes.
                unsafe { bytes.get(position, &mut got) };
                let wanted = expected.iter().cycle().skip(position as usize % 1024).take(length);
                assert!(got.iter().eq(wanted), "{length} bytes at {position}");
            }
        }
    }
}
