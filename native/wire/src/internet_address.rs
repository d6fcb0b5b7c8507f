//! Internet addresses by name.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::{Error, Result};

/// The internet addresses of `host:port`; waits for the name server. An IPv6 address stands in brackets, maybe with its zone by name:
/// `[fe80::1%eth0]:port`.
///
/// # Errors
/// [`Error::Io`]: there is none, and why.
pub fn resolve(address: &str) -> Result<Vec<SocketAddr>> {
    let wrong = |cause: String| Error::Io { action: format!("find the address {address}"), cause };
    // The standard library looks for a name in brackets as it stands, and only reads numbers of zones.
    let zoned = address.strip_prefix('[').and_then(|rest| rest.split_once("]:")).filter(|(host, _)| host.contains('%'));
    let found = match zoned.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?))) {
        Some(zoned) => zoned.to_socket_addrs(),
        None => address.to_socket_addrs(),
    };
    let found: Vec<SocketAddr> = found.map_err(|error| wrong(error.to_string()))?.collect();
    match found.is_empty() {
        true => Err(wrong("it has no internet address".to_owned())),
        false => Ok(found),
    }
}
