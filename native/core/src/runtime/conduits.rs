//! The conduits of an instance: the ends that are here, found by index or by the conduit's id.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use xmml_wire::connection::Connection;

use crate::conduit::{Inlet, ReceivingEnd, SendingEnd};
use crate::coordinator::{ConduitTotals, Wait, WaitKind};
use crate::filters::Chain;
use crate::spec::{ConduitSpec, Direction};

use super::state::{Counters, Counts, Position};

/// The ends of one conduit that are here, by their indices: one, or both if an instance is coupled to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ends {
    sending: Option<usize>,
    receiving: Option<usize>,
}

/// All ends that are here. An end keeps its index as long as the instance lives.
#[derive(Default)]
pub struct Conduits {
    /// Conduits that begin here.
    pub sending: Vec<SendingEnd>,
    /// Conduits that end here.
    pub receiving: Vec<ReceivingEnd>,
    /// What the program sees of the receiving ends, by the same index.
    pub inlets: Vec<Inlet>,
    by_id: FxHashMap<u32, Ends>,
}

impl Conduits {
    /// Adds an end that sends; returns its index.
    pub fn add_sending(&mut self, end: SendingEnd) -> usize {
        let index = self.sending.len();
        self.by_id.entry(end.spec.id).or_default().sending = Some(index);
        self.sending.push(end);
        index
    }

    /// Adds an end that receives, whose messages pass `filters`; returns its index.
    pub fn add_receiving(&mut self, end: ReceivingEnd, filters: Chain) -> usize {
        let index = self.receiving.len();
        self.by_id.entry(end.spec.id).or_default().receiving = Some(index);
        self.receiving.push(end);
        self.inlets.push(Inlet::new(filters));
        index
    }

    /// The end of a conduit that sends from here.
    pub fn sending_end(&self, conduit: u32) -> Option<usize> {
        self.by_id.get(&conduit).and_then(|ends| ends.sending)
    }

    /// The end of a conduit that receives here.
    pub fn receiving_end(&self, conduit: u32) -> Option<usize> {
        self.by_id.get(&conduit).and_then(|ends| ends.receiving)
    }

    /// The end at which a conduit from the peer of this connection ends. An error says that there is none.
    pub fn receiving_from(&self, connection: &Connection, conduit: u32) -> Result<usize, String> {
        match self.receiving_end(conduit) {
            Some(end) if self.receiving[end].spec.sender == connection.peer => Ok(end),
            _ => Err(format!("it sent on conduit {conduit}, which does not lead from it to here")),
        }
    }

    /// The end at which a conduit to the peer of this connection begins. An error says that there is none.
    pub fn sending_to(&self, connection: &Connection, conduit: u32) -> Result<usize, String> {
        match self.sending_end(conduit) {
            Some(end) if self.sending[end].spec.receiver == connection.peer => Ok(end),
            _ => Err(format!("it answered for conduit {conduit}, which does not lead from here to it")),
        }
    }

    /// What an end of a conduit is an end of.
    pub fn spec_at(&self, direction: Direction, end: usize) -> &ConduitSpec {
        match direction {
            Direction::In => &self.receiving[end].spec,
            Direction::Out => &self.sending[end].spec,
        }
    }

    /// Whether a wait that would be reported has been met already.
    pub fn has_met(&self, wait: &Wait) -> bool {
        match (wait.kind, self.receiving_end(wait.conduit)) {
            (WaitKind::Receive, Some(end)) => {
                self.inlets[end].is_ready() || self.receiving[end].has_queued() || self.receiving[end].is_finished()
            }
            _ => false,
        }
    }

    /// Whether a conduit waits to use this link.
    pub fn want(&self, link: usize) -> bool {
        self.sending.iter().any(|end| end.next_link == Some(link))
    }

    /// How many messages of these sending ends have arrived, and whether more are to.
    pub fn arrived(&self, sending: &[usize]) -> (u64, bool) {
        let ends = sending.iter().map(|end| &self.sending[*end]);
        ends.fold((0, false), |(arrived, waits), end| (arrived + end.arrived(), waits || !end.is_flushed()))
    }

    /// Whether messages of a receiving end may come by this connection. One that brings what is for something else never does.
    pub fn may_come_by(&self, end: usize, connection: &Connection) -> bool {
        let end = &self.receiving[end];
        let is_foreign =
            |other: &ReceivingEnd| other.comes_by(connection) && other.spec.traffic_class != end.spec.traffic_class;
        end.comes_by(connection) || !self.receiving.iter().any(is_foreign)
    }

    /// A message has come by this connection.
    pub fn came_by(&mut self, end: usize, connection: &Arc<Connection>) {
        let end = &mut self.receiving[end];
        if end.comes_by(connection) {
            return;
        }
        end.goes_over_to(connection);
        end.is_changing = false;
        end.via = (!end.is_coming_by_two()).then(|| connection.clone());
    }

    /// A peer has left normally: what it sent on each conduit to here, and took on each from here.
    /// An error says what cannot be.
    pub fn peer_left(&mut self, sent: &[(u32, u64)], received: &[(u32, u64)]) -> Result<(), String> {
        for (conduit, total) in sent {
            if let Some(end) = self.receiving_end(*conduit) {
                self.receiving[end].sender_left(*total)?;
            }
        }
        for (conduit, taken) in received {
            if let Some(end) = self.sending_end(*conduit) {
                self.sending[end].receiver_gone(*taken)?;
            }
        }
        Ok(())
    }

    /// Messages sent and received so far per conduit, where there are any. The end of a conduit counts as one: as long as it is on its
    /// way, the receiver need not wait for ever.
    pub fn counts(&self) -> (Counts, Counts) {
        let sent = self.sending.iter().map(|end| (end.spec.id, end.sent + u64::from(end.has_ended())));
        let received = self.receiving.iter().map(|end| (end.spec.id, end.done() + u64::from(end.has_end())));
        let some = |counts: &(u32, u64)| counts.1 > 0;
        (sent.filter(some).collect(), received.filter(some).collect())
    }

    /// How much has passed, for a program that is at `position`.
    pub fn counters(&self, position: Position) -> Counters {
        let of_model = || self.sending.iter().filter(|end| !end.spec.leads_to_tap());
        Counters {
            position,
            messages_sent: of_model().map(|end| end.sent).sum(),
            bytes_sent: of_model().map(|end| end.bytes).sum(),
            messages_received: self.receiving.iter().map(|end| end.taken).sum(),
            bytes_received: self.receiving.iter().map(|end| end.bytes).sum(),
        }
    }

    /// What passed each conduit.
    pub fn totals(&self) -> Vec<ConduitTotals> {
        let sending = self.sending.iter().map(|end| ConduitTotals {
            conduit: end.spec.id,
            sent: end.sent,
            received: 0,
            bytes: end.bytes,
            // The state that the last run leaves has no reader, and needs none.
            dropped: if end.spec.is_state { 0 } else { end.dropped },
            replaced: end.replaced,
        });
        let receiving = self.receiving.iter().map(|end| ConduitTotals {
            conduit: end.spec.id,
            sent: 0,
            received: end.done(),
            bytes: end.bytes,
            dropped: 0,
            replaced: end.replaced,
        });
        sending.chain(receiving).collect()
    }
}
