//! How a caller waits: it looks at the state, reads the connections that matter, spins while that is likely to pay, and sleeps in
//! poll(2) until a connection has something or the I/O thread raises its flag.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use xmml_wire::connection::Connection;
use xmml_wire::error::{Error, Result};
use xmml_wire::methods;
use xmml_wire::wakeup::{poll_readable, Polled};

use crate::control::ToCoordinator;
use crate::coordinator::{Wait, WaitKind};

use super::link::{connect_limit, Status, VERDICT_LIMIT};
use super::state::State;
use super::waiters::Flag;
use super::{Read, Runtime};

/// A wait that lasts longer is reported to the coordinator.
const REPORT_AFTER: Duration = Duration::from_millis(100);

/// A wait of one of several threads that lasts longer is told to people.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// A sender that cannot come again says why itself, and so much earlier than its receiver gives it up.
const SENDER_FIRST: Duration = Duration::from_secs(1);

/// How often a sleeping caller asks whether it was interrupted (a signal ends the sleep at once; this is for one that came just before).
const INTERRUPT_EVERY: Duration = Duration::from_secs(1);

/// Connections that a wait looks at; seldom more than one.
type Watched = SmallVec<[Arc<Connection>; 2]>;

/// While memory is looked at again and again, sockets are looked at this often: a look at a socket is a system call, even if it finds
/// nothing, and would make what comes through memory late.
const SOCKETS_EVERY: Duration = Duration::from_micros(20);

/// Which connections are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// All.
    All,
    /// Those through memory.
    Memory,
}

/// Glances at memory between two looks at the clock, which costs as much as several of them.
const GLANCES: u32 = 16;

/// Glances before the first look at the clock: a microsecond or two, in which a partner that only answers has answered.
const FIRST_GLANCES: u32 = 48;

/// What a caller waits for.
#[derive(Clone, Debug, Default)]
pub struct WaitFor {
    /// Sending ends whose receipts matter.
    pub sending: SmallVec<[usize; 2]>,
    /// Receiving ends whose messages matter.
    pub receiving: SmallVec<[usize; 2]>,
    /// The receiving ends that the coordinator is told of; none: all of them.
    pub told: SmallVec<[usize; 1]>,
    /// Open ports, by their places among those of the state: messages of all who have a handle of one matter.
    pub open: SmallVec<[usize; 1]>,
    /// Any one of these lets the caller go on; else it needs all of them.
    pub is_any: bool,
    /// The coordinator is told if it lasts.
    pub is_reported: bool,
    /// Readers have to deal with what they were given from backlogs.
    pub is_until_settled: bool,
}

impl WaitFor {
    /// A receipt on this sending end.
    pub fn room(end: usize) -> WaitFor {
        WaitFor { sending: SmallVec::from_slice(&[end]), is_reported: true, ..WaitFor::default() }
    }

    /// Room for an object at any of the readers at these sending ends.
    pub fn room_of_any(ends: &[usize]) -> WaitFor {
        WaitFor { sending: SmallVec::from_slice(ends), is_any: true, is_reported: true, ..WaitFor::default() }
    }

    /// Everything that readers at these sending ends were given from backlogs is settled.
    pub fn settled(ends: &[usize]) -> WaitFor {
        let sending = SmallVec::from_slice(ends);
        WaitFor { sending, is_reported: true, is_until_settled: true, ..WaitFor::default() }
    }

    /// A message on one of these receiving ends.
    pub fn messages(ends: &[usize]) -> WaitFor {
        WaitFor { receiving: SmallVec::from_slice(ends), is_reported: true, ..WaitFor::default() }
    }

    /// A message from any holder of a handle of this open port.
    pub fn holders(port: usize) -> WaitFor {
        WaitFor { open: SmallVec::from_slice(&[port]), is_any: true, is_reported: true, ..WaitFor::default() }
    }

    /// The same wait, which the coordinator need not know of.
    pub fn unreported(self) -> WaitFor {
        WaitFor { is_reported: false, ..self }
    }

    /// What to tell the coordinator.
    fn waits(&self, state: &State) -> Vec<Wait> {
        if self.is_until_settled {
            let unsettled = state.backlogs.unsettled().map(|end| state.conduits.sending[end].spec.id);
            return unsettled.map(|conduit| Wait { conduit, kind: WaitKind::Settled }).collect();
        }
        let sending = self.sending.iter().map(|end| &state.conduits.sending[*end]).filter(|end| !end.is_gone());
        let sending = sending.map(|end| (end.spec.id, WaitKind::Send));
        let told = if self.told.is_empty() { &self.receiving[..] } else { &self.told[..] };
        let receiving = told.iter().map(|end| &state.conduits.receiving[*end]);
        let receiving = receiving.filter(|end| !self.is_any || !end.is_finished());
        let receiving = receiving.map(|end| (end.spec.id, WaitKind::Receive));
        let holders = self.open.first().map(|_| (0, WaitKind::Holders));
        sending.chain(receiving).chain(holders).map(|(conduit, kind)| Wait { conduit, kind }).collect()
    }

    /// The receiving ends whose messages matter now; an open port may have more of them a moment later.
    fn receiving_ends<'a>(&'a self, state: &'a State) -> impl Iterator<Item = usize> + 'a {
        self.receiving.iter().copied().chain(self.open.iter().flat_map(|port| state.open.ends_of(*port)))
    }

    fn connections(&self, state: &State) -> Watched {
        let mut connections = Watched::new();
        let mut add = |connection: &Arc<Connection>| {
            if !connections.iter().any(|other| Arc::ptr_eq(other, connection)) {
                connections.push(connection.clone());
            }
        };
        for end in &self.sending {
            // A receiver answers on any of its connections: conduits to it that allow other methods have another one.
            let peer = &state.connections.links[state.conduits.sending[*end].link].peer;
            let to_peer = state.connections.outbound().filter(|connection| connection.peer == *peer);
            to_peer.for_each(&mut add);
        }
        for end in self.receiving_ends(state) {
            let list = state.connections.inbound_from(&state.conduits.receiving[end].spec.sender);
            let may_come =
                |connection: &&Arc<Connection>| list.len() == 1 || state.conduits.may_come_by(end, connection);
            list.iter().filter(may_come).for_each(&mut add);
        }
        connections
    }

    /// Whether what is waited for never comes, once there is nothing more to be read: the sender has left, and everything that it sent was
    /// with the kernel, or here, before it said so.
    fn find_short(&self, state: &State) -> Option<(String, String)> {
        let mut ends = self.receiving_ends(state).map(|end| &state.conduits.receiving[end]);
        ends.find_map(|end| Some((end.spec.sender.clone(), end.lacks_messages_of_one_that_left()?)))
    }

    /// Whether the run is over.
    fn verdict(&self, state: &State) -> Result<()> {
        state.standing.over.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Whether the wait can never end well, or when that will be decided.
    fn verdict_in_time(&self, state: &State, now: Instant) -> Result<Option<Instant>> {
        self.verdict(state)?;
        let mut decided: Option<Instant> = None;
        let mut sooner = |when: Instant| decided = Some(decided.map_or(when, |other| other.min(when)));
        if let Some(lost) = &state.standing.coordinator_lost {
            if now >= lost.until() {
                return Err(lost.error());
            }
            sooner(lost.until());
        }
        for end in &self.sending {
            let link = &state.connections.links[state.conduits.sending[*end].link];
            let pool = state.conduits.sending[*end].spec.pool.as_ref();
            if pool.is_some_and(|pool| pool.reader_may_die) && link.has_answered() {
                continue; // if it has died, the coordinator will say so
            }
            match &link.status {
                Status::Unreachable { reason } if !state.conduits.sending[*end].is_gone() => {
                    return Err(Error::Protocol { peer: link.peer.clone(), problem: reason.clone() });
                }
                Status::PeerEnded { since, reason } if !state.conduits.sending[*end].is_gone() => {
                    if now >= *since + VERDICT_LIMIT {
                        return Err(broken(&link.peer, reason));
                    }
                    sooner(*since + VERDICT_LIMIT);
                }
                _ => {}
            }
        }
        for end in self.receiving_ends(state).map(|end| &state.conduits.receiving[end]) {
            let Some((lost, reason)) = end.lost.as_ref().filter(|_| !end.has_everything()) else { continue };
            if end.spec.pool.as_ref().is_some_and(|pool| pool.writer_may_die) {
                continue; // as above
            }
            let may_come_again = end.method.and_then(methods::by_name).is_none_or(|method| method.can_break());
            let limit = if may_come_again { connect_limit() + SENDER_FIRST } else { VERDICT_LIMIT };
            if now >= *lost + limit {
                return Err(broken(&end.spec.sender, reason));
            }
            sooner(*lost + limit);
        }
        Ok(decided)
    }
}

/// Whether some connections go through memory, and others not.
fn is_mixed(connections: &[Arc<Connection>]) -> bool {
    let memory = connections.iter().filter(|connection| connection.is_memory()).count();
    memory > 0 && memory < connections.len()
}

fn broken(peer: &str, reason: &str) -> Error {
    let problem = format!("the connection broke before the conduit ended ({reason}); the instance has probably failed");
    Error::Protocol { peer: peer.to_owned(), problem }
}

/// Raised while a wait lasts; withdrawn from the state when it ends, however it ends.
struct Enrolment<'a> {
    runtime: &'a Runtime,
    flag: Arc<Flag>,
}

impl Drop for Enrolment<'_> {
    fn drop(&mut self) {
        let mut state = self.runtime.state();
        state.waiters.withdraw(&self.flag);
        // This thread may have taken a wake-up that was for others, too, and does not announce its sleep again: they have to.
        state.waiters.wake(None);
        let (backlogs, mut routing) = state.backlogs_and_routing();
        backlogs.have_read_again(&mut routing);
        state.take_in_again();
    }
}

/// Waits until `ready` finds something in the state, or `until` (then `None`; without it there is no time limit).
///
/// The wait ends with an error when the run is over, when a connection broke and nobody said why in time, when the coordinator has been
/// lost for too long, or when the interrupt check says so.
pub fn wait<T>(
    runtime: &Runtime,
    what: &WaitFor,
    until: Option<Instant>,
    ready: impl FnMut(&mut State) -> Result<Option<T>>,
) -> Result<Option<T>> {
    runtime.note_caller();
    let mut waiting = Waiting { runtime, what, until, ready, found: None };
    let mut state = runtime.state();
    waiting.check(&mut state);
    if let Some(found) = waiting.found {
        return found.map(Some);
    }
    let connections = what.connections(&state);
    drop(state);
    let seen = runtime.attention.load(Ordering::Acquire);
    waiting.glance_first(&connections, seen);
    if let Some(found) = waiting.found {
        return found.map(Some);
    }
    let began = Instant::now();
    let spun_until = waiting.spin(connections, seen, began);
    if let Some(found) = waiting.found {
        runtime.progress.note_waited(spun_until - began);
        return found.map(Some);
    }
    let found = waiting.sleep(began);
    runtime.progress.note_waited(began.elapsed());
    found
}

/// A wait of a call, and what it has found.
struct Waiting<'a, T, F> {
    runtime: &'a Runtime,
    what: &'a WaitFor,
    until: Option<Instant>,
    ready: F,
    found: Option<Result<T>>,
}

impl<T, F: FnMut(&mut State) -> Result<Option<T>>> Waiting<'_, T, F> {
    /// Looks at the state, unless something was found already.
    fn check(&mut self, state: &mut State) {
        if self.found.is_none() {
            self.found = self.what.verdict(state).and_then(|()| (self.ready)(state)).transpose();
        }
    }

    /// Looks for what is there already, or in a moment, which needs neither a spin nor a clock.
    fn glance_first(&mut self, connections: &[Arc<Connection>], seen: u64) {
        // Who only asks, without any time to wait, does not come to the sockets later.
        let has_time = || self.until.is_none_or(|until| Instant::now() < until);
        let first = if is_mixed(connections) && has_time() { Look::Memory } else { Look::All };
        let (mut is_news, _) = self.read_these(connections, first);
        let may_glance = !is_news && self.until.is_none() && self.runtime.spin.is_worth_a_glance();
        if may_glance && glance(self.runtime, connections, seen, FIRST_GLANCES) {
            is_news = self.read_these(connections, Look::Memory).0;
        }
        if is_news && self.found.is_none() {
            self.check(&mut self.runtime.state());
        }
    }

    /// Looks again and again, as long as that is likely to pay. Returns the time at which the clock was looked at last.
    fn spin(&mut self, mut connections: Watched, mut seen: u64, began: Instant) -> Instant {
        let (runtime, until) = (self.runtime, self.until);
        let mut now = began;
        if connections.is_empty() {
            connections = self.what.connections(&runtime.state());
        }
        if connections.is_empty() {
            return now;
        }
        let mut spin_until = runtime.spin.begin(began);
        let (mut sockets_at, mut has_looked) = (began, false);
        while spin_until.is_some_and(|end| now < end) && until.is_none_or(|until| now < until) {
            has_looked = true;
            let is_mixed = is_mixed(&connections);
            glance(runtime, &connections, seen, GLANCES);
            let look = if is_mixed && now < sockets_at { Look::Memory } else { Look::All };
            if look == Look::All {
                sockets_at = now + SOCKETS_EVERY;
            }
            let (is_news, part) = self.read_these(&connections, look);
            let attention = runtime.attention.load(Ordering::Acquire);
            if self.found.is_none() && (is_news || attention != seen) {
                seen = attention;
                let mut state = runtime.state();
                self.check(&mut state);
                connections = self.what.connections(&state);
            }
            if self.found.is_some() {
                runtime.spin.paid();
                return now;
            }
            now = Instant::now();
            if part {
                spin_until = Some(runtime.spin.go_on(now)); // the rest is under way
            }
        }
        if has_looked {
            runtime.spin.missed();
        }
        now
    }

    /// Reads connections, and looks at the state whenever something was taken in; whether anything changed, and whether a part of a frame
    /// came.
    fn read_these(&mut self, connections: &[Arc<Connection>], look: Look) -> (bool, bool) {
        let (mut found, mut part) = (false, false);
        for connection in connections.iter().filter(|connection| look == Look::All || connection.is_memory()) {
            match self.runtime.read_and(connection, &mut |state| self.check(state)) {
                Read::Nothing => {}
                Read::Part => part = true,
                Read::Something | Read::Closed => found = true,
            }
        }
        (found, part)
    }

    /// Sleeps until something happens, again and again.
    fn sleep(&mut self, began: Instant) -> Result<Option<T>> {
        let Waiting { runtime, what, until, .. } = *self;
        let flag = runtime.state().waiters.enrol().map_err(|error| Error::io("make an eventfd", &error))?;
        let enrolment = Enrolment { runtime, flag };
        let mut report = Report {
            runtime,
            at: began + REPORT_AFTER,
            epoch: None,
            passed: Passed::default(),
            is_timed: until.is_some(),
            is_held_back: false,
        };
        let interrupt = runtime.interrupt();
        loop {
            let mut state = runtime.state();
            enrolment.flag.lower();
            let now = Instant::now();
            let decided = what.verdict_in_time(&state, now)?;
            if let Some(found) = (self.ready)(&mut state)? {
                return Ok(Some(found));
            }
            // Also before a wait that is over at once: a program may ask again and again instead of waiting.
            state.return_receipts();
            if until.is_some_and(|until| now >= until) {
                return Ok(None);
            }
            report.when_due(&mut state, what, now);
            let connections = what.connections(&state);
            let may_be_short = what.find_short(&state).is_some();
            drop(state);

            // What this thread reads itself need not raise its own flag, which takes two system calls.
            let read = |connection| runtime.read_for(Some(&enrolment.flag), connection, &mut |_| {});
            let found = connections.iter().map(read).filter(|read| *read != Read::Nothing).count();
            if found > 0 || !connections.iter().all(|connection| connection.announce_sleep()) {
                continue;
            }
            if may_be_short {
                let mut state = runtime.state();
                if let Some(found) = (self.ready)(&mut state)? {
                    return Ok(Some(found));
                }
                if let Some((sender, problem)) = what.find_short(&state) {
                    state.break_off(&sender, problem);
                }
                continue;
            }
            let mut fds = Vec::with_capacity(connections.len() + 1);
            fds.push(enrolment.flag.as_raw_fd());
            fds.extend(connections.iter().map(|connection| connection.fd()));
            let wake_at = [until, decided, report.due(), interrupt.as_ref().map(|_| now + INTERRUPT_EVERY)];
            let polled = poll_readable(&fds, wake_at.into_iter().flatten().min())
                .map_err(|error| Error::io("wait for a message", &error))?;
            for connection in connections.iter().filter(|connection| connection.is_memory()) {
                runtime.after_wakeup(connection);
                // The bell may have been for another thread: what it announced is taken in whatever becomes of this wait.
                read(connection);
            }
            if polled != Polled::Ready && interrupt.as_ref().is_some_and(|check| check()) {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// Glances at memory, up to so many times, until something is there to be looked at (or attention is called for); whether it is. Where no
/// connection goes through memory it returns at once.
fn glance(runtime: &Runtime, connections: &[Arc<Connection>], seen: u64, times: u32) -> bool {
    if !connections.iter().any(|connection| connection.is_memory()) {
        return false;
    }
    for _ in 0..times {
        if runtime.attention.load(Ordering::Acquire) != seen
            || connections.iter().any(|connection| connection.is_memory() && connection.has_news())
        {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// What may pass while a caller waits: messages taken off the conduits that it waits for, objects that backlogs give out to readers that the
/// model knows, and conduits that come to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    taken: u64,
    given: u64,
    unsettled: u64,
    ended: usize,
}

impl Passed {
    fn of(state: &State, what: &WaitFor) -> Passed {
        let served = || {
            let ends = state.backlogs.all_ends().map(|end| &state.conduits.sending[end]);
            ends.filter(|end| !end.spec.leads_to_tap())
        };
        Passed {
            taken: what.receiving_ends(state).map(|end| state.conduits.receiving[end].taken).sum(),
            given: served().map(|end| end.sent).sum(),
            unsettled: served().map(|end| end.untaken()).sum(),
            ended: what.sending.iter().filter(|end| state.conduits.sending[**end].is_gone()).count()
                + what.receiving.iter().filter(|end| state.conduits.receiving[**end].is_finished()).count(),
        }
    }
}

/// Tells the coordinator about a wait that lasts, and when it is over.
struct Report<'a> {
    runtime: &'a Runtime,
    at: Instant,
    epoch: Option<u64>,
    /// What had passed at the time of the report.
    passed: Passed,
    /// The wait ends after some time.
    is_timed: bool,
    /// Nothing is reported, since other threads may go on.
    is_held_back: bool,
}

impl Report<'_> {
    fn due(&self) -> Option<Instant> {
        self.epoch.is_none().then_some(self.at)
    }

    fn when_due(&mut self, state: &mut State, what: &WaitFor, now: Instant) {
        if self.runtime.callers.are_several() {
            return self.hold_back(state, what, now);
        }
        let passed = Passed::of(state, what);
        if let Some(epoch) = self.epoch.filter(|_| passed != self.passed) {
            // Filters have swallowed what came, backlogs have given objects out, or a reader has left that was waited for: what was
            // reported was another wait.
            self.withdraw(state, epoch);
            self.epoch = None;
        }
        if self.epoch.is_none() && now >= self.at && what.is_reported {
            self.passed = passed;
            self.epoch = Some(self.report(state, what));
        } else if !what.is_reported {
            self.at = now + Duration::from_secs(3600); // nothing to report: do not wake for it
        }
    }

    /// Tells the coordinator of the wait; returns the number by which it is known from then on.
    fn report(&self, state: &mut State, what: &WaitFor) -> u64 {
        let epoch = state.reported.begin();
        let (mut sent, received) = state.conduits.counts();
        state.backlogs.count_newest(&state.conduits, &mut sent);
        let (is_any, is_timed) = (what.is_any, self.is_timed);
        let waits = what.waits(state).into_iter().filter(|wait| is_any || !state.conduits.has_met(wait)).collect();
        let waiting = ToCoordinator::Waiting { epoch, waits, is_any, is_timed, sent, received };
        state.deferred.say(&self.runtime.control, &waiting);
        epoch
    }

    /// Tells the coordinator that the wait is over.
    fn withdraw(&self, state: &mut State, epoch: u64) {
        state.reported.end(epoch);
        state.deferred.say(&self.runtime.control, &ToCoordinator::Resumed { epoch });
    }

    /// Other threads of the program may go on, so that this wait would accuse the instance of standing still. Then nobody can tell a
    /// deadlock either; if the wait is long, people should know that.
    fn hold_back(&mut self, state: &mut State, what: &WaitFor, now: Instant) {
        if let Some(epoch) = self.epoch.take() {
            self.withdraw(state, epoch);
        }
        if !self.is_held_back {
            self.is_held_back = true;
            self.at += LONG_WAIT - REPORT_AFTER;
        } else if now >= self.at {
            self.at = now + Duration::from_secs(3600);
            if what.is_reported && state.reported.must_tell_of_threads() {
                let text = format!(
                    "a call has waited for {} s; since its calls come from several threads, a deadlock would not be noticed",
                    LONG_WAIT.as_secs()
                );
                state.deferred.say(&self.runtime.control, &ToCoordinator::Warning { text });
            }
        }
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if let Some(epoch) = self.epoch {
            self.withdraw(&mut self.runtime.state(), epoch);
        }
    }
}
