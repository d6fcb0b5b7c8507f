//! The books of a lender: what is lent under which ticket, and what was returned.
//!
//! A loan has a slot and a generation. The borrower returns it by writing the generation into the slot of a table in shared memory, which
//! no other loan can be mistaken for; it needs no lock and no system call, and can be done from any thread.
//!
//! The borrower may write anything there: what it writes can only bring one of its own loans back early, which is its own loss.

use crate::concurrency::{AtomicU32, Ordering};

/// How many payloads one side can have lent at a time.
pub const SLOTS: usize = 256;

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

    /// Says in the lender's table that the borrower is done.
    pub fn give_back(self, returns: &[AtomicU32]) {
        returns[usize::from(self.slot)].store(self.generation, Ordering::Release);
    }

    /// Whether the borrower has said so.
    fn is_back(self, returns: &[AtomicU32]) -> bool {
        returns[usize::from(self.slot)].load(Ordering::Acquire) == self.generation
    }
}

/// What is lent, each a `T`.
#[derive(Debug)]
pub struct Books<T> {
    lent: Vec<(Ticket, T)>,
    free: Vec<u16>,
    generation: u32,
}

impl<T> Books<T> {
    /// Nothing lent; at most `slots` can be at a time.
    pub fn new(slots: usize) -> Books<T> {
        Books { lent: Vec::new(), free: (0..slots as u16).rev().collect(), generation: 0 }
    }

    /// Enters a loan; gives `what` back if too many are out.
    pub fn lend(&mut self, what: T, is_shared: bool) -> Result<Ticket, T> {
        let Some(slot) = self.free.pop() else { return Err(what) };
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        let ticket = Ticket { slot, generation: self.generation, is_shared };
        self.lent.push((ticket, what));
        Ok(ticket)
    }

    /// Strikes out what was returned.
    pub fn collect(&mut self, returns: &[AtomicU32]) -> Vec<T> {
        let mut back = Vec::new();
        let mut at = 0;
        while at < self.lent.len() {
            let ticket = self.lent[at].0;
            if ticket.is_back(returns) {
                back.push(self.lent.swap_remove(at).1);
                self.free.push(ticket.slot);
            } else {
                at += 1;
            }
        }
        back
    }

    /// Strikes out everything.
    pub fn collect_all(&mut self) -> Vec<T> {
        let all: Vec<(Ticket, T)> = self.lent.drain(..).collect();
        self.free.extend(all.iter().map(|(ticket, _)| ticket.slot));
        all.into_iter().map(|(_, what)| what).collect()
    }

    /// Whether anything is out.
    pub fn is_any_out(&self) -> bool {
        !self.lent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
