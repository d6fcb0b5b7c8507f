//! What the socket methods have in common: a non-blocking stream socket as a [`Stream`].

use std::io::{self, IoSlice, Read};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, SockRef, Socket};

use super::Stream;

/// Connections that may wait to be accepted.
pub(super) const BACKLOG: i32 = 4096;

/// A connected (or connecting) stream socket.
pub(super) struct SocketStream {
    socket: Socket,
    peer: String,
    is_local: bool,
    leaves_host: bool,
}

impl SocketStream {
    /// Takes over `socket`: from now on it never waits.
    pub(super) fn new(socket: Socket, peer: String) -> io::Result<SocketStream> {
        socket.set_nonblocking(true)?;
        let is_local = socket.domain()? == Domain::UNIX;
        Ok(SocketStream { socket, peer, is_local, leaves_host: false })
    }

    /// The same; its bytes may pass a network, or not.
    pub(super) fn leaving_host(self, leaves_host: bool) -> SocketStream {
        SocketStream { leaves_host, ..self }
    }

    /// Begins to connect.
    pub(super) fn connect(&self, address: SocketAddr) -> io::Result<()> {
        match self.socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(()),
        }
    }

    /// Forgets an address that was tried in vain, and why: the socket can try another one.
    pub(super) fn forget(&self) {
        // SAFETY: a zeroed address is one of no family, which is what is wanted; it outlives the call.
        unsafe {
            let nowhere: libc::sockaddr = std::mem::zeroed();
            let size = size_of::<libc::sockaddr>() as libc::socklen_t;
            libc::connect(self.socket.as_raw_fd(), &raw const nowhere, size);
        }
        let _ = self.socket.take_error();
    }
}

impl Stream for SocketStream {
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
        // send with MSG_NOSIGNAL: a library must not raise SIGPIPE in its user's program.
        self.socket.send_vectored_with_flags(parts, libc::MSG_NOSIGNAL)
    }

    fn leaves_host(&self) -> bool {
        self.leaves_host
    }

    fn can_fall_silent(&self) -> bool {
        !self.is_local // of a local socket the kernel knows whether there is a peer
    }

    fn shut(&self) {
        // Fails only if the peer is gone already.
        let _ = SockRef::from(&self.socket).shutdown(std::net::Shutdown::Both);
    }
}

/// Has the kernel hold so many bytes that were written and not taken yet; no more than the system allows (net.core.wmem_max).
pub fn hold(stream: &dyn Stream, bytes: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as the stream, which outlives the call.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(stream.fd()) };
    SockRef::from(&socket).set_send_buffer_size(bytes as usize)
}

/// Accepts without waiting; `None` when nobody waits or a connection vanished before it was taken.
pub(super) fn accept(listener: &Socket) -> io::Result<Option<(Socket, socket2::SockAddr)>> {
    match listener.accept() {
        Ok(pair) => Ok(Some(pair)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}
