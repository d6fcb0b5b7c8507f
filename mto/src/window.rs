//! How much of a stream may be on its way over one link, or wait behind it. The receiving relay grants credit as it passes bytes on, and
//! lets the window grow where the link, not the receiver, is what a small one would hold up. No clock here: times are given.

use std::time::{Duration, Instant};

/// The window that every stream begins with, in bytes.
pub const FIRST: u64 = 1 << 20;

/// The largest one.
pub const MOST: u64 = 64 << 20;

/// What all windows of a relay together may be larger than [`FIRST`], in bytes.
pub const GROWTH: u64 = 256 << 20;

/// How much a sender may go beyond its credit: it may send a whole message while any credit is left.
pub const OVERDRAFT: u64 = 512 << 10;

/// The receiving side's books on one stream.
#[derive(Clone, Debug)]
pub struct Window {
    size: u64,
    /// Bytes that came and are not credited again.
    used: u64,
    /// Of these, bytes that were passed on.
    passed_on: u64,
    since: Instant,
}

impl Window {
    /// Nothing has come.
    pub fn new(now: Instant) -> Window {
        Window { size: FIRST, used: 0, passed_on: 0, since: now }
    }

    /// Bytes have come. False: more than was granted, which no honest relay does.
    pub fn came(&mut self, bytes: u64) -> bool {
        self.used += bytes;
        self.used <= self.size + OVERDRAFT
    }

    /// Bytes were passed on. Returns the credit to be granted now; 0: none yet. `round_trip` is that of the link, `may_grow` what the
    /// window may become larger by.
    pub fn passed_on(&mut self, bytes: u64, round_trip: Duration, may_grow: u64, now: Instant) -> u64 {
        // What this relay itself put in front of the stream was never granted.
        self.passed_on = (self.passed_on + bytes).min(self.used);
        if self.passed_on < self.size / 4 {
            return 0;
        }
        let span = now.duration_since(self.since).as_secs_f64().max(1e-6);
        let wanted = 2.0 * self.passed_on as f64 / span * round_trip.as_secs_f64();
        let growth = if wanted > self.size as f64 { self.size.min(MOST - self.size).min(may_grow) } else { 0 };
        let credit = self.passed_on + growth;
        self.size += growth;
        self.used -= self.passed_on;
        self.passed_on = 0;
        self.since = now;
        credit
    }

    /// How large it is.
    pub fn size(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender that always sends what it may; the receiver passes on at `rate` bytes per second. Returns the window after `seconds`.
    fn after(seconds: f64, rate: f64, round_trip: Duration) -> u64 {
        let begin = Instant::now();
        let mut window = Window::new(begin);
        let step = 0.001_f64;
        let mut time = 0.0;
        let mut credit = FIRST as f64;
        // Credit that is on its way back, and when it arrives.
        let mut returning: Vec<(f64, u64)> = Vec::new();
        while time < seconds {
            time += step;
            returning.retain(|(when, bytes)| {
                let is_due = *when <= time;
                if is_due {
                    credit += *bytes as f64;
                }
                !is_due
            });
            let bytes = (rate * step).min(credit).max(0.0);
            credit -= bytes;
            assert!(window.came(bytes as u64));
            let granted = window.passed_on(bytes as u64, round_trip, GROWTH, begin + Duration::from_secs_f64(time));
            if granted > 0 {
                returning.push((time + round_trip.as_secs_f64(), granted));
            }
        }
        window.size()
    }

    #[test]
    fn a_near_link_needs_no_large_window() {
        assert_eq!(after(1.0, 125e6, Duration::from_micros(500)), FIRST);
    }

    #[test]
    fn a_far_and_fast_link_gets_the_window_that_fills_it() {
        let window = after(5.0, 125e6, Duration::from_millis(100));
        assert!(window >= 12_500_000, "{window}");
    }

    #[test]
    fn a_slow_receiver_does_not_get_a_larger_window() {
        assert_eq!(after(5.0, 1e6, Duration::from_millis(100)), FIRST);
    }

    #[test]
    fn a_sender_that_takes_more_than_it_was_granted_is_found_out() {
        let mut window = Window::new(Instant::now());
        assert!(window.came(FIRST + OVERDRAFT));
        assert!(!window.came(1));
    }

    #[test]
    fn every_byte_that_was_passed_on_is_credited() {
        let now = Instant::now();
        let mut window = Window::new(now);
        let mut credited = 0;
        for _ in 0..1000 {
            assert!(window.came(100_000));
            credited += window.passed_on(100_000, Duration::ZERO, 0, now);
        }
        assert!(100_000_000 - credited < FIRST / 4, "{credited}");
    }
}
