//! A connection of the relay's owner: lines with requests come in, lines with answers go out.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use xmml_wire::methods::relay::asking::write_out;
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::{poll_readable, Interest, Polled, Ready};

use super::poller::Poller;
use crate::control_protocol::{Answer, Request, LINE_MAX};
use crate::nonblocking_output::NonblockingOutput;
use crate::registry::Token;

/// While more bytes than this wait for an owner that does not take its answers, no request of it is taken.
const ANSWERS_MAX: usize = 64 << 10;

/// A client whose requests the relay carries out.
pub struct ControlClient {
    stream: Box<dyn Stream>,
    /// Where its answers go, if that is not where its requests come from.
    output: Option<RawFd>,
    line: Vec<u8>,
    out: Vec<u8>,
    /// The relay stops when this client leaves.
    is_holder: bool,
    /// All of its requests have arrived.
    has_ended: bool,
    /// The same, but some may not have been read yet.
    has_hung_up: bool,
}

impl ControlClient {
    /// A client at the control socket.
    pub fn at_socket(stream: Box<dyn Stream>) -> ControlClient {
        ControlClient::new(stream, None, false)
    }

    /// Whoever is at the other end of the standard input and output. The relay stops with the input if the client `holds` it.
    ///
    /// # Errors
    /// The input is closed.
    pub fn at_standard_streams(holds: bool) -> io::Result<ControlClient> {
        let (input, output) = (io::stdin().as_fd().try_clone_to_owned()?, NonblockingOutput::stdout());
        let fd = output.as_raw_fd();
        Ok(ControlClient::new(Box::new(StandardStreams { input, output }), Some(fd), holds))
    }

    /// A client at the other end of this connection, with which the relay stops.
    pub fn holding(connection: UnixStream) -> ControlClient {
        let output = NonblockingOutput::of(connection.as_raw_fd());
        ControlClient::new(Box::new(StandardStreams { input: connection.into(), output }), None, true)
    }

    fn new(stream: Box<dyn Stream>, output: Option<RawFd>, is_holder: bool) -> ControlClient {
        let (line, out) = (Vec::new(), Vec::new());
        ControlClient { stream, output, line, out, is_holder, has_ended: false, has_hung_up: false }
    }

    /// Returns whether the relay stops when this client leaves.
    pub fn is_holder(&self) -> bool {
        self.is_holder
    }

    /// Returns whether its requests are taken.
    fn takes_requests(&self) -> bool {
        !self.has_ended && self.out.len() <= ANSWERS_MAX
    }

    /// Reads what has arrived, if requests are taken.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&mut self, event: Ready) -> io::Result<()> {
        if !self.takes_requests() {
            self.has_hung_up |= event.hung_up;
            return Ok(());
        }
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.line.extend_from_slice(&bytes[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends the answers that wait, and returns the next request, or what is wrong with it. `None`: no request has arrived, or none is
    /// taken before more answers are.
    ///
    /// # Errors
    /// The connection is broken, or a line is too long.
    pub fn next_request(&mut self) -> io::Result<Option<Result<Request, String>>> {
        loop {
            write_out(&mut self.out, &*self.stream)?;
            if self.out.len() > ANSWERS_MAX {
                return Ok(None);
            }
            let Some(end) = self.line.iter().position(|byte| *byte == b'\n') else {
                return match self.line.len() {
                    0..=LINE_MAX => Ok(None),
                    _ => Err(io::Error::other("a line that is too long")),
                };
            };
            let line: Vec<u8> = self.line.drain(..=end).collect();
            // An empty line is a heartbeat.
            if line != b"\n" {
                let request = serde_json::from_slice(&line);
                return Ok(Some(request.map_err(|error| format!("this is no request: {error}"))));
            }
        }
    }

    /// Puts an answer on the connection.
    pub fn answer(&mut self, answer: &Answer) {
        self.out.extend_from_slice(&answer.line());
    }

    /// Returns whether no request follows, and every answer is out.
    pub fn is_over(&self) -> bool {
        self.has_ended && self.out.is_empty()
    }

    /// Returns whether no request follows, but answers wait.
    pub fn is_leaving(&self) -> bool {
        !self.out.is_empty() && (self.has_ended || self.has_hung_up)
    }

    /// Watches the client for requests while they are taken, and for room while answers wait.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn watch(&self, poller: &Poller, token: Token) -> io::Result<()> {
        self.unwatch(poller);
        let input = Interest { read: self.takes_requests(), ..Interest::NONE };
        let room = Interest { write: !self.out.is_empty(), ..Interest::NONE };
        if let Some(output) = self.output {
            if room.write {
                poller.add(output, token, room)?;
            }
            // That it hangs up while no request is taken is news once.
            return match input.read || !(self.has_ended || self.has_hung_up) {
                true => poller.add(self.stream.fd(), token, input),
                false => Ok(()),
            };
        }
        poller.add(self.stream.fd(), token, Interest { write: room.write, ..input })
    }

    /// Stops watching the client.
    pub fn unwatch(&self, poller: &Poller) {
        std::iter::once(self.stream.fd()).chain(self.output).for_each(|fd| poller.remove(fd));
    }
}

/// An input and an output, as one stream.
struct StandardStreams {
    input: OwnedFd,
    output: NonblockingOutput,
}

impl Stream for StandardStreams {
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;

    use super::*;

    const READABLE: Ready = Ready { token: 7, readable: true, writable: false, hung_up: false };

    /// A client, and the end at which its owner is.
    fn connected() -> (ControlClient, UnixStream) {
        let (owner, relay) = UnixStream::pair().unwrap();
        relay.set_nonblocking(true).unwrap();
        (ControlClient::holding(relay), owner)
    }

    #[test]
    fn each_line_is_a_request_and_empty_lines_are_heartbeats() {
        let (mut client, mut owner) = connected();
        owner.write_all(b"\n{\"command\":\"status\"}\n\n{\"command\":\"stop\"}\n{\"comm").unwrap();
        client.receive(READABLE).unwrap();
        assert_eq!(client.next_request().unwrap(), Some(Ok(Request::Status)));
        assert_eq!(client.next_request().unwrap(), Some(Ok(Request::Stop)));
        assert_eq!(client.next_request().unwrap(), None);
    }

    #[test]
    fn a_line_that_is_no_request_is_answered_with_what_is_wrong() {
        let (mut client, mut owner) = connected();
        owner.write_all(b"{\"command\":\"explode\"}\n").unwrap();
        client.receive(READABLE).unwrap();
        let problem = client.next_request().unwrap().unwrap().unwrap_err();
        assert!(problem.starts_with("this is no request: "), "{problem}");
    }

    #[test]
    fn a_line_that_does_not_end_breaks_the_connection() {
        let (mut client, mut owner) = connected();
        for _ in 0..=LINE_MAX / 4096 {
            owner.write_all(&[b'x'; 4096]).unwrap();
            client.receive(READABLE).unwrap();
        }
        assert!(client.next_request().unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn no_request_is_taken_while_too_many_answers_wait() {
        let (mut client, mut owner) = connected();
        owner.write_all(b"{\"command\":\"status\"}\n").unwrap();
        client.receive(READABLE).unwrap();
        let answer = Answer::problem("x".repeat(4096));
        (0..256).for_each(|_| client.answer(&answer));
        assert_eq!(client.next_request().unwrap(), None);
        // It takes its answers at last.
        let mut taken = vec![0; 1 << 20];
        owner.set_nonblocking(true).unwrap();
        let request = loop {
            let _ = owner.read(&mut taken);
            if let Some(request) = client.next_request().unwrap() {
                break request;
            }
        };
        assert_eq!(request, Ok(Request::Status));
    }

    #[test]
    fn a_client_that_has_ended_is_over_once_its_answers_are_out() {
        let (mut client, owner) = connected();
        client.answer(&Answer::done(true));
        owner.shutdown(Shutdown::Write).unwrap();
        client.receive(READABLE).unwrap();
        assert!(client.is_leaving() && !client.is_over());
        assert_eq!(client.next_request().unwrap(), None);
        assert!(client.is_over() && !client.is_leaving());
    }
}
