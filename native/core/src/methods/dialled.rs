//! A TCP connection to a host that may have several addresses: they are tried in order, over one and the same socket, so that who waits
//! for its descriptor need not know.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, SockAddr, Socket, Type};

use super::socket::SocketStream;
use super::Stream;

/// Repeated questions after which an address that does not answer gives way to the next, about three seconds from the beginning on.
const QUESTIONS: libc::c_int = 1;

/// The same of the last one: as many as Linux asks usually.
const QUESTIONS_LAST: libc::c_int = 6;

/// See the module.
pub(super) struct DialledStream {
    stream: SocketStream,
    /// Whether the address that is tried may be the last one, or is connected: nothing is to be done here any more.
    is_settled: AtomicBool,
    rest: Mutex<VecDeque<SocketAddr>>,
}

impl DialledStream {
    /// Begins to connect to the first of these addresses, or the next ones; `peer` names the host.
    pub(super) fn begin(addresses: &[SocketAddr], peer: String) -> io::Result<DialledStream> {
        let mut rest: VecDeque<SocketAddr> = addresses.iter().copied().collect();
        let is_mixed = addresses.iter().any(SocketAddr::is_ipv4) && addresses.iter().any(SocketAddr::is_ipv6);
        let v6 = is_mixed.then(|| Socket::new(Domain::IPV6, Type::STREAM.nonblocking(), None).ok()).flatten();
        let socket = match v6 {
            // It reaches addresses of IPv4 too, as such of IPv6.
            Some(socket) => {
                socket.set_only_v6(false)?;
                rest.iter_mut().for_each(|address| *address = mapped(*address));
                socket
            }
            None => {
                if is_mixed {
                    rest.retain(SocketAddr::is_ipv4); // this machine has no IPv6
                }
                let first = rest
                    .front()
                    .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no internet address"))?;
                Socket::new(Domain::for_address(*first), Type::STREAM.nonblocking(), None)?
            }
        };
        socket.set_tcp_nodelay(true)?;
        let stream = SocketStream::new(socket, peer)?;
        let dialled = DialledStream { stream, is_settled: AtomicBool::new(false), rest: Mutex::default() };
        dialled.try_next(&mut rest, io::ErrorKind::NotFound.into())?;
        *dialled.rest.lock().unwrap_or_else(PoisonError::into_inner) = rest;
        Ok(dialled)
    }

    /// Begins to connect to the next address that can be tried at all; without one it fails for the reason why the last one did.
    fn try_next(&self, rest: &mut VecDeque<SocketAddr>, mut why: io::Error) -> io::Result<()> {
        let mut is_first = matches!(why.kind(), io::ErrorKind::NotFound);
        while let Some(address) = rest.pop_front() {
            if rest.is_empty() {
                self.is_settled.store(true, Ordering::Release);
            }
            // As the last one may be tried for longer, so may one that is alone.
            match (rest.is_empty(), is_first) {
                (false, _) => self.limit_questions(QUESTIONS),
                (true, false) => self.limit_questions(QUESTIONS_LAST),
                (true, true) => {}
            }
            is_first = false;
            match self.stream.connect(&SockAddr::from(address)) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    why = error;
                    self.stream.forget();
                }
            }
        }
        Err(why)
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

    /// Goes on to the next address if the last one could not be reached.
    fn look(&self) -> io::Result<()> {
        if self.is_settled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stream.is_connected() {
            self.is_settled.store(true, Ordering::Release);
            return Ok(());
        }
        match self.stream.failure()? {
            None => Ok(()),
            Some(error) => {
                self.stream.forget();
                self.try_next(&mut rest, error)
            }
        }
    }
}

impl DialledStream {
    /// The reason why an address cannot be reached may have come after it was looked for.
    fn or_next(&self, done: io::Result<usize>) -> io::Result<usize> {
        use io::ErrorKind::{Interrupted, NotConnected, WouldBlock};
        match done {
            Err(error)
                if !self.is_settled.load(Ordering::Acquire)
                    && !matches!(error.kind(), WouldBlock | NotConnected | Interrupted) =>
            {
                self.stream.forget();
                self.try_next(&mut self.rest.lock().unwrap_or_else(PoisonError::into_inner), error)?;
                Err(WouldBlock.into())
            }
            done => done,
        }
    }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

impl Stream for DialledStream {
    fn fd(&self) -> RawFd {
        self.stream.fd()
    }

    fn peer(&self) -> &str {
        self.stream.peer()
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.look()?;
        self.or_next(self.stream.read(into))
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.look()?;
        self.or_next(self.stream.write(parts))
    }

    fn can_fall_silent(&self) -> bool {
        self.stream.can_fall_silent()
    }

    fn shut(&self) {
        self.stream.shut();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::wakeup::{poll_writable, Polled};

    /// Where nobody listens.
    fn closed(host: &str) -> SocketAddr {
        TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
    }

    /// Goes on until the stream takes bytes.
    fn write(stream: &DialledStream, bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            match stream.write(&[IoSlice::new(bytes)]) {
                Ok(count) => return Ok(assert_eq!(count, bytes.len())),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {}
                Err(error) => return Err(error),
            }
            assert_eq!(poll_writable(stream.fd(), Some(until)).unwrap(), Polled::Ready);
        }
    }

    #[test]
    fn the_next_address_is_tried_when_one_refuses() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = door.local_addr().unwrap();
        let mut hosts = vec![vec![there], vec![closed("127.0.0.2"), closed("127.0.0.3"), there]];
        if TcpListener::bind("[::1]:0").is_ok() {
            hosts.push(vec![closed("::1"), there]);
        }
        hosts.push(vec!["[2001:db8::1]:9".parse().unwrap(), there]); // for documentation: there is no way to it
        for addresses in hosts {
            let stream = DialledStream::begin(&addresses, "host".into()).unwrap();
            write(&stream, b"there").unwrap();
            let (mut socket, _) = door.accept().unwrap();
            let mut came = [0; 5];
            std::io::Read::read_exact(&mut socket, &mut came).unwrap();
            assert_eq!(&came, b"there", "{addresses:?}");
            std::io::Write::write_all(&mut socket, b"back").unwrap();
            crate::wakeup::poll_readable(&[stream.fd()], Some(Instant::now() + Duration::from_secs(20))).unwrap();
            assert_eq!(stream.read(&mut came).unwrap(), 4, "{addresses:?}");
        }
    }

    #[test]
    fn the_reason_is_told_when_all_refuse() {
        let stream = DialledStream::begin(&[closed("127.0.0.2"), closed("127.0.0.3")], "host".into());
        let error = stream.and_then(|stream| write(&stream, b"there")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(DialledStream::begin(&[], "host".into()).is_err());
    }
}
