//! The listening end: a door to which streams come, each for a path that stands or a new one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::driver::{End, Shared};
use super::frame::{PathFrame, PathId, Receipt, GIVEN_UP, STREAM, UNKNOWN_PATH};
use super::locked;
use super::settings::{Settings, MAX_STREAMS};
use super::socket::{self, TcpWire};
use super::stream::{Heard, Stream};
use super::tls::TlsWire;
use super::Identity;
use crate::connection::authentication::{Authentication, Progress};
use crate::error::{Error, Result};
use crate::handshake::Role;
use crate::methods::Stream as Wire;
use crate::wakeup::{poll_readable, Epoll, EventFd, Interest, Polled, Timer};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Connections that may be on their way to proving who they are.
const MOST_STRANGERS: usize = 256;

/// A stranger has so long before it makes way for the next, when there are too many.
const GRACE: Duration = Duration::from_millis(500);

/// How long one that has proved itself may take to say for which path it comes.
const ATTACH: Duration = Duration::from_secs(10);

/// Paths that one door serves at a time.
const MOST_PATHS: usize = 4096;

/// Paths that have ended are remembered, so that what is still on its way to one is not taken for the beginning of another: so many.
const MOST_ENDED: usize = 1024;

/// How long the door rests when the system has no descriptor, or no memory, for the next connection, which keeps waiting.
const PAUSE: Duration = Duration::from_millis(200);

const SOCKET: u64 = 0;
const TIMER: u64 = 1;

enum Guest {
    /// Has not proved itself.
    Stranger(Authentication, Instant),
    /// Has, under this name, and is to say for which path it comes.
    Known(Stream, String, Instant),
}

/// A door: see [`super::Listener`].
pub(super) struct Door {
    epoll: Arc<Epoll>,
    timer: Timer,
    socket: Option<Socket>,
    identity: Identity,
    settings: Settings,
    rooms: Mutex<Rooms>,
    /// Up while new paths wait to be taken.
    bell: EventFd,
}

#[derive(Default)]
struct Rooms {
    guests: BTreeMap<u64, Guest>,
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

/// A stream that is at its path's door.
struct Coming {
    peer: String,
    id: PathId,
    stream: u32,
    resumes: bool,
    have: [Receipt; 2],
    wire: Arc<dyn Wire>,
    rest: Vec<u8>,
}

impl Door {
    /// Listens at `address`, a host and a port (0: any free one; `[::]`: over IPv4, too), or nowhere: then streams are brought by [`Door::admit`].
    pub fn open(address: Option<SocketAddr>, identity: Identity, settings: Settings) -> Result<Arc<Door>> {
        settings.check()?;
        let io = |error: std::io::Error| {
            let action = address.map_or("open a door for paths".to_owned(), |address| format!("listen at {address}"));
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
        let rooms = Mutex::new(Rooms { next_token: 16, ..Rooms::default() });
        let bell = EventFd::new().map_err(io)?;
        Ok(Arc::new(Door { epoll, timer, socket, identity, settings, rooms, bell }))
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        locked(&self.rooms)
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
        let mut rooms = self.rooms();
        let path = rooms.fresh.pop_front();
        if rooms.fresh.is_empty() {
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
        let rooms = self.rooms();
        (rooms.refused, rooms.last_refusal.clone())
    }

    /// Takes no new paths any more; those that stand still get streams.
    pub fn close(&self) {
        let mut rooms = self.rooms();
        rooms.is_closed = true;
        let untaken = std::mem::take(&mut rooms.fresh);
        drop(rooms);
        untaken.iter().for_each(|path| path.abandon());
    }

    /// A path has ended; `given_up`: why, if the program here did not wait for its end.
    pub fn forget(&self, id: &PathId, given_up: Option<String>) {
        let mut rooms = self.rooms();
        rooms.paths.remove(id);
        rooms.ended.truncate(MOST_ENDED - 1);
        rooms.ended.push_front((*id, given_up));
    }

    /// Does what can be done now.
    pub fn drive(self: &Arc<Door>) {
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
        self.turn_away_the_late();
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
            let mut wire: Box<dyn Wire> = Box::new(wire);
            if let Some(tls) = &self.identity.tls {
                let Ok(encrypted) = TlsWire::server(wire, tls, &[]) else { continue };
                wire = Box::new(encrypted);
            }
            let Ok(party) = self.identity.party() else { continue };
            let Ok(greeting) = Authentication::answer(wire, party, &[Role::Path]) else { continue };
            let mut rooms = self.rooms();
            let now = Instant::now();
            if rooms.guests.len() >= MOST_STRANGERS && !rooms.make_room(now, &self.epoll) {
                continue; // who dials tries again
            }
            let token = rooms.token();
            if self.epoll.add(greeting.fd(), token, Interest::READ).is_ok() {
                rooms.guests.insert(token, Guest::Stranger(greeting, now));
            }
            self.set_timer(&rooms);
        }
    }

    /// Who waits keeps the socket readable: as long as it is watched, whoever waits for this door would be woken at once, for nothing.
    fn rest(&self, listening: &Socket) {
        let mut rooms = self.rooms();
        self.epoll.remove(listening.as_raw_fd());
        rooms.rests_until = Some(Instant::now() + PAUSE);
        self.set_timer(&rooms);
    }

    fn end_rest(&self) {
        let mut rooms = self.rooms();
        let now = Instant::now();
        let (Some(listening), Some(until)) = (&self.socket, rooms.rests_until) else { return };
        if until <= now {
            let is_watched = self.epoll.add(listening.as_raw_fd(), SOCKET, Interest::READ).is_ok();
            rooms.rests_until = (!is_watched).then_some(now + PAUSE);
        }
    }

    /// Takes a stream whose ends have proved themselves (role [`Role::Path`]) to this program by other means; `peer` is who dialled.
    pub fn admit(self: &Arc<Door>, wire: Box<dyn Wire>, peer: String, rest: &[u8]) -> Result<()> {
        let mut rooms = self.rooms();
        let token = rooms.token();
        let status = self.epoll.add(wire.fd(), token, Interest::READ);
        status.map_err(|error| Error::io("watch a stream", &error))?;
        rooms.guests.insert(
            token,
            Guest::Known(Stream::new(0, token, wire.into(), self.epoll.clone(), rest), peer, Instant::now()),
        );
        drop(rooms);
        if let Some(coming) = self.serve(token) {
            self.seat(coming);
        }
        Ok(())
    }

    /// Goes on with one guest, as far as it has come.
    fn serve(&self, token: u64) -> Option<Coming> {
        let mut rooms = self.rooms();
        match rooms.guests.remove(&token)? {
            Guest::Stranger(greeting, since) => {
                let (fd, from) = (greeting.fd(), greeting.peer().to_owned());
                match greeting.advance() {
                    (Some(greeting), Progress::Wait(interest)) => {
                        if self.epoll.change(fd, token, interest).is_ok() {
                            rooms.guests.insert(token, Guest::Stranger(greeting, since));
                        }
                        None
                    }
                    (_, Progress::Done { stream, established, rest }) => {
                        self.epoll.change(fd, token, Interest::READ).ok()?;
                        let guest = Guest::Known(
                            Stream::new(0, token, stream.into(), self.epoll.clone(), &rest),
                            established.peer,
                            Instant::now(),
                        );
                        rooms.guests.insert(token, guest);
                        drop(rooms);
                        self.serve(token)
                    }
                    (_, Progress::Refused { reason, by_us }) => {
                        if by_us {
                            rooms.refuse(format!("{from}: {reason}"));
                        }
                        None
                    }
                    (None, Progress::Wait(_)) => None,
                }
            }
            Guest::Known(stream, peer, since) => match stream.read(None) {
                Ok(Heard::Nothing | Heard::More) => {
                    rooms.guests.insert(token, Guest::Known(stream, peer, since));
                    None
                }
                Ok(Heard::Frame(PathFrame::Attach { id, stream: number, resumes, have })) => {
                    self.epoll.remove(stream.wire.fd());
                    let (wire, rest) = stream.into_parts();
                    Some(Coming { peer, id, stream: number, resumes, have, wire, rest })
                }
                Ok(Heard::Frame(other)) => {
                    rooms.refuse(format!("{peer}: it opens with {other:?}"));
                    None
                }
                Err(_) => None,
            },
        }
    }

    /// Brings a stream to its path.
    fn seat(self: &Arc<Door>, coming: Coming) {
        let Coming { peer, id, stream, resumes, have, wire, rest } = coming;
        if stream >= MAX_STREAMS {
            return turn_away(&*wire, STREAM, &format!("a path has at most {MAX_STREAMS} streams"));
        }
        let path = {
            let mut rooms = self.rooms();
            match rooms.paths.get(&id).and_then(Weak::upgrade) {
                Some(path) if path.peer != peer => {
                    rooms.refuse(format!("{peer}: it comes to a path of {}", path.peer));
                    drop(rooms);
                    return turn_away(&*wire, UNKNOWN_PATH, "there is no such path");
                }
                Some(path) => path,
                None if resumes || rooms.has_ended(&id) => {
                    let (code, reason) = rooms.gone(&id);
                    drop(rooms);
                    return turn_away(&*wire, code, &reason);
                }
                None if rooms.is_closed => {
                    drop(rooms);
                    return turn_away(&*wire, UNKNOWN_PATH, "the program here takes no more paths");
                }
                None => {
                    rooms.paths.retain(|_, path| path.strong_count() > 0);
                    if rooms.paths.len() >= MOST_PATHS {
                        drop(rooms);
                        return turn_away(&*wire, STREAM, "there are too many paths");
                    }
                    // As its first stream is; who has a door of its own may bring both kinds.
                    let is_encrypted = wire.channel().is_ok_and(|channel| channel.is_some());
                    let end = End::Listening(self.clone());
                    let Ok(path) = Shared::new(id, peer, end, is_encrypted, self.settings.clone()) else {
                        return; // no descriptor left: who dials tries again
                    };
                    rooms.paths.insert(id, Arc::downgrade(&path));
                    rooms.fresh.push_back(path.clone());
                    self.bell.raise();
                    path
                }
            }
        };
        path.adopt(stream, wire, &rest, &have);
    }

    fn turn_away_the_late(&self) {
        let now = Instant::now();
        let mut rooms = self.rooms();
        let late: Vec<u64> =
            rooms.guests.iter().filter(|(_, guest)| guest.until() <= now).map(|(token, _)| *token).collect();
        for token in late {
            // Taking it out closes it, and so ends the watch.
            if let Some(Guest::Stranger(greeting, _)) = rooms.guests.remove(&token) {
                rooms.refuse(format!("{}: it did not prove who it is in time", greeting.peer()));
            }
        }
        self.set_timer(&rooms);
    }

    fn set_timer(&self, rooms: &Rooms) {
        self.timer.set(rooms.guests.values().map(Guest::until).chain(rooms.rests_until).min());
    }
}

/// A thread that drives a door.
pub(super) struct Porter {
    thread: Option<JoinHandle<()>>,
    stop: Arc<EventFd>,
}

impl Porter {
    pub fn start(door: &Arc<Door>) -> Result<Porter> {
        let stop = Arc::new(EventFd::new().map_err(|error| Error::io("make a wake-up", &error))?);
        let (door, stopped) = (door.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("xmml-path-door".into()).spawn(move || {
            let fds = [door.fd(), stopped.as_raw_fd()];
            while poll_readable(&fds, None).is_ok() && !is_up(&stopped) {
                door.drive();
            }
        });
        let thread = thread.map_err(|error| Error::io("start the thread of a listener", &error))?;
        Ok(Porter { thread: Some(thread), stop })
    }
}

fn is_up(flag: &EventFd) -> bool {
    poll_readable(&[flag.as_raw_fd()], Some(Instant::now())).is_ok_and(|polled| polled == Polled::Ready)
}

impl Drop for Porter {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in it has been reported by the thread itself
        }
    }
}

impl Guest {
    fn until(&self) -> Instant {
        match self {
            Guest::Stranger(greeting, _) => greeting.deadline,
            Guest::Known(_, _, since) => *since + ATTACH,
        }
    }
}

impl Rooms {
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

    /// The stranger that has been here longest makes way, if it had its time.
    fn make_room(&mut self, now: Instant, epoll: &Epoll) -> bool {
        let oldest = self.guests.iter().find_map(|(token, guest)| match guest {
            Guest::Stranger(greeting, since) => Some((*token, *since, greeting.fd())),
            Guest::Known(..) => None,
        });
        match oldest {
            Some((token, since, fd)) if since + GRACE <= now => {
                epoll.remove(fd);
                self.guests.remove(&token);
                true
            }
            _ => false,
        }
    }
}

fn turn_away(wire: &dyn Wire, code: u16, reason: &str) {
    let frame = PathFrame::Refused { code, reason: reason.to_owned() }.encode();
    // A courtesy: it fits into the empty buffer of the socket, or nobody listens.
    let _ = wire.write(&[std::io::IoSlice::new(&frame)]);
}
