//! How much of a stream may be on its way over one link, or wait behind it. The receiving relay grants credit as it passes bytes on, and
//! lets the window grow where the link, not the receiver, is what a small one would hold up. What all windows of a relay grow by is bounded:
//! see [`Budget`]. No clock here: times are given.

use std::time::{Duration, Instant};

/// The window that every stream begins with, in bytes; both relays know it.
pub const FIRST: u64 = 64 << 10;

/// The window that a stream gets without asking, while the budget has room for it.
pub const USUAL: u64 = 1 << 20;

/// The largest one.
pub const MOST: u64 = 64 << 20;

/// What all windows of a relay together may be larger than [`FIRST`], in bytes, unless it is told otherwise.
pub const GROWTH: u64 = 256 << 20;

/// By what all windows of a relay together may be larger than they began, and are.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    total: u64,
    spent: u64,
}

impl Budget {
    /// Nothing of `total` bytes is spent.
    pub fn new(total: u64) -> Budget {
        Budget { total, spent: 0 }
    }

    /// Another total from now on. What is spent stays spent, also where that is more.
    pub fn set_total(&mut self, total: u64) {
        self.total = total;
    }

    /// Spends at most `wanted`, and returns how much.
    fn spend(&mut self, wanted: u64, total: u64) -> u64 {
        let bytes = wanted.min(total.saturating_sub(self.spent));
        self.spent += bytes;
        bytes
    }

    /// A window is gone.
    pub fn give_back(&mut self, window: &Window) {
        self.spent -= window.size - FIRST;
    }
}

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
        self.used <= self.size
    }

    /// Makes it as large as windows are usually. Returns the credit to be granted for that. (Half of the budget is kept for streams of which
    /// it is known that they need more.)
    pub fn widen(&mut self, budget: &mut Budget) -> u64 {
        let growth = budget.spend(USUAL.saturating_sub(self.size), budget.total / 2);
        self.size += growth;
        growth
    }

    /// Bytes were passed on. Returns the credit to be granted now; 0: none yet. `round_trip` is that of the link, `budget` what the window
    /// may become larger by.
    pub fn passed_on(&mut self, bytes: u64, round_trip: Duration, budget: &mut Budget, now: Instant) -> u64 {
        // What this relay itself put in front of the stream was never granted.
        self.passed_on = (self.passed_on + bytes).min(self.used);
        if self.passed_on < self.size / 4 {
            return 0;
        }
        let span = now.duration_since(self.since).as_secs_f64().max(1e-6);
        let wanted = 2.0 * self.passed_on as f64 / span * round_trip.as_secs_f64();
        let growth = match wanted > self.size as f64 {
            true => {
                let growth = budget.spend(self.size.min(MOST - self.size), budget.total);
                self.size += growth;
                growth
            }
            false => self.widen(budget),
        };
        let credit = self.passed_on + growth;
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
        let (mut window, mut budget) = (Window::new(begin), Budget::new(GROWTH));
        let step = 0.001_f64;
        let mut time = 0.0;
        let mut credit = (FIRST + window.widen(&mut budget)) as f64;
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
            let now = begin + Duration::from_secs_f64(time);
            let granted = window.passed_on(bytes as u64, round_trip, &mut budget, now);
            if granted > 0 {
                returning.push((time + round_trip.as_secs_f64(), granted));
            }
        }
        window.size()
    }

    #[test]
    fn a_near_link_needs_no_large_window() {
        assert_eq!(after(1.0, 125e6, Duration::from_micros(500)), USUAL);
    }

    #[test]
    fn a_far_and_fast_link_gets_the_window_that_fills_it() {
        let window = after(5.0, 125e6, Duration::from_millis(100));
        assert!(window >= 12_500_000, "{window}");
    }

    #[test]
    fn a_slow_receiver_does_not_get_a_larger_window() {
        assert_eq!(after(5.0, 1e6, Duration::from_millis(100)), USUAL);
    }

    #[test]
    fn a_sender_that_takes_more_than_it_was_granted_is_found_out() {
        let mut window = Window::new(Instant::now());
        assert!(window.came(FIRST));
        assert!(!window.came(1));
    }

    #[test]
    fn every_byte_that_was_passed_on_is_credited() {
        let now = Instant::now();
        let (mut window, mut budget) = (Window::new(now), Budget::new(0));
        let mut credited = 0;
        for _ in 0..1000 {
            assert!(window.came(10_000));
            credited += window.passed_on(10_000, Duration::ZERO, &mut budget, now);
        }
        assert!(10_000_000 - credited < FIRST / 4, "{credited}");
    }

    #[test]
    fn all_windows_together_keep_to_the_budget_and_half_of_it_is_for_those_that_need_it() {
        let now = Instant::now();
        let mut budget = Budget::new(16 << 20);
        let mut windows = vec![Window::new(now); 100];
        let granted: u64 = windows.iter_mut().map(|window| window.widen(&mut budget)).sum();
        assert_eq!(granted, 8 << 20);
        let last = windows.last_mut().unwrap();
        assert_eq!(last.size(), FIRST, "it came too late");
        let mut size = last.size();
        loop {
            assert!(last.came(size));
            last.passed_on(size, Duration::from_secs(1), &mut budget, now);
            if std::mem::replace(&mut size, last.size()) == size {
                break;
            }
        }
        assert_eq!(size, FIRST + (8 << 20), "but this one needs it");
        assert_eq!(windows.iter().map(|window| window.size() - FIRST).sum::<u64>(), 16 << 20);
        windows.iter().for_each(|window| budget.give_back(window));
        assert_eq!(budget.spend(u64::MAX, budget.total), 16 << 20);
    }
}
