//! Objects whose arrays are spread over ranks.
//!
//! Each rank of the writer puts its block, with the same attributes, so that all choose the same readers without asking each other. A rank
//! of a reader gets from each rank of the writer the part that it holds too, and puts them together. Which object is next rank 0 of the
//! reader says, and the others see that they have the same.
//!
//! On its way such a payload is a part of an array ([`crate::parallel::part`]); so it is in a group that has not ended.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use xmml_pool::object::System;
use xmml_wire::data::Data;
use xmml_wire::error::{Error, Result};
use xmml_wire::lock::lock;
use xmml_wire::message::Message;

use crate::conduit::inlet::Next;
use crate::parallel::blocks::Block;
use crate::parallel::part::{part_for, Part};
use crate::runtime::wait::WaitFor;
use crate::spec::Direction;
use crate::team::{self, Team};

use super::object::{of_whole, taken_apart, with_payload, Origin};
use super::parts::Spread;
use super::pools::{Looked, Read, Writer};
use super::ports::Port;
use super::ranks::every;
use super::{Instance, Received};

/// What all ranks of a reader take next.
#[derive(Debug, Serialize, Deserialize)]
enum Turn {
    /// An object of this instance and port, or a group, with its [`fingerprint`].
    Writer(String, String, u64),
    /// An object of a group of which others were taken.
    Rest,
    Ended,
    TimedOut,
}

/// The attributes that follow from a payload that is put on a port, which may be a part of an array.
pub(super) fn with_payload_of(port: &Port, system: System, data: &Data) -> System {
    match port.is_spread.then(|| Part::of(data.clone())) {
        Some(Ok(part)) => {
            let block = Data::Array(part.elements);
            of_whole(with_payload(system, &block), &block, Some(part.whole))
        }
        _ => with_payload(system, data),
    }
}

/// Tells what travels from other objects and groups, whichever part of it this is: by everything but the payloads. Ranks compare theirs;
/// they have the same library.
fn fingerprint(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    let stamp = |stamp: f64, hasher: &mut DefaultHasher| stamp.to_bits().hash(hasher);
    stamp(message.timestamp, &mut hasher);
    if let Data::List(travelling) = &message.data {
        travelling.len().hash(&mut hasher);
        for (place, data) in travelling.iter().enumerate().filter(|(place, _)| place % 4 != 1) {
            match data {
                Data::Bytes(packed) => packed.hash(&mut hasher),
                Data::Float(time) => stamp(*time, &mut hasher),
                Data::Int(number) => number.hash(&mut hasher),
                _ => place.hash(&mut hasher),
            }
        }
    }
    hasher.finish()
}

/// The payloads of what travels: an object alone, or those of a group.
fn payloads_of(travelling: &mut [Data]) -> impl Iterator<Item = &mut Data> {
    travelling.iter_mut().skip(1).step_by(4)
}

impl Instance {
    /// What is offered of a payload on a port: where each rank has a block of the array, that as a part of it.
    pub(super) fn as_offered(&self, port: &Port, spread: Option<Spread>, data: Data) -> Result<Data> {
        match spread {
            Some(mut spread) if port.is_spread => {
                spread.handed_over(&data);
                spread.as_part(&self.pool())
            }
            _ => Ok(data),
        }
    }

    /// Sends each rank of a reader its part of an object, or of each of a group; false: all of them have left.
    pub(super) fn deliver_parts(&self, port: &Port, reader: usize, message: &Message) -> Result<bool> {
        let mut is_reached = false;
        for end in self.pools.ends_to_ranks(reader) {
            let part = self.cut_for(port, *end, message)?;
            is_reached |= self.transmit_encoded(&port.name, *end, &part, None)?;
        }
        Ok(is_reached)
    }

    /// What the rank at a sending end gets of an object or a group.
    fn cut_for(&self, port: &Port, end: usize, message: &Message) -> Result<Message> {
        let spec = self.with_state(|state| state.conduits.sending[end].spec.clone());
        let Some(parts) = &spec.parts else { return Ok(message.clone()) };
        let mut message = message.clone();
        let Data::List(travelling) = &mut message.data else { return Ok(message) };
        for payload in payloads_of(travelling) {
            let whole = match payload {
                Data::Nothing => continue,
                Data::Array(array) => {
                    let whole = array.shape.to_vec();
                    Ok(Part { block: Block::whole(&whole), whole, elements: array.clone() })
                }
                Data::Map(_) => Part::of(payload.clone()),
                _ => Err(format!("only arrays are spread over ranks (run:decomp), and this is {}", payload.describe())),
            };
            let part = whole.map_err(|problem| self.refused(port, &problem))?;
            let (needed, dimensions) = (parts.receiver.dimensions(), part.whole.len());
            if needed > dimensions {
                let problem =
                    format!("the receiver cuts {needed} dimensions (run:decomp), but this array has {dimensions}");
                return Err(Error::Usage { problem: format!("{}: {problem}", spec.name) });
            }
            let wanted = parts.receiver.block(parts.receiver_rank, &part.whole);
            *payload = part_for(&part.elements, &part.block, &part.whole, &wanted, &self.pool())?;
        }
        Ok(message)
    }

    /// The ranks that take the objects of an in port together, each its part.
    pub(super) fn readers_of_parts(&self, port: &str) -> Result<Option<&dyn Team>> {
        let Some(team) = self.team.as_deref().filter(|team| team.size() > 1) else { return Ok(None) };
        Ok(self.comes_from_pools(self.ports.named(port, Direction::In)?).then_some(team))
    }

    /// Takes the next object of a port whose arrays are spread over the ranks, which all call this. With a time-out, either all ranks have
    /// their parts in time, or none takes its own.
    pub(super) fn take_parts(&self, team: &dyn Team, port: &str, timeout: Option<Duration>) -> Result<Received> {
        let port = self.ports.get(port)?;
        let Some(read) = self.pools.read_by(port) else { return Ok(Received::NotConnected) };
        drop(self.program()?);
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        match self.turn(team, read, &read.awaited, until)? {
            Turn::Writer(name, of, expected) => {
                let place = read.place_of(&name, &of).ok_or_else(|| unknown(&name, &of))?;
                let writer = &read.writers[place];
                let taken = self.wait(&WaitFor::messages(&writer.ends), None, |state| {
                    Ok(match writer.look(state)? {
                        Next::Message => Some(writer.hand_out(state)),
                        Next::Ended => return Err(writer.is_uneven()),
                        Next::Nothing => None,
                    })
                })?;
                read.next.store(place + 1, Ordering::Relaxed);
                if taken.as_deref().is_some_and(|parts| parts.iter().any(|part| fingerprint(part) != expected)) {
                    return Err(self.differs(writer, "different attributes, or other objects"));
                }
                Ok(Received::Message(self.object_of_parts(port, read, place, taken.unwrap_or_default())?))
            }
            Turn::Rest => match lock(&read.rest).pop_front() {
                Some(message) => {
                    self.account_outside_loop(&message)?;
                    Ok(Received::Message(message))
                }
                None => Err(self.refused(port, "the ranks of a writer put groups of different numbers of objects")),
            },
            Turn::Ended => {
                self.wait(&read.awaited, None, |state| match read.look(state)? {
                    Looked::Ended => Ok(Some(())),
                    Looked::Object(place) => Err(read.writers[place].is_uneven()),
                    Looked::Rest | Looked::Nothing => Ok(None),
                })?;
                Ok(Received::Ended)
            }
            Turn::TimedOut => Ok(Received::TimedOut),
        }
    }

    /// Whether an object of such a port waits at all ranks.
    pub(super) fn has_object(&self, team: &dyn Team, port: &str) -> Result<bool> {
        let Some(read) = self.pools.read_by(self.ports.get(port)?) else { return Ok(false) };
        let turn = self.turn(team, read, &read.awaited.clone().unreported(), Some(Instant::now()))?;
        Ok(matches!(turn, Turn::Writer(..) | Turn::Rest))
    }

    /// Rank 0 says what is next; if that has to be there at a time, all ranks say whether they have it.
    fn turn(&self, team: &dyn Team, read: &Read, what: &WaitFor, until: Option<Instant>) -> Result<Turn> {
        let own = (team.rank() == 0).then(|| {
            let found = self.wait(what, until, |state| {
                Ok(match read.look(state)? {
                    Looked::Object(place) => {
                        let Writer { name, port, ends, .. } = &read.writers[place];
                        let first = state.conduits.inlets[ends[0]].waiting();
                        let expected = first.map_or(0, fingerprint);
                        Some(Turn::Writer(name.clone(), (**port).to_owned(), expected))
                    }
                    Looked::Rest => Some(Turn::Rest),
                    Looked::Ended => Some(Turn::Ended),
                    Looked::Nothing => None,
                })
            });
            found.map(|turn| turn.unwrap_or(Turn::TimedOut))
        });
        let turn = team::share(team, own)?;
        let (Turn::Writer(name, of, _), Some(until)) = (&turn, until) else { return Ok(turn) };
        let is_here = read.place_of(name, of).ok_or_else(|| unknown(name, of)).and_then(|place| {
            let writer = &read.writers[place];
            let parts = WaitFor::messages(&writer.ends).unreported();
            let found =
                self.wait(&parts, Some(until), |state| Ok((writer.look(state)? == Next::Message).then_some(())))?;
            Ok(found.is_some())
        });
        Ok(if every(team, is_here)? { turn } else { Turn::TimedOut })
    }

    /// Puts the parts of an object together; of a group those of all its objects, of which the first is returned, and the others are next.
    pub(super) fn object_of_parts(
        &self,
        port: &Port,
        read: &Read,
        place: usize,
        parts: Vec<Message>,
    ) -> Result<Message> {
        let writer = &read.writers[place];
        let foreign = |problem: String| Error::Protocol { peer: writer.name.clone(), problem };
        let mut of_ranks = Vec::new();
        for part in parts {
            of_ranks.push(taken_apart(part).map_err(foreign)?.into_iter());
        }
        let mut objects = Vec::new();
        while let Some(first) = of_ranks.first_mut().and_then(Iterator::next) {
            let mut of_object = vec![first];
            for others in &mut of_ranks[1..] {
                of_object.extend(others.next());
            }
            if of_object.len() < of_ranks.len() {
                return Err(self.differs(writer, "groups of different numbers of objects"));
            }
            objects.push(self.object_of(port, writer, place, of_object)?);
        }
        if of_ranks.iter_mut().any(|others| others.next().is_some()) {
            return Err(self.differs(writer, "groups of different numbers of objects"));
        }
        let mut objects = objects.into_iter();
        let first = objects.next().ok_or_else(|| foreign("it sent a group without objects".into()))?;
        if objects.len() > 0 {
            lock(&read.rest).extend(objects);
            self.with_state(|state| state.waiters.wake(None)); // for threads that wait at the same port
        }
        self.account_outside_loop(&first)?;
        Ok(first)
    }

    /// An object of its parts, each as [`taken_apart`] leaves it.
    fn object_of(&self, port: &Port, writer: &Writer, place: usize, parts: Vec<Message>) -> Result<Message> {
        let foreign = || Error::Protocol { peer: writer.name.clone(), problem: "it sent what is no object".into() };
        let mut described: Option<Vec<Data>> = None;
        let mut payloads = Vec::new();
        for mut message in parts {
            let Data::List(mut of_part) = message.data else { return Err(foreign()) };
            message.data = std::mem::replace(of_part.get_mut(1).ok_or_else(foreign)?, Data::Nothing);
            match &described {
                Some(others) if *others != of_part => {
                    return Err(self.differs(writer, "different attributes, or other objects"))
                }
                _ => described = Some(of_part),
            }
            payloads.push(message);
        }
        let (Some(mut described), Some(first)) = (described, payloads.first()) else { return Err(foreign()) };
        let (timestamp, next_timestamp) = (first.timestamp, first.next_timestamp);
        let mut origin = Origin { writer: place, ..Origin::default() };
        if payloads.iter().any(|message| message.data != Data::Nothing) {
            described[1] = self.whole_message(&port.name, &writer.ends, payloads)?.data;
            origin.whole = self.program_even_after_leaving().wholes.get(&port.name).cloned();
        }
        Ok(origin.behind(Message { timestamp, next_timestamp, data: Data::List(described) }))
    }

    fn differs(&self, writer: &Writer, what: &str) -> Error {
        let problem = format!("its ranks put {what}; all of them must put the same, in the same order");
        Error::Usage { problem: format!("{}.{}: {problem}", writer.name, writer.port) }
    }
}

fn unknown(name: &str, port: &str) -> Error {
    Error::Protocol {
        peer: "rank 0".into(),
        problem: format!("it takes from {name}.{port}, which leads to no port here"),
    }
}
