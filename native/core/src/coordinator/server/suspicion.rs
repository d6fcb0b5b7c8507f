//! Instances of which a partner says that a connection with them has ended that ends only with their process. Who has died is soon known
//! to be gone; who still lives after a moment has closed the connection against the protocol.

use std::time::{Duration, Instant};

use super::Server;

/// How long it may take until the end of a process is known here: its sockets close together.
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

    /// Looks who of them lives.
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
