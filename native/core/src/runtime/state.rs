//! What an instance knows about its conduits; one lock guards all of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use xmml_wire::connection::Connection;
use xmml_wire::error::{Error, Result};
use xmml_wire::frame::Frame;
use xmml_wire::methods::Place;

use crate::conduit::inlet::Next;
use crate::conduit::tap_gate::TapGate;
use crate::conduit::{Arrival, ReceivingEnd, SendingEnd};
use crate::control::ToCoordinator;
use crate::filters::Chain;
use crate::spec::{ConduitSpec, InstanceSpec, FIRST_OPENED};

use super::backlogs::{Backlogs, GivenBack};
use super::conduits::Conduits;
use super::connections::Connections;
use super::deferred_work::DeferredWork;
use super::handles::{FromHolders, OpenPorts};
use super::link::Status;
use super::method_changes::MethodChanges;
use super::reported_waits::ReportedWaits;
use super::routing::Routing;
use super::standing::Standing;
use super::waiters::Waiters;

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

/// Messages per conduit: its id, how many.
pub type Counts = Vec<(u32, u64)>;

/// The conduits of an instance, the connections on which they travel, and how the run stands.
pub struct State {
    /// Its conduits.
    pub conduits: Conduits,
    /// Objects of pools that wait here for readers.
    pub backlogs: Backlogs,
    /// Its connections.
    pub connections: Connections,
    /// What is to be done once the lock is released.
    pub deferred: DeferredWork,
    /// Changes of methods that the program has asked for.
    pub changes: MethodChanges,
    /// Ports that have conduits by handles.
    pub open: OpenPorts,
    /// How the run stands.
    pub standing: Standing,
    /// By peer, connections in a row that ended with something that cannot be taken in.
    pub faults: HashMap<String, u32>,
    /// Waits that the coordinator knows of.
    pub reported: ReportedWaits,
    /// Threads that wait.
    pub waiters: Waiters,
    /// The run goes on if some of those die that send to here.
    have_senders_that_may_die: bool,
    /// Taps that have joined and of which the program has not heard yet.
    new_taps: Vec<NewTap>,
}

/// A tap that has joined.
pub struct NewTap {
    /// It leads there.
    pub conduit: Arc<ConduitSpec>,
    /// The number of the backlog from which it gets objects.
    pub backlog: usize,
    /// Whether it is shown what passes.
    pub gate: TapGate,
}

impl State {
    /// Nothing sent, nothing received, nobody known. `methods`, if not empty, overrides what the model allows.
    pub fn new(spec: &InstanceSpec, methods: &[String]) -> Result<State> {
        let mut state = State {
            conduits: Conduits::default(),
            backlogs: Backlogs::default(),
            connections: Connections::default(),
            deferred: DeferredWork::default(),
            changes: MethodChanges::default(),
            open: OpenPorts::new(spec, methods),
            standing: Standing::default(),
            faults: HashMap::new(),
            reported: ReportedWaits::default(),
            waiters: Waiters::default(),
            have_senders_that_may_die: false,
            new_taps: Vec::new(),
        };
        for conduit in &spec.conduits {
            if conduit.leads_to_tap() && conduit.sender == spec.name {
                state.add_tap(conduit.clone());
                continue;
            }
            if conduit.sender == spec.name {
                let allowed = if methods.is_empty() { &conduit.methods } else { methods };
                let connections = &mut state.connections;
                let link = connections.link_to(&conduit.receiver, allowed, conduit.traffic_class, conduit.protection());
                let end = state.conduits.add_sending(SendingEnd::new(conduit.clone(), link));
                connections.links[link].conduits.push(end);
            }
            if conduit.receiver == spec.name {
                let filters = Chain::build(&conduit.receiver_filters, &conduit.name)?;
                state.conduits.add_receiving(ReceivingEnd::new(conduit.clone()), filters);
            }
        }
        state.have_senders_that_may_die = state.conduits.receiving.iter().any(may_lose_sender);
        Ok(state)
    }

    /// A tap has joined: this conduit leads there from now on.
    pub fn add_tap(&mut self, conduit: Arc<ConduitSpec>) {
        if self.conduits.sending_end(conduit.id).is_some() {
            return;
        }
        let Some(pool) = conduit.pool.as_deref() else { return };
        let allowed = self.open.allowed_for(&conduit);
        let (class, protection) = (conduit.traffic_class, conduit.protection());
        let link = self.connections.link_to(&conduit.receiver, allowed, class, protection);
        let end = self.conduits.add_sending(SendingEnd::new(conduit.clone(), link));
        self.connections.links[link].conduits.push(end);
        let backlog = self.backlogs.add(conduit.byte_budget, pool);
        self.backlogs.add_reader(backlog, end);
        let gate = self.backlogs.gate(backlog).unwrap_or_default();
        self.new_taps.push(NewTap { conduit, backlog, gate });
    }

    /// Whether a tap has joined of which the program has not heard yet.
    pub fn has_new_taps(&self) -> bool {
        !self.new_taps.is_empty()
    }

    /// The taps that have joined since the last call.
    pub fn take_new_taps(&mut self) -> Vec<NewTap> {
        std::mem::take(&mut self.new_taps)
    }

    /// Whether this peer is a tap of this instance.
    pub fn has_tap(&self, peer: &str) -> bool {
        self.backlogs.of_taps().iter().any(|(_, end)| self.conduits.sending[*end].spec.receiver == peer)
    }

    /// Settles which connection each conduit goes by.
    pub fn routing(&mut self) -> Routing<'_> {
        self.backlogs_and_routing().1
    }

    /// The backlogs, and what they are given out by.
    pub fn backlogs_and_routing(&mut self) -> (&mut Backlogs, Routing<'_>) {
        let State { backlogs, conduits, connections, deferred, .. } = self;
        (backlogs, Routing { conduits, connections, deferred })
    }

    /// The program has dealt with all objects that it was handed from this receiving end; the sender hears of it.
    pub fn settle(&mut self, receiving: usize) {
        self.conduits.receiving[receiving].settle(self.conduits.inlets[receiving].handed);
        self.return_receipt(receiving, false);
    }

    /// Filters the next message of a receiving end, if there is one, and says what the program would get now. The sender hears of what was
    /// taken, if a receipt is due.
    pub fn next_for_program(&mut self, end: usize) -> Result<Next> {
        let next = self.conduits.inlets[end].filter_next(&mut self.conduits.receiving[end])?;
        if next == Next::Nothing {
            self.demand(end);
        }
        self.return_receipt(end, false);
        Ok(next)
    }

    /// Asks the sender of a conduit that shows the newest message only for that, unless it was asked. Without a connection it is asked by the
    /// next one.
    pub fn demand(&mut self, receiving: usize) {
        let end = &mut self.conduits.receiving[receiving];
        let Some(demand) = end.encode_demand() else { return };
        if let Some(connection) = self.connections.answers_by(end) {
            self.deferred.queue(connection, demand.into());
        }
    }

    /// What an open in port has for the program.
    pub fn look_at_holders(&mut self, input: usize) -> Result<FromHolders> {
        let mut open = std::mem::take(&mut self.open);
        let found = open.look_at_holders(input, |end| self.next_for_program(end));
        self.open = open;
        found
    }

    /// Tells a sender what was taken, if it is due (or in any case, when `now`).
    pub fn return_receipt(&mut self, receiving: usize, now: bool) {
        let end = &mut self.conduits.receiving[receiving];
        if !now && !end.receipt_due() {
            return;
        }
        let Some(connection) = self.connections.answers_by(end) else { return };
        if let Some(receipt) = end.encode_receipt() {
            self.deferred.queue(connection, receipt.into());
        }
    }

    /// Tells every sender what was taken: before a wait, so that nobody waits for a receipt that is held back.
    pub fn return_receipts(&mut self) {
        for receiving in 0..self.conduits.receiving.len() {
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
                    let end = self.conduits.receiving_from(connection, message.conduit)?;
                    let sequence = message.sequence;
                    match self.conduits.receiving[end].message(message)? {
                        Arrival::New => self.conduits.came_by(end, connection),
                        Arrival::Again => {
                            self.conduits.receiving[end].check_repeat(connection, "message", sequence)?;
                        }
                        Arrival::Early => {}
                    }
                    if !self.faults.is_empty() {
                        self.faults.remove(&connection.peer);
                    }
                }
                Frame::End { conduit, sequence } => {
                    let end = self.conduits.receiving_from(connection, conduit)?;
                    match self.conduits.receiving[end].end(sequence)? {
                        Arrival::New => self.conduits.came_by(end, connection),
                        Arrival::Again => {
                            self.conduits.receiving[end].check_repeat(connection, "the end, with number", sequence)?;
                        }
                        Arrival::Early => {}
                    }
                    if connection.can_break {
                        let resume = self.conduits.receiving[end].encode_resume();
                        self.deferred.queue(connection, resume.into());
                    }
                }
                Frame::Receipt { conduit, sequence } => {
                    let end = self.conduits.sending_to(connection, conduit)?;
                    self.conduits.sending[end].on_receipt(sequence)?;
                    let (backlogs, mut routing) = self.backlogs_and_routing();
                    backlogs.on_receipt(end, &mut routing);
                }
                // The receiver knew of a conduit by a handle before this end does; what it says of it, this end is told too.
                Frame::Gone { conduit, .. } | Frame::Resume { conduit, .. } if self.is_being_opened(conduit) => {}
                Frame::Gone { conduit, sequence } => {
                    let end = self.conduits.sending_to(connection, conduit)?;
                    self.conduits.sending[end].receiver_gone(sequence)?;
                    let (backlogs, mut routing) = self.backlogs_and_routing();
                    backlogs.on_gone(end, &mut routing);
                }
                Frame::Alive => {}
                Frame::Resume { conduit, sequence } => {
                    let end = self.conduits.sending_to(connection, conduit)?;
                    let (backlogs, mut routing) = self.backlogs_and_routing();
                    routing.on_resume(connection, end, sequence)?;
                    backlogs.on_ready(end, &mut routing);
                }
                Frame::Leaves { conduit } => {
                    let end = self.conduits.receiving_from(connection, conduit)?;
                    self.conduits.receiving[end].comes_by_no_more(connection);
                }
                Frame::Continues { conduit, sequence } => {
                    let end = self.conduits.receiving_from(connection, conduit)?;
                    let end = &mut self.conduits.receiving[end];
                    end.continues(sequence)?;
                    end.via = None;
                    end.is_changing = false;
                    end.goes_over_to(connection);
                }
                Frame::Closes => {
                    self.routing().let_go(connection);
                    self.miss_sender(connection, "it closed the last connection by which its messages came");
                }
                other => return Err(format!("it sent a frame that has no place here: {:?}", KindOf(&other))),
            }
        }
        Ok(())
    }

    fn is_being_opened(&self, conduit: u32) -> bool {
        conduit >= FIRST_OPENED && self.open.is_opening() && self.conduits.sending_end(conduit).is_none()
    }

    /// Adds the connection of a sender, which hears what is here already, and so that it may begin.
    pub fn add_sender_connection(&mut self, connection: &Arc<Connection>) {
        for end in self.conduits.receiving.iter_mut().filter(|end| end.spec.sender == connection.peer) {
            end.lost = None;
            if end.via.is_none() || end.is_changing {
                end.goes_over_to(connection);
            }
            self.deferred.queue(connection, end.encode_resume().into());
            // The last receipt may have been lost with the connection before, and the sender be waiting for it.
            if let Some(receipt) = end.encode_receipt_again() {
                self.deferred.queue(connection, receipt.into());
            }
        }
        self.connections.add_inbound(connection);
        self.waiters.wake(None);
    }

    /// A link has its connection. What waits goes out when the receiver says what it has.
    pub fn set_link_connection(&mut self, link: usize, connection: &Arc<Connection>) {
        if let Some(old) = self.connections.links[link].connection.take() {
            old.close();
        }
        for end in &self.connections.links[link].conduits {
            self.conduits.sending[*end].hold();
        }
        self.connections.links[link].connected(connection.clone());
        self.waiters.wake(None);
    }

    /// A connection has ended or is broken. Returns the link that is to be dialled again, if there is one.
    pub fn connection_lost(&mut self, connection: &Arc<Connection>, reason: &str, here: &Place) -> Option<usize> {
        let mut dial = None;
        if let Some(index) = self.connections.link_on(connection) {
            let link = &mut self.connections.links[index];
            link.conduits.iter().for_each(|end| self.conduits.sending[*end].hold());
            let far = self.conduits.arrived(&link.conduits);
            dial = link.lost(connection.can_break, reason, far, here).then_some(index);
        }
        self.connections.retired.retain(|other| !Arc::ptr_eq(other, connection));
        self.conduits.receiving.iter_mut().for_each(|end| end.comes_by_no_more(connection));
        if !self.connections.inbound_from(&connection.peer).is_empty() {
            self.routing().let_go(connection);
            self.miss_sender(connection, reason);
        }
        if self.connections.links.iter().any(|link| link.peer == connection.peer && link.has_lost_peer()) {
            self.deferred.suspect(&connection.peer, reason);
        }
        dial
    }

    /// A connection of a sender is gone, for this reason; if it was the last one, what is missing may never come.
    fn miss_sender(&mut self, connection: &Arc<Connection>, reason: &str) {
        if !self.connections.inbound_from(&connection.peer).is_empty() {
            return;
        }
        if self.is_dead(&connection.peer) {
            return self.end_of_dead(&connection.peer);
        }
        let mut is_missed = false;
        for end in self.conduits.receiving.iter_mut().filter(|end| end.spec.sender == connection.peer) {
            is_missed |= !end.has_everything() && end.lost.is_none();
            end.lost.get_or_insert_with(|| (Instant::now(), reason.to_owned()));
        }
        if is_missed && !connection.can_break {
            self.deferred.suspect(&connection.peer, reason);
        }
    }

    /// Whether a connection with a peer that ends only with its process has ended before its conduits, and no other has come instead.
    pub fn misses(&self, peer: &str) -> bool {
        let mut receiving = self.conduits.receiving.iter().filter(|end| end.spec.sender == peer);
        let links = self.connections.links.iter().filter(|link| link.peer == peer && link.has_lost_peer());
        let mut sending = links.flat_map(|link| &link.conduits).map(|end| &self.conduits.sending[*end]);
        receiving.any(|end| end.lost.is_some() && !end.has_everything()) || sending.any(|end| !end.is_gone())
    }

    /// The run is over because a peer has broken the protocol; the coordinator is told once.
    ///
    /// A tap that breaks it is shown nothing any more.
    pub fn break_off(&mut self, peer: &str, problem: String) {
        if self.has_tap(peer) {
            self.deferred.tell(ToCoordinator::Warning { text: format!("{peer}: {problem}") });
            return self.peer_died(peer);
        }
        if self.standing.over.is_none() {
            let error = Error::Protocol { peer: peer.to_owned(), problem };
            self.deferred.tell(ToCoordinator::Failed { text: error.to_string() });
            self.standing.over = Some(error);
        }
    }

    /// Whether a link still waits for its receiver to say what it has.
    pub fn awaits_resume(&self, index: usize) -> bool {
        let link = &self.connections.links[index];
        link.connection.is_some()
            && (link.conduits.iter().any(|end| self.conduits.sending[*end].is_held()) || self.conduits.want(index))
    }

    /// A peer has left normally: what it sent on each conduit to here, and took on each from here.
    ///
    /// The connection to a tap goes: many may come during a run.
    pub fn peer_left(&mut self, peer: &str, sent: &[(u32, u64)], received: &[(u32, u64)]) {
        if let Err(problem) = self.conduits.peer_left(sent, received) {
            self.break_off(peer, problem);
        }
        let (backlogs, mut routing) = self.backlogs_and_routing();
        for (conduit, _) in received {
            if let Some(end) = routing.conduits.sending_end(*conduit) {
                backlogs.on_gone(end, &mut routing);
            }
        }
        let is_tap = self.has_tap(peer);
        for link in self.connections.links.iter_mut().filter(|link| link.peer == peer) {
            link.status = Status::Over;
            if is_tap {
                self.deferred.lost.extend(link.connection.take());
            }
        }
        self.routing().give_up_changes_to(peer);
        self.waiters.wake(None);
    }
}

impl State {
    /// A peer has died, or is a tap that is shown nothing any more, and the run goes on without it. Others get what it was given and has not
    /// acknowledged; what is under way from it still comes. The connections to it go.
    pub fn peer_died(&mut self, peer: &str) {
        let to_peer = |end: &usize| {
            let end = &self.conduits.sending[*end];
            end.spec.receiver == peer && !end.is_gone()
        };
        let ends: Vec<usize> = (0..self.conduits.sending.len()).filter(to_peer).collect();
        for end in ends {
            self.conduits.sending[end].receiver_died();
            let (backlogs, mut routing) = self.backlogs_and_routing();
            if let Some(GivenBack { objects, deadly }) = backlogs.on_died(end, &mut routing) {
                let conduit = self.conduits.sending[end].spec.id;
                self.deferred.tell(ToCoordinator::GivenAgain { conduit, objects, deadly });
            }
        }
        for link in self.connections.links.iter_mut().filter(|link| link.peer == peer) {
            link.status = Status::Over;
            self.deferred.lost.extend(link.connection.take());
        }
        self.routing().give_up_changes_to(peer);
        let from_peer = self.conduits.receiving.iter_mut().filter(|end| end.spec.sender == peer);
        from_peer.for_each(ReceivingEnd::sender_died);
        if self.connections.inbound_from(peer).is_empty() {
            self.end_of_dead(peer);
        }
        self.waiters.wake(None);
    }

    /// Whether a sender has died, and the run goes on without it.
    pub fn is_dead(&self, sender: &str) -> bool {
        self.conduits.receiving.iter().any(|end| end.is_of_dead() && end.spec.sender == sender)
    }

    /// No connection of a sender that died is left.
    fn end_of_dead(&mut self, sender: &str) {
        let its = self.conduits.receiving.iter_mut().filter(|end| end.spec.sender == sender);
        its.for_each(ReceivingEnd::end_of_dead);
        self.waiters.wake(None);
    }

    /// Whether the thread of the instance reads a connection from a sender that may die, whatever the program does: what has been sent must
    /// outlive the sender.
    pub fn must_take_in(&self, connection: &Arc<Connection>) -> bool {
        let from_peer = |end: &&ReceivingEnd| end.spec.sender == connection.peer;
        self.have_senders_that_may_die
            && self.conduits.receiving.iter().filter(from_peer).any(may_lose_sender)
            && self.connections.inbound_from(&connection.peer).iter().any(|own| Arc::ptr_eq(own, connection))
    }

    /// A caller may have taken the wake-up of a connection that the thread of the instance reads.
    pub fn take_in_again(&mut self) {
        if self.have_senders_that_may_die {
            let all = self.connections.all_inbound().filter(|connection| self.must_take_in(connection));
            let all: Vec<Arc<Connection>> = all.cloned().collect();
            all.into_iter().for_each(|connection| self.deferred.read_on_io_thread(connection));
        }
    }
}

/// Whether the run goes on if the sender of a conduit dies.
fn may_lose_sender(end: &ReceivingEnd) -> bool {
    end.spec.pool.as_ref().is_some_and(|pool| pool.writer_may_die)
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
