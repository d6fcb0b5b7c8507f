//! Congestion controls of TCP: which there are, and which a socket may have.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, Socket, Type};

use xmml_wire::error::{Error, Result};

use crate::socket_option::named_option;

/// Gives a socket this congestion control.
///
/// # Errors
/// The system refuses.
pub(crate) fn set_congestion(fd: RawFd, name: &str) -> io::Result<()> {
    named_option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
}

/// Whether a socket of this process may have this congestion control.
///
/// # Errors
/// What the system says.
fn try_congestion(name: &str) -> io::Result<()> {
    set_congestion(Socket::new(Domain::IPV4, Type::STREAM, None)?.as_raw_fd(), name)
}

/// Asks the kernel, which knows what it has and who may choose what.
///
/// # Errors
/// [`Error::Usage`] if this process may not choose it.
pub(crate) fn check_congestion(name: &str) -> Result<()> {
    let problem = match try_congestion(name).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::EPERM)) => {
            format!("the congestion control \"{name}\" is only for administrators here; for all there is ")
        }
        Err(Some(libc::ENOENT | libc::EINVAL)) => format!("there is no congestion control \"{name}\" here; there is "),
        // Without a socket to ask with streams will say.
        _ => return Ok(()),
    };
    Err(Error::Usage { problem: problem + &available_congestion_controls().join(", ") })
}

/// What this kernel offers to this process; empty if it does not say.
pub fn available_congestion_controls() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    text.split_whitespace().filter(|name| try_congestion(name).is_ok()).map(str::to_owned).collect()
}
