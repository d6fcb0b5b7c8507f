//! Immutable, shared bytes that hold payloads, and the pool that lets warmed memory be used again.
//!
//! Memory of 64 KiB and more is mapped directly: fresh pages are zero without being touched, so a [`BufferMut`] of any
//! size is initialised memory that nobody had to clear. Faulting those pages in costs more than copying into them
//! (15 ms for 64 MiB on the machines we measured), so a [`BufferPool`] keeps blocks whose last reference was dropped and
//! hands them out again. A pool belongs to its owner (an instance), never to the process. Small memory comes from the allocator, which
//! takes long for so wide an alignment: each thread keeps a few blocks for the next messages of the same size.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

mod block;

pub(crate) use block::size_class;
pub use block::Owner;
use block::{Block, Origin, Shelf};

/// The first byte of every block is aligned to this (a cache line, and the widest vector register).
pub const ALIGNMENT: usize = 64;

/// Blocks of this size and above are mapped, and recycled by a pool.
pub const POOLED_FROM: usize = 64 * 1024;

/// How many bytes a pool keeps for later unless told otherwise.
pub const DEFAULT_POOL_BYTES: usize = 256 * 1024 * 1024;

/// The system has no memory for a block of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What was asked for.
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        write!(
            f,
            "there is no memory for a block of {bytes} bytes; raise the limit of memory: ulimit -v, or that of the job or container"
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// Keeps large blocks whose last reference was dropped, and hands them out again with their pages still mapped.
///
/// Bounded in bytes; the block unused longest goes first. Clones share the same blocks.
#[derive(Clone)]
pub struct BufferPool(Arc<Shelf>);

impl BufferPool {
    /// A pool that keeps at most [`DEFAULT_POOL_BYTES`].
    pub fn new() -> BufferPool {
        BufferPool::with_limit(DEFAULT_POOL_BYTES)
    }

    /// A pool that keeps at most `limit` bytes.
    pub fn with_limit(limit: usize) -> BufferPool {
        BufferPool(Arc::new(Shelf::new(limit)))
    }

    /// A buffer to fill, of `len` bytes whose contents are unspecified (but initialised).
    ///
    /// Memory for a large one is only spent as it is written.
    pub fn take(&self, len: usize) -> Result<BufferMut, OutOfMemory> {
        if len < POOLED_FROM {
            return BufferMut::small(len);
        }
        let pool = Arc::downgrade(&self.0);
        let block = match self.0.get(len) {
            Some(mapping) => mapping.into_block(pool),
            None => Block::mapped(size_class(len)?, pool)?,
        };
        Ok(BufferMut { block, len })
    }

    /// A buffer holding a copy of `bytes`.
    pub fn copy_of(&self, bytes: &[u8]) -> Result<Buffer, OutOfMemory> {
        if bytes.len() < POOLED_FROM {
            return Buffer::small_copy(bytes);
        }
        let mut copy = self.take(bytes.len())?;
        copy.copy_from_slice(bytes);
        Ok(copy.freeze())
    }

    /// How many bytes wait to be used again.
    pub fn kept_bytes(&self) -> usize {
        self.0.free().iter().map(|mapping| mapping.capacity).sum()
    }
}

impl Default for BufferPool {
    fn default() -> BufferPool {
        BufferPool::new()
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferPool({} of {} bytes kept)", self.kept_bytes(), self.0.limit)
    }
}

/// Shared immutable bytes; cloning and slicing are cheap and copy nothing.
///
/// The first byte of a whole buffer is aligned to [`ALIGNMENT`] unless it wraps somebody else's memory.
#[derive(Clone)]
pub struct Buffer {
    memory: Memory,
    start: usize,
    len: usize,
}

/// Where the bytes of a buffer lie.
#[derive(Clone)]
enum Memory {
    /// Nowhere: there are none.
    Nothing,
    /// In a block that the buffers over it keep.
    Block(Arc<Block>),
    /// In the memory of a caller, from here on.
    Foreign(NonNull<u8>),
}

// SAFETY: lent memory is read only, and nobody changes it as long as the buffer is used ([`Buffer::wrap`]); a block may be sent by itself.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Buffer {
    /// A buffer without bytes.
    pub const fn empty() -> Buffer {
        Buffer { memory: Memory::Nothing, start: 0, len: 0 }
    }

    /// A buffer holding a copy of `bytes`, without a pool.
    ///
    /// # Panics
    /// If the system has no memory for it; [`BufferPool::copy_of`] says so instead.
    pub fn copy_of(bytes: &[u8]) -> Buffer {
        if bytes.len() < POOLED_FROM {
            return Buffer::small_copy(bytes).unwrap_or_else(|none| panic!("{none}"));
        }
        let mut copy = BufferMut::take(bytes.len());
        copy.copy_from_slice(bytes);
        copy.freeze()
    }

    fn small_copy(bytes: &[u8]) -> Result<Buffer, OutOfMemory> {
        if bytes.is_empty() {
            return Ok(Buffer::empty());
        }
        let block = Block::heap(bytes.len())?;
        // SAFETY: the block has room for `bytes.len()` bytes, is nobody else's, and becomes initialised as far as the buffer goes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.start.as_ptr(), bytes.len()) };
        Ok(Buffer::over(block, bytes.len()))
    }

    /// The first `len` bytes of a block.
    fn over(block: Block, len: usize) -> Buffer {
        Buffer { memory: Memory::Block(Arc::new(block)), start: 0, len }
    }

    fn block(&self) -> Option<&Arc<Block>> {
        match &self.memory {
            Memory::Block(block) => Some(block),
            Memory::Nothing | Memory::Foreign(_) => None,
        }
    }

    /// A buffer over memory that `owner` keeps alive; nothing is copied, and `owner` is dropped with the last reference.
    pub fn from_owner<O>(owner: O) -> Buffer
    where
        O: AsRef<[u8]> + Send + Sync + 'static,
    {
        Buffer::foreign(owner, false)
    }

    /// The same over memory that nothing changes as long as the owner lives, neither this process nor another ([`Buffer::is_constant`]).
    pub fn from_constant<O>(owner: O) -> Buffer
    where
        O: AsRef<[u8]> + Send + Sync + 'static,
    {
        Buffer::foreign(owner, true)
    }

    fn foreign<O>(owner: O, is_constant: bool) -> Buffer
    where
        O: AsRef<[u8]> + Send + Sync + 'static,
    {
        let owner = Box::new(owner);
        let bytes: &[u8] = (*owner).as_ref();
        let (start, len) = (NonNull::from(bytes).cast(), bytes.len());
        if len == 0 {
            return Buffer::empty();
        }
        Buffer::over(Block { start, capacity: len, origin: Origin::Foreign { owner, is_constant } }, len)
    }

    /// A buffer over `len` bytes at `start` in the memory of the caller; nothing is copied.
    ///
    /// # Safety
    /// The bytes must be initialised, readable, and unchanged by anybody as long as the buffer or a part of it is used.
    pub unsafe fn wrap(start: *const u8, len: usize) -> Buffer {
        match NonNull::new(start.cast_mut()) {
            Some(start) if len > 0 => Buffer { memory: Memory::Foreign(start), start: 0, len },
            _ => Buffer::empty(),
        }
    }

    /// A buffer over `len` bytes at `start` that belong to whoever holds it; `owner` is dropped with the last reference.
    ///
    /// # Safety
    /// The bytes must be initialised, and readable (and, if the owner says so, writable) until `owner` is dropped; nobody else may
    /// write to them.
    pub unsafe fn owned_by(start: *mut u8, len: usize, owner: Box<dyn Owner>) -> Buffer {
        match NonNull::new(start) {
            Some(start) if len > 0 => Buffer::over(Block { start, capacity: len, origin: Origin::Owned(owner) }, len),
            _ => Buffer::empty(),
        }
    }

    /// The same bytes, where they are, but nobody may write to them by what this returns.
    pub fn read_only(self) -> Buffer {
        if !self.is_writable() {
            return self;
        }
        let (start, len) = (self.as_ptr().cast_mut(), self.len);
        // SAFETY: initialised, and kept readable by the owner, which is this buffer and says that they are not writable.
        unsafe { Buffer::owned_by(start, len, Box::new(ReadOnly(self))) }
    }

    /// A part of this buffer, sharing its memory.
    ///
    /// # Panics
    /// If the range reaches beyond the end, as for a slice.
    pub fn slice(&self, range: Range<usize>) -> Buffer {
        assert!(range.start <= range.end && range.end <= self.len, "bytes {range:?} of a buffer of {} bytes", self.len);
        if range.is_empty() {
            return Buffer::empty();
        }
        Buffer { memory: self.memory.clone(), start: self.start + range.start, len: range.len() }
    }

    /// The bytes for writing, if this is the only reference to them and they are not somebody else's memory.
    ///
    /// A receiver that holds the only reference may so work in place.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        let block = match &mut self.memory {
            Memory::Nothing => return Some(&mut []),
            Memory::Block(block) => Arc::get_mut(block)?,
            Memory::Foreign(_) => return None,
        };
        match &block.origin {
            Origin::Foreign { .. } => return None,
            Origin::Owned(owner) if !owner.is_writable() => return None,
            _ => {}
        }
        // SAFETY: within the block, initialised, and nobody else refers to the block.
        Some(unsafe { std::slice::from_raw_parts_mut(block.start.as_ptr().add(self.start), self.len) })
    }

    /// How many buffers share this memory; who holds them all may let it be written to.
    pub fn owners(&self) -> usize {
        self.block().map_or(1, Arc::strong_count)
    }

    /// Whether both show (parts of) the same memory.
    pub fn shares_memory_with(&self, other: &Buffer) -> bool {
        match (&self.memory, &other.memory) {
            (Memory::Block(mine), Memory::Block(theirs)) => Arc::ptr_eq(mine, theirs),
            (Memory::Foreign(mine), Memory::Foreign(theirs)) => mine == theirs,
            _ => false,
        }
    }

    /// What owns the memory, if it is a `T` ([`Buffer::owned_by`]), and where in that memory this buffer begins.
    pub fn owner<T: Owner>(&self) -> Option<(&T, usize)> {
        match self.block().map(|block| &block.origin) {
            Some(Origin::Owned(owner)) => owner.as_any().downcast_ref().map(|owner| (owner, self.start)),
            _ => None,
        }
    }

    /// Whether the holder of the only buffer may write to the memory.
    pub fn is_writable(&self) -> bool {
        match self.block().map(|block| &block.origin) {
            Some(Origin::Foreign { .. }) => false,
            Some(Origin::Owned(owner)) => owner.is_writable(),
            Some(Origin::Heap | Origin::Mapped(_)) => true,
            None => !self.is_foreign(),
        }
    }

    /// The same bytes where no other process can change them: for readers that trust what they have checked.
    ///
    /// # Errors
    /// There is no memory for a copy.
    pub fn settled(&self, pool: &BufferPool) -> Result<Buffer, OutOfMemory> {
        match self.may_change() {
            true => pool.copy_of(self),
            false => Ok(self.clone()),
        }
    }

    fn may_change(&self) -> bool {
        matches!(self.block().map(|block| &block.origin), Some(Origin::Owned(owner)) if owner.may_change())
    }

    /// Whether the bytes lie in memory of the program ([`Buffer::wrap`], [`Buffer::from_owner`]), which may change them as soon as a send
    /// has returned. A block of an arena is not foreign, also while it is lent to a peer.
    pub fn is_foreign(&self) -> bool {
        match &self.memory {
            Memory::Nothing => false,
            Memory::Block(block) => matches!(block.origin, Origin::Foreign { .. }),
            Memory::Foreign(_) => true,
        }
    }

    /// Whether nobody changes the bytes while this buffer or a part of it is held: neither the program, which may have lent them for a
    /// while only, nor another process.
    pub fn is_constant(&self) -> bool {
        match self.block().map(|block| &block.origin) {
            Some(Origin::Foreign { is_constant, .. }) => *is_constant,
            Some(Origin::Owned(_)) => false, // it may be shared with another process
            Some(Origin::Heap | Origin::Mapped(_)) => true,
            None => !self.is_foreign(),
        }
    }
}

/// Somebody else's memory, to look at.
struct ReadOnly(Buffer);

impl Owner for ReadOnly {
    fn is_writable(&self) -> bool {
        false
    }

    fn may_change(&self) -> bool {
        self.0.may_change()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::empty()
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let start = match &self.memory {
            Memory::Nothing => return &[],
            Memory::Block(block) => block.start,
            Memory::Foreign(start) => *start,
        };
        // SAFETY: within the block, initialised, and only changed through a unique owner; or as the caller of `wrap` has promised.
        unsafe { std::slice::from_raw_parts(start.as_ptr().add(self.start), self.len) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer::from_constant(bytes)
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Buffer) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

/// Bytes that are being filled, before they are frozen into a [`Buffer`].
pub struct BufferMut {
    block: Block,
    len: usize,
}

impl BufferMut {
    /// A buffer of `len` bytes whose contents are unspecified (but initialised), without a pool.
    ///
    /// # Panics
    /// If the system has no memory for it; [`BufferPool::take`] says so instead.
    pub fn take(len: usize) -> BufferMut {
        BufferMut::without_pool(len).unwrap_or_else(|none| panic!("{none}"))
    }

    /// A buffer of `len` bytes at the front of a block of `capacity` bytes at `start`, whose contents are unspecified; `None` if there
    /// is no block.
    ///
    /// # Safety
    /// The block must be initialised and nobody else's, readable and writable until `owner` is dropped.
    pub unsafe fn over(start: *mut u8, capacity: usize, len: usize, owner: Box<dyn Owner>) -> Option<BufferMut> {
        let start = NonNull::new(start).filter(|_| len <= capacity)?;
        Some(BufferMut { block: Block { start, capacity, origin: Origin::Owned(owner) }, len })
    }

    fn without_pool(len: usize) -> Result<BufferMut, OutOfMemory> {
        if len < POOLED_FROM {
            return BufferMut::small(len);
        }
        Ok(BufferMut { block: Block::mapped(size_class(len)?, Weak::new())?, len })
    }

    fn small(len: usize) -> Result<BufferMut, OutOfMemory> {
        Ok(BufferMut { block: Block::heap(len)?, len })
    }

    /// Leaves only the first `len` bytes; no effect if there are fewer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends the filling.
    pub fn freeze(self) -> Buffer {
        if self.len == 0 {
            return Buffer::empty();
        }
        Buffer::over(self.block, self.len)
    }
}

impl Deref for BufferMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: within the block and initialised.
        unsafe { std::slice::from_raw_parts(self.block.start.as_ptr(), self.len) }
    }
}

impl DerefMut for BufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: within the block, initialised, and the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.block.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for BufferMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferMut({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_block_begins_on_a_cache_line() {
        for len in [1, 7, 4096, POOLED_FROM - 1, POOLED_FROM, 1 << 20] {
            assert_eq!(BufferMut::take(len).freeze().as_ptr() as usize % ALIGNMENT, 0, "{len}");
            assert_eq!(Buffer::copy_of(&vec![1; len]).as_ptr() as usize % ALIGNMENT, 0, "{len}");
        }
    }

    #[test]
    fn a_large_block_is_used_again_when_its_last_reference_is_dropped() {
        let pool = BufferPool::new();
        let first = pool.take(1 << 20).unwrap().freeze();
        let address = first.as_ptr();
        let part = first.slice(10..20);
        drop(first);
        assert_eq!(pool.kept_bytes(), 0, "a slice still holds the block");
        drop(part);
        assert_eq!(pool.kept_bytes(), 1 << 20);
        assert_eq!(pool.take((1 << 20) - 5).unwrap().as_ptr(), address);
    }

    #[test]
    fn a_small_block_goes_back_to_the_allocator() {
        let pool = BufferPool::new();
        drop(pool.take(POOLED_FROM - 1).unwrap().freeze());
        assert_eq!(pool.kept_bytes(), 0);
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
        let pool = BufferPool::with_limit(3 * POOLED_FROM);
        let blocks: Vec<_> = (0..5).map(|_| pool.take(POOLED_FROM).unwrap()).collect();
        drop(blocks);
        assert_eq!(pool.kept_bytes(), 3 * POOLED_FROM);
        drop(pool.take(10 * POOLED_FROM).unwrap());
        assert_eq!(pool.kept_bytes(), 3 * POOLED_FROM);
    }

    #[test]
    fn a_block_much_larger_than_needed_stays_in_the_pool() {
        let pool = BufferPool::new();
        drop(pool.take(64 << 20).unwrap());
        drop(pool.take(POOLED_FROM).unwrap());
        assert_eq!(pool.kept_bytes(), (64 << 20) + POOLED_FROM);
    }

    #[test]
    fn a_buffer_may_outlive_its_pool() {
        let pool = BufferPool::new();
        let buffer = pool.copy_of(&vec![7; POOLED_FROM]).unwrap();
        drop(pool);
        assert!(buffer.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn an_absurd_size_is_an_error_and_not_an_abort() {
        assert!(BufferPool::new().take(usize::MAX / 2).is_err());
        assert!(BufferPool::new().take(usize::MAX).is_err());
    }

    #[test]
    fn only_a_sole_owner_may_write_in_place() {
        let mut buffer = Buffer::copy_of(&[1, 2, 3]);
        let other = buffer.clone();
        assert!(buffer.get_mut().is_none());
        drop(other);
        buffer.get_mut().unwrap()[0] = 9;
        assert_eq!(&*buffer, &[9, 2, 3]);
    }

    #[test]
    fn lent_memory_is_never_written_and_its_owner_lives_as_long_as_the_last_reference() {
        struct Counted(Vec<u8>, Arc<AtomicUsize>);
        impl AsRef<[u8]> for Counted {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        impl Drop for Counted {
            fn drop(&mut self) {
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut buffer = Buffer::from_owner(Counted(vec![4, 5, 6], dropped.clone()));
        assert!(buffer.is_foreign() && buffer.get_mut().is_none());
        let part = buffer.slice(1..3);
        drop(buffer);
        assert_eq!((dropped.load(Ordering::SeqCst), &*part), (0, &[5, 6][..]));
        drop(part);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn empty_buffers_need_no_memory() {
        assert_eq!(Buffer::copy_of(&[]).len(), 0);
        assert_eq!(BufferMut::take(0).freeze().len(), 0);
        assert_eq!(Buffer::copy_of(&[1]).slice(1..1).len(), 0);
        assert_eq!(Buffer::empty().get_mut().map(|bytes| bytes.len()), Some(0));
    }
}
