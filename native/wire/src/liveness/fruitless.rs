//! Connections that are made again and again and bring nothing: somebody cuts each before what waits has passed.

use std::time::{Duration, Instant};

use super::backoff::Backoff;

/// Counts how long connections have brought nothing.
#[derive(Debug)]
pub struct Fruitless {
    progress: u64,
    /// Of connections in a row by which what waits has not passed.
    in_vain: Backoff,
    /// Of connections in a row that nothing waited for.
    idle: Backoff,
}

impl Fruitless {
    /// None yet; they may go on for so long.
    pub fn new(limit: Duration) -> Fruitless {
        Fruitless { progress: 0, in_vain: Backoff::new(limit), idle: Backoff::new(Duration::MAX) }
    }

    /// A connection is lost. `progress` is a number that changes whenever something has passed, `waits`: something has not. Returns when
    /// to make the next connection; `None`: for all this time none has brought anything.
    pub fn lost(&mut self, progress: u64, waits: bool, now: Instant) -> Option<Instant> {
        let has_passed = std::mem::replace(&mut self.progress, progress) != progress;
        if has_passed || !waits {
            self.in_vain.succeeded();
        }
        if has_passed {
            self.idle.succeeded();
            return Some(now);
        }
        if waits {
            self.in_vain.failed(now)
        } else {
            self.idle.failed(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// How many connections are made in this time, if each is cut at once.
    fn made(waits: bool, progress: impl Fn(u64) -> u64, time: Duration) -> (u64, bool) {
        let mut fruitless = Fruitless::new(LIMIT);
        let began = Instant::now();
        let (mut now, mut count) = (began, 0);
        while now < began + time {
            match fruitless.lost(progress(count), waits, now) {
                Some(again) => now = again.max(now + Duration::from_millis(1)),
                None => return (count, false),
            }
            count += 1;
        }
        (count, true)
    }

    #[test]
    fn connections_that_bring_nothing_are_made_ever_less_often_and_not_for_ever() {
        let (count, goes_on) = made(true, |_| 7, 2 * LIMIT);
        assert!(!goes_on && (10..60).contains(&count), "{count}");
    }

    #[test]
    fn where_nothing_waits_they_are_made_without_end_but_not_without_pause() {
        let (count, goes_on) = made(false, |_| 7, 10 * LIMIT);
        assert!(goes_on && count < 300, "{count}");
    }

    #[test]
    fn connections_that_bring_something_are_made_at_once_and_without_end() {
        let (count, goes_on) = made(true, |count| count, 2 * LIMIT);
        assert!(goes_on && count > 19_900, "{count}");
    }
}
