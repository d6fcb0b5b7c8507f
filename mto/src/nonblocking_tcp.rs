//! A TCP connection of the relay that never waits.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use xmml_wire::methods::Stream;

/// A host that has vanished without a word is missed after so long where nothing passes, and six thirds of it more. Where bytes are on
/// their way to it the kernel gives up after some minutes. There is no shorter limit for that: it would hold for processes too that are
/// well and only take nothing for a while.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Questions without an answer after which nobody is there.
const QUESTIONS: u32 = 6;

/// See the module.
#[derive(Debug)]
pub struct NonblockingTcp {
    socket: TcpStream,
    peer: String,
    source: String,
}

impl NonblockingTcp {
    /// Takes over a connection.
    pub fn new(socket: TcpStream, from: SocketAddr) -> io::Result<NonblockingTcp> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let settings = SockRef::from(&socket);
        let watch = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3).with_retries(QUESTIONS);
        settings.set_tcp_keepalive(&watch)?;
        Ok(NonblockingTcp { socket, peer: from.to_string(), source: from.ip().to_string() })
    }

    /// The host at the other end: what counts as one source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Nothing more will be written; what was written arrives.
    pub fn finish(&self) {
        // Fails only if the connection is gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Whether it was reset, or its host has vanished.
    pub fn broken(&self) -> io::Result<()> {
        self.socket.take_error()?.map_or(Ok(()), Err)
    }

    /// Has the other end see a broken connection, not an end: what was on its way is lost.
    pub fn abort(&self) {
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }
}

impl Stream for NonblockingTcp {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.socket).read(into)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.socket).write_vectored(parts) // Rust programs ignore SIGPIPE
    }

    fn bare_socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn shut(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_gone_are_missed_and_receivers_that_take_nothing_are_not_cut_off() {
        let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _near = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        let (socket, from) = door.accept().unwrap();
        let wire = NonblockingTcp::new(socket, from).unwrap();
        let settings = SockRef::from(&wire.socket);
        assert!(settings.keepalive().unwrap());
        // The kernel counts a window that stays closed as no answer, though the host gives one.
        assert_eq!(settings.tcp_user_timeout().unwrap(), None);
    }
}
