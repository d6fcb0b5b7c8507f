//! How far the program is, noted by its calls and read by the I/O thread, which reports it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::state::Position;

/// What the calls of an instance note without a lock.
#[derive(Default)]
pub struct Progress {
    /// Run, iteration, and the bits of the model time; each may be read between two writes of the others.
    position: [AtomicU64; 3],
    is_to_be_reported: AtomicBool,
    /// How long calls have waited for others so far [ns].
    waited_ns: AtomicU64,
}

impl Progress {
    /// Notes where the program is; cheap enough for every message. True: the I/O thread must be told to report it.
    #[inline]
    pub fn note(&self, position: Position) -> bool {
        let values = [position.run, position.iteration, position.time.to_bits()];
        self.position.iter().zip(values).for_each(|(place, value)| place.store(value, Ordering::Relaxed));
        !self.is_to_be_reported.load(Ordering::Acquire) && !self.is_to_be_reported.swap(true, Ordering::AcqRel)
    }

    /// The I/O thread reports: what is noted from now on must be reported again.
    pub fn begin_report(&self) {
        self.is_to_be_reported.store(false, Ordering::Release);
    }

    /// Where the program was last seen.
    pub fn position(&self) -> Position {
        let [run, iteration, time] = &self.position;
        Position {
            run: run.load(Ordering::Relaxed),
            iteration: iteration.load(Ordering::Relaxed),
            time: f64::from_bits(time.load(Ordering::Relaxed)),
        }
    }

    /// Notes that a call has waited so long for others.
    pub fn note_waited(&self, waited: Duration) {
        if !waited.is_zero() {
            self.waited_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// How long the calls have waited for others so far, all together. Waits of less than a microsecond or two are not counted: a look at
    /// the clock takes as long as such a wait.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_io_thread_is_told_once_until_it_reports() {
        let progress = Progress::default();
        let position = Position { run: 2, iteration: 7, time: 0.5 };
        assert!(progress.note(position) && !progress.note(position));
        progress.begin_report();
        assert!(progress.note(position));
        assert_eq!(progress.position(), position);
    }
}
