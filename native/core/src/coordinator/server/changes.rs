//! Changes of methods: who asks is answered when the sender has gone over; the receiver opens its doors before.

use super::Server;
use crate::control::ToInstance;
use crate::coordinator::Event;

impl Server {
    /// Somebody (`None`: the holder of the coordinator) wants other methods on a conduit.
    pub(super) fn change(&mut self, asker: Option<String>, conduit: u32, methods: &[String]) {
        let Some((sender, receiver)) = self.ends_in_order(conduit) else {
            let problem = Some(format!("there is no conduit {conduit}"));
            return self.tell_of_change(asker.into_iter(), conduit, None, problem);
        };
        self.askers.entry(conduit).or_default().extend(asker);
        for spec in self.specs.values_mut() {
            for end in spec.conduits.iter_mut().filter(|end| end.id == conduit) {
                end.methods = methods.to_vec();
            }
        }
        let has_left = |name: &str| self.members.get(name).is_some_and(|member| member.left.is_some());
        if let Some(gone) = [&sender, &receiver].into_iter().find(|name| has_left(name)) {
            let problem = Some(format!("{gone} has left"));
            return self.changed(sender.clone(), conduit, None, problem);
        }
        let allow = ToInstance::Allow { conduit, methods: methods.to_vec() };
        match self.is_here(&receiver) {
            true => self.send_to(&receiver, &allow),
            false => self.allow_at_sender(conduit, methods),
        }
    }

    /// The receiver is ready for it, or will be when it joins.
    pub(super) fn allow_at_sender(&mut self, conduit: u32, methods: &[String]) {
        let Some((sender, receiver)) = self.ends_in_order(conduit) else { return };
        if sender == receiver {
            return; // it knows already
        }
        if self.is_here(&sender) {
            self.send_to(&sender, &ToInstance::Allow { conduit, methods: methods.to_vec() });
        } else {
            self.changed(sender, conduit, None, None);
        }
    }

    /// What became of it.
    pub(super) fn changed(&mut self, instance: String, conduit: u32, method: Option<String>, problem: Option<String>) {
        let askers = self.askers.remove(&conduit).unwrap_or_default();
        self.tell_of_change(askers.into_iter(), conduit, method.clone(), problem.clone());
        self.shared.event(Event::Changed { instance, conduit, method, problem });
    }

    fn tell_of_change(
        &mut self,
        askers: impl Iterator<Item = String>,
        conduit: u32,
        method: Option<String>,
        problem: Option<String>,
    ) {
        let answer = ToInstance::Changed { conduit, method, problem };
        askers.for_each(|asker| self.send_to(&asker, &answer));
    }

    fn is_here(&self, instance: &str) -> bool {
        self.members.get(instance).is_some_and(|member| member.connection.is_some())
    }

    /// Sender and receiver.
    fn ends_in_order(&self, conduit: u32) -> Option<(String, String)> {
        let mut ends = self.specs.values().flat_map(|spec| &spec.conduits);
        ends.find(|end| end.id == conduit).map(|end| (end.sender.clone(), end.receiver.clone()))
    }
}
