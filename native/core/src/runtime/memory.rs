//! Where an instance keeps payloads.

use xmml_wire::buffer::{Buffer, BufferPool, OutOfMemory};
use xmml_wire::methods::shm::stream::LENT_FROM;
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

    /// A copy of what has to wait here. If a connection through memory may come, it waits where that will lend it from (or there is no
    /// room there).
    pub fn copy_to_keep(&self, piece: &Buffer, is_lent_later: bool) -> Result<Buffer, OutOfMemory> {
        if is_lent_later && piece.len() >= LENT_FROM {
            if let Ok(copy) = self.arena.copy_of(std::slice::from_ref(piece)) {
                return Ok(copy);
            }
        }
        self.pool.copy_of(piece)
    }
}
