//! TCP with TCP_NODELAY. Listens on the loopback interface unless told otherwise.
//!
//! Addresses are `host:port`. A connection can break while both ends live; the layer above keeps messages until the receiver has them
//! and connects again. The kernel tunes the windows: sizes set by hand would be capped far below what it grows them to.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, Socket, Type};

use super::dialled::DialledStream;
use super::socket::{self, SocketStream};
use super::{Descriptor, Listener, Method, Place, Stream};
use crate::handshake::Party;
use crate::methods::TrafficKind;

/// The method `tcp`.
pub struct Tcp;

impl Method for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn can_break(&self) -> bool {
        true
    }

    fn listen(&self, address: Option<&str>, _me: &Party) -> io::Result<Box<dyn Listener>> {
        let address = match address {
            Some(address) => address_to_listen_at(address)?,
            None => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        };
        let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
        // Only for a chosen port: a run that restarts at once must get it although old connections linger.
        socket.set_reuse_address(address.port() != 0)?;
        socket.bind(&address.into())?;
        socket.listen(socket::BACKLOG)?;
        let bound =
            socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("the socket has no internet address"))?;
        let addresses = if bound.ip().is_unspecified() {
            interface_addresses()?.into_iter().map(|(_, ip)| SocketAddr::new(ip, bound.port()).to_string()).collect()
        } else {
            vec![bound.to_string()]
        };
        Ok(Box::new(TcpListener { socket, addresses }))
    }

    fn probe(&self, descriptor: &Descriptor, there: &Place, here: &Place) -> Result<(), String> {
        if reachable(&descriptor.addresses, there, here).is_empty() {
            return Err(format!(
                "{} listens only on its loopback interface ({}), and this process is not on that host; \
                 XMML_LISTEN there says where else",
                there.host,
                descriptor.addresses.join(", ")
            ));
        }
        Ok(())
    }

    fn connect(&self, address: &str, _me: &Party, _traffic: TrafficKind) -> io::Result<Box<dyn Stream>> {
        dial(&resolve(address)?, address)
    }
}

/// Begins to connect to the host called `name`, which has these addresses; never waits.
pub(super) fn dial(addresses: &[SocketAddr], name: &str) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(DialledStream::begin(addresses, format!("tcp:{name}"))?))
}

/// The addresses of a descriptor that make sense from `here`: loopback ones only within one network namespace.
pub fn reachable<'a>(addresses: &'a [String], there: &Place, here: &Place) -> Vec<&'a String> {
    let local = here.shares_network_with(there);
    let is_loopback = |address: &str| {
        address.parse::<SocketAddr>().map_or(address.starts_with("localhost:"), |parsed| parsed.ip().is_loopback())
    };
    addresses.iter().filter(|address| local || !is_loopback(address)).collect()
}

struct TcpListener {
    socket: Socket,
    addresses: Vec<String>,
}

impl Listener for TcpListener {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn is_open_to_strangers(&self) -> bool {
        true
    }

    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>> {
        let Some((socket, from)) = socket::accept(&self.socket)? else {
            return Ok(None);
        };
        socket.set_tcp_nodelay(true)?;
        let address = from.as_socket();
        let peer = address.map_or_else(|| "tcp:unknown".to_owned(), |address| format!("tcp:{address}"));
        let here = socket.local_addr()?.as_socket().map(|address| address.ip());
        let is_near = |ip: IpAddr| ip.to_canonical().is_loopback() || Some(ip) == here;
        let leaves_host = address.is_none_or(|address| !is_near(address.ip()));
        Ok(Some(Box::new(SocketStream::new(socket, peer)?.leaving_host(leaves_host))))
    }
}

/// The address to listen at that `HOST:PORT` names; `towards:HOST`, that from which the host is reached; `device:NAME`, that of a
/// network device. The latter two mean the right address on every node of a job.
fn address_to_listen_at(text: &str) -> io::Result<SocketAddr> {
    if let Some(host) = text.strip_prefix("towards:") {
        address_towards(host)
    } else if let Some(device) = text.strip_prefix("device:") {
        let found = interface_addresses()?.into_iter().find(|(name, _)| name == device);
        let no_device = || io::Error::new(io::ErrorKind::NotFound, "there is no such network device with an address");
        found.map(|(_, ip)| SocketAddr::new(ip, 0)).ok_or_else(no_device)
    } else {
        resolve(text).map(|addresses| addresses[0])
    }
}

/// The address from which a host is reached; nothing is sent to it.
fn address_towards(host: &str) -> io::Result<SocketAddr> {
    const DISCARD: u16 = 9;
    let there = resolve(&format!("{host}:{DISCARD}"))?[0];
    let any: IpAddr = if there.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(there)?;
    Ok(SocketAddr::new(socket.local_addr()?.ip(), 0))
}

/// Waits for the name server.
fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    crate::internet_address::resolve(address)
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error.to_string()))
}

/// Names and addresses of this machine's interfaces, the loopback ones last.
fn interface_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs fills `list`, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut addresses = Vec::new();
    let mut entry = list;
    while !entry.is_null() {
        // SAFETY: every entry of the list, and its name, is valid until freeifaddrs; sa_family tells which address structure is behind ifa_addr.
        unsafe {
            let address = (*entry).ifa_addr;
            if !address.is_null() && i32::from((*address).sa_family) == libc::AF_INET {
                let ip = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                let name = CStr::from_ptr((*entry).ifa_name).to_string_lossy().into_owned();
                addresses.push((name, IpAddr::V4(Ipv4Addr::from(u32::from_be(ip)))));
            }
            entry = (*entry).ifa_next;
        }
    }
    // SAFETY: `list` came from getifaddrs and is freed once.
    unsafe { libc::freeifaddrs(list) };
    addresses.sort_by_key(|(_, ip)| ip.is_loopback());
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::nobody;

    fn place(boot_id: &str) -> Place {
        Place { host: "far".into(), boot_id: boot_id.into(), network: "net".into(), user: 1 }
    }

    fn descriptor(address: &str) -> Descriptor {
        Descriptor { method: "tcp".into(), addresses: vec![address.into()] }
    }

    #[test]
    fn a_loopback_address_is_refused_from_another_host() {
        let reason = Tcp.probe(&descriptor("127.0.0.1:9"), &place("a"), &place("b")).unwrap_err();
        assert!(reason.contains("loopback"), "{reason}");
        assert!(Tcp.probe(&descriptor("127.0.0.1:9"), &place("a"), &place("a")).is_ok());
    }

    #[test]
    fn where_to_listen_can_be_a_device_or_towards_a_host() {
        for place in ["device:lo", "towards:127.0.0.1"] {
            let listener = Tcp.listen(Some(place), &nobody()).unwrap();
            assert!(listener.addresses()[0].starts_with("127.0.0.1:"), "{place}: {:?}", listener.addresses());
        }
    }

    #[test]
    fn an_outside_address_is_worth_trying_from_anywhere() {
        assert!(Tcp.probe(&descriptor("192.0.2.1:9"), &place("a"), &place("b")).is_ok());
    }

    #[test]
    fn listening_everywhere_publishes_the_addresses_of_the_interfaces() {
        let listener = Tcp.listen(Some("0.0.0.0:0"), &nobody()).unwrap();
        assert!(listener.addresses().iter().any(|address| address.starts_with("127.0.0.1:")));
        assert!(listener.addresses().iter().all(|address| !address.starts_with("0.0.0.0")));
    }
}
