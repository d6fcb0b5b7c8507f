//! What a program of the model holds: its ports, its place in the submodel execution loop, and its conduits.

mod alone;
mod callbacks;
mod clock;
mod exchange;
mod groups;
mod handles;
mod join;
mod leave;
mod loans;
mod methods;
mod names;
mod object;
mod objects;
mod objects_in_parts;
mod parts;
mod payloads;
mod pools;
mod ports;
mod ranks;
mod stamps;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use smallvec::SmallVec;

use xmml_wire::data::Order;
use xmml_wire::error::{Error, Result};
use xmml_wire::frame::check::Algorithm;
use xmml_wire::lock::lock;
use xmml_wire::message::Message;

use crate::conduit::inlet::Next;
use crate::filters::{self, Chain};
use crate::runtime::short;
use crate::runtime::state::{Position, State};
use crate::runtime::wait::WaitFor;
use crate::runtime::Runtime;
use crate::sequence::Sequence;
use crate::spec::{Direction, InstanceSpec, Kind, ScaleSpec};
use crate::team::Team;

use self::alone::Alone;
use self::callbacks::Callbacks;
pub use self::callbacks::{Callback, Served};
use self::clock::Clock;
use self::loans::Loans;
pub use self::names::PortNames;
pub use self::object::{as_messages, Object};
pub use self::objects::Taken;
use self::pools::Pools;
use self::ports::{Initial, Ports};
pub use self::stamps::{NextStamp, Stamps};

/// How an instance finds its run. `None` means: as the environment says.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// Addresses of the coordinator, comma-separated, tried in order (`XMML_COORDINATOR`).
    pub coordinator: Option<String>,
    /// Name of this instance in the model (`XMML_INSTANCE`).
    pub instance: Option<String>,
    /// File that holds the run's secret (`XMML_SECRET_FILE`).
    pub secret_file: Option<PathBuf>,
    /// The language of the program, for reports.
    pub language: &'static str,
}

/// What became of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Sent {
    /// On its way (to every receiver that still takes messages).
    Queued,
    /// Every receiver has left; the message was dropped and counted.
    ReceiverGone,
    /// The port is not coupled: nothing happened.
    NotConnected,
}

/// What a receive found.
#[derive(Clone, Debug)]
pub enum Received {
    /// The next message.
    Message(Message),
    /// The sender has ended and everything it sent has been received.
    Ended,
    /// The time-out passed; nothing was taken.
    TimedOut,
    /// The port is not coupled.
    NotConnected,
    /// The port brings the state of the previous pass, and this is the first.
    NoStateYet,
}

/// A program's membership of a run: the face of this crate. Its calls stand in one file for each subject (`exchange.rs` sends and receives,
/// `join.rs`, `leave.rs`, `ranks.rs` ...); what they work on are the values below.
///
/// All methods take `&self`; one instance may be shared between threads, but must not be used in a
/// child after `fork`. Dropping it without [`Instance::leave`] is a failure of the instance.
pub struct Instance {
    spec: InstanceSpec,
    ports: Ports,
    /// What a run waits for before it begins.
    initial: Initial,
    backend: Backend,
    /// Whether a sending end has filters, by its index.
    filters_outlet: Vec<bool>,
    /// Conduit of a sending end, which copy of this instance it is, and how its messages are checked on the wire, by its index.
    outgoing: Vec<(u32, Option<u32>, Option<Algorithm>)>,
    program: Mutex<Program>,
    /// The other ranks, if this is one of several that joined together.
    team: Option<Box<dyn Team>>,
    loans: Loans,
    callbacks: Callbacks,
    pools: Pools,
    /// The process that joined.
    pid: u32,
}

/// Where messages go and come from.
enum Backend {
    Run { runtime: Arc<Runtime> },
    Alone(Box<Alone>),
}

/// Where the program is in its loop. Locked for moments only, never during a wait.
struct Program {
    sequence: Sequence,
    clock: Clock,
    /// Filters of the sending ends, by their index.
    outlets: Vec<Chain>,
    /// What people were told once and need not hear again.
    warned: BTreeSet<(&'static str, String)>,
    reused: bool,
    left: bool,
    /// Extents of the array that was last sent or received in parts, by port.
    wholes: BTreeMap<String, Vec<u64>>,
    /// In which memory order parts are put together.
    order: Order,
}

impl Instance {
    /// Joins the run: finds the coordinator, proves knowledge of the secret, and learns ports, conduits and parameters.
    ///
    /// # Errors
    /// [`Error::NotInARun`] when a value is neither given nor in the environment; otherwise what keeps it from joining. It waits up to
    /// 30 s for the coordinator.
    pub fn join(options: JoinOptions) -> Result<Instance> {
        let me = Instance::join_as_member(options)?;
        me.check_that_it_is_all()?;
        Ok(me)
    }

    fn join_as_member(options: JoinOptions) -> Result<Instance> {
        let joined = join::join(&options)?;
        let backend = Backend::Run { runtime: joined.runtime };
        Instance::assemble(joined.spec, joined.ports, backend)
    }

    /// An instance without a run, for tests: its in ports deliver `inputs` (key `port`, or `port[3]` for a copy), then end. In ports
    /// without inputs are not connected; all out ports are.
    pub fn alone(spec: InstanceSpec, inputs: BTreeMap<String, Vec<Message>>) -> Result<Instance> {
        let (spec, alone) = Alone::new(spec, inputs)?;
        let ports = alone.with_state(|state| Ports::new(&spec, state));
        Instance::assemble(spec, ports, Backend::Alone(Box::new(alone)))
    }

    fn assemble(spec: InstanceSpec, mut ports: Ports, backend: Backend) -> Result<Instance> {
        let outlets = spec
            .conduits
            .iter()
            .filter(|conduit| conduit.sender == spec.name)
            .map(|conduit| Chain::build(&conduit.sender_filters, &conduit.name))
            .collect::<Result<_>>()?;
        let program = Program {
            sequence: Sequence::new(&spec),
            clock: Clock::new(&spec),
            outlets,
            warned: BTreeSet::new(),
            reused: false,
            left: false,
            wholes: BTreeMap::new(),
            order: Order::RowMajor,
        };
        ports.take_places(&program.sequence);
        let pools = match &backend {
            Backend::Run { runtime } => Pools::new(&spec, &mut runtime.state())?,
            Backend::Alone(alone) => alone.with_state(|state| Pools::new(&spec, state))?,
        };
        let filters_outlet = program.outlets.iter().map(|outlet| !outlet.is_empty()).collect();
        let sending = spec.conduits.iter().filter(|conduit| conduit.sender == spec.name);
        let outgoing = sending
            .map(|conduit| (conduit.id, conduit.sender_copy, filters::checksum(&conduit.sender_filters)))
            .collect();
        Ok(Instance {
            initial: ports.initial(spec.kind),
            ports,
            backend,
            filters_outlet,
            outgoing,
            program: Mutex::new(program),
            team: None,
            loans: Loans::default(),
            pools,
            callbacks: Callbacks::default(),
            pid: std::process::id(),
            spec,
        })
    }

    /// Sets what a waiting call asks when a signal interrupts its poll(2), and at least every second: true ends the wait with
    /// [`Error::Interrupted`]. Bindings need it where signal handlers run in the interpreter (Ctrl-C in Python).
    pub fn set_interrupt(&self, check: Box<dyn Fn() -> bool + Send + Sync>) {
        if let Backend::Run { runtime } = &self.backend {
            runtime.set_interrupt(Arc::from(check));
        }
    }

    /// What an instance made by [`Instance::alone`] has sent, by port (`port[3]` for a copy), but for objects
    /// ([`Instance::put_so_far`]); empty for a joined one.
    pub fn outputs(&self) -> BTreeMap<String, Vec<Message>> {
        match &self.backend {
            Backend::Run { .. } => BTreeMap::new(),
            Backend::Alone(alone) => {
                let mut outputs = alone.outputs();
                outputs.retain(|port, _| !self.leads_to_pools(port));
                outputs
            }
        }
    }

    /// What the model says about this instance.
    pub fn spec(&self) -> &InstanceSpec {
        &self.spec
    }

    /// Its name in the model.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Looks an out port up once: returns its name as this instance keeps it. Every call that takes the name of a port takes this one, and
    /// knows it by its address.
    ///
    /// # Errors
    /// [`Error::PortUnknown`]; [`Error::PortDirection`] for an in port.
    pub fn bind_out(&self, port: &str) -> Result<&str> {
        self.ports.bind(port, Direction::Out)
    }

    /// [`Instance::bind_out`] of an in port.
    ///
    /// # Errors
    /// [`Error::PortUnknown`]; [`Error::PortDirection`] for an out port.
    pub fn bind_in(&self, port: &str) -> Result<&str> {
        self.ports.bind(port, Direction::In)
    }

    /// The names of all ports as this instance keeps them, bound to nothing but it.
    pub fn port_names(&self) -> &PortNames {
        self.ports.names()
    }

    /// The number of a port among [`Instance::port_names`].
    pub fn port_number(&self, port: &str) -> Option<usize> {
        self.ports.number_of(port)
    }

    /// [`Instance::reuse`], as far as this process has to do with it.
    fn reuse_here(&self) -> Result<bool> {
        let is_first = {
            let program = self.program()?;
            program.sequence.may_reuse()?;
            !program.reused
        };
        if !is_first {
            self.end_run_of_outlets()?;
        }
        let initial = &self.initial;
        let (begins, origin) = match initial.partners.is_empty() {
            true => (is_first, None),
            false => self.wait_for_initial(&initial.partners, if is_first { &[] } else { &initial.state })?,
        };
        let position = {
            let mut program = self.program()?;
            program.reused = true;
            if begins {
                program.sequence.begin_run();
                program.clock.begin_run(origin);
            } else {
                program.sequence.end();
            }
            program.position()
        };
        self.note_position(position);
        Ok(begins)
    }

    /// Whether every partner has sent a message (and the previous run its `state`), or all have ended; and the largest time stamp of those
    /// messages.
    fn wait_for_initial(&self, initial: &[usize], own: &[usize]) -> Result<(bool, Option<f64>)> {
        if let ([end], []) = (initial, own) {
            self.runtime_without_callbacks().into_iter().for_each(|runtime| short::prepare(runtime, *end));
        }
        let mut what = WaitFor::messages(initial);
        what.receiving.extend_from_slice(own);
        let is_mapper = self.spec.kind == Kind::Mapper;
        let mut has_filters = false;
        let found = self.wait(&what, None, |state| {
            let (mut waiting, mut ended) = (SmallVec::<[usize; 4]>::new(), SmallVec::<[usize; 4]>::new());
            has_filters = what.receiving.iter().any(|end| state.conduits.inlets[*end].has_filters());
            for end in initial {
                match state.next_for_program(*end)? {
                    Next::Message => waiting.push(*end),
                    Next::Ended => ended.push(*end),
                    Next::Nothing => {}
                }
            }
            if is_mapper && !ended.is_empty() {
                return Ok(Some((false, None)));
            }
            if !ended.is_empty() && !waiting.is_empty() {
                return Err(Error::Usage { problem: self.uneven_ends(state, &ended, &waiting) });
            }
            if waiting.len() == initial.len() {
                for end in own {
                    if state.next_for_program(*end)? != Next::Message {
                        return Ok(None);
                    }
                }
                let stamps = initial.iter().filter_map(|end| state.conduits.inlets[*end].waiting_timestamp());
                return Ok(Some((true, stamps.reduce(f64::max))));
            }
            Ok((ended.len() == initial.len()).then_some((false, None)))
        });
        if has_filters {
            self.tell_warnings_of(&what.receiving);
        }
        Ok(found?.unwrap_or((false, None)))
    }

    fn uneven_ends(&self, state: &State, ended: &[usize], waiting: &[usize]) -> String {
        let name = |end: &usize| {
            let conduit = &state.conduits.receiving[*end].spec;
            format!("{} (from {})", conduit.receiver_port, conduit.sender)
        };
        format!(
            "{}: the next run cannot begin: {} ended while {} still has messages; the senders must send equally often, or set init on one side",
            self.spec.name,
            ended.iter().map(name).collect::<Vec<_>>().join(", "),
            waiting.iter().map(name).collect::<Vec<_>>().join(", "),
        )
    }

    /// Begins the next iteration and returns its model time, origin + i * delta; `None` after the last. (With `until` it goes on until
    /// the program stops asking.)
    ///
    /// # Errors
    /// [`Error::OperatorOrder`] if the current iteration is not complete.
    pub fn next_step(&self) -> Result<Option<f64>> {
        let (time, position) = {
            let mut program = self.program()?;
            let time = match program.sequence.next_step()? {
                Some(iteration) => {
                    program.clock.begin_iteration(iteration);
                    Some(program.clock.time())
                }
                None => {
                    let iterations = program.sequence.iterations();
                    program.clock.end_loop(iterations);
                    None
                }
            };
            (time, program.position())
        };
        self.note_position(position);
        Ok(time)
    }

    /// Model time at which this pass began, in seconds.
    pub fn origin(&self) -> f64 {
        self.program_even_after_leaving().clock.origin()
    }

    /// Model time of the current iteration, in seconds.
    pub fn time(&self) -> f64 {
        self.program_even_after_leaving().clock.time()
    }

    /// The error for a receive that insists on a message after the end of the conduit.
    pub fn ended_error(&self, port: &str, of: Option<u32>) -> Error {
        let (peer, received) = match self.ports.sender(port, of) {
            Ok((declared, _)) if self.has_holders(declared).is_some() => self.with_state(|state| {
                let ends = state.open.all_ends(port);
                let handed = ends.iter().map(|end| state.conduits.inlets[*end].handed).sum();
                ("everyone who had a handle of it".to_owned(), handed)
            }),
            Ok((_, Some(end))) => self.with_state(|state| {
                (state.conduits.receiving[end].spec.sender.clone(), state.conduits.inlets[end].handed)
            }),
            _ => ("the sender".to_owned(), 0),
        };
        Error::Ended { instance: self.spec.name.clone(), port: port.to_owned(), peer, received }
    }

    /// Whether a message waits on a port here, or (`Some(false)`) none will come; `None` if neither is so at the time `until`.
    fn look_for_message(&self, port: &str, of: Option<u32>, until: Instant) -> Result<Option<bool>> {
        let (declared, ends) = self.ports.senders(port, of)?;
        drop(self.program()?);
        if self.has_holders(declared).is_some() {
            return self.look_for_holders(declared, until);
        }
        if self.comes_from_pools(declared) {
            return self.look_for_object(declared, until);
        }
        if ends.is_empty() || (declared.is_state && self.is_first_run()) {
            return Ok(Some(false));
        }
        let what = WaitFor::messages(&ends).unreported();
        let found = self.wait(&what, Some(until), |state| {
            let mut all = Some(true);
            for end in &ends {
                match state.next_for_program(*end)? {
                    Next::Message => {}
                    Next::Ended => return Ok(Some(false)),
                    Next::Nothing => all = None,
                }
            }
            Ok(all)
        });
        self.tell_warnings_of(&what.receiving);
        found
    }

    /// Declares that nothing will be sent on an out port in this iteration (O_i) or run (O_f).
    pub fn skip(&self, port: &str) -> Result<()> {
        self.ports.out(port)?;
        self.program()?.sequence.skip(port)
    }

    /// A scale of the model, by its id.
    pub fn scale(&self, name: &str) -> Result<&ScaleSpec> {
        self.spec.scales.iter().find(|scale| scale.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.spec.scales.iter().map(|scale| scale.name.as_str()).collect();
            let known =
                if known.is_empty() { "it gives none".into() } else { format!("it gives {}", known.join(", ")) };
            Error::Usage { problem: format!("{} has no scale \"{name}\" in the model; {known}", self.spec.name) }
        })
    }

    /// Whether the port is coupled to anything. During the first run, one for the state of the previous pass is not.
    pub fn connected(&self, port: &str) -> Result<bool> {
        let port = self.ports.get(port)?;
        if let Some(runtime) = self.has_holders(port) {
            return Ok(runtime.state().open.is_connected(&port.name));
        }
        Ok(port.is_connected() && !(port.is_state && self.is_first_run()))
    }

    /// How many copies are at the other end of the port; 0 if it is not a multiplied instance.
    pub fn copies(&self, port: &str) -> Result<u32> {
        Ok(self.ports.get(port)?.copies)
    }

    /// The error for a receive without a default that found [`Received::NotConnected`] or [`Received::NoStateYet`].
    pub fn no_message_error(&self, port: &str) -> Error {
        let (instance, port) = (self.spec.name.clone(), port.to_owned());
        match self.ports.get(&port).is_ok_and(|port| port.is_state) {
            true => Error::NoStateYet { instance, port },
            false => Error::NotConnected { instance, port, is_alone: matches!(self.backend, Backend::Alone(_)) },
        }
    }

    // ---- inside ----------------------------------------------------------------------------------------------------------------

    fn program_even_after_leaving(&self) -> MutexGuard<'_, Program> {
        lock(&self.program)
    }

    fn program(&self) -> Result<MutexGuard<'_, Program>> {
        let program = self.program_even_after_leaving();
        if program.left {
            let problem = format!("{} has left the run; nothing can be sent or received any more", self.spec.name);
            return Err(Error::Usage { problem });
        }
        Ok(program)
    }

    fn is_first_run(&self) -> bool {
        self.program_even_after_leaving().sequence.runs() == 1
    }

    fn with_state<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        match &self.backend {
            Backend::Run { runtime } => look(&mut runtime.state()),
            Backend::Alone(alone) => alone.with_state(look),
        }
    }

    /// Passes on what the filters of these receiving ends have to say.
    fn tell_warnings_of(&self, receiving: &[usize]) {
        let warnings: Vec<String> = self
            .with_state(|state| receiving.iter().flat_map(|end| state.conduits.inlets[*end].take_warnings()).collect());
        warnings.iter().for_each(|warning| self.warn(warning));
    }

    fn warn_once(&self, kind: &'static str, port: &str, text: impl FnOnce() -> String) {
        let is_new = self.program_even_after_leaving().warned.insert((kind, port.to_owned()));
        if is_new {
            self.warn(&text());
        }
    }

    /// Writes down where the program is, for the reports.
    fn note_progress(&self) {
        let position = self.program_even_after_leaving().position();
        self.note_position(position);
    }

    fn note_position(&self, position: Position) {
        if let Backend::Run { runtime } = &self.backend {
            runtime.note_position(position);
        }
    }
}

impl Program {
    fn position(&self) -> Position {
        let (run, iteration) = (self.sequence.runs(), self.sequence.iterations());
        Position { run, iteration, time: self.clock.time() }
    }

    /// Where the program just sends and receives, without asking for its steps: the clock follows the iterations that this implies.
    fn follow_iteration(&mut self) {
        if let Some(iteration) = self.sequence.iteration() {
            self.clock.begin_iteration(iteration);
        }
    }
}
