//! The protocol side of the one coordinator of a run: it listens, authenticates, registers instances, hands out descriptor tables, and
//! turns frames into events. It decides nothing; policy is with whoever holds it.

mod address;
mod server;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use xmml_wire::error::{Error, Result};
use xmml_wire::handshake::Party;
use xmml_wire::lock::lock;
use xmml_wire::methods::{self, Listener, MethodReport, Refusal};
use xmml_wire::wakeup::{poll_readable, EventFd};

pub use crate::control::{ConduitTotals, Wait, WaitKind};
use crate::spec::{ConduitSpec, InstanceSpec};

pub use address::CoordinatorAddress;
use server::Server;

/// How to start a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorOptions {
    /// Names the run; part of what peers prove.
    pub run_id: String,
    /// The run's secret.
    pub secret: Vec<u8>,
    /// Also listen on this TCP `host:port` (port 0: any). `None`: only on an abstract Unix socket.
    pub listen: Option<String>,
    /// Also be reached as `coordinator` through this relay (`HOST:PORT/SITE`).
    pub relay: Option<String>,
}

/// What happened in the run.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Event {
    /// An instance has registered.
    Joined { instance: String, pid: u32, host: String, language: String, version: String },
    /// How far an instance is; at most four times a second, and only when something changed.
    Progress {
        instance: String,
        run: u64,
        iteration: u64,
        time: f64,
        messages_sent: u64,
        bytes_sent: u64,
        messages_received: u64,
        bytes_received: u64,
    },
    /// An instance has been waiting for longer than 100 ms, for all of `waits` or for any one of them, for ever or for some time; with its
    /// messages sent and received per conduit (id, count).
    Waiting {
        instance: String,
        epoch: u64,
        waits: Vec<Wait>,
        is_any: bool,
        is_timed: bool,
        sent: Vec<(u32, u64)>,
        received: Vec<(u32, u64)>,
    },
    /// It goes on.
    Resumed { instance: String, epoch: u64 },
    /// The answer to [`Coordinator::confirm`].
    Confirmed { instance: String, epoch: u64, still: bool },
    /// An instance has something to tell people.
    Warning { instance: String, text: String },
    /// An instance says that it failed.
    Failed { instance: String, text: String },
    /// An instance ended normally.
    Left { instance: String, runs: u64, conduits: Vec<ConduitTotals>, waited_s: f64 },
    /// The connection of an instance broke; within `limit_s` seconds it may come back.
    Away { instance: String, limit_s: f64 },
    /// It has come back; what it has said meanwhile comes now.
    Back { instance: String },
    /// The connection of an instance closed without its leaving, and it does not come back.
    Lost { instance: String },
    /// A peer was turned away (reported once per source).
    Refused { peer: String, reason: String },
    /// A sender has chosen the method of conduits to one receiver, and passed over others.
    Conduits { instance: String, conduits: Vec<u32>, method: String, protected: bool, refused: Vec<Refusal> },
    /// The answer to [`Coordinator::enquire`]: how the conduits that begin and end at an instance travel, and what has passed.
    Figures { instance: String, number: u64, sending: Vec<MethodReport>, receiving: Vec<MethodReport> },
    /// What became of a change of methods, with its number: the method in use now (none: it is chosen when the receiver joins), and why it is not
    /// another.
    Changed { instance: String, change: u64, conduit: u32, method: Option<String>, problem: Option<String> },
    /// So many objects of a conduit whose reader has died go to other readers; `deadly`: the number (`sys.seq`) of one that too many have
    /// died with.
    GivenAgain { instance: String, conduit: u32, objects: u64, deadly: Option<u64> },
    /// An instance has opened a handle, or joined as a tap: there is a conduit more.
    Opened { instance: String, conduit: Box<ConduitSpec> },
}

/// A running coordinator; it has one thread. Dropping it closes it.
pub struct Coordinator {
    addresses: Vec<String>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the holder of a coordinator and its thread share.
struct Shared {
    events: Mutex<Vec<Event>>,
    /// Raised while there are events.
    happened: EventFd,
    commands: Mutex<Vec<Command>>,
    /// Raised while there are commands.
    wanted: EventFd,
    /// Changes of methods so far.
    changes: AtomicU64,
}

/// What the holder asks of the thread.
enum Command {
    Define(Vec<InstanceSpec>),
    AddTap(InstanceSpec),
    Abort(String),
    Grow { conduit: u32, capacity: u32 },
    Confirm { instance: String, epoch: u64 },
    Change { change: u64, conduit: u32, methods: Vec<String> },
    Enquire { number: u64 },
    GoOnWithout(String),
    Close,
}

impl Coordinator {
    /// Starts listening.
    ///
    /// # Errors
    /// [`Error::Io`] naming the address that cannot be listened on, and why; [`Error::Usage`] for an empty secret.
    pub fn start(options: CoordinatorOptions) -> Result<Coordinator> {
        if options.secret.is_empty() {
            return Err(Error::Usage { problem: "the run's secret is empty".to_owned() });
        }
        let me = Party::new(&options.secret, &options.run_id, "coordinator")?;
        let mut listeners = vec![listen("unix", None, &me)?];
        if let Some(address) = &options.listen {
            listeners.push(listen("tcp", Some(address), &me)?);
        }
        if let Some(address) = &options.relay {
            listeners.push(listen("relay", Some(address), &me)?);
        }
        let addresses = listeners
            .iter()
            .flat_map(|(name, listener)| {
                let run = &options.run_id;
                listener.addresses().into_iter().map(move |address| {
                    CoordinatorAddress { method: (*name).to_owned(), address, run: run.clone() }.to_string()
                })
            })
            .collect();
        let flag = || EventFd::new().map_err(|error| io_error("make an eventfd", &error));
        let shared = Arc::new(Shared {
            events: Mutex::default(),
            happened: flag()?,
            commands: Mutex::default(),
            wanted: flag()?,
            changes: AtomicU64::new(0),
        });
        let listeners = listeners.into_iter().map(|(_, listener)| listener).collect();
        let server = Server::new(options, listeners, Arc::clone(&shared))?;
        let thread = std::thread::Builder::new()
            .name("xmml-coordinator".to_owned())
            .spawn(move || server.serve())
            .map_err(|error| io_error("start the coordinator's thread", &error))?;
        Ok(Coordinator { addresses, shared, thread: Mutex::new(Some(thread)) })
    }

    /// Where instances find it, for `XMML_COORDINATOR`: `unix:@...?run=...` (abstract socket),
    /// `tcp:127.0.0.1:4711?run=...` (see [`CoordinatorAddress`]).
    pub fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    /// A descriptor that is readable while events wait; it stays owned by the coordinator.
    pub fn event_fd(&self) -> RawFd {
        self.shared.happened.as_raw_fd()
    }

    /// The events since the last call; does not wait.
    pub fn take_events(&self) -> Vec<Event> {
        let mut events = lock(&self.shared.events);
        self.shared.happened.lower();
        std::mem::take(&mut *events)
    }

    /// As [`Coordinator::take_events`], waiting up to `timeout` for the first.
    pub fn wait_events(&self, timeout: Duration) -> Vec<Event> {
        let until = Instant::now().checked_add(timeout);
        // An interrupted or failed wait only means that the answer may be empty before the time.
        let _ = poll_readable(&[self.event_fd()], until);
        self.take_events()
    }

    /// Makes an instance known; it may join from now on. (One that asks earlier is kept waiting.)
    pub fn define(&self, spec: InstanceSpec) {
        self.define_all(vec![spec]);
    }

    /// As [`Coordinator::define`], for many.
    pub fn define_all(&self, specs: Vec<InstanceSpec>) {
        self.shared.command(Command::Define(specs));
    }

    /// Makes a tap known, which may join from now on: an instance of which the model knows nothing, and that is shown what passes out ports
    /// of others. The conduits of its spec, which are pools with `is_tap`, begin there; they get their numbers here, and exist from when it joins
    /// ([`Event::Opened`]). Whatever it does, the others go on.
    pub fn add_tap(&self, spec: InstanceSpec) {
        self.shared.command(Command::AddTap(spec));
    }

    /// Tells every instance that the run is over: whatever it waits for ends with an error.
    pub fn abort(&self, reason: &str) {
        self.shared.command(Command::Abort(reason.to_owned()));
    }

    /// An instance has died, or counts as dead, and the run goes on: its partners hear of that, and it is not let in any more.
    pub fn go_on_without(&self, instance: &str) {
        self.shared.command(Command::GoOnWithout(instance.to_owned()));
    }

    /// Enlarges a conduit (ends a deadlock that contains a send on a full conduit).
    pub fn grow(&self, conduit: u32, capacity: u32) {
        self.shared.command(Command::Grow { conduit, capacity });
    }

    /// Asks an instance whether it is still in the wait it reported with this epoch.
    pub fn confirm(&self, instance: &str, epoch: u64) {
        self.shared.command(Command::Confirm { instance: instance.to_owned(), epoch });
    }

    /// Asks every instance that is part of the run now how its conduits travel; each answers with [`Event::Figures`] and this number.
    pub fn enquire(&self, number: u64) {
        self.shared.command(Command::Enquire { number });
    }

    /// Allows other methods on a conduit, in this order (none: all, fastest first), also while messages pass. What becomes of it comes
    /// as [`Event::Changed`] with the number that is returned. Of two changes of a conduit the later one holds; the other is told that it was
    /// overtaken, if it had not come about yet.
    ///
    /// # Errors
    /// [`Error::Usage`] for a method that does not exist.
    pub fn change(&self, conduit: u32, methods: &[String]) -> Result<u64> {
        methods::check_names(methods)?;
        let change = self.shared.next_change();
        self.shared.command(Command::Change { change, conduit, methods: methods.to_vec() });
        Ok(change)
    }

    /// Stops listening and closes every connection. Does nothing the second time.
    pub fn close(&self) {
        if let Some(thread) = lock(&self.thread).take() {
            self.shared.command(Command::Close);
            // A thread that panicked has printed why; there is nothing left to close.
            let _ = thread.join();
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn command(&self, command: Command) {
        lock(&self.commands).push(command);
        self.wanted.raise();
    }

    fn event(&self, event: Event) {
        let mut events = lock(&self.events);
        events.push(event);
        self.happened.raise();
    }

    /// A number for a change of methods.
    fn next_change(&self) -> u64 {
        self.changes.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How many numbers were given to changes so far.
    fn changes_so_far(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn take_commands(&self) -> Vec<Command> {
        let mut commands = lock(&self.commands);
        self.wanted.lower();
        std::mem::take(&mut *commands)
    }
}

fn io_error(action: &str, error: &io::Error) -> Error {
    Error::io(action, error)
}

fn listen(method: &'static str, address: Option<&str>, me: &Party) -> Result<(&'static str, Box<dyn Listener>)> {
    let found =
        methods::by_name(method).ok_or_else(|| Error::Usage { problem: format!("there is no method {method}") })?;
    let listener = found
        .listen(address, me)
        .map_err(|error| io_error(&format!("listen on {}", address.unwrap_or("an abstract Unix socket")), &error))?;
    Ok((method, listener))
}
