//! An instance reports on conduits that begin or end at it, on changes that exist, and on requests that were made to it. The coordinator
//! refuses any other report as a breach of the protocol, before it reaches others or the decisions about the run.

use std::collections::BTreeMap;

use super::Server;
use crate::control::{ToCoordinator, WaitKind};
use crate::coordinator::ConduitTotals;
use crate::spec::{ConduitSpec, FIRST_OPENED};
use xmml_wire::methods::{MethodReport, Traffic};

/// How many changes of methods, and how many handles, an instance may have asked for without an answer. Each thread of an honest one waits
/// for its answer.
const REQUESTS_MAX: usize = 1024;

/// No honest count is higher: sums of such counts, and the files that record them, would overflow.
const COUNT_MAX: u64 = i64::MAX as u64;

/// A conduit of an instance.
struct OwnConduit<'a> {
    name: &'a str,
    sends: bool,
    receives: bool,
}

/// The conduits of an instance, by their numbers.
struct OwnConduits<'a>(BTreeMap<u32, OwnConduit<'a>>);

impl OwnConduits<'_> {
    fn sends(&self, conduit: u32) -> Result<(), String> {
        match self.0.get(&conduit) {
            Some(OwnConduit { sends: true, .. }) => Ok(()),
            _ => Err(format!("it speaks of sending on conduit {conduit}, which does not begin at it")),
        }
    }

    fn receives(&self, conduit: u32) -> Result<(), String> {
        match self.0.get(&conduit) {
            Some(OwnConduit { receives: true, .. }) => Ok(()),
            _ => Err(format!("it speaks of receiving on conduit {conduit}, which does not end at it")),
        }
    }

    /// Whether totals have all conduits: one entry for each end that is here.
    fn check_totals(&self, totals: &[ConduitTotals]) -> Result<(), String> {
        let mut entries: BTreeMap<u32, usize> = BTreeMap::new();
        for each in totals {
            let Some(OwnConduit { name, sends, receives }) = self.0.get(&each.conduit) else {
                return Err(format!("it left with totals of conduit {}, which is none of its own", each.conduit));
            };
            check_counts(&[each.sent, each.received, each.bytes, each.dropped, each.replaced])?;
            if (each.sent > 0 && !sends) || (each.received > 0 && !receives) {
                let (sent, received) = (each.sent, each.received);
                return Err(format!(
                    "it left having sent {sent} and received {received} on {name}, against its direction"
                ));
            }
            *entries.entry(each.conduit).or_default() += 1;
        }
        for (conduit, OwnConduit { name, sends, receives }) in &self.0 {
            let expected = usize::from(*sends) + usize::from(*receives);
            let given = entries.get(conduit).copied().unwrap_or(0);
            // An instance may not know yet of a conduit that somebody has opened with a handle.
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
        let exists = |change: u64| match (1..=self.shared.changes_so_far()).contains(&change) {
            true => Ok(()),
            false => Err(format!("it speaks of change {change}, which nobody asked for")),
        };
        match message {
            ToCoordinator::Waiting { waits, sent, received, .. } => {
                let own = self.own_conduits(instance);
                waits.iter().try_for_each(|wait| match wait.kind {
                    WaitKind::Receive => own.receives(wait.conduit),
                    WaitKind::Send | WaitKind::Settled => own.sends(wait.conduit),
                    WaitKind::Holders => Ok(()),
                })?;
                sent.iter().try_for_each(|(conduit, count)| own.sends(*conduit).and(check_counts(&[*count])))?;
                received.iter().try_for_each(|(conduit, count)| own.receives(*conduit).and(check_counts(&[*count])))
            }
            ToCoordinator::Progress {
                run,
                iteration,
                time,
                messages_sent,
                bytes_sent,
                messages_received,
                bytes_received,
            } => {
                check_counts(&[*run, *iteration, *messages_sent, *bytes_sent, *messages_received, *bytes_received])?;
                match time.is_finite() {
                    true => Ok(()),
                    false => Err(format!("it reports that its time is {time}")),
                }
            }
            ToCoordinator::Conduits { conduits, .. } => {
                let own = self.own_conduits(instance);
                conduits.iter().try_for_each(|conduit| own.sends(*conduit))
            }
            ToCoordinator::Figures { sending, receiving, .. } => {
                let own = self.own_conduits(instance);
                sending.iter().try_for_each(|report| own.sends(report.conduit).and(check_traffic(report)))?;
                receiving.iter().try_for_each(|report| own.receives(report.conduit).and(check_traffic(report)))
            }
            ToCoordinator::Change { conduit, .. } => {
                let own = self.own_conduits(instance);
                own.sends(*conduit).or_else(|_| own.receives(*conduit))?;
                at_most_requests(self.changes_asked_by(instance))
            }
            ToCoordinator::GivenAgain { conduit, objects, deadly } => {
                self.may_give_again(instance, *conduit, [*objects, deadly.unwrap_or(0)])
            }
            ToCoordinator::Prepared { change, conduit, .. } => {
                exists(*change)?;
                self.own_conduits(instance).receives(*conduit)
            }
            ToCoordinator::Changed { change, conduit, .. } => {
                exists(*change)?;
                self.own_conduits(instance).sends(*conduit)
            }
            ToCoordinator::Open { .. } => at_most_requests(self.openings_asked_by(instance)),
            ToCoordinator::Admitted { conduit, .. } => self.may_admit(instance, *conduit),
            ToCoordinator::Leaving { runs, conduits, waited_s } => {
                check_counts(&[*runs])?;
                if self.members.get(instance).is_some_and(|member| member.left.is_some()) {
                    return Err("it left a second time".to_owned());
                }
                if !(waited_s.is_finite() && *waited_s >= 0.0) {
                    return Err(format!("it left having waited for {waited_s} s"));
                }
                self.own_conduits(instance).check_totals(conduits)
            }
            ToCoordinator::PeerEnded { peer, .. } => match self.are_coupled(instance, peer) {
                true => Ok(()),
                false => Err(format!("it speaks of a connection with {peer}, with which it has no conduit")),
            },
            _ => Ok(()),
        }
    }

    /// Objects are given again by a pool of which readers may die, when one has.
    fn may_give_again(&self, instance: &str, conduit: u32, counts: [u64; 2]) -> Result<(), String> {
        check_counts(&counts)?;
        self.own_conduits(instance).sends(conduit)?;
        let conduits = self.specs.get(instance).map(|spec| &*spec.conduits).unwrap_or_default();
        let dead_reader = |each: &ConduitSpec| {
            each.pool.as_ref().is_some_and(|pool| pool.reader_may_die) && self.dead.contains(&each.receiver)
        };
        match conduits.iter().any(|each| each.id == conduit && dead_reader(each)) {
            true => Ok(()),
            false => Err(format!("it gives objects of conduit {conduit} again, none of whose readers has died")),
        }
    }

    fn are_coupled(&self, one: &str, other: &str) -> bool {
        let conduits = self.specs.get(one).map(|spec| &*spec.conduits).unwrap_or_default();
        let leads = |conduit: &ConduitSpec, from: &str, to: &str| conduit.sender == from && conduit.receiver == to;
        conduits.iter().any(|conduit| leads(conduit, one, other) || leads(conduit, other, one))
    }

    /// Zero totals of the conduits that lack them: those that somebody has opened with a handle, and of which the instance had not heard.
    pub(super) fn zero_totals_of_missing(&self, instance: &str, totals: &[ConduitTotals]) -> Vec<ConduitTotals> {
        let own = self.own_conduits(instance);
        let lacking = own.0.keys().filter(|conduit| totals.iter().all(|each| each.conduit != **conduit));
        lacking
            .map(|conduit| ConduitTotals { conduit: *conduit, sent: 0, received: 0, bytes: 0, dropped: 0, replaced: 0 })
            .collect()
    }

    fn own_conduits(&self, instance: &str) -> OwnConduits<'_> {
        let conduits = self.specs.get(instance).map(|spec| &*spec.conduits).unwrap_or_default();
        let named = conduits.iter().map(|each| {
            let (sends, receives) = (each.sender == instance, each.receiver == instance);
            (each.id, OwnConduit { name: &each.name, sends, receives })
        });
        OwnConduits(named.collect())
    }
}

fn check_counts(counts: &[u64]) -> Result<(), String> {
    match counts.iter().find(|count| **count > COUNT_MAX) {
        None => Ok(()),
        Some(count) => Err(format!("it counts {count}, and nothing is counted beyond {COUNT_MAX}")),
    }
}

fn check_traffic(report: &MethodReport) -> Result<(), String> {
    let Traffic { messages, bytes, replaced, dropped, waiting, held_bytes, messages_per_s, bytes_per_s, latency_s } =
        report.traffic;
    check_counts(&[messages, bytes, replaced, dropped, waiting, held_bytes])?;
    let is_rate = |figure: &f64| figure.is_finite() && *figure >= 0.0;
    match [messages_per_s, bytes_per_s, latency_s.unwrap_or(0.0)].iter().find(|figure| !is_rate(figure)) {
        None => Ok(()),
        Some(figure) => Err(format!("it reports a rate or a time of {figure} for conduit {}", report.conduit)),
    }
}

fn at_most_requests(open: usize) -> Result<(), String> {
    match open < REQUESTS_MAX {
        true => Ok(()),
        false => Err(format!("it asked for more although {open} of its requests are not answered yet")),
    }
}
