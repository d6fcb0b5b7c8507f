//! Attempts in a row: the pauses between them grow, are never quite alike (so that those who were cut off together do not come back
//! together), and end at a limit.

use std::time::{Duration, Instant};

/// First and longest pause between two attempts. When somebody returns who was away for long, everybody who waits may lose the longest, and
/// some wait for each other: a sender for a receiver that waits for its relay.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// By how much a pause may be shorter than planned.
const JITTER: f64 = 0.5;

/// See the module.
#[derive(Debug)]
pub struct Backoff {
    limit: Duration,
    began: Option<Instant>,
    attempts: u32,
    pause: Duration,
}

impl Backoff {
    /// No attempt yet; they go on for so long.
    pub fn new(limit: Duration) -> Backoff {
        Backoff { limit, began: None, attempts: 0, pause: PAUSES.0 }
    }

    /// An attempt begins, unless the last one did not succeed: then this goes on from there.
    pub fn begin(&mut self, now: Instant) {
        self.began.get_or_insert(now);
    }

    /// An attempt has failed: when to make the next one; `None`: there was time enough.
    pub fn failed(&mut self, now: Instant) -> Option<Instant> {
        let began = *self.began.get_or_insert(now);
        self.attempts += 1;
        if now.duration_since(began) >= self.limit {
            return None;
        }
        let pause = self.pause.mul_f64(1.0 - JITTER * random_part());
        self.pause = (self.pause * 2).min(PAUSES.1);
        Some(now + pause)
    }

    /// The attempts go on for so long in all.
    pub fn extend(&mut self, limit: Duration) {
        self.limit = self.limit.max(limit);
    }

    /// An attempt has succeeded: the next one is a first one again.
    pub fn succeeded(&mut self) {
        *self = Backoff::new(self.limit);
    }

    /// How often and how long was tried, for people.
    pub fn tried(&self, now: Instant) -> String {
        let seconds = self.began.map_or(0.0, |began| now.duration_since(began).as_secs_f64());
        let times = if self.attempts == 1 { "once".to_owned() } else { format!("{} times", self.attempts) };
        format!("tried {times} in {seconds:.0} s")
    }
}

/// A limit that the user may set in seconds by a variable of the environment; `usual` without it, or if it is no number.
pub fn limit_from_environment(variable: &str, usual: Duration) -> Duration {
    let text = std::env::var(variable).unwrap_or_default();
    let seconds = text.trim().parse().ok();
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(usual)
}

/// A random number from 0 to 1.
pub fn random_part() -> f64 {
    let mut bytes = [0; 4];
    // Without random numbers the pauses are longer, no more.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_lose_at_most_half_by_chance() {
        let mut backoff = Backoff::new(Duration::from_secs(3600));
        let mut now = Instant::now();
        for attempt in 0..12 {
            let planned = (PAUSES.0 * 2_u32.pow(attempt)).min(PAUSES.1);
            let pause = backoff.failed(now).unwrap() - now;
            assert!(pause <= planned && pause >= planned.mul_f64(0.499), "{attempt}: {pause:?} of {planned:?}");
            now += pause;
        }
    }

    #[test]
    fn somebody_who_is_back_is_found_within_half_a_second_however_long_the_absence_was() {
        let began = Instant::now();
        for away in [1, 3, 10, 100].map(Duration::from_secs) {
            let mut backoff = Backoff::new(Duration::MAX);
            let mut attempt = began;
            while attempt < began + away {
                attempt = backoff.failed(attempt).unwrap();
            }
            let late = attempt - (began + away);
            assert!(late <= Duration::from_millis(500), "{late:?} after {away:?}");
        }
    }

    #[test]
    fn pauses_differ() {
        let now = Instant::now();
        let first = || Backoff::new(Duration::from_secs(9)).failed(now);
        let one = first();
        assert!((0..20).any(|_| first() != one));
    }

    #[test]
    fn attempts_end_at_the_limit_and_say_how_often_and_how_long() {
        let mut backoff = Backoff::new(Duration::from_secs(30));
        let began = Instant::now();
        backoff.begin(began);
        let (mut now, mut attempts) = (began, 1);
        while let Some(next) = backoff.failed(now) {
            now = next;
            attempts += 1;
        }
        assert!(now - began >= Duration::from_secs(30) && now - began < Duration::from_secs(31));
        assert_eq!(backoff.tried(now), format!("tried {attempts} times in {:.0} s", (now - began).as_secs_f64()));
    }

    #[test]
    fn after_a_success_everything_begins_anew() {
        let mut backoff = Backoff::new(Duration::from_secs(30));
        let long_ago = Instant::now();
        backoff.begin(long_ago);
        backoff.failed(long_ago);
        backoff.succeeded();
        let now = long_ago + Duration::from_secs(60);
        assert!(backoff.failed(now).unwrap() <= now + PAUSES.0);
        assert_eq!(backoff.tried(now), "tried once in 0 s");
    }
}
