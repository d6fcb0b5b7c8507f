//! A name that is registered at a relay: the connection on which the relay announces streams, made again whenever it is lost.
//!
//! One descriptor stands for the connection and for the time: an epoll that holds both.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::address::{NameAddress, RelayAddress};
use super::asking::{answer, write_out, Asking, Inbox, Progress};
use super::hosts;
use super::protocol::{FromRelay, ToRelay};
use super::stream::{unreachable_relay, RelayStream};
use crate::frame::encode_alive;
use crate::handshake::{Party, TIMEOUT_S};
use crate::liveness::backoff::Backoff;
use crate::liveness::heartbeat::{beat, silence_limit, HeartbeatTimer};
use crate::methods::{tcp, Listener, Stream};
use crate::wakeup::{Epoll, Interest, Timer};

/// How long the relay may be out of reach before people hear of it.
const TROUBLE_AFTER: Duration = Duration::from_secs(3);

const CONNECTION: u64 = 0;
const TIME: u64 = 1;

/// See the module.
pub struct RelayListener {
    relay: RelayAddress,
    me: Party,
    epoll: Epoll,
    timer: Timer,
    silence_limit: Duration,
    registration: RefCell<Registration>,
}

struct Registration {
    state: State,
    attempts: Backoff,
    /// Since when the name is not registered, and whether people know.
    trouble: Option<(Instant, bool)>,
}

enum State {
    Resting { until: Instant },
    Asking { connection: Box<dyn Stream>, asking: Box<Asking>, deadline: Instant },
    Registered { connection: Box<dyn Stream>, inbox: Inbox, out: Vec<u8>, pulse: HeartbeatTimer, next_beat: Instant },
}

/// What a look at the registration found.
enum Found {
    Nothing,
    /// Somebody opens a stream.
    Incoming {
        ticket: u64,
        site: String,
        name: String,
    },
}

impl RelayListener {
    /// Begins to register `me`.
    pub fn new(relay: RelayAddress, me: &Party) -> io::Result<RelayListener> {
        hosts::prepare(&relay.at);
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        epoll.add(timer.as_raw_fd(), TIME, Interest::READ)?;
        let now = Instant::now();
        let registration =
            Registration { state: State::Resting { until: now }, attempts: Backoff::new(Duration::MAX), trouble: None };
        let listener = RelayListener {
            relay,
            me: me.clone(),
            epoll,
            timer,
            silence_limit: silence_limit(),
            registration: RefCell::new(registration),
        };
        // The first attempt is made when the thread that watches this first looks: at once.
        listener.timer.set(Some(now));
        Ok(listener)
    }

    fn drive(&self, registration: &mut Registration) -> io::Result<Found> {
        self.timer.lower();
        loop {
            let now = Instant::now();
            match self.step(&mut registration.state, now) {
                Ok(None) => {
                    let due = match &registration.state {
                        State::Resting { until } => *until,
                        State::Asking { deadline, .. } => *deadline,
                        State::Registered { next_beat, .. } => *next_beat,
                    };
                    self.timer.set(Some(due));
                    return Ok(Found::Nothing);
                }
                Ok(Some(Step::Go)) => {}
                Ok(Some(Step::Registered)) => {
                    registration.attempts.succeeded();
                    registration.trouble = None;
                }
                Ok(Some(Step::Incoming(found))) => return Ok(found),
                Err(error) => {
                    // To close it is not enough: a child after fork may hold a copy of it.
                    if let State::Asking { connection, .. } | State::Registered { connection, .. } = &registration.state
                    {
                        self.epoll.remove(connection.fd());
                    }
                    hosts::doubt(&self.relay.at);
                    let pause = registration.attempts.failed(now).unwrap_or(now + Duration::from_secs(1));
                    registration.state = State::Resting { until: pause };
                    let (since, told) = *registration.trouble.get_or_insert((now, false));
                    if !told && now - since >= TROUBLE_AFTER {
                        registration.trouble = Some((since, true));
                        self.timer.set(Some(pause));
                        return Err(unreachable_relay(&self.relay.at, &error));
                    }
                }
            }
        }
    }

    /// Takes the registration one step further; `None`: nothing to do before the descriptor or the time says so.
    fn step(&self, state: &mut State, now: Instant) -> io::Result<Option<Step>> {
        match state {
            State::Resting { until } if *until > now => Ok(None),
            State::Resting { .. } => {
                let silence_ms = u64::try_from(self.silence_limit.as_millis()).unwrap_or(u64::MAX);
                let request = ToRelay::Register { site: self.relay.site.clone(), silence_ms };
                let asking = Box::new(Asking::new(&self.me, request)?);
                let connection = tcp::dial(&hosts::addresses(&self.relay.at)?, &self.relay.at)?;
                let first = Interest { read: false, write: true, close: false };
                self.epoll.add(connection.fd(), CONNECTION, first)?;
                *state = State::Asking { connection, asking, deadline: now + Duration::from_secs(TIMEOUT_S) };
                Ok(Some(Step::Go))
            }
            State::Asking { connection, asking, deadline } => match asking.advance(&**connection)? {
                Progress::Wait(interest) => {
                    self.epoll.change(connection.fd(), CONNECTION, interest)?;
                    match *deadline > now {
                        true => Ok(None),
                        false => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer")),
                    }
                }
                Progress::Answered(FromRelay::Registered {}) => {
                    hosts::found(&self.relay.at, connection.fd());
                    self.epoll.change(connection.fd(), CONNECTION, Interest::READ)?;
                    let rest = State::Resting { until: now };
                    if let State::Asking { connection, .. } = std::mem::replace(state, rest) {
                        let next_beat = now + beat(self.silence_limit);
                        let (inbox, pulse) = (Inbox::default(), HeartbeatTimer::begin());
                        *state = State::Registered { connection, inbox, out: Vec::new(), pulse, next_beat };
                    }
                    Ok(Some(Step::Registered))
                }
                Progress::Answered(_) => Err(io::Error::other("it answered something else than was asked")),
            },
            State::Registered { connection, inbox, out, pulse, next_beat } => {
                if let Some((kind, frame)) = inbox.next(&**connection)? {
                    pulse.hear();
                    return Ok(Some(match answer(kind, &frame[crate::frame::HEAD..])? {
                        Some(FromRelay::Incoming { ticket, site, name }) => {
                            Step::Incoming(Found::Incoming { ticket, site, name })
                        }
                        Some(FromRelay::Refused { reason }) => return Err(io::Error::other(reason)),
                        Some(_) => return Err(io::Error::other("it answered what was not asked")),
                        None => Step::Go,
                    }));
                }
                if pulse.silent_for() >= self.silence_limit {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it has fallen silent"));
                }
                if *next_beat <= now {
                    *next_beat = now + beat(self.silence_limit);
                    if out.is_empty() {
                        out.extend_from_slice(&encode_alive());
                    }
                    write_out(out, &**connection)?; // what finds no room goes out with the next beat
                }
                Ok(None)
            }
        }
    }
}

enum Step {
    Go,
    Registered,
    Incoming(Found),
}

impl Listener for RelayListener {
    fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    fn addresses(&self) -> Vec<String> {
        vec![NameAddress { relay: self.relay.clone(), name: self.me.name.clone() }.to_string()]
    }

    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>> {
        let mut registration = self.registration.borrow_mut();
        loop {
            let Found::Incoming { ticket, site, name } = self.drive(&mut registration)? else { return Ok(None) };
            let from = format!("relay, from {name} at {site}");
            // Who opened it hears from the relay that nobody took it, and tries again.
            if let Ok(stream) = RelayStream::ask(&self.relay.at, &self.me, ToRelay::Take { ticket }, from) {
                return Ok(Some(Box::new(stream)));
            }
        }
    }
}
