//! What makes an instance live: its state, its I/O thread, and how its callers wait.
//!
//! Callers read connections themselves while they wait, and write as far as the kernel takes it; the one I/O thread of the process accepts
//! and opens connections, writes what found no room, and speaks with the coordinator. So a small message costs no hand-over between threads.
//!
//! Order of locks: the reader of a connection, the state, the writer of a connection.

pub mod control_channel;
pub mod handles;
pub mod io_thread;
mod left_to_do;
pub mod link;
mod method_changes;
pub mod rebinding;
pub mod reports;
pub mod short;
pub mod spin;
pub mod state;
pub mod traffic;
pub mod wait;
mod waiters;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use xmml_wire::buffer::{Buffer, BufferPool, OutOfMemory};
use xmml_wire::connection::{Connection, Looked};
use xmml_wire::error::{explained, Error, Result};
use xmml_wire::frame::{FrameError, Limits};
use xmml_wire::handshake::Party;
use xmml_wire::lock::lock;
use xmml_wire::methods::shm::stream::LENT_FROM;
use xmml_wire::methods::Place;
use xmml_wire::shared_memory::arena::Arena;

use crate::control::ToCoordinator;

use self::control_channel::ControlChannel;
use self::io_thread::{Command, Commands};
use self::left_to_do::LeftToDo;
use self::spin::Spin;
use self::state::{Position, State};
use self::waiters::Flag;

/// How long an instance goes on without its coordinator, if that takes nobody back. A wait that has not ended by then is an error.
pub const COORDINATOR_GRACE: Duration = Duration::from_secs(30);

/// So many connections with a peer in a row may end with something that cannot be taken in, without a message between.
const FAULTS_IN_A_ROW: u32 = 8;

/// Asked in the middle of long waits; true ends them.
pub type InterruptCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Shared by an instance and its I/O thread.
pub struct Runtime {
    /// Name of the instance.
    pub name: String,
    /// Name of the run.
    pub run: String,
    /// Where this process runs.
    pub here: Place,
    /// Where payloads are kept.
    pub pool: BufferPool,
    /// Where payloads are written that other processes read.
    pub arena: Arena,
    /// What is said to the coordinator.
    pub control: ControlChannel,
    /// For the I/O thread.
    pub commands: Commands,
    /// Whether callers should look again and again before they sleep.
    pub spin: Spin,
    /// How long calls have waited for others so far [ns].
    waited_ns: AtomicU64,
    /// Changes whenever something happens that a spinning caller must look at.
    pub attention: AtomicU64,
    secret: Vec<u8>,
    state: Mutex<State>,
    interrupt: Mutex<Option<InterruptCheck>>,
    progress_armed: AtomicBool,
    /// The thread that made the first call; 0 before it.
    first_caller: AtomicU64,
    /// Calls have come from other threads too.
    has_several_callers: AtomicBool,
    /// Run, iteration, and the bits of the model time; each may be read between two writes of the others.
    position: [AtomicU64; 3],
    next_token: AtomicU64,
}

/// The state, locked. Frames queued meanwhile are written when it is released.
pub struct Locked<'a> {
    runtime: &'a Runtime,
    guard: Option<MutexGuard<'a, State>>,
}

impl std::ops::Deref for Locked<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        self.guard.as_ref().expect("locked until dropped")
    }
}

impl std::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.guard.as_mut().expect("locked until dropped")
    }
}

impl Locked<'_> {
    /// Releases the state; the caller does what is left to do. (Whoever holds a reader must release that first.)
    fn release(mut self) -> Option<LeftToDo> {
        self.guard.take().and_then(|mut guard| guard.left.take())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        let left_to_do = guard.left.take();
        drop(guard);
        if let Some(left_to_do) = left_to_do {
            self.runtime.finish(left_to_do);
        }
    }
}

impl Runtime {
    /// The runtime of an instance that has joined.
    pub fn new(
        name: String,
        run: String,
        secret: Vec<u8>,
        control: ControlChannel,
        commands: Commands,
        state: State,
    ) -> Runtime {
        Runtime {
            name,
            run,
            here: Place::here(),
            pool: BufferPool::new(),
            arena: Arena::new(),
            control,
            commands,
            spin: Spin::new(),
            waited_ns: AtomicU64::new(0),
            attention: AtomicU64::new(0),
            secret,
            state: Mutex::new(state),
            interrupt: Mutex::new(None),
            progress_armed: AtomicBool::new(false),
            first_caller: AtomicU64::new(0),
            has_several_callers: AtomicBool::new(false),
            position: Default::default(),
            next_token: AtomicU64::new(io_thread::FIRST_FREE_TOKEN),
        }
    }

    /// Locks the state.
    pub fn state(&self) -> Locked<'_> {
        Locked { runtime: self, guard: Some(lock(&self.state)) }
    }

    /// What this process brings into a handshake.
    pub fn party(&self) -> Result<Party> {
        Party::new(&self.secret, &self.run, &self.name)
    }

    /// The run's secret.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// A token nobody else has.
    pub fn token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    /// A connection over a stream that was authenticated.
    pub fn connection(
        &self,
        token: u64,
        method: &'static str,
        breaks: bool,
        peer: String,
        stream: Box<dyn xmml_wire::methods::Stream>,
    ) -> Arc<Connection> {
        Arc::new(Connection::new(token, method, breaks, peer, stream, self.pool.clone(), Limits::default()))
    }

    /// Sets the check that may end waits.
    pub fn set_interrupt(&self, check: InterruptCheck) {
        *lock(&self.interrupt) = Some(check);
    }

    fn interrupt(&self) -> Option<InterruptCheck> {
        lock(&self.interrupt).clone()
    }

    /// Makes spinning callers look at the state, and wakes the sleeping ones.
    pub fn attract_attention(&self, state: &State) {
        self.attention.fetch_add(1, Ordering::Release);
        state.waiters.wake(None);
    }

    /// Does what was left to do under the lock.
    fn finish(&self, left: LeftToDo) {
        left.to_flush.iter().for_each(|connection| self.flush(connection));
        left.to_watch.into_iter().for_each(|connection| self.commands.give(Command::Read(connection)));
        left.news.iter().for_each(|news| self.tell(news));
    }

    /// Writes what is queued on a connection; what finds no room is left to the I/O thread.
    pub fn flush(&self, connection: &Arc<Connection>) {
        match connection.flush() {
            Ok(true) => {}
            Ok(false) => self.commands.give(Command::Watch(connection.clone())),
            Err(error) => self.write_failed(connection, &explained(&error)),
        }
    }

    /// The peer does not take bytes any more; it may have said why before.
    pub fn write_failed(&self, connection: &Arc<Connection>, reason: &str) {
        if connection.token == io_thread::CONTROL {
            // The I/O thread alone hears the coordinator, and finds the end of the stream behind its last words. (What is cleared
            // here is kept for the next connection, if there will be one.)
            connection.writer().clear();
            return;
        }
        while matches!(self.read(connection), Read::Something | Read::Part) {}
        self.connection_lost(connection, reason);
    }

    /// The descriptor of a connection through memory may have been readable: somebody has come, or has made room.
    pub fn woken(&self, connection: &Arc<Connection>) {
        connection.woken();
        if connection.writer().handed_over {
            self.commands.give(Command::Watch(connection.clone()));
        }
    }

    /// Reads what has come on a connection, and takes it in.
    pub fn read(&self, connection: &Arc<Connection>) -> Read {
        self.read_and(connection, &mut |_| {})
    }

    /// The same; if something was taken in, `then` looks at the state before anybody else does.
    pub fn read_and(&self, connection: &Arc<Connection>, then: &mut dyn FnMut(&mut State)) -> Read {
        self.read_for(None, connection, then)
    }

    /// The same for a caller who has a flag: that is not raised, since the caller looks at the state after this.
    fn read_for(
        &self,
        own: Option<&Arc<Flag>>,
        connection: &Arc<Connection>,
        then: &mut dyn FnMut(&mut State),
    ) -> Read {
        if !connection.has_news() {
            return Read::Nothing;
        }
        let mut reader = connection.reader();
        let mut frames = std::mem::take(&mut reader.scratch);
        let looked = connection.look(&mut reader, &mut frames);
        let mut found = if matches!(looked, Looked::Part) { Read::Part } else { Read::Nothing };
        let mut fault = None;
        let mut left_to_do = None;
        if !frames.is_empty() {
            found = Read::Something;
            let mut state = self.state();
            fault = state.deliver(connection, frames.drain(..)).err();
            state.waiters.wake(own);
            if fault.is_none() {
                then(&mut state);
            }
            left_to_do = state.release();
        }
        reader.scratch = frames;
        drop(reader); // a failing write reads what the peer said last
        if let Some(left_to_do) = left_to_do {
            self.finish(left_to_do);
        }
        match (fault, looked) {
            (Some(problem), _) => self.connection_at_fault(connection, &problem),
            (None, Looked::Fault(error)) => self.frame_at_fault(connection, &error),
            (None, Looked::Closed(reason)) => self.connection_lost(connection, &reason),
            _ => return found,
        }
        Read::Closed
    }

    /// What a peer sent cannot be, so nothing that follows can be understood. On a connection that cannot break by itself it would be
    /// the same a second time: the run is told at once, and every wait ends with the reason. One that can break is made again, but
    /// not for ever.
    pub fn connection_at_fault(&self, connection: &Arc<Connection>, problem: &str) {
        let mut state = self.state();
        let faults = state.faults.entry(connection.peer.clone()).or_default();
        *faults += 1;
        if !connection.breaks || *faults >= FAULTS_IN_A_ROW {
            let problem = format!("what it sent cannot be taken in: {problem}");
            let error = Error::Protocol { peer: connection.peer.clone(), problem };
            if state.over.is_none() {
                state.queue_control(&self.control, &ToCoordinator::Failed { text: error.to_string() });
                state.over = Some(error);
            }
        }
        drop(state);
        self.connection_lost(connection, problem);
    }

    /// A frame that cannot be. If it is a message that was changed on its way, people are told which.
    pub fn frame_at_fault(&self, connection: &Arc<Connection>, error: &FrameError) {
        let problem = match error {
            FrameError::Damaged { conduit, sequence } => {
                let state = self.state();
                let name = state.receiving_end(*conduit).map(|end| state.receiving[end].spec.name.clone());
                drop(state);
                let name = name.unwrap_or_else(|| format!("conduit {conduit}"));
                format!("{name}: message {sequence} was changed on its way: its checksum does not fit")
            }
            other => other.to_string(),
        };
        let is_damage =
            matches!(error, FrameError::Damaged { .. } | FrameError::DamagedHead | FrameError::Stream { .. });
        if is_damage && connection.breaks {
            let text = format!("{}: {problem}; it is sent again over a new connection", connection.peer);
            self.tell(&ToCoordinator::Warning { text });
        }
        self.connection_at_fault(connection, &problem);
    }

    /// A connection has ended or is broken. What that means is for its peer to say (it ended the conduits before), or for the
    /// coordinator; a connection that may break is made again by the sender.
    pub fn connection_lost(&self, connection: &Arc<Connection>, reason: &str) {
        connection.close();
        connection.writer().clear();
        let mut state = self.state();
        let mut connect_again = None;
        for index in 0..state.links.len() {
            let is_its = state.links[index].connection.as_ref().is_some_and(|own| Arc::ptr_eq(own, connection));
            if is_its {
                for end in state.links[index].conduits.clone() {
                    state.sending[end].hold();
                }
                let far = state.arrived_by(index);
                if state.links[index].lost(connection.breaks, reason, far, &self.here) {
                    connect_again = Some(index);
                }
            }
        }
        state.retired.retain(|other| !Arc::ptr_eq(other, connection));
        state.receiving.iter_mut().for_each(|end| end.comes_by_no_more(connection));
        let inbound = |state: &State| state.inbound.get(&connection.peer).map_or(0, Vec::len);
        let before = inbound(&state);
        if before > 0 {
            state.let_go(connection);
        }
        if before > 0 && inbound(&state) == 0 {
            for end in state.receiving.iter_mut().filter(|end| end.spec.sender == connection.peer) {
                end.lost.get_or_insert_with(|| (Instant::now(), reason.to_owned()));
            }
        }
        self.attract_attention(&state);
        drop(state);
        self.commands.give(Command::Forget(connection.clone()));
        if let Some(link) = connect_again {
            self.commands.give(Command::Dial(link));
        }
    }

    /// A copy of what has to wait here. If a connection through memory may come, it waits where that will lend it from (or there is no
    /// room there).
    pub fn copy_to_keep(&self, piece: &Buffer, lends_later: bool) -> std::result::Result<Buffer, OutOfMemory> {
        if lends_later && piece.len() >= LENT_FROM {
            if let Ok(copy) = self.arena.copy_of(std::slice::from_ref(piece)) {
                return Ok(copy);
            }
        }
        self.pool.copy_of(piece)
    }

    /// Notes which thread makes a call. From the second one on, a wait says nothing about the instance: another thread may go on.
    pub fn note_caller(&self) {
        let me = thread_number();
        let first = self.first_caller.load(Ordering::Relaxed);
        if first == me {
            return;
        }
        let is_first = first == 0
            && self
                .first_caller
                .compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire)
                .unwrap_or_else(|other| other)
                == 0;
        if !is_first && !self.has_several_callers.swap(true, Ordering::AcqRel) {
            self.state().waiters.wake(None); // so that a wait that was reported is withdrawn
        }
    }

    /// Whether calls have come from more than one thread.
    pub fn has_several_callers(&self) -> bool {
        self.has_several_callers.load(Ordering::Acquire)
    }

    /// Writes down where the program is; cheap enough for every message.
    pub fn note_position(&self, position: Position) {
        let values = [position.run, position.iteration, position.time.to_bits()];
        self.position.iter().zip(values).for_each(|(place, value)| place.store(value, Ordering::Relaxed));
        self.arm_progress();
    }

    /// Where the program was last seen.
    pub fn position(&self) -> Position {
        let [run, iteration, time] = &self.position;
        Position {
            run: run.load(Ordering::Relaxed),
            iteration: iteration.load(Ordering::Relaxed),
            time: f64::from_bits(time.load(Ordering::Relaxed)),
        }
    }

    /// Has the I/O thread report progress soon, unless it will anyway.
    fn arm_progress(&self) {
        if !self.progress_armed.load(Ordering::Acquire) && !self.progress_armed.swap(true, Ordering::AcqRel) {
            self.commands.give(Command::Progress);
        }
    }

    /// The I/O thread has reported.
    pub fn progress_reported(&self) {
        self.progress_armed.store(false, Ordering::Release);
    }
}

/// A number that no other thread of this process has, from 1.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// What reading a connection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Nothing new.
    Nothing,
    /// A part of a frame.
    Part,
    /// Frames, now taken in.
    Something,
    /// The connection is gone (frames may have come before).
    Closed,
}
