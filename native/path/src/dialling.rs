//! The dialling end opens the streams, and opens them again when they are lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::connection::authentication::{Authentication, Progress, Protection};
use xmml_wire::handshake::Role;
use xmml_wire::methods::Stream as Wire;
use xmml_wire::wakeup::{Epoll, Interest};

use super::frame::{PathFrame, PathId, Receipt};
use super::settings::Settings;
use super::socket::TcpWire;
use super::stream::{Heard, Stream};
use super::tcp_info::TcpInfo;
use super::tls::TlsWire;
use crate::identity::Identity;

/// How long after a failure a stream is tried again; doubled with each failure.
const RETRY: Duration = Duration::from_millis(20);

/// At most so long: that much may be lost behind the return of an end that was away for long.
const RETRY_MOST: Duration = Duration::from_millis(500);

/// How long the other end may take to answer an attach.
const ANSWER: Duration = Duration::from_secs(10);

/// How far one stream is.
enum Step {
    /// To be dialled then.
    Waiting(Instant),
    /// Proving who we are.
    Greeting(u64, Box<Authentication>),
    /// Waiting for the other end to say what it has.
    Attaching(Arc<Stream>, Instant),
    /// In use.
    Carrying,
}

struct Slot {
    step: Step,
    failures: u32,
    /// How much had come by the path when the stream was lost last.
    progress: u64,
    /// Which of the addresses it was dialled at last.
    address: usize,
}

/// Why a stream could not be opened.
pub(super) struct Failure {
    pub reason: String,
    pub verdict: Verdict,
}

/// Whether trying again would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may.
    Again,
    /// The two ends did not accept each other.
    Strangers,
    /// The other end refused the stream or the path, with this code.
    Refused(u16),
}

/// See the module.
pub(super) struct Dialling {
    identity: Identity,
    peer: String,
    addresses: Vec<SocketAddr>,
    /// Which of them is dialled at present.
    address: usize,
    slots: Vec<Slot>,
    wanted: u32,
    /// Why no stream could be opened, the last time.
    pub last_reason: Option<String>,
    /// What the first connection took to stand.
    pub round_trip: Option<Duration>,
    resumes: bool,
    was_known: bool,
}

impl Dialling {
    pub fn new(identity: Identity, peer: String, addresses: Vec<SocketAddr>, wanted: u32) -> Dialling {
        Dialling {
            identity,
            peer,
            addresses,
            address: 0,
            slots: Vec::new(),
            wanted,
            last_reason: None,
            round_trip: None,
            resumes: false,
            was_known: false,
        }
    }

    /// So many streams from now on.
    pub fn want(&mut self, count: u32) {
        self.wanted = count;
    }

    /// The streams in use that are more than wanted.
    pub fn spare(&self) -> Vec<u32> {
        let spare = self.slots.iter().enumerate().skip(self.wanted as usize);
        spare.filter(|(_, slot)| matches!(slot.step, Step::Carrying)).map(|(at, _)| at as u32).collect()
    }

    /// A stream that was in use is gone; so much has come by the path until now. It is opened again at once, unless it was lost before and
    /// nothing has come since: then streams come about and bring nothing.
    pub fn lost(&mut self, id: u32, was_retired: bool, progress: u64) {
        let Some(slot) = self.slots.get_mut(id as usize) else { return };
        if std::mem::replace(&mut slot.progress, progress) != progress || was_retired {
            slot.failures = 0;
        }
        let delay = slot.failures.checked_sub(1).map_or(Duration::ZERO, pause);
        slot.failures += u32::from(!was_retired);
        slot.step = Step::Waiting(Instant::now() + delay);
    }

    /// When there is something to be done next.
    pub fn next_time(&self) -> Option<Instant> {
        if self.slots.len() < self.wanted as usize {
            return Some(Instant::now());
        }
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(number, slot)| match &slot.step {
                Step::Waiting(at) if number < self.wanted as usize => Some(*at),
                Step::Waiting(_) | Step::Carrying => None,
                Step::Attaching(_, at) => Some(*at),
                Step::Greeting(_, greeting) => Some(greeting.deadline),
            })
            .min()
    }

    /// Dials what is due, and gives up what takes too long.
    pub fn pass_time(
        &mut self,
        now: Instant,
        settings: &Settings,
        epoll: &Arc<Epoll>,
        resumes: bool,
        next_token: &mut u64,
    ) -> Vec<Failure> {
        self.resumes = resumes;
        while self.slots.len() < self.wanted as usize {
            self.slots.push(Slot { step: Step::Waiting(now), failures: 0, progress: 0, address: self.address });
        }
        let mut failures = Vec::new();
        for at in 0..self.slots.len() {
            let failure = match &self.slots[at].step {
                Step::Waiting(time) if *time <= now && at < self.wanted as usize => {
                    *next_token += 1;
                    self.dial(at, *next_token, settings, epoll).err()
                }
                Step::Greeting(_, greeting) if greeting.deadline <= now => {
                    Some("it did not prove who it is in time".to_owned())
                }
                Step::Attaching(_, until) if *until <= now => Some("it did not take the stream in time".to_owned()),
                _ => None,
            };
            if let Some(reason) = failure {
                failures.push(self.failed(at, reason, Verdict::Again, epoll));
            }
        }
        failures
    }

    fn dial(&mut self, at: usize, token: u64, settings: &Settings, epoll: &Arc<Epoll>) -> Result<(), String> {
        self.slots[at].address = self.address;
        let target = self.addresses[self.address];
        let wire = TcpWire::connect(target, settings).map_err(|error| error.to_string())?;
        let mut wire: Box<dyn Wire> = Box::new(wire);
        if let Some(tls) = &self.identity.tls {
            wire = Box::new(TlsWire::client(wire, tls).map_err(|error| error.to_string())?);
        }
        let party = self.identity.party().map_err(|error| error.to_string())?;
        let greeting = Authentication::dial(wire, party, Role::Path, &self.peer, Protection::Never);
        let greeting = greeting.map_err(|error| error.to_string())?;
        let writable = Interest { read: false, write: true, close: false };
        epoll.add(greeting.fd(), token, writable).map_err(|error| error.to_string())?;
        self.slots[at].step = Step::Greeting(token, Box::new(greeting));
        Ok(())
    }

    /// Something happened to a stream that is not in use yet; returns it with what the other end has when it can be used.
    #[allow(clippy::type_complexity)]
    pub fn serve(
        &mut self,
        token: u64,
        epoll: &Arc<Epoll>,
        id: PathId,
        have: &mut dyn FnMut() -> [Receipt; 2],
    ) -> Result<Option<(Arc<Stream>, [Receipt; 2])>, Failure> {
        let found = self.slots.iter().position(|slot| match &slot.step {
            Step::Greeting(other, _) => *other == token,
            Step::Attaching(stream, _) => stream.token == token,
            _ => false,
        });
        let Some(at) = found else { return Ok(None) };
        let step = std::mem::replace(&mut self.slots[at].step, Step::Waiting(Instant::now()));
        match step {
            Step::Greeting(_, greeting) => self.greet(at, token, *greeting, epoll, id, have).map(|()| None),
            Step::Attaching(stream, until) => match self.await_answer(&stream) {
                Ok(None) => {
                    self.slots[at].step = Step::Attaching(stream, until);
                    Ok(None)
                }
                Ok(Some(have)) => {
                    self.slots[at].step = Step::Carrying;
                    Ok(Some((stream, have)))
                }
                Err((reason, verdict)) => {
                    self.slots[at].step = Step::Attaching(stream, until);
                    Err(self.failed(at, reason, verdict, epoll))
                }
            },
            other => {
                self.slots[at].step = other;
                Ok(None)
            }
        }
    }

    fn greet(
        &mut self,
        at: usize,
        token: u64,
        greeting: Authentication,
        epoll: &Arc<Epoll>,
        id: PathId,
        have: &mut dyn FnMut() -> [Receipt; 2],
    ) -> Result<(), Failure> {
        let fd = greeting.fd();
        if self.round_trip.is_none() {
            self.round_trip = TcpInfo::of(fd).map(|info| info.round_trip).filter(|time| !time.is_zero());
        }
        match greeting.advance() {
            (Some(greeting), Progress::Wait(interest)) => {
                if let Err(error) = epoll.change(fd, token, interest) {
                    return Err(self.failed(at, error.to_string(), Verdict::Again, epoll));
                }
                self.slots[at].step = Step::Greeting(token, Box::new(greeting));
                Ok(())
            }
            (_, Progress::Done { stream: wire, rest, .. }) => {
                let stream = Arc::new(Stream::new(at as u32, token, wire.into(), epoll.clone(), &rest));
                stream.push(&PathFrame::Attach { id, stream: at as u32, resumes: self.resumes, have: have() });
                let status = epoll.change(fd, token, Interest::READ).map_err(|error| error.to_string());
                let status = status.and_then(|()| stream.write(None, 0));
                self.was_known = true;
                self.slots[at].step = Step::Attaching(stream, Instant::now() + ANSWER);
                status.map_err(|reason| self.failed(at, reason, Verdict::Again, epoll))
            }
            (_, Progress::Refused { reason, by_us }) => {
                let verdict = if by_us { Verdict::Strangers } else { Verdict::Again };
                Err(self.failed(at, reason, verdict, epoll))
            }
            (None, Progress::Wait(_)) => unreachable!("a handshake that waits is still there"),
        }
    }

    #[allow(clippy::type_complexity)]
    fn await_answer(&self, stream: &Stream) -> Result<Option<[Receipt; 2]>, (String, Verdict)> {
        // It may have said why it closes the stream.
        let written = stream.write(None, 0).map_err(|reason| (reason, Verdict::Again));
        match stream.read(None).map_err(|reason| (reason, Verdict::Again))? {
            Heard::Nothing | Heard::More => written.map(|()| None),
            Heard::Frame(PathFrame::Attached { have }) => Ok(Some(have)),
            Heard::Frame(PathFrame::Refused { code, reason }) => Err((reason, Verdict::Refused(code))),
            Heard::Frame(other) => Err((format!("it answers with {other:?}"), Verdict::Strangers)),
        }
    }

    fn failed(&mut self, at: usize, reason: String, verdict: Verdict, epoll: &Arc<Epoll>) -> Failure {
        let slot = &mut self.slots[at];
        // Streams that fail together go to the next address together: the first of them says so for all.
        if slot.address == self.address {
            self.address = (self.address + 1) % self.addresses.len();
        }
        if let Step::Attaching(stream, _) = &slot.step {
            epoll.remove(stream.wire.fd());
            stream.wire.shut();
        }
        slot.step = Step::Waiting(Instant::now() + pause(slot.failures));
        slot.failures += 1;
        self.last_reason = Some(reason.clone());
        Failure { reason, verdict }
    }

    /// The same for one stream, which says that the path has ended.
    pub fn again_for_one(&self) -> Dialling {
        let same = Dialling::new(self.identity.clone(), self.peer.clone(), self.addresses.clone(), 1);
        Dialling { address: self.address, ..same }
    }

    /// Whether the other end may know of the path.
    pub fn was_known(&self) -> bool {
        self.was_known
    }

    /// Gives away the streams whose ends know each other, while the other has not said what it has.
    pub fn take_attaching(&mut self) -> Vec<Arc<Stream>> {
        let take = |slot: &mut Slot| match &slot.step {
            Step::Attaching(stream, _) => {
                let stream = stream.clone();
                slot.step = Step::Waiting(Instant::now());
                Some(stream)
            }
            _ => None,
        };
        self.slots.iter_mut().filter_map(take).collect()
    }

    /// Opens nothing more.
    pub fn stop(&mut self, epoll: &Arc<Epoll>) {
        self.wanted = 0;
        for slot in self.slots.drain(..) {
            if let Step::Attaching(stream, _) = &slot.step {
                epoll.remove(stream.wire.fd());
                stream.wire.shut();
            }
        }
    }
}

/// How long after so many failures and one more a stream is tried again.
fn pause(failures: u32) -> Duration {
    RETRY.saturating_mul(1 << failures.min(10)).min(RETRY_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_20_ms_up_to_half_a_second() {
        let pauses = [0, 1, 2, 3, 4, 5, 1000].map(|failures| pause(failures).as_millis());
        assert_eq!(pauses, [20, 40, 80, 160, 320, 500, 500]);
    }
}
