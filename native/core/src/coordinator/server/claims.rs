//! What an instance says is about conduits that begin or end at it, and about what it was asked: whoever says anything else breaks the
//! protocol. So nothing that a member claims reaches others, or whoever decides about the run, unless it can be true.

use std::collections::BTreeMap;

use super::Server;
use crate::control::{ToCoordinator, WaitKind};
use crate::coordinator::ConduitTotals;
use crate::spec::{ConduitSpec, FIRST_OPENED};

/// Changes of methods, and handles, that an instance may have asked for without an answer; an honest one waits for each.
const REQUESTS_MAX: usize = 1024;

/// The conduits of an instance: whether it sends on each, and whether it receives.
struct Ends<'a> {
    names: BTreeMap<u32, (&'a str, bool, bool)>,
}

impl Ends<'_> {
    fn sends(&self, conduit: u32) -> Result<(), String> {
        match self.names.get(&conduit) {
            Some((_, true, _)) => Ok(()),
            _ => Err(format!("it speaks of sending on conduit {conduit}, which does not begin at it")),
        }
    }

    fn receives(&self, conduit: u32) -> Result<(), String> {
        match self.names.get(&conduit) {
            Some((_, _, true)) => Ok(()),
            _ => Err(format!("it speaks of receiving on conduit {conduit}, which does not end at it")),
        }
    }

    /// Whether totals have all conduits: one entry for each end that is here.
    fn check_totals(&self, totals: &[ConduitTotals]) -> Result<(), String> {
        let mut entries: BTreeMap<u32, usize> = BTreeMap::new();
        for each in totals {
            let Some((name, sends, receives)) = self.names.get(&each.conduit) else {
                return Err(format!("it left with totals of conduit {}, which is none of its own", each.conduit));
            };
            if (each.sent > 0 && !sends) || (each.received > 0 && !receives) {
                let (sent, received) = (each.sent, each.received);
                return Err(format!(
                    "it left having sent {sent} and received {received} on {name}, against its direction"
                ));
            }
            *entries.entry(each.conduit).or_default() += 1;
        }
        for (conduit, (name, sends, receives)) in &self.names {
            let expected = usize::from(*sends) + usize::from(*receives);
            let given = entries.get(conduit).copied().unwrap_or(0);
            // Of a conduit that its handle has made it may not have heard.
            let may_lack = *conduit >= FIRST_OPENED && !receives && given == 0;
            if given != expected && !may_lack {
                return Err(format!("it left with {given} totals of {name} (conduit {conduit}), expected {expected}"));
            }
        }
        Ok(())
    }
}

impl Server {
    /// Whether an instance that has joined may say this; an error says what is wrong.
    pub(super) fn check_claim(&self, instance: &str, message: &ToCoordinator) -> Result<(), String> {
        let is_asked = |change: u64| match (1..=self.shared.changes_so_far()).contains(&change) {
            true => Ok(()),
            false => Err(format!("it speaks of change {change}, which nobody asked for")),
        };
        match message {
            ToCoordinator::Waiting { waits, sent, received, .. } => {
                let ends = self.ends(instance);
                waits.iter().try_for_each(|wait| match wait.kind {
                    WaitKind::Receive => ends.receives(wait.conduit),
                    WaitKind::Send => ends.sends(wait.conduit),
                    WaitKind::Holders => Ok(()),
                })?;
                sent.iter().try_for_each(|(conduit, _)| ends.sends(*conduit))?;
                received.iter().try_for_each(|(conduit, _)| ends.receives(*conduit))
            }
            ToCoordinator::Conduits { conduits, .. } => {
                let ends = self.ends(instance);
                conduits.iter().try_for_each(|conduit| ends.sends(*conduit))
            }
            ToCoordinator::Figures { sending, receiving, .. } => {
                let ends = self.ends(instance);
                sending.iter().try_for_each(|report| ends.sends(report.conduit))?;
                receiving.iter().try_for_each(|report| ends.receives(report.conduit))
            }
            ToCoordinator::Change { conduit, .. } => {
                let ends = self.ends(instance);
                ends.sends(*conduit).or_else(|_| ends.receives(*conduit))?;
                at_most_requests(self.changes_asked_by(instance))
            }
            ToCoordinator::Prepared { change, conduit, .. } => {
                is_asked(*change)?;
                self.ends(instance).receives(*conduit)
            }
            ToCoordinator::Changed { change, conduit, .. } => {
                is_asked(*change)?;
                self.ends(instance).sends(*conduit)
            }
            ToCoordinator::Open { .. } => at_most_requests(self.openings_asked_by(instance)),
            ToCoordinator::Admitted { conduit, .. } => self.may_admit(instance, *conduit),
            ToCoordinator::Leaving { conduits, waited_s, .. } => {
                if self.members.get(instance).is_some_and(|member| member.left.is_some()) {
                    return Err("it left a second time".to_owned());
                }
                if !(waited_s.is_finite() && *waited_s >= 0.0) {
                    return Err(format!("it left having waited for {waited_s} s"));
                }
                self.ends(instance).check_totals(conduits)
            }
            ToCoordinator::PeerEnded { peer, .. } => match self.are_coupled(instance, peer) {
                true => Ok(()),
                false => Err(format!("it speaks of a connection with {peer}, with which it has no conduit")),
            },
            _ => Ok(()),
        }
    }

    fn are_coupled(&self, one: &str, other: &str) -> bool {
        let conduits = self.specs.get(one).map(|spec| &*spec.conduits).unwrap_or_default();
        let leads = |conduit: &ConduitSpec, from: &str, to: &str| conduit.sender == from && conduit.receiver == to;
        conduits.iter().any(|conduit| leads(conduit, one, other) || leads(conduit, other, one))
    }

    /// Totals of conduits that the handles of an instance have made without its knowing: it has sent nothing there.
    pub(super) fn unheard_of(&self, instance: &str, totals: &[ConduitTotals]) -> Vec<ConduitTotals> {
        let ends = self.ends(instance);
        let lacking = ends.names.keys().filter(|conduit| totals.iter().all(|each| each.conduit != **conduit));
        lacking.map(|conduit| ConduitTotals { conduit: *conduit, sent: 0, received: 0, bytes: 0, dropped: 0 }).collect()
    }

    fn ends(&self, instance: &str) -> Ends<'_> {
        let conduits = self.specs.get(instance).map(|spec| &*spec.conduits).unwrap_or_default();
        let names = conduits
            .iter()
            .map(|each| (each.id, (&*each.name, each.sender == instance, each.receiver == instance)))
            .collect();
        Ends { names }
    }
}

fn at_most_requests(open: usize) -> Result<(), String> {
    match open < REQUESTS_MAX {
        true => Ok(()),
        false => Err(format!("it asked for more although {open} of its requests are not answered yet")),
    }
}
