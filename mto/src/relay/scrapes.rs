//! Programs that read the relay's figures by HTTP: one request, one answer.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::methods::relay::asking::write_out;
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::Interest;

use super::deadlines::Deadlines;
use super::poller::Poller;
use crate::nonblocking_tcp::NonblockingTcp;
use crate::registry::Token;

/// How long a request may take.
const TIME_OUT: Duration = Duration::from_secs(5);

/// Longest request, in bytes.
const LONGEST: usize = 8 << 10;

/// Requests at the same time.
const SCRAPES_MAX: usize = 16;

/// A request under way.
struct Scrape {
    wire: NonblockingTcp,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// All requests for figures that are under way.
pub struct Scrapes {
    poller: Arc<Poller>,
    scrapes: HashMap<Token, Scrape>,
    deadlines: Deadlines,
}

impl Scrapes {
    /// Returns the scrapes of a relay, none yet.
    pub fn new(poller: &Arc<Poller>) -> Scrapes {
        Scrapes { poller: poller.clone(), scrapes: HashMap::new(), deadlines: Deadlines::default() }
    }

    /// Takes a request from this connection. Where there are too many, or it cannot be watched, it closes.
    pub fn add(&mut self, wire: NonblockingTcp, now: Instant) {
        if self.scrapes.len() >= SCRAPES_MAX {
            return;
        }
        let Ok(token) = self.poller.watch(wire.fd()) else { return };
        self.scrapes.insert(token, Scrape { wire, request: Vec::new(), answer: Vec::new() });
        self.deadlines.set(token, now + TIME_OUT);
    }

    /// Returns whether the token is that of a scrape.
    pub fn owns(&self, token: Token) -> bool {
        self.scrapes.contains_key(&token)
    }

    /// Continues a scrape whose connection is ready. Returns the first line of its request once the request is complete: it wants an
    /// [answer](Scrapes::answer) then.
    pub fn advance(&mut self, token: Token) -> Option<String> {
        let scrape = self.scrapes.get_mut(&token)?;
        if !scrape.answer.is_empty() {
            self.write(token);
            return None;
        }
        let mut bytes = [0; 2048];
        match scrape.wire.read(&mut bytes) {
            Ok(count) if count > 0 => scrape.request.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => {
                self.remove(token);
                return None;
            }
        }
        let is_whole = scrape.request.windows(4).any(|end| end == b"\r\n\r\n") || scrape.request.len() > LONGEST;
        is_whole.then(|| String::from_utf8_lossy(&scrape.request).lines().next().unwrap_or("").to_owned())
    }

    /// Answers a scrape.
    pub fn answer(&mut self, token: Token, answer: String) {
        if let Some(scrape) = self.scrapes.get_mut(&token) {
            scrape.answer = answer.into_bytes();
            self.write(token);
        }
    }

    fn write(&mut self, token: Token) {
        let Some(scrape) = self.scrapes.get_mut(&token) else { return };
        match write_out(&mut scrape.answer, &scrape.wire) {
            Ok(false) => {
                self.poller.change(scrape.wire.fd(), token, Interest { read: false, write: true, close: false });
            }
            _ => self.remove(token),
        }
    }

    /// Closes the connections whose time is over.
    pub fn expire(&mut self, now: Instant) {
        while let Some(token) = self.deadlines.take_expired(now) {
            self.remove(token);
        }
    }

    /// Returns when the first connection times out.
    pub fn next_time(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    fn remove(&mut self, token: Token) {
        self.deadlines.cancel(token);
        self.scrapes.remove(&token);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::relay::testing::await_ready;

    /// Scrapes, with one from this connection.
    fn connected(now: Instant) -> (Scrapes, Token, TcpStream) {
        let mut scrapes = Scrapes::new(&Poller::new().unwrap());
        let peer = connect(&mut scrapes, now);
        let token = *scrapes.scrapes.keys().next().unwrap();
        (scrapes, token, peer)
    }

    fn connect(scrapes: &mut Scrapes, now: Instant) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, from) = listener.accept().unwrap();
        scrapes.add(NonblockingTcp::new(socket, from).unwrap(), now);
        peer
    }

    /// Waits until something has arrived, and reads it.
    fn advance(scrapes: &mut Scrapes, token: Token) -> Option<String> {
        await_ready(&scrapes.poller);
        scrapes.advance(token)
    }

    #[test]
    fn a_request_is_answered_once_it_is_complete() {
        let (mut scrapes, token, mut peer) = connected(Instant::now());
        peer.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n").unwrap();
        assert_eq!(advance(&mut scrapes, token), None);
        peer.write_all(b"\r\n").unwrap();
        assert_eq!(advance(&mut scrapes, token).as_deref(), Some("GET /metrics HTTP/1.1"));
        scrapes.answer(token, "the figures".to_owned());
        assert!(!scrapes.owns(token));
        let mut answer = String::new();
        peer.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "the figures");
    }

    #[test]
    fn a_request_that_does_not_end_is_complete_at_the_limit() {
        let (mut scrapes, token, mut peer) = connected(Instant::now());
        peer.write_all(&[b'x'; LONGEST + 1]).unwrap();
        let first_line = std::iter::repeat_with(|| advance(&mut scrapes, token)).take(LONGEST).flatten().next();
        assert_eq!(first_line.map(|line| line.len()), Some(LONGEST + 1));
    }

    #[test]
    fn a_request_that_takes_too_long_is_closed() {
        let begin = Instant::now();
        let (mut scrapes, token, mut peer) = connected(begin);
        assert_eq!(scrapes.next_time(), Some(begin + TIME_OUT));
        scrapes.expire(begin + TIME_OUT);
        assert!(!scrapes.owns(token));
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn requests_beyond_the_limit_are_closed() {
        let now = Instant::now();
        let (mut scrapes, _, _peer) = connected(now);
        let mut peers: Vec<TcpStream> = (0..SCRAPES_MAX).map(|_| connect(&mut scrapes, now)).collect();
        assert_eq!(peers.pop().unwrap().read(&mut [0]).unwrap(), 0);
        assert_eq!(scrapes.scrapes.len(), SCRAPES_MAX);
    }
}
