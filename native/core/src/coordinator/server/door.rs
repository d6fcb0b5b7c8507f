//! Those who come to the door of a coordinator: they prove who they are, or are turned away.

use std::time::Instant;

use xmml_wire::connection::authentication::{Authentication, Progress};
use xmml_wire::error::explained;
use xmml_wire::handshake::{Party, Role};
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::Interest;

use super::{Server, ACCEPT_PAUSE, PENDING_MAX, REFUSED_SOURCES_MAX};
use crate::coordinator::Event;

impl Server {
    pub(super) fn accept(&mut self, token: u64) {
        loop {
            match self.listeners[&token].accept() {
                Ok(Some(stream)) => self.begin_handshake(stream),
                Ok(None) => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    let text = format!("cannot accept connections for a moment: {}", explained(&error));
                    self.refuse("the system".to_owned(), text);
                    for listener in self.listeners.values() {
                        self.epoll.remove(listener.fd());
                    }
                    self.listeners_rest_until = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn begin_handshake(&mut self, stream: Box<dyn Stream>) {
        // All instances of a run may come at once.
        if self.pending.len() >= PENDING_MAX + self.specs.len() {
            if let Some(oldest) = self.pending.keys().next().copied() {
                self.authenticate(oldest); // its proof may have come meanwhile
                self.give_up(oldest, "too many connections were opened without a proof");
            }
        }
        let Ok(me) = Party::new(&self.options.secret, &self.options.run_id, "coordinator") else { return };
        let Ok(handshake) = Authentication::answer(stream, me, &[Role::Control]) else { return };
        let token = self.token();
        if self.epoll.add(handshake.fd(), token, Interest::READ).is_ok() {
            self.pending.insert(token, handshake);
            self.pending_order.push_back(token);
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
            (_, Progress::Done { stream, established, rest }) => self.admit(token, stream, established, &rest),
            (_, Progress::Refused { reason, .. }) => self.refuse(peer, reason),
            (None, Progress::Wait(_)) => {}
        }
    }

    pub(super) fn give_up(&mut self, token: u64, reason: &str) {
        if let Some(handshake) = self.pending.remove(&token) {
            self.epoll.remove(handshake.fd());
            self.refuse(handshake.peer().to_owned(), reason.to_owned());
        }
    }

    /// Reports a refusal, once per source (a port number does not make another source).
    pub(super) fn refuse(&mut self, peer: String, reason: String) {
        let source = peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host).to_owned();
        if self.refused_sources.len() < REFUSED_SOURCES_MAX && self.refused_sources.insert(source) {
            self.shared.event(Event::Refused { peer, reason });
        }
    }
}
