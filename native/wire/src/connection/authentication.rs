//! Carrying out the handshake on a stream, without waiting. Until it is done, a peer may send [`MAX_BYTES`] bytes within
//! [`TIMEOUT_S`] seconds and no more.

use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use crate::error::{explained, Result};
use crate::handshake::{Dialler, Established, Listener, Party, Role, SessionKeys, Step, MAX_BYTES, TIMEOUT_S};
use crate::methods::Stream;
use crate::protection::ProtectedStream;
use crate::wakeup::Interest;

/// Why a handshake ended, if the peer does not say.
const CLOSED: &str = "it closed the connection during the handshake";

enum Side {
    Dialler(Dialler),
    Listener(Listener),
}

/// A handshake under way.
pub struct Authentication {
    stream: Box<dyn Stream>,
    side: Side,
    out: Vec<u8>,
    seen: usize,
    outcome: Option<Outcome>,
    /// When the peer must have proved itself.
    pub deadline: Instant,
}

struct Outcome {
    established: Established,
    rest: Vec<u8>,
    keys: Option<SessionKeys>,
}

/// Which connections are protected: see [`crate::protection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Those whose bytes leave the host.
    BeyondHost,
    /// This one, wherever it leads.
    Always,
    /// Not this one.
    Never,
}

/// How far a handshake is.
pub enum Progress {
    /// Call again when the stream is ready for this.
    Wait(Interest),
    /// The peer has proved itself.
    Done {
        /// The stream, whose next bytes are frames.
        stream: Box<dyn Stream>,
        /// What was agreed.
        established: Established,
        /// Bytes of the first frames, already read.
        rest: Vec<u8>,
    },
    /// It has not, and will not.
    Refused {
        /// Why, for people.
        reason: String,
        /// This side turned the other away (else the other end or the network did).
        by_us: bool,
    },
}

impl Authentication {
    /// Opens a connection to the instance called `peer` (or `coordinator`).
    pub fn dial(
        stream: Box<dyn Stream>,
        me: Party,
        role: Role,
        peer: &str,
        protection: Protection,
    ) -> Result<Authentication> {
        let is_protected = match protection {
            Protection::BeyondHost => stream.leaves_host(),
            Protection::Always => true,
            Protection::Never => false,
        };
        let (dialler, hello) = Dialler::new(me, role, peer, is_protected)?;
        Ok(Authentication::new(stream, Side::Dialler(dialler), hello))
    }

    /// Answers a connection that was accepted.
    pub fn answer(stream: Box<dyn Stream>, me: Party, roles: &[Role]) -> Result<Authentication> {
        let listener = Listener::new(me, roles)?.leaving_host(stream.leaves_host());
        Ok(Authentication::new(stream, Side::Listener(listener), Vec::new()))
    }

    fn new(stream: Box<dyn Stream>, side: Side, out: Vec<u8>) -> Authentication {
        let deadline = Instant::now() + Duration::from_secs(TIMEOUT_S);
        Authentication { stream, side, out, seen: 0, outcome: None, deadline }
    }

    /// For poll and epoll.
    pub fn fd(&self) -> RawFd {
        self.stream.fd()
    }

    /// The other end, for people.
    pub fn peer(&self) -> &str {
        self.stream.peer()
    }

    /// Goes on as far as the stream allows. After anything but `Wait` the authentication is used up.
    pub fn advance(mut self) -> (Option<Authentication>, Progress) {
        match self.step() {
            Ok(interest) => (Some(self), Progress::Wait(interest)),
            Err(End::Done) => match self.outcome {
                Some(outcome) => (None, opened(self.stream, outcome)),
                None => unreachable!("a handshake is done only with an outcome"),
            },
            Err(End::Refused { reason, by_us }) => {
                self.stream.shut();
                (None, Progress::Refused { reason, by_us })
            }
        }
    }

    fn step(&mut self) -> std::result::Result<Interest, End> {
        loop {
            if !self.write()? {
                let room = Interest { read: false, write: true, close: false };
                return Ok(self.stream.opening().unwrap_or(room));
            }
            if self.outcome.is_some() {
                return Err(End::Done);
            }
            let mut bytes = [0u8; MAX_BYTES];
            let allowed = MAX_BYTES - self.seen;
            if allowed == 0 {
                let reason = format!("it sent {MAX_BYTES} bytes without proving who it is");
                return Err(End::Refused { reason, by_us: true });
            }
            let count = match self.stream.read(&mut bytes[..allowed]) {
                Ok(0) => return Err(End::theirs(CLOSED)),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(self.stream.opening().unwrap_or(Interest::READ))
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The stream itself cannot accept the other end.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(End::Refused { reason: error.to_string(), by_us: true });
                }
                Err(error) => return Err(End::broken(&error)),
            };
            self.seen += count;
            let channel = self.stream.channel().map_err(|error| End::broken(&error))?;
            let step = match &mut self.side {
                Side::Dialler(dialler) => {
                    dialler.bind(channel);
                    dialler.feed(&bytes[..count])
                }
                Side::Listener(listener) => {
                    listener.bind(channel);
                    listener.feed(&bytes[..count])
                }
            };
            match step {
                Step::More => {}
                Step::Send(send) => self.out.extend_from_slice(&send),
                Step::Done { send, established, rest, keys } => {
                    self.out.extend_from_slice(&send);
                    self.outcome = Some(Outcome { established, rest, keys });
                }
                Step::Refused { send, reason } => {
                    self.out.extend_from_slice(&send);
                    let _ = self.write(); // courtesy: the peer learns why, if it still listens
                    return Err(End::Refused { reason: reason.to_string(), by_us: true });
                }
            }
        }
    }

    /// Whether everything is out.
    fn write(&mut self) -> std::result::Result<bool, End> {
        while !self.out.is_empty() {
            match self.stream.write(&[IoSlice::new(&self.out)]) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(End::broken(&error)),
            }
        }
        match self.stream.flush() {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => Ok(false),
            Err(error) => Err(End::broken(&error)),
        }
    }
}

/// The connection that a handshake has led to.
fn opened(stream: Box<dyn Stream>, Outcome { established, rest, keys }: Outcome) -> Progress {
    let Some(keys) = keys else { return Progress::Done { stream, established, rest } };
    match ProtectedStream::new(stream, &keys, rest) {
        Ok((stream, rest)) => Progress::Done { stream: Box::new(stream), established, rest },
        Err(error) => Progress::Refused { reason: error.to_string(), by_us: true },
    }
}

enum End {
    Done,
    Refused { reason: String, by_us: bool },
}

impl End {
    /// Whether the peer closed the connection shows in one of several ways, as chance has it.
    fn broken(error: &io::Error) -> End {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => End::theirs(CLOSED),
            _ => End::theirs(&explained(error)),
        }
    }

    fn theirs(reason: &str) -> End {
        End::Refused { reason: reason.to_owned(), by_us: false }
    }
}
