//! Waits that last, of which the coordinator was told.

use std::collections::BTreeSet;

/// Waits that the coordinator was told of, by the numbers under which it knows them.
#[derive(Default)]
pub struct ReportedWaits {
    last: u64,
    lasting: BTreeSet<u64>,
    /// People know that waits of several threads are not reported.
    is_held_back_told: bool,
}

impl ReportedWaits {
    /// Begins a reported wait, and returns its number.
    pub fn begin(&mut self) -> u64 {
        self.last += 1;
        self.lasting.insert(self.last);
        self.last
    }

    /// A reported wait is over.
    pub fn end(&mut self, number: u64) {
        self.lasting.remove(&number);
    }

    /// Whether a reported wait goes on.
    pub fn lasts(&self, number: u64) -> bool {
        self.lasting.contains(&number)
    }

    /// Whether people have yet to be told that waits of several threads are not reported; from now on they have not.
    pub fn must_tell_of_threads(&mut self) -> bool {
        !std::mem::replace(&mut self.is_held_back_told, true)
    }
}
