//! Whether the process at the other end of a Unix socket still lives.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::methods::unix::peer_credentials;

/// The process at the other end of a Unix socket: the one that connected it, or that listened for it.
#[derive(Debug)]
pub enum Peer {
    /// By its number here.
    Numbered(libc::pid_t),
    /// Its number means nothing here (a container with numbers of its own), but it can be watched.
    Watched(OwnedFd),
    /// Nothing can be known of it: it has no number here, and the kernel (before Linux 6.5) has no other way.
    Hidden,
}

impl Peer {
    /// That of `socket`, which must still be connected.
    pub fn of(socket: &impl AsRawFd) -> Peer {
        match peer_credentials(socket) {
            Ok(who) if who.pid > 0 => Peer::Numbered(who.pid),
            _ => handle_of_peer(socket).map_or(Peer::Hidden, Peer::Watched),
        }
    }

    /// Whether it has ended for certain, so that nothing is mapped by it any more. If its number was given to another process
    /// meanwhile, or the system cannot tell: false.
    pub fn has_ended(&self) -> bool {
        match self {
            Peer::Hidden => false,
            Peer::Watched(handle) => all_threads_have_ended(handle),
            Peer::Numbered(number) => match handle_of(*number) {
                Ok(handle) => all_threads_have_ended(&handle),
                Err(error) => error.raw_os_error() == Some(libc::ESRCH),
            },
        }
    }
}

/// A descriptor that stands for a process.
fn handle_of(number: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
    if handle < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(handle as i32) })
}

/// The same for the process at the other end of a socket, whatever its number.
fn handle_of_peer(socket: &impl AsRawFd) -> io::Result<OwnedFd> {
    let mut handle: i32 = -1;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointers describe `handle` and `length`, which outlive the call; the descriptor is open.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut handle).cast(),
            &raw mut length,
        )
    };
    if status < 0 || handle < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

fn all_threads_have_ended(process: &OwnedFd) -> bool {
    let mut entry = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one entry. Readable: all its threads have ended (its parent may not have asked for its status yet).
    unsafe { libc::poll(&raw mut entry, 1, 0) == 1 && entry.revents & libc::POLLNVAL == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// The handle of who is at the other end; `None` where the kernel has none (before Linux 6.5).
    fn handle_or_say(socket: &UnixStream) -> Option<OwnedFd> {
        let handle = handle_of_peer(socket);
        if let Err(error) = &handle {
            eprintln!("NOT TESTED, this kernel gives no handle of a peer: {error}");
        }
        handle.ok()
    }

    #[test]
    fn a_process_has_ended_before_its_parent_asks_for_its_status() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let number = child.id() as libc::pid_t;
        let both = [Peer::Numbered(number), Peer::Watched(handle_of(number).unwrap())];
        assert!(both.iter().all(|peer| !peer.has_ended()));
        child.kill().unwrap();
        while !both.iter().all(Peer::has_ended) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(both.iter().all(Peer::has_ended));
    }

    #[test]
    fn who_is_at_the_other_end_of_a_socket_lives() {
        let (here, _there) = UnixStream::pair().unwrap();
        assert!(matches!(Peer::of(&here), Peer::Numbered(number) if number as u32 == std::process::id()));
        assert!(!Peer::of(&here).has_ended() && !Peer::Hidden.has_ended());
        let Some(handle) = handle_or_say(&here) else { return };
        assert!(!Peer::Watched(handle).has_ended());
    }

    #[test]
    fn a_handle_is_not_left_to_other_programs() {
        let (here, _there) = UnixStream::pair().unwrap();
        let Some(handle) = handle_or_say(&here) else { return };
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::fcntl(handle.as_raw_fd(), libc::F_GETFD) }, libc::FD_CLOEXEC);
    }
}
