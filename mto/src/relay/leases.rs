//! Runs that nobody uses any more are forgotten, and a relay that was there for them ends.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Connection, Relay};
use crate::config::Ends;
use crate::log::Level;

/// How often it is looked, at least, while a run has a lease.
const CHECK_EVERY: Duration = Duration::from_secs(1);

impl Relay {
    pub(super) fn begin_lease(&mut self, lease: Option<Duration>) {
        if let Some(lease) = lease {
            let first = Instant::now() + lease.min(CHECK_EVERY);
            self.next_lease_check = Some(self.next_lease_check.map_or(first, |before| before.min(first)));
        }
    }

    pub(super) fn check_leases(&mut self, now: Instant) {
        if self.next_lease_check.is_none_or(|when| when > now) {
            return;
        }
        let mut busy: BTreeSet<&str> = self.pipes.values().map(|pipe| pipe.run.as_str()).collect();
        for connection in self.connections.values() {
            match connection {
                Connection::Registered(registered) => drop(busy.insert(&registered.run)),
                Connection::Opening { run, .. } => drop(busy.insert(run)),
                _ => {}
            }
        }
        let mut over = Vec::new();
        let mut shortest = None;
        for (name, run) in &mut self.runs {
            let Some(lease) = run.lease else { continue };
            shortest = Some(shortest.map_or(lease, |other: Duration| other.min(lease)));
            if busy.contains(name.as_str()) {
                run.idle_since = None;
            } else if now.duration_since(*run.idle_since.get_or_insert(now)) >= lease {
                over.push(name.clone());
            }
        }
        self.next_lease_check = shortest.map(|lease| now + lease.min(CHECK_EVERY));
        for run in over {
            self.log.event(Level::Info, "lease of a run is over", &[("run", &run)]);
            self.remove_run(&run);
        }
    }

    /// Whether it was told to end, or was there for runs of which none is left.
    pub(super) fn is_at_its_end(&self) -> bool {
        self.is_to_end || self.ends == Ends::WithLastRun && self.has_had_runs && self.runs.is_empty()
    }
}
