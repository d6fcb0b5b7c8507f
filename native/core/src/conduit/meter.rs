//! How fast a conduit carries messages, for people who ask.

use std::time::{Duration, Instant};

/// Rates are taken over at least this long, so that one message does not look like a storm.
const SHORTEST_WINDOW: Duration = Duration::from_millis(200);

/// How fast a count grows: looked at when somebody asks, so that it costs nothing while nobody does.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    since: Option<Instant>,
    messages: u64,
    bytes: u64,
    rates: (f64, f64),
}

impl Meter {
    /// Nothing has passed.
    pub const fn new() -> Meter {
        Meter { since: None, messages: 0, bytes: 0, rates: (0.0, 0.0) }
    }

    /// Messages and bytes per second since it was asked before (longer ago than a moment); the first time, 0.
    pub fn read(&mut self, messages: u64, bytes: u64, now: Instant) -> (f64, f64) {
        match self.since {
            Some(since) if now.saturating_duration_since(since) < SHORTEST_WINDOW => return self.rates,
            Some(since) => {
                let seconds = now.saturating_duration_since(since).as_secs_f64();
                let rate = |count: u64, before: u64| count.saturating_sub(before) as f64 / seconds;
                self.rates = (rate(messages, self.messages), rate(bytes, self.bytes));
            }
            None => {}
        }
        (self.since, self.messages, self.bytes) = (Some(now), messages, bytes);
        self.rates
    }
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_came_since_it_was_asked_before() {
        let mut meter = Meter::new();
        let start = Instant::now();
        assert_eq!(meter.read(10, 1000, start), (0.0, 0.0));
        let (messages, bytes) = meter.read(30, 5000, start + Duration::from_secs(2));
        assert_eq!((messages, bytes), (10.0, 2000.0));
        assert_eq!(meter.read(31, 5001, start + Duration::from_secs(2)), (10.0, 2000.0), "too soon to say");
    }
}
