//! Handles of ports: an open in port gives them away, an open out port sends by them.

use std::time::{Duration, Instant};

use xmml_wire::error::{Error, Result};
use xmml_wire::message::Message;
use xmml_wire::methods::{self, Table};

use crate::control::ToCoordinator;
use crate::handle::Handle;
use crate::runtime::handles::FromHolders;
use crate::runtime::wait::{wait, WaitFor};
use crate::runtime::Runtime;
use crate::spec::Direction;
use crate::team;

use super::ports::Port;
use super::{Backend, Instance, Received};

/// How long the opening of a handle may take: the coordinator and the I/O thread of the receiver answer, no program is waited for.
const OPENING_LIMIT: Duration = Duration::from_secs(30);

/// Of the handles that an instance without a run makes.
const RUN_ALONE: &str = "alone";

impl Instance {
    /// A handle of an open in port: bytes that may be sent as (part of) a payload to any instance of the run, which can then send to this
    /// port. `holders` may open it (0: any number). With `methods`, it is reached by these, in this order, and the handle carries their
    /// addresses; without, as the coordinator knows.
    ///
    /// The port ends when everyone that its handles were made for has opened and closed them (or left), or they were revoked, or every
    /// other instance has left. Of ranks that joined together all call this.
    ///
    /// # Errors
    /// [`Error::Usage`] if the model does not declare the port as open, or if this instance is not reached by one of the methods.
    pub fn handle(&self, port: &str, holders: u32, methods: &[String]) -> Result<Vec<u8>> {
        match self.together(port)? {
            None => self.handle_here(port, holders, methods),
            Some(team) => team::share(team, (team.rank() == 0).then(|| self.handle_here(port, holders, methods))),
        }
    }

    fn handle_here(&self, port: &str, holders: u32, methods: &[String]) -> Result<Vec<u8>> {
        self.open_port(port, Direction::In)?;
        methods::check_names(methods)?;
        if let Some(choice) = methods.iter().find(|choice| choice.contains(':')) {
            let problem =
                format!("{choice}: a handle says where its port is reached; parameters are for those who send by it");
            return Err(Error::Usage { problem });
        }
        drop(self.program()?);
        let Backend::Run { runtime } = &self.backend else {
            return Handle::new(RUN_ALONE, self.name(), port, 0, None).sealed(RUN_ALONE, RUN_ALONE.as_bytes());
        };
        let (number, is_first, table) = {
            let mut state = runtime.state();
            let table = match methods.is_empty() {
                true => None,
                false => Some(self.chosen_from(state.open.table(), methods)?),
            };
            let input = state.open.input(port).ok_or_else(|| self.not_open(port, Direction::In))?;
            let (number, is_first) = state.open.give(input, holders);
            (number, is_first, table)
        };
        if is_first {
            runtime.tell(&ToCoordinator::HandsOut);
        }
        Handle::new(&runtime.identity.run, self.model_name(), port, number, table)
            .sealed(&runtime.identity.run, &runtime.identity.secret)
    }

    /// The entries of the own table for these methods, in this order.
    fn chosen_from(&self, own: Option<&Table>, methods: &[String]) -> Result<Table> {
        let own = own.ok_or_else(|| self.not_reached_by(&methods.join(", "), &[]))?;
        let entries = methods.iter().map(|method| {
            let offered: Vec<&str> = own.entries.iter().map(|entry| &*entry.method).collect();
            let found = own.entries.iter().find(|entry| entry.method == *method);
            found.cloned().ok_or_else(|| self.not_reached_by(method, &offered))
        });
        Ok(Table { place: own.place.clone(), entries: entries.collect::<Result<_>>()? })
    }

    fn not_reached_by(&self, method: &str, offered: &[&str]) -> Error {
        let offered = if offered.is_empty() { "by nothing".to_owned() } else { format!("by {}", offered.join(", ")) };
        Error::Usage { problem: format!("{} is not reached by {method} but {offered}", self.name()) }
    }

    /// Nobody may open this handle, made here, any more. Conduits that it has made go on.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is no handle of a port of this instance.
    pub fn revoke(&self, handle: &[u8]) -> Result<()> {
        let Backend::Run { runtime } = &self.backend else { return Handle::read(handle).map(|_| ()) };
        let handle = Handle::verified(handle, &runtime.identity.run, &runtime.identity.secret)?;
        if handle.instance != self.model_name() {
            let problem = format!("{} can only revoke its own handles; this is {handle}", self.model_name());
            return Err(Error::Usage { problem });
        }
        let mut state = runtime.state();
        state.open.revoke(handle.number);
        runtime.attract_attention(&state);
        Ok(())
    }

    /// From now on what is sent on this open out port goes to the port that the handle stands for. Returns a number by which a send can
    /// address it alone (`to`); without, it goes to every handle that is open at the port. Each opening makes a conduit of its own, as
    /// reliable and orderly as those of the model, until it is closed or this instance leaves. If the receiver has left, messages are
    /// dropped and counted.
    ///
    /// Of ranks that joined together all call this.
    ///
    /// # Errors
    /// [`Error::Usage`] if the model does not declare the port as open; if the handle is damaged, forged or of another run; if it was
    /// revoked, or opened as often as it was made for. Needs the coordinator.
    pub fn open(&self, port: &str, handle: &[u8]) -> Result<u32> {
        match self.together(port)? {
            None => self.open_here(port, handle),
            Some(team) => team::share(team, (team.rank() == 0).then(|| self.open_here(port, handle))),
        }
    }

    fn open_here(&self, port: &str, handle: &[u8]) -> Result<u32> {
        self.open_port(port, Direction::Out)?;
        drop(self.program()?);
        let Backend::Run { runtime } = &self.backend else { return Handle::read(handle).map(|_| 0) };
        // The coordinator looks again; what cannot be right need not go there.
        Handle::verified(handle, &runtime.identity.run, &runtime.identity.secret)?;
        let request = runtime.state().open.request(port).ok_or_else(|| self.not_open(port, Direction::Out))?;
        runtime.tell(&ToCoordinator::Open { request, port: port.to_owned(), handle: handle.to_vec() });
        let until = Instant::now() + OPENING_LIMIT;
        let answer = wait(runtime, &WaitFor::default(), Some(until), |state| Ok(state.open.answer_to(request)));
        runtime.state().open.forget(request);
        match answer? {
            Some(Ok(slot)) => Ok(slot),
            Some(Err(problem)) => {
                Err(Error::Usage { problem: format!("{}.{port} cannot open a handle: {problem}", self.name()) })
            }
            None => {
                let problem = format!("it did not answer within {} s", OPENING_LIMIT.as_secs());
                Err(Error::Protocol { peer: "the coordinator".into(), problem })
            }
        }
    }

    /// Ends what [`Instance::open`] began: that with the number `slot`, or all that are open at the port. What was sent before arrives.
    pub fn close(&self, port: &str, slot: Option<u32>) -> Result<()> {
        self.open_port(port, Direction::Out)?;
        drop(self.program()?);
        let Backend::Run { runtime } = &self.backend else { return Ok(()) };
        let mut state = runtime.state();
        for end in state.open.empty_slots(port, slot) {
            if let Some(frame) = state.conduits.sending[end].end() {
                state.routing().queue_on_link(end, frame);
            }
        }
        Ok(())
    }

    /// The port of this name, if it is an open one.
    fn open_port(&self, port: &str, direction: Direction) -> Result<&Port> {
        let declared = match direction {
            Direction::In => self.ports.sender(port, None)?.0,
            Direction::Out => self.ports.out(port)?,
        };
        if declared.is_open {
            Ok(declared)
        } else {
            Err(self.not_open(port, direction))
        }
    }

    fn not_open(&self, port: &str, direction: Direction) -> Error {
        let what = match direction {
            Direction::In => "handles can be made of",
            Direction::Out => "handles can be opened by",
        };
        let problem = format!(
            "{what} ports that are open to them: write run:open=\"yes\" on the port \"{port}\" of {} in the model, and do not couple it",
            self.name()
        );
        Error::Usage { problem }
    }

    /// Whether the conduits of a port are made by handles. (Alone, they are lists as those of every port.)
    pub(super) fn has_holders(&self, port: &Port) -> Option<&Runtime> {
        match &self.backend {
            Backend::Run { runtime } if port.is_open => Some(runtime),
            _ => None,
        }
    }

    /// The sending ends of an open out port.
    pub(super) fn ends_by_handles(&self, runtime: &Runtime, port: &Port, to: Option<u32>) -> Result<Vec<usize>> {
        let ends = runtime.state().open.slots_of(&port.name, to);
        let where_to = match to {
            None => format!("{}.{} leads nowhere", self.name(), port.name),
            Some(slot) => format!("{}.{}: nothing is open with the number {slot}", self.name(), port.name),
        };
        let problem = format!("{where_to}: open a handle by it first");
        ends.filter(|ends| !ends.is_empty()).ok_or(Error::Usage { problem })
    }

    /// The next message from any of those who have opened a handle of this port: in order from each, and each has its turn.
    pub(super) fn receive_from_holders(&self, port: &Port, until: Option<Instant>) -> Result<Received> {
        drop(self.program()?);
        let input = self.with_state(|state| state.open.input(&port.name));
        let input = input.ok_or_else(|| self.not_open(&port.name, Direction::In))?;
        let received = self.wait(&WaitFor::holders(input), until, |state| {
            Ok(match state.look_at_holders(input)? {
                FromHolders::Message(end) => state.conduits.inlets[end].hand_out().map(Received::Message),
                FromHolders::Ended => Some(Received::Ended),
                FromHolders::Nothing => None,
                FromHolders::NoHandles => return Err(self.without_handles(&port.name)),
            })
        })?;
        if let Some(Received::Message(message)) = &received {
            self.account_outside_loop(message)?;
        }
        Ok(received.unwrap_or(Received::TimedOut))
    }

    /// A message was received that has no place in the loop.
    pub(super) fn account_outside_loop(&self, message: &Message) -> Result<()> {
        let position = {
            let mut program = self.program()?;
            program.clock.received(message.timestamp, message.next_timestamp);
            program.position()
        };
        self.note_position(position);
        Ok(())
    }

    /// Whether a message waits at an open in port, or (`Some(false)`) none will come; `None`: neither at the time `until`.
    pub(super) fn look_for_holders(&self, port: &Port, until: Instant) -> Result<Option<bool>> {
        let input = self.with_state(|state| state.open.input(&port.name));
        let input = input.ok_or_else(|| self.not_open(&port.name, Direction::In))?;
        self.wait(&WaitFor::holders(input).unreported(), Some(until), |state| {
            Ok(match state.look_at_holders(input)? {
                FromHolders::Message(_) => Some(true),
                FromHolders::Ended | FromHolders::NoHandles => Some(false),
                FromHolders::Nothing => None,
            })
        })
    }

    fn without_handles(&self, port: &str) -> Error {
        let problem = format!(
            "{}.{port} has no conduits in the model, and no handle of it has been made: nobody can send to it",
            self.name()
        );
        Error::Usage { problem }
    }
}
