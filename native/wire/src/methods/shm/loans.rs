//! Payloads lent from one process to another: the lender keeps a block until the borrower says, in shared memory, that it is done.
//!
//! The books are in [`super::returns`]. A borrower that dies returns nothing: what it had comes home when its process has ended, and not
//! before, since it may still look at it after it has left the run. Whether it has ended is asked when fresh memory would be taken.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::buffer::{Buffer, Owner};
use crate::lock::lock;
use crate::per_process::process_id;
use crate::shared_memory::arena::Lender;
use crate::shared_memory::SharedMemory;

use super::process::Peer;
use super::returns::{Books, SLOTS};
use super::segment::Segment;

pub use super::returns::Ticket;

/// What one side of a connection has lent.
pub struct Loans {
    segment: Segment,
    books: Mutex<Books<Buffer>>,
    closed: AtomicBool,
    /// The process of the borrower.
    borrower: Peer,
    /// When the system was asked last whether that has ended.
    asked: Mutex<Option<Instant>>,
}

/// While nobody has noticed that a borrower is gone, the system is asked for it so seldom: a sender to thousands of receivers that takes
/// block after block would ask for each of them each time.
const ASK_EVERY: Duration = Duration::from_millis(10);

impl Loans {
    /// Nothing lent.
    pub fn new(segment: Segment, borrower: Peer) -> Loans {
        let (books, asked) = (Mutex::new(Books::new(SLOTS)), Mutex::default());
        Loans { segment, books, closed: AtomicBool::new(false), borrower, asked }
    }

    /// Whether the process of the borrower has ended, as far as it is time to ask.
    fn borrower_has_ended(&self) -> bool {
        let mut asked = lock(&self.asked);
        let is_due = self.is_closed() || asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY);
        if is_due {
            *asked = Some(Instant::now());
        }
        is_due && self.borrower.has_ended()
    }

    fn books(&self) -> MutexGuard<'_, Books<Buffer>> {
        lock(&self.books)
    }

    /// Keeps `buffer` until the other side returns it; `None` if it holds too many already.
    pub fn lend(&self, buffer: Buffer, is_shared: bool) -> Option<Ticket> {
        let mut books = self.books();
        let back = books.collect(self.segment.returns_to_here());
        let ticket = books.lend(buffer, is_shared);
        drop(books);
        drop(back); // blocks go home without the lock
        ticket.ok()
    }

    /// No more will be lent; what is out may still come back.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl Lender for Loans {
    fn reclaim(&self) -> bool {
        let mut books = self.books();
        let mut back = books.collect(self.segment.returns_to_here());
        // Also while nobody has noticed here that the connection is broken: who sends on other conduits only does not look at this one.
        if books.is_any_out() && self.borrower_has_ended() {
            back.extend(books.collect_all());
        }
        let is_any_out = books.is_any_out();
        drop(books);
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
        let borrowed = Borrowed { _memory: memory.clone(), segment: segment.clone(), ticket, process: process_id() };
        // SAFETY: within the mapping, which the owner keeps. The lender promised not to touch the bytes until they are returned; if it
        // does, they change under the reader's eyes, but no memory outside of them can be reached.
        Ok(unsafe { Buffer::owned_by(memory.start().add(offset as usize), length as usize, Box::new(borrowed)) })
    }
}

impl Owner for Borrowed {
    fn is_writable(&self) -> bool {
        !self.ticket.is_shared
    }

    fn may_change(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if process_id() == self.process {
            self.ticket.give_back(self.segment.returns_from_here());
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
        let loans = Arc::new(Loans::new(mine, Peer::Hidden));
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
        let (loans, arena) = (Loans::new(mine, Peer::Hidden), Arena::new());
        let lend = || loans.lend(arena.take(64).unwrap().freeze(), false);
        let tickets: Vec<Ticket> = (0..SLOTS).map(|_| lend().unwrap()).collect();
        assert_eq!(lend(), None);
        tickets[7].give_back(theirs.returns_from_here());
        let again = lend().unwrap();
        assert_eq!(again.slot, tickets[7].slot);
        assert_ne!(again.generation, tickets[7].generation);
        assert_eq!(lend(), None);
    }

    #[test]
    fn what_a_borrower_has_not_returned_comes_home_when_its_process_has_ended() {
        let mut borrower = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (mine, _theirs) = sides();
        let arena = Arena::new();
        let loans = Arc::new(Loans::new(mine, Peer::Numbered(borrower.id() as i32)));
        arena.enrol(loans.clone());
        let sent = arena.take(50_000).unwrap().freeze();
        let home = sent.as_ptr();
        loans.lend(sent, false).unwrap();
        loans.close();
        assert_ne!(arena.take(50_000).unwrap().as_ptr(), home, "it has left, but it may still look at the block");
        borrower.kill().unwrap();
        borrower.wait().unwrap();
        assert_eq!(arena.take(100_000).unwrap().len(), 100_000); // no block is free: the lenders are asked
        assert!(!loans.reclaim());
        let blocks = [arena.take(50_000).unwrap(), arena.take(50_000).unwrap()];
        assert!(blocks.iter().any(|block| block.as_ptr() == home));
    }

    #[test]
    fn who_comes_and_goes_leaves_nothing_behind_also_while_no_memory_is_taken() {
        let arena = Arena::new();
        let enrol = |_| {
            let loans = Arc::new(Loans::new(Segment::new().unwrap(), Peer::Hidden));
            arena.enrol(loans.clone());
            loans.close();
            Arc::downgrade(&loans)
        };
        let loans: Vec<_> = (0..20).map(enrol).collect();
        assert!(loans.iter().filter(|loans| loans.strong_count() > 0).count() <= 2);
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
