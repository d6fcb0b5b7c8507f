//! Instances that have died, or count as dead, while the run goes on.

use super::members::neighbours_of;
use super::Server;
use crate::control::ToInstance;

impl Server {
    /// The run goes on without an instance: those who share a conduit with it hear that, now or when they join, and it is cut off if it lives.
    /// One that has left in order is not missed.
    pub(super) fn go_on_without(&mut self, instance: &str) {
        if self.is_over(instance) {
            return;
        }
        self.dead.insert(instance.to_owned());
        let its = self.controls.iter().filter(|(_, control)| control.name == instance);
        let its: Vec<u64> = its.map(|(token, _)| *token).collect();
        for token in its {
            self.send(token, &ToInstance::Abort { reason: verdict(instance) });
            self.take_down(token);
        }
        if let Some(member) = self.members.get_mut(instance) {
            (member.connection, member.ticket, member.away_until) = (None, None, None);
        }
        for neighbour in self.specs.get(instance).map(|spec| neighbours_of(spec).1).unwrap_or_default() {
            self.send_to(&neighbour, &ToInstance::PeerDied { instance: instance.to_owned() });
        }
        self.left_amid_changes(instance);
        self.left_with_handles(instance);
    }
}

/// What an instance hears that lives although it counts as dead.
pub(super) fn verdict(instance: &str) -> String {
    format!("{instance} counts as dead, and the run goes on without it")
}
