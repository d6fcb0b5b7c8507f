//! The owner's wishes, from a socket or from the standard input.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use xmml_path::Fingerprint;
use xmml_wire::methods::relay::asking::write_out;
use xmml_wire::methods::Stream;
use xmml_wire::private_file::secret_of_text;
use xmml_wire::wakeup::{poll_readable, Epoll, Interest, Polled, Ready};

use super::{Connection, Relay};
use crate::control_protocol::{self, Answer, Request, LINE_MAX};
use crate::log::Level;
use crate::nonblocking_output::NonblockingOutput;
use crate::registry::Token;

/// Owners that may be connected at the same time.
const OWNERS_MAX: usize = 16;

/// While more bytes than this wait for an owner who does not take its answers, no request of it is taken.
const ANSWERS_MAX: usize = 64 << 10;

/// An owner from whom no more requests come gets the answers that still wait if it takes some of them within so long each time.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Somebody who may tell the relay what to do.
pub(super) struct Owner {
    stream: Box<dyn Stream>,
    /// Where its answers go, if that is not where its requests come from.
    outlet: Option<RawFd>,
    line: Vec<u8>,
    out: Vec<u8>,
    /// The relay ends when this one goes.
    is_holder: bool,
    /// All of its requests have come.
    has_ended: bool,
    /// The same, but some may not have been read yet.
    has_hung_up: bool,
}

impl Owner {
    /// Whether its requests are taken.
    fn is_heard(&self) -> bool {
        !self.has_ended && self.out.len() <= ANSWERS_MAX
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.line.extend_from_slice(&bytes[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        std::iter::once(self.stream.fd()).chain(self.outlet).collect()
    }

    /// Has it watched for requests while they are taken, and for room while answers wait.
    fn watch(&self, epoll: &Epoll, token: Token) -> io::Result<()> {
        self.descriptors().into_iter().for_each(|fd| epoll.remove(fd));
        let heard = Interest { read: self.is_heard(), ..Interest::NONE };
        let room = Interest { write: !self.out.is_empty(), ..Interest::NONE };
        if let Some(outlet) = self.outlet {
            if room.write {
                epoll.add(outlet, token, room)?;
            }
            // That it hangs up while it is not heard is news once.
            return match heard.read || !(self.has_ended || self.has_hung_up) {
                true => epoll.add(self.stream.fd(), token, heard),
                false => Ok(()),
            };
        }
        epoll.add(self.stream.fd(), token, Interest { write: room.write, ..heard })
    }
}

/// An input and an output, as one stream.
struct Terminal {
    input: OwnedFd,
    output: NonblockingOutput,
}

impl Stream for Terminal {
    fn fd(&self) -> RawFd {
        self.input.as_raw_fd()
    }

    fn peer(&self) -> &str {
        "its holder"
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        // What woke the relay may have been room for answers.
        if poll_readable(&[self.fd()], Some(Instant::now()))? != Polled::Ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Through no buffer: what a buffer holds, epoll does not know of.
        // SAFETY: the pointer and length describe `into`; a read of a closed descriptor is an error.
        let count = unsafe { libc::read(self.fd(), into.as_mut_ptr().cast(), into.len()) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.output.write(parts.iter().find(|part| !part.is_empty()).map_or(&[], |part| &part[..]))
    }

    fn shut(&self) {}
}

impl Relay {
    /// Listens for the owner on this socket.
    ///
    /// # Errors
    /// There is one with this name already.
    pub fn listen_for_owner(&mut self, address: &str) -> io::Result<()> {
        let listener = control_protocol::listen(address)?;
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
        let terminal =
            Terminal { input: io::stdin().as_fd().try_clone_to_owned()?, output: NonblockingOutput::stdout() };
        let outlet = terminal.output.as_raw_fd();
        self.add_owner(Box::new(terminal), Some(outlet), holds)
    }

    /// Takes requests from a connection, answers on it, and ends with it.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn obey(&mut self, control: UnixStream) -> io::Result<()> {
        let output = NonblockingOutput::of(control.as_raw_fd());
        self.add_owner(Box::new(Terminal { input: control.into(), output }), None, true)
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
                let _ = self.add_owner(stream, None, false);
            }
        }
    }

    fn add_owner(&mut self, stream: Box<dyn Stream>, outlet: Option<RawFd>, is_holder: bool) -> io::Result<()> {
        let token = self.token();
        let (line, out) = (Vec::new(), Vec::new());
        let owner = Owner { stream, outlet, line, out, is_holder, has_ended: false, has_hung_up: false };
        owner.watch(&self.epoll, token)?;
        self.connections.insert(token, Connection::Owner(owner));
        Ok(())
    }

    /// Requests have come, or there is room for answers.
    pub(super) fn owner_ready(&mut self, event: Ready) {
        if !self.serve_owner(event).unwrap_or(false) {
            self.lose_owner(event.token);
        }
    }

    /// False: it has ended, and has every answer.
    fn serve_owner(&mut self, event: Ready) -> io::Result<bool> {
        let token = event.token;
        self.answer(token)?;
        let Some(Connection::Owner(owner)) = self.connections.get_mut(&token) else { return Ok(false) };
        match owner.is_heard() {
            true => owner.hear()?,
            false => owner.has_hung_up |= event.hung_up,
        }
        self.answer(token)?;
        let Some(Connection::Owner(owner)) = self.connections.get(&token) else { return Ok(false) };
        let waits = !owner.out.is_empty();
        owner.watch(&self.epoll, token)?;
        let (is_over, is_leaving) = (owner.has_ended && !waits, waits && (owner.has_ended || owner.has_hung_up));
        self.set_deadline(token, is_leaving.then(|| Instant::now() + LAST_ANSWERS));
        Ok(!is_over)
    }

    /// Answers what has come, as far as answers are taken.
    fn answer(&mut self, token: Token) -> io::Result<()> {
        loop {
            let Some(Connection::Owner(owner)) = self.connections.get_mut(&token) else { return Ok(()) };
            write_out(&mut owner.out, &*owner.stream)?;
            if owner.out.len() > ANSWERS_MAX {
                return Ok(());
            }
            let Some(end) = owner.line.iter().position(|byte| *byte == b'\n') else {
                return match owner.line.len() {
                    0..=LINE_MAX => Ok(()),
                    _ => Err(io::Error::other("a line that is too long")),
                };
            };
            let line: Vec<u8> = owner.line.drain(..=end).collect();
            if line == b"\n" {
                continue; // it lives
            }
            let answer = match serde_json::from_slice::<Request>(&line) {
                Ok(request) => self.carry_out(request),
                Err(error) => Answer::problem(format!("this is no request: {error}")),
            };
            let Some(Connection::Owner(owner)) = self.connections.get_mut(&token) else { return Ok(()) };
            owner.out.extend_from_slice(&answer.line());
        }
    }

    pub(super) fn lose_owner(&mut self, token: Token) {
        if let Some(Connection::Owner(owner)) = self.remove(token) {
            owner.descriptors().into_iter().for_each(|fd| self.epoll.remove(fd));
            self.is_to_end |= owner.is_holder;
        }
    }

    fn carry_out(&mut self, request: Request) -> Answer {
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
            Request::Stop => {
                self.is_to_end = true;
                Answer::done(true)
            }
        }
    }
}
