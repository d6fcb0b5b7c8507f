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
use crate::spec::{without_rank, ConduitSpec, Direction, InstanceSpec, PoolSpec};

use super::object::{taken_apart, Origin};
use super::ports::Port;

/// The pools of an instance, by the numbers of its ports.
#[derive(Default)]
pub(super) struct Pools {
    written: Box<[OnceLock<Box<Written>>]>,
    pub(super) read: HashMap<usize, Read>,
    /// The sending ends of what others count on; elsewhere objects may be lost.
    pub(super) products: SmallVec<[usize; 2]>,
    /// The sending ends to the ranks of each reader that gets its arrays in parts.
    ranks: Vec<SmallVec<[usize; 4]>>,
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
    /// The program has said that it puts nothing more.
    pub(super) has_ended: AtomicBool,
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
    /// In parts, each to a rank of the reader, by the sending ends with this number ([`Pools::ends_to_ranks`]).
    Ranks(usize),
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
    /// Where its objects come in: one place, or, of arrays that are spread over its ranks, one from each that has a part for this rank.
    /// None: this rank only hears of it from rank 0.
    pub(super) ends: SmallVec<[usize; 1]>,
    /// Its objects come in parts.
    pub(super) in_parts: bool,
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
        let mut pools = Pools { written, read: HashMap::new(), products, ranks: Vec::new() };
        let own = without_rank(&spec.name);
        let mut readers: HashMap<usize, Vec<Arc<Reader>>> = HashMap::new();
        let mut schemas: HashMap<&str, Arc<Schema>> = HashMap::new();
        for conduit in &spec.conduits {
            let (sends, receives) = (without_rank(&conduit.sender) == own, without_rank(&conduit.receiver) == own);
            let shows = conduit.leads_to_tap() && sends;
            let (Some(pool), false) = (conduit.pool.as_deref(), shows) else { continue };
            check_parts(conduit, pool)?;
            let schema = match schemas.get(&*pool.attributes) {
                Some(known) => known.clone(),
                None => {
                    let parsed = Schema::parse(&pool.attributes).map_err(|mistake| unreadable(conduit, mistake))?;
                    schemas.entry(&pool.attributes).or_insert(Arc::new(parsed)).clone()
                }
            };
            if sends {
                pools.add_reader(spec, conduit, pool, &schema, state, &mut readers)?;
            }
            if receives {
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
        let reader = if pool.is_queue { copy_of(&conduit.receiver).0 } else { without_rank(&conduit.receiver).into() };
        let name = format!("{reader}.{}", conduit.receiver_port);
        if conduit.parts.is_some() {
            let known = readers.iter().find(|other| other.name == name).map(|other| other.way);
            if let Some(Way::Ranks(number)) = known {
                self.ranks[number].push(end);
                return Ok(());
            }
        }
        if let Some(Reader { way: Way::Backlog(number), .. }) =
            readers.iter().map(|other| &**other).find(|other| pool.is_queue && other.name == name)
        {
            state.backlogs.add_reader(*number, end);
            return Ok(());
        }
        let way = match pool.has_backlog() {
            false if conduit.parts.is_some() => {
                self.ranks.push(SmallVec::from_slice(&[end]));
                Way::Ranks(self.ranks.len() - 1)
            }
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
        let (name, end) = (without_rank(&conduit.sender), state.conduits.receiving_end(conduit.id));
        let in_parts = conduit.parts.is_some();
        let read = self.read.entry(port).or_default();
        read.may_die |= conduit.pool.as_ref().is_some_and(|pool| pool.reader_may_die);
        read.awaited.receiving.extend(end);
        (read.awaited.is_any, read.awaited.is_reported) = (true, true);
        if let Some(known) = read.writers.iter_mut().find(|known| in_parts && known.is(name, &conduit.sender_port)) {
            known.ends.extend(end);
            return;
        }
        // An object comes from all ranks of its writer: who waits for it waits for the first of them.
        read.awaited.told.extend(end);
        let (instance, index) = copy_of(name);
        read.writers.push(Writer {
            name: name.into(),
            ends: end.into_iter().collect(),
            in_parts,
            schema: schema.clone(),
            instance,
            index,
            port: conduit.sender_port.as_str().into(),
        });
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

    /// The sending ends to the ranks of a reader, each of which gets a part.
    pub(super) fn ends_to_ranks(&self, number: usize) -> &[usize] {
        &self.ranks[number]
    }

    /// Objects are said to be put on this host: ranks put them together, and rank 0 says where.
    pub(super) fn put_at(&mut self, node: &str) {
        self.written.iter_mut().filter_map(OnceLock::get_mut).for_each(|written| written.system.node = node.into());
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
            has_ended: AtomicBool::new(false),
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

/// Objects that come in parts go to each reader, one after the other: the parts of an object meet again since nobody gets others instead.
fn check_parts(conduit: &ConduitSpec, pool: &PoolSpec) -> Result<()> {
    if conduit.parts.is_some() && (pool.has_backlog() || pool.reader_may_die || pool.writer_may_die) {
        let problem = "arrays that are spread over ranks (run:decomp) go by pools that are no queues, lose nothing, and have no end that may die";
        return Err(Error::Usage { problem: format!("{}: {problem}", conduit.name) });
    }
    Ok(())
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
    /// An object: the place of its writer.
    Object(usize),
    Nothing,
    Ended,
}

/// What was taken out of a port.
pub(super) enum Handed {
    /// An object.
    Object(Message),
    /// An object or a group, in parts, and the place of its writer.
    Parts(usize, Vec<Message>),
    /// All writers have ended.
    Ended,
}

impl Writer {
    /// Whether it is this port of this instance.
    pub(super) fn is(&self, name: &str, port: &str) -> bool {
        self.name == name && *self.port == *port
    }

    /// What there is of it here: an object when all of its parts have come.
    pub(super) fn look(&self, state: &mut State) -> Result<Next> {
        if let [end] = self.ends[..] {
            return state.next_for_program(end);
        }
        let (mut come, mut ended) = (0, 0);
        for end in &self.ends {
            match state.next_for_program(*end)? {
                Next::Message => come += 1,
                Next::Ended => ended += 1,
                Next::Nothing => {}
            }
        }
        match (come, ended) {
            (0, _) if ended == self.ends.len() => Ok(Next::Ended),
            (_, 0) if come == self.ends.len() => Ok(Next::Message),
            (1.., 1..) => Err(self.is_uneven()),
            _ => Ok(Next::Nothing),
        }
    }

    /// Its ranks have not put the same objects.
    pub(super) fn is_uneven(&self) -> Error {
        let problem = "its ranks must put equally often, and some have ended while objects of others wait";
        Error::Usage { problem: format!("{}.{}: {problem}", self.name, self.port) }
    }

    /// The parts of its next object, which have come.
    pub(super) fn hand_out(&self, state: &mut State) -> Vec<Message> {
        self.ends.iter().filter_map(|end| state.conduits.inlets[*end].hand_out()).collect()
    }
}

impl Read {
    /// The place of a writer among those of the port.
    pub(super) fn place_of(&self, name: &str, port: &str) -> Option<usize> {
        self.writers.iter().position(|writer| writer.is(name, port))
    }

    /// Looks at what is left of a group, then at the writers in turn.
    pub(super) fn look(&self, state: &mut State) -> Result<Looked> {
        if !lock(&self.rest).is_empty() {
            return Ok(Looked::Rest);
        }
        let first = self.next.load(Ordering::Relaxed);
        let mut all_ended = true;
        for turn in 0..self.writers.len() {
            let place = first.wrapping_add(turn) % self.writers.len();
            let writer = &self.writers[place];
            if writer.ends.is_empty() {
                continue;
            }
            match writer.look(state)? {
                Next::Message => return Ok(Looked::Object(place)),
                Next::Nothing => all_ended = false,
                Next::Ended => {}
            }
        }
        Ok(if all_ended { Looked::Ended } else { Looked::Nothing })
    }

    /// The next object, with its [`Origin`] behind it, or its parts; `None`: nothing yet. `is_polled`: the program looks from time to time
    /// and does not wait. A reader of the newest object then asks for the next one at once, so that it is here at the next look.
    pub(super) fn next(&self, state: &mut State, is_polled: bool) -> Result<Option<Handed>> {
        Ok(match self.look(state)? {
            Looked::Rest => lock(&self.rest).pop_front().map(Handed::Object),
            Looked::Object(place) if self.writers[place].in_parts => {
                self.next.store(place + 1, Ordering::Relaxed);
                Some(Handed::Parts(place, self.writers[place].hand_out(state)))
            }
            Looked::Object(place) => {
                self.next.store(place + 1, Ordering::Relaxed);
                let end = self.writers[place].ends[0];
                if state.conduits.receiving[end].is_settled_by_program() {
                    // Of another thread: it takes from the same port, and nobody knows of which object it is done with which.
                    let before = self.unsettled.swap(end + 1, Ordering::Relaxed).checked_sub(1);
                    before.into_iter().for_each(|before| state.settle(before));
                }
                let Some(message) = state.conduits.inlets[end].hand_out() else { return Ok(None) };
                let redelivered = state.conduits.receiving[end].redelivered(state.conduits.inlets[end].handed);
                let origin = Origin { writer: place, redelivered: redelivered.map(u64::from), whole: None };
                if is_polled {
                    state.demand(end);
                }
                let peer = &self.writers[place].name;
                let objects =
                    taken_apart(message).map_err(|problem| Error::Protocol { peer: peer.clone(), problem })?;
                let mut objects = objects.into_iter().map(|object| origin.behind(object));
                let first = objects.next();
                let mut rest = lock(&self.rest);
                rest.extend(objects);
                if !rest.is_empty() {
                    state.waiters.wake(None); // for threads that wait at the same port
                }
                first.map(Handed::Object)
            }
            Looked::Ended => Some(Handed::Ended),
            Looked::Nothing => None,
        })
    }
}
