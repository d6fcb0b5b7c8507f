//! The runs that a relay serves: their keys, and the leases after which they are removed. No socket and no clock here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use xmml_wire::handshake::MAX_NAME;
use xmml_wire::relay_key::RelayKey;

use crate::config::Ends;

/// Leases are checked at least this often while a run has one.
const CHECK_EVERY: Duration = Duration::from_secs(1);

struct Run {
    key: RelayKey,
    /// The run is removed when it has not been in use for so long.
    lease: Option<Duration>,
    /// Since when it has not been in use, as far as that was checked.
    idle_since: Option<Instant>,
    /// The configuration names it.
    is_configured: bool,
}

/// All runs of a relay, by name.
#[derive(Default)]
pub struct Runs {
    runs: BTreeMap<String, Run>,
    next_check: Option<Instant>,
    ends: Ends,
    has_had_runs: bool,
}

impl Runs {
    /// Returns whether this run is new.
    ///
    /// # Errors
    /// It cannot be added; returns why.
    pub fn check(&self, run: &str, key: &RelayKey) -> Result<bool, String> {
        if run.is_empty() || run.len() > MAX_NAME {
            return Err(format!("the name of a run has 1 to {MAX_NAME} bytes"));
        }
        match self.runs.get(run) {
            None => Ok(true),
            Some(known) if known.key == *key => Ok(false),
            Some(_) => Err(format!("the run \"{run}\" is known here with another relay key; remove it first")),
        }
    }

    /// Adds a run, or gives a known run another lease.
    pub fn add(&mut self, run: &str, key: RelayKey, lease: Option<Duration>, now: Instant) {
        let added = Run { key, lease, idle_since: None, is_configured: false };
        self.runs.entry(run.to_owned()).or_insert(added).lease = lease;
        self.has_had_runs = true;
        if let Some(lease) = lease {
            let first = now + lease.min(CHECK_EVERY);
            self.next_check = Some(self.next_check.map_or(first, |before| before.min(first)));
        }
    }

    /// Removes a run. Returns false if there is none.
    pub fn remove(&mut self, run: &str) -> bool {
        self.runs.remove(run).is_some()
    }

    /// Returns whether there is this run.
    pub fn contains(&self, run: &str) -> bool {
        self.runs.contains_key(run)
    }

    /// Returns the names of all runs, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.runs.keys().map(String::as_str)
    }

    /// Returns the key of a run.
    pub fn key_of(&self, run: &str) -> Option<RelayKey> {
        self.runs.get(run).map(|run| run.key.clone())
    }

    /// Notes that the configuration names a run.
    pub fn set_configured(&mut self, run: &str) {
        if let Some(known) = self.runs.get_mut(run) {
            known.is_configured = true;
        }
    }

    /// Returns the runs that the configuration named and does not name now.
    pub fn no_longer_configured(&self, configured: &BTreeSet<&str>) -> Vec<String> {
        let gone = self.runs.iter().filter(|(name, run)| run.is_configured && !configured.contains(name.as_str()));
        gone.map(|(name, _)| name.clone()).collect()
    }

    /// Returns when leases are to be checked.
    pub fn next_time(&self) -> Option<Instant> {
        self.next_check
    }

    /// Checks the leases if that is due; returns the runs whose lease has expired. `in_use` says which runs are in use now.
    pub fn expired<'a>(&mut self, now: Instant, in_use: impl FnOnce() -> BTreeSet<&'a str>) -> Vec<String> {
        if self.next_check.is_none_or(|when| when > now) {
            return Vec::new();
        }
        let in_use = in_use();
        let mut expired = Vec::new();
        let mut shortest = None;
        for (name, run) in &mut self.runs {
            let Some(lease) = run.lease else { continue };
            shortest = Some(shortest.map_or(lease, |other: Duration| other.min(lease)));
            if in_use.contains(name.as_str()) {
                run.idle_since = None;
            } else if now.duration_since(*run.idle_since.get_or_insert(now)) >= lease {
                expired.push(name.clone());
            }
        }
        self.next_check = shortest.map(|lease| now + lease.min(CHECK_EVERY));
        expired
    }

    /// Sets when the relay stops by itself.
    pub fn set_ends(&mut self, ends: Ends) {
        self.ends = ends;
    }

    /// Returns whether the relay was there for runs of which none is left.
    pub fn is_last_removed(&self) -> bool {
        self.ends == Ends::WithLastRun && self.has_had_runs && self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key() -> RelayKey {
        RelayKey::of(b"the secret")
    }

    #[test]
    fn a_known_run_with_another_relay_key_is_refused() {
        let mut runs = Runs::default();
        assert_eq!(runs.check("canal", &key()), Ok(true));
        runs.add("canal", key(), None, Instant::now());
        assert_eq!(runs.check("canal", &key()), Ok(false));
        assert!(runs.check("canal", &RelayKey::of(b"another secret")).unwrap_err().contains("another relay key"));
    }

    #[test]
    fn the_name_of_a_run_is_neither_empty_nor_too_long() {
        let runs = Runs::default();
        assert!(runs.check("", &key()).is_err());
        assert!(runs.check(&"x".repeat(MAX_NAME + 1), &key()).is_err());
        assert!(runs.check(&"x".repeat(MAX_NAME), &key()).is_ok());
    }

    #[test]
    fn a_run_expires_when_it_has_not_been_in_use_for_its_lease() {
        let begin = Instant::now();
        let mut runs = Runs::default();
        runs.add("canal", key(), Some(2 * SECOND), begin);
        runs.add("river", key(), None, begin);
        let idle = BTreeSet::new;
        assert_eq!(runs.next_time(), Some(begin + SECOND));
        assert!(runs.expired(begin + SECOND, idle).is_empty());
        assert!(runs.expired(begin + 2 * SECOND, || BTreeSet::from(["canal"])).is_empty());
        assert!(runs.expired(begin + 3 * SECOND, idle).is_empty(), "it was in use a second ago");
        assert!(runs.expired(begin + 4 * SECOND, idle).is_empty());
        assert_eq!(runs.expired(begin + 5 * SECOND, idle), ["canal"]);
    }

    #[test]
    fn leases_are_not_checked_before_that_is_due_nor_without_any() {
        let begin = Instant::now();
        let mut runs = Runs::default();
        runs.add("river", key(), None, begin);
        assert_eq!(runs.next_time(), None);
        runs.add("canal", key(), Some(SECOND / 2), begin);
        assert_eq!(runs.next_time(), Some(begin + SECOND / 2));
        assert!(runs.expired(begin, || panic!("it is too early")).is_empty());
        runs.remove("canal");
        runs.expired(begin + SECOND, BTreeSet::new);
        assert_eq!(runs.next_time(), None);
    }

    #[test]
    fn a_run_that_is_added_again_gets_the_new_lease() {
        let begin = Instant::now();
        let mut runs = Runs::default();
        runs.add("canal", key(), None, begin);
        runs.add("canal", key(), Some(SECOND), begin);
        runs.expired(begin + SECOND, BTreeSet::new);
        assert_eq!(runs.expired(begin + 2 * SECOND, BTreeSet::new), ["canal"]);
    }

    #[test]
    fn only_runs_that_a_configuration_has_named_leave_with_it() {
        let mut runs = Runs::default();
        for run in ["canal", "river", "lake"] {
            runs.add(run, key(), None, Instant::now());
        }
        runs.set_configured("canal");
        runs.set_configured("river");
        assert_eq!(runs.no_longer_configured(&BTreeSet::from(["river"])), ["canal"]);
    }

    #[test]
    fn a_relay_that_stops_with_its_last_run_waits_for_the_first() {
        let mut runs = Runs::default();
        runs.set_ends(Ends::WithLastRun);
        assert!(!runs.is_last_removed());
        runs.add("canal", key(), None, Instant::now());
        assert!(!runs.is_last_removed());
        assert!(runs.remove("canal") && !runs.remove("canal"));
        assert!(runs.is_last_removed());
        runs.set_ends(Ends::Never);
        assert!(!runs.is_last_removed());
    }
}
