//! Parallel ports: arrays that go out as one part for each rank of the receiver, and come in as one of each rank of the sender.

use std::time::Instant;

use xmml_wire::buffer::BufferPool;
use xmml_wire::data::{Array, Data, Order};
use xmml_wire::error::{Error, Result};
use xmml_wire::message::Message;

use crate::conduit::inlet::Next;
use crate::parallel::blocks::Block;
use crate::parallel::decomposition::Decomposition;
use crate::parallel::part::{part_for, put_together, Part};
use crate::runtime::state::State;
use crate::runtime::wait::WaitFor;
use crate::spec::{Direction, PortSpec, ScaleKind};

use super::ports::Port;
use super::{Instance, Received};

/// An array to send in parts: this rank's block of it.
pub(super) struct Spread {
    block: Array,
    held: Block,
    whole: Vec<u64>,
}

impl Spread {
    /// The block may lie in memory on loan, which now is the message's.
    pub(super) fn handed_over(&mut self, data: &Data) {
        if let Data::Array(block) = data {
            self.block.data = block.data.clone();
        }
    }

    /// The block as a part of the whole array.
    ///
    /// # Errors
    /// As [`part_for`].
    pub(super) fn as_part(&self, pool: &BufferPool) -> Result<Data> {
        part_for(&self.block, &self.held, &self.whole, &Block::whole(&self.whole), pool)
    }
}

impl Instance {
    /// Which block of the array on a port is this rank's, and the extents of the whole array.
    ///
    /// The extents are `shape`, or else those that the model gives, or else those of the message last sent or received there. A port
    /// without a decomposition has the whole array.
    ///
    /// # Errors
    /// The extents are not known, or have fewer dimensions than the decomposition.
    pub fn block(&self, port: &str, shape: Option<&[u64]>) -> Result<(Block, Vec<u64>)> {
        let declared = self.declared(port)?;
        let (decomposition, rank) = self.side(declared);
        let last = self.program_even_after_leaving().wholes.get(port).cloned();
        let known = (!declared.shape.is_empty()).then(|| declared.shape.clone());
        let Some(whole) = shape.map(<[u64]>::to_vec).or(last).or(known) else {
            return Err(self.usage(
                port,
                "the model does not give the extents of the whole array (delta and total of its spacescales); say them: shape",
            ));
        };
        self.check_dimensions(port, &decomposition, whole.len())?;
        Ok((decomposition.block(rank, &whole), whole))
    }

    /// How the arrays on a port are spread over the ranks of this side, and which of them this is.
    fn side(&self, declared: &PortSpec) -> (Decomposition, u32) {
        let parts = self.spec.conduits.iter().find_map(|conduit| {
            let sends = conduit.sender == self.spec.name && conduit.sender_port == declared.name;
            let receives = conduit.receiver == self.spec.name && conduit.receiver_port == declared.name;
            let parts = conduit.parts.as_ref()?;
            match declared.direction {
                Direction::Out if sends => Some((parts.sender.clone(), parts.sender_rank)),
                Direction::In if receives => Some((parts.receiver.clone(), parts.receiver_rank)),
                _ => None,
            }
        });
        parts.unwrap_or_else(|| match &self.team {
            Some(team) if declared.decomposition.ranks() == team.size() => {
                (declared.decomposition.clone(), team.rank())
            }
            _ => (Decomposition::whole(), 0),
        })
    }

    fn declared(&self, port: &str) -> Result<&PortSpec> {
        self.ports.get(port)?;
        let known = self.spec.ports.iter().find(|declared| declared.name == port);
        known.ok_or_else(|| self.usage(port, "it is not declared"))
    }

    fn usage(&self, port: &str, problem: &str) -> Error {
        Error::Usage { problem: format!("{}.{port}: {problem}", self.spec.name) }
    }

    fn check_dimensions(&self, port: &str, decomposition: &Decomposition, dimensions: usize) -> Result<()> {
        match decomposition.dimensions() {
            needed if needed > dimensions => Err(self.usage(
                port,
                &format!("an array of {dimensions} dimensions, but the model cuts {needed} of them (run:decomp)"),
            )),
            _ => Ok(()),
        }
    }

    /// Reads a decomposition: `block(x:4,y:2)`, with the scales in space of the model as dimensions, in their order.
    ///
    /// # Errors
    /// It is none.
    pub fn decomposition(&self, text: &str) -> Result<Decomposition> {
        let space = self.spec.scales.iter().filter(|scale| scale.kind == ScaleKind::Space);
        let names: Vec<&str> = space.map(|scale| scale.name.as_str()).collect();
        Decomposition::parse(text, &names)
            .map_err(|problem| Error::Usage { problem: format!("{}: {problem}", self.spec.name) })
    }

    /// In which memory order parts are put together; row-major unless the program prefers the other.
    pub fn prefer_order(&self, order: Order) {
        self.program_even_after_leaving().order = order;
    }

    /// What is to be sent in parts; `None` on an ordinary port.
    pub(super) fn spread(&self, port: &Port, data: &Data, shape: Option<&[u64]>) -> Result<Option<Spread>> {
        if !port.in_parts && !port.is_spread {
            return Ok(None);
        }
        let Data::Array(block) = data else {
            let problem = format!("only arrays are spread over ranks (run:decomp), and this is {}", data.describe());
            return Err(self.usage(&port.name, &problem));
        };
        let declared = self.declared(&port.name)?;
        let (decomposition, rank) = self.side(declared);
        self.check_dimensions(&port.name, &decomposition, block.shape.len())?;
        let whole = match shape {
            Some(shape) => shape.to_vec(),
            None => self.whole_of(declared, &decomposition, &block.shape)?,
        };
        if whole.len() != block.shape.len() {
            let problem =
                format!("an array of {} dimensions cannot be a block of one of {}", block.shape.len(), whole.len());
            return Err(self.usage(&port.name, &problem));
        }
        let held = decomposition.block(rank, &whole);
        if held.extent[..] != block.shape[..] {
            let problem = format!(
                "rank {rank} holds {:?} of the whole array, from {:?}, a block of {:?}; this one is {:?} (if the extents of the whole array are others, say them: shape)",
                whole, held.start, held.extent, block.shape
            );
            return Err(self.usage(&port.name, &problem));
        }
        self.remember(&port.name, &whole);
        Ok(Some(Spread { block: block.clone(), held, whole }))
    }

    /// The extents of the whole array: those of the model, and in dimensions that are not cut those of the block.
    fn whole_of(&self, declared: &PortSpec, decomposition: &Decomposition, block: &[u64]) -> Result<Vec<u64>> {
        let cut = |axis: usize| decomposition.cuts.iter().any(|cut| cut.dimension as usize == axis && cut.parts > 1);
        let extents = (0..block.len()).map(|axis| match (cut(axis), declared.shape.get(axis)) {
            (false, _) => Ok(block[axis]),
            (true, Some(extent)) => Ok(*extent),
            (true, None) => Err(self.usage(
                &declared.name,
                &format!(
                    "the model does not give the extent of dimension {axis} (delta and total of its spacescale), which is cut; say the extents of the whole array: shape"
                ),
            )),
        });
        extents.collect()
    }

    pub(super) fn remember(&self, port: &str, whole: &[u64]) {
        let mut program = self.program_even_after_leaving();
        if program.wholes.get(port).is_none_or(|known| known != whole) {
            program.wholes.insert(port.to_owned(), whole.to_vec());
        }
    }

    /// The message for one sending end; `None` if that end has the message as it is.
    pub(super) fn part_of(&self, spread: &Option<Spread>, end: usize, message: &Message) -> Result<Option<Message>> {
        let Some(spread) = spread else { return Ok(None) };
        let wanted = self.with_state(|state| {
            state.conduits.sending[end].spec.parts.as_ref().map(|parts| {
                let needed = parts.receiver.dimensions();
                (
                    needed,
                    (needed <= spread.whole.len()).then(|| parts.receiver.block(parts.receiver_rank, &spread.whole)),
                )
            })
        });
        let Some((needed, wanted)) = wanted else { return Ok(None) };
        let Some(wanted) = wanted else {
            let name = self.with_state(|state| state.conduits.sending[end].spec.name.clone());
            let problem = format!(
                "{name}: the receiver cuts {needed} dimensions (run:decomp), but this array has {}",
                spread.whole.len()
            );
            return Err(Error::Usage { problem });
        };
        let data = part_for(&spread.block, &spread.held, &spread.whole, &wanted, &self.pool())?;
        Ok(Some(Message { data, timestamp: message.timestamp, next_timestamp: message.next_timestamp }))
    }

    /// Takes the next message of a port whose messages come in parts.
    pub(super) fn receive_parts(&self, port: &str, of: Option<u32>, until: Option<Instant>) -> Result<Received> {
        let (declared, ends) = self.ports.senders(port, of)?;
        let taken = self.wait(&WaitFor::messages(&ends), until, |state| {
            let mut found = Vec::new();
            for end in &ends {
                found.push(state.next_for_program(*end)?);
            }
            if found.iter().all(|next| *next == Next::Message) {
                return Ok(Some(ends.iter().filter_map(|end| state.conduits.inlets[*end].hand_out()).collect()));
            }
            if found.iter().all(|next| *next == Next::Ended) {
                return Ok(Some(Vec::new()));
            }
            if found.contains(&Next::Ended) && found.contains(&Next::Message) {
                return Err(self.uneven_parts(state, port, &ends, &found));
            }
            Ok(None)
        });
        self.tell_warnings_of(&ends);
        let taken: Vec<Message> = match taken? {
            None => return Ok(Received::TimedOut),
            Some(taken) if taken.is_empty() => {
                self.program()?.sequence.ended(port, of);
                return Ok(Received::Ended);
            }
            Some(taken) => taken,
        };
        let message = self.whole_message(port, &ends, taken)?;
        self.account_for(declared, of, &message)?;
        Ok(Received::Message(message))
    }

    fn uneven_parts(&self, state: &State, port: &str, ends: &[usize], found: &[Next]) -> Error {
        let named = |wanted: Next| -> String {
            let ends = ends.iter().zip(found).filter(|(_, next)| **next == wanted);
            ends.map(|(end, _)| state.conduits.receiving[*end].spec.sender.clone()).collect::<Vec<_>>().join(", ")
        };
        let problem = format!(
            "a message came from {} only, while {} ended; all ranks of the sender must send equally often",
            named(Next::Message),
            named(Next::Ended)
        );
        self.usage(port, &problem)
    }

    pub(super) fn whole_message(&self, port: &str, ends: &[usize], taken: Vec<Message>) -> Result<Message> {
        let (timestamp, next_timestamp) = (taken[0].timestamp, taken[0].next_timestamp);
        if let Some(other) = taken.iter().find(|part| part.timestamp.to_bits() != timestamp.to_bits()) {
            let problem = format!(
                "the ranks of the sender gave one message different time stamps, {timestamp} s and {} s",
                other.timestamp
            );
            return Err(self.usage(port, &problem));
        }
        let (decomposition, rank) = self.side(self.declared(port)?);
        let order = self.program_even_after_leaving().order;
        let parts = taken.into_iter().zip(ends).map(|(message, end)| {
            let part = Part::of(message.data)?;
            let (needed, own) = (decomposition.dimensions(), part.whole.len());
            if needed > own {
                return Err(format!("an array of {own} dimensions, but the model cuts {needed} of them (run:decomp)"));
            }
            let expected = self.with_state(|state| {
                let sides = state.conduits.receiving[*end].spec.parts.as_ref()?;
                (sides.sender.dimensions() <= own).then(|| sides.sender.block(sides.sender_rank, &part.whole))
            });
            let held = decomposition.block(rank, &part.whole);
            match expected {
                Some(expected) if expected.overlap(&held) == part.block => Ok(part),
                _ => Err("a part that its sender does not hold".to_owned()),
            }
        });
        let parts: std::result::Result<Vec<Part>, String> = parts.collect();
        let whole = parts
            .and_then(|parts| {
                let whole = parts.first().map(|part| part.whole.clone()).unwrap_or_default();
                let (array, _) = put_together(parts, |whole| decomposition.block(rank, whole), order, &self.pool())?;
                Ok((array, whole))
            })
            .map_err(|problem| self.usage(port, &problem));
        let (array, whole) = whole?;
        self.remember(port, &whole);
        Ok(Message { timestamp, next_timestamp, data: Data::Array(array) })
    }
}
