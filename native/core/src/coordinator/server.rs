//! The thread of a coordinator: one epoll over its listeners, handshakes under way, and one control connection per instance.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{io_error, Command, ConduitTotals, CoordinatorOptions, Event, Shared};
use crate::buffer::BufferPool;
use crate::connection::authentication::{Authentication, Progress};
use crate::connection::{Connection, Looked};
use crate::control::{self, ToCoordinator, ToInstance, CONTROL_LIMIT};
use crate::error::Result;
use crate::frame::{encode_control, Frame, Limits};
use crate::handshake::{fresh_nonce, Established, Party, Role, VERSIONS};
use crate::methods::{Listener, Stream, Table};
use crate::spec::InstanceSpec;
use crate::wakeup::{Epoll, Interest, Ready};

/// Handshakes under way at one time; the oldest gives way to a new one.
const PENDING_MAX: usize = 1024;

/// Sources of refused connections that are remembered, so that each is reported once.
const REFUSED_SOURCES_MAX: usize = 1024;

/// How long the listeners rest when the system cannot give us another descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a closing coordinator waits for the kernel to take its last words.
const CLOSE_GRACE: Duration = Duration::from_millis(500);

const WANTED: u64 = 0;

/// What an instance has told about itself.
struct Member {
    pid: u32,
    /// Token of its control connection; `None` after it was lost or closed.
    connection: Option<u64>,
    table: Option<Table>,
    /// Its totals, once it has left.
    left: Option<Vec<ConduitTotals>>,
}

/// Who is at the other end of a control connection.
struct Control {
    connection: Connection,
    /// Instance name, as proved in the handshake.
    name: String,
    /// It asked to join, and waits for its definition.
    asked: Option<Join>,
    watching_room: bool,
}

struct Join {
    pid: u32,
    host: String,
    language: String,
    version: String,
}

pub struct Server {
    options: CoordinatorOptions,
    shared: Arc<Shared>,
    epoll: Epoll,
    listeners: BTreeMap<u64, Box<dyn Listener>>,
    listeners_rest_until: Option<Instant>,
    pending: BTreeMap<u64, Authentication>,
    pending_order: VecDeque<u64>,
    controls: BTreeMap<u64, Control>,
    members: BTreeMap<String, Member>,
    specs: BTreeMap<String, InstanceSpec>,
    capacities: BTreeMap<u32, u32>,
    aborted: Option<String>,
    refused_sources: BTreeSet<String>,
    next_token: u64,
    pool: BufferPool,
}

impl Server {
    pub fn new(options: CoordinatorOptions, listeners: Vec<Box<dyn Listener>>, shared: Arc<Shared>) -> Result<Server> {
        let watch = |error| io_error("watch sockets with epoll", &error);
        let epoll = Epoll::new().map_err(watch)?;
        epoll.add(shared.wanted.as_raw_fd(), WANTED, Interest::READ).map_err(watch)?;
        let mut server = Server {
            options,
            shared,
            epoll,
            listeners: BTreeMap::new(),
            listeners_rest_until: None,
            pending: BTreeMap::new(),
            pending_order: VecDeque::new(),
            controls: BTreeMap::new(),
            members: BTreeMap::new(),
            specs: BTreeMap::new(),
            capacities: BTreeMap::new(),
            aborted: None,
            refused_sources: BTreeSet::new(),
            next_token: WANTED + 1,
            pool: BufferPool::new(),
        };
        for listener in listeners {
            let token = server.token();
            server.epoll.add(listener.fd(), token, Interest::READ).map_err(watch)?;
            server.listeners.insert(token, listener);
        }
        Ok(server)
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Serves until it is told to close.
    pub fn serve(mut self) {
        let mut ready = Vec::new();
        loop {
            if let Err(error) = self.epoll.wait(&mut ready, self.next_deadline()) {
                self.shared.event(Event::Warning {
                    instance: "coordinator".to_owned(),
                    text: format!("cannot watch its connections any more: {error}"),
                });
                return;
            }
            for entry in &ready {
                if entry.token == WANTED {
                    for command in self.shared.take_commands() {
                        if matches!(command, Command::Close) {
                            self.say_last_words();
                            return;
                        }
                        self.obey(command);
                    }
                } else if self.listeners.contains_key(&entry.token) {
                    self.accept(entry.token);
                } else if self.pending.contains_key(&entry.token) {
                    self.authenticate(entry.token);
                } else {
                    self.serve_control(*entry);
                }
            }
            self.meet_deadlines();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        // Pending handshakes are in the order of their deadlines: each gets the same time.
        let handshake = self.pending_order.iter().find_map(|token| Some(self.pending.get(token)?.deadline));
        [handshake, self.listeners_rest_until].into_iter().flatten().min()
    }

    fn meet_deadlines(&mut self) {
        let now = Instant::now();
        while let Some(token) = self.pending_order.front().copied() {
            match self.pending.get(&token) {
                Some(handshake) if handshake.deadline > now => break,
                Some(_) => self.give_up(token, "it did not prove who it is in time"),
                None => {}
            }
            self.pending_order.pop_front();
        }
        if self.listeners_rest_until.is_some_and(|until| until <= now) {
            self.listeners_rest_until = None;
            for (token, listener) in &self.listeners {
                let _ = self.epoll.add(listener.fd(), *token, Interest::READ);
            }
        }
    }

    // ---- commands ----

    fn obey(&mut self, command: Command) {
        match command {
            Command::Define(spec) => self.define(*spec),
            Command::Abort(reason) => {
                let message = ToInstance::Abort { reason: reason.clone() };
                self.aborted = Some(reason);
                let tokens: Vec<u64> = self.controls.keys().copied().collect();
                for token in tokens {
                    self.send(token, &message);
                }
            }
            Command::Grow { conduit, capacity } => {
                self.capacities.insert(conduit, capacity);
                let ends = self.ends_of(conduit);
                for name in ends {
                    self.send_to(&name, &ToInstance::Grow { conduit, capacity });
                }
            }
            Command::Confirm { instance, epoch } => self.send_to(&instance, &ToInstance::Confirm { epoch }),
            Command::Close => {}
        }
    }

    fn ends_of(&self, conduit: u32) -> BTreeSet<String> {
        self.specs
            .values()
            .flat_map(|spec| &spec.conduits)
            .filter(|end| end.id == conduit)
            .flat_map(|end| [end.sender.clone(), end.receiver.clone()])
            .collect()
    }

    fn define(&mut self, spec: InstanceSpec) {
        let name = spec.name.clone();
        self.specs.insert(name.clone(), spec);
        let waiting = self.controls.iter().find(|(_, control)| control.name == name && control.asked.is_some());
        if let Some(token) = waiting.map(|(token, _)| *token) {
            self.welcome(token);
        }
    }

    // ---- strangers ----

    fn accept(&mut self, token: u64) {
        loop {
            match self.listeners[&token].accept() {
                Ok(Some(stream)) => self.begin_handshake(stream),
                Ok(None) => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    let text = format!("cannot accept connections for a moment: {error}");
                    self.refuse("the system".to_owned(), text);
                    for listener in self.listeners.values() {
                        self.epoll.remove(listener.fd());
                    }
                    self.listeners_rest_until = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn begin_handshake(&mut self, stream: Box<dyn Stream>) {
        if self.pending.len() >= PENDING_MAX {
            if let Some(oldest) = self.pending.keys().next().copied() {
                self.give_up(oldest, "too many connections were opened without a proof");
            }
        }
        let Ok(nonce) = fresh_nonce() else { return };
        let me = Party {
            secret: self.options.secret.clone(),
            run: self.options.run_id.clone(),
            name: "coordinator".to_owned(),
            versions: VERSIONS,
            nonce,
        };
        let Ok(handshake) = Authentication::answer(stream, me, &[Role::Control]) else { return };
        let token = self.token();
        if self.epoll.add(handshake.fd(), token, Interest::READ).is_ok() {
            self.pending.insert(token, handshake);
            self.pending_order.push_back(token);
            self.authenticate(token);
        }
    }

    fn authenticate(&mut self, token: u64) {
        let Some(handshake) = self.pending.remove(&token) else { return };
        let peer = handshake.peer().to_owned();
        let fd = handshake.fd();
        match handshake.advance() {
            (Some(handshake), Progress::Wait(interest)) => {
                let _ = self.epoll.change(fd, token, interest);
                self.pending.insert(token, handshake);
            }
            (_, Progress::Done { stream, established, rest }) => self.admit(token, stream, established, &rest),
            (_, Progress::Refused { reason, .. }) => self.refuse(peer, reason),
            (None, Progress::Wait(_)) => {}
        }
    }

    fn give_up(&mut self, token: u64, reason: &str) {
        if let Some(handshake) = self.pending.remove(&token) {
            self.epoll.remove(handshake.fd());
            self.refuse(handshake.peer().to_owned(), reason.to_owned());
        }
    }

    /// Reports a refusal, once per source (a port number does not make another source).
    fn refuse(&mut self, peer: String, reason: String) {
        let source = peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host).to_owned();
        if self.refused_sources.len() < REFUSED_SOURCES_MAX && self.refused_sources.insert(source) {
            self.shared.event(Event::Refused { peer, reason });
        }
    }

    // ---- instances ----

    fn admit(&mut self, token: u64, stream: Box<dyn Stream>, established: Established, rest: &[u8]) {
        let limits = Limits { message: 0, descriptor: 0, control: CONTROL_LIMIT, ..Limits::default() };
        let name = established.peer;
        let connection = Connection::new(token, "control", false, name.clone(), stream, self.pool.clone(), limits);
        let early = connection.reader().push(rest);
        let interest = Interest { read: true, write: false, close: true };
        if self.epoll.change(connection.fd(), token, interest).is_err() {
            return;
        }
        self.controls.insert(token, Control { connection, name, asked: None, watching_room: false });
        match early {
            Ok(frames) => self.hear(token, frames),
            Err(error) => self.complain(token, &error.to_string()),
        }
    }

    fn serve_control(&mut self, ready: Ready) {
        if ready.writable {
            self.write_on(ready.token);
        }
        if !ready.readable && !ready.hung_up {
            return;
        }
        loop {
            let Some(control) = self.controls.get(&ready.token) else { return };
            let mut frames = Vec::new();
            let looked = control.connection.look(&mut control.connection.reader(), &mut frames);
            self.hear(ready.token, frames);
            match looked {
                Looked::Nothing | Looked::Part => return,
                Looked::Frames => {}
                Looked::Closed(_) | Looked::Fault(_) => return self.lose(ready.token),
            }
        }
    }

    fn hear(&mut self, token: u64, frames: Vec<Frame>) {
        for frame in frames {
            let Some(control) = self.controls.get(&token) else { return };
            let name = control.name.clone();
            let message = match frame {
                Frame::Control(body) => control::decode(&body, &name).map_err(|error| error.to_string()),
                _ => Err("sent the coordinator something that is not a control message".to_owned()),
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
        if self.members.get(&instance).and_then(|member| member.connection) != Some(token) {
            return self.complain(token, "it spoke before it joined");
        }
        let event = match message {
            ToCoordinator::Join { .. } => return,
            ToCoordinator::Reachable { table } => return self.reachable(&instance, table),
            ToCoordinator::Leaving { runs, conduits, waited_s } => {
                return self.leave(token, instance, runs, conduits, waited_s)
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
            ToCoordinator::Waiting { epoch, waits, sent, received } => {
                Event::Waiting { instance, epoch, waits, sent, received }
            }
            ToCoordinator::Resumed { epoch } => Event::Resumed { instance, epoch },
            ToCoordinator::Confirmed { epoch, still } => Event::Confirmed { instance, epoch, still },
            ToCoordinator::Warning { text } => Event::Warning { instance, text },
            ToCoordinator::Failed { text } => Event::Failed { instance, text },
            ToCoordinator::Conduit { conduit, method } => Event::Conduit { instance, conduit, method },
            ToCoordinator::Refused { peer, reason } => {
                return self.refuse(peer, format!("{reason} (turned away by {instance})"))
            }
        };
        self.shared.event(event);
    }

    fn join(&mut self, token: u64, join: Join) {
        let Some(control) = self.controls.get_mut(&token) else { return };
        let name = control.name.clone();
        let rival = self.members.get(&name).filter(|member| {
            member.left.is_some() || (member.connection.is_some_and(|other| other != token) && member.pid != join.pid)
        });
        if let Some(rival) = rival {
            let reason = format!(
                "{name} has joined already, as process {}; only one process (rank 0 of an MPI program) may join as an instance",
                rival.pid
            );
            self.shared.event(Event::Warning { instance: name, text: format!("process {}: {reason}", join.pid) });
            self.send(token, &ToInstance::Abort { reason });
            return;
        }
        control.asked = Some(join);
        if self.specs.contains_key(&name) {
            self.welcome(token);
        }
    }

    /// Lets an instance in: its spec, then what is known of its neighbours.
    fn welcome(&mut self, token: u64) {
        let Some(control) = self.controls.get_mut(&token) else { return };
        let Some(join) = control.asked.take() else { return };
        let name = control.name.clone();
        let mut spec = self.specs[&name].clone();
        for conduit in &mut spec.conduits {
            if let Some(grown) = self.capacities.get(&conduit.id) {
                conduit.capacity = conduit.capacity.max(*grown);
            }
        }
        let (receivers, neighbours) = neighbours_of(&spec);
        let rejoined = self.members.get(&name).is_some_and(|member| member.pid == join.pid);
        let member = Member { pid: join.pid, connection: Some(token), table: None, left: None };
        let before = self.members.insert(name.clone(), member);
        if let (Some(before), true) = (before, rejoined) {
            if let Some(member) = self.members.get_mut(&name) {
                member.table = before.table;
            }
        }
        self.send(token, &ToInstance::Welcome { spec });
        for receiver in receivers {
            if let Some(table) = self.members.get(&receiver).and_then(|member| member.table.clone()) {
                self.send(token, &ToInstance::Peer { instance: receiver, table });
            }
        }
        for neighbour in neighbours {
            if let Some(message) = self.farewell(&neighbour, &name) {
                self.send(token, &message);
            }
        }
        if let Some(reason) = self.aborted.clone() {
            self.send(token, &ToInstance::Abort { reason });
        }
        let Join { pid, host, language, version } = join;
        self.shared.event(Event::Joined { instance: name, pid, host, language, version });
    }

    /// What to tell `to` about `from`, if that one has left.
    fn farewell(&self, from: &str, to: &str) -> Option<ToInstance> {
        let totals = self.members.get(from)?.left.as_ref()?;
        let conduits = &self.specs.get(from)?.conduits;
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for end in totals {
            let Some(conduit) = conduits.iter().find(|conduit| conduit.id == end.conduit) else { continue };
            if conduit.sender == from && conduit.receiver == to {
                sent.push((end.conduit, end.sent));
            }
            if conduit.receiver == from && conduit.sender == to {
                received.push((end.conduit, end.received));
            }
        }
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

    fn leave(&mut self, token: u64, instance: String, runs: u64, conduits: Vec<ConduitTotals>, waited_s: f64) {
        if let Some(member) = self.members.get_mut(&instance) {
            member.left = Some(conduits.clone());
        }
        let neighbours = self.specs.get(&instance).map(|spec| neighbours_of(spec).1).unwrap_or_default();
        for neighbour in neighbours {
            if let Some(message) = self.farewell(&instance, &neighbour) {
                self.send_to(&neighbour, &message);
            }
        }
        self.send(token, &ToInstance::Goodbye);
        self.shared.event(Event::Left { instance, runs, conduits, waited_s });
    }

    // ---- sending ----

    fn send_to(&mut self, instance: &str, message: &ToInstance) {
        if let Some(token) = self.members.get(instance).and_then(|member| member.connection) {
            self.send(token, message);
        }
    }

    fn send(&mut self, token: u64, message: &ToInstance) {
        if let Some(control) = self.controls.get(&token) {
            control.connection.writer().push(encode_control(&control::encode(message)).into());
            self.write_on(token);
        }
    }

    /// Writes what is queued; what finds no room is written when epoll says so.
    fn write_on(&mut self, token: u64) {
        let Some(control) = self.controls.get_mut(&token) else { return };
        let fd = control.connection.fd();
        match control.connection.flush_watched() {
            Ok(done) => {
                if control.watching_room == done {
                    control.watching_room = !done;
                    let interest = Interest { read: true, write: !done, close: true };
                    let _ = self.epoll.change(fd, token, interest);
                }
            }
            // The reader finds the same and reports it.
            Err(_) => control.connection.writer().clear(),
        }
    }

    /// An instance breaks the protocol: says so and cuts it off.
    fn complain(&mut self, token: u64, problem: &str) {
        if let Some(control) = self.controls.get(&token) {
            self.shared.event(Event::Warning { instance: control.name.clone(), text: problem.to_owned() });
        }
        self.lose(token);
    }

    fn lose(&mut self, token: u64) {
        let Some(control) = self.controls.remove(&token) else { return };
        self.epoll.remove(control.connection.fd());
        control.connection.close();
        if let Some(member) = self.members.get_mut(&control.name) {
            if member.connection == Some(token) {
                member.connection = None;
                if member.left.is_none() {
                    self.shared.event(Event::Lost { instance: control.name });
                }
            }
        }
    }

    /// Gives the kernel what is still queued, for a bounded time, then closes everything.
    fn say_last_words(&mut self) {
        let until = Instant::now() + CLOSE_GRACE;
        let mut ready = Vec::new();
        while self.controls.values().any(|control| control.watching_room) && Instant::now() < until {
            if self.epoll.wait(&mut ready, Some(until)).is_err() {
                break;
            }
            for entry in ready.iter().filter(|entry| entry.writable) {
                self.write_on(entry.token);
            }
        }
        for control in self.controls.values() {
            control.connection.close();
        }
    }
}

/// The receivers of what an instance sends, and everyone it shares a conduit with.
fn neighbours_of(spec: &InstanceSpec) -> (BTreeSet<String>, BTreeSet<String>) {
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
