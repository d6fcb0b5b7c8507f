//! Changes of methods that the program has asked for, and what became of them.

use std::collections::HashMap;

/// What became of a change of methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The method in use now; `None`: it will be chosen when the receiver joins.
    pub method: Option<String>,
    /// Why the conduit goes on as before.
    pub problem: Option<String>,
}

/// Requests of the program to change the method of a conduit.
#[derive(Default)]
pub struct MethodChanges {
    /// By the number of the request; `None`: it is not known yet what became of it.
    outcomes: HashMap<u64, Option<Changed>>,
    last: u64,
}

impl MethodChanges {
    /// Begins a request, and returns its number.
    pub fn request(&mut self) -> u64 {
        self.last += 1;
        self.outcomes.insert(self.last, None);
        self.last
    }

    /// Notes what became of a request, if anybody still waits for that.
    pub fn settle(&mut self, request: u64, outcome: Changed) {
        if let Some(known) = self.outcomes.get_mut(&request) {
            *known = Some(outcome);
        }
    }

    /// Whether it is known what became of a request.
    pub fn is_settled(&self, request: u64) -> bool {
        self.outcomes.get(&request).is_none_or(Option::is_some)
    }

    /// Forgets a request; what became of it, if that is known.
    pub fn take(&mut self, request: u64) -> Option<Changed> {
        self.outcomes.remove(&request).flatten()
    }
}
