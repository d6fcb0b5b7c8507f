//! How long to look again and again before going to sleep.
//!
//! Waking a sleeping process costs about 20 us, looking at a socket a third of one: a wait that is likely to be short is spent looking.
//! But a spin that never pays only takes the processor from somebody else, so it switches itself off, and comes back when it pays again.
//!
//! `XMML_SPIN_US` sets how long a wait looks at most, however busy the machine is (0: not at all): for processors that are ours alone.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest time spent looking, unless the environment says otherwise.
const LONGEST: Duration = Duration::from_micros(50);

/// After so many spins in vain, spinning stops.
const PATIENCE: u32 = 16;

/// While it has stopped, one wait in so many tries again.
const RETRY: u32 = 32;

/// How long the answer to "are there more runnable processes than processors?" is believed.
const LOAD_VALID: Duration = Duration::from_millis(100);

/// What past waits teach about the next one. Shared by the threads of an instance; approximate under contention.
pub struct Spin {
    misses: AtomicU32,
    crowded: AtomicBool,
    load_read_ms: AtomicU64,
    started: Instant,
    processors: u32,
    longest: Duration,
}

impl Default for Spin {
    fn default() -> Spin {
        Spin::new()
    }
}

impl Spin {
    /// Nothing learnt yet.
    pub fn new() -> Spin {
        let asked_for =
            std::env::var("XMML_SPIN_US").ok().and_then(|text| text.parse().ok()).map(Duration::from_micros);
        Spin {
            misses: AtomicU32::new(0),
            crowded: AtomicBool::new(false),
            load_read_ms: AtomicU64::new(u64::MAX),
            started: Instant::now(),
            processors: if asked_for.is_some() { u32::MAX } else { processors() },
            longest: asked_for.unwrap_or(LONGEST),
        }
    }

    /// Until when the wait that begins now should look before it sleeps; `None`: sleep at once.
    pub fn begin(&self) -> Option<Instant> {
        if self.longest.is_zero() {
            return None;
        }
        let now = Instant::now();
        let misses = self.misses.load(Ordering::Relaxed);
        if misses >= PATIENCE {
            self.misses.store(misses.wrapping_add(1).max(PATIENCE), Ordering::Relaxed);
            if misses % RETRY != 0 {
                return None;
            }
        }
        if self.is_crowded(now) {
            return None;
        }
        Some(now + self.longest)
    }

    /// Until when to look on, now that a part of what is waited for has come.
    pub fn go_on(&self) -> Instant {
        Instant::now() + self.longest
    }

    /// The wait ended while looking.
    pub fn paid(&self) {
        self.misses.store(0, Ordering::Relaxed);
    }

    /// The looking was in vain.
    pub fn missed(&self) {
        let misses = self.misses.load(Ordering::Relaxed);
        if misses < PATIENCE {
            self.misses.store(misses + 1, Ordering::Relaxed);
        }
    }

    fn is_crowded(&self, now: Instant) -> bool {
        let now_ms = now.duration_since(self.started).as_millis() as u64;
        let read_ms = self.load_read_ms.load(Ordering::Relaxed);
        if read_ms == u64::MAX || now_ms.saturating_sub(read_ms) >= LOAD_VALID.as_millis() as u64 {
            self.load_read_ms.store(now_ms, Ordering::Relaxed);
            let crowded = self.processors < 2 || runnable().is_some_and(|runnable| runnable > self.processors);
            self.crowded.store(crowded, Ordering::Relaxed);
        }
        self.crowded.load(Ordering::Relaxed)
    }
}

/// Processors that are on and that this process may use: the lesser of the two, since it is a wait that is bounded by it.
fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Processes and threads that run or want to, on the whole machine (this one included).
fn runnable() -> Option<u32> {
    parse_runnable(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_runnable(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_machine() -> Spin {
        Spin { processors: u32::MAX, ..Spin::new() }
    }

    #[test]
    fn spinning_stops_when_it_never_pays_and_is_tried_again_rarely() {
        let spin = idle_machine();
        for _ in 0..PATIENCE {
            assert!(spin.begin().is_some());
            spin.missed();
        }
        let tries = (0..RETRY * 4).filter(|_| spin.begin().is_some()).count();
        assert_eq!(tries, 4);
        spin.paid();
        assert!(spin.begin().is_some());
    }

    #[test]
    fn nobody_spins_on_one_processor() {
        let spin = Spin { processors: 1, ..Spin::new() };
        assert!(spin.begin().is_none());
    }

    #[test]
    fn the_number_of_runnable_processes_is_the_fourth_field() {
        assert_eq!(parse_runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(parse_runnable(""), None);
    }
}
