//! Filters: what happens to the messages of a conduit between the two programs.
//!
//! | name | argument | what comes out | time stamps |
//! |---|---|---|---|
//! | `pipe`, `thread` | - | every message | kept (`thread`: every conduit hands over asynchronously, so it is a `pipe`) |
//! | `null` | - | nothing | - |
//! | `console` | - | every message, after a line on standard output | kept |
//! | `drop` | `k` | messages 0, k, 2k, ... | kept |
//! | `blockafter` | time `t` | messages up to and including time t | kept |
//! | `repeat` | `k` | every message k times | k equal parts of the interval to the next message (not known: as long as the one before) |
//! | `last` | - | the last message of each run of the sender, at its end | kept |
//! | `multiply` | `f` | f times the values | kept |
//! | `convert` | `from`, `to` (units) | the values in another unit | kept |
//! | `sum`, `mean` | `k` | sum or mean of k successive messages | the first's, next of the last |
//! | `timeoffset` | time `offset` | every message | both later by offset |
//! | `timefactor` | `f` | every message | both times f |
//! | `linearinterpolation` | - | the means of neighbours along the first axis, one fewer | kept |
//! | `lineartimeinterpolation` | `k` | the first; then k per message, the last of them the message itself | k equal parts between the two messages |
//! | `extrapolate` | `k` | k per message, on the line through the last two; the first is repeated | as `repeat` |
//! | `serialize`, `deserialize` | - | any data to bytes and back | kept |
//! | `compress`, `decompress` | - | bytes to zlib and back; no bytes stay no bytes | kept |
//! | `zstd` | `level` (3) | the same data, compressed on the wire | kept |
//! | `lz4` | - | the same data, compressed on the wire | kept |
//! | `precision` | `to` or `tolerance` | the same data, rounded on the wire | kept |
//! | `checksum` | `kind` (xxh3) | the same data, checked on the wire | kept |
//! | `chunk` | `n` | n messages of bytes; the last takes the rest | kept on each |
//! | `dechunk` | `n` | n messages of bytes joined | the last's |
//!
//! `zstd`, `lz4`, `precision` and `checksum` work in two halves, one at each end of a conduit: [`OTHER_HALVES`]. A checksum is not made by the filter itself but
//! travels in the frame ([`xmml_wire::frame::check`]); what it would do here is nothing.
//!
//! The single argument is the filter's factor, or the parameter of that name. Arithmetic works on every numeric array and scalar, nested ones included;
//! [`numeric`] says what becomes of integers.

mod aggregate;
mod bytes;
pub mod compression;
mod counting;
pub mod numeric;
pub mod precision;
mod scaling;
mod space;
mod time;

use xmml_wire::error::{Error, Result};
use xmml_wire::frame::check::Algorithm;
use xmml_wire::message::Message;
use xmml_wire::spelling::closest;

use crate::param;
use crate::spec::FilterSpec;

/// What went wrong inside a filter, for people; [`Chain`] adds which filter on which conduit.
pub type Problem = String;

/// One filter on one conduit. It sees the messages of that conduit in order.
pub trait Filter: Send {
    /// How many messages have come out after `n` went in, over all runs of the sender; without what the end of a run lets out.
    fn outputs(&self, n: u64) -> u64;

    /// How many come out when a run of the sender ends in which `n` messages went in.
    fn outputs_at_end(&self, _n: u64) -> u64 {
        0
    }

    /// Bytes out per byte in, roughly: by it the planner chooses the end of the conduit where the filter runs.
    fn size_ratio(&self) -> f64 {
        1.0
    }

    /// Takes a message and appends what comes out.
    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> std::result::Result<(), Problem>;

    /// The sender's run has ended: appends what comes out now.
    fn end_of_run(&mut self, _out: &mut Vec<Message>) -> std::result::Result<(), Problem> {
        Ok(())
    }

    /// A warning that came up since the last call.
    fn take_warning(&mut self) -> Option<String> {
        None
    }

    /// The sender has ended: what of its messages will never come out, for people; `None` if that is as it should be.
    fn left_over(&self) -> Option<String> {
        None
    }
}

/// What people are told of a group of `k` that has only `held` messages when the sender ends, having sent `seen`.
fn incomplete_group(held: usize, k: usize, seen: u64) -> Option<String> {
    (held > 0).then(|| {
        let last = if held == 1 { "the last".to_owned() } else { format!("the last {held}") };
        format!("{last} of {seen} messages did not come out: their group of {k} is not complete; let {k} divide the number of messages")
    })
}

/// Names of all built-in filters, sorted.
pub const NAMES: &[&str] = &[
    "blockafter",
    "checksum",
    "chunk",
    "compress",
    "console",
    "convert",
    "dechunk",
    "decompress",
    "deserialize",
    "drop",
    "extrapolate",
    "last",
    "linearinterpolation",
    "lineartimeinterpolation",
    "lz4",
    "mean",
    "multiply",
    "null",
    "pipe",
    "precision",
    "repeat",
    "serialize",
    "sum",
    "thread",
    "timefactor",
    "timeoffset",
    "zstd",
];

/// Filters of the wire: what the sender does, and what the receiver does to undo it. Only the planner places the second halves.
pub const OTHER_HALVES: &[(&str, &str)] =
    &[("checksum", CHECKSUM), ("lz4", "unlz4"), ("precision", "restore"), ("zstd", "unzstd")];

/// The filter that has messages checked on the wire; the same name at both ends.
pub const CHECKSUM: &str = "checksum";

/// Makes a filter.
///
/// # Errors
/// [`Error::Filter`]: no filter of that name, or an argument is missing or impossible.
pub fn build(spec: &FilterSpec, conduit: &str) -> Result<Box<dyn Filter>> {
    make(spec, conduit).map_err(|problem| Error::Filter {
        conduit: conduit.to_owned(),
        filter: spec.name.clone(),
        problem,
    })
}

fn make(spec: &FilterSpec, conduit: &str) -> std::result::Result<Box<dyn Filter>, Problem> {
    let arguments = Arguments(spec);
    Ok(match spec.name.as_str() {
        "pipe" | "thread" => Box::new(counting::Pipe),
        "null" => Box::new(counting::Null),
        "console" => Box::new(counting::Console::new(conduit)),
        "drop" => Box::new(counting::Drop::new(arguments.count("k")?)),
        "blockafter" => Box::new(counting::BlockAfter::new(arguments.number("t", Some("s"))?)),
        "repeat" => Box::new(counting::Repeat::new(arguments.count("k")?)),
        "last" => Box::new(counting::Last::default()),
        "multiply" => Box::new(scaling::Multiply::new(arguments.number("f", None)?)),
        "convert" => Box::new(scaling::Multiply::converting(arguments.text("from")?, arguments.text("to")?)?),
        "sum" => Box::new(aggregate::Aggregate::sum(arguments.count("k")?)),
        "mean" => Box::new(aggregate::Aggregate::mean(arguments.count("k")?)),
        "timeoffset" => Box::new(time::TimeOffset(arguments.number("offset", Some("s"))?)),
        "timefactor" => Box::new(time::TimeFactor(arguments.number("f", None)?)),
        "linearinterpolation" => Box::new(space::LinearInterpolation),
        "lineartimeinterpolation" => Box::new(time::LinearTimeInterpolation::new(arguments.count("k")?)),
        "extrapolate" => Box::new(time::Extrapolate::new(arguments.count("k")?)),
        CHECKSUM => Box::new(arguments.kind().map(|_| counting::Pipe)?),
        "serialize" => Box::new(bytes::Serialize::default()),
        "deserialize" => Box::<bytes::Deserialize>::default(),
        "compress" => Box::new(bytes::Compress),
        "decompress" => Box::<bytes::Decompress>::default(),
        "zstd" => Box::new(compression::Pack::zstd(arguments.level()?)?),
        "lz4" => Box::new(compression::Pack::lz4()),
        "unzstd" => Box::new(compression::Unpack::zstd()?),
        "unlz4" => Box::new(compression::Unpack::lz4()),
        "precision" => Box::new(precision::Reduce::new(arguments.form()?)),
        "restore" => Box::new(precision::Restore::default()),
        "chunk" => Box::new(bytes::Chunk(arguments.count("n")?)),
        "dechunk" => Box::new(bytes::Dechunk::new(arguments.count("n")?)),
        unknown => return Err(no_such_filter(unknown)),
    })
}

fn no_such_filter(name: &str) -> Problem {
    match closest(name, NAMES.iter().copied()) {
        Some(meant) => format!("there is no filter of this name; did you mean {meant}?"),
        None => format!("there is no filter of this name; the filters are {}", NAMES.join(", ")),
    }
}

/// Reads the arguments of a filter.
struct Arguments<'a>(&'a FilterSpec);

impl Arguments<'_> {
    /// The number called `name`, or the factor.
    fn number(&self, name: &str, unit: Option<&str>) -> std::result::Result<f64, Problem> {
        let value = match self.0.params.get(name) {
            Some(text) => param::as_float(text, unit).map_err(|problem| format!("{name}: {problem}"))?,
            None => self.0.factor.ok_or_else(|| format!("needs a factor, or a parameter \"{name}\""))?,
        };
        if value.is_finite() {
            Ok(value)
        } else {
            Err(format!("{name} must be a finite number, not {value}"))
        }
    }

    /// A positive integer called `name`, or the factor.
    fn count(&self, name: &str) -> std::result::Result<u32, Problem> {
        let value = self.number(name, None)?;
        if value >= 1.0 && value.fract() == 0.0 && value <= f64::from(u32::MAX) {
            Ok(value as u32)
        } else {
            Err(format!("{name} must be a positive integer, not {value}"))
        }
    }

    /// The level of zstd.
    fn level(&self) -> std::result::Result<i32, Problem> {
        if self.0.factor.is_none() && !self.0.params.contains_key("level") {
            return Ok(compression::ZSTD_LEVEL);
        }
        self.count("level").map(|level| i32::try_from(level).unwrap_or(i32::MAX))
    }

    /// What numbers become on the wire.
    fn form(&self) -> std::result::Result<precision::Form, Problem> {
        match (self.0.params.get("to"), self.0.params.contains_key("tolerance") || self.0.factor.is_some()) {
            (Some(_), true) => Err("takes \"to\" or a tolerance, not both".to_owned()),
            (Some(name), false) => precision::Form::named(name),
            (None, true) => precision::Form::within(self.number("tolerance", None)?),
            (None, false) => Err("needs a parameter \"to\" (float32, float16, bfloat16), or a tolerance".to_owned()),
        }
    }

    /// How checksums are made.
    fn kind(&self) -> std::result::Result<Algorithm, Problem> {
        match self.0.params.get("kind") {
            None => Ok(Algorithm::Xxh3),
            Some(name) => Algorithm::named(name).ok_or_else(|| format!("kind must be crc32c or xxh3, not \"{name}\"")),
        }
    }

    fn text(&self, name: &str) -> std::result::Result<&str, Problem> {
        self.0.params.get(name).map(String::as_str).ok_or_else(|| format!("needs a parameter \"{name}\""))
    }
}

/// The filters at one end of a conduit, in the order of application.
pub struct Chain {
    /// Empty without filters, which have nothing to say.
    conduit: String,
    filters: Vec<(String, Box<dyn Filter>)>,
}

impl Chain {
    /// Makes the filters of one end of the conduit called `conduit`.
    ///
    /// # Errors
    /// As [`build`].
    pub fn build(specs: &[FilterSpec], conduit: &str) -> Result<Chain> {
        let mut filters = Vec::new();
        for spec in specs {
            let filter = build(spec, conduit)?;
            if spec.name != CHECKSUM {
                filters.push((spec.name.clone(), filter));
            }
        }
        let conduit = if filters.is_empty() { String::new() } else { conduit.to_owned() };
        Ok(Chain { conduit, filters })
    }

    /// Whether messages pass as they are.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Passes a message through all filters and returns what comes out, in order.
    ///
    /// # Errors
    /// [`Error::Filter`] naming the filter that cannot take it.
    pub fn apply(&mut self, message: Message) -> Result<Vec<Message>> {
        self.pass(0, vec![message])
    }

    /// The sender's run has ended: returns what the filters held back.
    ///
    /// # Errors
    /// As [`Chain::apply`].
    pub fn end_of_run(&mut self) -> Result<Vec<Message>> {
        let mut through = Vec::new();
        for at in 0..self.filters.len() {
            through = self.pass_one(at, through)?;
            let (name, filter) = &mut self.filters[at];
            filter.end_of_run(&mut through).map_err(|problem| Error::Filter {
                conduit: self.conduit.clone(),
                filter: name.clone(),
                problem,
            })?;
        }
        Ok(through)
    }

    /// How many messages have come out after `n` went in, within one run of the sender.
    pub fn outputs(&self, n: u64) -> u64 {
        self.filters.iter().fold(n, |count, (_, filter)| filter.outputs(count))
    }

    /// Warnings that came up since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        let conduit = &self.conduit;
        self.filters
            .iter_mut()
            .filter_map(|(name, filter)| {
                filter.take_warning().map(|text| format!("conduit {conduit}: filter {name}: {text}"))
            })
            .collect()
    }

    /// The sender has ended: what of its messages will never come out.
    pub fn left_over(&self) -> Vec<String> {
        let said = |(name, filter): &(String, Box<dyn Filter>)| {
            filter.left_over().map(|text| format!("conduit {}: filter {name}: {text}", self.conduit))
        };
        self.filters.iter().filter_map(said).collect()
    }

    fn pass(&mut self, from: usize, mut messages: Vec<Message>) -> Result<Vec<Message>> {
        for at in from..self.filters.len() {
            messages = self.pass_one(at, messages)?;
        }
        Ok(messages)
    }

    fn pass_one(&mut self, at: usize, messages: Vec<Message>) -> Result<Vec<Message>> {
        let (name, filter) = &mut self.filters[at];
        let mut out = Vec::with_capacity(messages.len());
        for message in messages {
            filter.apply(message, &mut out).map_err(|problem| Error::Filter {
                conduit: self.conduit.clone(),
                filter: name.clone(),
                problem,
            })?;
        }
        Ok(out)
    }
}

/// How the messages of a conduit with these filters at its sender are checked on the wire; `None`: not at all.
pub fn checksum(specs: &[FilterSpec]) -> Option<Algorithm> {
    // An argument that is not possible was refused when the chain was built.
    specs.iter().find(|spec| spec.name == CHECKSUM).and_then(|spec| Arguments(spec).kind().ok())
}

/// How many messages the built-in filter of `spec` has emitted after `n` inputs.
///
/// # Errors
/// As [`build`].
pub fn outputs(spec: &FilterSpec, n: u64) -> Result<u64> {
    Ok(build(spec, "")?.outputs(n))
}

/// How many more it emits when the sender's run ends after `n` inputs.
///
/// # Errors
/// As [`build`].
pub fn outputs_at_end(spec: &FilterSpec, n: u64) -> Result<u64> {
    Ok(build(spec, "")?.outputs_at_end(n))
}

/// Bytes out per byte in of the built-in filter of `spec`, roughly.
///
/// # Errors
/// As [`build`].
pub fn size_ratio(spec: &FilterSpec) -> Result<f64> {
    Ok(build(spec, "")?.size_ratio())
}

#[cfg(test)]
mod tests;
