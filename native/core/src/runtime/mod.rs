//! What makes an instance live: its state, its I/O thread, and how its callers wait.
//!
//! Callers read connections themselves while they wait, and write as far as the kernel takes it; the one I/O thread of the process accepts
//! and opens connections, writes what found no room, and speaks with the coordinator. So a small message costs no hand-over between threads.
//!
//! Order of locks: the reader of a connection, the state, the writer of a connection.

pub mod backlogs;
mod callers;
pub mod conduits;
pub mod connections;
pub mod control_channel;
mod deferred_work;
pub mod handles;
pub mod identity;
pub mod io_thread;
pub mod link;
mod memory;
mod method_changes;
mod progress;
mod reported_waits;
pub mod routing;
pub mod short;
pub mod spin;
pub mod standing;
pub mod state;
pub mod traffic;
pub mod wait;
mod waiters;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use xmml_wire::connection::{Connection, Looked};
use xmml_wire::error::explained;
use xmml_wire::frame::{FrameError, Limits};
use xmml_wire::lock::lock;
use xmml_wire::methods::Place;

use crate::control::ToCoordinator;

use self::callers::Callers;
use self::control_channel::ControlChannel;
use self::deferred_work::DeferredWork;
use self::identity::Identity;
use self::io_thread::{Command, Commands};
use self::memory::Memory;
use self::progress::Progress;
use self::spin::Spin;
use self::state::{Position, State};
use self::waiters::Flag;

/// How long an instance goes on without its coordinator, if that takes nobody back. A wait that has not ended by then is an error.
pub const COORDINATOR_GRACE: Duration = Duration::from_secs(30);

/// So many connections with a peer in a row may end with something that cannot be taken in, without a message between.
pub const FAULTS_IN_A_ROW: u32 = 8;

/// Asked in the middle of long waits; true ends them.
pub type InterruptCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Shared by an instance and its I/O thread.
pub struct Runtime {
    /// Who the instance is.
    pub identity: Identity,
    /// Where this process runs.
    pub here: Place,
    /// Where payloads are kept.
    pub memory: Memory,
    /// What is said to the coordinator.
    pub control: ControlChannel,
    /// For the I/O thread.
    pub commands: Commands,
    /// Whether callers should look again and again before they sleep.
    pub spin: Spin,
    /// How far the program is.
    pub progress: Progress,
    /// Changes whenever something happens that a spinning caller must look at.
    pub attention: AtomicU64,
    /// Taps have joined of which the program has not heard yet.
    pub has_new_taps: AtomicBool,
    /// The threads that make calls.
    callers: Callers,
    state: Mutex<State>,
    interrupt: Mutex<Option<InterruptCheck>>,
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
    fn release(mut self) -> Option<DeferredWork> {
        self.guard.take().and_then(|mut guard| guard.deferred.take())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        let work = guard.deferred.take();
        drop(guard);
        if let Some(work) = work {
            self.runtime.finish(work);
        }
    }
}

impl Runtime {
    /// The runtime of an instance that has joined.
    pub fn new(identity: Identity, control: ControlChannel, commands: Commands, state: State) -> Runtime {
        Runtime {
            identity,
            here: Place::here(),
            memory: Memory::new(),
            control,
            commands,
            spin: Spin::new(),
            progress: Progress::default(),
            attention: AtomicU64::new(0),
            has_new_taps: AtomicBool::new(state.has_new_taps()),
            callers: Callers::default(),
            state: Mutex::new(state),
            interrupt: Mutex::new(None),
            next_token: AtomicU64::new(io_thread::FIRST_FREE_TOKEN),
        }
    }

    /// Locks the state.
    pub fn state(&self) -> Locked<'_> {
        Locked { runtime: self, guard: Some(lock(&self.state)) }
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
        can_break: bool,
        peer: String,
        stream: Box<dyn xmml_wire::methods::Stream>,
    ) -> Arc<Connection> {
        Arc::new(Connection::new(token, method, can_break, peer, stream, self.memory.pool.clone(), Limits::default()))
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
    fn finish(&self, work: DeferredWork) {
        work.to_flush.iter().for_each(|connection| self.flush(connection));
        work.to_read.into_iter().for_each(|connection| self.commands.give(Command::Read(connection)));
        work.suspected.into_iter().for_each(|(peer, reason)| self.commands.give(Command::Suspect { peer, reason }));
        work.news.iter().for_each(|news| self.tell(news));
        work.lost.iter().for_each(|connection| self.connection_lost(connection, "its receiver is gone"));
    }

    /// Writes what is queued on a connection; what finds no room is left to the I/O thread.
    pub fn flush(&self, connection: &Arc<Connection>) {
        match connection.flush() {
            Ok(true) => {}
            Ok(false) => self.commands.give(Command::WriteWhenRoom(connection.clone())),
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
        let mut last = Read::Something;
        while matches!(last, Read::Something | Read::Part) {
            last = self.read(connection);
        }
        if last != Read::Closed {
            self.connection_lost(connection, reason);
        }
    }

    /// The descriptor of a connection through memory may have been readable: somebody has come, or has made room.
    pub fn after_wakeup(&self, connection: &Arc<Connection>) {
        connection.drain_wakeups();
        if connection.writer().handed_over {
            self.commands.give(Command::WriteWhenRoom(connection.clone()));
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
        let looked = connection.read_frames(&mut reader, &mut frames);
        let mut found = if matches!(looked, Looked::Part) { Read::Part } else { Read::Nothing };
        let mut fault = None;
        let mut work = None;
        if !frames.is_empty() {
            found = Read::Something;
            let mut state = self.state();
            fault = state.deliver(connection, frames.drain(..)).err();
            state.waiters.wake(own);
            if fault.is_none() {
                then(&mut state);
            }
            work = state.release();
        }
        reader.scratch = frames;
        drop(reader); // a failing write reads what the peer said last
        if let Some(work) = work {
            self.finish(work);
        }
        match (fault, looked) {
            (Some(problem), _) => self.connection_at_fault(connection, &problem),
            (None, Looked::Fault(error)) => self.frame_at_fault(connection, &error),
            (None, Looked::Closed(reason)) => self.connection_lost(connection, &reason),
            _ => return found,
        }
        Read::Closed
    }

    /// What a peer sent cannot be, so nothing that follows can be understood. If nobody else can have done that, the peer has broken the
    /// protocol: the run is told at once, and every wait ends with the reason. If it may have happened on the way, the connection is made
    /// again, but not for ever.
    pub fn connection_at_fault(&self, connection: &Arc<Connection>, problem: &str) {
        self.at_fault(connection, problem, connection.is_authentic());
    }

    fn at_fault(&self, connection: &Arc<Connection>, problem: &str, is_its_own: bool) {
        let mut state = self.state();
        let faults = state.faults.entry(connection.peer.clone()).or_default();
        *faults += 1;
        if is_its_own || !connection.can_break || *faults >= FAULTS_IN_A_ROW {
            state.break_off(&connection.peer, format!("what it sent cannot be taken in: {problem}"));
        } else {
            let text = format!("{}: {problem}; it is sent again over a new connection", connection.peer);
            state.deferred.say(&self.control, &ToCoordinator::Warning { text });
        }
        drop(state);
        self.connection_lost(connection, problem);
    }

    /// A frame that cannot be. If it is a message that was changed on its way, people are told which.
    pub fn frame_at_fault(&self, connection: &Arc<Connection>, error: &FrameError) {
        let problem = match error {
            FrameError::Damaged { conduit, sequence } => {
                let state = self.state();
                let name =
                    state.conduits.receiving_end(*conduit).map(|end| state.conduits.receiving[end].spec.name.clone());
                drop(state);
                let name = name.unwrap_or_else(|| format!("conduit {conduit}"));
                format!("{name}: message {sequence} was changed on its way: its checksum does not fit")
            }
            other => other.to_string(),
        };
        let is_damage =
            matches!(error, FrameError::Damaged { .. } | FrameError::DamagedHead | FrameError::Stream { .. });
        self.at_fault(connection, &problem, connection.is_authentic() && !is_damage);
    }

    /// A connection has ended or is broken. What that means is for its peer to say (it ended the conduits before), or for the
    /// coordinator; a connection that may break is made again by the sender.
    pub fn connection_lost(&self, connection: &Arc<Connection>, reason: &str) {
        connection.close();
        connection.writer().clear();
        let mut state = self.state();
        let connect_again = state.connection_lost(connection, reason, &self.here);
        self.attract_attention(&state);
        drop(state);
        self.commands.give(Command::Forget(connection.clone()));
        if let Some(link) = connect_again {
            self.commands.give(Command::Dial(link));
        }
    }

    /// Notes which thread makes a call. From the second one on, a wait says nothing about the instance: another thread may go on.
    #[inline]
    pub fn note_caller(&self) {
        if self.callers.note() {
            self.state().waiters.wake(None); // so that a wait that was reported is withdrawn
        }
    }

    /// Notes where the program is, and has the I/O thread report it soon.
    pub fn note_position(&self, position: Position) {
        if self.progress.note(position) {
            self.commands.give(Command::Progress);
        }
    }

    /// How far the instance is.
    pub fn progress_report(&self) -> ToCoordinator {
        let counters = self.state().conduits.counters(self.progress.position());
        ToCoordinator::Progress {
            run: counters.position.run,
            iteration: counters.position.iteration,
            time: counters.position.time,
            messages_sent: counters.messages_sent,
            bytes_sent: counters.bytes_sent,
            messages_received: counters.messages_received,
            bytes_received: counters.bytes_received,
        }
    }

    /// Tells the coordinator something. If the connection to it is lost, it hears that when there is another one; if there will be none,
    /// nobody does.
    pub fn tell(&self, message: &ToCoordinator) {
        if let Some(connection) = self.control.say(message) {
            self.flush(&connection);
        }
    }
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
