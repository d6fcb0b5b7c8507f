//! Accepts streams at the listening end, each for a path that stands or for a new one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use xmml_wire::connection::authentication::{Authentication, Progress};
use xmml_wire::entrants::{Entrants, Place, Source};
use xmml_wire::error::{Error, Result};
use xmml_wire::handshake::Role;
use xmml_wire::lock::lock;
use xmml_wire::methods::Stream as Wire;
use xmml_wire::wakeup::{poll_readable, Epoll, EventFd, Interest, Polled, Timer};

use super::{End, Shared};
use crate::frame::{PathFrame, PathId, Receipt, GIVEN_UP, STREAM, UNKNOWN_PATH};
use crate::identity::Identity;
use crate::settings::{Settings, MAX_STREAMS};
use crate::socket::{self, TcpWire};
use crate::stream::{Heard, Stream};
use crate::tls::TlsWire;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// How long one that has proved itself may take to say for which path it comes.
const ATTACH: Duration = Duration::from_secs(10);

/// Paths that one acceptor serves at a time.
const MOST_PATHS: usize = 4096;

/// Paths that have ended are remembered, so that what is still on its way to one is not taken for the beginning of another: so many.
const MOST_ENDED: usize = 1024;

/// How long the acceptor rests when the system has no descriptor, or no memory, for the next connection, which keeps waiting.
const PAUSE: Duration = Duration::from_millis(200);

const SOCKET: u64 = 0;
const TIMER: u64 = 1;

enum PendingStream {
    /// Has not proved itself.
    Unauthenticated(Authentication),
    /// Has, under this name, and is to say for which path it comes.
    Known(Stream, String, Instant),
}

/// Takes in the streams of all paths that came to one address: see [`crate::Listener`].
pub(crate) struct Acceptor {
    epoll: Arc<Epoll>,
    timer: Timer,
    socket: Option<Socket>,
    identity: Identity,
    settings: Settings,
    state: Mutex<AcceptorState>,
    /// Up while new paths wait to be taken.
    bell: EventFd,
}

#[derive(Default)]
struct AcceptorState {
    pending: BTreeMap<u64, PendingStream>,
    /// Those that have not proved themselves.
    entrants: Entrants,
    next_token: u64,
    paths: HashMap<PathId, Weak<Shared>>,
    fresh: VecDeque<Arc<Shared>>,
    /// Those that have ended, the last one first, and why they were given up.
    ended: VecDeque<(PathId, Option<String>)>,
    /// New paths are not taken any more; those that stand still get streams.
    is_closed: bool,
    /// Connections are not looked for before then.
    rests_until: Option<Instant>,
    refused: u64,
    last_refusal: Option<String>,
}

/// A stream that has said for which path it comes.
struct AttachRequest {
    peer: String,
    id: PathId,
    stream: u32,
    resumes: bool,
    have: [Receipt; 2],
    wire: Arc<dyn Wire>,
    rest: Vec<u8>,
}

impl Acceptor {
    /// Listens at `address`, a host and a port (0: any free one; `[::]`: over IPv4, too), or nowhere: then streams are brought by [`Acceptor::admit`].
    pub fn open(address: Option<SocketAddr>, identity: Identity, settings: Settings) -> Result<Arc<Acceptor>> {
        settings.check()?;
        let io = |error: std::io::Error| {
            let action =
                address.map_or("open a listener for paths".to_owned(), |address| format!("listen at {address}"));
            Error::io(&action, &error)
        };
        let (epoll, timer) = (Arc::new(Epoll::new().map_err(io)?), Timer::new().map_err(io)?);
        epoll.add(timer.as_raw_fd(), TIMER, Interest::READ).map_err(io)?;
        let socket = match address {
            None => None,
            Some(address) => {
                let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None).map_err(io)?;
                if address.is_ipv6() && address.ip().is_unspecified() {
                    // Everywhere is also where IPv4 leads, whatever the system's usual choice is.
                    socket.set_only_v6(false).map_err(io)?;
                }
                // Only for a chosen port: a program that starts again at once must get it although old connections linger.
                socket.set_reuse_address(address.port() != 0).map_err(io)?;
                // Before listening: the size of the windows is agreed when a connection opens.
                socket::tune(socket.as_raw_fd(), &settings).map_err(io)?;
                socket.bind(&address.into()).map_err(io)?;
                socket.listen(BACKLOG).map_err(io)?;
                epoll.add(socket.as_raw_fd(), SOCKET, Interest::READ).map_err(io)?;
                Some(socket)
            }
        };
        let state = Mutex::new(AcceptorState { next_token: 16, ..AcceptorState::default() });
        let bell = EventFd::new().map_err(io)?;
        Ok(Arc::new(Acceptor { epoll, timer, socket, identity, settings, state, bell }))
    }

    fn state(&self) -> MutexGuard<'_, AcceptorState> {
        lock(&self.state)
    }

    pub fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.as_ref()?.local_addr().ok()?.as_socket()
    }

    /// The next new path.
    pub fn take(&self) -> Option<Arc<Shared>> {
        let mut state = self.state();
        let path = state.fresh.pop_front();
        if state.fresh.is_empty() {
            self.bell.lower();
        }
        path
    }

    /// Readable while new paths wait to be taken.
    pub fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// How many were turned away, and why the last.
    pub fn refusals(&self) -> (u64, Option<String>) {
        let state = self.state();
        (state.refused, state.last_refusal.clone())
    }

    /// Takes no new paths any more; those that stand still get streams.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let untaken = std::mem::take(&mut state.fresh);
        drop(state);
        untaken.iter().for_each(|path| path.abandon());
    }

    /// A path has ended; `given_up`: why, if the program here did not wait for its end.
    pub fn forget(&self, id: &PathId, given_up: Option<String>) {
        let mut state = self.state();
        state.paths.remove(id);
        state.ended.truncate(MOST_ENDED - 1);
        state.ended.push_front((*id, given_up));
    }

    /// Does what can be done now.
    pub fn drive(self: &Arc<Acceptor>) {
        let mut ready = Vec::new();
        if self.epoll.wait(&mut ready, Some(Instant::now())).is_err() {
            return; // without memory for this: the next time
        }
        let mut coming = Vec::new();
        for ready in &ready {
            match ready.token {
                TIMER => self.timer.lower(),
                SOCKET => self.accept(),
                token => coming.extend(self.serve(token)),
            }
        }
        self.end_rest();
        self.refuse_expired();
        for coming in coming {
            self.seat(coming);
        }
    }

    fn accept(&self) {
        let Some(listening) = &self.socket else { return };
        for _ in 0..64 {
            let (socket, from) = match listening.accept() {
                Ok(pair) => pair,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => continue,
                    _ => return self.rest(listening),
                },
            };
            let Ok(wire) = TcpWire::accepted(socket, &from, &self.settings) else { continue };
            let (source, now) = (Source::of(wire.peer()), Instant::now());
            if !self.state().make_room(&source, now, &self.epoll) {
                continue; // who dials tries again
            }
            let mut wire: Box<dyn Wire> = Box::new(wire);
            if let Some(tls) = &self.identity.tls {
                let Ok(encrypted) = TlsWire::server(wire, tls, &[]) else { continue };
                wire = Box::new(encrypted);
            }
            let Ok(party) = self.identity.party() else { continue };
            let Ok(greeting) = Authentication::answer(wire, party, &[Role::Path]) else { continue };
            let mut state = self.state();
            let token = state.token();
            if self.epoll.add(greeting.fd(), token, Interest::READ).is_ok() {
                state.entrants.enter(token, source, now);
                state.pending.insert(token, PendingStream::Unauthenticated(greeting));
            }
            self.set_timer(&state);
        }
    }

    /// Who waits keeps the socket readable: as long as it is watched, whoever waits for this acceptor would be woken at once, for nothing.
    fn rest(&self, listening: &Socket) {
        let mut state = self.state();
        self.epoll.remove(listening.as_raw_fd());
        state.rests_until = Some(Instant::now() + PAUSE);
        self.set_timer(&state);
    }

    fn end_rest(&self) {
        let mut state = self.state();
        let now = Instant::now();
        let (Some(listening), Some(until)) = (&self.socket, state.rests_until) else { return };
        if until <= now {
            let is_watched = self.epoll.add(listening.as_raw_fd(), SOCKET, Interest::READ).is_ok();
            state.rests_until = (!is_watched).then_some(now + PAUSE);
        }
    }

    /// Takes a stream whose ends have proved themselves (role [`Role::Path`]) to this program by other means; `peer` is who dialled.
    pub fn admit(self: &Arc<Acceptor>, wire: Box<dyn Wire>, peer: String, rest: &[u8]) -> Result<()> {
        let mut state = self.state();
        let token = state.token();
        let status = self.epoll.add(wire.fd(), token, Interest::READ);
        status.map_err(|error| Error::io("watch a stream", &error))?;
        state.pending.insert(
            token,
            PendingStream::Known(Stream::new(0, token, wire.into(), self.epoll.clone(), rest), peer, Instant::now()),
        );
        drop(state);
        if let Some(coming) = self.serve(token) {
            self.seat(coming);
        }
        Ok(())
    }

    /// Goes on with one guest, as far as it has come.
    fn serve(&self, token: u64) -> Option<AttachRequest> {
        let mut state = self.state();
        match state.pending.remove(&token)? {
            PendingStream::Unauthenticated(greeting) => {
                let (fd, from) = (greeting.fd(), greeting.peer().to_owned());
                match greeting.advance() {
                    (Some(greeting), Progress::Wait(interest)) => {
                        match self.epoll.change(fd, token, interest) {
                            Ok(()) => drop(state.pending.insert(token, PendingStream::Unauthenticated(greeting))),
                            Err(_) => state.entrants.leave(token),
                        }
                        None
                    }
                    (_, Progress::Done { stream, established, rest }) => {
                        state.entrants.leave(token);
                        self.epoll.change(fd, token, Interest::READ).ok()?;
                        let guest = PendingStream::Known(
                            Stream::new(0, token, stream.into(), self.epoll.clone(), &rest),
                            established.peer,
                            Instant::now(),
                        );
                        state.pending.insert(token, guest);
                        drop(state);
                        self.serve(token)
                    }
                    (_, Progress::Refused { reason, by_us }) => {
                        state.entrants.leave(token);
                        if by_us {
                            state.refuse(format!("{from}: {reason}"));
                        }
                        None
                    }
                    (None, Progress::Wait(_)) => None,
                }
            }
            PendingStream::Known(stream, peer, since) => match stream.read(None) {
                Ok(Heard::Nothing | Heard::More) => {
                    state.pending.insert(token, PendingStream::Known(stream, peer, since));
                    None
                }
                Ok(Heard::Frame(PathFrame::Attach { id, stream: number, resumes, have })) => {
                    self.epoll.remove(stream.wire.fd());
                    let (wire, rest) = stream.into_parts();
                    Some(AttachRequest { peer, id, stream: number, resumes, have, wire, rest })
                }
                Ok(Heard::Frame(other)) => {
                    state.refuse(format!("{peer}: it opens with {other:?}"));
                    None
                }
                Err(_) => None,
            },
        }
    }

    /// Brings a stream to its path.
    fn seat(self: &Arc<Acceptor>, coming: AttachRequest) {
        let AttachRequest { peer, id, stream, resumes, have, wire, rest } = coming;
        if stream >= MAX_STREAMS {
            return turn_away(&*wire, STREAM, &format!("a path has at most {MAX_STREAMS} streams"));
        }
        let path = {
            let mut state = self.state();
            match state.paths.get(&id).and_then(Weak::upgrade) {
                Some(path) if path.peer != peer => {
                    state.refuse(format!("{peer}: it comes to a path of {}", path.peer));
                    drop(state);
                    return turn_away(&*wire, UNKNOWN_PATH, "there is no such path");
                }
                Some(path) => path,
                None if resumes || state.has_ended(&id) => {
                    let (code, reason) = state.gone(&id);
                    drop(state);
                    return turn_away(&*wire, code, &reason);
                }
                None if state.is_closed => {
                    drop(state);
                    return turn_away(&*wire, UNKNOWN_PATH, "the program here takes no more paths");
                }
                None => {
                    state.paths.retain(|_, path| path.strong_count() > 0);
                    if state.paths.len() >= MOST_PATHS {
                        drop(state);
                        return turn_away(&*wire, STREAM, "there are too many paths");
                    }
                    // As its first stream is; a program with a listener of its own may bring both kinds.
                    let is_encrypted = wire.channel().is_ok_and(|channel| channel.is_some());
                    let end = End::Listening(self.clone());
                    let Ok(path) = Shared::new(id, peer, end, is_encrypted, self.settings.clone()) else {
                        return; // no descriptor left: who dials tries again
                    };
                    state.paths.insert(id, Arc::downgrade(&path));
                    state.fresh.push_back(path.clone());
                    self.bell.raise();
                    path
                }
            }
        };
        path.adopt(stream, wire, &rest, &have);
    }

    fn refuse_expired(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let late: Vec<u64> =
            state.pending.iter().filter(|(_, guest)| guest.until() <= now).map(|(token, _)| *token).collect();
        for token in late {
            // Taking it out closes it, and so ends the watch.
            if let Some(PendingStream::Unauthenticated(greeting)) = state.pending.remove(&token) {
                state.entrants.leave(token);
                state.refuse(format!("{}: it did not prove who it is in time", greeting.peer()));
            }
        }
        self.set_timer(&state);
    }

    fn set_timer(&self, state: &AcceptorState) {
        self.timer.set(state.pending.values().map(PendingStream::until).chain(state.rests_until).min());
    }
}

/// A thread that drives an acceptor.
pub(crate) struct AcceptorThread {
    thread: Option<JoinHandle<()>>,
    stop: Arc<EventFd>,
}

impl AcceptorThread {
    pub fn start(acceptor: &Arc<Acceptor>) -> Result<AcceptorThread> {
        let stop = Arc::new(EventFd::new().map_err(|error| Error::io("make a wake-up", &error))?);
        let (acceptor, stopped) = (acceptor.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("xmml-acceptor".into()).spawn(move || {
            let fds = [acceptor.fd(), stopped.as_raw_fd()];
            while poll_readable(&fds, None).is_ok() && !is_up(&stopped) {
                acceptor.drive();
            }
        });
        let thread = thread.map_err(|error| Error::io("start the thread of a listener", &error))?;
        Ok(AcceptorThread { thread: Some(thread), stop })
    }
}

fn is_up(flag: &EventFd) -> bool {
    poll_readable(&[flag.as_raw_fd()], Some(Instant::now())).is_ok_and(|polled| polled == Polled::Ready)
}

impl Drop for AcceptorThread {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in it has been reported by the thread itself
        }
    }
}

impl PendingStream {
    fn until(&self) -> Instant {
        match self {
            PendingStream::Unauthenticated(greeting) => greeting.deadline,
            PendingStream::Known(_, _, since) => *since + ATTACH,
        }
    }
}

impl AcceptorState {
    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn has_ended(&self, id: &PathId) -> bool {
        self.ended.iter().any(|(ended, _)| ended == id)
    }

    /// What is said of a path that does not stand any more.
    fn gone(&self, id: &PathId) -> (u16, String) {
        match self.ended.iter().find(|(ended, _)| ended == id) {
            Some((_, Some(reason))) => (GIVEN_UP, reason.clone()),
            _ => (UNKNOWN_PATH, "the program here was started again, or has ended the path".to_owned()),
        }
    }

    fn refuse(&mut self, reason: String) {
        self.refused += 1;
        self.last_refusal = Some(reason);
    }

    /// Whether somebody from there may come in; another stranger may have to make way.
    fn make_room(&mut self, source: &Source, now: Instant, epoll: &Epoll) -> bool {
        match self.entrants.place(source, now) {
            Place::Free => true,
            Place::InsteadOf(other) => {
                self.entrants.leave(other);
                if let Some(PendingStream::Unauthenticated(greeting)) = self.pending.remove(&other) {
                    epoll.remove(greeting.fd());
                }
                true
            }
            Place::None => false,
        }
    }
}

fn turn_away(wire: &dyn Wire, code: u16, reason: &str) {
    let frame = PathFrame::Refused { code, reason: reason.to_owned() }.encode();
    // A courtesy: it fits into the empty buffer of the socket, or nobody listens.
    let _ = wire.write(&[std::io::IoSlice::new(&frame)]);
}
