//! The ports of an instance that are not coupled in the model, but by handles: an in port hands out handles and has a conduit from
//! everyone who opens one; an out port has a conduit for each handle that was opened by it.
//!
//! A handle is over when as many have opened it as it was made for, or when it was revoked, or when nobody else is left in the run. An in
//! port has ended when all its handles are over and all conduits that they made have ended.

use std::collections::HashMap;

use xmml_wire::error::Result;
use xmml_wire::methods::{Place, Table};

use crate::conduit::inlet::Next;
use crate::conduit::{ReceivingEnd, SendingEnd};
use crate::filters::Chain;
use crate::spec::{ConduitSpec, Direction, InstanceSpec};

use super::conduits::Conduits;
use super::connections::Connections;
use super::routing::Routing;

/// A handle that was made here.
#[derive(Debug)]
struct Given {
    port: usize,
    /// How many may open it; 0: any number.
    holders: u32,
    opened: u32,
    is_revoked: bool,
}

/// An open in port.
#[derive(Debug)]
struct OpenIn {
    name: String,
    /// Receiving ends of those who opened handles.
    ends: Vec<usize>,
    /// Which of them is looked at first: after the one that had its turn last.
    next: usize,
}

/// An open out port: a sending end for each handle that was opened, `None` after it was closed.
#[derive(Debug)]
struct OpenOut {
    name: String,
    slots: Vec<Option<usize>>,
}

/// What became of a request to open a handle; `None`: not known yet.
type Answer = Option<std::result::Result<u32, String>>;

/// The open ports of an instance, the handles that it has made, and those that it opens.
#[derive(Debug, Default)]
pub struct OpenPorts {
    inputs: Vec<OpenIn>,
    outputs: Vec<OpenOut>,
    /// By their numbers, which count from 0.
    given: Vec<Given>,
    /// Requests to open a handle: by which out port, and the answer.
    requests: HashMap<u32, (usize, Answer)>,
    last_request: u32,
    /// Every other instance has left.
    is_alone: bool,
    /// How this instance is reached.
    table: Option<Table>,
    /// What the environment allows for everything that is sent; empty: no word of it.
    methods: Vec<String>,
}

/// What an open in port has for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromHolders {
    /// A message, on this receiving end.
    Message(usize),
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    Ended,
    /// No handle has been made: nobody can send.
    NoHandles,
}

impl OpenPorts {
    /// Those that the model declares.
    pub fn new(spec: &InstanceSpec, methods: &[String]) -> OpenPorts {
        let of = |direction| spec.ports.iter().filter(move |port| port.open && port.direction == direction);
        OpenPorts {
            inputs: of(Direction::In)
                .map(|port| OpenIn { name: port.name.clone(), ends: Vec::new(), next: 0 })
                .collect(),
            outputs: of(Direction::Out).map(|port| OpenOut { name: port.name.clone(), slots: Vec::new() }).collect(),
            methods: methods.to_vec(),
            ..OpenPorts::default()
        }
    }

    /// The place of an open in port.
    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|port| port.name == name)
    }

    fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|port| port.name == name)
    }

    /// The receiving ends of an open in port.
    pub fn ends_of(&self, input: usize) -> impl Iterator<Item = usize> + '_ {
        self.inputs[input].ends.iter().copied()
    }

    /// The methods that a conduit may take.
    pub fn allowed_for<'a>(&'a self, conduit: &'a ConduitSpec) -> &'a [String] {
        if self.methods.is_empty() {
            &conduit.methods
        } else {
            &self.methods
        }
    }

    /// Every end of an open port, by its name.
    pub fn all_ends(&self, name: &str) -> Vec<usize> {
        match self.input(name) {
            Some(input) => self.inputs[input].ends.clone(),
            None => self.slots_of(name, None).unwrap_or_default(),
        }
    }

    /// The sending ends of an open out port: that in one place, or all. `None`: there is no such place, or it was closed.
    pub fn slots_of(&self, name: &str, slot: Option<u32>) -> Option<Vec<usize>> {
        let port = &self.outputs[self.output(name)?];
        match slot {
            None => Some(port.slots.iter().flatten().copied().collect()),
            Some(slot) => port.slots.get(slot as usize).copied().flatten().map(|end| vec![end]),
        }
    }

    /// Takes sending ends off an open out port: that in one place, or all.
    pub fn empty_slots(&mut self, name: &str, slot: Option<u32>) -> Vec<usize> {
        let Some(port) = self.output(name) else { return Vec::new() };
        let slots = &mut self.outputs[port].slots;
        match slot {
            None => slots.iter_mut().filter_map(Option::take).collect(),
            Some(slot) => slots.get_mut(slot as usize).and_then(Option::take).into_iter().collect(),
        }
    }

    /// Whether an open port is coupled to anything now.
    pub fn is_connected(&self, name: &str) -> bool {
        match (self.input(name), self.output(name)) {
            (Some(input), _) => self.given.iter().any(|given| given.port == input),
            (_, Some(output)) => self.outputs[output].slots.iter().any(Option::is_some),
            _ => false,
        }
    }

    /// Notes a handle of an in port that `holders` may open (0: any number). Returns its number, and whether it is the first.
    pub fn give(&mut self, input: usize, holders: u32) -> (u32, bool) {
        self.given.push(Given { port: input, holders, opened: 0, is_revoked: false });
        (self.given.len() as u32 - 1, self.given.len() == 1)
    }

    /// Nobody may open this handle any more.
    pub fn revoke(&mut self, number: u32) {
        if let Some(given) = self.given.get_mut(number as usize) {
            given.is_revoked = true;
        }
    }

    /// Every other instance has left.
    pub fn nobody_else(&mut self) {
        self.is_alone = true;
    }

    /// This instance is reached so.
    pub fn reached_by(&mut self, table: &Table) {
        self.table = Some(table.clone());
    }

    /// How this instance is reached.
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// Notes a request to open a handle by an out port; returns its number.
    pub fn request(&mut self, port: &str) -> Option<u32> {
        let output = self.output(port)?;
        self.last_request += 1;
        self.requests.insert(self.last_request, (output, None));
        Some(self.last_request)
    }

    /// What became of a request, once that is known: the place at the port.
    pub fn answer_to(&self, request: u32) -> Answer {
        self.requests.get(&request).and_then(|(_, answer)| answer.clone())
    }

    /// Nobody waits for the answer any more.
    pub fn forget(&mut self, request: u32) {
        self.requests.remove(&request);
    }

    /// Whether a handle is being opened.
    pub fn is_opening(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Somebody opens the handle with this number: the conduit ends here from now on. An error says why not.
    pub fn admit_holder(
        &mut self,
        me: &str,
        number: u32,
        conduit: ConduitSpec,
        conduits: &mut Conduits,
        connections: &Connections,
    ) -> std::result::Result<(), String> {
        let port = format!("{me}.{}", conduit.receiver_port);
        let input = self.input(&conduit.receiver_port).filter(|_| conduit.receiver == me);
        let given = self.given.get_mut(number as usize).filter(|given| Some(given.port) == input);
        let (Some(input), Some(given)) = (input, given) else {
            return Err(format!("{port} has not made a handle with number {number}"));
        };
        if given.is_revoked {
            return Err(format!("handle {number} of {port} was revoked"));
        }
        if given.holders > 0 && given.opened >= given.holders {
            return Err(format!(
                "handle {number} of {port} was made to be opened {}, and has been; make another one, or one for more holders",
                times(given.holders)
            ));
        }
        let chain = Chain::build(&conduit.receiver_filters, &conduit.name).map_err(|error| error.to_string())?;
        given.opened += 1;
        let mut receiving = ReceivingEnd::new(conduit);
        // By a connection that is there already, the sender begins without another word.
        receiving.method = connections.inbound_from(&receiving.spec.sender).last().map(|last| last.method);
        self.inputs[input].ends.push(conduits.add_receiving(receiving, chain));
        Ok(())
    }

    /// A handle that was to be opened here makes this conduit, which `is_gone` if its receiver has left; or it cannot be opened. Returns
    /// the link to be dialled, if there is one.
    pub fn opened(
        &mut self,
        request: u32,
        opened: std::result::Result<(ConduitSpec, bool), String>,
        table: Option<&Table>,
        here: &Place,
        mut routing: Routing,
    ) -> Option<usize> {
        let output = self.requests.get(&request).map(|(output, _)| *output);
        let (answer, dial) = match (opened, output) {
            (Err(problem), _) => (Err(problem), None),
            (Ok((conduit, is_gone)), output) => {
                let allowed = self.allowed_for(&conduit);
                let (class, protection) = (conduit.traffic_class, conduit.protection());
                let link = routing.connections.link_to(&conduit.receiver, allowed, class, protection);
                let end = routing.conduits.add_sending(SendingEnd::fresh(conduit, link));
                let its_link = &mut routing.connections.links[link];
                its_link.conduits.push(end);
                let dial = match (is_gone, table) {
                    (true, _) => {
                        // Nothing was sent, nothing taken.
                        let _ = routing.conduits.sending[end].receiver_gone(0);
                        false
                    }
                    (false, Some(table)) => its_link.learn(table, here) || its_link.wake(Some(table), here),
                    (false, None) => false,
                };
                if let Some(connection) = its_link.connection.clone().filter(|_| its_link.is_admitted()) {
                    // Of a conduit on which nothing was sent, nothing can be acknowledged wrongly.
                    let _ = routing.begin_fresh(link, &connection);
                }
                let slot = match output {
                    Some(output) => {
                        let slots = &mut self.outputs[output].slots;
                        slots.push(Some(end));
                        slots.len() as u32 - 1
                    }
                    None => {
                        // Whoever wanted it has given up waiting: the conduit ends at once.
                        routing.end(end);
                        0
                    }
                };
                (Ok(slot), dial.then_some(link))
            }
        };
        if let Some((_, place)) = self.requests.get_mut(&request) {
            *place = Some(answer);
        }
        dial
    }

    /// What an open in port has for the program, if `look` says what a receiving end has. Those who send have their turns.
    pub fn look_at_holders(
        &mut self,
        input: usize,
        mut look: impl FnMut(usize) -> Result<Next>,
    ) -> Result<FromHolders> {
        let OpenIn { ends, next, .. } = &mut self.inputs[input];
        let first = *next;
        let mut all_ended = true;
        for turn in 0..ends.len() {
            let place = (first + turn) % ends.len();
            match look(ends[place])? {
                Next::Message => {
                    *next = place + 1;
                    return Ok(FromHolders::Message(ends[place]));
                }
                Next::Nothing => all_ended = false,
                Next::Ended => {}
            }
        }
        let mut given = self.given.iter().filter(|given| given.port == input).peekable();
        if given.peek().is_none() {
            return Ok(FromHolders::NoHandles);
        }
        let is_over =
            |given: &Given| given.is_revoked || self.is_alone || (given.holders > 0 && given.opened >= given.holders);
        Ok(if all_ended && given.all(is_over) { FromHolders::Ended } else { FromHolders::Nothing })
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}
