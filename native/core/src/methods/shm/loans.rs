//! Payloads lent from one process to another: the lender keeps a block until the borrower says, in shared memory, that it is done.
//!
//! A loan has a slot and a generation. The borrower returns it by writing the generation into the slot of the table of returns, which no
//! other loan can be mistaken for; it needs no lock and no system call, and can be done from any thread. A borrower that dies returns
//! nothing: its blocks stay with the lender, unused, until that ends too.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::{Buffer, Owner};
use crate::shared_memory::arena::Lender;
use crate::shared_memory::SharedMemory;

use super::segment::{Segment, SLOTS};

/// Which loan this is; travels with the message and comes back by the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Where the return is written.
    pub slot: u16,
    /// What is written there; never 0.
    pub generation: u32,
    /// Others borrow the same memory: nobody may write to it.
    pub is_shared: bool,
}

const SHARED: u64 = 1 << 63;

impl Ticket {
    /// As one number: generation, slot in bits 32 to 47, bit 63 if it is shared.
    pub fn encode(self) -> u64 {
        u64::from(self.generation) | u64::from(self.slot) << 32 | if self.is_shared { SHARED } else { 0 }
    }

    /// From such a number; `None` if it cannot be one.
    pub fn decode(number: u64) -> Option<Ticket> {
        let slot = (number >> 32) as u16;
        let ticket = Ticket { slot, generation: number as u32, is_shared: number & SHARED != 0 };
        (usize::from(slot) < SLOTS && ticket.generation != 0 && ticket.encode() == number).then_some(ticket)
    }
}

/// What one side of a connection has lent.
pub struct Loans {
    segment: Segment,
    out: Mutex<Out>,
    closed: AtomicBool,
}

struct Out {
    /// Slot, generation, and what is lent under them.
    lent: Vec<(Ticket, Buffer)>,
    free: Vec<u16>,
    generation: u32,
}

impl Loans {
    /// Nothing lent.
    pub fn new(segment: Segment) -> Loans {
        let free = (0..SLOTS as u16).rev().collect();
        Loans {
            segment,
            out: Mutex::new(Out { lent: Vec::new(), free, generation: 0 }),
            closed: AtomicBool::new(false),
        }
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `buffer` until the other side returns it; `None` if it holds too many already.
    pub fn lend(&self, buffer: Buffer, is_shared: bool) -> Option<Ticket> {
        let mut out = self.out();
        drop(self.collect(&mut out));
        let slot = out.free.pop()?;
        out.generation = out.generation.checked_add(1).unwrap_or(1);
        let ticket = Ticket { slot, generation: out.generation, is_shared };
        out.lent.push((ticket, buffer));
        Some(ticket)
    }

    /// The message did not leave after all.
    pub fn take_back(&self, ticket: Ticket) {
        let mut out = self.out();
        let found = out.lent.iter().position(|(other, _)| *other == ticket);
        let back = found.map(|at| out.lent.swap_remove(at));
        if back.is_some() {
            out.free.push(ticket.slot);
        }
        drop(out);
        drop(back); // the block goes home without the lock
    }

    /// Takes what was returned out of the books.
    fn collect(&self, out: &mut Out) -> Vec<Buffer> {
        let returns = self.segment.returns_to_here();
        let mut back = Vec::new();
        let mut at = 0;
        while at < out.lent.len() {
            let ticket = out.lent[at].0;
            if returns[usize::from(ticket.slot)].load(Ordering::Acquire) == ticket.generation {
                back.push(out.lent.swap_remove(at).1);
                out.free.push(ticket.slot);
            } else {
                at += 1;
            }
        }
        back
    }

    /// No more will be lent; what is out may still come back.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl Lender for Loans {
    fn reclaim(&self) -> bool {
        let mut out = self.out();
        let back = self.collect(&mut out);
        let is_any_out = !out.lent.is_empty();
        drop(out);
        drop(back);
        is_any_out
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// Memory that another process has lent to this one; dropping it returns it.
pub struct Borrowed {
    /// Keeps the mapping that the bytes lie in.
    _memory: Arc<SharedMemory>,
    segment: Segment,
    ticket: Ticket,
    /// A child after fork has a copy of this value, but not the loan.
    process: u32,
}

impl Borrowed {
    /// A buffer over `length` bytes at `offset` in `memory`, lent under `ticket`; says what is impossible about that.
    pub fn buffer(
        memory: &Arc<SharedMemory>,
        offset: u64,
        length: u64,
        segment: &Segment,
        ticket: Ticket,
    ) -> Result<Buffer, String> {
        let end = offset.checked_add(length).filter(|end| *end <= memory.length() as u64);
        if end.is_none() || offset % crate::buffer::ALIGNMENT as u64 != 0 {
            let whole = memory.length();
            return Err(format!("it lent {length} bytes at {offset} of a memory of {whole} bytes"));
        }
        let borrowed =
            Borrowed { _memory: memory.clone(), segment: segment.clone(), ticket, process: std::process::id() };
        // SAFETY: within the mapping, which the owner keeps. The lender promised not to touch the bytes until they are returned; if it
        // does, they change under the reader's eyes, but no memory outside of them can be reached.
        Ok(unsafe { Buffer::owned_by(memory.start().add(offset as usize), length as usize, Box::new(borrowed)) })
    }
}

impl Owner for Borrowed {
    fn is_writable(&self) -> bool {
        !self.ticket.is_shared
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            let returns = self.segment.returns_from_here();
            returns[usize::from(self.ticket.slot)].store(self.ticket.generation, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::arena::{Arena, ArenaBlock};

    fn sides() -> (Segment, Segment) {
        let dialler = Segment::new().unwrap();
        let listener = Segment::open(dialler.file().unwrap().try_clone_to_owned().unwrap()).unwrap();
        (dialler, listener)
    }

    /// The memory of a buffer as another process would see it.
    fn seen_from_afar(buffer: &Buffer) -> (Arc<SharedMemory>, u64) {
        let (block, start) = buffer.owner::<ArenaBlock>().unwrap();
        let (region, offset) = block.place();
        let file = region.memory.file().unwrap().try_clone_to_owned().unwrap();
        let memory = SharedMemory::open(file, region.memory.length()).unwrap();
        (Arc::new(memory), (offset + start) as u64)
    }

    #[test]
    fn a_block_comes_home_when_the_borrower_drops_its_last_view() {
        let (mine, theirs) = sides();
        let arena = Arena::new();
        let loans = Arc::new(Loans::new(mine));
        arena.enrol(loans.clone());
        let sent = arena.copy_of(&[Buffer::copy_of(&[5; 50_000])]).unwrap();
        let home = sent.as_ptr();
        let (memory, offset) = seen_from_afar(&sent);
        let ticket = loans.lend(sent, false).unwrap();
        let view = Borrowed::buffer(&memory, offset, 50_000, &theirs, ticket).unwrap();
        assert!(view.iter().all(|byte| *byte == 5));
        let part = view.slice(8..16);
        drop(view);
        assert!(loans.reclaim(), "a part is still seen");
        drop(part);
        assert!(!loans.reclaim());
        assert_eq!(arena.take(50_000).unwrap().as_ptr(), home);
    }

    #[test]
    fn so_many_can_be_lent_and_then_no_more_until_one_is_returned() {
        let (mine, theirs) = sides();
        let (loans, arena) = (Loans::new(mine), Arena::new());
        let lend = || loans.lend(arena.take(64).unwrap().freeze(), false);
        let tickets: Vec<Ticket> = (0..SLOTS).map(|_| lend().unwrap()).collect();
        assert_eq!(lend(), None);
        theirs.returns_from_here()[usize::from(tickets[7].slot)].store(tickets[7].generation, Ordering::Release);
        let again = lend().unwrap();
        assert_eq!(again.slot, tickets[7].slot);
        assert_ne!(again.generation, tickets[7].generation);
        assert_eq!(lend(), None);
    }

    #[test]
    fn a_ticket_survives_the_way_and_nonsense_is_refused() {
        for is_shared in [false, true] {
            let ticket = Ticket { slot: 255, generation: u32::MAX, is_shared };
            assert_eq!(Ticket::decode(ticket.encode()), Some(ticket));
        }
        for nonsense in [0, 256 << 32 | 1, 1 << 48 | 1, 7 << 32] {
            assert_eq!(Ticket::decode(nonsense), None);
        }
    }

    #[test]
    fn a_place_outside_the_memory_is_refused() {
        let (mine, theirs) = sides();
        let memory = Arc::new(SharedMemory::new(c"xmml-test", 4096).unwrap());
        drop(mine);
        let ticket = Ticket { slot: 0, generation: 1, is_shared: false };
        for (offset, length) in [(0, 4097), (4096, 64), (u64::MAX - 63, 64), (1, 8)] {
            assert!(Borrowed::buffer(&memory, offset, length, &theirs, ticket).is_err(), "{offset} {length}");
        }
    }
}
