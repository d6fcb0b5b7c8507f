//! Where an instance keeps payloads.

use xmml_wire::buffer::BufferPool;
use xmml_wire::shared_memory::arena::Arena;

/// The memory of an instance for payloads.
pub struct Memory {
    /// Its own.
    pub pool: BufferPool,
    /// Where payloads are written that other processes read.
    pub arena: Arena,
}

impl Memory {
    /// Empty.
    pub fn new() -> Memory {
        Memory { pool: BufferPool::new(), arena: Arena::new() }
    }
}
