//! Where processes of the site come in, how many may be there without having proved anything, and what happens at any door when the
//! system has no descriptor for who comes.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::Interest;

use super::{Connection, Relay};
use crate::log::{Level, SYSTEM};
use crate::nonblocking_tcp::NonblockingTcp;
use crate::pending_connection::{PendingConnection, Progress};
use crate::registry::Token;

/// How many may be in the middle of a handshake; the oldest gives way to the next. (Who knows the secret needs a moment only.)
const ARRIVALS_MAX: usize = 1024;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Connections that are accepted in one go; the next ones wait until everybody else has had a turn.
const AT_ONCE: usize = 64;

/// How long the doors rest when the system has no descriptor for the next connection.
const PAUSE: Duration = Duration::from_millis(200);

impl Relay {
    /// Listens at `address` (`HOST:PORT`, port 0: any free one), at each that the host has; returns the first.
    ///
    /// # Errors
    /// It cannot be listened there.
    pub fn listen(&mut self, address: &str) -> io::Result<SocketAddr> {
        self.listen_at_all(&address.to_socket_addrs()?.collect::<Vec<_>>())
    }

    /// Listens at each of these addresses of a host that is one of this machine, at the same port; returns the first.
    ///
    /// # Errors
    /// None is one of this machine, or one is taken.
    pub fn listen_at_all(&mut self, addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
        let mut first: Option<SocketAddr> = None;
        let mut why = io::Error::new(io::ErrorKind::NotFound, "the host has no internet address");
        for address in addresses {
            let mut address = *address;
            if let (Some(first), 0) = (first, address.port()) {
                address.set_port(first.port());
            }
            match self.listen_at_one(address) {
                Ok(bound) => drop(first.get_or_insert(bound)),
                // A name may stand for more than this machine has: an address of IPv6 where that is off, for example.
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => why = error,
                Err(error) => return Err(error),
            }
        }
        first.ok_or(why)
    }

    fn listen_at_one(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        // A relay that is started again at once must get its port although old connections linger.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let door: TcpListener = socket.into();
        let bound = door.local_addr()?;
        let token = self.token();
        self.epoll.add(door.as_raw_fd(), token, Interest::READ)?;
        self.doors.insert(token, door);
        self.listen_at.push(bound.to_string());
        Ok(bound)
    }

    pub(super) fn accept(&mut self, token: Token) {
        for _ in 0..AT_ONCE {
            let Some(door) = self.doors.get(&token) else { return };
            match door.accept() {
                Ok((socket, from)) => {
                    if self.arrivals.len() >= ARRIVALS_MAX {
                        self.make_room();
                    }
                    // One that is gone already needs no answer.
                    if let Ok(wire) = NonblockingTcp::new(socket, from) {
                        self.greet(wire);
                    }
                }
                Err(error) if self.accepts_again(&error) => {}
                Err(_) => return,
            }
        }
    }

    /// After somebody could not be accepted at one of the doors: whether to try again at once. If the system gives nothing for the next
    /// one, all doors rest: whoever waits there would wake the relay without end.
    pub(super) fn accepts_again(&mut self, error: &io::Error) -> bool {
        match error.kind() {
            io::ErrorKind::WouldBlock => return false,
            io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
            _ if self.arrivals.is_empty() => {
                self.close_doors(error);
                return false;
            }
            _ => self.make_room(),
        }
        true
    }

    /// Every door: where it is, and its token.
    fn all_doors(&self) -> Vec<(RawFd, Token)> {
        let owner = self.owner_door.iter().map(|(token, door)| (door.fd(), *token));
        let figures = self.figures_door.iter().map(|(token, door)| (door.as_raw_fd(), *token));
        self.doors.iter().map(|(token, door)| (door.as_raw_fd(), *token)).chain(owner).chain(figures).collect()
    }

    fn make_room(&mut self) {
        if let Some(oldest) = self.arrivals.first().copied() {
            self.turn_away(oldest, "it took too long to prove who it is while others came");
        }
    }

    fn close_doors(&mut self, error: &io::Error) {
        let reason = xmml_wire::error::explained(error);
        self.log.once(SYSTEM, Level::Error, "cannot accept connections for a moment", &[("reason", &reason)]);
        self.all_doors().into_iter().for_each(|(door, _)| self.epoll.remove(door));
        self.doors_rest_until = Some(Instant::now() + PAUSE);
    }

    pub(super) fn reopen_doors(&mut self) {
        self.doors_rest_until = None;
        for (door, token) in self.all_doors() {
            // Fails only if it is watched already.
            let _ = self.epoll.add(door, token, Interest::READ);
        }
    }

    fn greet(&mut self, wire: NonblockingTcp) {
        let token = self.token();
        if self.epoll.add(wire.fd(), token, Interest::READ).is_err() {
            return;
        }
        let arrival = Box::new(PendingConnection::new(wire, self.encryption.clone(), Instant::now()));
        self.set_deadline(token, Some(arrival.deadline));
        self.arrivals.insert(token);
        self.connections.insert(token, Connection::Pending(arrival));
        self.arrival_ready(token);
    }

    pub(super) fn arrival_ready(&mut self, token: Token) {
        let Some(Connection::Pending(arrival)) = self.connections.get_mut(&token) else { return };
        let runs = &self.runs;
        match arrival.advance(|run| runs.get(run).map(|run| run.key.clone())) {
            Progress::Wait(interest) => {
                if let Some(stream) = arrival.stream() {
                    let _ = self.epoll.change(stream.fd(), token, interest);
                }
            }
            Progress::Asked { run, name, request } => {
                let Some(Connection::Pending(arrival)) = self.remove(token) else { return };
                if let Some(wire) = arrival.into_wire() {
                    self.asked(token, wire, run, name, request);
                }
            }
            Progress::Path { run, site } => {
                let Some(Connection::Pending(arrival)) = self.remove(token) else { return };
                if let Some(stream) = arrival.into_stream() {
                    self.path_stream(stream, &run, &site);
                }
            }
            Progress::Refused(reason) => self.turn_away(token, &reason),
        }
    }

    pub(super) fn turn_away(&mut self, token: Token, reason: &str) {
        let Some(Connection::Pending(arrival)) = self.remove(token) else { return };
        self.refused += 1;
        let source = arrival.source();
        self.log.once_for(source, reason, Level::Warning, "turned away", &[("source", source)]);
    }
}
