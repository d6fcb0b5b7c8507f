//! Unix-domain stream sockets with abstract names: nothing in the file system, nothing left after a crash.
//!
//! Addresses are `@name`. Both ends must run on one kernel, in one network namespace, under one user; the kernel tells who the peer is
//! (SO_PEERCRED), and another user is turned away before a byte is read. Bytes that the kernel has taken survive the sender.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, SockAddr, Socket, Type};

use super::socket::{self, SocketStream};
use super::{Descriptor, Listener, Method, Place, Stream};
use crate::handshake::Party;
use crate::methods::TrafficKind;

/// Longest abstract name: `sun_path` less its leading zero byte.
const NAME_LIMIT: usize = 107;

/// Bytes the kernel should be willing to hold for a sender; it gives what the system allows. (What the receiver may hold does not matter.)
const KERNEL_BUFFER_BYTES: usize = 4 << 20;

/// The method `unix`.
pub struct Unix;

impl Method for Unix {
    fn name(&self) -> &'static str {
        "unix"
    }

    fn can_break(&self) -> bool {
        false
    }

    fn listen(&self, address: Option<&str>, _me: &Party) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(UnixListener(Door::open(address, "unix")?)))
    }

    fn probe(&self, _descriptor: &Descriptor, there: &Place, here: &Place) -> Result<(), String> {
        probe(there, here)
    }

    fn connect(&self, address: &str, _me: &Party, _traffic: TrafficKind) -> io::Result<Box<dyn Stream>> {
        let socket = connect(address)?;
        enlarge(&socket);
        Ok(Box::new(SocketStream::new(socket, format!("unix:{address}"))?))
    }
}

/// Whether a Unix socket can lead from `here` to `there`; else why not.
pub(super) fn probe(there: &Place, here: &Place) -> Result<(), String> {
    if here.boot_id != there.boot_id || here.boot_id.is_empty() {
        Err(format!("{} and {} are different hosts", here.host, there.host))
    } else if !here.shares_network_with(there) {
        Err("the two processes are in different network namespaces (containers)".to_owned())
    } else if here.user != there.user {
        Err(format!("the receiver runs as user {}, the sender as user {}", there.user, here.user))
    } else {
        Ok(())
    }
}

/// A socket connected to a door of this user's.
pub(super) fn connect(address: &str) -> io::Result<Socket> {
    let target = abstract_address(address)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.connect(&target)?;
    refuse_other_users(&socket)?;
    Ok(socket)
}

/// A listening socket with an abstract name, for processes of this user only.
pub(super) struct Door {
    socket: Socket,
    name: String,
}

impl Door {
    /// Opens one at `address`, or under a random name that says what it is `of`.
    pub(super) fn open(address: Option<&str>, of: &str) -> io::Result<Door> {
        let name = match address {
            Some(address) => address.to_owned(),
            None => format!("@xmml-{of}-{}", random_name()?),
        };
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.bind(&abstract_address(&name)?)?;
        socket.listen(socket::BACKLOG)?;
        Ok(Door { socket, name })
    }

    /// For poll and epoll.
    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Its address.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next connection, and the process at its other end; `None` if there is none, or it is another user's (the kernel vouches
    /// for the user, so there is nothing to discuss).
    pub(super) fn accept(&self) -> io::Result<Option<(Socket, i32)>> {
        let Some((socket, _)) = socket::accept(&self.socket)? else { return Ok(None) };
        let who = peer_credentials(&socket)?;
        Ok((who.uid == own_user()).then_some((socket, who.pid)))
    }
}

struct UnixListener(Door);

impl Listener for UnixListener {
    fn fd(&self) -> RawFd {
        self.0.fd()
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.0.name().to_owned()]
    }

    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>> {
        let Some((socket, process)) = self.0.accept()? else { return Ok(None) };
        enlarge(&socket);
        Ok(Some(Box::new(SocketStream::new(socket, format!("unix: process {process}"))?)))
    }
}

fn abstract_address(address: &str) -> io::Result<SockAddr> {
    let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidInput, problem);
    let name = address
        .strip_prefix('@')
        .ok_or_else(|| invalid(format!("\"{address}\" is not an abstract socket name (@...)")))?;
    if name.is_empty() || name.len() > NAME_LIMIT {
        return Err(invalid(format!("\"{address}\": an abstract socket name has 1 to {NAME_LIMIT} bytes")));
    }
    SockAddr::unix(format!("\0{name}"))
}

fn enlarge(socket: &Socket) {
    // A refusal is harmless: the system's default is then used.
    let _ = socket.set_send_buffer_size(KERNEL_BUFFER_BYTES);
}

/// Twelve random bytes as hexadecimal digits.
pub(super) fn random_name() -> io::Result<String> {
    let mut bytes = [0u8; 12];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn own_user() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

fn refuse_other_users(socket: &Socket) -> io::Result<()> {
    let who = peer_credentials(socket)?;
    if who.uid == own_user() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the listener belongs to user {}, not to user {}", who.uid, own_user()),
    ))
}

pub(super) fn peer_credentials(socket: &impl AsRawFd) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers describe `credentials` and `length`, which outlive the call; the descriptor is open.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if status == 0 {
        Ok(credentials)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::nobody;

    fn place(host: &str, boot_id: &str, network: &str, user: u32) -> Place {
        Place { host: host.into(), boot_id: boot_id.into(), network: network.into(), user }
    }

    fn reason(there: &Place) -> Option<String> {
        let descriptor = Descriptor { method: "unix".into(), addresses: vec!["@x".into()] };
        Unix.probe(&descriptor, there, &place("here", "boot", "net", 7)).err()
    }

    #[test]
    fn the_probe_accepts_the_same_host_network_and_user() {
        assert_eq!(reason(&place("here", "boot", "net", 7)), None);
    }

    #[test]
    fn the_probe_says_why_not() {
        assert!(reason(&place("there", "other", "net", 7)).unwrap().contains("different hosts"));
        assert!(reason(&place("here", "boot", "other", 7)).unwrap().contains("namespaces"));
        assert!(reason(&place("here", "boot", "net", 8)).unwrap().contains("user 8"));
    }

    #[test]
    fn names_that_are_not_abstract_are_refused() {
        assert!(Unix.connect("/tmp/socket", &nobody(), TrafficKind::default()).is_err());
        assert!(Unix.connect("@", &nobody(), TrafficKind::default()).is_err());
    }
}
