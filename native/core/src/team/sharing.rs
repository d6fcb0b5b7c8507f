//! What rank 0 tells the others, and what they tell it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::error::{Error, Result};
use xmml_wire::frame::descriptor::{self, Layout};
use xmml_wire::message::Message;
use xmml_wire::message_pack;

use super::Team;

/// Short outcomes travel in one block of this size, whose first byte is their length.
const BLOCK: usize = 64;
/// The first byte of a block that is followed by what did not fit.
const LONG: u8 = 255;
/// No outcome is longer.
const LONGEST: u64 = 1 << 30;

fn failed(cause: String) -> Error {
    Error::Io { action: "reach the other ranks of this program".into(), cause }
}

/// Rank 0 brings what came of its call, the others bring `None`: all return the same.
///
/// # Errors
/// That of rank 0, on every rank; or the ranks cannot reach each other.
pub fn share<T: Serialize + DeserializeOwned>(team: &dyn Team, outcome: Option<Result<T>>) -> Result<T> {
    if team.size() == 1 {
        return outcome.unwrap_or_else(|| Err(failed("there is only one rank, and it is not the first".into())));
    }
    let Some(outcome) = outcome.filter(|_| team.rank() == 0) else { return take_outcome(team)? };
    let bytes = encoded(&outcome)?;
    let mut block = [0; BLOCK];
    if bytes.len() < BLOCK {
        block[0] = bytes.len() as u8;
        block[1..=bytes.len()].copy_from_slice(&bytes);
        team.give(&block).map_err(failed)?;
    } else {
        block[0] = LONG;
        block[1..9].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        team.give(&block).map_err(failed)?;
        team.give(&bytes).map_err(failed)?;
    }
    outcome
}

fn take_outcome<T: DeserializeOwned>(team: &dyn Team) -> Result<Result<T>> {
    let mut block = [0; BLOCK];
    team.take(&mut block).map_err(failed)?;
    if block[0] != LONG {
        return decoded(&block[1..=usize::from(block[0]).min(BLOCK - 1)]);
    }
    let len = u64::from_le_bytes(block[1..9].try_into().unwrap_or_default());
    let mut bytes = room(len)?;
    team.take(&mut bytes).map_err(failed)?;
    decoded(&bytes)
}

fn room(len: u64) -> Result<Vec<u8>> {
    match len <= LONGEST {
        true => Ok(vec![0; len as usize]),
        false => Err(failed(format!("another rank announces {len} bytes; do all ranks make the same calls?"))),
    }
}

fn encoded<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    rmp_serde::to_vec_named(value).map_err(|error| failed(error.to_string()))
}

fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    message_pack::decode(bytes)
        .map_err(|error| failed(format!("{error}; do all ranks make the same calls in the same order?")))
}

/// A value for rank 0, which [`collect_value`].
///
/// # Errors
/// The ranks cannot reach each other.
pub fn deliver_value<T: Serialize>(team: &dyn Team, value: &T) -> Result<()> {
    let bytes = encoded(value)?;
    team.deliver(&(bytes.len() as u64).to_le_bytes()).map_err(failed)?;
    team.deliver(&bytes).map_err(failed)
}

/// Rank 0: takes the value that a rank delivers.
///
/// # Errors
/// The ranks cannot reach each other.
pub fn collect_value<T: DeserializeOwned>(team: &dyn Team, from: u32) -> Result<T> {
    let mut len = [0; 8];
    team.collect(from, &mut len).map_err(failed)?;
    let mut bytes = room(u64::from_le_bytes(len))?;
    team.collect(from, &mut bytes).map_err(failed)?;
    decoded(&bytes)
}

/// Every rank brings what came of its own call; all return `Ok` if all did well.
///
/// # Errors
/// The error of the first rank that has one, on every rank.
pub fn agree(team: &dyn Team, own: Result<()>) -> Result<()> {
    if team.rank() > 0 {
        deliver_value(team, &own)?;
        return share(team, None);
    }
    let mut all = own;
    for rank in 1..team.size() {
        let theirs: Result<()> = collect_value(team, rank)?;
        all = all.and(theirs);
    }
    share(team, Some(all))
}

/// What the others must know of a message before its payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Announced {
    timestamp: f64,
    next_timestamp: Option<f64>,
    descriptor: Vec<u8>,
    pieces: Vec<u64>,
}

/// Rank 0: gives a message to the others; what to share with them before, and the payload, to be given then.
///
/// # Errors
/// The data is nested too deep.
pub fn share_message(message: &Message) -> Result<(Announced, Vec<Buffer>)> {
    let layout = Layout::of(&message.data)?;
    let announced = Announced {
        timestamp: message.timestamp,
        next_timestamp: message.next_timestamp,
        descriptor: layout.descriptor.into_vec(),
        pieces: layout.payload.iter().map(|piece| piece.len() as u64).collect(),
    };
    Ok((announced, layout.payload.into_vec()))
}

impl Announced {
    /// Rank 0: the payload.
    ///
    /// # Errors
    /// The ranks cannot reach each other.
    pub fn give(&self, team: &dyn Team, payload: &[Buffer]) -> Result<()> {
        payload.iter().filter(|piece| !piece.is_empty()).try_for_each(|piece| team.give(piece)).map_err(failed)
    }
}

/// The others: take the payload of a message that rank 0 has announced.
///
/// # Errors
/// There is no memory for it, or the ranks cannot reach each other.
pub fn take_message(team: &dyn Team, announced: Announced, pool: &BufferPool) -> Result<Message> {
    let total: u64 = announced.pieces.iter().sum();
    let mut payload = pool.take(total as usize).map_err(|none| failed(none.to_string()))?;
    let mut at = 0;
    for piece in announced.pieces.iter().map(|piece| *piece as usize).filter(|piece| *piece > 0) {
        team.take(&mut payload[at..at + piece]).map_err(failed)?;
        at += piece;
    }
    let data = descriptor::decode(&announced.descriptor, &payload.freeze())
        .map_err(|error| failed(format!("rank 0 gave data that cannot be read: {error}")))?;
    Ok(Message { timestamp: announced.timestamp, next_timestamp: announced.next_timestamp, data })
}
