//! How much of a stream may be on its way over one link, or wait behind it. The receiving relay grants credit as it passes bytes on, and
//! lets the window grow where the link, not the receiver, is what a small one would hold up. What all windows of a relay grow by is bounded,
//! and shared among the runs: see [`Budget`]. No clock here: times are given.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The window that every stream begins with, in bytes; both relays know it.
pub const FIRST: u64 = 64 << 10;

/// The window that a stream gets without asking, while the budget has room for it.
pub const USUAL: u64 = 1 << 20;

/// The largest one.
pub const MOST: u64 = 64 << 20;

/// What the [`Budget`] of a relay has, in bytes, unless it is told otherwise.
pub const GROWTH: u64 = 512 << 20;

/// What streams of a relay hold beyond what each of them, and each link, has in any case: by what windows are larger than they began, and
/// what waits on links for other relays. A run may have as much as it leaves free: one alone half of it, and whoever comes later always
/// finds some, however much others hold and do not let go.
#[derive(Clone, Debug)]
pub struct Budget {
    total: u64,
    spent: u64,
    /// What each run has of it; none that has nothing.
    runs: BTreeMap<String, u64>,
}

/// How often a run must leave free what it has: where it is needed, and where it is only usual.
const NEEDED: u64 = 1;
const CUSTOMARY: u64 = 2;

impl Budget {
    /// Nothing of `total` bytes is spent.
    pub fn new(total: u64) -> Budget {
        Budget { total, spent: 0, runs: BTreeMap::new() }
    }

    /// Another total from now on. What is spent stays spent, also where that is more.
    pub fn set_total(&mut self, total: u64) {
        self.total = total;
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is spent.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Spends at most `wanted` on a run that needs it, and returns how much.
    pub fn take(&mut self, run: &str, wanted: u64) -> u64 {
        self.spend(run, wanted, NEEDED)
    }

    fn spend(&mut self, run: &str, wanted: u64, times: u64) -> u64 {
        let own = self.runs.get(run).copied().unwrap_or(0);
        let free = self.total.saturating_sub(self.spent);
        let bytes = wanted.min(free.saturating_sub(times * own) / (times + 1));
        if bytes > 0 {
            self.spent += bytes;
            *self.runs.entry(run.to_owned()).or_default() += bytes;
        }
        bytes
    }

    /// A run needs so much of it no more.
    pub fn give_back(&mut self, run: &str, bytes: u64) {
        let Some(own) = self.runs.get_mut(run) else { return };
        *own -= bytes;
        self.spent -= bytes;
        if *own == 0 {
            self.runs.remove(run);
        }
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

    /// Makes it as large as windows are usually. Returns the credit to be granted for that. (Of what its run may have, a third is kept for
    /// streams of which it is known that they need more.)
    pub fn widen(&mut self, budget: &mut Budget, run: &str) -> u64 {
        let growth = budget.spend(run, USUAL.saturating_sub(self.size), CUSTOMARY);
        self.size += growth;
        growth
    }

    /// Bytes were passed on. Returns the credit to be granted now; 0: none yet. `round_trip` is that of the link, `budget` what the window
    /// may become larger by.
    pub fn passed_on(
        &mut self,
        bytes: u64,
        round_trip: Duration,
        (budget, run): (&mut Budget, &str),
        now: Instant,
    ) -> u64 {
        // What this relay itself put in front of the stream was never granted.
        self.passed_on = (self.passed_on + bytes).min(self.used);
        if self.passed_on < self.size / 4 {
            return 0;
        }
        let span = now.duration_since(self.since).as_secs_f64().max(1e-6);
        let wanted = 2.0 * self.passed_on as f64 / span * round_trip.as_secs_f64();
        let growth = match wanted > self.size as f64 {
            true => {
                let growth = budget.take(run, self.size.min(MOST - self.size));
                self.size += growth;
                growth
            }
            false => self.widen(budget, run),
        };
        let credit = self.passed_on + growth;
        self.used -= self.passed_on;
        self.passed_on = 0;
        self.since = now;
        credit
    }

    /// By how much it is larger than it began.
    pub fn growth(&self) -> u64 {
        self.size - FIRST
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
        let mut credit = (FIRST + window.widen(&mut budget, "r")) as f64;
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
            let granted = window.passed_on(bytes as u64, round_trip, (&mut budget, "r"), now);
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
            credited += window.passed_on(10_000, Duration::ZERO, (&mut budget, "r"), now);
        }
        assert!(10_000_000 - credited < FIRST / 4, "{credited}");
    }

    #[test]
    fn windows_of_a_run_leave_as_much_free_as_they_have_and_keep_some_for_those_that_need_it() {
        let now = Instant::now();
        let mut budget = Budget::new(24 << 20);
        let mut windows = vec![Window::new(now); 100];
        let granted: u64 = windows.iter_mut().map(|window| window.widen(&mut budget, "r")).sum();
        assert!((8 << 20) - granted < 100, "{granted}");
        let last = windows.last_mut().unwrap();
        assert!(last.growth() < 100, "it came too late");
        let mut size = last.size();
        loop {
            assert!(last.came(size));
            last.passed_on(size, Duration::from_secs(1), (&mut budget, "r"), now);
            if std::mem::replace(&mut size, last.size()) == size {
                break;
            }
        }
        assert!(last.growth() >= (4 << 20) - 100, "but this one needs it: {size}");
        let grown: u64 = windows.iter().map(Window::growth).sum();
        assert!(grown <= 12 << 20 && budget.spent() == grown, "{grown}");
        windows.iter().for_each(|window| budget.give_back("r", window.growth()));
        assert_eq!((budget.spent(), budget.runs.len()), (0, 0));
    }

    #[test]
    fn a_run_finds_some_however_much_others_hold() {
        let mut budget = Budget::new(256 << 20);
        let had: Vec<u64> = ["a", "b", "c", "d"].iter().map(|run| budget.take(run, u64::MAX)).collect();
        assert_eq!(had, [128 << 20, 64 << 20, 32 << 20, 16 << 20]);
        assert_eq!(budget.take("a", 1), 0);
        budget.give_back("a", 128 << 20);
        assert!(budget.take("d", u64::MAX) >= 40 << 20, "what others let go is for those that are left");
    }
}
