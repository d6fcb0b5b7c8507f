//! The pools that the ports of an instance lead to and come from: who reads and writes there, and what each reader chooses.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use smallvec::SmallVec;

use xmml_pool::object::System;
use xmml_pool::schema::Schema;
use xmml_pool::selector::index::Index;
use xmml_pool::selector::Selector;
use xmml_pool::value::Value;
use xmml_wire::data::Data;
use xmml_wire::error::{Error, Result};
use xmml_wire::lock::lock;
use xmml_wire::message::Message;
use xmml_wire::methods::Place;

use crate::conduit::inlet::Next;
use crate::conduit::tap_gate::TapGate;
use crate::runtime::state::{NewTap, State};
use crate::runtime::wait::WaitFor;
use crate::spec::{ConduitSpec, Direction, InstanceSpec, PoolSpec};

use super::object::taken_apart;
use super::ports::Port;

/// The pools of an instance, by the numbers of its ports.
#[derive(Default)]
pub(super) struct Pools {
    written: Box<[OnceLock<Box<Written>>]>,
    pub(super) read: HashMap<usize, Read>,
    /// The sending ends of what others count on; elsewhere objects may be lost.
    pub(super) products: SmallVec<[usize; 2]>,
}

/// An out port that leads to pools, or whose messages are shown to taps.
pub(super) struct Written {
    pub(super) schema: Arc<Schema>,
    audience: RwLock<Arc<Audience>>,
    /// What is the same of all objects of the port.
    pub(super) system: System,
    /// How many objects were put.
    pub(super) count: AtomicU64,
    /// How many groups were begun.
    pub(super) groups: AtomicU64,
    pub(super) group: Mutex<Option<Group>>,
}

/// The readers at a port at some time: taps come and go.
#[derive(Default)]
pub(super) struct Audience {
    pub(super) readers: Vec<Arc<Reader>>,
    /// Which of them could choose an object.
    pub(super) index: Index,
}

impl Audience {
    fn new(readers: Vec<Arc<Reader>>) -> Arc<Audience> {
        let index = Index::new(readers.iter().map(|reader| &reader.selector));
        Arc::new(Audience { readers, index })
    }

    /// How objects reach the readers with these places, and the backlogs of the taps among them.
    pub(super) fn ways(&self, places: &[usize]) -> (SmallVec<[Way; 4]>, SmallVec<[usize; 2]>) {
        let (mut ways, mut taps) = (SmallVec::new(), SmallVec::new());
        for place in places {
            match &*self.readers[*place] {
                Reader { way: Way::Backlog(number), tap: Some(_), .. } => taps.push(*number),
                reader => ways.push(reader.way),
            }
        }
        (ways, taps)
    }
}

/// A group that was begun and has not ended.
pub(super) struct Group {
    pub(super) number: u64,
    /// Attributes of all its members.
    pub(super) common: Vec<Option<Value>>,
    pub(super) members: Vec<Member>,
}

/// An object that waits for the end of its group.
pub(super) struct Member {
    /// Its packed attributes, and its payload, whose memory is the instance's.
    pub(super) parts: [Data; 2],
    /// Its time stamp, and the next one.
    pub(super) stamps: (f64, Option<f64>),
    /// The readers that choose it.
    pub(super) readers: SmallVec<[Arc<Reader>; 4]>,
}

impl Group {
    /// The attributes of one of its objects that was given these.
    pub(super) fn with_common(&self, own: Vec<Option<Value>>) -> Vec<Option<Value>> {
        own.into_iter().zip(&self.common).map(|(own, common)| own.or_else(|| common.clone())).collect()
    }

    /// The readers that choose objects of it, in the order in which they came to be chosen, each with the places of these objects.
    pub(super) fn chosen_by_reader(&self) -> Vec<(&Reader, Vec<usize>)> {
        let mut readers: Vec<(&Reader, Vec<usize>)> = Vec::new();
        let mut places: HashMap<*const Reader, usize> = HashMap::new();
        for (number, member) in self.members.iter().enumerate() {
            for reader in &member.readers {
                let place = *places.entry(Arc::as_ptr(reader)).or_insert(readers.len());
                match readers.get_mut(place) {
                    Some((_, chosen)) => chosen.push(number),
                    None => readers.push((reader, vec![number])),
                }
            }
        }
        readers
    }
}

pub(super) struct Reader {
    pub(super) way: Way,
    /// It is several, which share the objects.
    pub(super) is_queue: bool,
    /// `instance.port`, for people.
    pub(super) name: String,
    pub(super) selector: Selector,
    /// Of a tap: whether it is shown what passes.
    tap: Option<TapGate>,
}

impl Reader {
    /// Whether it is a tap, which may come and go: nothing that the program sees depends on it.
    pub(super) fn is_tap(&self) -> bool {
        self.tap.is_some()
    }

    /// Whether it is a tap that has left.
    pub(super) fn is_gone(&self) -> bool {
        self.tap.as_ref().is_some_and(TapGate::is_gone)
    }

    /// Whether it may get what passes now: a tap that is behind, or has left, does not.
    pub(super) fn is_ready(&self) -> bool {
        self.tap.as_ref().is_none_or(TapGate::is_open)
    }

    /// An object has passed that it does not get although it would choose it.
    pub(super) fn note_missed(&self) {
        self.tap.iter().for_each(TapGate::note_missed);
    }
}

/// How objects reach a reader.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// They are sent to it at once, by this sending end.
    Straight(usize),
    /// They wait in the backlog with this number until it, or one of those that it shares them with, has room.
    Backlog(usize),
}

/// An in port that comes from pools.
#[derive(Default)]
pub(super) struct Read {
    pub(super) writers: Vec<Writer>,
    /// An object of any of them.
    pub(super) awaited: WaitFor,
    /// Which of them is looked at first: the one behind that which had its turn last.
    pub(super) next: AtomicUsize,
    /// One more than the receiving end of the object that was taken last, if that is settled when the next one is taken; else 0.
    pub(super) unsettled: AtomicUsize,
    /// The program has asked whether there is an object, and not taken it since.
    pub(super) is_asked_for: AtomicBool,
    /// Objects of a group that has come, of which others were taken.
    pub(super) rest: Mutex<VecDeque<Message>>,
    /// The run goes on if this instance dies: others then get what it has taken and not dealt with.
    pub(super) may_die: bool,
}

pub(super) struct Writer {
    /// Its instance, with the copy.
    pub(super) name: String,
    /// `None`: this rank only hears of it from rank 0.
    pub(super) end: Option<usize>,
    pub(super) schema: Arc<Schema>,
    pub(super) instance: Arc<str>,
    pub(super) index: Option<u32>,
    pub(super) port: Arc<str>,
}

impl Pools {
    /// Those that the conduits of an instance lead to, but for taps, which are [added](Pools::add_tap).
    ///
    /// # Errors
    /// [`Error::Usage`]: attributes or a selector that cannot be read, which a check of the model would have told.
    pub(super) fn new(spec: &InstanceSpec, state: &mut State) -> Result<Pools> {
        let written = spec.ports.iter().map(|_| OnceLock::new()).collect();
        let counted_on =
            |end: &usize| !state.conduits.sending[*end].spec.pool.as_ref().is_some_and(|pool| pool.has_backlog());
        let products = (0..state.conduits.sending.len()).filter(counted_on).collect();
        let mut pools = Pools { written, read: HashMap::new(), products };
        let mut readers: HashMap<usize, Vec<Arc<Reader>>> = HashMap::new();
        let mut schemas: HashMap<&str, Arc<Schema>> = HashMap::new();
        for conduit in &spec.conduits {
            let shows = conduit.leads_to_tap() && conduit.sender == spec.name;
            let (Some(pool), false) = (conduit.pool.as_deref(), shows) else { continue };
            let schema = match schemas.get(&*pool.attributes) {
                Some(known) => known.clone(),
                None => {
                    let parsed = Schema::parse(&pool.attributes).map_err(|mistake| unreadable(conduit, mistake))?;
                    schemas.entry(&pool.attributes).or_insert(Arc::new(parsed)).clone()
                }
            };
            if conduit.sender == spec.name {
                pools.add_reader(spec, conduit, pool, &schema, state, &mut readers)?;
            }
            if conduit.receiver == spec.name {
                pools.add_writer(spec, conduit, &schema, state);
            }
        }
        for (port, readers) in readers {
            if let Some(written) = pools.written_at(port) {
                written.set_audience(Audience::new(readers));
            }
        }
        Ok(pools)
    }

    /// A tap has joined, whose port has sent so many messages.
    ///
    /// # Errors
    /// [`Error::Usage`]: attributes or a selector that cannot be read.
    pub(super) fn add_tap(&self, spec: &InstanceSpec, tap: NewTap, sent: u64) -> Result<()> {
        let conduit = &*tap.conduit;
        let (port, pool) = (spec.port_number(&conduit.sender_port, Direction::Out), conduit.pool.as_deref());
        let (Some(port), Some(pool)) = (port, pool) else { return Ok(()) };
        let schema = Schema::parse(&pool.attributes).map_err(|mistake| unreadable(conduit, mistake))?;
        let written = self.written[port].get_or_init(|| {
            let written = Written::new(spec, &conduit.sender_port, Arc::new(schema));
            written.count.store(sent, Ordering::Relaxed);
            written
        });
        let selector = compiled(conduit, pool, &written.schema)?;
        let name = format!("{}.{}", conduit.receiver, conduit.receiver_port);
        let (way, is_queue) = (Way::Backlog(tap.backlog), false);
        written.add(Reader { way, is_queue, name, selector, tap: Some(tap.gate) });
        Ok(())
    }

    /// Adds the reader at the other end of a conduit that begins here.
    fn add_reader(
        &mut self,
        spec: &InstanceSpec,
        conduit: &ConduitSpec,
        pool: &PoolSpec,
        schema: &Arc<Schema>,
        state: &mut State,
        readers: &mut HashMap<usize, Vec<Arc<Reader>>>,
    ) -> Result<()> {
        let port = spec.port_number(&conduit.sender_port, Direction::Out);
        let (Some(port), Some(end)) = (port, state.conduits.sending_end(conduit.id)) else { return Ok(()) };
        self.written[port].get_or_init(|| Written::new(spec, &conduit.sender_port, schema.clone()));
        let readers = readers.entry(port).or_default();
        let reader: &str = if pool.is_queue { &copy_of(&conduit.receiver).0 } else { &conduit.receiver };
        let name = format!("{reader}.{}", conduit.receiver_port);
        if let Some(Reader { way: Way::Backlog(number), .. }) =
            readers.iter().map(|other| &**other).find(|other| pool.is_queue && other.name == name)
        {
            state.backlogs.add_reader(*number, end);
            return Ok(());
        }
        let way = match pool.has_backlog() {
            false => Way::Straight(end),
            true => {
                let number = state.backlogs.add(conduit.byte_budget, pool);
                state.backlogs.add_reader(number, end);
                Way::Backlog(number)
            }
        };
        let selector = compiled(conduit, pool, schema)?;
        readers.push(Arc::new(Reader { way, is_queue: pool.is_queue, name, selector, tap: None }));
        Ok(())
    }

    /// Adds the writer at the other end of a conduit that ends here.
    fn add_writer(&mut self, spec: &InstanceSpec, conduit: &ConduitSpec, schema: &Arc<Schema>, state: &State) {
        let Some(port) = spec.port_number(&conduit.receiver_port, Direction::In) else { return };
        let (instance, index) = copy_of(&conduit.sender);
        let writer = Writer {
            name: conduit.sender.clone(),
            end: state.conduits.receiving_end(conduit.id),
            schema: schema.clone(),
            instance,
            index,
            port: conduit.sender_port.as_str().into(),
        };
        let read = self.read.entry(port).or_default();
        read.may_die |= conduit.pool.as_ref().is_some_and(|pool| pool.reader_may_die);
        read.awaited.receiving.extend(writer.end);
        (read.awaited.is_any, read.awaited.is_reported) = (true, true);
        read.writers.push(writer);
    }

    pub(super) fn written_by(&self, port: &Port) -> Option<&Written> {
        self.written_at(port.number)
    }

    /// The same by the number of the port.
    pub(super) fn written_at(&self, port: usize) -> Option<&Written> {
        self.written.get(port)?.get().map(|written| &**written)
    }

    pub(super) fn read_by(&self, port: &Port) -> Option<&Read> {
        self.read.get(&port.number)
    }
}

impl Written {
    fn new(spec: &InstanceSpec, port: &str, schema: Arc<Schema>) -> Box<Written> {
        let (instance, index) = copy_of(&spec.name);
        let (port, node) = (port.into(), Place::here().host.into());
        Box::new(Written {
            schema,
            audience: RwLock::default(),
            system: System { instance, index, port, node, ..System::default() },
            count: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            group: Mutex::default(),
        })
    }

    /// A message passes that nobody can get now, since all readers are taps that are behind or have left; false: somebody can.
    pub(super) fn is_passed_by(&self) -> bool {
        let audience = self.audience.read().unwrap_or_else(PoisonError::into_inner);
        if audience.readers.iter().any(|reader| reader.is_ready()) {
            return false;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        audience.readers.iter().for_each(|reader| reader.note_missed());
        true
    }

    /// Adds a reader; of those before it, the taps that have left go.
    fn add(&self, reader: Reader) {
        let mut audience = self.audience.write().unwrap_or_else(PoisonError::into_inner);
        let mut readers = audience.readers.clone();
        readers.retain(|reader| !reader.is_gone());
        readers.push(Arc::new(reader));
        *audience = Audience::new(readers);
    }

    /// Who reads at the port now.
    pub(super) fn audience(&self) -> Arc<Audience> {
        self.audience.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_audience(&self, audience: Arc<Audience>) {
        *self.audience.write().unwrap_or_else(PoisonError::into_inner) = audience;
    }
}

fn compiled(conduit: &ConduitSpec, pool: &PoolSpec, schema: &Schema) -> Result<Selector> {
    let select = if pool.select.is_empty() { "true" } else { &pool.select };
    let variable = |name: &str| pool.variables.get(name).map(|text| Value::Text(text.as_str().into()));
    Selector::compile(select, schema, variable).map_err(|mistake| unreadable(conduit, mistake))
}

fn unreadable(conduit: &ConduitSpec, mistake: xmml_pool::Mistake) -> Error {
    Error::Usage { problem: format!("{}: {mistake}", conduit.name) }
}

/// The instance of the model and which copy of it, from a name such as `c[3]`.
fn copy_of(name: &str) -> (Arc<str>, Option<u32>) {
    let copy = name.split_once('[').and_then(|(instance, rest)| Some((instance, rest.strip_suffix(']')?)));
    match copy.and_then(|(instance, index)| Some((instance, index.parse().ok()?))) {
        Some((instance, index)) => (instance.into(), Some(index)),
        None => (name.into(), None),
    }
}

/// What there is at a port.
pub(super) enum Looked {
    /// An object of a group of which others were taken.
    Rest,
    /// An object: the place of its writer, and the receiving end.
    Object(usize, usize),
    Nothing,
    Ended,
}

impl Read {
    /// Looks at what is left of a group, then at the writers in turn.
    pub(super) fn look(&self, state: &mut State) -> Result<Looked> {
        if !lock(&self.rest).is_empty() {
            return Ok(Looked::Rest);
        }
        let first = self.next.load(Ordering::Relaxed);
        let mut all_ended = true;
        for turn in 0..self.writers.len() {
            let place = first.wrapping_add(turn) % self.writers.len();
            let Some(end) = self.writers[place].end else { continue };
            match state.next_for_program(end)? {
                Next::Message => return Ok(Looked::Object(place, end)),
                Next::Nothing => all_ended = false,
                Next::Ended => {}
            }
        }
        Ok(if all_ended { Looked::Ended } else { Looked::Nothing })
    }

    /// The next object, with how often it was given before and the place of its writer behind it; `Some(None)`: all have ended; `None`: nothing
    /// yet. `is_polled`: the program looks from time to time and does not wait. A reader of the newest object then asks for the next one at
    /// once, so that it is here at the next look.
    pub(super) fn next(&self, state: &mut State, is_polled: bool) -> Result<Option<Option<Message>>> {
        Ok(match self.look(state)? {
            Looked::Rest => lock(&self.rest).pop_front().map(Some),
            Looked::Object(place, end) => {
                self.next.store(place + 1, Ordering::Relaxed);
                if state.conduits.receiving[end].is_settled_by_program() {
                    // Of another thread: it takes from the same port, and nobody knows of which object it is done with which.
                    let before = self.unsettled.swap(end + 1, Ordering::Relaxed).checked_sub(1);
                    before.into_iter().for_each(|before| state.settle(before));
                }
                let Some(message) = state.conduits.inlets[end].hand_out() else { return Ok(None) };
                let redelivered = state.conduits.receiving[end].redelivered(state.conduits.inlets[end].handed);
                let redelivered = redelivered.map_or(Data::Nothing, |times| Data::Int(times.into()));
                if is_polled {
                    state.demand(end);
                }
                let peer = &self.writers[place].name;
                let objects =
                    taken_apart(message).map_err(|problem| Error::Protocol { peer: peer.clone(), problem })?;
                let mut objects = objects.into_iter().map(|mut object| {
                    if let Data::List(parts) = &mut object.data {
                        parts.extend([redelivered.clone(), Data::Int(place as i64)]);
                    }
                    object
                });
                let first = objects.next();
                let mut rest = lock(&self.rest);
                rest.extend(objects);
                if !rest.is_empty() {
                    state.waiters.wake(None); // for threads that wait at the same port
                }
                first.map(Some)
            }
            Looked::Ended => Some(None),
            Looked::Nothing => None,
        })
    }
}
