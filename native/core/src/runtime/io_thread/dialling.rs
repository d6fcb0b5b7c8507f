//! Links to receivers: the addresses of a receiver are tried in order, and again, until one leads there.

use std::time::Instant;

use xmml_wire::connection::authentication::Authentication;
use xmml_wire::connection::authentication::Protection;
use xmml_wire::error::explained;
use xmml_wire::handshake::Role;
use xmml_wire::methods::{self, Stream, TrafficKind};
use xmml_wire::wakeup::Interest;

use crate::control::ToCoordinator;
use crate::runtime::link::{Candidate, Link, Status};
use crate::runtime::Locked;

use super::{Handshake, IoThread, Purpose, Timer};

impl IoThread {
    pub(super) fn dial(&mut self, link: usize) {
        loop {
            let mut state = self.runtime.state();
            if !matches!(state.connections.links[link].status, Status::Connecting) {
                return;
            }
            if let Some(later) = state.connections.links[link].not_before.filter(|when| *when > Instant::now()) {
                drop(state);
                return self.dial_later(link, later);
            }
            let Some(candidate) = state.connections.links[link].next_candidate() else {
                let pending = self.dialled(link);
                let own = &mut state.connections.links[link];
                let again = match pending[..] {
                    [] => own.exhausted(&self.runtime.here),
                    _ => own.retry_beside(&pending, &self.runtime.here),
                };
                match again {
                    Some(again) => {
                        drop(state);
                        self.dial_later(link, again);
                    }
                    None if pending.is_empty() => self.unreachable(state, link),
                    None => {} // one of those that were tried before may still answer
                }
                return;
            };
            let Link { peer, class, protection, .. } = &state.connections.links[link];
            let (peer, protection) = (peer.clone(), *protection);
            let traffic = TrafficKind { class: *class, is_protected: protection != Protection::Never };
            drop(state);
            let Some(method) = methods::by_name(candidate.method) else { continue };
            let dialled = self.runtime.identity.party().map_err(|error| error.to_string()).and_then(|me| {
                let stream = method.connect(&candidate.address, &me, traffic).map_err(|error| explained(&error))?;
                if let Some(bytes) = candidate.buffer {
                    methods::socket::hold(&*stream, bytes).map_err(|error| explained(&error))?;
                }
                Authentication::dial(stream, me, Role::Data, &peer, protection).map_err(|error| error.to_string())
            });
            match dialled {
                Ok(authentication) => {
                    let patience = self.runtime.state().connections.links[link].patience_with(candidate.method);
                    if let Some(patience) = patience {
                        self.dial_later(link, Instant::now() + patience);
                    }
                    self.begin_handshake(authentication, Purpose::Link { link, candidate });
                    return;
                }
                Err(reason) => self.runtime.state().connections.links[link].refuse(candidate.method, reason),
            }
        }
    }

    /// Has a link dial its next address then, unless it does so before.
    fn dial_later(&mut self, link: usize, when: Instant) {
        let timer = Timer::Dial(link);
        let planned = self.timers.iter().find(|(_, other)| *other == timer).map(|(planned, _)| *planned);
        self.timers.retain(|(_, other)| *other != timer);
        self.timers.push((planned.map_or(when, |planned| planned.min(when)), timer));
    }

    /// A link may have gone over to a slower method: has it look later whether it can go back.
    fn consider_return(&mut self, link: usize) {
        let timer = Timer::Return(link);
        let mut state = self.runtime.state();
        let is_over = state.connections.links[link].conduits.is_empty()
            || !matches!(state.connections.links[link].status, Status::Up);
        if is_over || state.connections.links[link].lost_methods(&self.runtime.here).is_empty() {
            return; // when it is up again, it is considered again
        }
        let when = state.connections.links[link].next_return(Instant::now());
        drop(state);
        self.timers.retain(|(_, other)| *other != timer);
        self.timers.push((when, timer));
    }

    pub(super) fn try_to_return(&mut self, link: usize) {
        let trial = self.runtime.state().routing().try_to_return(link, &self.runtime.here);
        self.consider_return(link);
        if let Some(trial) = trial {
            self.dial(trial);
        }
    }

    /// The addresses of a link that have been dialled and have not answered yet.
    fn dialled(&self, link: usize) -> Vec<Candidate> {
        let of_link = |shake: &Handshake| match &shake.purpose {
            Purpose::Link { link: other, candidate } if *other == link => Some(candidate.clone()),
            _ => None,
        };
        self.handshakes.values().filter_map(of_link).collect()
    }

    pub(super) fn unreachable(&self, mut state: Locked<'_>, link: usize) {
        if let Status::Unreachable { reason } = &state.connections.links[link].status {
            let text = reason.clone();
            let peer = state.connections.links[link].peer.clone();
            if state.routing().stay(link, &text) {
                // What wanted to go over to this link goes on as before.
            } else if state.has_tap(&peer) {
                state.deferred.say(&self.runtime.control, &ToCoordinator::Warning { text });
                state.peer_died(&peer);
            } else {
                state.deferred.say(&self.runtime.control, &ToCoordinator::Failed { text });
            }
        }
        self.runtime.attract_attention(&state);
    }

    pub(super) fn link_up(
        &mut self,
        token: u64,
        link: usize,
        candidate: Candidate,
        stream: Box<dyn Stream>,
        rest: &[u8],
    ) {
        let method = candidate.method;
        let can_break = methods::by_name(method).is_some_and(|method| method.can_break());
        let peer = self.runtime.state().connections.links[link].peer.clone();
        if let Err(error) = stream.established(&self.runtime.memory.arena) {
            stream.shut();
            self.handshake_failed(&Purpose::Link { link, candidate }, &peer, explained(&error), true);
            return;
        }
        let connection = self.runtime.connection(token, method, can_break, peer, stream);
        if !matches!(self.runtime.state().connections.links[link].status, Status::Connecting) {
            connection.close(); // the receiver left while the handshake was under way, or another address was faster
            return;
        }
        self.look_after(&connection);
        self.take_up(&connection, rest, |state| {
            let is_new = state.connections.links[link].chosen != Some(method);
            state.set_link_connection(link, &connection);
            if is_new {
                // One message for all conduits of the link: a model may have tens of thousands.
                let ends = state.connections.links[link].conduits.iter();
                let conduits = ends.map(|end| state.conduits.sending[*end].spec.id).collect();
                let refused = state.connections.links[link].refused.clone();
                let chosen = ToCoordinator::Conduits {
                    conduits,
                    method: method.to_owned(),
                    protected: connection.is_protected(),
                    refused,
                };
                state.deferred.say(&self.runtime.control, &chosen);
            }
        });
        let state = self.runtime.state();
        self.runtime.attract_attention(&state);
        drop(state);
        self.consider_return(link);
        let known = self.watched.get(&token).map_or(Interest::NONE, |(_, interest)| *interest);
        let interest = Interest { read: self.reads_for_link(&connection), close: can_break, ..known };
        if interest != Interest::NONE {
            self.watch(&connection, interest);
        }
    }
}
