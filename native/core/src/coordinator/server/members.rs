//! What instances say once they are let in, and what they are told about each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xmml_wire::connection::{Connection, Looked};
use xmml_wire::frame::{Frame, FrameError, Limits};
use xmml_wire::handshake::Established;
use xmml_wire::methods::{Stream, Table};
use xmml_wire::wakeup::{Interest, Ready};

use super::{deaths, Control, Join, Member, Server, Standing};
use crate::control::{ToCoordinator, ToInstance};
use crate::coordinator::{ConduitTotals, Event};
use crate::spec::InstanceSpec;

/// How often a control connection is read in a row; epoll says again that there is more.
const LOOKS_IN_A_ROW: usize = 16;

impl Server {
    pub(super) fn admit(&mut self, token: u64, stream: Box<dyn Stream>, established: Established, rest: &[u8]) {
        let limits = Limits { message: 0, descriptor: 0, ..Limits::default() };
        let name = established.peer;
        let connection = Connection::new(token, "control", false, name.clone(), stream, self.pool.clone(), limits);
        let early = connection.reader().push(rest);
        let interest = Interest { read: true, write: false, close: true };
        if self.epoll.change(connection.fd(), token, interest).is_err() {
            self.entrants.leave(token);
            return;
        }
        self.look_after(connection.can_fall_silent());
        self.controls.insert(token, Control { connection, name, standing: Standing::Proven, watching_room: false });
        match early {
            Ok(frames) => self.hear(token, frames),
            Err(error) => self.complain(token, &error.to_string()),
        }
    }

    pub(super) fn serve_control(&mut self, ready: Ready) {
        if ready.writable {
            self.write_on(ready.token);
        }
        if !ready.readable && !ready.hung_up {
            return;
        }
        // Not for ever: one who never stops speaking must not keep the others, and the holder's commands, waiting.
        for _ in 0..LOOKS_IN_A_ROW {
            let Some(control) = self.controls.get(&ready.token) else { return };
            let mut frames = Vec::new();
            let looked = control.connection.read_frames(&mut control.connection.reader(), &mut frames);
            self.hear(ready.token, frames);
            match looked {
                Looked::Nothing | Looked::Part => return,
                Looked::Frames => {}
                Looked::Closed(reason) => return self.part_from(ready.token, &reason),
                Looked::Fault(FrameError::Stream { problem }) => return self.changed_on_its_way(ready.token, &problem),
                Looked::Fault(error) => return self.complain(ready.token, &error.to_string()),
            }
        }
        if self.controls.get(&ready.token).is_some_and(|control| !control.connection.announce_sleep()) {
            self.unread.push(ready.token);
        }
    }

    pub(super) fn hear(&mut self, token: u64, frames: Vec<Frame>) {
        for frame in frames {
            let Some(control) = self.controls.get(&token) else { return };
            let name = control.name.clone();
            if let Some(member) = self.members.get_mut(&name).filter(|member| member.connection == Some(token)) {
                member.has_spoken = true;
            }
            let message = match frame {
                Frame::Control(body) => ToCoordinator::decode(&body, &name).map_err(|error| error.to_string()),
                Frame::Alive => continue,
                _ => Err("it sent a frame to the coordinator that is no control message".to_owned()),
            };
            match message {
                Ok(message) => self.answer(token, name, message),
                Err(problem) => return self.complain(token, &problem),
            }
        }
    }

    fn answer(&mut self, token: u64, instance: String, message: ToCoordinator) {
        if let ToCoordinator::Join { pid, host, language, version } = message {
            return self.join(token, Join { pid, host, language, version });
        }
        if let ToCoordinator::Rejoin { token: presented, heard } = message {
            return self.rejoin(token, &presented, heard);
        }
        if self.members.get(&instance).and_then(|member| member.connection) != Some(token) {
            return match control_stands(&self.controls, token) {
                Some(Standing::TurnedDown) => {} // it has not heard that yet
                _ => self.complain(token, "it spoke before it joined"),
            };
        }
        if let Err(problem) = self.check_claim(&instance, &message) {
            return self.complain(token, &problem);
        }
        if let ToCoordinator::Heard { count } = message {
            return self.has_heard(token, &instance, count);
        }
        self.note_heard(token, &instance);
        let event = match message {
            ToCoordinator::Join { .. } | ToCoordinator::Rejoin { .. } | ToCoordinator::Heard { .. } => return,
            ToCoordinator::Quits => return self.lose(token),
            ToCoordinator::Reachable { table } => return self.reachable(&instance, table),
            ToCoordinator::Leaving { runs, conduits, waited_s } => {
                return self.leave(instance, runs, conduits, waited_s)
            }
            ToCoordinator::Progress {
                run,
                iteration,
                time,
                messages_sent,
                bytes_sent,
                messages_received,
                bytes_received,
            } => Event::Progress {
                instance,
                run,
                iteration,
                time,
                messages_sent,
                bytes_sent,
                messages_received,
                bytes_received,
            },
            ToCoordinator::Waiting { epoch, waits, is_any, is_timed, sent, received } => {
                Event::Waiting { instance, epoch, waits, is_any, is_timed, sent, received }
            }
            ToCoordinator::Resumed { epoch } => Event::Resumed { instance, epoch },
            ToCoordinator::Confirmed { epoch, still } => Event::Confirmed { instance, epoch, still },
            ToCoordinator::Warning { text } => Event::Warning { instance, text },
            ToCoordinator::Failed { text } => Event::Failed { instance, text },
            ToCoordinator::Conduits { conduits, method, protected, refused } => {
                Event::Conduits { instance, conduits, method, protected, refused }
            }
            ToCoordinator::Change { request, conduit, methods } => {
                let change = self.shared.next_change();
                return self.change(change, Some((instance, request)), conduit, &methods);
            }
            ToCoordinator::Prepared { change, conduit, methods } => {
                return self.allow_at_sender(change, conduit, &methods)
            }
            ToCoordinator::Changed { change, conduit, method, problem } => {
                return self.changed(instance, change, conduit, method, problem)
            }
            ToCoordinator::Figures { number, sending, receiving } => {
                Event::Figures { instance, number, sending, receiving }
            }
            ToCoordinator::GivenAgain { conduit, objects, deadly } => {
                Event::GivenAgain { instance, conduit, objects, deadly }
            }
            ToCoordinator::HandsOut => return self.hands_out(instance),
            ToCoordinator::Open { request, port, handle } => return self.open(instance, request, &port, &handle),
            ToCoordinator::Admitted { conduit, problem } => return self.admitted(conduit, problem),
            ToCoordinator::PeerEnded { peer, reason } => return self.suspect(&peer, &instance, &reason),
            ToCoordinator::Refused { peer, reason } => {
                return self.refuse(&peer, format!("{reason} (turned away by {instance})"))
            }
        };
        self.shared.event(event);
    }

    fn join(&mut self, token: u64, join: Join) {
        let Some(control) = self.controls.get(&token) else { return };
        let name = control.name.clone();
        match control.standing {
            Standing::Proven => {}
            Standing::TurnedDown => return,
            Standing::Asked(_) | Standing::Joined => return self.complain(token, "it asked to join a second time"),
        }
        if self.dead.contains(&name) {
            return self.turn_down(token, deaths::verdict(&name));
        }
        let rival = self.members.get(&name).filter(|member| {
            let is_held = member.connection.is_some_and(|other| other != token) || member.away_until.is_some();
            // The same process asks once more if its connection broke before it was welcomed, and has said nothing since then.
            let asks_again = member.is_process(&join) && !member.has_spoken;
            member.left.is_some() || (is_held && !asks_again)
        });
        if let Some(rival) = rival {
            let reason = format!(
                "{name} has joined already, as process {}; only one process (rank 0 of an MPI program) may join as an instance",
                rival.pid
            );
            self.shared.event(Event::Warning { instance: name, text: format!("process {}: {reason}", join.pid) });
            return self.turn_down(token, reason);
        }
        self.entrants.leave(token);
        // The same process asks once more if its connection broke before it was welcomed: the one before is of no use.
        let is_former = |control: &Control| control.name == name && matches!(control.standing, Standing::Asked(_));
        let former = self.controls.iter().find(|(_, control)| is_former(control)).map(|(former, _)| *former);
        former.into_iter().for_each(|former| drop(self.take_down(former)));
        if let Some(control) = self.controls.get_mut(&token) {
            control.standing = Standing::Asked(join);
        }
        if self.specs.contains_key(&name) {
            self.welcome(token);
        }
    }

    /// Lets an instance in: its spec, then what is known of its neighbours.
    pub(super) fn welcome(&mut self, token: u64) {
        let Some(control) = self.controls.get_mut(&token) else { return };
        let Standing::Asked(join) = std::mem::replace(&mut control.standing, Standing::Joined) else { return };
        let name = control.name.clone();
        self.open_tap(&name);
        let mut spec = self.specs[&name].clone();
        for conduit in &mut spec.conduits {
            if let Some(grown) = self.capacities.get(&conduit.id) {
                let conduit = Arc::make_mut(conduit);
                conduit.capacity = conduit.capacity.max(*grown);
            }
        }
        let (receivers, neighbours) = neighbours_of(&spec);
        let rejoined = self.members.get(&name).is_some_and(|member| member.is_process(&join));
        let (ticket, again) = self.ticket(token).filter(|_| !self.taps.contains(&name)).unzip();
        let member = Member {
            pid: join.pid,
            host: join.host.clone(),
            connection: Some(token),
            ticket,
            has_spoken: false,
            away_until: None,
            table: None,
            left: None,
        };
        let before = self.members.insert(name.clone(), member);
        if let (Some(before), true) = (before, rejoined) {
            if let Some(member) = self.members.get_mut(&name) {
                member.table = before.table;
            }
        }
        self.send(token, &ToInstance::Welcome { spec, again });
        for receiver in receivers {
            if let Some(table) = self.members.get(&receiver).and_then(|member| member.table.clone()) {
                self.send_to(&name, &ToInstance::Peer { instance: receiver, table });
            }
        }
        for neighbour in neighbours {
            if let Some(message) = self.farewell(&neighbour, &name) {
                self.send_to(&name, &message);
            }
            if self.dead.contains(&neighbour) {
                self.send_to(&name, &ToInstance::PeerDied { instance: neighbour });
            }
        }
        if let Some(reason) = self.aborted.clone() {
            self.send_to(&name, &ToInstance::Abort { reason });
        }
        let Join { pid, host, language, version } = join;
        self.shared.event(Event::Joined { instance: name, pid, host, language, version });
    }

    /// Whether an instance has left, or has died: nothing more comes from it.
    pub(super) fn is_over(&self, instance: &str) -> bool {
        self.dead.contains(instance) || self.members.get(instance).is_some_and(|member| member.left.is_some())
    }

    /// What to tell `to` about `from`, if that one has left.
    fn farewell(&self, from: &str, to: &str) -> Option<ToInstance> {
        let totals = self.members.get(from)?.left.as_ref()?;
        let conduits = &self.specs.get(from)?.conduits;
        let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
        // Of what a tap would have been shown, who left before it came knows nothing.
        for end in totals.iter().chain(&self.zero_totals_of_missing(from, totals)) {
            let Some(conduit) = conduits.iter().find(|conduit| conduit.id == end.conduit) else { continue };
            // Who is coupled to itself has an entry for each end of the conduit, with what that end has not as 0.
            if conduit.sender == from && conduit.receiver == to {
                *sent.entry(end.conduit).or_insert(0) += end.sent;
            }
            if conduit.receiver == from && conduit.sender == to {
                *received.entry(end.conduit).or_insert(0) += end.received;
            }
        }
        let (sent, received) = (sent.into_iter().collect(), received.into_iter().collect());
        Some(ToInstance::PeerLeft { instance: from.to_owned(), sent, received })
    }

    fn reachable(&mut self, instance: &str, table: Table) {
        if let Some(member) = self.members.get_mut(instance) {
            member.table = Some(table.clone());
        }
        let senders: BTreeSet<String> = self
            .specs
            .get(instance)
            .into_iter()
            .flat_map(|spec| &spec.conduits)
            .filter(|conduit| conduit.receiver == instance)
            .map(|conduit| conduit.sender.clone())
            .collect();
        for sender in senders {
            self.send_to(&sender, &ToInstance::Peer { instance: instance.to_owned(), table: table.clone() });
        }
    }

    fn leave(&mut self, instance: String, runs: u64, mut conduits: Vec<ConduitTotals>, waited_s: f64) {
        conduits.extend(self.zero_totals_of_missing(&instance, &conduits));
        if let Some(member) = self.members.get_mut(&instance) {
            member.left = Some(conduits.clone());
        }
        let neighbours = self.specs.get(&instance).map(|spec| neighbours_of(spec).1).unwrap_or_default();
        for neighbour in neighbours {
            if let Some(message) = self.farewell(&instance, &neighbour) {
                self.send_to(&neighbour, &message);
            }
        }
        self.send_to(&instance, &ToInstance::Goodbye);
        self.left_amid_changes(&instance);
        self.left_with_handles(&instance);
        self.shared.event(Event::Left { instance, runs, conduits, waited_s });
    }
}

/// How far whoever is at the other end of a control connection is.
fn control_stands(controls: &BTreeMap<u64, Control>, token: u64) -> Option<&Standing> {
    controls.get(&token).map(|control| &control.standing)
}

impl Member {
    /// Whether it was this process that joined.
    fn is_process(&self, join: &Join) -> bool {
        self.pid == join.pid && self.host == join.host
    }
}

/// The receivers of what an instance sends, and everyone it shares a conduit with.
pub(super) fn neighbours_of(spec: &InstanceSpec) -> (BTreeSet<String>, BTreeSet<String>) {
    let receivers: BTreeSet<String> = spec
        .conduits
        .iter()
        .filter(|conduit| conduit.sender == spec.name)
        .map(|conduit| conduit.receiver.clone())
        .collect();
    let senders =
        spec.conduits.iter().filter(|conduit| conduit.receiver == spec.name).map(|conduit| conduit.sender.clone());
    let neighbours = receivers.iter().cloned().chain(senders).collect();
    (receivers, neighbours)
}
