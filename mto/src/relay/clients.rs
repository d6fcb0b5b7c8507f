//! What processes of the site ask for: to be reachable under a name, to open a stream, to take one.

use std::time::{Duration, Instant};

use xmml_wire::frame::{encode_alive, encode_control, Kind};
use xmml_wire::message_pack;
use xmml_wire::methods::relay::asking::{write_out, Inbox};
use xmml_wire::methods::relay::protocol::{FromRelay, ToRelay};
use xmml_wire::methods::Stream;
use xmml_wire::methods::TrafficKind;
use xmml_wire::wakeup::Interest;

use super::forwarding::End;
use super::{Awaited, Connection, Opener, Registered, Relay};
use crate::link_frame::LinkMessage;
use crate::log::Level;
use crate::nonblocking_tcp::NonblockingTcp;
use crate::registry::Token;

/// How long a stream may wait to be taken.
pub(super) const TAKEN_WITHIN: Duration = Duration::from_secs(4);

/// How long whoever opened it waits for the other site to say so: longer, for that one knows who did not take it, and not so long that the
/// process asks no more.
const ANSWERED_WITHIN: Duration = Duration::from_millis(4500);

/// Whatever a process says about itself, it counts as lost after so long without a word, and not before.
const SILENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// Bytes that may wait for a process that does not read what it is told.
const UNREAD_MAX: usize = 256 << 10;

/// Signs of life that are read in a row; then everybody else has a turn.
const SIGNS_IN_A_ROW: usize = 16;

/// The bytes of an answer.
pub(super) fn frame(answer: &FromRelay) -> Vec<u8> {
    encode_control(&message_pack::encode(answer))
}

impl Relay {
    /// A process that has proved itself asks for something.
    pub(super) fn asked(&mut self, token: Token, wire: NonblockingTcp, run: String, name: String, request: ToRelay) {
        match request {
            ToRelay::Register { site, silence_ms } => self.register(token, wire, run, name, &site, silence_ms),
            ToRelay::Open { site, name: to, traffic } => self.open(token, wire, run, &name, (&site, &to), traffic),
            ToRelay::Take { ticket } => self.take(token, wire, &run, &name, ticket),
        }
    }

    /// Says why not, as far as the other side listens; the connection ends.
    pub(super) fn refuse(&self, wire: &NonblockingTcp, reason: String) {
        let _ = write_out(&mut frame(&FromRelay::Refused { reason }), wire);
        wire.finish();
    }

    fn register(&mut self, token: Token, wire: NonblockingTcp, run: String, name: String, site: &str, silence_ms: u64) {
        if site != self.site {
            let reason = format!("it is the relay of {}, not of {site}; correct XMML_RELAY=HOST:PORT/SITE", self.site);
            self.log.once(
                wire.source(),
                Level::Warning,
                "wrong site",
                &[("run", &run), ("name", &name), ("site", site)],
            );
            return self.refuse(&wire, reason);
        }
        let Some(its_run) = self.runs.get_mut(&run) else { return };
        let before = match its_run.registry.register(&name, token) {
            Ok(before) => before,
            Err(reason) => return self.refuse(&wire, reason),
        };
        if let Some(before) = before {
            drop(self.remove(before));
        }
        self.log.event(Level::Info, "registered", &[("run", &run), ("name", &name), ("from", wire.source())]);
        let silence = Duration::from_millis(silence_ms).clamp(SILENCE.0, SILENCE.1);
        let registered = Registered {
            wire,
            run,
            name,
            inbox: Inbox::default(),
            out: frame(&FromRelay::Registered {}),
            silence,
            interest: Interest::READ,
        };
        let _ = self.epoll.change(registered.wire.fd(), token, Interest::READ);
        self.connections.insert(token, Connection::Registered(registered));
        self.set_deadline(token, Some(Instant::now() + silence));
        self.write_registered(token);
    }

    fn write_registered(&mut self, token: Token) {
        let Some(Connection::Registered(registered)) = self.connections.get_mut(&token) else { return };
        let written = write_out(&mut registered.out, &registered.wire);
        match written {
            Ok(is_done) => {
                let wanted = Interest { write: !is_done, ..Interest::READ };
                if wanted != registered.interest {
                    registered.interest = wanted;
                    let _ = self.epoll.change(registered.wire.fd(), token, wanted);
                }
                if registered.out.len() > UNREAD_MAX {
                    self.lose_registered(token, "it does not read what it is told");
                }
            }
            Err(error) => self.lose_registered(token, &error.to_string()),
        }
    }

    pub(super) fn registered_ready(&mut self, token: Token) {
        for _ in 0..SIGNS_IN_A_ROW {
            let Some(Connection::Registered(registered)) = self.connections.get_mut(&token) else { return };
            match registered.inbox.next(&registered.wire) {
                Ok(Some((Kind::Alive, _))) => {
                    let until = Instant::now() + registered.silence;
                    registered.out.extend_from_slice(&encode_alive());
                    self.set_deadline(token, Some(until));
                }
                Ok(Some(_)) => return self.lose_registered(token, "it spoke where there was nothing to say"),
                Ok(None) => break,
                Err(error) => return self.lose_registered(token, &error.to_string()),
            }
        }
        self.write_registered(token);
    }

    pub(super) fn lose_registered(&mut self, token: Token, reason: &str) {
        let Some(Connection::Registered(registered)) = self.remove(token) else { return };
        if let Some(run) = self.runs.get_mut(&registered.run) {
            run.registry.withdraw(&registered.name, token);
        }
        let facts = [("run", registered.run.as_str()), ("name", &registered.name), ("reason", reason)];
        self.log.event(Level::Info, "no longer registered", &facts);
    }

    fn open(
        &mut self,
        token: Token,
        wire: NonblockingTcp,
        run: String,
        from: &str,
        (site, to): (&str, &str),
        traffic: TrafficKind,
    ) {
        let opened = match site == self.site {
            true => self.announce(&run, to, site, from, Opener::Here(token)).map(Awaited::Taker),
            false => self.open_far(token, &run, from, (site, to), traffic),
        };
        match opened {
            Ok(awaited) => {
                let within = match awaited {
                    Awaited::Taker(_) => TAKEN_WITHIN,
                    Awaited::Far { .. } => ANSWERED_WITHIN,
                };
                self.connections.insert(token, Connection::Opening { wire, run, awaited });
                self.set_deadline(token, Some(Instant::now() + within));
            }
            Err(reason) => self.refuse(&wire, reason),
        }
    }

    /// Tells a name that somebody opens a stream to it; returns the ticket.
    pub(super) fn announce(
        &mut self,
        run: &str,
        to: &str,
        site: &str,
        from: &str,
        opener: Opener,
    ) -> Result<u64, String> {
        let here = self.site.clone();
        let run = self.runs.get_mut(run).ok_or_else(|| "the run has ended here".to_owned())?;
        let token = run.registry.find(to).ok_or_else(|| format!("{to} is not registered at {here}"))?;
        let ticket = run.registry.open(to, opener)?;
        let incoming = FromRelay::Incoming { ticket, site: site.to_owned(), name: from.to_owned() };
        if let Some(Connection::Registered(registered)) = self.connections.get_mut(&token) {
            registered.out.extend_from_slice(&frame(&incoming));
        }
        self.write_registered(token);
        Ok(ticket)
    }

    /// Whoever waits for its stream to be taken has sent something, or is gone.
    pub(super) fn opener_spoke(&mut self, token: Token) {
        if let Some(Connection::Opening { run, awaited, .. }) = self.remove(token) {
            self.await_no_more(&run, awaited);
        }
    }

    /// Whoever opened a stream does not want it any more; returns what it waited for, for people.
    fn await_no_more(&mut self, run: &str, awaited: Awaited) -> String {
        match awaited {
            Awaited::Taker(ticket) => {
                let waiting = self.runs.get_mut(run).and_then(|run| run.registry.give_up(ticket));
                waiting.map_or_else(|| "nobody".to_owned(), |waiting| waiting.name)
            }
            Awaited::Far { link, stream, .. } => {
                self.flows.remove(&(link, stream));
                self.tell(link, &LinkMessage::Reset { stream });
                "the other site".to_owned()
            }
        }
    }

    /// Nobody took the stream in time.
    pub(super) fn not_taken(&mut self, token: Token) {
        let within = TAKEN_WITHIN.as_secs();
        match self.remove(token) {
            Some(Connection::Opening { wire, run, awaited }) => {
                let name = self.await_no_more(&run, awaited);
                self.refuse(&wire, format!("{name} did not take the stream within {within} s"));
            }
            Some(Connection::Incoming { run, ticket, link, stream, .. }) => {
                let name = self.await_no_more(&run, Awaited::Taker(ticket));
                self.flows.remove(&(link, stream));
                let reason = format!("{name} did not take the stream within {within} s");
                self.tell(link, &LinkMessage::Refused { stream, reason });
            }
            _ => {}
        }
    }

    fn take(&mut self, token: Token, wire: NonblockingTcp, run: &str, name: &str, ticket: u64) {
        let taken = match self.runs.get_mut(run) {
            Some(run) => run.registry.take(name, ticket),
            None => Err("the run has ended here".to_owned()),
        };
        match taken {
            Ok(Opener::Here(opener)) => {
                if let Some(Connection::Opening { wire: other, .. }) = self.remove(opener) {
                    self.join(run, End::wire(opener, other), End::wire(token, wire));
                }
            }
            Ok(Opener::Far(opener)) => {
                if let Some(Connection::Incoming { link, stream, traffic, .. }) = self.remove(opener) {
                    self.tell(link, &LinkMessage::Opened { stream });
                    let pipe = self.join(run, End::far(link, stream, traffic), End::wire(token, wire));
                    self.widen(pipe);
                }
            }
            Err(reason) => self.refuse(&wire, reason),
        }
    }
}
