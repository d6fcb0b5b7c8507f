//! Where login proxies connect to an agent, and their connections. Over these both say, with a byte, that a file has something new.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use crate::agent_handshake::{AgentHandshake, HandshakeProgress, NEWS};
use crate::system::{random_hex, For};

/// An agent keeps the newest 8 connections of login proxies and closes older ones, and so for strangers, who have not proved yet that they
/// know the secret. So no stranger takes the place of a login proxy.
const MOST_WATCHERS: usize = 8;

/// The listener of an agent, with the connections that it has accepted.
///
/// An open connection proves that this node is up, because its kernel answers keepalive probes. A closed one proves that the agent
/// has exited.
pub struct AgentListener {
    listener: TcpListener,
    secret: String,
    /// Login proxies.
    watchers: Vec<TcpStream>,
    /// Who has connected and not proved yet that it knows the secret.
    strangers: Vec<AgentHandshake>,
}

impl AgentListener {
    /// Listens at a free port, with a new secret.
    ///
    /// # Errors
    /// The system refuses what it needs.
    pub fn new() -> io::Result<AgentListener> {
        let listener = TcpListener::bind(("0.0.0.0", 0))?;
        listener.set_nonblocking(true)?;
        Ok(AgentListener { listener, secret: random_hex()?, watchers: Vec::new(), strangers: Vec::new() })
    }

    /// Returns the port.
    ///
    /// # Errors
    /// The system does not say which it is.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Returns what login proxies prove that they know.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Says that there is something new.
    pub fn notify(&mut self) {
        for watcher in &mut self.watchers {
            let _ = watcher.write(NEWS); // one that is gone shows when it is read
        }
    }

    /// Returns what is to be polled.
    pub fn awaited(&self) -> Vec<For> {
        let mut awaited = vec![For::Reading(self.listener.as_raw_fd())];
        awaited.extend(self.watchers.iter().map(|watcher| For::Reading(watcher.as_raw_fd())));
        awaited.extend(self.strangers.iter().map(|stranger| For::Reading(stranger.as_raw_fd())));
        awaited
    }

    /// Serves what is ready, in the order of [`AgentListener::awaited`]. Returns whether a login proxy says that there is something new.
    pub fn serve(&mut self, ready: &[bool]) -> bool {
        let mut has_news = false;
        let mut heard = ready[1..].iter();
        self.watchers.retain_mut(|watcher| !heard.next().unwrap_or(&false) || stands(watcher, &mut has_news));
        if ready[0] {
            self.accept();
        }
        has_news | self.admit()
    }

    fn accept(&mut self) {
        if let Ok((stranger, _)) = self.listener.accept() {
            if stranger.set_nonblocking(true).is_ok() {
                self.strangers.extend(AgentHandshake::of_agent(stranger, self.secret.as_bytes()));
            }
        }
        keep_newest(&mut self.strangers);
    }

    /// Makes strangers who have proved that they know the secret watchers; returns whether there are any.
    fn admit(&mut self) -> bool {
        let mut has_admitted = false;
        for stranger in std::mem::take(&mut self.strangers) {
            match stranger.advance() {
                HandshakeProgress::Waits(stranger) => self.strangers.push(*stranger),
                HandshakeProgress::Proven(mut watcher) => {
                    let _ = watcher.write(NEWS); // of what was reported before
                    self.watchers.push(watcher);
                    has_admitted = true; // it may have had something to say before
                }
                HandshakeProgress::Stranger | HandshakeProgress::Ended => {}
            }
        }
        keep_newest(&mut self.watchers);
        has_admitted
    }
}

fn keep_newest<T>(connections: &mut Vec<T>) {
    connections.drain(..connections.len().saturating_sub(MOST_WATCHERS));
}

/// Takes note if there is something new; returns whether the connection still stands.
fn stands(watcher: &mut TcpStream, has_news: &mut bool) -> bool {
    match watcher.read(&mut [0; 4096]) {
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        Ok(count) => {
            *has_news = true;
            count > 0
        }
    }
}
