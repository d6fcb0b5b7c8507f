//! What passes the conduits: the figures for people who ask how they travel.

use std::time::Instant;

use xmml_wire::methods::{MethodReport, Traffic};

use crate::spec::{ConduitSpec, Direction};

use super::link::Status;
use super::state::State;

impl State {
    /// What an end of a conduit is an end of.
    pub fn conduit_at(&self, direction: Direction, end: usize) -> &ConduitSpec {
        match direction {
            Direction::In => &self.receiving[end].spec,
            Direction::Out => &self.sending[end].spec,
        }
    }

    /// How a conduit travels, seen from one of its ends.
    pub fn method_report(&mut self, direction: Direction, end: usize, now: Instant) -> MethodReport {
        match direction {
            Direction::In => {
                let end = &mut self.receiving[end];
                let (messages_per_s, bytes_per_s) = end.meter.read(end.taken, end.bytes, now);
                MethodReport {
                    conduit: end.spec.id,
                    name: end.spec.name.clone(),
                    chosen: end.method.map(str::to_owned),
                    protected: end.is_protected,
                    refused: Vec::new(),
                    slower: Vec::new(),
                    traffic: Traffic {
                        messages: end.taken,
                        bytes: end.bytes,
                        messages_per_s,
                        bytes_per_s,
                        latency_s: None,
                    },
                }
            }
            Direction::Out => {
                let end = &mut self.sending[end];
                let link = &self.links[end.link];
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
                    },
                }
            }
        }
    }

    /// How every conduit that begins here travels, and every one that ends here.
    pub fn method_reports(&mut self, now: Instant) -> (Vec<MethodReport>, Vec<MethodReport>) {
        let sending = (0..self.sending.len()).map(|end| self.method_report(Direction::Out, end, now)).collect();
        let receiving = (0..self.receiving.len()).map(|end| self.method_report(Direction::In, end, now)).collect();
        (sending, receiving)
    }
}
