//! Peers that come: they are accepted, prove who they are, and are let in or turned away. (The handshakes of connections that this side
//! opens are carried out here too.)

use std::sync::Arc;
use std::time::Instant;

use xmml_wire::connection::authentication::{Authentication, Progress};
use xmml_wire::connection::Connection;
use xmml_wire::entrants::{Place, Source};
use xmml_wire::error::explained;
use xmml_wire::handshake::Role;
use xmml_wire::methods::{self, Stream};
use xmml_wire::wakeup::Interest;

use crate::control::ToCoordinator;
use crate::runtime::state::State;

use super::{Command, Handshake, IoThread, Purpose, Timer, ACCEPT_PAUSE};

/// Connections that are accepted in a row: others have their turn, however many come.
const ACCEPTED_IN_A_ROW: usize = 64;

/// Connections that one sender may have here, besides two for each of its conduits: some may be dead, and not known to be.
const MORE_CONNECTIONS: usize = 64;

impl IoThread {
    pub(super) fn accept(&mut self, token: u64) {
        for _ in 0..ACCEPTED_IN_A_ROW {
            let now = Instant::now();
            let Some((method, listener)) = self.listeners.get(&token) else { return };
            let method = *method;
            // Who is vouched for waits in the kernel's queue; behind strangers, others would wait there.
            if !listener.is_open_to_strangers() && !self.entrants.have_room(now) {
                self.epoll.remove(listener.fd());
                self.crowded.insert(token);
                return;
            }
            match listener.accept() {
                Ok(Some(stream)) => self.answer(method, stream, now),
                Ok(None) => return,
                Err(error) => {
                    // The descriptor of somebody who has had its time does for the next.
                    if let Some(oldest) = self.entrants.displaceable(now) {
                        self.displace(oldest);
                        continue;
                    }
                    // Out of descriptors, say: waking for it again and again helps nobody.
                    self.epoll.remove(listener.fd());
                    self.timers.push((now + ACCEPT_PAUSE, Timer::Listen(token)));
                    if self.refusing_methods.insert(method) {
                        let text = format!("cannot accept connections by {method}: {error}; trying again and again");
                        self.runtime.tell(&ToCoordinator::Warning { text });
                    }
                    return;
                }
            }
        }
    }

    /// Begins the handshake with a peer that came, if there is a place for it.
    fn answer(&mut self, method: &'static str, stream: Box<dyn Stream>, now: Instant) {
        let source = Source::of(stream.peer());
        match self.entrants.place(&source, now) {
            Place::Free => {}
            Place::InsteadOf(other) => self.displace(other),
            Place::None => {
                return self.refuse(stream.peer(), "too many connections were opened without a proof".to_owned());
            }
        }
        let answer = self.runtime.identity.party().and_then(|me| Authentication::answer(stream, me, &[Role::Data]));
        let Ok(authentication) = answer else { return };
        if let Some(token) = self.watch_handshake(authentication, Purpose::Accepted { method }) {
            self.entrants.enter(token, source, now);
            self.shake(token);
        }
    }

    /// When there will be room for those who wait at the door.
    pub(super) fn next_room(&self) -> Option<Instant> {
        self.entrants.next_room().filter(|_| !self.crowded.is_empty())
    }

    /// Lets those in who wait at the door, as far as there is room.
    pub(super) fn reopen_doors(&mut self) {
        if self.crowded.is_empty() || !self.entrants.have_room(Instant::now()) {
            return;
        }
        for token in std::mem::take(&mut self.crowded) {
            self.listen(token);
        }
    }

    /// Somebody has had its time, and others come.
    fn displace(&mut self, token: u64) {
        self.turn_away(token, "it took too long to prove who it is while others came".to_owned());
    }

    pub(super) fn begin_handshake(&mut self, authentication: Authentication, purpose: Purpose) {
        if let Some(token) = self.watch_handshake(authentication, purpose) {
            self.shake(token);
        }
    }

    fn watch_handshake(&mut self, authentication: Authentication, purpose: Purpose) -> Option<u64> {
        let token = self.runtime.token();
        let interest = Interest { read: true, write: true, close: false };
        self.epoll.add(authentication.fd(), token, interest).ok()?;
        self.handshakes.insert(token, Handshake { authentication, purpose, interest });
        Some(token)
    }

    pub(super) fn turn_away(&mut self, token: u64, reason: String) {
        self.entrants.leave(token);
        if let Some(shake) = self.handshakes.remove(&token) {
            self.epoll.remove(shake.authentication.fd());
            self.handshake_failed(&shake.purpose, shake.authentication.peer(), reason, true);
        }
    }

    pub(super) fn shake(&mut self, token: u64) {
        let Some(Handshake { authentication, purpose, interest }) = self.handshakes.remove(&token) else { return };
        let fd = authentication.fd();
        let peer = authentication.peer().to_owned();
        let (authentication, progress) = authentication.advance();
        match (authentication, progress) {
            (Some(authentication), Progress::Wait(wanted)) => {
                let watched = if wanted == interest { Ok(()) } else { self.epoll.change(fd, token, wanted) };
                match watched {
                    Ok(()) => {
                        self.handshakes.insert(token, Handshake { authentication, purpose, interest: wanted });
                    }
                    Err(_) => self.entrants.leave(token),
                }
            }
            (_, Progress::Done { stream, established, rest }) => {
                self.epoll.remove(fd);
                self.entrants.leave(token);
                match purpose {
                    Purpose::Accepted { method } => self.admit(token, method, established.peer, stream, &rest),
                    Purpose::Link { link, candidate } => self.link_up(token, link, candidate, stream, &rest),
                    Purpose::Coordinator { method } => self.reached_coordinator(method, stream, &rest),
                }
            }
            (_, Progress::Refused { reason, by_us }) => {
                self.entrants.leave(token);
                self.handshake_failed(&purpose, &peer, reason, by_us);
            }
            (None, Progress::Wait(_)) => {}
        }
    }

    /// Tells the coordinator of somebody who was turned away, once per source (a port number does not make another source).
    fn refuse(&mut self, peer: &str, reason: String) {
        if self.entrants.is_first_refusal(&Source::of(peer)) {
            self.runtime.tell(&ToCoordinator::Refused { peer: peer.to_owned(), reason });
        }
    }

    pub(super) fn handshake_failed(&mut self, purpose: &Purpose, peer: &str, reason: String, by_us: bool) {
        match purpose {
            Purpose::Accepted { .. } if by_us => self.refuse(peer, reason),
            Purpose::Accepted { .. } => {}
            Purpose::Link { link, candidate } => {
                self.runtime.state().connections.links[*link].refuse(candidate.method, reason);
                self.dial(*link);
            }
            Purpose::Coordinator { .. } => self.not_reached(reason),
        }
    }

    pub(super) fn admit(
        &mut self,
        token: u64,
        method: &'static str,
        peer: String,
        stream: Box<dyn Stream>,
        rest: &[u8],
    ) {
        let can_break = methods::by_name(method).is_some_and(|method| method.can_break());
        if let Err(error) = stream.established(&self.runtime.memory.arena) {
            stream.shut(); // the sender takes the next method
            self.refuse(&peer, explained(&error));
            return;
        }
        let connection = self.runtime.connection(token, method, can_break, peer, stream);
        let mut state = self.runtime.state();
        let conduits = state.conduits.receiving.iter().filter(|end| end.spec.sender == connection.peer).count();
        if conduits == 0 {
            state.break_off(&connection.peer, "it connected, but no conduit leads from it to here".to_owned());
            self.runtime.attract_attention(&state);
            drop(state);
            connection.close();
            return;
        }
        if state.is_dead(&connection.peer) {
            drop(state);
            return connection.close();
        }
        let others = state.connections.inbound_from(&connection.peer);
        let oldest = others.first().filter(|_| others.len() >= 2 * conduits + MORE_CONNECTIONS).cloned();
        drop(state);
        if let Some(oldest) = oldest {
            self.runtime.connection_lost(&oldest, "it made many others");
        }
        self.look_after(&connection);
        self.take_up(&connection, rest, |state| state.add_sender_connection(&connection));
        let state = self.runtime.state();
        let must_take_in = state.must_take_in(&connection);
        self.runtime.attract_attention(&state);
        drop(state);
        if must_take_in {
            self.obey(Command::Read(connection));
        }
    }

    /// Makes a connection known, with what came behind its handshake (`rest`). Nobody else may read it before that is delivered:
    /// what they found would come before what was first.
    pub(super) fn take_up(&self, connection: &Arc<Connection>, rest: &[u8], make_known: impl FnOnce(&mut State)) {
        let mut reader = connection.reader();
        let mut state = self.runtime.state();
        make_known(&mut state);
        let (problem, error) = match reader.push(rest) {
            Ok(frames) => (state.deliver(connection, frames).err(), None),
            Err(error) => (None, Some(error)),
        };
        // Before the state: its release writes what was queued, and reads this connection again if that fails.
        drop(reader);
        drop(state);
        if let Some(problem) = problem {
            self.runtime.connection_at_fault(connection, &problem);
        }
        if let Some(error) = error {
            self.runtime.frame_at_fault(connection, &error);
        }
    }
}
