//! Peers that come: they are accepted, prove who they are, and are let in or turned away. (The handshakes of connections that this side
//! opens are carried out here too.)

use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::connection::authentication::{Authentication, Progress};
use xmml_wire::connection::Connection;
use xmml_wire::error::explained;
use xmml_wire::handshake::{Role, TIMEOUT_S};
use xmml_wire::methods::{self, Stream};
use xmml_wire::wakeup::Interest;

use crate::control::ToCoordinator;
use crate::runtime::state::State;

use super::{Handshake, IoThread, Purpose, Timer};
use super::{ACCEPT_PAUSE, HANDSHAKES_AT_ONCE, HANDSHAKE_PATIENCE, REFUSALS_REPORTED};

impl IoThread {
    pub(super) fn accept(&mut self, token: u64) {
        loop {
            if self.accepted().count() >= HANDSHAKES_AT_ONCE && !self.make_room() {
                if let Some((_, listener)) = self.listeners.get(&token) {
                    self.epoll.remove(listener.fd());
                    self.crowded.insert(token);
                }
                return;
            }
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
            let answer = self.runtime.identity.party().and_then(|me| Authentication::answer(stream, me, &[Role::Data]));
            if let Ok(authentication) = answer {
                self.begin_handshake(authentication, Purpose::Accepted { method });
            }
        }
    }

    /// Handshakes with peers that came, the oldest first.
    fn accepted(&self) -> impl Iterator<Item = (u64, Instant)> + '_ {
        let accepted = self.handshakes.iter().filter(|(_, shake)| matches!(shake.purpose, Purpose::Accepted { .. }));
        accepted.map(|(token, shake)| (*token, shake.authentication.deadline))
    }

    /// When the oldest handshake has had its time, while others wait at the door.
    pub(super) fn next_makes_room_at(&self) -> Option<Instant> {
        let (_, deadline) = self.accepted().next().filter(|_| !self.crowded.is_empty())?;
        Some(deadline - Duration::from_secs(TIMEOUT_S) + HANDSHAKE_PATIENCE)
    }

    /// Turns the oldest handshake away if it has had its time. (Who knows the secret needs a moment only.)
    fn make_room(&mut self) -> bool {
        let Some((oldest, deadline)) = self.accepted().next() else { return true };
        if Instant::now() < deadline - Duration::from_secs(TIMEOUT_S) + HANDSHAKE_PATIENCE {
            return false;
        }
        self.turn_away(oldest, "it took too long to prove who it is while others waited at the door");
        true
    }

    /// Lets those in who wait at the door, as far as there is room.
    pub(super) fn reopen_doors(&mut self) {
        if self.crowded.is_empty() || (self.accepted().count() >= HANDSHAKES_AT_ONCE && !self.make_room()) {
            return;
        }
        for token in std::mem::take(&mut self.crowded) {
            self.listen(token);
        }
    }

    pub(super) fn begin_handshake(&mut self, authentication: Authentication, purpose: Purpose) {
        let token = self.runtime.token();
        let interest = Interest { read: true, write: true, close: false };
        if self.epoll.add(authentication.fd(), token, interest).is_ok() {
            self.handshakes.insert(token, Handshake { authentication, purpose, interest });
            self.shake(token);
        }
    }

    pub(super) fn turn_away(&mut self, token: u64, reason: &str) {
        if let Some(shake) = self.handshakes.remove(&token) {
            self.epoll.remove(shake.authentication.fd());
            self.handshake_failed(&shake.purpose, shake.authentication.peer().to_owned(), reason.to_owned(), true);
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
                if watched.is_ok() {
                    self.handshakes.insert(token, Handshake { authentication, purpose, interest: wanted });
                }
            }
            (_, Progress::Done { stream, established, rest }) => {
                self.epoll.remove(fd);
                match purpose {
                    Purpose::Accepted { method } => self.admit(token, method, established.peer, stream, &rest),
                    Purpose::Link { link, method } => self.link_up(token, link, method, stream, &rest),
                    Purpose::Coordinator { method } => self.reached_coordinator(method, stream, &rest),
                }
            }
            (_, Progress::Refused { reason, by_us }) => self.handshake_failed(&purpose, peer, reason, by_us),
            (None, Progress::Wait(_)) => {}
        }
    }

    pub(super) fn handshake_failed(&mut self, purpose: &Purpose, peer: String, reason: String, by_us: bool) {
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
                self.runtime.state().connections.links[*link].refuse(method, reason);
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
            self.handshake_failed(&Purpose::Accepted { method }, peer, explained(&error), true);
            return;
        }
        let connection = self.runtime.connection(token, method, can_break, peer, stream);
        let state = self.runtime.state();
        if !state.conduits.receiving.iter().any(|end| end.spec.sender == connection.peer) {
            drop(state);
            connection.close();
            return;
        }
        drop(state);
        self.look_after(&connection);
        self.take_up(&connection, rest, |state| state.add_sender_connection(&connection));
        let state = self.runtime.state();
        self.runtime.attract_attention(&state);
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
