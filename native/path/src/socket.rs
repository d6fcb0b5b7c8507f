//! The TCP socket under a stream, set as the path wants it.

use std::io::{self, IoSlice, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use xmml_wire::methods::Stream;

use crate::congestion::set_congestion;
use crate::settings::Settings;
use crate::socket_option::{named_option, set_option};

/// So many bytes may lie in the kernel that are not on their way yet: enough to keep the line busy while this process sleeps, so few that
/// what is urgent does not wait behind them.
const UNSENT: u32 = 128 * 1024;

/// A stream's socket.
pub struct TcpWire {
    socket: Socket,
    peer: String,
}

impl TcpWire {
    /// Begins to connect; never waits.
    ///
    /// # Errors
    /// What the system says; that nobody listens may show only when the stream is used.
    pub fn connect(target: SocketAddr, settings: &Settings) -> io::Result<TcpWire> {
        let socket = Socket::new(Domain::for_address(target), Type::STREAM.nonblocking(), None)?;
        tune(socket.as_raw_fd(), settings)?;
        match socket.connect(&SockAddr::from(target)) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Ok(TcpWire { socket, peer: format!("tcp:{target}") })
    }

    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// What the system says.
    pub fn accepted(socket: Socket, from: &SockAddr, settings: &Settings) -> io::Result<TcpWire> {
        socket.set_nonblocking(true)?;
        tune(socket.as_raw_fd(), settings)?;
        let peer = from.as_socket().map_or_else(|| "tcp:unknown".to_owned(), |address| format!("tcp:{address}"));
        Ok(TcpWire { socket, peer })
    }
}

impl Stream for TcpWire {
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
        self.socket.send_vectored_with_flags(parts, libc::MSG_NOSIGNAL)
    }

    fn bare_socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn can_fall_silent(&self) -> bool {
        true
    }

    fn shut(&self) {
        // Fails only if the peer is gone already.
        let _ = SockRef::from(&self.socket).shutdown(std::net::Shutdown::Both);
    }
}

/// Sets a socket as the path wants it; to be called again when the settings change.
///
/// # Errors
/// What the system says, with the option that it refused.
pub fn tune(fd: RawFd, settings: &Settings) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1u32)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT)?;
    if let Some(bytes) = settings.socket_buffer {
        let bytes = i32::try_from(bytes / 2).unwrap_or(i32::MAX / 2); // the kernel doubles it for its own purposes
        set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes as u32)?;
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes as u32)?;
    }
    pace(fd, settings.pace)?;
    if let Some(name) = &settings.congestion {
        set_congestion(fd, name).map_err(|error| {
            io::Error::new(error.kind(), format!("the congestion control \"{name}\" is not to be had: {error}"))
        })?;
    }
    Ok(())
}

/// Lets a socket send so many bytes per second at most; `None`: as many as it can. TCP paces by itself where there is no queueing
/// discipline that does.
///
/// # Errors
/// The system refuses.
pub fn pace(fd: RawFd, most: Option<u64>) -> io::Result<()> {
    let most = most.unwrap_or(u64::MAX);
    named_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &most.to_ne_bytes())
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, most.min(u32::MAX.into()) as u32))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{channel, Receiver};
    use std::time::Duration;

    use xmml_wire::connection::authentication::{Authentication, Progress};
    use xmml_wire::handshake::Role;

    use super::*;
    use crate::congestion::available_congestion_controls;
    use crate::waiting::{await_while_moving, LIMIT};
    use crate::{Identity, Lane, LinkFigures, Listener, Path, Streams};

    /// What the kernel says of an option, as so many bytes.
    fn option(fd: RawFd, level: i32, name: i32, len: usize) -> Vec<u8> {
        let (mut value, mut count) = (vec![0u8; len], len as libc::socklen_t);
        // SAFETY: the pointer and length describe `value`.
        let status = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut count) };
        assert_eq!(status, 0, "{}", io::Error::last_os_error());
        value.truncate(count as usize);
        value
    }

    fn number(fd: RawFd, name: i32) -> u64 {
        let value = option(fd, libc::SOL_SOCKET, name, 8);
        match value.len() {
            4 => u64::from(u32::from_ne_bytes(*value.first_chunk().unwrap())),
            _ => u64::from_ne_bytes(*value.first_chunk().unwrap()),
        }
    }

    fn congestion(fd: RawFd) -> String {
        let value = option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, 16);
        String::from_utf8(value).unwrap().trim_end_matches('\0').to_owned()
    }

    #[test]
    fn a_socket_is_as_the_settings_say_and_changes_with_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let before = Settings::default();
        let wire = TcpWire::connect(listener.local_addr().unwrap(), &before).unwrap();
        let usual = congestion(wire.fd());
        assert_eq!(number(wire.fd(), libc::SO_MAX_PACING_RATE), u64::MAX, "nothing holds it back");
        assert_eq!(option(wire.fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 4), 1u32.to_ne_bytes());

        let controls = available_congestion_controls();
        let other = controls.iter().find(|name| **name != usual).unwrap_or(&usual).clone();
        let after = Settings {
            socket_buffer: Some(64 << 10),
            pace: Some(1_000_000),
            congestion: Some(other.clone()),
            ..Settings::default()
        };
        let fresh = TcpWire::connect(listener.local_addr().unwrap(), &after).unwrap();
        tune(wire.fd(), &after).unwrap();
        for fd in [fresh.fd(), wire.fd()] {
            assert_eq!(number(fd, libc::SO_SNDBUF), 64 << 10);
            assert_eq!(number(fd, libc::SO_RCVBUF), 64 << 10);
            assert_eq!(number(fd, libc::SO_MAX_PACING_RATE), 1_000_000);
            assert_eq!(congestion(fd), other);
        }
        tune(wire.fd(), &before).unwrap();
        assert_eq!(number(wire.fd(), libc::SO_MAX_PACING_RATE), u64::MAX, "it is not held back any more");
    }

    /// What the kernel says of a stream's socket.
    #[derive(Debug, PartialEq)]
    struct Said {
        buffers: [u64; 2],
        pace: u64,
        congestion: String,
    }

    fn said(path: &Path) -> Vec<Said> {
        let of = |fd| Said {
            buffers: [libc::SO_SNDBUF, libc::SO_RCVBUF].map(|name| number(fd, name)),
            pace: number(fd, libc::SO_MAX_PACING_RATE),
            congestion: congestion(fd),
        };
        path.shared.carrying().iter().map(|stream| of(stream.wire.fd())).collect()
    }

    /// Waits until a path has so many streams and all of them are so.
    fn become_so(path: &Path, count: usize, is_so: impl Fn(&Said) -> bool) {
        await_while_moving(
            &format!("{count} streams that are so"),
            || said(path),
            || Some(said(path)).filter(|said| said.len() == count && said.iter().all(&is_so)),
        );
    }

    #[test]
    fn what_is_set_on_an_open_path_reaches_its_sockets_and_those_of_streams_that_come_later() {
        let identity = |name| Identity::new(b"a secret", "run", name);
        let streams = |count| Settings { streams: Streams::Fixed(count), ..Settings::default() };
        let tight = Settings { window: 1 << 20, ..streams(2) };
        let listener = Listener::bind("127.0.0.1:0", &identity("there"), tight).unwrap();
        let here = Path::dial(&listener.address(), &identity("here"), "there", streams(2)).unwrap();
        here.attend().unwrap();
        let there = listener.accept(Some(LIMIT)).unwrap().expect("a path comes in");
        there.attend().unwrap();
        become_so(&here, 2, |said| said.pace == u64::MAX);
        let usual = said(&here)[0].congestion.clone();
        let other = available_congestion_controls().into_iter().find(|name| *name != usual).unwrap_or(usual);
        let settings = Settings {
            socket_buffer: Some(96 << 10),
            pace: Some(50_000_000),
            congestion: Some(other.clone()),
            window: 8 << 20,
            ..streams(3)
        };
        let behind = (0..5).map(|_| here.post(Lane::Bulk, vec![1; 1 << 20]).unwrap()).last().unwrap();
        assert!(!here.wait_left(behind, Some(Duration::from_millis(20))).unwrap(), "the window is not kept");
        for path in [&here, &there] {
            path.set(settings.clone()).unwrap();
            let wanted = Said { buffers: [96 << 10; 2], pace: 50_000_000, congestion: other.clone() };
            become_so(path, 3, |said| *said == wanted);
        }
        assert!(here.wait_left(behind, Some(LIMIT)).unwrap(), "the window is not widened");
        here.set(Settings { pace: None, ..settings }).unwrap();
        become_so(&here, 3, |said| said.pace == u64::MAX);
    }

    /// Accepts connections, as a program does that has a listener of its own, and brings them to a path; the thread ends with the test.
    fn brings_to(listener: Listener, count: usize) -> (SocketAddr, Receiver<Path>) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, (tell, told)) = (socket.local_addr().unwrap(), channel());
        std::thread::spawn(move || {
            for _ in 0..count {
                let (socket, from) = socket.accept().unwrap();
                socket.set_nonblocking(true).unwrap();
                let wire = Box::new(TcpWire { socket: socket.into(), peer: from.to_string() });
                let party = Identity::new(b"a secret", "run", "there").party().unwrap();
                let mut greeting = Authentication::answer(wire, party, &[Role::Path]).unwrap();
                loop {
                    greeting = match greeting.advance() {
                        (Some(greeting), Progress::Wait(_)) => greeting,
                        (_, Progress::Done { stream, established, rest }) => {
                            break listener.admit(stream, &established.peer, &rest).unwrap();
                        }
                        _ => panic!("the other end does not prove itself"),
                    };
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            tell.send(listener.accept(Some(LIMIT)).unwrap().expect("a path comes in")).unwrap();
        });
        (address, told)
    }

    #[test]
    fn a_stream_that_somebody_else_accepted_is_as_the_settings_of_the_path_say() {
        let streams = Settings { streams: Streams::Fixed(2), ..Settings::default() };
        let settings = Settings { pace: Some(50_000_000), ..streams.clone() };
        let me = |name| Identity::new(b"a secret", "run", name);
        let (address, path) = brings_to(Listener::without_door(&me("there"), settings).unwrap(), 2);
        let here = Path::dial(&address.to_string(), &me("here"), "there", streams).unwrap();
        here.attend().unwrap();
        let there = path.recv_timeout(LIMIT).unwrap();
        there.attend().unwrap();
        become_so(&there, 2, |said| said.pace == 50_000_000);
        for stream in there.shared.carrying().iter() {
            let of_tcp = |name| option(stream.wire.fd(), libc::IPPROTO_TCP, name, 4);
            assert_eq!(of_tcp(libc::TCP_NOTSENT_LOWAT), UNSENT.to_ne_bytes());
            assert_eq!(of_tcp(libc::TCP_NODELAY), 1u32.to_ne_bytes());
        }
    }

    #[test]
    fn streams_share_what_the_link_is_said_to_carry_unless_a_pace_is_set() {
        let identity = |name| Identity::new(b"a secret", "run", name);
        let streams = |count| Settings { streams: Streams::Fixed(count), ..Settings::default() };
        let figures = LinkFigures { round_trip: Duration::from_millis(20), bandwidth: 100e6 };
        let known = |count| Settings { link: Some(figures), ..streams(count) };
        let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
        let here = Path::dial(&listener.address(), &identity("here"), "there", known(3)).unwrap();
        here.attend().unwrap();
        let there = listener.accept(Some(LIMIT)).unwrap().expect("a path comes in");
        there.attend().unwrap();
        let half_of_it = |said: &Said| (50_000_000..65_000_000).contains(&said.pace);
        become_so(&here, 3, half_of_it);
        become_so(&there, 3, half_of_it); // the end that knows tells the other
        here.set(known(5)).unwrap();
        for path in [&here, &there] {
            become_so(path, 5, |said| (25_000_000..33_000_000).contains(&said.pace));
        }
        here.set(Settings { pace: Some(1_000_000), ..known(5) }).unwrap();
        become_so(&here, 5, |said| said.pace == 1_000_000);
        here.set(streams(5)).unwrap();
        for path in [&here, &there] {
            become_so(path, 5, |said| said.pace == u64::MAX);
        }
    }

    #[test]
    fn a_congestion_control_that_is_not_there_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = Settings { congestion: Some("carrier-pigeon".into()), ..Settings::default() };
        let Err(error) = TcpWire::connect(listener.local_addr().unwrap(), &settings) else { panic!("it was taken") };
        assert!(error.to_string().contains("carrier-pigeon"), "{error}");
    }
}
