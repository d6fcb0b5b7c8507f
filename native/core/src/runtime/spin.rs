//! How long to look again and again before going to sleep.
//!
//! Waking a sleeping process costs about 20 us, looking at a socket a third of one: a wait that is likely to be short is spent looking.
//! But a spin that never pays only takes the processor from somebody else, so it switches itself off, and comes back when it pays again.
//! It also pauses while there are not enough processors: while this thread spends much of its time waiting for one, or while this process
//! holds more instances than there are processors.
//!
//! `XMML_SPIN_US` sets how long a wait looks at most, however busy the machine is (0: not at all): for processors that are ours alone.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::io_thread::process::instances_here;

/// Longest time spent looking, unless the environment says otherwise.
const LONGEST: Duration = Duration::from_micros(50);

/// After so many spins in vain, spinning stops.
const PATIENCE: u32 = 16;

/// While it has stopped, one wait in so many tries again.
const RETRY: u32 = 32;

/// Two processes that wake each other in turn may share a processor for ever while another one is idle: the system sees no need to
/// separate them. So a try is now and then long enough for it to find that both want to run.
const LONG_TRY: Duration = Duration::from_millis(4);

/// Long tries are made at most this often.
const LONG_TRY_EVERY: Duration = Duration::from_millis(200);

/// How often a thread asks how long it had to wait for a processor: soon again after the answer has changed, and ever less often while it
/// need not wait.
const LOOK_AT_DELAY_US: (u64, u64) = (2_000, 100_000);

/// For how long it does not look for messages after it had to wait: for a moment, since whatever else ran then may be over (a run begins with
/// many processes at once), and longer if it is so again soon after.
const HOLD_US: (u64, u64) = (2_000, 20_000);

/// A thread that waited for a processor during more than this share of its time shares the processors with others.
const CROWDED_SHARE: f64 = 0.2;

/// So long a thread that is woken takes to run also where nobody is in its way: that does not count. (Who sleeps for each message, and
/// is woken tens of thousands of times a second, would think for ever that the machine is crowded, and never look for a message again.)
const WAKING_NS: u64 = 25_000;

/// Stands for so many processors that nobody need share them.
const OURS_ALONE: u32 = u32::MAX;

/// What past waits teach about the next one. Shared by the threads of an instance; approximate under contention.
pub struct Spin {
    misses: AtomicU32,
    crowded: AtomicBool,
    /// When the delay was looked at last [us since `started`], how long until it is again, and what it was.
    looked_us: AtomicU64,
    pause_us: AtomicU64,
    hold_us: AtomicU64,
    delay_ns: AtomicU64,
    turns: AtomicU64,
    /// When the last long try was made [ms since `started`].
    long_try_ms: AtomicU64,
    started: Instant,
    processors: u32,
    /// How many instances this process holds.
    instances: &'static AtomicUsize,
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
            looked_us: AtomicU64::new(u64::MAX),
            pause_us: AtomicU64::new(LOOK_AT_DELAY_US.0),
            hold_us: AtomicU64::new(HOLD_US.0 / 2),
            delay_ns: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            long_try_ms: AtomicU64::new(0),
            started: Instant::now(),
            processors: if asked_for.is_some() { OURS_ALONE } else { processors() },
            instances: instances_here(),
            longest: asked_for.unwrap_or(LONGEST),
        }
    }

    /// Whether a wait that begins now should look for a moment before it even looks at the clock.
    pub fn is_worth_a_glance(&self) -> bool {
        !self.longest.is_zero()
            && self.processors > 1
            && self.misses.load(Ordering::Relaxed) < PATIENCE
            && !self.crowded.load(Ordering::Relaxed)
            && self.instances.load(Ordering::Relaxed) <= self.processors as usize
    }

    /// Until when the wait that begins now should look before it sleeps; `None`: sleep at once.
    pub fn begin(&self, now: Instant) -> Option<Instant> {
        if self.longest.is_zero() || self.instances.load(Ordering::Relaxed) > self.processors as usize {
            return None;
        }
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
        if misses >= PATIENCE {
            let now_ms = now.duration_since(self.started).as_millis() as u64;
            let last_ms = self.long_try_ms.load(Ordering::Relaxed);
            if now_ms.saturating_sub(last_ms) >= LONG_TRY_EVERY.as_millis() as u64 {
                self.long_try_ms.store(now_ms, Ordering::Relaxed);
                return Some(now + LONG_TRY);
            }
        }
        Some(now + self.longest)
    }

    /// Until when to look on, now that a part of what is waited for has come.
    pub fn go_on(&self, now: Instant) -> Instant {
        now + self.longest
    }

    /// The wait ended while looking.
    pub fn paid(&self) {
        if self.misses.load(Ordering::Relaxed) != 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// The looking was in vain.
    pub fn missed(&self) {
        let misses = self.misses.load(Ordering::Relaxed);
        if misses < PATIENCE {
            self.misses.store(misses + 1, Ordering::Relaxed);
        }
    }

    /// Whether this thread has to share the processors. The number of runnable processes would not tell: on an idle machine it
    /// already counts the two ends of a conduit and whatever else wakes up for a moment.
    fn is_crowded(&self, now: Instant) -> bool {
        match self.processors {
            0 | 1 => return true,
            OURS_ALONE => return false,
            _ => {}
        }
        let now_us = now.duration_since(self.started).as_micros() as u64;
        let looked_us = self.looked_us.load(Ordering::Relaxed);
        let pause_us = self.pause_us.load(Ordering::Relaxed);
        if looked_us == u64::MAX || now_us.saturating_sub(looked_us) >= pause_us {
            if let Some(delay) = processor_delay() {
                let before = Delay {
                    ns: self.delay_ns.swap(delay.ns, Ordering::Relaxed),
                    turns: self.turns.swap(delay.turns, Ordering::Relaxed),
                };
                let elapsed_ns = now_us.saturating_sub(looked_us).saturating_mul(1000);
                let crowded = looked_us != u64::MAX && delay.is_too_long_since(before, elapsed_ns);
                let was_crowded = self.crowded.swap(crowded, Ordering::Relaxed);
                let hold_us = self.hold_us.load(Ordering::Relaxed);
                let (pause_us, hold_us) = next_look(was_crowded, crowded, pause_us, hold_us);
                self.pause_us.store(pause_us, Ordering::Relaxed);
                self.hold_us.store(hold_us, Ordering::Relaxed);
            }
            self.looked_us.store(now_us, Ordering::Relaxed);
        }
        self.crowded.load(Ordering::Relaxed)
    }
}

/// How long until the next look at the delay, and how long a crowd is believed to last, after what was found before and now; before, it was
/// `pause_us` and `hold_us`.
fn next_look(was_crowded: bool, crowded: bool, pause_us: u64, hold_us: u64) -> (u64, u64) {
    match (was_crowded, crowded) {
        (false, false) => ((2 * pause_us).min(LOOK_AT_DELAY_US.1), hold_us),
        (true, false) => (LOOK_AT_DELAY_US.0, hold_us),
        (true, true) => (hold_us, hold_us),
        (false, true) => {
            let was_free_for_long = pause_us >= LOOK_AT_DELAY_US.1;
            let hold_us = if was_free_for_long { HOLD_US.0 } else { (2 * hold_us).min(HOLD_US.1) };
            (hold_us, hold_us)
        }
    }
}

/// Processors of this machine. Not those that this process may use: a process that is bound to one of them, as parallel programs often
/// are, has its partner on another one. (Should that share its processor after all, spinning does not pay, and switches itself off.)
fn processors() -> u32 {
    // SAFETY: sysconf has no preconditions.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// How long a thread has waited for a processor so far, and how often it had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delay {
    ns: u64,
    turns: u64,
}

impl Delay {
    /// Whether others took the processors, in the time that has passed since it was `before`.
    fn is_too_long_since(self, before: Delay, elapsed_ns: u64) -> bool {
        let usual_ns = self.turns.saturating_sub(before.turns).saturating_mul(WAKING_NS);
        let others_ns = self.ns.saturating_sub(before.ns).saturating_sub(usual_ns);
        others_ns as f64 > CROWDED_SHARE * elapsed_ns as f64
    }
}

/// That of the calling thread, if the kernel counts it.
fn processor_delay() -> Option<Delay> {
    parse_delay(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The second and the third of the three numbers of a schedstat file.
fn parse_delay(schedstat: &str) -> Option<Delay> {
    let mut numbers = schedstat.split_whitespace().skip(1).map(str::parse);
    Some(Delay { ns: numbers.next()?.ok()?, turns: numbers.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_machine() -> Spin {
        Spin { processors: OURS_ALONE, ..Spin::new() }
    }

    #[test]
    fn spinning_stops_when_it_never_pays_and_is_tried_again_rarely() {
        let spin = idle_machine();
        for _ in 0..PATIENCE {
            assert!(spin.begin(Instant::now()).is_some());
            spin.missed();
        }
        let tries = (0..RETRY * 4).filter(|_| spin.begin(Instant::now()).is_some()).count();
        assert_eq!(tries, 4);
        spin.paid();
        assert!(spin.begin(Instant::now()).is_some());
    }

    #[test]
    fn a_crowd_that_comes_again_and_again_is_believed_to_last_longer() {
        let (mut pause, mut hold) = (LOOK_AT_DELAY_US.0, HOLD_US.0 / 2);
        let mut holds = Vec::new();
        for _ in 0..5 {
            (pause, hold) = next_look(false, true, pause, hold);
            assert_eq!(next_look(true, true, pause, hold), (pause, hold), "while it lasts");
            holds.push(pause);
            (pause, hold) = next_look(true, false, pause, hold);
        }
        assert_eq!(holds, [2_000, 4_000, 8_000, 16_000, 20_000]);
        while pause < LOOK_AT_DELAY_US.1 {
            (pause, hold) = next_look(false, false, pause, hold);
        }
        assert_eq!(next_look(false, true, pause, hold).0, HOLD_US.0, "after a long time without one");
    }

    #[test]
    fn nobody_spins_on_one_processor() {
        let spin = Spin { processors: 1, ..Spin::new() };
        assert!(spin.begin(Instant::now()).is_none());
    }

    #[test]
    fn nobody_spins_in_a_process_with_more_instances_than_processors() {
        static INSTANCES: AtomicUsize = AtomicUsize::new(4);
        // The delay of this thread is not looked at: a busy machine would be a reason of its own.
        let (looked_us, pause_us) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let longest = LONGEST;
        let spin = Spin { processors: 4, instances: &INSTANCES, looked_us, pause_us, longest, ..Spin::new() };
        assert!(spin.begin(Instant::now()).is_some() && spin.is_worth_a_glance());
        INSTANCES.store(5, Ordering::Relaxed);
        assert!(spin.begin(Instant::now()).is_none() && !spin.is_worth_a_glance(), "from the next wait on");
        INSTANCES.store(4, Ordering::Relaxed);
        assert!(spin.begin(Instant::now()).is_some() && spin.is_worth_a_glance());
    }

    #[test]
    fn the_time_spent_waiting_for_a_processor_is_the_second_field_and_how_often_the_third() {
        assert_eq!(parse_delay("2718281828 31415926 1414\n"), Some(Delay { ns: 31_415_926, turns: 1414 }));
        assert_eq!(parse_delay(""), None);
    }

    #[test]
    fn who_is_woken_often_is_not_delayed_by_others() {
        let before = Delay { ns: 1_000, turns: 7 };
        let delayed = |ns, turns| Delay { ns: before.ns + ns, turns: before.turns + turns };
        assert!(!delayed(6_000_000, 500).is_too_long_since(before, 10_000_000), "12 us each");
        assert!(delayed(6_000_000, 3).is_too_long_since(before, 10_000_000), "2 ms each");
        assert!(!delayed(1_000_000, 3).is_too_long_since(before, 10_000_000), "a tenth of the time");
    }
}
