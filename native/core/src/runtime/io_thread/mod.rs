//! The one thread of a process that is always ready: for each instance it accepts and opens connections, writes what found no room, and
//! speaks with the coordinator. It sleeps in epoll(7) and wakes for events and deadlines only. The thread itself is in [`process`]; the
//! rest of this folder is what it does for one instance.

mod deaths;
mod dialling;
pub mod doors;
mod hearing;
pub mod heartbeats;
mod peers;
pub mod process;
pub mod rejoining;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::connection::authentication::Authentication;
use xmml_wire::connection::Connection;
use xmml_wire::entrants::Entrants;
use xmml_wire::error::{explained, Error, Result};
use xmml_wire::frame::Frame;
use xmml_wire::liveness::heartbeat::silence_limit;
use xmml_wire::methods::Listener;
use xmml_wire::wakeup::{Interest, Ready};

use crate::control::ToCoordinator;

use super::link::Candidate;
use super::{Read, Runtime};

pub use process::Commands;
use process::Watch;
use rejoining::Rejoining;

/// Token of the connection to the coordinator.
pub const CONTROL: u64 = 1;
/// Tokens from here on belong to listeners, handshakes and data connections.
pub const FIRST_FREE_TOKEN: u64 = 16;

/// Progress is reported at most this often.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// How long a listener rests when the system has no descriptor for the next connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// How long after the end of a connection that ends only with its process another one may take its place: of two addresses that a sender
/// tried, it closes the one that was slower.
const SUSPECTED_AFTER: Duration = Duration::from_millis(500);

/// What callers want of the thread.
pub enum Command {
    /// Write the rest when there is room.
    WriteWhenRoom(Arc<Connection>),
    /// Read what comes on it until it ends.
    Read(Arc<Connection>),
    /// The connection is closed: stop watching it.
    Forget(Arc<Connection>),
    /// Open the connection of this link.
    Dial(usize),
    /// A connection with this peer has ended that ends only with its process.
    Suspect {
        /// Its name.
        peer: String,
        /// What became of the connection.
        reason: String,
    },
    /// Something changed that may be reported.
    Progress,
}

/// What a handshake is for.
enum Purpose {
    /// A peer that was accepted.
    Accepted { method: &'static str },
    /// A connection of this link.
    Link { link: usize, candidate: Candidate },
    /// Another connection to the coordinator.
    Coordinator { method: &'static str },
}

struct Handshake {
    authentication: Authentication,
    purpose: Purpose,
    interest: Interest,
}

/// A listener and the method it belongs to.
pub type Door = (&'static str, Box<dyn Listener>);

/// What the thread knows of one instance.
pub struct IoThread {
    runtime: Arc<Runtime>,
    epoll: Watch,
    listeners: HashMap<u64, Door>,
    /// Listeners at whose doors peers wait until a handshake is over.
    crowded: HashSet<u64>,
    handshakes: BTreeMap<u64, Handshake>,
    /// Those of them with peers that came.
    entrants: Entrants,
    /// Data connections that are watched, and for what.
    watched: HashMap<u64, (Arc<Connection>, Interest)>,
    /// Watched connections through memory that have something already.
    pending: Vec<u64>,
    control_interest: Interest,
    /// How to come back to the coordinator.
    rejoining: Option<Rejoining>,
    timers: Vec<(Instant, Timer)>,
    /// Peers that may have ended, and why it seems so, in the order in which they are looked for.
    suspected: VecDeque<(String, String)>,
    /// Peers that have died, and when each is looked at that may be cut off.
    dead: Vec<(Instant, String)>,
    last_progress: Option<(Instant, ToCoordinator)>,
    /// Methods by which nobody could be accepted; each is reported once.
    refusing_methods: HashSet<&'static str>,
    /// How long a peer may be silent.
    silence_limit: Duration,
    /// A timer is set for the next heartbeats.
    beats: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Dial(usize),
    /// A link that has gone over to a slower method tries to go back.
    Return(usize),
    Listen(u64),
    Progress,
    Beat,
    /// The next of the peers that may have ended is looked for.
    Suspect,
    /// A peer that has died may be cut off.
    CutOff,
    /// The coordinator is dialled again.
    Rejoin,
    /// The coordinator must have taken us back.
    TakenBack,
}

/// Has the thread serve an instance; `early` came from the coordinator already.
pub fn start(
    runtime: &Arc<Runtime>,
    epoll: Watch,
    doors: Vec<Door>,
    early: Vec<Frame>,
    rejoining: Option<Rejoining>,
) -> Result<()> {
    let problem = |error: io::Error| Error::io("have connections watched", &error);
    epoll.add(runtime.control.connection().fd(), CONTROL, Interest::READ).map_err(problem)?;
    let mut listeners = HashMap::new();
    for (method, listener) in doors {
        let token = runtime.token();
        epoll.add(listener.fd(), token, Interest::READ).map_err(problem)?;
        listeners.insert(token, (method, listener));
    }
    let instance = IoThread {
        runtime: runtime.clone(),
        epoll,
        listeners,
        crowded: HashSet::new(),
        handshakes: BTreeMap::new(),
        entrants: Entrants::default(),
        watched: HashMap::new(),
        pending: Vec::new(),
        control_interest: Interest::READ,
        rejoining,
        timers: Vec::new(),
        suspected: VecDeque::new(),
        dead: Vec::new(),
        last_progress: None,
        refusing_methods: HashSet::new(),
        silence_limit: silence_limit(),
        beats: false,
    };
    runtime.commands.begin(Box::new(instance), early);
    Ok(())
}

impl IoThread {
    fn begin(&mut self, early: Vec<Frame>) {
        self.look_after(&self.runtime.control.connection());
        self.hear(early);
    }

    /// One of its descriptors is ready.
    fn happened(&mut self, event: Ready) {
        match event.token {
            CONTROL => self.control_ready(event),
            token if self.listeners.contains_key(&token) => self.accept(token),
            token if self.handshakes.contains_key(&token) => self.shake(token),
            token => self.connection_ready(token, event),
        }
    }

    /// Stops watching everything. (To close the descriptors is not enough: a child after fork may hold copies of them.)
    fn end(&mut self) {
        self.epoll.remove(self.runtime.control.connection().fd());
        self.listeners.values().for_each(|(_, listener)| self.epoll.remove(listener.fd()));
        self.handshakes.values().for_each(|shake| self.epoll.remove(shake.authentication.fd()));
        self.watched.values().for_each(|(connection, _)| self.epoll.remove(connection.fd()));
    }

    /// The thread cannot go on.
    fn give_up(&self, error: Error) {
        let mut state = self.runtime.state();
        state.standing.over.get_or_insert(error);
        self.runtime.attract_attention(&state);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let timers = self.timers.iter().map(|(when, _)| *when);
        let handshakes = self.handshakes.values().map(|shake| shake.authentication.deadline);
        let at_once = (!self.pending.is_empty()).then(Instant::now);
        timers.chain(handshakes).chain(self.next_room()).chain(at_once).min()
    }

    fn expire(&mut self) {
        self.look_at_pending();
        let now = Instant::now();
        let late: Vec<u64> = self
            .handshakes
            .iter()
            .filter(|(_, shake)| shake.authentication.deadline <= now)
            .map(|(token, _)| *token)
            .collect();
        for token in late {
            self.turn_away(token, format!("it did not prove who it is within {} s", xmml_wire::handshake::TIMEOUT_S));
        }
        let (due, later) = std::mem::take(&mut self.timers).into_iter().partition(|(when, _)| *when <= now);
        self.timers = later;
        let due: Vec<(Instant, Timer)> = due;
        for (_, timer) in due {
            match timer {
                Timer::Dial(link) => self.dial(link),
                Timer::Return(link) => self.try_to_return(link),
                Timer::Listen(token) => self.listen(token),
                Timer::Progress => self.report_progress(now),
                Timer::Beat => self.beat(now),
                Timer::Suspect => self.look_for_suspected(),
                Timer::CutOff => self.cut_off_dead(now),
                Timer::Rejoin => self.rejoin(),
                Timer::TakenBack => self.look_whether_taken_back(now),
            }
        }
    }

    fn listen(&self, token: u64) {
        if let Some((_, listener)) = self.listeners.get(&token) {
            // Fails only if it is watched already.
            let _ = self.epoll.add(listener.fd(), token, Interest::READ);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::WriteWhenRoom(connection) => self.watch_for_room(&connection),
            Command::Read(connection) => {
                let known = self.watched.get(&connection.token).map_or(Interest::NONE, |(_, interest)| *interest);
                self.watch(&connection, Interest { read: true, ..known });
            }
            Command::Forget(connection) => {
                if self.watched.remove(&connection.token).is_some() {
                    self.epoll.remove(connection.fd());
                }
            }
            Command::Dial(link) => self.dial(link),
            Command::Suspect { peer, reason } => {
                self.suspected.push_back((peer, reason));
                self.timers.push((Instant::now() + SUSPECTED_AFTER, Timer::Suspect));
            }
            Command::Progress => {
                let now = Instant::now();
                let when = self.last_progress.as_ref().map_or(now, |(last, _)| *last + PROGRESS_EVERY);
                self.timers.push((when.max(now), Timer::Progress));
            }
        }
    }

    /// Tells the coordinator of a peer that seemed to have ended, if it is still missed: if it lives, it has broken the protocol.
    fn look_for_suspected(&mut self) {
        let Some((peer, reason)) = self.suspected.pop_front() else { return };
        if self.runtime.state().misses(&peer) {
            self.runtime.tell(&ToCoordinator::PeerEnded { peer, reason });
        }
    }

    fn report_progress(&mut self, now: Instant) {
        self.runtime.progress.begin_report();
        let progress = self.runtime.progress_report();
        if self.last_progress.as_ref().is_none_or(|(_, last)| *last != progress) {
            self.runtime.tell(&progress);
        }
        self.last_progress = Some((now, progress));
    }

    fn watch_for_room(&mut self, connection: &Arc<Connection>) {
        if connection.token == CONTROL {
            if Arc::ptr_eq(connection, &self.runtime.control.connection()) {
                self.watch_control(true);
            }
            return;
        }
        let interest = self.watched.get(&connection.token).map_or(Interest::NONE, |(_, interest)| *interest);
        self.watch(connection, Interest { write: true, ..interest });
    }

    fn watch(&mut self, connection: &Arc<Connection>, interest: Interest) {
        if connection.is_closed() {
            return;
        }
        let known = self.watched.insert(connection.token, (connection.clone(), interest)).is_some();
        let events = match connection.is_memory() {
            true => Interest { read: interest.read || interest.write, write: false, close: interest.close },
            false => interest,
        };
        let done = if known {
            self.epoll.change(connection.fd(), connection.token, events)
        } else {
            self.epoll.add(connection.fd(), connection.token, events)
        };
        if let Err(error) = done {
            self.runtime.connection_lost(connection, &format!("it cannot be watched: {error}"));
        } else if (interest.read && !connection.announce_sleep())
            || (interest.write && !connection.announce_sleep_for_room())
        {
            self.pending.push(connection.token);
        }
    }

    /// Connections through memory say nothing about what was there before they were watched.
    fn look_at_pending(&mut self) {
        // Once each, lest a peer that writes nonsense into shared memory keep the thread from everybody else.
        for token in std::mem::take(&mut self.pending) {
            self.connection_ready(token, Ready { token, readable: true, writable: true, hung_up: false });
        }
    }

    fn connection_ready(&mut self, token: u64, event: Ready) {
        let Some((connection, mut interest)) = self.watched.get(&token).cloned() else { return };
        let is_memory = connection.is_memory();
        if is_memory {
            connection.drain_wakeups(); // whatever the reason: who takes note of it must look at everything
        }
        if interest.write && (event.writable || is_memory) {
            match connection.flush_watched() {
                Ok(true) => {
                    interest.write = false;
                    let state = self.runtime.state();
                    self.runtime.attract_attention(&state);
                }
                Ok(false) => {}
                Err(error) => {
                    self.runtime.write_failed(&connection, &explained(&error));
                    return;
                }
            }
        }
        if ((interest.read || is_memory) && event.readable) || (interest.close && event.hung_up) {
            while self.runtime.read(&connection) == Read::Something {}
            if connection.is_closed() {
                return;
            }
            interest.read = self.reads_for_link(&connection);
            let state = self.runtime.state();
            self.runtime.attract_attention(&state);
        }
        if interest == Interest::NONE {
            self.watched.remove(&token);
            self.epoll.remove(connection.fd());
        } else {
            self.watch(&connection, interest);
        }
    }

    /// Whether the thread itself must read a connection: until the receiver has said what it has, while objects wait for it to have room,
    /// when no conduit uses it any more, and when its sender may die.
    fn reads_for_link(&self, connection: &Arc<Connection>) -> bool {
        let state = self.runtime.state();
        if state.connections.retired.iter().any(|retired| Arc::ptr_eq(retired, connection))
            || state.must_take_in(connection)
            || state.backlogs.need(connection, &state.conduits)
        {
            return true;
        }
        (0..state.connections.links.len()).any(|link| {
            state.connections.links[link].connection.as_ref().is_some_and(|own| Arc::ptr_eq(own, connection))
                && state.awaits_resume(link)
        })
    }
}
