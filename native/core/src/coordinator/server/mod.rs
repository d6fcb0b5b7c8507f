//! The thread of a coordinator: one epoll over its listeners, handshakes under way, and one control connection per instance.

mod absence;
mod changes;
mod claims;
mod deaths;
mod door;
mod handles;
mod heartbeats;
mod members;
mod suspicion;
mod taps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::buffer::BufferPool;
use xmml_wire::connection::authentication::Authentication;
use xmml_wire::connection::{Connection, Outgoing};
use xmml_wire::entrants::Entrants;
use xmml_wire::error::Result;
use xmml_wire::frame::encode_control;
use xmml_wire::liveness::heartbeat::silence_limit;
use xmml_wire::methods::{Listener, Table};
use xmml_wire::wakeup::{Epoll, Interest, Ready};

use super::{io_error, Command, ConduitTotals, CoordinatorOptions, Event, Shared};
use crate::control::ToInstance;
use crate::spec::{InstanceSpec, FIRST_OPENED};

/// How long the listeners rest when the system cannot give us another descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a closing coordinator waits for the kernel to take its last words.
const CLOSE_GRACE: Duration = Duration::from_millis(500);

const WANTED: u64 = 0;

/// What an instance has told about itself.
struct Member {
    pid: u32,
    host: String,
    /// Token of its control connection; `None` while it is away, and after it was lost or closed.
    connection: Option<u64>,
    /// How it can come back; `None`: it cannot.
    ticket: Option<absence::Ticket>,
    /// Something was heard of it after its `Join`: its `Welcome` has come.
    has_spoken: bool,
    /// It is away, and lost if it does not come back by then.
    away_until: Option<Instant>,
    table: Option<Table>,
    /// Its totals, once it has left.
    left: Option<Vec<ConduitTotals>>,
}

/// Who is at the other end of a control connection.
struct Control {
    connection: Connection,
    /// Instance name, as proved in the handshake.
    name: String,
    standing: Standing,
    watching_room: bool,
}

/// How far the instance at the other end of a control connection is.
enum Standing {
    /// It has proved who it is.
    Proven,
    /// It has asked to join, and waits for its definition.
    Asked(Join),
    /// It belongs to the run.
    Joined,
    /// It was told that it cannot join.
    TurnedDown,
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
    /// Listeners at whose doors others wait until a handshake is over.
    crowded: BTreeSet<u64>,
    /// Handshakes under way.
    pending: BTreeMap<u64, Authentication>,
    /// Who is in the middle of one, or has not asked to join yet.
    entrants: Entrants,
    /// Who must have asked to join, or have gone, by then, in order.
    must_join: VecDeque<(Instant, u64)>,
    controls: BTreeMap<u64, Control>,
    /// Control connections that have more to read, of which the system knows nothing: it is decrypted, or will be.
    unread: Vec<u64>,
    members: BTreeMap<String, Member>,
    specs: BTreeMap<String, InstanceSpec>,
    /// Those of them of which the model knows nothing.
    taps: BTreeSet<String>,
    capacities: BTreeMap<u32, u32>,
    /// Changes of methods that have not come about yet.
    changes: BTreeMap<u64, changes::Change>,
    /// Handles that are being opened, by the conduit that this makes.
    openings: BTreeMap<u32, handles::Opening>,
    /// Number of the next conduit that a handle or a tap makes.
    next_opened: u32,
    /// Instances that have given handles away, and must hear when nobody else is left.
    givers: BTreeSet<String>,
    /// Instances that have died, without which the run goes on.
    dead: BTreeSet<String>,
    /// Instances that may have ended, in the order in which that shows.
    suspicions: VecDeque<suspicion::Suspicion>,
    aborted: Option<String>,
    next_token: u64,
    pool: BufferPool,
    /// How long an instance may be silent.
    silence_limit: Duration,
    /// When signs of life are due; `None`: no connection needs them.
    next_beat: Option<Instant>,
    /// How long an instance may be away.
    away_limit: Duration,
    /// Who went away, and until when it may come back, in order. An entry counts only while its member says the same.
    away: VecDeque<(Instant, String)>,
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
            crowded: BTreeSet::new(),
            pending: BTreeMap::new(),
            entrants: Entrants::default(),
            must_join: VecDeque::new(),
            controls: BTreeMap::new(),
            unread: Vec::new(),
            members: BTreeMap::new(),
            specs: BTreeMap::new(),
            taps: BTreeSet::new(),
            capacities: BTreeMap::new(),
            changes: BTreeMap::new(),
            openings: BTreeMap::new(),
            next_opened: FIRST_OPENED,
            givers: BTreeSet::new(),
            dead: BTreeSet::new(),
            suspicions: VecDeque::new(),
            aborted: None,
            next_token: WANTED + 1,
            pool: BufferPool::new(),
            silence_limit: silence_limit(),
            next_beat: None,
            away_limit: absence::away_limit(),
            away: VecDeque::new(),
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
            for token in std::mem::take(&mut self.unread) {
                self.serve_control(Ready { token, readable: true, writable: false, hung_up: false });
            }
            self.meet_deadlines();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        if !self.unread.is_empty() {
            return Some(Instant::now());
        }
        let beginnings = [self.next_turned_away(), self.next_room(), self.listeners_rest_until];
        beginnings.into_iter().chain([self.next_beat, self.next_given_up(), self.next_verdict()]).flatten().min()
    }

    fn meet_deadlines(&mut self) {
        let now = Instant::now();
        self.turn_away_the_late(now);
        self.give_up_the_absent(now);
        self.reach_verdicts(now);
        if self.next_beat.is_some_and(|when| when <= now) {
            self.beat(now);
        }
        self.reopen(now);
    }

    // ---- commands ----

    fn obey(&mut self, command: Command) {
        match command {
            Command::Define(specs) => specs.into_iter().for_each(|spec| self.define(spec)),
            Command::AddTap(spec) => self.add_tap(spec),
            Command::Abort(reason) => {
                let message = ToInstance::Abort { reason: reason.clone() };
                self.aborted = Some(reason);
                let names: Vec<String> = self.members.keys().cloned().collect();
                names.iter().for_each(|name| self.send_to(name, &message));
                let told: BTreeSet<u64> = self.members.values().filter_map(|member| member.connection).collect();
                let others: Vec<u64> = self.controls.keys().copied().filter(|token| !told.contains(token)).collect();
                others.into_iter().for_each(|token| self.send(token, &message));
            }
            Command::Grow { conduit, capacity } => {
                self.capacities.insert(conduit, capacity);
                let ends = self.ends_of(conduit);
                for name in ends {
                    self.send_to(&name, &ToInstance::Grow { conduit, capacity });
                }
            }
            Command::Confirm { instance, epoch } => self.send_to(&instance, &ToInstance::Confirm { epoch }),
            Command::Enquire { number } => {
                let here = self.members.iter().filter(|(_, member)| member.connection.is_some());
                let here: Vec<String> = here.map(|(name, _)| name.clone()).collect();
                here.iter().for_each(|name| self.send_to(name, &ToInstance::Enquire { number }));
            }
            Command::GoOnWithout(instance) => self.go_on_without(&instance),
            Command::Change { change, conduit, methods } => self.change(change, None, conduit, &methods),
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
        if self.specs.insert(name.clone(), spec).is_none() {
            self.entrants.add_places(1); // all instances of a run may come at once
        }
        let is_waiting = |control: &Control| control.name == name && matches!(control.standing, Standing::Asked(_));
        let waiting = self.controls.iter().find(|(_, control)| is_waiting(control));
        if let Some(token) = waiting.map(|(token, _)| *token) {
            self.welcome(token);
        }
    }

    // ---- sending ----

    /// Says something on a connection that is no part of the conversation with an instance ([`Server::send_to`] is).
    fn send(&mut self, token: u64, message: &ToInstance) {
        self.push(token, encode_control(&message.encode()).into());
    }

    fn push(&mut self, token: u64, frame: Outgoing) {
        if let Some(control) = self.controls.get(&token) {
            control.connection.writer().push(frame);
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

    /// An instance breaks the protocol: it has failed, and is cut off. (Where the instance has joined by another connection, it is
    /// somebody else who uses its name.)
    fn complain(&mut self, token: u64, problem: &str) {
        let Some(control) = self.controls.get(&token) else { return };
        let instance = control.name.clone();
        let by = self.members.get(&instance).and_then(|member| member.connection);
        let is_itself = by.is_none_or(|by| by == token);
        let text = match is_itself {
            true => format!("it broke the protocol: {problem}"),
            false => format!("another process that has proved to be {instance} broke the protocol: {problem}"),
        };
        self.send(token, &ToInstance::Abort { reason: format!("{instance}: {text}") });
        self.shared.event(match is_itself {
            true => Event::Failed { instance: instance.clone(), text },
            false => Event::Warning { instance: instance.clone(), text },
        });
        self.lose(token);
        // It may have broken it when it came back: then it does not come back any more.
        if let Some(member) = self.members.get_mut(&instance).filter(|_| is_itself) {
            member.ticket = None;
            if member.away_until.take().is_some() && member.left.is_none() {
                self.shared.event(Event::Lost { instance });
            }
        }
    }

    /// Closes a connection.
    fn take_down(&mut self, token: u64) -> Option<Control> {
        let control = self.controls.remove(&token)?;
        self.entrants.leave(token);
        self.epoll.remove(control.connection.fd());
        control.connection.close();
        Some(control)
    }

    /// Closes a connection whose instance does not come back.
    fn lose(&mut self, token: u64) {
        let Some(control) = self.take_down(token) else { return };
        let Some(member) = self.members.get_mut(&control.name).filter(|member| member.connection == Some(token)) else {
            return;
        };
        member.connection = None;
        member.ticket = None;
        if member.left.is_none() {
            if self.taps.contains(&control.name) {
                self.go_on_without(&control.name);
            }
            self.shared.event(Event::Lost { instance: control.name });
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
