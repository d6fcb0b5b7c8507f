//! Who asks for figures by HTTP: one request, one answer, on a loopback address.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use xmml_wire::methods::relay::asking::write_out;
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::Interest;

use super::{Connection, Relay};
use crate::metrics;
use crate::nonblocking_tcp::NonblockingTcp;
use crate::registry::Token;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest request, in bytes.
const LONGEST: usize = 8 << 10;

/// Requests at the same time.
const SCRAPES_MAX: usize = 16;

/// A request under way.
pub(super) struct Scrape {
    wire: NonblockingTcp,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Relay {
    /// Tells figures at this address; returns where.
    ///
    /// # Errors
    /// It cannot be listened there.
    pub fn tell_figures_at(&mut self, address: &str) -> io::Result<SocketAddr> {
        let door = TcpListener::bind(address)?;
        door.set_nonblocking(true)?;
        let bound = door.local_addr()?;
        if !bound.ip().is_loopback() {
            // A name may begin like a loopback address.
            let problem = format!("{} is not a loopback address; use 127.0.0.1:PORT", bound.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let token = self.token();
        self.epoll.add(door.as_raw_fd(), token, Interest::READ)?;
        self.figures_door = Some((token, door));
        Ok(bound)
    }

    pub(super) fn accept_scrapes(&mut self) {
        for _ in 0..SCRAPES_MAX {
            let Some((_, door)) = &self.figures_door else { return };
            let (socket, from) = match door.accept() {
                Ok(come) => come,
                Err(error) if self.accepts_again(&error) => continue,
                Err(_) => return,
            };
            let count =
                self.connections.values().filter(|connection| matches!(connection, Connection::Scrape(_))).count();
            let Ok(wire) = NonblockingTcp::new(socket, from) else { continue };
            let token = self.token();
            if count >= SCRAPES_MAX || self.epoll.add(wire.fd(), token, Interest::READ).is_err() {
                continue;
            }
            let scrape = Scrape { wire, request: Vec::new(), answer: Vec::new() };
            self.connections.insert(token, Connection::Scrape(scrape));
            self.set_deadline(token, Some(Instant::now() + PATIENCE));
        }
    }

    pub(super) fn scrape_ready(&mut self, token: Token) {
        let Some(Connection::Scrape(scrape)) = self.connections.get_mut(&token) else { return };
        if scrape.answer.is_empty() {
            let mut bytes = [0; 2048];
            match scrape.wire.read(&mut bytes) {
                Ok(count) if count > 0 => scrape.request.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return drop(self.remove(token)),
            }
            let is_whole = scrape.request.windows(4).any(|end| end == b"\r\n\r\n");
            if !is_whole && scrape.request.len() <= LONGEST {
                return;
            }
            let request = String::from_utf8_lossy(&scrape.request).into_owned();
            let answer = metrics::answer(request.lines().next().unwrap_or(""), &self.status());
            let Some(Connection::Scrape(scrape)) = self.connections.get_mut(&token) else { return };
            scrape.answer = answer.into_bytes();
        }
        let Some(Connection::Scrape(scrape)) = self.connections.get_mut(&token) else { return };
        match write_out(&mut scrape.answer, &scrape.wire) {
            Ok(false) => {
                let room = Interest { read: false, write: true, close: false };
                let _ = self.epoll.change(scrape.wire.fd(), token, room);
            }
            _ => drop(self.remove(token)),
        }
    }
}
