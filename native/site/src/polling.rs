//! When files that other hosts write are polled, and the lease that ends what nobody waits for any more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::system::replace_file;

/// The pauses between two polls of a file of which nobody says that it has grown.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// After something was found.
    pub first: Duration,
    /// However long nothing was.
    pub longest: Duration,
}

/// By what a pause grows when nothing was found.
const GROWTH: f64 = 1.2;
/// Whoever else says that there is something new causes polls, not more often than this.
const MOST_OFTEN: Duration = Duration::from_millis(5);
/// How often the lease is polled.
pub const LEASE_EVERY: Duration = Duration::from_secs(2);

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { first: Duration::from_millis(30), longest: Duration::from_secs(2) }
    }
}

/// When a file is polled again: at once when somebody says that there is something new, else ever more seldom.
pub struct Polling {
    pauses: Pauses,
    pause: Duration,
    polled_at: Option<Instant>,
    /// Somebody has said that there is something new.
    pub has_news: bool,
}

impl Polling {
    /// Of a file that is to be polled at once.
    pub fn new(pauses: Pauses) -> Polling {
        Polling { pauses, pause: pauses.first, polled_at: None, has_news: true }
    }

    /// Returns how long there is nothing to poll.
    pub fn due_in(&self, now: Instant) -> Duration {
        let pause = if self.has_news { MOST_OFTEN } else { self.pause };
        self.polled_at.map_or(Duration::ZERO, |at| (at + pause).saturating_duration_since(now))
    }

    /// The file was polled; `found`: there was something, so that more may follow.
    pub fn polled(&mut self, now: Instant, found: bool) {
        self.polled_at = Some(now);
        self.has_news = false;
        self.pause = if found { self.pauses.first } else { self.pause.mul_f64(GROWTH).min(self.pauses.longest) };
    }
}

/// The launcher's heartbeat: a file whose content changes. Clocks of other hosts play no part.
pub struct Lease {
    path: PathBuf,
    content: String,
    changed_at: Instant,
    poll_at: Instant,
}

impl Lease {
    /// A lease that begins now.
    pub fn new(path: PathBuf, now: Instant) -> Lease {
        Lease { path, content: String::new(), changed_at: now, poll_at: now }
    }

    /// Returns whether the file has not changed for as long as it says.
    pub fn has_expired(&mut self, now: Instant) -> bool {
        if now < self.poll_at {
            return false;
        }
        self.poll_at = now + LEASE_EVERY;
        if let Ok(content) = fs::read_to_string(&self.path) {
            if content != self.content {
                self.content = content;
                self.changed_at = now;
            }
        }
        let lasts_s = self.content.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
        lasts_s.is_some_and(|lasts_s| now.saturating_duration_since(self.changed_at).as_secs_f64() > lasts_s)
    }
}

/// Writes the launcher's heartbeat for a run.
///
/// # Errors
/// The file cannot be written.
pub fn renew_lease(run: &Path, content: &str) -> io::Result<()> {
    replace_file(&run.join("lease"), content.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_come_soon_after_something_was_found_and_ever_more_seldom_then() {
        let (pauses, began) = (Pauses::default(), Instant::now());
        let (mut polling, mut now) = (Polling::new(pauses), began);
        assert_eq!(polling.due_in(now), Duration::ZERO);
        polling.polled(now, true);
        let mut seen = Vec::new();
        while now < began + Duration::from_secs(60) {
            seen.push(polling.due_in(now));
            now += polling.due_in(now);
            polling.polled(now, false);
        }
        assert_eq!((seen.first(), seen.last()), (Some(&pauses.first), Some(&pauses.longest)));
        assert!(seen.is_sorted());
        polling.has_news = true;
        assert_eq!(polling.due_in(now), MOST_OFTEN);
    }

    #[test]
    fn a_lease_has_expired_when_it_was_not_renewed_for_as_long_as_it_says() {
        let path = std::env::temp_dir().join(format!("xmml-lease-{}", std::process::id()));
        let mut now = Instant::now();
        let mut lease = Lease::new(path.clone(), now);
        assert!(!lease.has_expired(now), "there is none yet");
        for sign in 1..25 {
            fs::write(&path, format!("{sign} 10\n")).unwrap();
            for _ in 0..4 {
                now += LEASE_EVERY;
                assert!(!lease.has_expired(now));
            }
        }
        now += Duration::from_secs(11);
        assert!(lease.has_expired(now));
        fs::remove_file(&path).unwrap();
    }
}
