//! When something must have happened on a connection. No clock here: times are given.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use crate::registry::Token;

/// One deadline for each connection that has any.
#[derive(Debug, Default)]
pub struct Deadlines {
    in_order: BTreeSet<(Instant, Token)>,
    of: HashMap<Token, Instant>,
}

impl Deadlines {
    /// Sets the deadline of a connection, in place of the one that it had.
    pub fn set(&mut self, token: Token, when: Instant) {
        self.cancel(token);
        self.in_order.insert((when, token));
        self.of.insert(token, when);
    }

    /// Removes the deadline of a connection.
    pub fn cancel(&mut self, token: Token) {
        if let Some(before) = self.of.remove(&token) {
            self.in_order.remove(&(before, token));
        }
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.in_order.first().map(|(when, _)| *when)
    }

    /// Removes the earliest deadline if it has passed, and returns its connection.
    pub fn take_expired(&mut self, now: Instant) -> Option<Token> {
        let (_, token) = self.in_order.first().copied().filter(|(when, _)| *when <= now)?;
        self.cancel(token);
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn deadlines_expire_in_the_order_of_their_times() {
        let begin = Instant::now();
        let mut deadlines = Deadlines::default();
        deadlines.set(7, begin + 2 * SECOND);
        deadlines.set(9, begin + SECOND);
        assert_eq!(deadlines.next(), Some(begin + SECOND));
        assert_eq!(deadlines.take_expired(begin), None);
        assert_eq!(deadlines.take_expired(begin + 2 * SECOND), Some(9));
        assert_eq!(deadlines.take_expired(begin + 2 * SECOND), Some(7));
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn a_new_deadline_replaces_the_old_one() {
        let begin = Instant::now();
        let mut deadlines = Deadlines::default();
        deadlines.set(7, begin);
        deadlines.set(7, begin + SECOND);
        assert_eq!(deadlines.take_expired(begin), None);
        assert_eq!(deadlines.take_expired(begin + SECOND), Some(7));
    }

    #[test]
    fn a_cancelled_deadline_does_not_expire() {
        let begin = Instant::now();
        let mut deadlines = Deadlines::default();
        deadlines.set(7, begin);
        deadlines.cancel(7);
        assert_eq!(deadlines.take_expired(begin + SECOND), None);
    }
}
