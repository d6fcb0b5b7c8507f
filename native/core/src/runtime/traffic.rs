//! What passes the conduits: the figures for people who ask how they travel.

use std::time::Instant;

use xmml_wire::methods::{MethodReport, Traffic};

use crate::spec::Direction;

use super::backlogs::Backlogged;
use super::link::Status;
use super::state::State;

/// How a conduit travels, seen from one of its ends.
pub fn method_report(state: &mut State, direction: Direction, end: usize, now: Instant) -> MethodReport {
    let State { conduits, connections, backlogs, .. } = state;
    match direction {
        Direction::In => {
            let end = &mut conduits.receiving[end];
            let (messages_per_s, bytes_per_s) = end.meter.read(end.taken, end.bytes, now);
            MethodReport {
                conduit: end.spec.id,
                name: end.spec.name.clone(),
                chosen: end.method.map(str::to_owned),
                protected: end.is_protected,
                refused: Vec::new(),
                slower: Vec::new(),
                traffic: Traffic {
                    messages: end.taken - end.replaced,
                    bytes: end.bytes,
                    messages_per_s,
                    bytes_per_s,
                    replaced: end.replaced,
                    ..Traffic::default()
                },
            }
        }
        Direction::Out => {
            let Backlogged { waiting, waiting_bytes, missed } = backlogs.at(end);
            let end = &mut conduits.sending[end];
            let link = &connections.links[end.link];
            let chosen = link.chosen.filter(|_| matches!(link.status, Status::Up)).map(str::to_owned);
            let (messages_per_s, bytes_per_s) = end.meter.read(end.sent, end.bytes, now);
            MethodReport {
                conduit: end.spec.id,
                name: end.spec.name.clone(),
                slower: if chosen.is_some() { link.untried() } else { Vec::new() },
                chosen,
                protected: link.is_protected(),
                refused: link.refused.clone(),
                traffic: Traffic {
                    messages: end.sent,
                    bytes: end.bytes,
                    messages_per_s,
                    bytes_per_s,
                    latency_s: end.latency().map(|latency| latency.as_secs_f64()),
                    replaced: end.replaced,
                    dropped: end.dropped + missed,
                    waiting,
                    held_bytes: waiting_bytes + end.untaken_bytes(),
                },
            }
        }
    }
}

/// How every conduit that begins here travels, and every one that ends here.
pub fn method_reports(state: &mut State, now: Instant) -> (Vec<MethodReport>, Vec<MethodReport>) {
    let (sending, receiving) = (state.conduits.sending.len(), state.conduits.receiving.len());
    let mut all = |direction, count: usize| -> Vec<MethodReport> {
        (0..count).map(|end| method_report(state, direction, end, now)).collect()
    };
    (all(Direction::Out, sending), all(Direction::In, receiving))
}
