//! The owner's wishes, from a socket or from the standard input.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use xmml_core::methods::relay::asking::write_out;
use xmml_core::methods::Stream;
use xmml_core::path::Fingerprint;
use xmml_core::private_file::secret_of_text;
use xmml_core::wakeup::Interest;

use super::{Connection, Relay};
use crate::log::Level;
use crate::owner::{self, Answer, Request, LINE_MAX};
use crate::registry::Token;

/// Owners that may be connected at the same time.
const OWNERS_MAX: usize = 16;

/// Somebody who may tell the relay what to do.
pub(super) struct Owner {
    stream: Box<dyn Stream>,
    line: Vec<u8>,
    out: Vec<u8>,
    /// The relay ends when this one goes.
    is_holder: bool,
}

/// The standard input and output, as one stream.
struct Terminal;

impl Stream for Terminal {
    fn fd(&self) -> RawFd {
        io::stdin().as_raw_fd()
    }

    fn peer(&self) -> &str {
        "standard input"
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        // Through no buffer: what a buffer holds, epoll does not know of.
        // SAFETY: the pointer and length describe `into`; a read of a closed descriptor is an error.
        let count = unsafe { libc::read(self.fd(), into.as_mut_ptr().cast(), into.len()) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = io::stdout().write_vectored(parts)?;
        io::stdout().flush()?;
        Ok(count)
    }

    fn shut(&self) {}
}

impl Relay {
    /// Listens for the owner on this socket.
    ///
    /// # Errors
    /// There is one with this name already.
    pub fn listen_for_owner(&mut self, address: &str) -> io::Result<()> {
        let listener = owner::listen(address)?;
        let token = self.token();
        self.epoll.add(listener.fd(), token, Interest::READ)?;
        self.owner_door = Some((token, listener));
        self.control = address.to_owned();
        Ok(())
    }

    /// Takes requests from the standard input, and answers on the standard output. If `holds`, the relay ends with the input.
    ///
    /// # Errors
    /// The input cannot be watched (it is a file, say).
    pub fn obey_standard_input(&mut self, holds: bool) -> io::Result<()> {
        self.add_owner(Box::new(Terminal), holds)
    }

    pub(super) fn accept_owner(&mut self) {
        while let Some((_, door)) = &self.owner_door {
            let stream = match door.accept() {
                Ok(Some(stream)) => stream,
                // Nobody, or another user, who is gone already.
                Ok(None) => return,
                Err(error) if self.accepts_again(&error) => continue,
                Err(_) => return,
            };
            let owners =
                self.connections.values().filter(|connection| matches!(connection, Connection::Owner(_))).count();
            if owners < OWNERS_MAX {
                // One that cannot be watched is dropped, and so told.
                let _ = self.add_owner(stream, false);
            }
        }
    }

    fn add_owner(&mut self, stream: Box<dyn Stream>, is_holder: bool) -> io::Result<()> {
        let token = self.token();
        self.epoll.add(stream.fd(), token, Interest::READ)?;
        let owner = Owner { stream, line: Vec::new(), out: Vec::new(), is_holder };
        self.connections.insert(token, Connection::Owner(owner));
        Ok(())
    }

    /// True: the relay is to end.
    pub(super) fn owner_ready(&mut self, token: Token) -> bool {
        let Some(Connection::Owner(owner)) = self.connections.get_mut(&token) else { return false };
        let mut bytes = [0; 4096];
        match owner.stream.read(&mut bytes) {
            Ok(0) => return self.lose_owner(token),
            Ok(count) => owner.line.extend_from_slice(&bytes[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return self.lose_owner(token),
        }
        let mut stops = false;
        loop {
            let Some(Connection::Owner(owner)) = self.connections.get_mut(&token) else { return stops };
            let Some(end) = owner.line.iter().position(|byte| *byte == b'\n') else { break };
            let line: Vec<u8> = owner.line.drain(..=end).collect();
            let answer = match serde_json::from_slice::<Request>(&line) {
                Ok(Request::Stop) => {
                    stops = true;
                    Answer::done(true)
                }
                Ok(request) => self.obey(request),
                Err(error) => Answer::problem(format!("this is no request: {error}")),
            };
            let Some(Connection::Owner(owner)) = self.connections.get_mut(&token) else { return stops };
            owner.out.extend_from_slice(&answer.line());
        }
        let Some(Connection::Owner(owner)) = self.connections.get_mut(&token) else { return stops };
        let is_fine = match write_out(&mut owner.out, &*owner.stream) {
            Ok(is_done) => {
                let wanted = Interest { write: !is_done, ..Interest::READ };
                self.epoll.change(owner.stream.fd(), token, wanted).is_ok()
            }
            Err(_) => false,
        };
        if !is_fine || owner.line.len() > LINE_MAX {
            return self.lose_owner(token) || stops;
        }
        stops
    }

    fn lose_owner(&mut self, token: Token) -> bool {
        match self.remove(token) {
            Some(Connection::Owner(owner)) => {
                self.epoll.remove(owner.stream.fd());
                owner.is_holder
            }
            _ => false,
        }
    }

    fn obey(&mut self, request: Request) -> Answer {
        match request {
            Request::AddRun { run, secret, lease_s } => {
                let secret = match secret_of_text(&secret) {
                    Ok(secret) => secret,
                    Err(problem) => return Answer::problem(problem),
                };
                let lease = lease_s.map(Duration::try_from_secs_f64).transpose();
                let (Ok(lease), true) = (lease, lease_s.is_none_or(|seconds| seconds > 0.0)) else {
                    return Answer::problem("lease_s must be a number of seconds above 0");
                };
                match self.add_run(&run, &secret, lease) {
                    Ok(is_new) => Answer::done(is_new),
                    Err(problem) => Answer::problem(problem),
                }
            }
            Request::RemoveRun { run } => Answer::done(self.remove_run(&run)),
            Request::Trust { fingerprints } => {
                let read: Result<Vec<Fingerprint>, _> = fingerprints.iter().map(|text| text.parse()).collect();
                match read {
                    Ok(trusted) if trusted.is_empty() => {
                        Answer::problem("fingerprints must name the SHA-256 of one certificate at least")
                    }
                    Ok(trusted) => Answer::done(self.trust(&trusted)),
                    Err(problem) => Answer::problem(format!("fingerprints: {problem}")),
                }
            }
            Request::Status => Answer { status: Some(self.status()), ..Answer::done(false) },
            Request::Reload => match self.reload() {
                Ok(()) => Answer::done(true),
                Err(problem) => {
                    self.log.event(Level::Error, "the configuration was not taken over", &[("problem", &problem)]);
                    Answer::problem(problem)
                }
            },
            Request::Stop => Answer::done(true),
        }
    }
}
