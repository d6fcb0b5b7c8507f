//! A partner reports that its connection to an instance has ended. Such a connection ends only when the process of the instance ends. So
//! the coordinator waits a moment: an instance that is still connected then has closed the connection against the protocol. (A partner that
//! lies brings this on an instance that has done nothing: the secret of a run is shared by all of it.)

use std::time::{Duration, Instant};

use super::Server;

/// All sockets of a process close together, so the coordinator learns of its end within this time.
const VERDICT_AFTER: Duration = Duration::from_secs(1);

/// An instance that seemed to have ended.
pub struct Suspicion {
    instance: String,
    /// The connection to it at that time.
    connection: u64,
    partner: String,
    reason: String,
    due: Instant,
}

impl Server {
    /// A partner says that a connection with an instance has ended.
    pub(super) fn suspect(&mut self, instance: &str, partner: &str, reason: &str) {
        // A writer that leaves does not wait for a tap until the end: it may have closed that connection in order.
        if self.taps.contains(partner) {
            return;
        }
        let Some(member) = self.members.get(instance).filter(|member| member.left.is_none()) else { return };
        let is_suspected = self.suspicions.iter().any(|other| other.instance == instance);
        if let (Some(connection), false) = (member.connection, is_suspected) {
            let (partner, reason) = (partner.to_owned(), reason.to_owned());
            let due = Instant::now() + VERDICT_AFTER;
            self.suspicions.push_back(Suspicion { instance: instance.to_owned(), connection, partner, reason, due });
        }
    }

    /// When the next one is due.
    pub(super) fn next_verdict(&self) -> Option<Instant> {
        self.suspicions.front().map(|suspicion| suspicion.due)
    }

    /// Complains about each suspect that is still connected.
    pub(super) fn reach_verdicts(&mut self, now: Instant) {
        while self.next_verdict().is_some_and(|due| due <= now) {
            let Some(Suspicion { instance, connection, partner, reason, .. }) = self.suspicions.pop_front() else {
                return;
            };
            let member = self.members.get(&instance).filter(|member| member.left.is_none());
            if member.is_some_and(|member| member.connection == Some(connection)) {
                let problem =
                    format!("it lives, and ended a connection with {partner} before its conduits had ended ({reason})");
                self.complain(connection, &problem);
            }
        }
    }
}
