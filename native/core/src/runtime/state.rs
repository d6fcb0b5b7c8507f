//! What an instance knows about its conduits; one lock guards all of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use xmml_wire::connection::authentication::Protection;
use xmml_wire::connection::{Connection, Outgoing};
use xmml_wire::error::{Error, Result};
use xmml_wire::frame::{EncodedMessage, Frame};
use xmml_wire::methods::TrafficClass;

use crate::conduit::inlet::Next;
use crate::conduit::{Arrival, Inlet, ReceivingEnd, SendingEnd};
use crate::coordinator::{ConduitTotals, Wait, WaitKind};
use crate::filters::Chain;
use crate::spec::{InstanceSpec, FIRST_OPENED};

use super::handles::OpenPorts;
use super::left_to_do::LeftToDo;
use super::link::{Link, Status};
use super::method_changes::MethodChanges;
use super::reports::ReportedWaits;
use super::waiters::Waiters;

/// The ends of a conduit that are here, by their places in [`State`]: one, or both if an instance is coupled to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// In `sending`.
    pub sending: Option<usize>,
    /// In `receiving`.
    pub receiving: Option<usize>,
}

/// Where the program is in its loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Passes begun.
    pub run: u64,
    /// Iterations begun in this pass.
    pub iteration: u64,
    /// Model time, in seconds.
    pub time: f64,
}

/// How far the instance is, as reported to the coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Where the program is.
    pub position: Position,
    /// Messages sent on all conduits.
    pub messages_sent: u64,
    /// Their payload bytes.
    pub bytes_sent: u64,
    /// Messages the program has taken from all conduits.
    pub messages_received: u64,
    /// Their payload bytes.
    pub bytes_received: u64,
}

/// Since when there is no connection to the coordinator, and what is known of that.
#[derive(Clone, Debug)]
pub struct CoordinatorLost {
    /// When it broke.
    pub since: Instant,
    /// So long after that waits go on.
    pub limit: Duration,
    /// There will be no other one.
    pub for_good: bool,
    /// What keeps another one from coming about; may be empty.
    pub problem: String,
}

impl CoordinatorLost {
    /// When waits end.
    pub fn until(&self) -> Instant {
        self.since + self.limit
    }

    /// Why they do.
    pub fn error(&self) -> Error {
        let seconds = self.limit.as_secs_f64();
        let problem = match self.problem.is_empty() {
            true => format!("the connection to it broke {seconds} s ago; this run has nobody to end it"),
            false => format!(
                "the connection to it broke {seconds} s ago and could not be made again ({}); this run has nobody to end it",
                self.problem
            ),
        };
        Error::Protocol { peer: "the coordinator".into(), problem }
    }
}

/// Messages per conduit: its id, how many.
pub type Counts = Vec<(u32, u64)>;

/// The conduits of an instance, the connections on which they travel, and how the run stands.
pub struct State {
    /// Conduits that begin here.
    pub sending: Vec<SendingEnd>,
    /// Conduits that end here.
    pub receiving: Vec<ReceivingEnd>,
    /// What the program sees of the receiving ends, by the same index.
    pub inlets: Vec<Inlet>,
    /// Which ends a conduit has here.
    pub by_id: FxHashMap<u32, Ends>,
    /// One per receiver that is sent to.
    pub links: Vec<Link>,
    /// Connections from senders, by their names.
    pub inbound: FxHashMap<String, Vec<Arc<Connection>>>,
    /// Connections that no conduit uses any more: the receiver closes them when it has read everything.
    pub retired: Vec<Arc<Connection>>,
    /// What is to be done once the lock is released.
    pub left: LeftToDo,
    /// Changes of methods that the program has asked for.
    pub changes: MethodChanges,
    /// Ports that have conduits by handles.
    pub open: OpenPorts,
    /// Why the run is over, if it is.
    pub over: Option<Error>,
    /// By peer, connections in a row that ended with something that cannot be taken in.
    pub faults: HashMap<String, u32>,
    /// There is no connection to the coordinator.
    pub coordinator_lost: Option<CoordinatorLost>,
    /// The coordinator has written down that this instance left.
    pub farewell: bool,
    /// Waits that the coordinator knows of.
    pub reported: ReportedWaits,
    /// Threads that wait.
    pub waiters: Waiters,
}

impl State {
    /// Nothing sent, nothing received, nobody known. `methods`, if not empty, overrides what the model allows.
    pub fn new(spec: &InstanceSpec, methods: &[String]) -> Result<State> {
        let mut state = State {
            sending: Vec::new(),
            receiving: Vec::new(),
            inlets: Vec::new(),
            by_id: FxHashMap::default(),
            links: Vec::new(),
            inbound: FxHashMap::default(),
            retired: Vec::new(),
            left: LeftToDo::default(),
            changes: MethodChanges::default(),
            open: OpenPorts::new(spec, methods),
            over: None,
            faults: HashMap::new(),
            coordinator_lost: None,
            farewell: false,
            reported: ReportedWaits::default(),
            waiters: Waiters::default(),
        };
        for conduit in &spec.conduits {
            if conduit.sender == spec.name {
                let allowed = if methods.is_empty() { &conduit.methods } else { methods };
                let link = state.link_to(&conduit.receiver, allowed, conduit.traffic_class, conduit.protection());
                state.links[link].conduits.push(state.sending.len());
                state.by_id.entry(conduit.id).or_default().sending = Some(state.sending.len());
                state.sending.push(SendingEnd::new(conduit.clone(), link));
            }
            if conduit.receiver == spec.name {
                state.by_id.entry(conduit.id).or_default().receiving = Some(state.receiving.len());
                state.receiving.push(ReceivingEnd::new(conduit.clone()));
                state.inlets.push(Inlet::new(Chain::build(&conduit.receiver_filters, &conduit.name)?));
            }
        }
        Ok(state)
    }

    /// The end of a conduit that sends from here.
    pub fn sending_end(&self, conduit: u32) -> Option<usize> {
        self.by_id.get(&conduit).and_then(|ends| ends.sending)
    }

    /// The end of a conduit that receives here.
    pub fn receiving_end(&self, conduit: u32) -> Option<usize> {
        self.by_id.get(&conduit).and_then(|ends| ends.receiving)
    }

    /// The link that conduits to `peer` share if they allow the same methods and are for the same.
    pub(super) fn link_to(
        &mut self,
        peer: &str,
        allowed: &[String],
        class: Option<TrafficClass>,
        protection: Protection,
    ) -> usize {
        let fits = |link: &Link| {
            let is_for_same = link.class == class && link.protection == protection;
            link.peer == peer && link.allowed == allowed && is_for_same && !link.is_trial()
        };
        // Of two, one rests since its conduits went over to the other.
        let found = self.links.iter().position(|link| fits(link) && !link.conduits.is_empty());
        found.or_else(|| self.links.iter().position(fits)).unwrap_or_else(|| {
            self.links.push(Link::new(peer.to_owned(), allowed.to_vec(), class, protection));
            self.links.len() - 1
        })
    }

    /// Queues a frame on a connection; it is written when the lock is released.
    pub fn queue(&mut self, connection: &Arc<Connection>, frame: Outgoing) {
        connection.writer().push(frame);
        self.left.flush(connection);
    }

    /// Queues a frame on the connection of a sending end (which handed the frame out, so there is one).
    pub fn queue_on_link(&mut self, sending: usize, frame: Outgoing) {
        let link = self.sending[sending].link;
        if let Some(connection) = self.links[link].connection.clone() {
            self.queue(&connection, frame);
        }
    }

    /// Writes a message (with its number) of a sending end that has room for it past all queues, and counts it; false: it must be
    /// queued.
    pub fn write_at_once(&mut self, sending: usize, message: &EncodedMessage) -> bool {
        let end = &mut self.sending[sending];
        let Some(connection) = self.links[end.link].connection.as_ref() else { return false };
        let payload: &[u8] = match &message.payload[..] {
            [] => &[],
            [only] if only.len() < connection.lends_from() => only,
            _ => return false,
        };
        let may_be = connection.is_memory() && !end.keeps();
        let is_written = may_be && connection.write_at_once(&message.head, payload);
        if is_written {
            end.count(message.frame_len());
        }
        is_written
    }

    /// What the program would get from a receiving end now. What that takes off the conduit is acknowledged.
    pub fn look(&mut self, end: usize) -> Result<Next> {
        let next = self.inlets[end].look(&mut self.receiving[end])?;
        self.return_receipt(end, false);
        Ok(next)
    }

    /// Whether a wait that would be reported has been met already.
    pub fn is_met(&self, wait: &Wait) -> bool {
        match (wait.kind, self.receiving_end(wait.conduit)) {
            (WaitKind::Receive, Some(end)) => {
                self.inlets[end].is_ready() || self.receiving[end].has_queued() || self.receiving[end].is_finished()
            }
            _ => false,
        }
    }

    /// Whether the kernel has every frame that was handed to a connection to a receiver.
    pub fn connections_are_flushed(&self) -> bool {
        let in_use = self.links.iter().filter_map(|link| link.connection.as_ref());
        in_use.chain(&self.retired).all(|connection| connection.writer().is_empty())
    }

    /// Whether what waits for the first connection of a sending end may be lent by that.
    pub fn may_lend_later(&self, sending: usize) -> bool {
        let link = &self.links[self.sending[sending].link];
        link.connection.is_none() && link.chosen.is_none() && link.allows("shm")
    }

    /// Tells a sender what was taken, if it is due (or in any case, when `now`).
    pub fn return_receipt(&mut self, receiving: usize, now: bool) {
        let end = &mut self.receiving[receiving];
        if !now && !end.receipt_due() {
            return;
        }
        let Some(connection) = self.answers_by(receiving) else { return };
        if let Some(receipt) = self.receiving[receiving].receipt() {
            self.queue(&connection, receipt.into());
        }
    }

    /// The connection by which a receiving end answers: the one it comes by, or another from the same sender.
    pub fn answers_by(&self, receiving: usize) -> Option<Arc<Connection>> {
        let end = &self.receiving[receiving];
        let list = self.inbound.get(&end.spec.sender)?;
        list.iter().find(|connection| end.comes_by(connection)).or(list.last()).cloned()
    }

    /// Tells every sender what was taken: before a wait, so that nobody waits for a receipt that is held back.
    pub fn return_receipts(&mut self) {
        for receiving in 0..self.receiving.len() {
            self.return_receipt(receiving, true);
        }
    }

    /// Takes in frames from a connection. An error says how the peer breaks the protocol.
    pub fn deliver(
        &mut self,
        connection: &Arc<Connection>,
        frames: impl IntoIterator<Item = Frame>,
    ) -> std::result::Result<(), String> {
        for frame in frames {
            match frame {
                Frame::Message(message) => {
                    let end = self.receiving_from(connection, message.conduit)?;
                    if self.receiving[end].message(message)? == Arrival::New {
                        self.came_by(end, connection);
                    }
                    if !self.faults.is_empty() {
                        self.faults.remove(&connection.peer);
                    }
                }
                Frame::End { conduit, sequence } => {
                    let end = self.receiving_from(connection, conduit)?;
                    self.receiving[end].end(sequence)?;
                    if connection.breaks {
                        let resume = self.receiving[end].resume();
                        self.queue(connection, resume.into());
                    }
                }
                Frame::Receipt { conduit, sequence } => {
                    let end = self.sending_to(connection, conduit)?;
                    self.sending[end].receipt(sequence)?;
                }
                // The receiver knew of a conduit by a handle before this end does; what it says of it, this end is told too.
                Frame::Gone { conduit, .. } | Frame::Resume { conduit, .. } if self.is_being_opened(conduit) => {}
                Frame::Gone { conduit, sequence } => {
                    let end = self.sending_to(connection, conduit)?;
                    self.sending[end].receiver_gone(sequence);
                }
                Frame::Alive => {}
                Frame::Resume { conduit, sequence } => {
                    let end = self.sending_to(connection, conduit)?;
                    self.resume(connection, end, sequence)?;
                }
                Frame::Leaves { conduit } => {
                    let end = self.receiving_from(connection, conduit)?;
                    self.receiving[end].comes_by_no_more(connection);
                }
                Frame::Continues { conduit, sequence } => {
                    let end = self.receiving_from(connection, conduit)?;
                    self.receiving[end].continues(sequence);
                    self.receiving[end].via = None;
                }
                Frame::Closes => self.let_go(connection),
                other => return Err(format!("it sent a frame that has no place here: {:?}", KindOf(&other))),
            }
        }
        Ok(())
    }

    fn receiving_from(&self, connection: &Connection, conduit: u32) -> std::result::Result<usize, String> {
        match self.receiving_end(conduit) {
            Some(end) if self.receiving[end].spec.sender == connection.peer => Ok(end),
            _ => Err(format!("it sent on conduit {conduit}, which does not lead from it to here")),
        }
    }

    fn sending_to(&self, connection: &Connection, conduit: u32) -> std::result::Result<usize, String> {
        match self.sending_end(conduit) {
            Some(end) if self.sending[end].spec.receiver == connection.peer => Ok(end),
            _ => Err(format!("it answered for conduit {conduit}, which does not lead from here to it")),
        }
    }

    fn is_being_opened(&self, conduit: u32) -> bool {
        conduit >= FIRST_OPENED && self.open.is_opening() && self.sending_end(conduit).is_none()
    }

    /// A sender has connected; it hears what is here already, and so that it may begin.
    pub fn admit(&mut self, connection: &Arc<Connection>) {
        for receiving in 0..self.receiving.len() {
            if self.receiving[receiving].spec.sender == connection.peer {
                self.receiving[receiving].lost = None;
                self.receiving[receiving].method = Some(connection.method);
                self.receiving[receiving].is_protected = connection.is_protected();
                let resume = self.receiving[receiving].resume();
                self.queue(connection, resume.into());
                // The last receipt may have been lost with the connection before, and the sender be waiting for it.
                if let Some(receipt) = self.receiving[receiving].receipt_again() {
                    self.queue(connection, receipt.into());
                }
            }
        }
        self.inbound.entry(connection.peer.clone()).or_default().push(connection.clone());
        self.waiters.wake(None);
    }

    /// A link has its connection. What waits goes out when the receiver says what it has.
    pub fn link_up(&mut self, link: usize, connection: &Arc<Connection>) {
        if let Some(old) = self.links[link].connection.take() {
            old.close();
        }
        for end in &self.links[link].conduits {
            self.sending[*end].hold();
        }
        self.links[link].connected(connection.clone());
        self.waiters.wake(None);
    }

    /// How many messages of the conduits of a link have arrived, and whether more are to.
    pub fn arrived_by(&self, link: usize) -> (u64, bool) {
        let ends = self.links[link].conduits.iter().map(|end| &self.sending[*end]);
        ends.fold((0, false), |(arrived, waits), end| (arrived + end.arrived(), waits || !end.is_flushed()))
    }

    /// Whether a link still waits for its receiver to say what it has.
    pub fn awaits_resume(&self, index: usize) -> bool {
        let link = &self.links[index];
        link.connection.is_some()
            && (link.conduits.iter().any(|end| self.sending[*end].is_held()) || self.is_wanted(index))
    }

    /// A peer has left normally: what it sent on each conduit to here, and took on each from here.
    pub fn peer_left(&mut self, peer: &str, sent: &[(u32, u64)], received: &[(u32, u64)]) {
        for (conduit, total) in sent {
            if let Some(end) = self.receiving_end(*conduit) {
                self.receiving[end].sender_left(*total);
            }
        }
        for (conduit, taken) in received {
            if let Some(end) = self.sending_end(*conduit) {
                self.sending[end].receiver_gone(*taken);
            }
        }
        for link in self.links.iter_mut().filter(|link| link.peer == peer) {
            link.status = Status::Over;
        }
        self.give_up_changes_to(peer);
        self.waiters.wake(None);
    }

    /// Messages sent and received so far per conduit, where there are any.
    pub fn counts(&self) -> (Counts, Counts) {
        let sent = self.sending.iter().filter(|end| end.sent > 0).map(|end| (end.spec.id, end.sent)).collect();
        let received = self.receiving.iter().filter(|end| end.taken > 0).map(|end| (end.spec.id, end.taken)).collect();
        (sent, received)
    }

    /// How much has passed, for a program that is at `position`.
    pub fn counters(&self, position: Position) -> Counters {
        Counters {
            position,
            messages_sent: self.sending.iter().map(|end| end.sent).sum(),
            bytes_sent: self.sending.iter().map(|end| end.bytes).sum(),
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
        });
        let receiving = self.receiving.iter().map(|end| ConduitTotals {
            conduit: end.spec.id,
            sent: 0,
            received: end.taken,
            bytes: end.bytes,
            dropped: 0,
        });
        sending.chain(receiving).collect()
    }
}

/// Prints only what kind of frame it is: its contents may be large.
struct KindOf<'a>(&'a Frame);

impl std::fmt::Debug for KindOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Frame::Alive => "Alive",
            Frame::Message(_) => "message",
            Frame::End { .. } => "end",
            Frame::Gone { .. } => "gone",
            Frame::Receipt { .. } => "receipt",
            Frame::Control(_) => "control",
            Frame::Resume { .. } => "resume",
            Frame::Leaves { .. } => "leaves",
            Frame::Continues { .. } => "continues",
            Frame::Closes => "closes",
            Frame::Block(_) => "block",
            Frame::Lent(_) => "lent",
            Frame::Returned(_) => "returned",
        })
    }
}
