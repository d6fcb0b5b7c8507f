//! Pieces of memory behind buffers: where they come from, and how they are used again.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, Weak};

use super::{OutOfMemory, ALIGNMENT};
use crate::lock::lock;

/// Blocks up to this size are kept by the thread that drops them, and so many of them.
const SPARED_TO: usize = 4 * 1024;
const SPARED: usize = 16;

/// How many blocks a pool keeps at most: the search for a fitting one is linear.
const POOL_BLOCKS: usize = 64;

/// From this size on huge pages are asked for: far fewer page faults for fresh memory, and faster copies.
const HUGE_FROM: usize = 4 * 1024 * 1024;

/// Where a block's memory came from, and so where it goes.
pub(super) enum Origin {
    /// The allocator; smaller than [`POOLED_FROM`].
    Heap,
    /// An anonymous mapping, which a pool may take back.
    Mapped(Weak<Shelf>),
    /// Memory of somebody else, alive as long as this owner.
    Foreign {
        #[allow(dead_code)]
        owner: Box<dyn Any + Send + Sync>,
        /// Nobody changes it as long as the owner lives.
        is_constant: bool,
    },
    /// Memory that belongs to whoever holds a buffer of it; its owner takes it back when the last one is dropped.
    Owned(Box<dyn Owner>),
}

/// Takes memory back when it is dropped, which happens with the last buffer in that memory.
pub trait Owner: Send + Sync + 'static {
    /// Whether the holder of the only buffer may write to the memory.
    fn is_writable(&self) -> bool {
        true
    }
    /// Whether another process can change the bytes, although it should not.
    fn may_change(&self) -> bool {
        false
    }
    /// For finding out what it is.
    fn as_any(&self) -> &dyn Any;
}

/// One piece of memory; all of it that a buffer shows is initialised.
pub(super) struct Block {
    pub(super) start: NonNull<u8>,
    pub(super) capacity: usize,
    pub(super) origin: Origin,
}

// SAFETY: the memory of a block is reached through `&Buffer` for reading only, or through a unique owner.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn layout(capacity: usize) -> Option<Layout> {
        Layout::from_size_align(capacity, ALIGNMENT).ok()
    }

    /// A block that is initialised: with zeros if it is new.
    pub(super) fn heap(capacity: usize) -> Result<Block, OutOfMemory> {
        let no_memory = OutOfMemory { bytes: capacity };
        let capacity = capacity.max(1).checked_next_multiple_of(ALIGNMENT).ok_or(no_memory)?;
        if let Some(start) = Spare::take(capacity) {
            return Ok(Block { start, capacity, origin: Origin::Heap });
        }
        let layout = Block::layout(capacity).ok_or(no_memory)?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(no_memory)?;
        Ok(Block { start, capacity, origin: Origin::Heap })
    }

    pub(super) fn mapped(capacity: usize, pool: Weak<Shelf>) -> Result<Block, OutOfMemory> {
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                capacity,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(OutOfMemory { bytes: capacity });
        }
        if capacity >= HUGE_FROM {
            // SAFETY: advice about the mapping just made; whether it is taken changes nothing but speed.
            unsafe { libc::madvise(address, capacity, libc::MADV_HUGEPAGE) };
        }
        let start = NonNull::new(address.cast()).ok_or(OutOfMemory { bytes: capacity })?;
        Ok(Block { start, capacity, origin: Origin::Mapped(pool) })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match &self.origin {
            Origin::Heap => {
                if !Spare::keep(self.start, self.capacity) {
                    free(self.start, self.capacity);
                }
            }
            Origin::Mapped(pool) => {
                let mapping = Mapping { start: self.start, capacity: self.capacity };
                match pool.upgrade() {
                    Some(shelf) => shelf.put(mapping),
                    None => drop(mapping),
                }
            }
            Origin::Foreign { .. } | Origin::Owned(_) => {}
        }
    }
}

/// Gives memory that [`Block::heap`] has taken back to the allocator.
fn free(start: NonNull<u8>, capacity: usize) {
    if let Some(layout) = Block::layout(capacity) {
        // SAFETY: allocated in `heap` with this very layout, and no reference is left.
        unsafe { dealloc(start.as_ptr(), layout) }
    }
}

/// Small blocks without references that a thread keeps, with their capacities.
struct Spare(Vec<(NonNull<u8>, usize)>);

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare(Vec::new())) };
}

impl Spare {
    /// One of exactly this capacity; that which was dropped last has the warmest lines.
    fn take(capacity: usize) -> Option<NonNull<u8>> {
        if capacity > SPARED_TO {
            return None;
        }
        let taken = SPARE.try_with(|spare| {
            let blocks = &mut spare.borrow_mut().0;
            let at = blocks.iter().rposition(|(_, other)| *other == capacity)?;
            Some(blocks.swap_remove(at).0)
        });
        taken.ok().flatten() // a thread that ends keeps nothing any more
    }

    /// Keeps a block; false: it is too large, or there are enough.
    fn keep(start: NonNull<u8>, capacity: usize) -> bool {
        if capacity > SPARED_TO {
            return false;
        }
        let kept = SPARE.try_with(|spare| {
            let blocks = &mut spare.borrow_mut().0;
            let has_room = blocks.len() < SPARED;
            if has_room {
                blocks.push((start, capacity));
            }
            has_room
        });
        kept.unwrap_or(false)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(start, capacity)| free(start, capacity));
    }
}

/// A mapping without references, waiting to be used again; unmapped when dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    pub(super) capacity: usize,
}

// SAFETY: a mapping is plain memory that nobody else refers to.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(super) fn into_block(self, pool: Weak<Shelf>) -> Block {
        let mapping = std::mem::ManuallyDrop::new(self);
        Block { start: mapping.start, capacity: mapping.capacity, origin: Origin::Mapped(pool) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `Block::mapped` with this length, and no reference is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.capacity) };
    }
}

/// What a pool keeps.
pub(super) struct Shelf {
    pub(super) limit: usize,
    free: Mutex<Vec<Mapping>>,
}

impl Shelf {
    /// An empty one that keeps at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Shelf {
        Shelf { limit, free: Mutex::new(Vec::new()) }
    }

    pub(super) fn free(&self) -> MutexGuard<'_, Vec<Mapping>> {
        lock(&self.free)
    }

    fn put(&self, mapping: Mapping) {
        if mapping.capacity > self.limit {
            return;
        }
        let mut evicted = Vec::new();
        {
            let mut free = self.free();
            free.push(mapping);
            let mut bytes: usize = free.iter().map(|m| m.capacity).sum();
            while bytes > self.limit || free.len() > POOL_BLOCKS {
                let oldest = free.remove(0);
                bytes -= oldest.capacity;
                evicted.push(oldest);
            }
        }
        drop(evicted); // unmapped without holding the lock
    }

    /// The tightest fit that does not waste more than it uses; of equals the one returned last (its pages are warmest).
    pub(super) fn get(&self, len: usize) -> Option<Mapping> {
        let mut free = self.free();
        let mut best: Option<(usize, usize)> = None;
        for (at, mapping) in free.iter().enumerate() {
            let fits = mapping.capacity >= len && mapping.capacity / 2 <= len;
            if fits && best.is_none_or(|(_, capacity)| mapping.capacity <= capacity) {
                best = Some((at, mapping.capacity));
            }
        }
        best.map(|(at, _)| free.remove(at))
    }
}

/// `len` rounded up so that messages of nearly equal size share blocks: eight sizes to each doubling.
pub(crate) fn size_class(len: usize) -> Result<usize, OutOfMemory> {
    let doubling = len.checked_next_power_of_two();
    doubling
        .and_then(|doubling| len.checked_next_multiple_of((doubling / 16).max(4096)))
        .ok_or(OutOfMemory { bytes: len })
}

#[cfg(test)]
mod tests {
    use super::super::Buffer;
    use super::*;

    #[test]
    fn a_thread_keeps_a_few_small_blocks_of_those_that_it_dropped() {
        let first = Buffer::copy_of(&[1; 1000]);
        let address = first.as_ptr();
        drop(first);
        assert_ne!(Buffer::copy_of(&[2; 100]).as_ptr(), address, "another size");
        let again = Buffer::copy_of(&[3; 1024]);
        assert_eq!((again.as_ptr(), again[1023]), (address, 3));
        let many: Vec<_> = (0..3 * SPARED).map(|_| Buffer::copy_of(&[4; 64])).collect();
        drop(many);
        drop(again); // there is no place for it any more
        assert_eq!(SPARE.with(|spare| spare.borrow().0.len()), SPARED);
        let elsewhere = Buffer::copy_of(&[5; 640]);
        std::thread::spawn(move || drop(elsewhere)).join().unwrap();
    }
}
