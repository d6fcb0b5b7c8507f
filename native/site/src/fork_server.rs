//! The supervisor's side of the fork server (`xmml_native.fork_server`): what it was asked for and has not answered, and
//! what comes then.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use serde::{Deserialize, Serialize};

use crate::program::{start, Common, Program, Streams};
use crate::protocol::Start;

/// What can be sent to it at once.
const LONGEST_PACKET: usize = 128 * 1024;
/// How many processes it is asked for before it has answered.
const FORKS_AT_ONCE: usize = 8;
/// How the names of variables begin that differ from instance to instance.
const ABOUT_ONE_INSTANCE: [&str; 2] = ["XMML_INSTANCE", "XMML_HOST"];

/// What goes with a process until it has been started: the ends of its pipes, and its logs.
pub trait Ends {
    /// The descriptors that go to the process: standard output, standard error, the pipe for the number of an error, its
    /// working folder, and the pipe of its reports if it hosts instances.
    fn of_process(&self) -> Vec<RawFd>;
}

/// A process that the fork server is to start.
pub struct ForkRequest<E> {
    /// The order that it is started by.
    pub order: Box<Start>,
    /// What goes with it.
    pub ends: E,
    packet: Vec<u8>,
}

/// What it is asked.
#[derive(Serialize)]
struct Request<'a> {
    name: &'a str,
    command: Vec<&'a str>,
    environ: HashMap<&'a str, &'a str>,
    parent: u32,
    cpus: Option<&'a [usize]>,
}

/// What it answers.
#[derive(Deserialize)]
pub struct Answer {
    /// The process that it has started.
    pub name: String,
    /// Its process id.
    pub pid: i32,
}

impl<E> ForkRequest<E> {
    /// Returns what the fork server is to be asked for; gives order and ends back if that is more than it can be told.
    ///
    /// # Errors
    /// The texts are too long, or are none that JSON can hold.
    #[allow(clippy::type_complexity)]
    pub fn new(
        order: Box<Start>,
        ends: E,
        environ: &[(OsString, OsString)],
    ) -> Result<ForkRequest<E>, (Box<Start>, E)> {
        match packet(&order, environ) {
            Some(packet) if packet.len() <= LONGEST_PACKET => Ok(ForkRequest { order, ends, packet }),
            _ => Err((order, ends)),
        }
    }
}

fn packet(order: &Start, environ: &[(OsString, OsString)]) -> Option<Vec<u8>> {
    let request = Request {
        name: &order.name,
        command: order.command.iter().map(|word| word.0.to_str()).collect::<Option<_>>()?,
        environ: environ.iter().map(|(name, value)| Some((name.to_str()?, value.to_str()?))).collect::<Option<_>>()?,
        parent: std::process::id(),
        cpus: order.cpus.as_deref(),
    };
    serde_json::to_vec(&request).ok()
}

/// The fork server.
pub struct ForkServer<E> {
    socket: Option<OwnedFd>,
    /// What it was asked for and has not answered, by name.
    pub asked: HashMap<String, ForkRequest<E>>,
    /// What it is still to be asked for.
    pub waiting: VecDeque<ForkRequest<E>>,
}

impl<E: Ends> ForkServer<E> {
    /// Starts it as the process of `order` would be started, less what belongs to its instance.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(order: &Start, environ: &[(OsString, OsString)], common: Common) -> io::Result<ForkServer<E>> {
        let (ours, theirs) = socket_pair()?;
        let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        let text = format!("from xmml_native.fork_server import serve; serve({})", theirs.as_raw_fd());
        let Some(interpreter) = order.command.first() else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let about_all = |name: &OsStr| {
            let name = name.to_string_lossy();
            !ABOUT_ONE_INSTANCE.iter().any(|beginning| name.starts_with(beginning))
        };
        let environment: Vec<_> = environ.iter().filter(|(name, _)| about_all(name)).cloned().collect();
        let program = Program {
            command: &[&interpreter.0, OsStr::new("-c"), OsStr::new(&text)],
            environment: &environment,
            folder: None,
            streams: Streams::Captured { stdout: nowhere.as_raw_fd(), stderr: 2 },
            kept: Some(theirs.as_raw_fd()),
            cpus: None,
        };
        start(&program, common)?;
        Ok(ForkServer::at(ours))
    }

    /// One that answers at the other end of a socket.
    fn at(socket: OwnedFd) -> ForkServer<E> {
        ForkServer { socket: Some(socket), asked: HashMap::new(), waiting: VecDeque::new() }
    }

    /// Returns its socket, to be polled; `None`: it is gone.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.socket.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Asks for what waits, as far as the server keeps up: it must never wait for us while we wait for it. Returns what
    /// it cannot be asked for.
    pub fn ask(&mut self) -> Vec<ForkRequest<E>> {
        let mut refused = Vec::new();
        let Some(socket) = &self.socket else { return self.waiting.drain(..).collect() };
        while self.asked.len() < FORKS_AT_ONCE {
            let Some(first) = self.waiting.front() else { break };
            let sent = send_with_descriptors(socket.as_raw_fd(), &first.packet, &first.ends.of_process());
            let busy = matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            if sent.is_err() && (busy || !self.asked.is_empty()) {
                break; // it is busy, and answers; or it is gone, and that shows when we read
            }
            let Some(first) = self.waiting.pop_front() else { break };
            match sent {
                Ok(()) => drop(self.asked.insert(first.order.name.clone(), first)),
                Err(_) => refused.push(first), // no answer would have us ask again
            }
        }
        refused
    }

    /// Returns what it has answered, if it has; notes if it is gone. Other trouble of the system passes: what is not
    /// read now is read when the poll tells of it again.
    pub fn answer(&mut self) -> Option<Answer> {
        let socket = self.socket.as_ref()?.as_raw_fd();
        let mut packet = vec![0; LONGEST_PACKET];
        // SAFETY: pointer and length describe `packet`.
        let count = unsafe { libc::recv(socket, packet.as_mut_ptr().cast(), packet.len(), 0) };
        let is_gone = match usize::try_from(count) {
            Ok(0) => true,
            Ok(count) => match serde_json::from_slice(&packet[..count]) {
                Ok(answer) => return Some(answer),
                Err(_) => true, // it is none of ours any more
            },
            Err(_) => {
                let error = io::Error::last_os_error().raw_os_error();
                matches!(error, Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNREFUSED | libc::ECONNABORTED))
            }
        };
        if is_gone {
            self.close();
        }
        None
    }

    /// Lets it end.
    pub fn close(&mut self) {
        self.socket = None;
    }
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two descriptors are written to `ends`, which are ours then.
    let (ours, theirs) = unsafe {
        if libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    // SAFETY: the descriptor is open; the other end stays one that waits.
    if unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((ours, theirs))
}

fn send_with_descriptors(socket: RawFd, packet: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    // SAFETY: all pointers are to live memory of the sizes that are said; the control buffer is aligned as its header
    // must be, and large enough for so many descriptors.
    unsafe {
        let bytes = size_of_val(descriptors) as u32;
        let mut control = vec![0u64; (libc::CMSG_SPACE(bytes) as usize).div_ceil(8)];
        let mut piece = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
        std::ptr::copy_nonoverlapping(descriptors.as_ptr(), libc::CMSG_DATA(header).cast(), descriptors.len());
        if libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Ends for Nothing {
        fn of_process(&self) -> Vec<RawFd> {
            vec![1, 2]
        }
    }

    fn order(name: &str, fill: usize) -> ForkRequest<Nothing> {
        let line = format!(
            r#"{{"do": "start", "name": "{name}", "command": ["sh"], "env": {{}}, "folder": "/", "terminal": null,
                "hosted": [], "fork": true}}"#
        );
        let environ = [("FILL".into(), "x".repeat(fill).into())];
        let order = Box::new(serde_json::from_str(&line).unwrap());
        ForkRequest::new(order, Nothing, &environ).unwrap_or_else(|_| panic!("it is too long"))
    }

    fn server() -> (ForkServer<Nothing>, OwnedFd) {
        let (ours, theirs) = socket_pair().unwrap();
        (ForkServer::at(ours), theirs)
    }

    #[test]
    fn what_it_cannot_be_asked_for_is_given_back_and_does_not_wait_for_good() {
        let (mut server, _theirs) = server();
        let socket = server.descriptor().unwrap();
        let room = 4096; // less than the order has
                         // SAFETY: the number outlives the call.
        let status =
            unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw const room).cast(), 4) };
        assert_eq!(status, 0);
        server.waiting.extend([order("a", 60_000), order("b", 60_000)]);
        let refused = server.ask();
        assert_eq!(refused.iter().map(|each| each.order.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(server.waiting.is_empty() && server.asked.is_empty());
    }

    #[test]
    fn one_that_has_not_answered_yet_is_not_gone() {
        let (mut server, theirs) = server();
        server.waiting.push_back(order("a", 0));
        assert!(server.ask().is_empty());
        assert!(server.answer().is_none()); // as when the poll has told of what cannot be read at the moment
        assert!(server.descriptor().is_some() && server.asked.contains_key("a"));
        let said = br#"{"name": "a", "pid": 7}"#;
        // SAFETY: pointer and length describe `said`.
        unsafe { libc::send(theirs.as_raw_fd(), said.as_ptr().cast(), said.len(), 0) };
        let answer = server.answer().unwrap();
        assert_eq!((answer.name.as_str(), answer.pid), ("a", 7));
        drop(theirs);
        assert!(server.answer().is_none());
        assert!(server.descriptor().is_none());
    }

    #[test]
    fn what_is_too_long_for_a_packet_is_not_asked_for() {
        let line = r#"{"name": "a", "command": ["sh"], "env": {}, "folder": "/", "terminal": null, "hosted": [],
            "fork": true}"#;
        let environ = [("FILL".into(), "x".repeat(LONGEST_PACKET).into())];
        assert!(ForkRequest::new(Box::new(serde_json::from_str(line).unwrap()), Nothing, &environ).is_err());
    }
}
