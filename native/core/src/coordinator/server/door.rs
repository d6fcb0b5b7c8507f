//! Those who come to the door of a coordinator: they prove who they are, or are turned away.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use xmml_wire::connection::authentication::{Authentication, Progress};
use xmml_wire::entrants::{Place, Source};
use xmml_wire::error::explained;
use xmml_wire::handshake::{Party, Role, TIMEOUT_S};
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::Interest;

use super::{Server, Standing, ACCEPT_PAUSE};
use crate::control::ToInstance;
use crate::coordinator::Event;

/// Connections that are accepted in a row: others have their turn, however many come.
const ACCEPTED_IN_A_ROW: usize = 64;

/// How long somebody who has proved who it is may take to ask to join, and to close the connection when it was told that it cannot.
const JOINING_LIMIT: Duration = Duration::from_secs(TIMEOUT_S);

impl Server {
    pub(super) fn accept(&mut self, token: u64) {
        for _ in 0..ACCEPTED_IN_A_ROW {
            let listener = &self.listeners[&token];
            // Who is vouched for waits in the kernel's queue; behind strangers, others would wait there.
            if !listener.is_open_to_strangers() && !self.entrants.have_room(Instant::now()) {
                self.epoll.remove(listener.fd());
                self.crowded.insert(token);
                return;
            }
            match listener.accept() {
                Ok(Some(stream)) => self.begin_handshake(stream),
                Ok(None) => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // The descriptor of somebody who has had its time does for the next.
                    if let Some(oldest) = self.entrants.displaceable(Instant::now()) {
                        self.displace(oldest);
                        continue;
                    }
                    let text = format!("cannot accept connections for a moment: {}", explained(&error));
                    self.refuse("the system", text);
                    for listener in self.listeners.values() {
                        self.epoll.remove(listener.fd());
                    }
                    self.listeners_rest_until = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// When there will be room for those who wait at the door.
    pub(super) fn next_room(&self) -> Option<Instant> {
        self.entrants.next_room().filter(|_| !self.crowded.is_empty())
    }

    /// Lets those in who wait at the door, as far as there is room.
    pub(super) fn reopen(&mut self, now: Instant) {
        let is_rest_over = self.listeners_rest_until.take_if(|until| *until <= now).is_some();
        let is_room = !self.crowded.is_empty() && self.entrants.have_room(now);
        let crowded = if is_room { std::mem::take(&mut self.crowded) } else { BTreeSet::new() };
        for (token, listener) in &self.listeners {
            if crowded.contains(token) || (is_rest_over && !self.crowded.contains(token)) {
                // Fails only if it is watched already.
                let _ = self.epoll.add(listener.fd(), *token, Interest::READ);
            }
        }
    }

    fn begin_handshake(&mut self, stream: Box<dyn Stream>) {
        let (source, now) = (Source::of(stream.peer()), Instant::now());
        match self.entrants.place(&source, now) {
            Place::Free => {}
            Place::InsteadOf(other) => self.displace(other),
            Place::None => {
                return self.refuse(stream.peer(), "too many connections were opened without a proof".to_owned());
            }
        }
        let Ok(me) = Party::new(&self.options.secret, &self.options.run_id, "coordinator") else { return };
        let Ok(handshake) = Authentication::answer(stream, me, &[Role::Control]) else { return };
        let token = self.token();
        if self.epoll.add(handshake.fd(), token, Interest::READ).is_ok() {
            self.entrants.enter(token, source, now);
            self.pending.insert(token, handshake);
            self.authenticate(token);
        }
    }

    pub(super) fn authenticate(&mut self, token: u64) {
        let Some(handshake) = self.pending.remove(&token) else { return };
        let peer = handshake.peer().to_owned();
        let fd = handshake.fd();
        match handshake.advance() {
            (Some(handshake), Progress::Wait(interest)) => {
                let _ = self.epoll.change(fd, token, interest);
                self.pending.insert(token, handshake);
            }
            (_, Progress::Done { stream, established, rest }) => {
                // It stays an entrant until it asks to join.
                self.must_join.push_back((Instant::now() + JOINING_LIMIT, token));
                self.admit(token, stream, established, &rest);
            }
            (_, Progress::Refused { reason, .. }) => {
                self.entrants.leave(token);
                self.refuse(&peer, reason);
            }
            (None, Progress::Wait(_)) => {}
        }
    }

    /// Somebody has had its time, and others come.
    fn displace(&mut self, token: u64) {
        self.turn_away(token, "while others came");
    }

    /// Closes the connection of somebody who has not asked to join.
    fn turn_away(&mut self, token: u64, when: &str) {
        self.entrants.leave(token);
        if let Some(handshake) = self.pending.remove(&token) {
            self.epoll.remove(handshake.fd());
            return self.refuse(handshake.peer(), format!("it did not prove who it is {when}"));
        }
        if let Some(control) = self.take_down(token) {
            let text = format!("a process that has proved to be {} did not ask to join {when}", control.name);
            self.shared.event(Event::Warning { instance: control.name, text });
        }
    }

    /// Tells somebody who has not joined that it cannot, and why; it has a moment to hear that.
    pub(super) fn turn_down(&mut self, token: u64, reason: String) {
        self.send(token, &ToInstance::Abort { reason });
        self.entrants.leave(token);
        let Some(control) = self.controls.get_mut(&token) else { return };
        control.standing = Standing::TurnedDown;
        self.must_join.push_back((Instant::now() + JOINING_LIMIT, token));
    }

    /// When somebody must have proved who it is, or asked to join.
    pub(super) fn next_turned_away(&self) -> Option<Instant> {
        // Both are in the order of their deadlines: each has the same time.
        let handshake = self.pending.first_key_value().map(|(_, handshake)| handshake.deadline);
        handshake.into_iter().chain(self.must_join.front().map(|(by, _)| *by)).min()
    }

    /// Turns those away whose time is over.
    pub(super) fn turn_away_the_late(&mut self, now: Instant) {
        while let Some((token, _)) = self.pending.first_key_value().filter(|(_, first)| first.deadline <= now) {
            self.turn_away(*token, "in time");
        }
        while let Some((_, token)) = self.must_join.front().copied().filter(|(by, _)| *by <= now) {
            self.must_join.pop_front();
            match self.controls.get(&token).map(|control| &control.standing) {
                Some(Standing::Proven) => self.turn_away(token, "in time"),
                Some(Standing::TurnedDown) => drop(self.take_down(token)),
                Some(Standing::Asked(_) | Standing::Joined) | None => {}
            }
        }
    }

    /// Reports a refusal, once per source (a port number does not make another source).
    pub(super) fn refuse(&mut self, peer: &str, reason: String) {
        if self.entrants.is_first_refusal(&Source::of(peer)) {
            self.shared.event(Event::Refused { peer: peer.to_owned(), reason });
        }
    }
}
