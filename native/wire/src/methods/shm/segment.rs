//! The memory of one connection: two rings, one each way, and for each way the returns of what was lent.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `xMMLshm2` |
//! | 8 | 8 | zeros |
//! | 128 | 384 | positions of the ring from the dialler to the listener |
//! | 640 | 384 | positions of the ring from the listener to the dialler |
//! | 1152 | 1024 | returns of what the dialler lent: a u32 per slot |
//! | 2176 | 1024 | returns of what the listener lent |
//! | 4096 | 65536 | records of the ring from the dialler |
//! | 69632 | 65536 | records of the ring from the listener |
//!
//! The dialler makes the memory and passes it along with its first bytes; every page of it is spent only when it is touched.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::concurrency::{AtomicU32, AtomicU64, Ordering};
use crate::shared_memory::SharedMemory;

use super::returns::SLOTS;
use super::ring::{Bytes, Positions};

/// Says what the memory is, and in which layout.
const MAGIC: [u8; 8] = *b"xMMLshm2";

/// Bytes that a ring holds. Larger payloads are lent; a small ring stays in the processor's cache.
pub const RING: usize = 64 * 1024;

const POSITIONS: [usize; 2] = [128, 640];
const RETURNS: [usize; 2] = [1152, 2176];
const RINGS: [usize; 2] = [4096, 4096 + RING];
const LENGTH: usize = 4096 + 2 * RING;

/// Which end of a connection this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It opened the connection.
    Dialler = 0,
    /// It accepted it.
    Listener = 1,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Dialler => Side::Listener,
            Side::Listener => Side::Dialler,
        }
    }
}

/// A segment as one side sees it. Clones share the mapping.
#[derive(Clone, Debug)]
pub struct Segment {
    memory: Arc<SharedMemory>,
    side: Side,
}

impl Segment {
    /// A new one, of the dialler.
    pub fn new() -> io::Result<Segment> {
        let memory = SharedMemory::new(c"xmml-connection", LENGTH)?;
        // SAFETY: the memory is that long, and nobody else knows it yet.
        unsafe { std::ptr::copy_nonoverlapping(MAGIC.as_ptr(), memory.start(), MAGIC.len()) };
        Ok(Segment { memory: Arc::new(memory), side: Side::Dialler })
    }

    /// The one that a dialler passed, for the listener.
    pub fn open(file: OwnedFd) -> io::Result<Segment> {
        let memory = SharedMemory::open(file, LENGTH)?;
        // SAFETY: the memory is that long and begins at a page; an atomic may be changed by anybody at any time.
        let magic = unsafe { &*memory.start().cast::<AtomicU64>() };
        if magic.load(Ordering::Relaxed).to_ne_bytes() != MAGIC {
            return Err(io::Error::other("what was passed as shared memory has another layout"));
        }
        Ok(Segment { memory: Arc::new(memory), side: Side::Listener })
    }

    /// For passing it on; `None` on the listener's side, and once it was passed.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.memory.file()
    }

    /// It was passed, and will not be again.
    pub fn was_passed(&mut self) {
        if let Some(memory) = Arc::get_mut(&mut self.memory) {
            memory.keep_to_itself();
        }
    }

    /// Positions of the ring that this side writes.
    pub fn outgoing(&self) -> &Positions {
        self.positions(self.side)
    }

    /// Positions of the ring that this side reads.
    pub fn incoming(&self) -> &Positions {
        self.positions(self.side.other())
    }

    /// The memory of the ring that this side writes.
    pub fn outgoing_bytes(&self) -> Bytes {
        self.bytes(self.side)
    }

    /// The memory of the ring that this side reads.
    pub fn incoming_bytes(&self) -> Bytes {
        self.bytes(self.side.other())
    }

    /// Where the other side tells what it has returned of what this side lent.
    pub fn returns_to_here(&self) -> &[AtomicU32; SLOTS] {
        self.returns(self.side)
    }

    /// Where this side tells what it has returned.
    pub fn returns_from_here(&self) -> &[AtomicU32; SLOTS] {
        self.returns(self.side.other())
    }

    fn positions(&self, writer: Side) -> &Positions {
        // SAFETY: within the mapping, which lives as long as `self`; aligned to 128; atomics may be changed by anybody at any time, and
        // any bits are a value of them.
        unsafe { &*self.memory.start().add(POSITIONS[writer as usize]).cast() }
    }

    fn returns(&self, lender: Side) -> &[AtomicU32; SLOTS] {
        // SAFETY: as above; aligned to 4.
        unsafe { &*self.memory.start().add(RETURNS[lender as usize]).cast() }
    }

    fn bytes(&self, writer: Side) -> Bytes {
        // SAFETY: within the mapping; the users of the value keep the segment. The other process may break the rules of the ring: then
        // the bytes are garbage, which the decoder of frames must expect of any stream.
        unsafe { Bytes::new(self.memory.start().add(RINGS[writer as usize]), RING) }
    }
}

const _: () = assert!(size_of::<Positions>() == 384 && RETURNS[1] + 4 * SLOTS <= RINGS[0]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::shm::ring::{Reader, Writer};
    use std::io::IoSlice;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let dialler = Segment::new().unwrap();
        let listener = Segment::open(dialler.file().unwrap().try_clone_to_owned().unwrap()).unwrap();
        let mut got = [0; 3];
        let mut writer = Writer::new(dialler.outgoing_bytes());
        writer.write(dialler.outgoing(), &[IoSlice::new(&[1, 2, 3])]).unwrap();
        assert_eq!(Reader::new(listener.incoming_bytes()).read(listener.incoming(), &mut got), Ok(3));
        assert_eq!(got, [1, 2, 3]);
        let mut writer = Writer::new(listener.outgoing_bytes());
        writer.write(listener.outgoing(), &[IoSlice::new(&[4, 5])]).unwrap();
        assert_eq!(Reader::new(dialler.incoming_bytes()).read(dialler.incoming(), &mut got), Ok(2));
        assert_eq!(got[..2], [4, 5]);
    }

    #[test]
    fn memory_of_another_layout_is_refused() {
        let memory = SharedMemory::new(c"xmml-test", LENGTH).unwrap();
        let error = Segment::open(memory.file().unwrap().try_clone_to_owned().unwrap()).unwrap_err();
        assert!(error.to_string().contains("layout"), "{error}");
    }
}
