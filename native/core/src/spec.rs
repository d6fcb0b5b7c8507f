//! What the coordinator tells an instance about itself when it joins: its ports, conduits, parameters and time scale.
//! The plan holds the same values as JSON; on the wire they are MessagePack maps with these field names. Of conduits, of which there may
//! be very many, what is empty is left out.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xmml_wire::connection::authentication::Protection;
use xmml_wire::error::{Error, Result};
use xmml_wire::methods::TrafficClass;

use crate::parallel::decomposition::Decomposition;

/// What kind of element of the model an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A single-scale program with the submodel execution loop.
    Submodel,
    /// Receives on every in port, then sends on every out port.
    Mapper,
    /// A source or a sink with one port.
    Terminal,
}

/// The place of a port in the submodel execution loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Operator {
    #[serde(rename = "finit")]
    Finit,
    #[serde(rename = "Oi")]
    Oi,
    #[serde(rename = "S")]
    S,
    #[serde(rename = "B")]
    B,
    #[serde(rename = "Of")]
    Of,
}

/// Which way messages pass a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Receives.
    In,
    /// Sends.
    Out,
}

/// One instance of the model (one copy of it, if it has a multiplicity).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Unique name; copies are called `c[0]`, `c[1]`, ...
    pub name: String,
    /// Submodel, mapper or terminal.
    pub kind: Kind,
    /// Which copy this is, from 0.
    pub index: u32,
    /// How many copies there are.
    pub count: u32,
    /// Whether the order of operators is checked (`run:order="free"` switches it off).
    pub check_order: bool,
    /// Iterations per run; with `until`, the upper bound (0 = no bound).
    pub steps: u64,
    /// The program decides when to stop.
    pub until: bool,
    /// Time step in seconds (0 if the model gives none).
    pub delta_s: f64,
    /// Total time of one run in seconds (0 if the model gives none).
    pub total_s: f64,
    /// The scales of the model: time, space, others.
    #[serde(default)]
    pub scales: Vec<ScaleSpec>,
    /// Parameters: name to text as written in the model (`"1e-9"`, `"5 km"`, `"fast"`).
    pub params: BTreeMap<String, String>,
    /// Every declared port, coupled or not.
    pub ports: Vec<PortSpec>,
    /// Every conduit that begins or ends here. Whoever keeps it in the same process shares it: there may be very many. (A plan tells of
    /// them apart from the instances: see [`wired`].)
    #[serde(default)]
    pub conduits: Vec<Arc<ConduitSpec>>,
}

impl InstanceSpec {
    /// Returns an instance with one step of one second, and without ports.
    pub fn new(name: &str) -> InstanceSpec {
        InstanceSpec {
            name: name.to_owned(),
            kind: Kind::Mapper,
            index: 0,
            count: 1,
            check_order: true,
            steps: 1,
            until: false,
            delta_s: 1.0,
            total_s: 1.0,
            scales: Vec::new(),
            params: BTreeMap::new(),
            ports: Vec::new(),
            conduits: Vec::new(),
        }
    }

    /// Adds a port at a place: `finit`, `Oi`, `S`, `B` or `Of`, which makes the instance a submodel; or `in` or `out`. `S*3`: three copies
    /// of an instance are at the other end.
    ///
    /// # Errors
    /// Returns [`Error::Usage`] if there is no such place, or if the number of copies is not at least 1.
    pub fn add_port(&mut self, name: &str, place: &str) -> Result<()> {
        let (place, copies) = match place.split_once('*') {
            None => (place, 0),
            Some((place, copies)) => match copies.parse() {
                Ok(count) if count > 0 => (place, count),
                _ => return Err(usage(format!("{copies} is no number of copies; they are at least 1"))),
            },
        };
        let (direction, operator) = match place {
            "finit" => (Direction::In, Some(Operator::Finit)),
            "S" => (Direction::In, Some(Operator::S)),
            "B" => (Direction::In, Some(Operator::B)),
            "Oi" => (Direction::Out, Some(Operator::Oi)),
            "Of" => (Direction::Out, Some(Operator::Of)),
            "in" => (Direction::In, None),
            "out" => (Direction::Out, None),
            _ => {
                let known = "they are finit, Oi, S, B, Of, and in, out for a mapper";
                return Err(usage(format!("\"{place}\" is no operator; {known}")));
            }
        };
        if operator.is_some() {
            self.kind = Kind::Submodel;
        }
        self.ports.push(PortSpec {
            name: name.to_owned(),
            direction,
            operator,
            copies,
            decomposition: Decomposition::default(),
            shape: Vec::new(),
            open: false,
            attributes: None,
        });
        Ok(())
    }

    /// The place of a port of this direction among the ports.
    pub fn port_number(&self, name: &str, direction: Direction) -> Option<usize> {
        self.ports.iter().position(|port| port.name == name && port.direction == direction)
    }

    /// Sets how many steps a run has (0: the program decides), and their length.
    ///
    /// # Errors
    /// Returns [`Error::Usage`] if the length is not a number from 0.
    pub fn set_steps(&mut self, steps: u64, delta_s: f64) -> Result<()> {
        if !delta_s.is_finite() || delta_s < 0.0 {
            return Err(usage(format!("a step of {delta_s} s; it must be a number from 0")));
        }
        self.steps = steps;
        self.until = steps == 0;
        self.delta_s = delta_s;
        self.total_s = steps as f64 * delta_s;
        Ok(())
    }

    /// Adds a scale in space or another dimension, in base units.
    ///
    /// # Errors
    /// Returns [`Error::Usage`] if the step or the extent is not a number from 0.
    pub fn add_scale(&mut self, name: &str, delta: f64, total: f64) -> Result<()> {
        if [delta, total].iter().any(|value| !value.is_finite() || *value < 0.0) {
            return Err(usage(format!("scale \"{name}\": delta {delta} and total {total} must be numbers from 0")));
        }
        let steps = if delta > 0.0 { (total / delta).round() as u64 } else { 0 };
        self.scales.push(ScaleSpec { name: name.to_owned(), kind: ScaleKind::Other, delta, total, steps });
        Ok(())
    }
}

fn usage(problem: String) -> Error {
    Error::Usage { problem }
}

/// Gives each instance the conduits that begin or end there, in their order. What begins or ends elsewhere is left out.
pub fn wired(mut instances: Vec<InstanceSpec>, conduits: Vec<ConduitSpec>) -> Vec<InstanceSpec> {
    let names: HashMap<String, usize> =
        instances.iter().enumerate().map(|(place, instance)| (instance.name.clone(), place)).collect();
    for conduit in conduits {
        let ends = [Some(&conduit.sender), Some(&conduit.receiver).filter(|receiver| **receiver != conduit.sender)];
        let places = ends.map(|end| end.and_then(|name| names.get(name)).copied());
        let conduit = Arc::new(conduit);
        places.into_iter().flatten().for_each(|place| instances[place].conduits.push(conduit.clone()));
    }
    instances
}

/// What dimension a scale is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScaleKind {
    /// Time.
    Time,
    /// A dimension in space.
    Space,
    /// Anything else.
    Other,
}

/// How finely an instance resolves one dimension, and how much of it it covers, in base units (s, m, ...).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleSpec {
    /// Id in the model.
    pub name: String,
    /// What dimension it is of.
    pub kind: ScaleKind,
    /// Step; 0 if the model gives none.
    pub delta: f64,
    /// Extent; 0 if the model gives none.
    pub total: f64,
    /// Steps that make the extent; 0 if the model gives not both.
    pub steps: u64,
}

/// One declared port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortSpec {
    /// Id in the model.
    pub name: String,
    /// In or out.
    pub direction: Direction,
    /// Place in the loop; none on mappers and terminals.
    pub operator: Option<Operator>,
    /// Number of copies at the other end when it is a multiplied instance (then it is addressed by `to`/`of`), else 0.
    #[serde(default)]
    pub copies: u32,
    /// How its arrays are spread over the ranks of this instance; whole: rank 0 has all of them.
    #[serde(default)]
    pub decomposition: Decomposition,
    /// Extents of the whole array in its first dimensions, as far as the model gives them exactly.
    #[serde(default)]
    pub shape: Vec<u64>,
    /// It is not coupled in the model: of an in port handles can be made, by an out port handles can be opened.
    #[serde(default)]
    pub open: bool,
    /// Of an instance without a run: it puts or takes objects there, whose attributes are declared so. In a run the conduits say it.
    #[serde(default)]
    pub attributes: Option<String>,
}

/// Between the name of an instance and the rank of a member.
pub const RANK_MARK: char = '#';

/// The name in the model of a member, which is one of the ranks of an instance.
pub fn without_rank(member: &str) -> &str {
    member.split_once(RANK_MARK).map_or(member, |(instance, _)| instance)
}

/// Conduits that were made by opening handles have numbers from here on; those of the model have smaller ones.
pub const FIRST_OPENED: u32 = 1 << 30;

/// A coupling at run time: one sender, one receiver, one FIFO.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConduitSpec {
    /// Unique in the run.
    pub id: u32,
    /// For people: `a.o -> b.i`, with copies `m.o -> c[3].i`.
    pub name: String,
    /// Name of the sending instance.
    pub sender: String,
    /// Its port.
    pub sender_port: String,
    /// Name of the receiving instance.
    pub receiver: String,
    /// Its port.
    pub receiver_port: String,
    /// If the sender is a copy that a mapper addresses: its index, by which the receiver says `of`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_copy: Option<u32>,
    /// If the receiver is a copy that a mapper addresses: its index, by which the sender says `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_copy: Option<u32>,
    /// How many messages the conduit holds before `send` blocks.
    pub capacity: u32,
    /// How many bytes it holds before `send` blocks; one message always fits.
    pub byte_budget: u64,
    /// Methods allowed, in order of preference; empty: all, fastest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// What it is for: conduits of different classes never share a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<TrafficClass>,
    /// Whether its bytes are encrypted and authenticated: always, never, or (`None`) where they leave the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<bool>,
    /// Filters applied in this order before a message leaves the sender.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sender_filters: Vec<FilterSpec>,
    /// Filters applied in this order when the receiver takes a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receiver_filters: Vec<FilterSpec>,
    /// It brings an instance the state of its own previous run (O_f to f_init): the first run does without, it has no part in how
    /// many runs there are, and what the last run leaves in it is no loss.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_state: bool,
    /// It carries parts of arrays that are spread over ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Box<PartsSpec>>,
    /// It carries the objects of a pool that its receiver chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Box<PoolSpec>>,
}

impl ConduitSpec {
    /// Returns a conduit that holds any number of messages, and goes by any method.
    pub fn new(id: u32, (sender, out_port): (&str, &str), (receiver, in_port): (&str, &str)) -> ConduitSpec {
        ConduitSpec {
            id,
            name: format!("{sender}.{out_port} -> {receiver}.{in_port}"),
            sender: sender.to_owned(),
            sender_port: out_port.to_owned(),
            receiver: receiver.to_owned(),
            receiver_port: in_port.to_owned(),
            sender_copy: None,
            receiver_copy: None,
            capacity: u32::MAX,
            byte_budget: u64::MAX,
            methods: Vec::new(),
            traffic_class: None,
            protect: None,
            sender_filters: Vec::new(),
            receiver_filters: Vec::new(),
            is_state: false,
            parts: None,
            pool: None,
        }
    }

    /// How many messages it holds at first; of objects of a pool any number, within its bytes.
    pub fn room(&self) -> u32 {
        match self.pool {
            None => self.capacity.max(1),
            Some(_) => u32::MAX,
        }
    }

    /// Whether it leads to a tap.
    pub fn leads_to_tap(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.is_tap)
    }

    /// Whether its receiver sees the newest message only.
    pub fn is_latest(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.is_latest)
    }

    /// Which of its connections are protected.
    pub fn protection(&self) -> Protection {
        match self.protect {
            None => Protection::BeyondHost,
            Some(true) => Protection::Always,
            Some(false) => Protection::Never,
        }
    }
}

/// Between which ranks a conduit carries parts of arrays. A side without a decomposition is one rank with the whole array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartsSpec {
    /// How the array is spread over the ranks of the sender.
    pub sender: Decomposition,
    /// Which of them this conduit begins at.
    pub sender_rank: u32,
    /// How the array is spread over the ranks of the receiver.
    pub receiver: Decomposition,
    /// Which of them this conduit ends at.
    pub receiver_rank: u32,
}

/// Which objects of a pool a reader chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSpec {
    /// The attributes of the objects: declarations as in the model.
    pub attributes: String,
    /// The selector; empty: it chooses all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub select: String,
    /// What the names with a `$` in the selector stand for: `index` and `count` of the reader, and its parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// The copies of the reader share the objects: each goes to one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_queue: bool,
    /// The writer does not wait for the reader: of what waits, the oldest is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_lose: bool,
    /// The reader is a tap: the model does not know it, and nothing that the writer does depends on it. It may lose objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_tap: bool,
    /// The run goes on if the reader dies: others get what it has not dealt with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reader_may_die: bool,
    /// The run goes on if the writer dies: the conduit then ends behind what it has put.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writer_may_die: bool,
    /// The reader sees the newest object only, and asks for it when it takes one (`run:kind="latest"`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_latest: bool,
}

impl PoolSpec {
    /// Whether objects wait with the writer until the reader has room ([`crate::conduit::backlog`]); else they are sent at once.
    pub fn has_backlog(&self) -> bool {
        self.is_queue || self.may_lose || self.is_latest
    }
}

/// A built-in filter with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilterSpec {
    /// Name in the built-in list, e.g. `multiply`.
    pub name: String,
    /// The single numeric argument (`apply/@factor`, else `filter/@factor`), if given.
    pub factor: Option<f64>,
    /// Named arguments as text, units allowed.
    pub params: BTreeMap<String, String>,
}
