//! Blocks that are lent, returned, and used again.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

use xmml_interleavings::in_every_interleaving;
use xmml_interleavings::shm::returns::{Books, Ticket};
use xmml_interleavings::wakeup::EventFd;

/// A block of shared memory.
struct Block(UnsafeCell<u64>);

// SAFETY: what the loans promise, and what is tested here: loom ends the test if two threads touch it at once.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// A message: which block is lent, and the ticket as it travels. The bell orders nothing that happens after it was heard.
struct Message {
    block: AtomicU64,
    ticket: AtomicU64,
    bell: EventFd,
}

struct Shared {
    blocks: [Block; 2],
    returns: Vec<AtomicU32>,
    messages: [Message; 2],
}

fn shared() -> Arc<Shared> {
    let message = || Message { block: AtomicU64::new(0), ticket: AtomicU64::new(0), bell: EventFd::new() };
    let block = || Block(UnsafeCell::new(0));
    let returns = vec![AtomicU32::new(0), AtomicU32::new(0)];
    Arc::new(Shared { blocks: [block(), block()], returns, messages: [message(), message()] })
}

impl Shared {
    /// Writes `value` to a block and lends it as message `at`.
    fn lend(&self, books: &mut Books<usize>, at: usize, block: usize, value: u64) {
        // SAFETY: it is the lender's: it was never lent, or has been returned.
        self.blocks[block].0.with_mut(|place| unsafe { *place = value });
        let ticket = books.lend(block, false).unwrap();
        self.messages[at].block.store(block as u64, Ordering::Relaxed);
        self.messages[at].ticket.store(ticket.encode(), Ordering::Release);
        self.messages[at].bell.raise();
    }

    /// Waits for message `at`, and reads the block that it lends.
    fn borrow(&self, at: usize) -> (Ticket, u64) {
        self.messages[at].bell.wait();
        let ticket = Ticket::decode(self.messages[at].ticket.load(Ordering::Acquire)).unwrap();
        let block = self.messages[at].block.load(Ordering::Relaxed) as usize;
        // SAFETY: the loan lasts.
        (ticket, self.blocks[block].0.with(|place| unsafe { *place }))
    }
}

#[test]
fn a_block_is_written_again_only_after_its_borrower_has_done_with_it() {
    in_every_interleaving(3, || {
        let shared = shared();
        let theirs = shared.clone();
        let borrowing = thread::spawn(move || {
            for (at, expected) in [(0, 11), (1, 22)] {
                let (ticket, value) = theirs.borrow(at);
                assert_eq!(value, expected);
                ticket.give_back(&theirs.returns);
            }
        });
        let mut books = Books::new(2);
        shared.lend(&mut books, 0, 0, 11);
        // As an arena does: what is back is used again, else another block is taken.
        let again = books.collect(&shared.returns).pop();
        shared.lend(&mut books, 1, again.unwrap_or(1), 22);
        borrowing.join().unwrap();
        books.collect(&shared.returns);
        assert!(!books.is_any_out());
    });
}

#[test]
fn views_dropped_in_other_threads_return_their_blocks_all_the_same() {
    in_every_interleaving(3, || {
        let shared = shared();
        let mut books = Books::new(2);
        let dropping: Vec<_> = [11, 22]
            .into_iter()
            .enumerate()
            .map(|(at, expected)| {
                shared.lend(&mut books, at, at, expected);
                let theirs = shared.clone();
                thread::spawn(move || {
                    let (ticket, value) = theirs.borrow(at);
                    assert_eq!(value, expected);
                    ticket.give_back(&theirs.returns);
                })
            })
            .collect();
        for block in books.collect(&shared.returns) {
            // SAFETY: it came back; loom tells if somebody still reads it.
            shared.blocks[block].0.with_mut(|place| unsafe { *place = 33 });
        }
        dropping.into_iter().for_each(|thread| thread.join().unwrap());
        books.collect(&shared.returns);
        assert!(!books.is_any_out());
    });
}
