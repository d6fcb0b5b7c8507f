//! A TCP connection to a host that may have several addresses: they are tried in order, over one and the same socket, so that who waits
//! for its descriptor need not know.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use socket2::{Domain, Socket, Type};

use super::socket::SocketStream;
use super::Stream;
use crate::lock::lock;

/// Repeated questions after which an address that does not answer gives way to the next, about three seconds from the beginning on.
const QUESTIONS: libc::c_int = 1;

/// The same of the last one: as many as Linux asks usually.
const QUESTIONS_LAST: libc::c_int = 6;

/// An address of IPv4 (for groups) that nobody can connect to: the attempt fails at once.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1)), 9);

/// See the module.
pub(super) struct DialledStream {
    stream: SocketStream,
    /// Whether the socket takes addresses of both kinds.
    is_dual: bool,
    /// Whether nothing is left to be done here: bytes have passed, or there is no other address.
    is_settled: AtomicBool,
    leaves_host: bool,
    trying: Mutex<Trying>,
}

#[derive(Default)]
struct Trying {
    /// The address that is tried at present, and those that come after it.
    rest: VecDeque<SocketAddr>,
    failed: Vec<(SocketAddr, io::Error)>,
}

impl DialledStream {
    /// Begins to connect to the first of these addresses that can be tried; `peer` names the host.
    pub(super) fn begin(addresses: &[SocketAddr], peer: String) -> io::Result<DialledStream> {
        let leaves_host = !addresses.iter().all(|address| address.ip().to_canonical().is_loopback());
        let mut rest: VecDeque<SocketAddr> = addresses.iter().copied().collect();
        let is_mixed = addresses.iter().any(SocketAddr::is_ipv4) && addresses.iter().any(SocketAddr::is_ipv6);
        let dual = is_mixed.then(dual_socket).and_then(Result::ok);
        let is_dual = dual.is_some();
        let socket = match dual {
            Some(socket) => socket,
            None => {
                if is_mixed {
                    rest.retain(SocketAddr::is_ipv4); // this machine has no IPv6
                }
                let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the host has no internet address");
                Socket::new(Domain::for_address(*rest.front().ok_or_else(nowhere)?), Type::STREAM.nonblocking(), None)?
            }
        };
        socket.set_tcp_nodelay(true)?;
        let stream = SocketStream::new(socket, peer)?;
        let is_settled = AtomicBool::new(rest.len() == 1);
        let mut trying = Trying { rest, failed: Vec::new() };
        let dialled = DialledStream { stream, is_dual, is_settled, leaves_host, trying: Mutex::new(Trying::default()) };
        dialled.connect(&mut trying)?;
        *lock(&dialled.trying) = trying;
        Ok(dialled)
    }

    /// Begins to connect to the first address that is left and can be tried at all.
    fn connect(&self, trying: &mut Trying) -> io::Result<()> {
        while let Some(address) = trying.rest.front().copied() {
            match (trying.rest.len(), trying.failed.is_empty()) {
                (1, true) => {} // one that is alone
                (1, false) => self.limit_questions(QUESTIONS_LAST),
                _ => self.limit_questions(QUESTIONS),
            }
            match self.stream.connect(self.as_taken(address)) {
                Ok(()) => return Ok(()),
                Err(error) => self.give_up(trying, error),
            }
        }
        self.is_settled.store(true, Ordering::Release);
        Err(trying.reason())
    }

    /// The address that is tried cannot be reached.
    fn give_up(&self, trying: &mut Trying, why: io::Error) {
        if let Some(address) = trying.rest.pop_front() {
            trying.failed.push((address, why));
        }
        self.stream.forget();
        if self.is_dual {
            // Linux has a socket that tried an address of IPv4 send packets of that kind only, until such an attempt fails at once.
            let _ = self.stream.connect(self.as_taken(NOWHERE));
            self.stream.forget();
        }
    }

    /// As the socket takes it: one of IPv6 reaches addresses of IPv4 too, as such of IPv6.
    fn as_taken(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.is_dual => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            _ => address,
        }
    }

    fn limit_questions(&self, count: libc::c_int) {
        // SAFETY: the pointer and length describe `count`, which outlives the call. If it fails, an address is tried for longer.
        unsafe {
            libc::setsockopt(
                self.fd(),
                libc::IPPROTO_TCP,
                libc::TCP_SYNCNT,
                (&raw const count).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }

    /// Reads or writes; goes on to the next address if the present one turns out to be out of reach.
    fn attempt(&self, pass: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        use io::ErrorKind::{Interrupted, NotConnected, WouldBlock};
        if self.is_settled.load(Ordering::Acquire) {
            return pass();
        }
        // Who reads and who writes may be two threads, and the socket tells only one of them why it is not connected.
        let mut trying = lock(&self.trying);
        match pass() {
            Err(error) if self.is_settled.load(Ordering::Acquire) => Err(error),
            Err(error) if matches!(error.kind(), WouldBlock | NotConnected | Interrupted) => Err(error),
            Err(error) => {
                self.give_up(&mut trying, error);
                self.connect(&mut trying)?;
                Err(WouldBlock.into())
            }
            Ok(count) => {
                self.is_settled.store(true, Ordering::Release);
                Ok(count)
            }
        }
    }
}

impl Trying {
    /// Why no address could be reached: each is named if there were several.
    fn reason(&mut self) -> io::Error {
        if self.failed.len() > 1 {
            let kind = self.failed[self.failed.len() - 1].1.kind();
            let each: Vec<String> = self.failed.iter().map(|(address, why)| format!("{address}: {why}")).collect();
            return io::Error::new(kind, each.join("; "));
        }
        let alone = self.failed.pop().map(|(_, why)| why);
        alone.unwrap_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// A socket that reaches addresses of IPv4 and IPv6.
fn dual_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM.nonblocking(), None)?;
    socket.set_only_v6(false)?;
    Ok(socket)
}

impl Stream for DialledStream {
    fn fd(&self) -> RawFd {
        self.stream.fd()
    }

    fn peer(&self) -> &str {
        self.stream.peer()
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.attempt(|| self.stream.read(into))
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.attempt(|| self.stream.write(parts))
    }

    fn leaves_host(&self) -> bool {
        self.leaves_host
    }

    fn can_fall_silent(&self) -> bool {
        self.stream.can_fall_silent()
    }

    fn shut(&self) {
        let _trying = lock(&self.trying);
        self.is_settled.store(true, Ordering::Release); // no address is tried any more
        self.stream.shut();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;
    use crate::waiting::LIMIT;
    use crate::wakeup::{poll_readable, poll_writable, Polled};

    /// An address that refuses, as long as its socket is held.
    fn refusing(host: &str) -> (Socket, SocketAddr) {
        let ip: IpAddr = host.parse().unwrap();
        let socket = Socket::new(Domain::for_address(SocketAddr::new(ip, 0)), Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(ip, 0).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, address)
    }

    /// Whether this machine has such an address.
    fn has(host: &str) -> bool {
        TcpListener::bind((host, 0)).is_ok()
    }

    /// Goes on until the stream takes bytes.
    fn write(stream: &DialledStream, bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + LIMIT;
        loop {
            match stream.write(&[IoSlice::new(bytes)]) {
                Ok(count) => {
                    assert_eq!(count, bytes.len());
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {}
                Err(error) => return Err(error),
            }
            assert_eq!(poll_writable(stream.fd(), Some(until)).unwrap(), Polled::Ready);
        }
    }

    /// Bytes pass there and back between a host with these addresses and the listener at the last of them.
    fn is_reached(addresses: &[SocketAddr], door: &TcpListener) {
        let stream = DialledStream::begin(addresses, "host".into()).unwrap();
        write(&stream, b"there").unwrap();
        let (mut socket, _) = door.accept().unwrap();
        let mut came = [0; 5];
        io::Read::read_exact(&mut socket, &mut came).unwrap();
        assert_eq!(&came, b"there", "{addresses:?}");
        io::Write::write_all(&mut socket, b"back").unwrap();
        poll_readable(&[stream.fd()], Some(Instant::now() + LIMIT)).unwrap();
        assert_eq!(stream.read(&mut came).unwrap(), 4, "{addresses:?}");
    }

    #[test]
    fn the_next_address_is_tried_when_one_refuses_or_there_is_no_way_to_it() {
        let refusing4 = [refusing("127.0.0.2"), refusing("127.0.0.3")];
        let (one, two) = (refusing4[0].1, refusing4[1].1);
        let no_way = SocketAddr::new(IpAddr::V6("ff02::1".parse().unwrap()), 9);
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = door.local_addr().unwrap();
        for addresses in [&[there][..], &[one, there], &[one, two, there], &[no_way, there], &[one, no_way, two, there]]
        {
            is_reached(addresses, &door);
        }
        if has("::1") {
            let (_held, six) = refusing("::1");
            let door6 = TcpListener::bind("[::1]:0").unwrap();
            let there6 = door6.local_addr().unwrap();
            for addresses in [&[six, there][..], &[one, six, two, there]] {
                is_reached(addresses, &door);
            }
            for addresses in [&[six, there6][..], &[one, there6], &[six, one, there6], &[one, no_way, six, two, there6]]
            {
                is_reached(addresses, &door6);
            }
        }
    }

    #[test]
    fn an_address_that_does_not_answer_gives_way_after_some_seconds() {
        // The queue of this one is full: what comes is not answered.
        let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        full.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
        full.listen(0).unwrap();
        let silent = full.local_addr().unwrap().as_socket().unwrap();
        let _first = TcpStream::connect(silent).unwrap();
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        is_reached(&[silent, door.local_addr().unwrap()], &door);
    }

    #[test]
    fn every_address_is_named_when_none_can_be_reached() {
        let (_one, one) = refusing("127.0.0.2");
        let (_two, two) = refusing("127.0.0.3");
        let no_way = SocketAddr::new(IpAddr::V6("ff02::1".parse().unwrap()), 9);
        let why = |addresses: &[SocketAddr]| {
            let stream = DialledStream::begin(addresses, "host".into());
            stream.and_then(|stream| write(&stream, b"there")).unwrap_err()
        };
        let alone = why(&[one]);
        assert_eq!(alone.raw_os_error(), Some(libc::ECONNREFUSED));
        let both = why(&[one, two]);
        assert_eq!(both.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(both.to_string(), format!("{one}: {alone}; {two}: {alone}"));
        if has("::1") {
            let all = why(&[one, no_way, two]).to_string();
            assert!([one, no_way, two].iter().all(|address| all.contains(&format!("{address}: "))), "{all}");
        }
        assert!(why(&[]).to_string().contains("no internet address"));
    }

    #[test]
    fn who_has_shut_it_tries_no_other_address() {
        let (_one, one) = refusing("127.0.0.2");
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = DialledStream::begin(&[one, door.local_addr().unwrap()], "host".into()).unwrap();
        stream.shut();
        assert!(stream.write(&[IoSlice::new(b"there")]).is_err() && stream.write(&[IoSlice::new(b"there")]).is_err());
        door.set_nonblocking(true).unwrap();
        assert_eq!(door.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
