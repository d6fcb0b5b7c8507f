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
    /// Open ports, by their places among those of the state: messages of all who have a handle of one matter.
    pub open: SmallVec<[usize; 1]>,
    /// Any one of these lets the caller go on; else it needs all of them.
    pub is_any: bool,
    /// The coordinator is told if it lasts.
    pub is_reported: bool,
}

impl WaitFor {
    /// A receipt on this sending end.
    pub fn room(end: usize) -> WaitFor {
        WaitFor { sending: SmallVec::from_slice(&[end]), is_reported: true, ..WaitFor::default() }
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
        let sending = self.sending.iter().map(|end| (state.sending[*end].spec.id, WaitKind::Send));
        let receiving = self.receiving.iter().map(|end| (state.receiving[*end].spec.id, WaitKind::Receive));
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
            let peer = &state.links[state.sending[*end].link].peer;
            state
                .links
                .iter()
                .filter(|link| link.peer == *peer)
                .filter_map(|link| link.connection.as_ref())
                .for_each(&mut add);
        }
        for end in self.receiving_ends(state) {
            let Some(list) = state.inbound.get(&state.receiving[end].spec.sender) else { continue };
            let may_come = |connection: &&Arc<Connection>| list.len() == 1 || state.may_come_by(end, connection);
            list.iter().filter(may_come).for_each(&mut add);
        }
        connections
    }

    /// Whether the run is over.
    fn verdict(&self, state: &State) -> Result<()> {
        state.over.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Whether the wait can never end well, or when that will be decided.
    fn verdict_in_time(&self, state: &State, now: Instant) -> Result<Option<Instant>> {
        self.verdict(state)?;
        let mut decided: Option<Instant> = None;
        let mut sooner = |when: Instant| decided = Some(decided.map_or(when, |other| other.min(when)));
        if let Some(lost) = &state.coordinator_lost {
            if now >= lost.until() {
                return Err(lost.error());
            }
            sooner(lost.until());
        }
        for end in &self.sending {
            let link = &state.links[state.sending[*end].link];
            match &link.status {
                Status::Unreachable { reason } if !state.sending[*end].is_gone() => {
                    return Err(Error::Protocol { peer: link.peer.clone(), problem: reason.clone() });
                }
                Status::Broken { since, reason } if !state.sending[*end].is_gone() => {
                    if now >= *since + VERDICT_LIMIT {
                        return Err(broken(&link.peer, reason));
                    }
                    sooner(*since + VERDICT_LIMIT);
                }
                _ => {}
            }
        }
        for end in self.receiving_ends(state).map(|end| &state.receiving[end]) {
            let Some((lost, reason)) = end.lost.as_ref().filter(|_| !end.has_everything()) else { continue };
            let may_come_again = end.method.and_then(methods::by_name).is_none_or(|method| method.breaks());
            let limit = if may_come_again { connect_limit() + VERDICT_LIMIT } else { VERDICT_LIMIT };
            if now >= *lost + limit {
                return Err(broken(&end.spec.sender, reason));
            }
            sooner(*lost + limit);
        }
        Ok(decided)
    }
}

/// What a caller looks for in the state, and what it has found.
struct Looking<'a, T, F> {
    what: &'a WaitFor,
    ready: F,
    found: Option<Result<T>>,
}

impl<T, F: FnMut(&mut State) -> Result<Option<T>>> Looking<'_, T, F> {
    /// Looks, unless it has found something already.
    fn look(&mut self, state: &mut State) {
        if self.found.is_none() {
            self.found = self.what.verdict(state).and_then(|()| (self.ready)(state)).transpose();
        }
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
        // This thread may have taken a bell that was for others too, and will not say again that it sleeps: they must.
        state.waiters.wake(None);
    }
}

impl Runtime {
    /// Waits until `ready` finds something in the state, or `until` (then `None`; without it there is no time limit).
    ///
    /// The wait ends with an error when the run is over, when a connection broke and nobody said why in time, when the coordinator
    /// has been lost for too long, or when the interrupt check says so.
    pub fn wait<T>(
        &self,
        what: &WaitFor,
        until: Option<Instant>,
        ready: impl FnMut(&mut State) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.note_caller();
        let mut looking = Looking { what, ready, found: None };
        let mut state = self.state();
        looking.look(&mut state);
        if let Some(found) = looking.found {
            return found.map(Some);
        }
        let connections = what.connections(&state);
        drop(state);
        // What is there already, or in a moment, needs neither a spin nor a clock.
        let seen = self.attention.load(Ordering::Acquire);
        // Who only asks, without any time to wait, does not come to the sockets later.
        let has_time = || until.is_none_or(|until| Instant::now() < until);
        let first = if is_mixed(&connections) && has_time() { Look::Memory } else { Look::All };
        let (mut is_news, _) = self.read_these(&connections, first, &mut |state| looking.look(state));
        let may_glance = !is_news && until.is_none() && self.spin.is_worth_a_glance();
        if may_glance && self.glance(&connections, seen, FIRST_GLANCES) {
            is_news = self.read_these(&connections, Look::Memory, &mut |state| looking.look(state)).0;
        }
        if is_news && looking.found.is_none() {
            looking.look(&mut self.state());
        }
        if let Some(found) = looking.found {
            return found.map(Some);
        }
        let began = Instant::now();
        let spun_until = self.spin_for(&mut looking, connections, seen, began, until);
        if let Some(found) = looking.found {
            self.note_waited(spun_until - began);
            return found.map(Some);
        }
        let found = self.sleep_for(what, began, until, &mut looking.ready);
        self.note_waited(began.elapsed());
        found
    }

    fn note_waited(&self, waited: Duration) {
        if !waited.is_zero() {
            self.waited_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// How long the calls of this instance have waited for others so far, all together. Waits of less than a microsecond or two are not
    /// counted: a look at the clock takes as long as such a wait.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    /// Looks again and again, as long as that is likely to pay. Returns the time at which the clock was looked at last.
    fn spin_for<T, F: FnMut(&mut State) -> Result<Option<T>>>(
        &self,
        looking: &mut Looking<'_, T, F>,
        mut connections: Watched,
        mut seen: u64,
        began: Instant,
        until: Option<Instant>,
    ) -> Instant {
        let mut now = began;
        if connections.is_empty() {
            connections = looking.what.connections(&self.state());
        }
        if connections.is_empty() {
            return now;
        }
        let mut spin_until = self.spin.begin(began);
        let (mut sockets_at, mut has_looked) = (began, false);
        while spin_until.is_some_and(|end| now < end) && until.is_none_or(|until| now < until) {
            has_looked = true;
            let is_mixed = is_mixed(&connections);
            self.glance(&connections, seen, GLANCES);
            let look = if is_mixed && now < sockets_at { Look::Memory } else { Look::All };
            if look == Look::All {
                sockets_at = now + SOCKETS_EVERY;
            }
            let (is_news, part) = self.read_these(&connections, look, &mut |state| looking.look(state));
            let attention = self.attention.load(Ordering::Acquire);
            if looking.found.is_none() && (is_news || attention != seen) {
                seen = attention;
                let mut state = self.state();
                looking.look(&mut state);
                connections = looking.what.connections(&state);
            }
            if looking.found.is_some() {
                self.spin.paid();
                return now;
            }
            now = Instant::now();
            if part {
                spin_until = Some(self.spin.go_on(now)); // the rest is under way
            }
        }
        if has_looked {
            self.spin.missed();
        }
        now
    }

    /// Glances at memory, up to so many times, until something is there to be looked at (or attention is called for); whether it is.
    /// Where no connection goes through memory it returns at once.
    fn glance(&self, connections: &[Arc<Connection>], seen: u64, times: u32) -> bool {
        if !connections.iter().any(|connection| connection.is_memory()) {
            return false;
        }
        for _ in 0..times {
            if self.attention.load(Ordering::Acquire) != seen
                || connections.iter().any(|connection| connection.is_memory() && connection.has_news())
            {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Reads connections, and lets `then` look whenever something was taken in; whether anything changed, and whether a part of a frame
    /// came.
    fn read_these(
        &self,
        connections: &[Arc<Connection>],
        look: Look,
        then: &mut dyn FnMut(&mut State),
    ) -> (bool, bool) {
        let (mut found, mut part) = (false, false);
        for connection in connections.iter().filter(|connection| look == Look::All || connection.is_memory()) {
            match self.read_and(connection, then) {
                Read::Nothing => {}
                Read::Part => part = true,
                Read::Something | Read::Closed => found = true,
            }
        }
        (found, part)
    }

    /// Sleeps until something happens, again and again.
    fn sleep_for<T>(
        &self,
        what: &WaitFor,
        began: Instant,
        until: Option<Instant>,
        ready: &mut impl FnMut(&mut State) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let flag = self.state().waiters.enrol().map_err(|error| Error::io("make an eventfd", &error))?;
        let enrolment = Enrolment { runtime: self, flag };
        let mut report = Report { runtime: self, at: began + REPORT_AFTER, epoch: None, taken: 0, is_held_back: false };
        let interrupt = self.interrupt();
        loop {
            let mut state = self.state();
            enrolment.flag.lower();
            let now = Instant::now();
            let decided = what.verdict_in_time(&state, now)?;
            if let Some(found) = ready(&mut state)? {
                return Ok(Some(found));
            }
            // Also before a wait that is over at once: a program may ask again and again instead of waiting.
            state.return_receipts();
            if until.is_some_and(|until| now >= until) {
                return Ok(None);
            }
            report.when_due(&mut state, what, now);
            let connections = what.connections(&state);
            drop(state);

            // What this thread reads itself need not raise its own flag, which takes two system calls.
            let read = |connection| self.read_for(Some(&enrolment.flag), connection, &mut |_| {});
            let found = connections.iter().map(read).filter(|read| *read != Read::Nothing).count();
            if found > 0 || !connections.iter().all(|connection| connection.may_sleep()) {
                continue;
            }
            let mut fds = Vec::with_capacity(connections.len() + 1);
            fds.push(enrolment.flag.as_raw_fd());
            fds.extend(connections.iter().map(|connection| connection.fd()));
            let wake_at = [until, decided, report.due(), interrupt.as_ref().map(|_| now + INTERRUPT_EVERY)];
            let polled = poll_readable(&fds, wake_at.into_iter().flatten().min())
                .map_err(|error| Error::io("wait for a message", &error))?;
            for connection in connections.iter().filter(|connection| connection.is_memory()) {
                self.woken(connection);
                // The bell may have been for another thread: what it announced is taken in whatever becomes of this wait.
                read(connection);
            }
            if polled != Polled::Ready && interrupt.as_ref().is_some_and(|check| check()) {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// Tells the coordinator about a wait that lasts, and when it is over.
struct Report<'a> {
    runtime: &'a Runtime,
    at: Instant,
    epoch: Option<u64>,
    /// Messages taken off the conduits waited for, at the time of the report.
    taken: u64,
    /// Nothing is reported, since other threads may go on.
    is_held_back: bool,
}

impl Report<'_> {
    fn due(&self) -> Option<Instant> {
        self.epoch.is_none().then_some(self.at)
    }

    fn when_due(&mut self, state: &mut State, what: &WaitFor, now: Instant) {
        if self.runtime.has_several_callers() {
            return self.hold_back(state, what, now);
        }
        let taken = what.receiving_ends(state).map(|end| state.receiving[end].taken).sum();
        if let Some(epoch) = self.epoch.filter(|_| taken != self.taken) {
            // Filters have swallowed what came: the counts that were reported are those of another wait.
            self.runtime.queue_resumed(state, epoch);
            self.epoch = None;
        }
        if self.epoch.is_none() && now >= self.at && what.is_reported {
            self.taken = taken;
            self.epoch = Some(self.runtime.report_waiting(state, &what.waits(state), what.is_any));
        } else if !what.is_reported {
            self.at = now + Duration::from_secs(3600); // nothing to report: do not wake for it
        }
    }
}

impl Report<'_> {
    /// Other threads of the program may go on, so that this wait would accuse the instance of standing still. Then nobody can tell a
    /// deadlock either; if the wait is long, people should know that.
    fn hold_back(&mut self, state: &mut State, what: &WaitFor, now: Instant) {
        if let Some(epoch) = self.epoch.take() {
            self.runtime.queue_resumed(state, epoch);
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
                state.queue_control(&self.runtime.control, &ToCoordinator::Warning { text });
            }
        }
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if let Some(epoch) = self.epoch {
            self.runtime.report_resumed(epoch);
        }
    }
}
