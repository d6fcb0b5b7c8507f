//! Objects of pools: writers put them, and the selectors of the readers choose among them.
//!
//! The coupling of a pool is a conduit for each writer and reader. [`Instance::put`] asks the selector of each, and sends the object by
//! those that choose it; what nobody chooses is not sent. [`Instance::take`] returns the next one of any writer; writers have their turns.
//!
//! Ports of pools have no place in the order of operators.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use xmml_pool::object::{Described, System};
use xmml_pool::packing::{seq_of, Packed};
use xmml_pool::schema::Schema;
use xmml_pool::selector::Undefined;
use xmml_pool::value::Value;
use xmml_wire::data::Data;
use xmml_wire::error::{Error, Result};
use xmml_wire::frame::{encode_message, EncodedMessage};
use xmml_wire::lock::lock;
use xmml_wire::message::Message;

use crate::runtime::state::State;
use crate::runtime::wait::{wait, WaitFor};
use crate::spec::Direction;
use crate::team;

use super::object::{on_the_way, taken_apart, with_payload, Object, Origin};
use super::objects_in_parts::with_payload_of;
use super::pools::{Audience, Handed, Looked, Read, Reader, Way, Written};
use super::ports::Port;
use super::{Backend, Instance, Received};

/// Attributes of an object, or what is wrong with them.
pub(super) type Set = std::result::Result<Vec<Option<Value>>, String>;

/// What a take found.
#[derive(Clone, Debug)]
pub enum Taken {
    /// The next object.
    Object(Box<Object>),
    /// All writers have ended, and everything that they offered has been taken.
    Ended,
    /// The time-out passed.
    TimedOut,
    /// The port is not coupled.
    NotConnected,
}

/// `sys.seq` of an object as it travels, or of the first one of a group.
fn first_seq(message: &Message) -> u64 {
    match &message.data {
        Data::List(parts) => match parts.first() {
            Some(Data::Bytes(packed)) => seq_of(packed).unwrap_or_default(),
            _ => 0,
        },
        _ => 0,
    }
}

/// Attributes that were set, without defaults.
pub(super) fn some(schema: &Schema, attributes: &[(&str, Value)]) -> Set {
    schema.some(attributes.iter().map(|(name, value)| (*name, value.clone())))
}

/// Attributes that a text sets, without defaults.
pub(super) fn read_some(schema: &Schema, attributes: &str) -> Set {
    schema.read_some(attributes).map_err(|mistake| mistake.problem)
}

impl Instance {
    /// Offers an object to the readers of an out port that leads to pools; returns how many of them choose it. `attributes` are checked
    /// against the datatype of the port. Its memory is the caller's again when this returns, but for loans.
    ///
    /// Waits while a reader that chooses it holds as many bytes as its limit allows. May be called at any time between joining and leaving.
    ///
    /// Of ranks that joined together all call this, with the same attributes: on an ordinary port what rank 0 gives is put, on a parallel
    /// one each puts its block.
    ///
    /// # Errors
    /// [`Error::Usage`]: an attribute that does not exist, is not allowed or is missing, or a port that carries messages.
    pub fn put(&self, port: &str, data: Data, attributes: &[(&str, Value)]) -> Result<u64> {
        self.put_block(port, data, None, attributes)
    }

    /// [`Instance::put`] of a block of an array whose whole has the extents `shape`; `None`: those that the model gives.
    ///
    /// # Errors
    /// As there; [`Error::Usage`] if that is not the block that this rank holds.
    pub fn put_block(
        &self,
        port: &str,
        data: Data,
        shape: Option<&[u64]>,
        attributes: &[(&str, Value)],
    ) -> Result<u64> {
        self.put_with(port, data, shape, |schema| some(schema, attributes))
    }

    /// [`Instance::put_block`] with attributes as a text gives them: `step=3 level='high' heights=[0.5,1]`.
    ///
    /// # Errors
    /// As there.
    pub fn put_described(&self, port: &str, data: Data, shape: Option<&[u64]>, attributes: &str) -> Result<u64> {
        self.put_with(port, data, shape, |schema| read_some(schema, attributes))
    }

    /// How many readers that have not left would choose an object with these attributes: where nobody would, it need not be computed. Of
    /// its payload nothing is known yet, as if it had none. Nothing is put.
    ///
    /// Of ranks that joined together all call this: what rank 0 gives counts.
    ///
    /// # Errors
    /// As [`Instance::put`].
    pub fn wanted(&self, port: &str, attributes: &[(&str, Value)]) -> Result<u64> {
        self.wanted_with(port, |schema| some(schema, attributes))
    }

    /// [`Instance::wanted`] with attributes as a text gives them.
    ///
    /// # Errors
    /// As there.
    pub fn wanted_described(&self, port: &str, attributes: &str) -> Result<u64> {
        self.wanted_with(port, |schema| read_some(schema, attributes))
    }

    fn wanted_with(&self, port: &str, set: impl FnOnce(&Schema) -> Set) -> Result<u64> {
        let look = || {
            let Some((declared, written)) = self.written_alone(port)? else { return Ok(0) };
            let own = set(&written.schema).map_err(|problem| self.refused(declared, &problem))?;
            let (own, group) = match &*lock(&written.group) {
                Some(group) => (group.with_common(own), Some(group.number)),
                None => (own, None),
            };
            let own = written.schema.with_defaults(own).map_err(|problem| self.refused(declared, &problem))?;
            let (t, seq) = (self.program()?.clock.time(), written.count.load(Ordering::Relaxed));
            let system = System { t, seq, group, ..written.system.clone() };
            let system = with_payload(system, &Data::Nothing);
            let described = Described { own: &own, system: &system };
            let audience = written.audience();
            let mut readers = 0;
            for reader in audience.index.candidates(&described).map(|place| &audience.readers[place]) {
                if reader.is_tap() {
                    continue;
                }
                let chooses = reader.selector.matches(&described);
                let chooses = chooses.map_err(|undefined| self.undefined(declared, reader, &undefined))?;
                readers += u64::from(chooses && !self.is_gone(reader.way));
            }
            Ok(readers)
        };
        match self.team.as_deref().filter(|team| team.size() > 1) {
            None => look(),
            // Ranks that have parts of their own go by rank 0, too: readers may leave in between.
            Some(team) => team::share(team, (team.rank() == 0).then(look)),
        }
    }

    /// The selector of a reader has no answer.
    fn undefined(&self, port: &Port, reader: &Reader, problem: &Undefined) -> Error {
        self.refused(port, &format!("the selector of {}: {problem}", reader.name))
    }

    fn put_with(&self, port: &str, data: Data, shape: Option<&[u64]>, set: impl FnOnce(&Schema) -> Set) -> Result<u64> {
        self.as_one(port, || self.put_here(port, data, shape, set))
    }

    /// What rank 0 of ranks that joined together does for all.
    pub(super) fn as_one(&self, port: &str, call: impl FnOnce() -> Result<u64>) -> Result<u64> {
        match self.together(port)? {
            None => call(),
            Some(team) => team::share(team, (team.rank() == 0).then(call)),
        }
    }

    /// Says that nothing more is put at a port. Each of its readers sees the end when all its writers have said so, or have left.
    ///
    /// Does not wait: what waits for readers is given out while the program goes on. Of ranks that joined together all call this.
    ///
    /// # Errors
    /// [`Error::Usage`]: a group has begun and not ended, or the port carries messages.
    pub fn end(&self, port: &str) -> Result<()> {
        self.as_one(port, || self.end_here(port).map(|()| 0)).map(drop)
    }

    fn end_here(&self, port: &str) -> Result<()> {
        let Some((declared, written)) = self.pool_at(port)? else { return Ok(()) };
        if lock(&written.group).is_some() {
            return Err(self.refused(declared, "a group was begun here; end it first, or abandon it"));
        }
        if written.has_ended.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let Backend::Run { runtime } = &self.backend else { return Ok(()) };
        let audience = written.audience();
        let mut state = runtime.state();
        let (backlogs, mut routing) = state.backlogs_and_routing();
        for reader in audience.readers.iter().filter(|reader| !reader.is_tap()) {
            match reader.way {
                Way::Straight(end) => routing.end(end),
                Way::Backlog(number) => backlogs.end(number, &mut routing),
                Way::Ranks(number) => self.pools.ends_to_ranks(number).iter().for_each(|end| routing.end(*end)),
            }
        }
        Ok(())
    }

    /// An out port that leads to pools, and to nothing else, and at which objects may be put; `None`: it is not coupled.
    pub(super) fn written_alone(&self, port: &str) -> Result<Option<(&Port, &Written)>> {
        let found = self.pool_at(port)?;
        found.iter().try_for_each(|(declared, written)| self.may_put(declared, written))?;
        Ok(found)
    }

    fn may_put(&self, port: &Port, written: &Written) -> Result<()> {
        match written.has_ended.load(Ordering::Relaxed) {
            true => Err(self.refused(port, "nothing can be put here after end()")),
            false => Ok(()),
        }
    }

    /// An out port that leads to pools, and to nothing else; `None`: it is not coupled.
    fn pool_at(&self, port: &str) -> Result<Option<(&Port, &Written)>> {
        let declared = self.ports.out(port)?;
        drop(self.program()?);
        self.meet_taps();
        match self.pools.written_by(declared) {
            Some(written) if declared.ends().next().is_none() => Ok(Some((declared, written))),
            None if !declared.is_connected() && !declared.is_open => Ok(None),
            _ => Err(self.carries_messages(declared, "put")),
        }
    }

    fn put_here(
        &self,
        port: &str,
        mut data: Data,
        shape: Option<&[u64]>,
        set: impl FnOnce(&Schema) -> Set,
    ) -> Result<u64> {
        let Some((declared, written)) = self.written_alone(port)? else { return Ok(0) };
        let timestamp = self.program()?.clock.time();
        let told = |problem: String| self.refused(declared, &problem);
        let own = set(&written.schema).map_err(told)?;
        let spread = match data {
            Data::Nothing => None, // an object of attributes alone
            _ if !declared.is_spread => None,
            _ => self.spread(declared, &data, shape)?,
        };
        self.hand_over(&mut data)?;
        let data = self.as_offered(declared, spread, data)?;
        self.offer(declared, written, own, Message { timestamp, next_timestamp: None, data })
    }

    /// The error for a call that objects need, on a port that carries messages.
    pub(super) fn carries_messages(&self, port: &Port, done: &str) -> Error {
        let why = match &self.backend {
            Backend::Alone(_) => "an instance without a run has a pool there only if its attributes are given",
            Backend::Run { .. } => "it carries messages: let every coupling of it be a pool (run:kind=\"pool\")",
        };
        self.refused(port, &format!("objects cannot be {done} here; {why}"))
    }

    pub(super) fn refused(&self, port: &Port, problem: &str) -> Error {
        Error::Usage { problem: format!("{}.{}: {problem}", self.name(), port.name) }
    }

    /// What is sent on an out port that leads to pools, too, as an object that has no attributes but those that every object has; `None`:
    /// it leads to none.
    pub(super) fn as_object(&self, port: &Port) -> Result<Option<Vec<Option<Value>>>> {
        self.meet_taps();
        match self.pools.written_by(port) {
            None => Ok(None),
            Some(written) if written.is_passed_by() => Ok(None),
            Some(written) if lock(&written.group).is_some() => Ok(Some(vec![None; written.schema.attributes().len()])),
            Some(written) if written.has_ended.load(Ordering::Relaxed) => self.may_put(port, written).map(|()| None),
            Some(written) => match written.schema.complete([]) {
                Ok(own) => Ok(Some(own)),
                Err(problem) => Err(self.refused(port, &format!("{problem}; put() gives attributes, send() does not"))),
            },
        }
    }

    /// From now on what passes is shown to the taps that have joined since the last call.
    fn meet_taps(&self) {
        let Backend::Run { runtime } = &self.backend else { return };
        if !runtime.has_new_taps.load(Ordering::Relaxed) {
            return;
        }
        runtime.has_new_taps.store(false, Ordering::Relaxed);
        let taps = runtime.state().take_new_taps();
        for tap in taps {
            let port = self.ports.out(&tap.conduit.sender_port);
            let ends = port.iter().flat_map(|port| port.ends()).filter(|end| !self.has_filters(*end));
            let sent = self.with_state(|state| ends.map(|end| state.conduits.sending[end].sent).collect::<Vec<_>>());
            // To copies that are addressed one by one, a message goes by one of the ends.
            let are_addressed = port.is_ok_and(|port| port.copies > 0);
            let sent = if are_addressed { sent.iter().sum() } else { sent.into_iter().max().unwrap_or(0) };
            if let Err(error) = self.pools.add_tap(&self.spec, tap, sent) {
                self.warn(&error.to_string());
            }
        }
    }

    /// The sending ends by which objects of an out port may leave now.
    pub(super) fn ends_of_readers(&self, port: &Port) -> SmallVec<[usize; 4]> {
        let audience = self.pools.written_by(port).map(|written| written.audience());
        let readers = audience.iter().flat_map(|audience| &audience.readers).filter(|reader| reader.is_ready());
        self.ends_by(&readers.map(|reader| reader.way).collect::<SmallVec<[Way; 4]>>())
    }

    /// Offers what is sent on an out port; returns whether anybody takes objects there.
    pub(super) fn offer_sent(&self, port: &Port, own: Vec<Option<Value>>, message: &Message) -> Result<bool> {
        let Some(written) = self.pools.written_by(port) else { return Ok(false) };
        self.offer(port, written, own, message.clone())?;
        Ok(!written.audience().readers.iter().filter(|reader| !reader.is_tap()).all(|reader| self.is_gone(reader.way)))
    }

    /// Whether all have left to whom objects go this way.
    fn is_gone(&self, way: Way) -> bool {
        self.with_state(|state| match way {
            Way::Straight(end) => state.conduits.sending[end].is_gone(),
            Way::Backlog(number) => state.backlogs.is_without_readers(number),
            Way::Ranks(number) => {
                self.pools.ends_to_ranks(number).iter().all(|end| state.conduits.sending[*end].is_gone())
            }
        })
    }

    /// Offers an object to the readers that choose it; returns how many that are. `own` are its attributes without defaults.
    fn offer(&self, port: &Port, written: &Written, own: Vec<Option<Value>>, message: Message) -> Result<u64> {
        if let Some(group) = &mut *lock(&written.group) {
            let own = group.with_common(own);
            return self.add_to_group(port, written, group, own, message);
        }
        let audience = written.audience();
        let (packed, readers) = self.chosen(port, written, &audience, own, &message, None)?;
        let Some(packed) = packed else { return Ok(0) };
        let (ways, taps) = audience.ways(&readers);
        let data = on_the_way(&written.schema, packed, message.data);
        let data = match data.map_err(|problem| self.refused(port, &problem)) {
            Ok(data) => data,
            Err(error) if ways.is_empty() => {
                self.tell_not_shown(port, &error);
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        let message = self.shared(&self.ends_of(&taps), Message { data, ..message }, false);
        let reached = if ways.is_empty() { 0 } else { self.deliver(port, &ways, message.clone(), 1)? };
        self.show(port, &taps, message, 1);
        Ok(reached)
    }

    /// Shows an object, or so many of a group, to taps. The program does not hear of what keeps it from them.
    pub(super) fn show(&self, port: &Port, taps: &[usize], message: Message, objects: u64) {
        if taps.is_empty() {
            return;
        }
        let put = || -> Result<()> {
            let message = self.owned(&self.for_all(&self.ends_of(taps), message, false)?)?;
            let mut once = None;
            taps.iter().try_for_each(|number| self.put_in_backlog(*number, &message, objects, &mut once).map(drop))
        };
        if let Err(error) = put() {
            self.tell_not_shown(port, &error);
        }
    }

    pub(super) fn tell_not_shown(&self, port: &Port, error: &Error) {
        if !matches!(error, Error::Aborted { .. }) {
            let text = || format!("{}.{}: something that passed was shown to no tap: {error}", self.name(), port.name);
            self.warn_once("not shown", &port.name, text);
        }
    }

    /// The sending ends of these backlogs.
    pub(super) fn ends_of(&self, backlogs: &[usize]) -> SmallVec<[usize; 4]> {
        self.ends_by(&backlogs.iter().map(|number| Way::Backlog(*number)).collect::<SmallVec<[Way; 4]>>())
    }

    /// Which readers choose an object, by their places, and what travels with it; `None`: nobody does.
    pub(super) fn chosen(
        &self,
        port: &Port,
        written: &Written,
        audience: &Audience,
        own: Vec<Option<Value>>,
        message: &Message,
        group: Option<u64>,
    ) -> Result<(Option<Packed>, SmallVec<[usize; 4]>)> {
        let own = written.schema.with_defaults(own).map_err(|problem| self.refused(port, &problem))?;
        let seq = written.count.fetch_add(1, Ordering::Relaxed);
        let (t, dt_next) = (message.timestamp, message.next_timestamp);
        let system = System { t, dt_next, seq, group, ..written.system.clone() };
        let system = with_payload_of(port, system, &message.data);
        let described = Described { own: &own, system: &system };
        let mut readers: SmallVec<[usize; 4]> = SmallVec::new();
        for place in audience.index.candidates(&described) {
            let reader = &audience.readers[place];
            match reader.selector.matches(&described) {
                // A group is shown as a whole.
                Ok(true) if reader.is_ready() || (group.is_some() && !reader.is_gone()) => readers.push(place),
                Ok(true) => reader.note_missed(),
                Ok(false) => {}
                Err(_) if reader.is_tap() => {}
                Err(undefined) => return Err(self.undefined(port, reader, &undefined)),
            }
        }
        readers.sort_unstable();
        let packed = Packed { seq, node: (&*system.node).into(), own };
        Ok(((!readers.is_empty()).then_some(packed), readers))
    }

    /// The sending ends of these ways.
    pub(super) fn ends_by(&self, ways: &[Way]) -> SmallVec<[usize; 4]> {
        self.with_state(|state| {
            let ends_by = |way: &Way| match way {
                Way::Straight(end) => SmallVec::from_slice(&[*end]),
                Way::Backlog(number) => SmallVec::<[usize; 4]>::from_slice(state.backlogs.ends(*number)),
                Way::Ranks(number) => SmallVec::from_slice(self.pools.ends_to_ranks(*number)),
            };
            ways.iter().flat_map(ends_by).collect()
        })
    }

    /// Sends what readers choose by these ways; returns how many have not left.
    pub(super) fn deliver(&self, port: &Port, ways: &[Way], mut message: Message, objects: u64) -> Result<u64> {
        if let [Way::Straight(end)] = *ways {
            return Ok(self.transmit_encoded(&port.name, end, &message, None)?.into());
        }
        let is_whole = ways.iter().any(|way| !matches!(way, Way::Ranks(_)));
        message = self.for_all(&self.ends_by(ways), message, !is_whole)?;
        if ways.iter().any(|way| matches!(way, Way::Backlog(_))) {
            message = self.owned(&message)?;
        }
        let (mut once, mut reached) = (None, 0);
        for way in ways {
            reached += u64::from(match *way {
                Way::Straight(end) => self.transmit_encoded(&port.name, end, &message, Some(&mut once))?,
                Way::Backlog(number) => self.put_in_backlog(number, &message, objects, &mut once)?,
                Way::Ranks(number) => self.deliver_parts(port, number, &message)?,
            });
        }
        Ok(reached)
    }

    /// Puts an object, whose memory is the instance's, into a backlog, waiting for room; false: all its readers have left. `once` is what the
    /// message is made of for all readers, as soon as it was made for one.
    fn put_in_backlog(
        &self,
        number: usize,
        message: &Message,
        objects: u64,
        once: &mut Option<EncodedMessage>,
    ) -> Result<bool> {
        let Backend::Run { runtime } = &self.backend else { return Ok(false) }; // without a run there is one reader, which never leaves
        let object = match once {
            Some(object) => object,
            None => once.insert(encode_message(0, 0, None, message)?),
        };
        let seq = first_seq(message);
        let ends: SmallVec<[usize; 4]> = SmallVec::from_slice(runtime.state().backlogs.ends(number));
        let is_put = self.wait(&WaitFor::room_of_any(&ends), None, |state| {
            let (backlogs, mut routing) = state.backlogs_and_routing();
            Ok(backlogs.put(number, object, seq, objects, &mut routing))
        })?;
        // What readers have said in the meantime makes room; later it is the I/O thread that listens.
        let unheard: SmallVec<[_; 4]> = {
            let state = runtime.state();
            let is_waiting = state.backlogs.is_waiting(number);
            let links = ends.iter().filter(|_| is_waiting).map(|end| state.conduits.sending[*end].link);
            links.filter_map(|link| state.connections.links[link].connection.clone()).collect()
        };
        if !unheard.is_empty() {
            unheard.iter().for_each(|connection| _ = runtime.read(connection));
            let mut state = runtime.state();
            let (backlogs, mut routing) = state.backlogs_and_routing();
            backlogs.have_read(number, &mut routing);
        }
        Ok(is_put.unwrap_or(false))
    }

    /// What an instance made by [`Instance::alone`] has put, by port; empty for a joined one.
    pub fn put_so_far(&self) -> BTreeMap<String, Vec<Object>> {
        let Backend::Alone(alone) = &self.backend else { return BTreeMap::new() };
        let mut outputs = alone.outputs();
        let ports = self.spec.ports.iter().enumerate();
        let written = ports.filter_map(|(number, port)| Some((&port.name, self.pools.written_at(number)?)));
        written
            .map(|(name, written)| {
                let objects = outputs.remove(name).unwrap_or_default().into_iter();
                let object = |message| Object::of_message(&written.schema, message, written.system.clone(), None).ok();
                let all = objects.flat_map(|message| taken_apart(message).unwrap_or_default());
                (name.clone(), all.filter_map(object).collect())
            })
            .collect()
    }

    /// Whether objects are put on an out port.
    pub(super) fn leads_to_pools(&self, port: &str) -> bool {
        self.ports.get(port).is_ok_and(|port| self.pools.written_by(port).is_some())
    }

    /// Takes the next object from any writer of an in port that comes from pools. Without a time-out it waits until one comes or all writers
    /// have ended. May be called at any time between joining and leaving.
    ///
    /// Of ranks that joined together all call this: on an ordinary port each has the object, on a parallel one its block of it.
    ///
    /// # Errors
    /// [`Error::Usage`]: a port that carries messages.
    pub fn take(&self, port: &str, timeout: Option<Duration>) -> Result<Taken> {
        let declared = self.ports.named(port, Direction::In)?;
        let Some(read) = self.pools.read_by(declared) else {
            return match declared.is_connected() || declared.is_open {
                true => Err(self.carries_messages(declared, "taken")),
                false => {
                    drop(self.program()?);
                    Ok(Taken::NotConnected)
                }
            };
        };
        Ok(match self.receive_any(port, None, timeout)? {
            Received::Message(message) => Taken::Object(Box::new(self.opened(port, read, message)?)),
            Received::Ended => Taken::Ended,
            Received::TimedOut => Taken::TimedOut,
            Received::NotConnected | Received::NoStateYet => Taken::NotConnected,
        })
    }

    /// The payload alone of an object that a program receives like a message.
    #[inline]
    pub(super) fn without_attributes(&self, port: &str, received: Received) -> Result<Received> {
        match self.pools.read.is_empty() {
            true => Ok(received),
            false => self.payload_of(port, received),
        }
    }

    fn payload_of(&self, port: &str, received: Received) -> Result<Received> {
        let Some(read) = self.pools.read_by(self.ports.get(port)?) else { return Ok(received) };
        Ok(match received {
            Received::Message(message) => {
                let (timestamp, next_timestamp) = (message.timestamp, message.next_timestamp);
                let data = self.opened(port, read, message)?.data;
                Received::Message(Message { timestamp, next_timestamp, data })
            }
            other => other,
        })
    }

    /// Whether an in port comes from pools.
    pub(super) fn comes_from_pools(&self, port: &Port) -> bool {
        !self.pools.read.is_empty() && self.pools.read_by(port).is_some()
    }

    /// The next object of any writer, with its origin behind it.
    pub(super) fn take_here(&self, port: &Port, timeout: Option<Duration>) -> Result<Received> {
        let Some(read) = self.pools.read_by(port) else { return Ok(Received::NotConnected) };
        drop(self.program()?);
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        if read.may_die && read.unsettled.load(Ordering::Relaxed) > 0 && !self.hand_over_products(until)? {
            return Ok(Received::TimedOut);
        }
        if let Some(end) = read.unsettled.swap(0, Ordering::Relaxed).checked_sub(1) {
            self.with_state(|state| state.settle(end));
        }
        let is_polled = timeout == Some(Duration::ZERO) || read.is_asked_for.swap(false, Ordering::Relaxed);
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Ok(match self.wait(&read.awaited, until, |state| read.next(state, is_polled))? {
            Some(Handed::Object(message)) => {
                self.account_outside_loop(&message)?;
                Received::Message(message)
            }
            Some(Handed::Parts(writer, parts)) => Received::Message(self.object_of_parts(port, read, writer, parts)?),
            Some(Handed::Ended) => Received::Ended,
            None => Received::TimedOut,
        })
    }

    /// Has all products leave this process, so that they outlive it; false: not before `until`. An instance that may die does that
    /// before it says that it has dealt with an object: nobody would make again what it had made of that.
    pub(super) fn hand_over_products(&self, until: Option<Instant>) -> Result<bool> {
        let (Backend::Run { runtime }, false) = (&self.backend, self.pools.products.is_empty()) else {
            return Ok(true);
        };
        let what = WaitFor { sending: self.pools.products.clone(), is_reported: true, ..WaitFor::default() };
        let handed_over = wait(runtime, &what, until, |state| {
            let State { conduits, connections, .. } = state;
            let mut products = self.pools.products.iter().map(|end| &conduits.sending[*end]);
            let are = products.all(|end| end.is_handed_over() && connections.are_flushed_to(&end.spec.receiver));
            Ok(are.then_some(()))
        })?;
        Ok(handed_over.is_some())
    }

    /// Whether an object waits at an in port, or (`Some(false)`) none will come; `None`: neither at the time `until`.
    pub(super) fn look_for_object(&self, port: &Port, until: Instant) -> Result<Option<bool>> {
        let Some(read) = self.pools.read_by(port) else { return Ok(Some(false)) };
        read.is_asked_for.store(true, Ordering::Relaxed);
        self.wait(&read.awaited.clone().unreported(), Some(until), |state| {
            Ok(match read.look(state)? {
                Looked::Object(_) | Looked::Rest => Some(true),
                Looked::Ended => Some(false),
                Looked::Nothing => None,
            })
        })
    }

    fn opened(&self, port: &str, read: &Read, mut message: Message) -> Result<Object> {
        let origin = Origin::off(&mut message).unwrap_or_default();
        if let Some(whole) = &origin.whole {
            self.remember(port, whole);
        }
        let writer = read.writers.get(origin.writer);
        let foreign = |peer: &str, problem: String| Error::Protocol { peer: peer.to_owned(), problem };
        let writer = writer.ok_or_else(|| foreign("a writer of a pool", "it sent what is no object".into()))?;
        let (instance, index, port) = (writer.instance.clone(), writer.index, writer.port.clone());
        let system = System { instance, index, port, redelivered: origin.redelivered, ..System::default() };
        Object::of_message(&writer.schema, message, system, origin.whole)
            .map_err(|problem| foreign(&writer.name, problem))
    }
}
