//! The admission queue: connections whose peers have not proved yet that they belong to a run. Their number and the time that each has are
//! bounded, and no source takes the places of others ([`Entrants`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use xmml_wire::entrants::{Entrants, Place, Source};
use xmml_wire::methods::relay::protocol::ToRelay;
use xmml_wire::methods::Stream;
use xmml_wire::relay_key::RelayKey;

use super::poller::Poller;
use crate::encryption::Encryption;
use crate::log::{Level, Log};
use crate::nonblocking_tcp::NonblockingTcp;
use crate::pending_connection::{PendingConnection, Progress};
use crate::registry::Token;

/// Why a connection was refused that made room for another.
const TOO_LONG: &str = "it took too long to prove who it is while others came";

/// A peer that has proved that it belongs to a run.
pub enum Admitted {
    /// A process of the site, whose connection goes on under the same token.
    Process {
        /// The connection.
        wire: NonblockingTcp,
        /// The run.
        run: String,
        /// Its name.
        name: String,
        /// What it asks for.
        request: ToRelay,
    },
    /// A relay, whose connection is not watched any more: it is a stream of a path.
    Relay {
        /// The connection.
        stream: Box<dyn Stream>,
        /// The run.
        run: String,
        /// Its site, as it says.
        site: String,
    },
}

/// The connections of unauthenticated peers, in the order in which they came.
pub struct AdmissionQueue {
    poller: Arc<Poller>,
    /// Tokens grow, and each connection has the same time: the first is the oldest, and the first to time out.
    pending: BTreeMap<Token, Box<PendingConnection>>,
    entrants: Entrants,
    /// Connections that were refused so far.
    refused: u64,
}

impl AdmissionQueue {
    /// Returns an empty queue.
    pub fn new(poller: &Arc<Poller>) -> AdmissionQueue {
        AdmissionQueue { poller: poller.clone(), pending: BTreeMap::new(), entrants: Entrants::default(), refused: 0 }
    }

    /// Takes a connection into the queue; returns its token, or `None` if there is no place for it, or it cannot be watched.
    pub fn add(&mut self, wire: NonblockingTcp, encryption: Encryption, now: Instant, log: &mut Log) -> Option<Token> {
        let source = Source::of(wire.peer());
        match self.entrants.place(&source, now) {
            Place::Free => {}
            Place::InsteadOf(other) => self.refuse(other, TOO_LONG, log),
            Place::None => {
                self.note_refusal(wire.source(), "too many connections were opened without a proof", log);
                return None;
            }
        }
        let token = self.poller.watch(wire.fd()).ok()?;
        self.entrants.enter(token, source, now);
        self.pending.insert(token, Box::new(PendingConnection::new(wire, encryption, now)));
        Some(token)
    }

    /// Continues a handshake as far as the connection allows; returns the peer once it is admitted. `key_of` knows the keys of runs.
    pub fn advance(
        &mut self,
        token: Token,
        key_of: impl Fn(&str) -> Option<RelayKey>,
        log: &mut Log,
    ) -> Option<Admitted> {
        match self.pending.get_mut(&token)?.advance(key_of) {
            Progress::Wait(interest) => {
                let stream = self.pending.get(&token)?.stream()?;
                self.poller.change(stream.fd(), token, interest);
                None
            }
            Progress::Asked { run, name, request } => {
                let wire = self.take(token)?.into_wire()?;
                Some(Admitted::Process { wire, run, name, request })
            }
            Progress::Path { run, site } => {
                let stream = self.take(token)?.into_stream()?;
                self.poller.remove(stream.fd());
                Some(Admitted::Relay { stream, run, site })
            }
            Progress::Refused(reason) => {
                self.refuse(token, &reason, log);
                None
            }
        }
    }

    /// Refuses a connection, so that there is a descriptor for the next. Returns false if none can give way.
    pub fn make_room(&mut self, now: Instant, log: &mut Log) -> bool {
        let Some(displaced) = self.entrants.displaceable(now) else { return false };
        self.refuse(displaced, TOO_LONG, log);
        true
    }

    /// Refuses connections whose time is over.
    pub fn expire(&mut self, now: Instant, log: &mut Log) {
        while let Some((token, _)) = self.pending.first_key_value().filter(|(_, oldest)| oldest.deadline <= now) {
            self.refuse(*token, "it did not prove who it is and ask for something in time", log);
        }
    }

    /// Returns when the oldest connection times out.
    pub fn next_time(&self) -> Option<Instant> {
        self.pending.first_key_value().map(|(_, oldest)| oldest.deadline)
    }

    fn refuse(&mut self, token: Token, reason: &str, log: &mut Log) {
        if let Some(connection) = self.take(token) {
            self.note_refusal(connection.source(), reason, log);
        }
    }

    fn note_refusal(&mut self, source: &str, reason: &str, log: &mut Log) {
        self.refused += 1;
        log.once_for(source, reason, Level::Warning, "turned away", &[("source", source)]);
    }

    /// Takes a connection out of the queue.
    fn take(&mut self, token: Token) -> Option<Box<PendingConnection>> {
        self.entrants.leave(token);
        self.pending.remove(&token)
    }

    /// Returns whether the token is that of a connection in the queue.
    pub fn owns(&self, token: Token) -> bool {
        self.pending.contains_key(&token)
    }

    /// Returns the number of connections in the queue.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Returns how many connections were refused so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use xmml_wire::entrants::MINIMUM_TIME;
    use xmml_wire::methods::relay::protocol::RELAY;

    use super::*;
    use crate::pending_connection::TIME_OUT;
    use crate::relay::testing::{await_ready, memory_log};

    /// A queue, and a way into it.
    struct Entrance {
        listener: TcpListener,
        queue: AdmissionQueue,
        encryption: Encryption,
        log: Log,
    }

    impl Entrance {
        fn new() -> Entrance {
            Entrance {
                listener: TcpListener::bind("127.0.0.1:0").unwrap(),
                queue: AdmissionQueue::new(&Poller::new().unwrap()),
                encryption: Encryption::self_made("b").unwrap().taking_clear_from(["a"]),
                log: memory_log(),
            }
        }

        fn connect(&mut self, now: Instant) -> (TcpStream, Token) {
            let peer = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            let (socket, from) = self.listener.accept().unwrap();
            let wire = NonblockingTcp::new(socket, from).unwrap();
            (peer, self.queue.add(wire, self.encryption.clone(), now, &mut self.log).unwrap())
        }

        /// Continues until the connection is admitted or refused.
        fn settle(&mut self, token: Token) -> Option<Admitted> {
            let key = RelayKey::of(b"the secret");
            while self.queue.owns(token) {
                await_ready(&self.queue.poller);
                let known = |run: &str| (run == "canal").then(|| key.clone());
                if let Some(admitted) = self.queue.advance(token, known, &mut self.log) {
                    return Some(admitted);
                }
            }
            None
        }
    }

    #[test]
    fn a_relay_that_knows_the_run_is_admitted_with_its_site() {
        let mut entrance = Entrance::new();
        let me = xmml_path::Identity::new(RelayKey::of(b"the secret").as_bytes(), "canal", "a");
        let address = entrance.listener.local_addr().unwrap().to_string();
        let path = xmml_path::Path::dial(&address, &me, RELAY, xmml_path::Settings::default()).unwrap();
        path.attend().unwrap();
        let (socket, from) = entrance.listener.accept().unwrap();
        let wire = NonblockingTcp::new(socket, from).unwrap();
        let encryption = entrance.encryption.clone();
        let token = entrance.queue.add(wire, encryption, Instant::now(), &mut entrance.log).unwrap();
        let Some(Admitted::Relay { run, site, .. }) = entrance.settle(token) else { panic!("it was refused") };
        assert_eq!((run.as_str(), site.as_str()), ("canal", "a"));
        assert_eq!(entrance.queue.len(), 0);
    }

    #[test]
    fn a_peer_that_leaves_before_it_has_proved_anything_is_refused_and_counted() {
        let mut entrance = Entrance::new();
        let (peer, token) = entrance.connect(Instant::now());
        drop(peer);
        assert!(entrance.settle(token).is_none());
        assert_eq!(entrance.queue.refused(), 1);
        assert!(entrance.log.written().contains("turned away"), "{}", entrance.log.written());
    }

    #[test]
    fn a_connection_that_asks_for_nothing_times_out() {
        let mut entrance = Entrance::new();
        let begin = Instant::now();
        let (mut peer, token) = entrance.connect(begin);
        assert_eq!(entrance.queue.next_time(), Some(begin + TIME_OUT));
        entrance.queue.expire(begin, &mut entrance.log);
        assert!(entrance.queue.owns(token));
        entrance.queue.expire(begin + TIME_OUT, &mut entrance.log);
        assert!(!entrance.queue.owns(token));
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_connection_that_has_had_its_time_gives_way_for_want_of_descriptors() {
        let mut entrance = Entrance::new();
        let begin = Instant::now();
        let (_peer, token) = entrance.connect(begin);
        assert!(!entrance.queue.make_room(begin, &mut entrance.log));
        assert!(entrance.queue.owns(token));
        assert!(entrance.queue.make_room(begin + MINIMUM_TIME, &mut entrance.log));
        assert!(!entrance.queue.owns(token));
        assert!(entrance.log.written().contains("while others came"), "{}", entrance.log.written());
    }
}
