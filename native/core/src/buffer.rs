//! Immutable, shared bytes that hold payloads, and the pool that lets warmed memory be used again.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Shared immutable bytes; cloning is cheap. The first byte is aligned to 64.
#[derive(Clone)]
pub struct Buffer(Arc<Vec<u8>>);

/// Bytes that are being filled, before they are frozen into a [`Buffer`].
pub struct BufferMut(Vec<u8>);

impl Buffer {
    /// A buffer holding a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buffer {
        Buffer(Arc::new(bytes.to_vec()))
    }

    /// How many buffers share this memory; who holds them all may let it be written to.
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Whether both show (parts of) the same memory.
    pub fn shares_memory_with(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl BufferMut {
    /// A buffer of `len` bytes whose contents are unspecified (but initialised).
    pub fn take(len: usize) -> BufferMut {
        BufferMut(vec![0; len])
    }

    /// Ends the filling.
    pub fn freeze(self) -> Buffer {
        Buffer(Arc::new(self.0))
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for BufferMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for BufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}
