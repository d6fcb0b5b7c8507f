//! Changes of methods: who asks is answered when the sender has gone over; the receiver opens its doors before. Each change has a number, so
//! that of several for one conduit each gets its own answer.

use std::sync::Arc;

use super::Server;
use crate::control::ToInstance;
use crate::coordinator::Event;

/// A change that has not come about yet.
pub struct Change {
    /// Who waits for the answer, and by which number; `None`: the holder of the coordinator, who hears of it as an event.
    asker: Option<(String, u64)>,
    conduit: u32,
}

impl Server {
    /// Somebody wants other methods on a conduit.
    pub(super) fn change(&mut self, change: u64, asker: Option<(String, u64)>, conduit: u32, methods: &[String]) {
        self.changes.insert(change, Change { asker, conduit });
        let Some((sender, receiver)) = self.ends_in_order(conduit) else {
            let problem = Some(format!("there is no conduit {conduit}"));
            return self.changed("coordinator".to_owned(), change, conduit, None, problem);
        };
        for spec in self.specs.values_mut() {
            for end in spec.conduits.iter_mut().filter(|end| end.id == conduit) {
                Arc::make_mut(end).methods = methods.to_vec();
            }
        }
        if let Some(gone) = [&sender, &receiver].into_iter().find(|name| self.is_over(name)) {
            let problem = Some(format!("{gone} has left"));
            return self.changed(sender.clone(), change, conduit, None, problem);
        }
        let allow = ToInstance::Allow { change, conduit, methods: methods.to_vec() };
        match self.is_here(&receiver) {
            true => self.send_to(&receiver, &allow),
            false => self.allow_at_sender(change, conduit, methods),
        }
    }

    /// The receiver is ready for it, or will be when it joins.
    pub(super) fn allow_at_sender(&mut self, change: u64, conduit: u32, methods: &[String]) {
        let Some((sender, receiver)) = self.ends_in_order(conduit) else { return };
        if sender == receiver {
            return; // it knows already
        }
        if self.is_here(&sender) {
            self.send_to(&sender, &ToInstance::Allow { change, conduit, methods: methods.to_vec() });
        } else {
            self.changed(sender, change, conduit, None, None);
        }
    }

    /// What became of it.
    pub(super) fn changed(
        &mut self,
        instance: String,
        change: u64,
        conduit: u32,
        method: Option<String>,
        problem: Option<String>,
    ) {
        let Some(known) = self.changes.remove(&change) else { return };
        if let Some((asker, request)) = known.asker {
            let answer = ToInstance::Changed { request, method: method.clone(), problem: problem.clone() };
            self.send_to(&asker, &answer);
        }
        self.shared.event(Event::Changed { instance, change, conduit, method, problem });
    }

    /// An instance has left or died: changes of its conduits will not come about, and what it asked for nobody waits for.
    pub(super) fn left_amid_changes(&mut self, instance: &str) {
        let its = |ends: Option<(String, String)>| {
            ends.is_some_and(|(sender, receiver)| sender == instance || receiver == instance)
        };
        let over: Vec<(u64, u32)> = self
            .changes
            .iter()
            .filter(|(_, change)| its(self.ends_in_order(change.conduit)))
            .map(|(number, change)| (*number, change.conduit))
            .collect();
        for (change, conduit) in over {
            self.changed(instance.to_owned(), change, conduit, None, Some(format!("{instance} has left")));
        }
    }

    /// How many changes an instance waits for.
    pub(super) fn changes_asked_by(&self, instance: &str) -> usize {
        let is_its = |change: &&Change| change.asker.as_ref().is_some_and(|(asker, _)| asker == instance);
        self.changes.values().filter(is_its).count()
    }

    /// Whether it can be told something, now or when it comes back.
    fn is_here(&self, instance: &str) -> bool {
        self.members.get(instance).is_some_and(|member| member.connection.is_some() || member.away_until.is_some())
    }

    /// Sender and receiver.
    fn ends_in_order(&self, conduit: u32) -> Option<(String, String)> {
        let mut ends = self.specs.values().flat_map(|spec| &spec.conduits);
        ends.find(|end| end.id == conduit).map(|end| (end.sender.clone(), end.receiver.clone()))
    }
}
