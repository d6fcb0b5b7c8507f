//! The socket between the supervisor and `xmml-run`: orders arrive and reports leave by it, one line of JSON each.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::Serialize;
use xmml_wire::wakeup::{Epoll, Interest};

use crate::lines::{complete_lines, json_line, shortened};
use crate::protocol::Order;

/// An order that is longer is none.
const LONGEST_ORDER: usize = 64 * 1024 * 1024;
const READ: usize = 64 * 1024;
/// How long `xmml-run` may take to read the last reports.
const LAST_REPORTS_WITHIN: Duration = Duration::from_millis(500);

/// The supervisor's end of the socket.
pub struct RunSocket {
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: VecDeque<u8>,
    is_broken: bool,
    token: u64,
    interest: Interest,
}

impl RunSocket {
    /// Returns a socket that is polled under `token`.
    ///
    /// # Errors
    /// The socket cannot be polled.
    pub fn new(stream: UnixStream, epoll: &Epoll, token: u64) -> io::Result<RunSocket> {
        stream.set_nonblocking(true)?;
        let interest = Interest::READ;
        epoll.add(stream.as_raw_fd(), token, interest)?;
        let (incoming, outgoing) = (Vec::new(), VecDeque::new());
        Ok(RunSocket { stream, incoming, outgoing, is_broken: false, token, interest })
    }

    /// Reads what has arrived. Returns false if `xmml-run` has closed the socket.
    pub fn receive(&mut self) -> bool {
        let mut chunk = [0; READ];
        match self.stream.read(&mut chunk) {
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            Ok(count) => {
                self.incoming.extend_from_slice(&chunk[..count]);
                count > 0
            }
        }
    }

    /// Takes the orders that have arrived; an error says what is none.
    pub fn take_orders(&mut self) -> Vec<Result<Order, String>> {
        let read =
            |line: Vec<u8>| Order::read(&line).map_err(|problem| format!("an order from xmml-run is none: {problem}"));
        let mut orders: Vec<_> = complete_lines(&mut self.incoming).into_iter().map(read).collect();
        if self.incoming.len() > LONGEST_ORDER {
            orders.push(Err(format!("an order from xmml-run does not end: {}", shortened(&self.incoming))));
        }
        orders
    }

    /// Sends a report; what the socket does not take is queued.
    pub fn send(&mut self, report: &impl Serialize) {
        if let Ok(line) = json_line(report) {
            self.outgoing.extend(line);
        }
        self.flush();
    }

    /// Sends what is queued, as far as the socket takes it.
    pub fn flush(&mut self) {
        while !self.outgoing.is_empty() {
            match self.stream.write(self.outgoing.as_slices().0) {
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.outgoing.clear();
                    self.is_broken = true;
                }
            }
        }
    }

    /// Polls for free capacity in the socket as long as something is queued.
    ///
    /// # Errors
    /// The system refuses.
    pub fn regulate(&mut self, epoll: &Epoll) -> io::Result<()> {
        let write = !self.outgoing.is_empty();
        if write == self.interest.write {
            return Ok(());
        }
        self.interest.write = write;
        epoll.change(self.stream.as_raw_fd(), self.token, self.interest)
    }

    /// Returns how much is queued [bytes].
    pub fn backlog(&self) -> usize {
        self.outgoing.len()
    }

    /// Returns whether reports can no longer be sent.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Sends what is queued, and waits for that, but not for long.
    pub fn send_last(&mut self) {
        let (front, back) = self.outgoing.as_slices();
        let last = [front, back].concat();
        let sent = self.stream.set_nonblocking(false).and_then(|()| {
            self.stream.set_write_timeout(Some(LAST_REPORTS_WITHIN))?;
            self.stream.write_all(&last)
        });
        drop(sent); // nobody may read it
    }
}

#[cfg(test)]
mod tests {
    use xmml_wire::wakeup::Ready;

    use super::*;

    fn connected() -> (RunSocket, UnixStream, Epoll) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        let socket = RunSocket::new(ours, &epoll, 0).unwrap();
        (socket, theirs, epoll)
    }

    #[test]
    fn orders_are_taken_when_they_are_complete_and_what_is_none_is_an_error() {
        let (mut socket, mut run, _epoll) = connected();
        assert!(socket.receive(), "nothing has arrived, and the socket is open");
        run.write_all(b"{\"do\": \"quit\"}\n{\"do\": \"dance\"}\n{\"do\": ").unwrap();
        assert!(socket.receive());
        let orders = socket.take_orders();
        assert!(matches!(orders[0], Ok(Order::Quit)));
        let problem = orders[1].as_ref().unwrap_err();
        assert!(problem.starts_with("an order from xmml-run is none: \"do\" is \"dance\""), "{problem}");
        run.write_all(b"\"quit\"}\n").unwrap();
        drop(run);
        assert!(socket.receive());
        assert!(matches!(socket.take_orders()[..], [Ok(Order::Quit)]));
        assert!(!socket.receive());
    }

    #[test]
    fn what_the_socket_does_not_take_is_queued_until_it_has_free_capacity() {
        let (mut socket, mut run, epoll) = connected();
        let report = "x".repeat(1 << 20);
        socket.send(&report);
        assert!(socket.backlog() > 0);
        socket.regulate(&epoll).unwrap();
        let mut received = vec![0; report.len() + 3];
        let reading = std::thread::spawn(move || run.read_exact(&mut received).map(|()| (received, run)).unwrap());
        let mut ready: Vec<Ready> = Vec::new();
        while socket.backlog() > 0 {
            epoll.wait(&mut ready, None).unwrap();
            assert!(ready[0].writable);
            socket.flush();
        }
        let (received, run) = reading.join().unwrap();
        assert_eq!(serde_json::from_slice::<String>(&received).unwrap(), report);
        drop(run);
        socket.send(&"later");
        assert!(socket.is_broken());
        assert_eq!(socket.backlog(), 0);
    }
}
