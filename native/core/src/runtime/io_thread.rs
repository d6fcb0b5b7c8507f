//! The one thread of an instance that is always ready: it accepts and opens connections, writes what found no room, and speaks with
//! the coordinator. It sleeps in epoll(7) and wakes for events and deadlines only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::authentication::{Authentication, Progress};
use crate::connection::{Connection, Looked};
use crate::control::{self, ToCoordinator, ToInstance};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::handshake::Role;
use crate::methods::{self, Listener};
use crate::wakeup::{Epoll, EventFd, Interest, Ready};

use super::link::Status;
use super::state::State;
use super::{Read, Runtime};

const COMMANDS: u64 = 0;
/// Token of the connection to the coordinator.
pub const CONTROL: u64 = 1;
/// Tokens from here on belong to listeners, handshakes and data connections.
pub const FIRST_FREE_TOKEN: u64 = 16;

/// Progress is reported at most this often.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// How long a listener rests when the system has no descriptor for the next connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// How many peers may be in the middle of a handshake. One more, and the one that has taken longest is turned away.
pub const HANDSHAKES_AT_ONCE: usize = 128;

/// How many sources are remembered so that each is reported only once.
const REFUSALS_REPORTED: usize = 64;

/// What callers want of the thread.
pub enum Command {
    /// Write the rest when there is room.
    Watch(Arc<Connection>),
    /// The connection is closed: stop watching it.
    Forget(Arc<Connection>),
    /// Open the connection of this link.
    Dial(usize),
    /// Something changed that may be reported.
    Progress,
    /// End.
    Stop,
}

/// The mailbox of the thread.
pub struct Commands {
    flag: EventFd,
    queue: Mutex<Vec<Command>>,
}

impl Commands {
    pub(super) fn new() -> Result<Commands> {
        let flag = EventFd::new().map_err(|error| Error::io("make an eventfd", &error))?;
        Ok(Commands { flag, queue: Mutex::default() })
    }

    /// Leaves a command, and wakes the thread.
    pub fn give(&self, command: Command) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        self.flag.raise();
    }

    fn take(&self) -> Vec<Command> {
        self.flag.lower();
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a handshake is for.
enum Purpose {
    /// A peer that was accepted.
    Accepted { method: &'static str },
    /// A connection of this link.
    Link { link: usize, method: &'static str },
}

struct Handshake {
    authentication: Authentication,
    purpose: Purpose,
    interest: Interest,
}

/// A listener and the method it belongs to.
pub type Door = (&'static str, Box<dyn Listener>);

/// The thread's own state.
pub struct IoThread {
    runtime: Arc<Runtime>,
    epoll: Epoll,
    listeners: HashMap<u64, Door>,
    handshakes: BTreeMap<u64, Handshake>,
    /// Data connections that are watched, and for what.
    watched: HashMap<u64, (Arc<Connection>, Interest)>,
    control_interest: Interest,
    timers: Vec<(Instant, Timer)>,
    last_progress: Option<(Instant, ToCoordinator)>,
    refused_sources: HashSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Dial(usize),
    Listen(u64),
    Progress,
}

/// Starts the thread; `early` came from the coordinator already.
pub fn start(runtime: Arc<Runtime>, doors: Vec<Door>, early: Vec<Frame>) -> Result<std::thread::JoinHandle<()>> {
    let problem = |error: io::Error| Error::io("start the I/O thread", &error);
    let epoll = Epoll::new().map_err(problem)?;
    epoll.add(runtime.commands.flag.as_raw_fd(), COMMANDS, Interest::READ).map_err(problem)?;
    epoll.add(runtime.control.fd(), CONTROL, Interest::READ).map_err(problem)?;
    let mut listeners = HashMap::new();
    for (method, listener) in doors {
        let token = runtime.token();
        epoll.add(listener.fd(), token, Interest::READ).map_err(problem)?;
        listeners.insert(token, (method, listener));
    }
    let name = "xmml-io".to_owned();
    let thread = IoThread {
        runtime,
        epoll,
        listeners,
        handshakes: BTreeMap::new(),
        watched: HashMap::new(),
        control_interest: Interest::READ,
        timers: Vec::new(),
        last_progress: None,
        refused_sources: HashSet::new(),
    };
    std::thread::Builder::new().name(name).spawn(move || thread.run(early)).map_err(problem)
}

impl IoThread {
    fn run(mut self, early: Vec<Frame>) {
        let mut ready = Vec::new();
        self.hear(early);
        loop {
            let until = self.next_deadline();
            if let Err(error) = self.epoll.wait(&mut ready, until) {
                let mut state = self.runtime.state();
                state.over.get_or_insert(Error::io("wait for connections", &error));
                self.runtime.attract_attention(&state);
                return;
            }
            for event in std::mem::take(&mut ready) {
                match event.token {
                    COMMANDS => {
                        for command in self.runtime.commands.take() {
                            if matches!(command, Command::Stop) {
                                return;
                            }
                            self.obey(command);
                        }
                    }
                    CONTROL => self.control_ready(event),
                    token if self.listeners.contains_key(&token) => self.accept(token),
                    token if self.handshakes.contains_key(&token) => self.shake(token),
                    token => self.connection_ready(token, event),
                }
            }
            self.expire();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let timers = self.timers.iter().map(|(when, _)| *when);
        timers.chain(self.handshakes.values().map(|shake| shake.authentication.deadline)).min()
    }

    fn expire(&mut self) {
        let now = Instant::now();
        let late: Vec<u64> = self
            .handshakes
            .iter()
            .filter(|(_, shake)| shake.authentication.deadline <= now)
            .map(|(token, _)| *token)
            .collect();
        for token in late {
            self.turn_away(token, &format!("it did not prove who it is within {} s", crate::handshake::TIMEOUT_S));
        }
        let (due, later) = std::mem::take(&mut self.timers).into_iter().partition(|(when, _)| *when <= now);
        self.timers = later;
        let due: Vec<(Instant, Timer)> = due;
        for (_, timer) in due {
            match timer {
                Timer::Dial(link) => self.dial(link),
                Timer::Listen(token) => {
                    if let Some((_, listener)) = self.listeners.get(&token) {
                        // Fails only if it is watched already.
                        let _ = self.epoll.add(listener.fd(), token, Interest::READ);
                    }
                }
                Timer::Progress => self.report_progress(now),
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Watch(connection) => self.watch_for_room(&connection),
            Command::Forget(connection) => {
                if self.watched.remove(&connection.token).is_some() {
                    self.epoll.remove(connection.fd());
                }
            }
            Command::Dial(link) => self.dial(link),
            Command::Progress => {
                let now = Instant::now();
                let when = self.last_progress.as_ref().map_or(now, |(last, _)| *last + PROGRESS_EVERY);
                self.timers.push((when.max(now), Timer::Progress));
            }
            Command::Stop => {}
        }
    }

    fn report_progress(&mut self, now: Instant) {
        self.runtime.progress_reported();
        let progress = self.runtime.progress();
        if self.last_progress.as_ref().is_none_or(|(_, last)| *last != progress) {
            self.runtime.tell(&progress);
        }
        self.last_progress = Some((now, progress));
    }

    fn watch_for_room(&mut self, connection: &Arc<Connection>) {
        if connection.token == CONTROL {
            self.watch_control(true);
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
        let done = if known {
            self.epoll.change(connection.fd(), connection.token, interest)
        } else {
            self.epoll.add(connection.fd(), connection.token, interest)
        };
        if let Err(error) = done {
            self.runtime.connection_lost(connection, &format!("it cannot be watched: {error}"));
        }
    }

    fn connection_ready(&mut self, token: u64, event: Ready) {
        let Some((connection, mut interest)) = self.watched.get(&token).cloned() else { return };
        if interest.write && event.writable {
            match connection.flush_watched() {
                Ok(true) => {
                    interest.write = false;
                    let state = self.runtime.state();
                    self.runtime.attract_attention(&state);
                }
                Ok(false) => {}
                Err(error) => {
                    self.runtime.write_failed(&connection, &error.to_string());
                    return;
                }
            }
        }
        if (interest.read && event.readable) || (interest.close && event.hung_up) {
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

    /// Whether the thread itself must read a connection: until the receiver has said what it has.
    fn reads_for_link(&self, connection: &Arc<Connection>) -> bool {
        let state = self.runtime.state();
        (0..state.links.len()).any(|link| {
            state.links[link].connection.as_ref().is_some_and(|own| Arc::ptr_eq(own, connection))
                && state.awaits_resume(link)
        })
    }

    // ---- peers that come -------------------------------------------------------------------------------------------------------

    fn accept(&mut self, token: u64) {
        loop {
            let Some((method, listener)) = self.listeners.get(&token) else { return };
            let method = *method;
            let stream = match listener.accept() {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                Err(error) => {
                    // Out of descriptors, say: waking for it again and again helps nobody.
                    self.epoll.remove(listener.fd());
                    self.timers.push((Instant::now() + ACCEPT_PAUSE, Timer::Listen(token)));
                    if self.refused_sources.insert(format!("listener {method}")) {
                        let text = format!("cannot accept connections by {method}: {error}; trying again and again");
                        self.runtime.tell(&ToCoordinator::Warning { text });
                    }
                    return;
                }
            };
            let answer = self.runtime.party().and_then(|me| Authentication::answer(stream, me, &[Role::Data]));
            if let Ok(authentication) = answer {
                self.begin_handshake(authentication, Purpose::Accepted { method });
            }
        }
    }

    fn begin_handshake(&mut self, authentication: Authentication, purpose: Purpose) {
        if self.handshakes.len() >= HANDSHAKES_AT_ONCE {
            let oldest = self
                .handshakes
                .iter()
                .find(|(_, shake)| matches!(shake.purpose, Purpose::Accepted { .. }))
                .map(|(token, _)| *token);
            if let Some(oldest) = oldest {
                self.turn_away(oldest, "too many peers wait to prove who they are, and it has taken longest");
            }
        }
        let token = self.runtime.token();
        let interest = Interest { read: true, write: true, close: false };
        if self.epoll.add(authentication.fd(), token, interest).is_ok() {
            self.handshakes.insert(token, Handshake { authentication, purpose, interest });
            self.shake(token);
        }
    }

    fn turn_away(&mut self, token: u64, reason: &str) {
        if let Some(shake) = self.handshakes.remove(&token) {
            self.epoll.remove(shake.authentication.fd());
            self.handshake_failed(&shake.purpose, shake.authentication.peer().to_owned(), reason.to_owned(), true);
        }
    }

    fn shake(&mut self, token: u64) {
        let Some(Handshake { authentication, purpose, interest }) = self.handshakes.remove(&token) else { return };
        let fd = authentication.fd();
        let peer = authentication.peer().to_owned();
        let (authentication, progress) = authentication.advance();
        match (authentication, progress) {
            (Some(authentication), Progress::Wait(wanted)) => {
                let watched = if wanted == interest { Ok(()) } else { self.epoll.change(fd, token, wanted) };
                if watched.is_ok() {
                    self.handshakes.insert(token, Handshake { authentication, purpose, interest: wanted });
                }
            }
            (_, Progress::Done { stream, established, rest }) => {
                self.epoll.remove(fd);
                match purpose {
                    Purpose::Accepted { method } => self.admit(token, method, established.peer, stream, &rest),
                    Purpose::Link { link, method } => self.link_up(token, link, method, stream, &rest),
                }
            }
            (_, Progress::Refused { reason, by_us }) => self.handshake_failed(&purpose, peer, reason, by_us),
            (None, Progress::Wait(_)) => {}
        }
    }

    fn handshake_failed(&mut self, purpose: &Purpose, peer: String, reason: String, by_us: bool) {
        match purpose {
            Purpose::Accepted { .. } if by_us => {
                // Once per source: the host for tcp, the process for unix; the port changes each time.
                let source = peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host).to_owned();
                if self.refused_sources.len() < REFUSALS_REPORTED && self.refused_sources.insert(source) {
                    self.runtime.tell(&ToCoordinator::Refused { peer, reason });
                }
            }
            Purpose::Accepted { .. } => {}
            Purpose::Link { link, method } => {
                self.runtime.state().links[*link].refuse(method, reason);
                self.dial(*link);
            }
        }
    }

    fn admit(&mut self, token: u64, method: &'static str, peer: String, stream: Box<dyn methods::Stream>, rest: &[u8]) {
        let breaks = methods::by_name(method).is_some_and(|method| method.breaks());
        let connection = self.runtime.connection(token, method, breaks, peer, stream);
        let state = self.runtime.state();
        if !state.receiving.iter().any(|end| end.spec.sender == connection.peer) {
            drop(state);
            connection.close();
            return;
        }
        drop(state);
        self.take_up(&connection, rest, |state| state.admit(&connection));
        let state = self.runtime.state();
        self.runtime.attract_attention(&state);
    }

    /// Makes a connection known, with what came behind its handshake (`rest`). Nobody else may read it before that is delivered:
    /// what they found would come before what was first.
    fn take_up(&self, connection: &Arc<Connection>, rest: &[u8], make_known: impl FnOnce(&mut State)) {
        let mut reader = connection.reader();
        let mut state = self.runtime.state();
        make_known(&mut state);
        let problem = match reader.push(rest) {
            Ok(frames) => state.deliver(connection, frames).err(),
            Err(error) => Some(error.to_string()),
        };
        // Before the state: its release writes what was queued, and reads this connection again if that fails.
        drop(reader);
        drop(state);
        if let Some(problem) = problem {
            self.runtime.connection_lost(connection, &problem);
        }
    }

    // ---- links to receivers ----------------------------------------------------------------------------------------------------

    fn dial(&mut self, link: usize) {
        loop {
            let mut state = self.runtime.state();
            if !matches!(state.links[link].status, Status::Connecting) {
                return;
            }
            let Some(candidate) = state.links[link].next_candidate() else {
                match state.links[link].exhausted(&self.runtime.here) {
                    Some(again) => self.timers.push((again, Timer::Dial(link))),
                    None => self.unreachable(state, link),
                }
                return;
            };
            let peer = state.links[link].peer.clone();
            drop(state);
            let Some(method) = methods::by_name(candidate.method) else { continue };
            let dialled = method.connect(&candidate.address).map_err(|error| error.to_string()).and_then(|stream| {
                let me = self.runtime.party().map_err(|error| error.to_string())?;
                Authentication::dial(stream, me, Role::Data, &peer).map_err(|error| error.to_string())
            });
            match dialled {
                Ok(authentication) => {
                    let purpose = Purpose::Link { link, method: candidate.method };
                    self.begin_handshake(authentication, purpose);
                    return;
                }
                Err(reason) => self.runtime.state().links[link].refuse(candidate.method, reason),
            }
        }
    }

    fn unreachable(&self, mut state: super::Locked<'_>, link: usize) {
        if let Status::Unreachable { reason } = &state.links[link].status {
            let text = reason.clone();
            state.queue_control(&self.runtime.control, &ToCoordinator::Failed { text });
        }
        self.runtime.attract_attention(&state);
    }

    fn link_up(
        &mut self,
        token: u64,
        link: usize,
        method: &'static str,
        stream: Box<dyn methods::Stream>,
        rest: &[u8],
    ) {
        let breaks = methods::by_name(method).is_some_and(|method| method.breaks());
        let peer = self.runtime.state().links[link].peer.clone();
        let connection = self.runtime.connection(token, method, breaks, peer, stream);
        if matches!(self.runtime.state().links[link].status, Status::Over) {
            connection.close(); // the receiver left while the handshake was under way
            return;
        }
        self.take_up(&connection, rest, |state| {
            let is_new = state.links[link].chosen != Some(method);
            state.link_up(link, &connection);
            if is_new {
                for end in state.links[link].conduits.clone() {
                    let conduit = state.sending[end].spec.id;
                    let chosen = ToCoordinator::Conduit { conduit, method: method.to_owned() };
                    state.queue_control(&self.runtime.control, &chosen);
                }
            }
        });
        let state = self.runtime.state();
        self.runtime.attract_attention(&state);
        drop(state);
        let known = self.watched.get(&token).map_or(Interest::NONE, |(_, interest)| *interest);
        let interest = Interest { read: self.reads_for_link(&connection), close: breaks, ..known };
        if interest != Interest::NONE {
            self.watch(&connection, interest);
        }
    }

    // ---- the coordinator -------------------------------------------------------------------------------------------------------

    fn watch_control(&mut self, write: bool) {
        let wanted = Interest { write, ..Interest::READ };
        if wanted != self.control_interest && self.epoll.change(self.runtime.control.fd(), CONTROL, wanted).is_ok() {
            self.control_interest = wanted;
        }
    }

    fn control_ready(&mut self, event: Ready) {
        if self.control_interest.write && event.writable {
            match self.runtime.control.flush_watched() {
                Ok(true) => self.watch_control(false),
                Ok(false) => {}
                Err(_) => return self.coordinator_lost(),
            }
        }
        if event.readable {
            self.control();
        }
    }

    fn control(&mut self) {
        let control = self.runtime.control.clone();
        loop {
            let mut frames = Vec::new();
            let looked = control.look(&mut control.reader(), &mut frames);
            self.hear(frames);
            match looked {
                Looked::Frames => {}
                Looked::Nothing | Looked::Part => return,
                Looked::Closed(_) => return self.coordinator_lost(),
            }
        }
    }

    fn hear(&mut self, frames: Vec<Frame>) {
        for frame in frames {
            match frame {
                Frame::Control(body) => match control::decode::<ToInstance>(&body, "the coordinator") {
                    Ok(message) => self.told(message),
                    Err(_) => return self.coordinator_lost(),
                },
                _ => return self.coordinator_lost(),
            }
        }
    }

    /// Whatever the reason, from here it looks the same; the coordinator's own side knows more.
    fn coordinator_lost(&mut self) {
        self.epoll.remove(self.runtime.control.fd());
        self.runtime.control.close();
        let mut state = self.runtime.state();
        state.coordinator_lost.get_or_insert_with(Instant::now);
        self.runtime.attract_attention(&state);
    }

    fn told(&mut self, message: ToInstance) {
        let mut dial = Vec::new();
        let mut state = self.runtime.state();
        match message {
            ToInstance::Welcome { .. } => {}
            ToInstance::Peer { instance, table } => {
                let here = self.runtime.here.clone();
                for link in 0..state.links.len() {
                    if state.links[link].peer == instance && state.links[link].learn(&table, &here) {
                        dial.push(link);
                    }
                }
            }
            ToInstance::PeerLeft { instance, sent, received } => state.peer_left(&instance, &sent, &received),
            ToInstance::Abort { reason } => {
                state.over.get_or_insert(Error::Aborted { reason });
            }
            ToInstance::Grow { conduit, capacity } => {
                if let Some(end) = state.sending_end(conduit) {
                    state.sending[end].grow(capacity);
                }
            }
            ToInstance::Confirm { epoch } => {
                let still = state.reported_waits.contains(&epoch);
                state.queue_control(&self.runtime.control, &ToCoordinator::Confirmed { epoch, still });
            }
            ToInstance::Goodbye => state.farewell = true,
        }
        self.runtime.attract_attention(&state);
        drop(state);
        dial.into_iter().for_each(|link| self.dial(link));
    }
}
