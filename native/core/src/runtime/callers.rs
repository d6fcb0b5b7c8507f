//! Which threads of the program make calls.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The threads that have made calls so far: none, one, or several.
#[derive(Default)]
pub struct Callers {
    /// The number of the first; 0 before any call.
    first: AtomicU64,
    are_several: AtomicBool,
}

impl Callers {
    /// Notes that this thread makes a call. True: it is the first call that does not come from the first thread.
    #[inline]
    pub fn note(&self) -> bool {
        let me = thread_number();
        let first = self.first.load(Ordering::Relaxed);
        first != me && self.note_other(me, first)
    }

    fn note_other(&self, me: u64, first: u64) -> bool {
        let claim = || self.first.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire);
        let is_first = first == 0 && claim().unwrap_or_else(|other| other) == 0;
        !is_first && !self.are_several.swap(true, Ordering::AcqRel)
    }

    /// Whether calls have come from more than one thread.
    pub fn are_several(&self) -> bool {
        self.are_several.load(Ordering::Acquire)
    }
}

/// A number that no other thread of this process has, from 1.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_thread_are_calls_of_one() {
        let callers = Callers::default();
        assert!(!callers.note() && !callers.note());
        assert!(!callers.are_several());
    }

    #[test]
    fn the_first_call_of_a_second_thread_is_noticed_once() {
        let callers = Callers::default();
        callers.note();
        let noticed = std::thread::scope(|scope| scope.spawn(|| [callers.note(), callers.note()]).join());
        assert_eq!(noticed.ok(), Some([true, false]));
        assert!(callers.are_several() && !callers.note());
    }
}
