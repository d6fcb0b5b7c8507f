//! Memory that payloads are written to once and read by other processes: blocks in a few regions, each a memfd.
//!
//! An arena belongs to its owner (an instance), like a [`crate::buffer::BufferPool`]; what is free and what is not is known to the owner
//! alone and lies in its own memory, so that no other process can disturb it, also not by dying. Faulting pages in costs more than
//! copying into them: a block that comes back keeps its pages, up to a limit.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::buffer::{size_class, Buffer, BufferMut, OutOfMemory, Owner, DEFAULT_POOL_BYTES};
use crate::lock::lock;
use crate::per_process::process_id;

use super::SharedMemory;

/// Size of the regions that are cut into blocks. Larger blocks have a region each.
const SLAB: usize = 16 << 20;

/// Blocks up to this size are cut from slabs.
const SLAB_BLOCK: usize = 2 << 20;

/// So much of a block without pages is given pages at once. Less than the processor's cache holds, more than the call costs.
const AT_ONCE: usize = 256 << 10;

/// Blocks begin at a multiple of this.
const PAGE: usize = 4096;

/// Somebody to whom blocks were lent, who may have returned some of them.
pub trait Lender: Send + Sync {
    /// Takes back what was returned; says whether anything is still out.
    fn reclaim(&self) -> bool;
    /// Whether it lends no more.
    fn is_closed(&self) -> bool;
}

/// A piece of shared memory that can be passed to another process.
pub struct Region {
    /// Unique within the arena, from 1.
    pub id: u64,
    /// The memory.
    pub memory: SharedMemory,
}

/// A block of an arena, for the buffers that lie in it; goes back to the arena with the last of them.
pub struct ArenaBlock {
    arena: Weak<Inner>,
    region: Arc<Region>,
    offset: usize,
    capacity: usize,
    for_many: AtomicBool,
    /// A child after fork has a copy of this value, but not the block.
    process: u32,
}

impl ArenaBlock {
    /// In which region it lies, and where in it.
    pub fn place(&self) -> (&Arc<Region>, usize) {
        (&self.region, self.offset)
    }

    /// Whether it belongs to `arena`: only then is the number of its region known to those whom the arena lends to.
    pub fn is_of(&self, arena: &Arena) -> bool {
        std::ptr::eq(self.arena.as_ptr(), Arc::as_ptr(&arena.0))
    }

    /// From now on several receivers may read it, so that none may write.
    pub fn share(&self) {
        self.for_many.store(true, Ordering::Relaxed);
    }

    /// Whether several receivers may read it.
    pub fn is_shared(&self) -> bool {
        self.for_many.load(Ordering::Relaxed)
    }
}

impl Owner for ArenaBlock {
    fn is_writable(&self) -> bool {
        !self.is_shared()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for ArenaBlock {
    fn drop(&mut self) {
        if self.process != process_id() {
            return;
        }
        if let Some(arena) = self.arena.upgrade() {
            arena.put(Free { region: self.region.clone(), offset: self.offset, capacity: self.capacity, warm: true });
        }
    }
}

/// Where a block lies that has no pages yet.
struct Fresh {
    region: Arc<Region>,
    offset: usize,
}

impl Fresh {
    /// Finds the pages of `count` bytes at `at`, of `len` that will be written.
    fn populate(&self, at: usize, count: usize, len: usize) {
        // What lies in the page at the beginning has been populated with what was before it.
        let first = at.next_multiple_of(PAGE);
        let end = (at + count).next_multiple_of(PAGE).min(len);
        if first < end {
            self.region.memory.populate(self.offset + first, end - first);
        }
    }
}

/// A block that nobody uses.
struct Free {
    region: Arc<Region>,
    offset: usize,
    capacity: usize,
    /// It may have pages.
    warm: bool,
}

impl Free {
    fn is_whole_region(&self) -> bool {
        self.capacity == self.region.memory.length()
    }
}

#[derive(Default)]
struct Blocks {
    /// The region that is being cut, and how much of it is.
    slab: Option<(Arc<Region>, usize)>,
    /// By capacity; the block returned last is the last one.
    free: BTreeMap<usize, Vec<Free>>,
    warm_bytes: usize,
    last_id: u64,
}

struct Inner {
    limit: usize,
    blocks: Mutex<Blocks>,
    lenders: Mutex<Vec<Arc<dyn Lender>>>,
    /// How many regions were given up so far.
    given_up: AtomicU64,
}

/// See the module. Clones share the same memory.
#[derive(Clone)]
pub struct Arena(Arc<Inner>);

impl Arena {
    /// An arena that keeps at most [`DEFAULT_POOL_BYTES`] of memory that nobody uses.
    pub fn new() -> Arena {
        Arena::with_limit(DEFAULT_POOL_BYTES)
    }

    /// An arena that keeps at most `limit` bytes that nobody uses.
    pub fn with_limit(limit: usize) -> Arena {
        let (blocks, lenders) = (Mutex::default(), Mutex::default());
        Arena(Arc::new(Inner { limit, blocks, lenders, given_up: AtomicU64::new(0) }))
    }

    /// A buffer to fill, of `len` bytes whose contents are unspecified (but initialised).
    ///
    /// # Errors
    /// The system has no memory for it, or does not allow it to be shared.
    pub fn take(&self, len: usize) -> Result<BufferMut, OutOfMemory> {
        self.take_fresh_or_used(len).map(|(buffer, _)| buffer)
    }

    /// The same; also returns where it lies if it has no pages yet.
    fn take_fresh_or_used(&self, len: usize) -> Result<(BufferMut, Option<Fresh>), OutOfMemory> {
        let capacity = size_class(len.max(1))?;
        let found = self.0.get(capacity).or_else(|| {
            self.0.reclaim();
            self.0.get(capacity)
        });
        let is_warm = found.as_ref().is_some_and(|free| free.warm);
        let (region, offset, capacity) = match found {
            Some(free) => (free.region.clone(), free.offset, free.capacity),
            None => self.0.cut(capacity, len)?,
        };
        let fresh = (!is_warm).then(|| Fresh { region: region.clone(), offset });
        // SAFETY: the block lies within the region.
        let start = unsafe { region.memory.start().add(offset) };
        let arena = Arc::downgrade(&self.0);
        let process = process_id();
        let block = ArenaBlock { arena, region, offset, capacity, for_many: AtomicBool::new(false), process };
        // SAFETY: nobody else has this block; it is initialised (memfd memory is zero at first), and kept alive by its owner.
        let buffer = unsafe { BufferMut::over(start, capacity, len, Box::new(block)) };
        buffer.map(|buffer| (buffer, fresh)).ok_or(OutOfMemory { bytes: len })
    }

    /// A buffer holding the bytes of `pieces`, one after the other.
    pub fn copy_of(&self, pieces: &[Buffer]) -> Result<Buffer, OutOfMemory> {
        let (mut copy, fresh) = self.take_fresh_or_used(pieces.iter().map(|piece| piece.len()).sum())?;
        let (mut at, len) = (0, copy.len());
        for piece in pieces {
            // Pages that were just found are still in the processor's cache when they are written to.
            for part in piece.chunks(if fresh.is_some() { AT_ONCE } else { piece.len().max(1) }) {
                if let Some(fresh) = &fresh {
                    fresh.populate(at, part.len(), len);
                }
                copy[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        }
        Ok(copy.freeze())
    }

    /// From now on `lender` is asked for what was returned before fresh memory is taken, until it is closed and has everything back.
    pub fn enrol(&self, lender: Arc<dyn Lender>) {
        // Lenders that have left and have everything back are let go, with what they keep open, before the list is twice as long.
        if self.0.lenders().len().is_power_of_two() {
            self.0.reclaim();
        }
        self.0.lenders().push(lender);
    }

    /// How many regions were given up so far: whoever passed some should see whether they still exist.
    pub fn given_up(&self) -> u64 {
        self.0.given_up.load(Ordering::Acquire)
    }

    /// Bytes that nobody uses, and that still have their pages.
    pub fn kept_bytes(&self) -> usize {
        self.0.blocks().warm_bytes
    }
}

impl Default for Arena {
    fn default() -> Arena {
        Arena::new()
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} of {} bytes kept)", self.kept_bytes(), self.0.limit)
    }
}

impl Inner {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        lock(&self.blocks)
    }

    fn lenders(&self) -> MutexGuard<'_, Vec<Arc<dyn Lender>>> {
        lock(&self.lenders)
    }

    /// Takes back what was returned. Blocks come back while no lock of the arena is held.
    fn reclaim(&self) {
        let lenders = self.lenders().clone();
        let done: Vec<_> = lenders.iter().filter(|lender| !lender.reclaim() && lender.is_closed()).collect();
        if !done.is_empty() {
            self.lenders().retain(|lender| !done.iter().any(|done| Arc::ptr_eq(done, lender)));
        }
    }

    /// The tightest fit that does not waste more than it uses; of equals the one returned last.
    fn get(&self, capacity: usize) -> Option<Free> {
        let mut blocks = self.blocks();
        let (class, list) = blocks.free.range_mut(capacity..=capacity.saturating_mul(2)).next()?;
        let class = *class;
        let found = list.pop()?;
        if list.is_empty() {
            blocks.free.remove(&class);
        }
        if found.warm {
            blocks.warm_bytes -= found.capacity;
        }
        Some(found)
    }

    /// A block that was never used.
    fn cut(&self, capacity: usize, len: usize) -> Result<(Arc<Region>, usize, usize), OutOfMemory> {
        let mut blocks = self.blocks();
        if capacity > SLAB_BLOCK {
            return Ok((blocks.region(capacity, len)?, 0, capacity));
        }
        match &mut blocks.slab {
            Some((region, used)) if *used + capacity <= SLAB => {
                let offset = *used;
                *used += capacity;
                Ok((region.clone(), offset, capacity))
            }
            _ => {
                let region = blocks.region(SLAB, len)?;
                blocks.slab = Some((region.clone(), capacity));
                Ok((region, 0, capacity))
            }
        }
    }

    fn put(&self, free: Free) {
        let mut given_up = Vec::new();
        {
            let mut blocks = self.blocks();
            blocks.warm_bytes += free.capacity;
            blocks.free.entry(free.capacity).or_default().push(free);
            while blocks.warm_bytes > self.limit {
                match blocks.coldest() {
                    Some(free) => given_up.push(free),
                    None => break,
                }
            }
        }
        for mut free in given_up {
            free.region.memory.give_back(free.offset, free.capacity);
            if free.is_whole_region() {
                drop(free);
                self.given_up.fetch_add(1, Ordering::Release);
            } else {
                free.warm = false;
                let mut blocks = self.blocks();
                // In front, where it is taken last.
                blocks.free.entry(free.capacity).or_default().insert(0, free);
            }
        }
    }
}

impl Blocks {
    fn region(&mut self, length: usize, len: usize) -> Result<Arc<Region>, OutOfMemory> {
        let memory = SharedMemory::new(c"xmml-payloads", length).map_err(|_| OutOfMemory { bytes: len })?;
        self.last_id += 1;
        Ok(Arc::new(Region { id: self.last_id, memory }))
    }

    /// Takes out the block that will be missed least: of the largest that have pages, the one unused longest.
    fn coldest(&mut self) -> Option<Free> {
        let (class, at) = self
            .free
            .iter()
            .rev()
            .find_map(|(class, list)| list.iter().position(|free| free.warm).map(|at| (*class, at)))?;
        let list = self.free.get_mut(&class)?;
        let free = list.remove(at);
        if list.is_empty() {
            self.free.remove(&class);
        }
        self.warm_bytes -= free.capacity;
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(buffer: &Buffer) -> *const u8 {
        buffer.as_ptr()
    }

    #[test]
    fn a_block_is_used_again_when_its_last_reference_is_dropped() {
        let arena = Arena::new();
        let first = arena.take(100_000).unwrap().freeze();
        let start = address(&first);
        let part = first.slice(10..20);
        drop(first);
        assert_eq!(arena.kept_bytes(), 0, "a slice still holds the block");
        drop(part);
        assert!(arena.kept_bytes() >= 100_000);
        assert_eq!(address(&arena.take(99_999).unwrap().freeze()), start);
    }

    #[test]
    fn blocks_in_use_do_not_overlap() {
        let arena = Arena::new();
        let mut held = Vec::new();
        for round in 0..200_usize {
            let mut buffer = arena.take(16_384 + (round * 7919) % 3_000_000).unwrap();
            buffer.fill(round as u8);
            held.push((round as u8, buffer.freeze()));
            if round % 3 == 0 {
                held.swap_remove(round % held.len());
            }
        }
        assert!(held.iter().all(|(value, buffer)| buffer.iter().all(|byte| byte == value)));
    }

    #[test]
    fn an_arena_keeps_no_more_than_its_limit() {
        let arena = Arena::with_limit(8 << 20);
        let large: Vec<_> = (0..4).map(|_| arena.take(4 << 20).unwrap().freeze()).collect();
        let small: Vec<_> = (0..16).map(|_| arena.take(1 << 20).unwrap().freeze()).collect();
        drop((large, small));
        assert!(arena.kept_bytes() <= 8 << 20);
        assert!(arena.given_up() >= 2);
    }

    #[test]
    fn a_buffer_may_outlive_its_arena() {
        let arena = Arena::new();
        let buffer = arena.copy_of(&[Buffer::copy_of(&[1, 2]), Buffer::copy_of(&[3])]).unwrap();
        drop(arena);
        assert_eq!(&*buffer, &[1, 2, 3]);
    }

    #[test]
    fn a_block_shared_by_several_may_not_be_written_to() {
        let mut buffer = Arena::new().take(64).unwrap().freeze();
        assert!(buffer.get_mut().is_some());
        buffer.owner::<ArenaBlock>().unwrap().0.share();
        assert!(buffer.get_mut().is_none());
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(Arena::new().take(usize::MAX / 2).is_err());
    }
}
