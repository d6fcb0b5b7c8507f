//! Arrays in memory that is handed over when they are sent, instead of being copied.
//!
//! A loan is recognised by its address, so that every call that sends an array can hand one over, in every language.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::data::{array_bytes, Array, Data, Dtype};
use xmml_wire::error::{Error, Result};
use xmml_wire::lock::lock;
use xmml_wire::shared_memory::arena::{Arena, ArenaBlock, Region};

use super::payloads::no_memory;
use super::{Backend, Instance};

/// Loans of an instance, by the address of their first byte.
#[derive(Default)]
pub(super) struct Loans {
    known: Mutex<HashMap<usize, Loan>>,
    /// How many are known: looked at without the lock, since most programs have none.
    count: AtomicUsize,
}

enum Loan {
    /// The program fills it. If it is `pinned`, the program knows only its address; else it holds a buffer too.
    Filling { buffer: Buffer, pinned: bool },
    /// It was sent, and belongs to the receiver now. The memory may be used for something else once the region is gone.
    HandedOver(Weak<Region>),
}

impl Loans {
    fn known(&self) -> MutexGuard<'_, HashMap<usize, Loan>> {
        lock(&self.known)
    }

    fn are_there(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }
}

impl Instance {
    /// Memory for an array, to be filled and then sent: it is handed over to receivers on this host and not copied. Its contents are
    /// unspecified. A program that keeps only the address says that it is `pinned`, and gives an array that it does not send back
    /// with [`Instance::give_back`]; otherwise it is enough to drop the buffer.
    ///
    /// # Errors
    /// There is no memory for it, or the extents are too large.
    pub fn loan(&self, dtype: Dtype, shape: &[u64], pinned: bool) -> Result<Buffer> {
        let too_large = || Error::Usage {
            problem: format!("{}: an array of this shape is larger than any memory", self.spec.name),
        };
        let bytes = array_bytes(dtype, shape).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(too_large)?;
        // Also an array without elements has an address of its own.
        let bytes = bytes.max(1);
        let arena = match &self.backend {
            Backend::Run { runtime } => runtime.memory.arena.clone(),
            Backend::Alone(_) => Arena::new(),
        };
        let buffer = arena.take(bytes).or_else(|_| BufferPool::new().take(bytes)).map_err(no_memory)?.freeze();
        let mut known = self.loans.known();
        known.retain(|_, loan| !matches!(loan, Loan::Filling { buffer, pinned: false } if buffer.owners() == 1));
        known.insert(buffer.as_ptr() as usize, Loan::Filling { buffer: buffer.clone(), pinned });
        self.loans.count.store(known.len(), Ordering::Release);
        Ok(buffer)
    }

    /// Whether an array that begins at `start` would be handed over when it is sent.
    pub fn is_loan(&self, start: *const u8) -> bool {
        self.loans.are_there() && matches!(self.loans.known().get(&(start as usize)), Some(Loan::Filling { .. }))
    }

    /// A loan will not be sent. False: there is none at that address.
    pub fn give_back(&self, start: *const u8) -> bool {
        let loan = self.loans.known().remove(&(start as usize));
        matches!(loan, Some(Loan::Filling { .. }))
    }

    /// Puts the memory of loans in place of the caller's views of it.
    pub(super) fn hand_over(&self, data: &mut Data) -> Result<()> {
        if !self.loans.are_there() {
            return Ok(());
        }
        match data {
            Data::Array(array) => self.hand_over_array(array),
            Data::List(items) => items.iter_mut().try_for_each(|item| self.hand_over(item)),
            Data::Map(entries) => entries.iter_mut().try_for_each(|(_, value)| self.hand_over(value)),
            _ => Ok(()),
        }
    }

    fn hand_over_array(&self, array: &mut Array) -> Result<()> {
        if !array.data.is_foreign() {
            return Ok(()); // no view of the caller's memory, but a buffer: it is passed on as it is
        }
        let mut known = self.loans.known();
        let address = array.data.as_ptr() as usize;
        let length = array.data.len();
        match known.remove(&address) {
            Some(Loan::Filling { buffer, .. }) => {
                if let Some((block, _)) = buffer.owner::<ArenaBlock>() {
                    known.insert(address, Loan::HandedOver(Arc::downgrade(block.place().0)));
                }
                array.data = buffer.slice(0..length.min(buffer.len()));
            }
            Some(Loan::HandedOver(region)) if region.strong_count() > 0 => {
                known.insert(address, Loan::HandedOver(region));
                let problem = format!(
                    "{}: this array was handed over with an earlier send, and may be changed by its receiver; ask for another one, or send an array of your own",
                    self.spec.name
                );
                return Err(Error::Usage { problem });
            }
            _ => {}
        }
        Ok(())
    }
}
