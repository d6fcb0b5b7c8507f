//! Coming back to the coordinator when the connection to it has broken: its addresses are dialled in order, again and again for a while,
//! and where it answers the conversation goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::buffer::BufferPool;
use xmml_wire::connection::authentication::{Authentication, Protection};
use xmml_wire::connection::Connection;
use xmml_wire::error::{explained, Error};
use xmml_wire::frame::Limits;
use xmml_wire::handshake::Role;
use xmml_wire::liveness::backoff::Backoff;
use xmml_wire::liveness::fruitless::Fruitless;
use xmml_wire::methods::{self, Stream, TrafficKind};
use xmml_wire::wakeup::Interest;

use crate::control::{Again, ToCoordinator};
use crate::coordinator::CoordinatorAddress;
use crate::runtime::standing::CoordinatorLost;
use crate::runtime::COORDINATOR_GRACE;

use super::{IoThread, Purpose, Timer, CONTROL};

/// From the loss of a connection to the first attempt to make another.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// A connection that breaks within so long after it was made again counts with those before it: the next pause is longer.
const STEADY: Duration = Duration::from_secs(10);

/// How long a coordinator that was reached may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// See the module.
pub struct Rejoining {
    addresses: Vec<CoordinatorAddress>,
    token: Vec<u8>,
    limit: Duration,
    attempts: Backoff,
    /// Connections in a row that broke soon after the coordinator had taken the instance back.
    breaks: Backoff,
    /// Connections in a row that broke before anything had passed that waited.
    fruitless: Fruitless,
    /// When it did so last.
    back_at: Option<Instant>,
    /// The address to be tried next.
    next: usize,
    /// Why those before it did not lead there.
    problems: Vec<String>,
    /// The coordinator was reached, and must have answered by then.
    answer_by: Option<Instant>,
}

impl Rejoining {
    /// As the coordinator has allowed it, at the addresses that led to it at first.
    pub fn new(addresses: Vec<CoordinatorAddress>, again: Again) -> Rejoining {
        let limit = Duration::from_millis(again.limit_ms);
        Rejoining {
            addresses,
            token: again.token,
            limit,
            attempts: Backoff::new(limit),
            breaks: Backoff::new(Duration::MAX),
            fruitless: Fruitless::new(limit),
            back_at: None,
            next: 0,
            problems: Vec::new(),
            answer_by: None,
        }
    }

    /// How long to wait before the first attempt: the longer the oftener connections broke that had only just been made again.
    fn first_pause(&mut self, now: Instant) -> Duration {
        let is_steady = self.back_at.is_none_or(|back| now.duration_since(back) >= STEADY);
        if is_steady {
            self.breaks.succeeded();
            return FIRST_PAUSE;
        }
        self.breaks.failed(now).map_or(FIRST_PAUSE, |again| again - now)
    }
}

/// A connection to the coordinator, over a stream that was authenticated.
pub fn control_connection(
    method: &'static str,
    stream: Box<dyn Stream>,
    rest: &[u8],
) -> Result<Arc<Connection>, String> {
    let limits = Limits { message: 0, descriptor: 0, ..Limits::default() };
    let name = "the coordinator".to_owned();
    let connection = Connection::new(CONTROL, method, false, name, stream, BufferPool::new(), limits);
    connection.reader().stage(rest).map_err(|error| error.to_string())?;
    Ok(Arc::new(connection))
}

impl IoThread {
    /// The connection to the coordinator is broken. Whatever the reason, from here it looks the same; the coordinator's own side knows more.
    pub(super) fn coordinator_lost(&mut self, reason: &str) {
        self.part_from_coordinator(reason, false);
    }

    /// What came was changed on its way. Another connection may be better; people are told.
    pub(super) fn coordinator_changed_on_its_way(&mut self, problem: &str) {
        let text = format!("the coordinator: {problem}; it is said again over a new connection");
        self.runtime.control.say(&ToCoordinator::Warning { text });
        self.part_from_coordinator(problem, true);
    }

    fn part_from_coordinator(&mut self, reason: &str, lacks_something: bool) {
        let connection = self.runtime.control.connection();
        if !connection.is_closed() {
            self.epoll.remove(connection.fd());
        }
        let left = self.runtime.control.lose();
        let now = Instant::now();
        let mut state = self.runtime.state();
        let is_over =
            matches!(state.standing.over, Some(Error::Aborted { .. })) || state.standing.farewell || left.is_none();
        if let (Some(rejoining), Some((progress, waits))) = (&mut self.rejoining, left) {
            let is_first = state.standing.coordinator_lost.is_none() && !is_over;
            if is_first && rejoining.fruitless.lost(progress, waits || lacks_something, now).is_none() {
                let limit = rejoining.limit.as_secs_f64();
                let problem =
                    format!("for {limit} s every connection to it broke before anything had passed: {reason}");
                state.standing.over.get_or_insert(Error::Protocol { peer: "the coordinator".into(), problem });
                self.rejoining = None;
            }
        }
        let rejoining = self.rejoining.as_mut().filter(|_| !is_over);
        let limit = rejoining.as_ref().map_or(COORDINATOR_GRACE, |rejoining| rejoining.limit);
        let for_good = rejoining.is_none();
        let was_there = state.standing.coordinator_lost.is_none();
        let lost = state.standing.coordinator_lost.get_or_insert_with(|| CoordinatorLost {
            since: now,
            limit,
            for_good,
            problem: String::new(),
        });
        lost.for_good |= for_good;
        self.runtime.attract_attention(&state);
        drop(state);
        let Some(rejoining) = rejoining else { return };
        rejoining.answer_by = None;
        if was_there {
            rejoining.attempts.begin(now);
            rejoining.problems.clear();
            rejoining.next = 0;
            let pause = rejoining.first_pause(now);
            self.timers.push((now + pause, Timer::Rejoin));
        } else {
            self.not_reached(format!("it broke again: {reason}"));
        }
    }

    /// The connection is broken, and another one would be no better.
    pub(super) fn coordinator_lost_for_good(&mut self) {
        self.rejoining = None;
        self.coordinator_lost("");
    }

    /// Dials the next address of the coordinator.
    pub(super) fn rejoin(&mut self) {
        loop {
            let Some(rejoining) = &mut self.rejoining else { return };
            let Some(address) = rejoining.addresses.get(rejoining.next).cloned() else {
                return self.rest_before_rejoining();
            };
            rejoining.next += 1;
            let Some(method) = methods::by_name(&address.method) else { continue };
            let dialled = self.runtime.identity.party().map_err(|error| error.to_string()).and_then(|me| {
                let stream = method.connect(&address.address, &me, TrafficKind::CONTROL);
                let stream = stream.map_err(|error| explained(&error))?;
                Authentication::dial(stream, me, Role::Control, "coordinator", Protection::BeyondHost)
                    .map_err(|error| error.to_string())
            });
            match dialled {
                Ok(authentication) => {
                    let purpose = Purpose::Coordinator { method: method.name() };
                    return self.begin_handshake(authentication, purpose);
                }
                Err(problem) => rejoining.problems.push(format!("{}:{}: {problem}", address.method, address.address)),
            }
        }
    }

    /// An address did not lead to the coordinator.
    pub(super) fn not_reached(&mut self, problem: String) {
        let Some(rejoining) = &mut self.rejoining else { return };
        let tried = rejoining.addresses.get(rejoining.next.saturating_sub(1));
        let tried = tried.map_or_else(String::new, |address| format!("{}:{}: ", address.method, address.address));
        rejoining.problems.push(format!("{tried}{problem}"));
        self.rejoin();
    }

    /// None of the addresses has led there: tries again later, unless there was time enough.
    fn rest_before_rejoining(&mut self) {
        let Some(rejoining) = &mut self.rejoining else { return };
        let now = Instant::now();
        let again = rejoining.attempts.failed(now);
        rejoining.next = 0;
        let problems = std::mem::take(&mut rejoining.problems).join("; ");
        let tried = rejoining.attempts.tried(now);
        let mut state = self.runtime.state();
        if let Some(lost) = &mut state.standing.coordinator_lost {
            lost.problem = format!("{tried}: {problems}");
            lost.for_good = again.is_none();
        }
        match again {
            Some(again) => self.timers.push((again, Timer::Rejoin)),
            None => {
                self.rejoining = None;
                self.runtime.attract_attention(&state);
            }
        }
    }

    /// The handshake with the coordinator is done: says who comes back.
    pub(super) fn reached_coordinator(&mut self, method: &'static str, stream: Box<dyn Stream>, rest: &[u8]) {
        let Some(rejoining) = &mut self.rejoining else { return };
        let connection = match control_connection(method, stream, rest) {
            Ok(connection) => connection,
            Err(problem) => return self.not_reached(problem),
        };
        if !self.runtime.control.come_back_by(&connection, &rejoining.token) {
            connection.close();
            return self.coordinator_lost_for_good();
        }
        let by = Instant::now() + ANSWER_LIMIT;
        rejoining.answer_by = Some(by);
        self.timers.push((by, Timer::TakenBack));
        self.control_interest = Interest::READ;
        if let Err(error) = self.epoll.add(connection.fd(), CONTROL, Interest::READ) {
            return self.coordinator_lost(&explained(&error));
        }
        self.look_after(&connection);
        self.runtime.flush(&connection);
    }

    /// The coordinator has taken the instance back, and has so many of its messages.
    pub(super) fn taken_back(&mut self, heard: u64) -> Result<(), String> {
        let Some(rejoining) = &mut self.rejoining else { return Err("nobody asked for that".to_owned()) };
        if rejoining.answer_by.take().is_none() {
            return Err("nobody asked for that".to_owned());
        }
        rejoining.attempts.succeeded();
        rejoining.back_at = Some(Instant::now());
        rejoining.problems.clear();
        let mut state = self.runtime.state();
        let connection = self.runtime.control.go_on(heard)?;
        state.standing.coordinator_lost = None;
        self.runtime.attract_attention(&state);
        drop(state);
        self.runtime.flush(&connection);
        Ok(())
    }

    /// Gives up a connection over which the coordinator does not answer.
    pub(super) fn look_whether_taken_back(&mut self, now: Instant) {
        let is_late = |rejoining: &Rejoining| rejoining.answer_by.is_some_and(|by| by <= now);
        if self.rejoining.as_ref().is_some_and(is_late) {
            self.coordinator_lost("it does not answer");
        }
    }
}
