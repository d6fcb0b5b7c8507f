//! The short way of a short message between two processes on one host: from the caller into the memory of the connection, and out of that
//! to the program, past the queues of the conduit and of the connection.
//!
//! What has filters, checksums, several receivers or senders in one, or goes on after a change of methods, takes the general way, and so
//! does everything that goes wrong.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use xmml_wire::connection::Connection;
use xmml_wire::frame::{MessageFrame, ShortMessage};
use xmml_wire::message::Message;
use xmml_wire::methods::Glance;

use crate::conduit::Room;

use super::state::State;
use super::{DeferredWork, Runtime};

/// Glances at a conduit before the general way is tried, which knows the time: a microsecond or two, in which a partner that only answers
/// has answered.
const GLANCES: u32 = 320;

/// Between two looks at whether something else has happened, and two pauses that leave the processor's other thread some room.
const GLANCES_AT_A_TIME: u32 = 8;

/// Sends a message the short way, if it can go that.
pub fn send(runtime: &Runtime, end: usize, copy: Option<u32>, message: &Message) -> bool {
    runtime.note_caller();
    let written = write(&mut runtime.state(), end, copy, message, false);
    written.unwrap_or_else(|receipts| {
        runtime.read(&receipts);
        write(&mut runtime.state(), end, copy, message, true).unwrap_or(false)
    })
}

/// Writes a short message past all queues; false: it must go the general way (it is none that [`ShortMessage`] can encode, or cannot be
/// written at once). An error names the connection in which receipts may wait, which are to be looked for first, so that they do not pile
/// up.
fn write(
    state: &mut State,
    sending: usize,
    copy: Option<u32>,
    message: &Message,
    has_looked: bool,
) -> Result<bool, Arc<Connection>> {
    let end = &mut state.conduits.sending[sending];
    let Some(connection) = state.connections.links[end.link].connection.as_ref() else { return Ok(false) };
    let Some(memory) = connection.memory() else { return Ok(false) };
    // People are told of a time that goes back.
    if end.keeps() || state.standing.over.is_some() || message.timestamp < end.last_timestamp {
        return Ok(false);
    }
    if !has_looked && end.may_have_receipts() {
        return Err(connection.clone());
    }
    let Some(short) = ShortMessage::encode(end.spec.id, end.next_sequence(), copy, message) else {
        return Ok(false);
    };
    let bytes = short.frame_len();
    let is_written = short.payload().len() < memory.lends_from()
        && end.room(bytes) == Room::Free
        && connection.writer().write_at_once(short.front(), short.payload(), memory);
    if is_written {
        end.last_timestamp = end.last_timestamp.max(message.timestamp);
        end.count(bytes);
    }
    Ok(is_written)
}

/// The next message of a receiving end, if it comes the short way, now or (if the caller has time) in a moment.
#[inline]
pub fn receive(runtime: &Runtime, end: usize, is_without_timeout: bool) -> Option<Message> {
    take(runtime, end, is_without_timeout, |state, message| {
        state.conduits.inlets[end].handed += 1;
        message
    })
}

/// Has the next message of a receiving end wait for the program, if it comes the short way, now or in a moment.
pub fn prepare(runtime: &Runtime, end: usize) {
    take(runtime, end, true, |state, message| state.conduits.inlets[end].put(message));
}

/// Takes the next message of a receiving end, if it comes the short way, and hands it to `then` before anybody else sees the state.
#[inline]
fn take<R>(
    runtime: &Runtime,
    end: usize,
    is_without_timeout: bool,
    then: impl FnOnce(&mut State, Message) -> R,
) -> Option<R> {
    runtime.note_caller();
    let seen = runtime.attention.load(Ordering::Acquire);
    let connection = comes_by(&runtime.state(), end)?.clone();
    let glance = connection.memory()?.glance()?;
    let comes =
        glance.has_news() || (is_without_timeout && runtime.spin.is_worth_a_glance() && watch(runtime, glance, seen));
    if !comes {
        return None;
    }
    let (taken, work) = connection.take_short(|frame| {
        let mut state = runtime.state();
        let message = accept(&mut state, end, frame)?;
        Some((then(&mut state, message), state.release()))
    })?;
    work.into_iter().for_each(|work: DeferredWork| runtime.finish(work));
    Some(taken)
}

/// The connection by which the next message of a receiving end may come the short way.
fn comes_by(state: &State, end: usize) -> Option<&Arc<Connection>> {
    let inlet = &state.conduits.inlets[end];
    if state.standing.over.is_some() || inlet.has_filters() || inlet.is_ready() {
        return None;
    }
    state.conduits.receiving[end].straight_way().filter(|connection| connection.is_memory())
}

/// Accepts a message that has come the short way; `None`: it is for another conduit, or not the next one.
///
/// Since the state was looked at, another thread of the program may have read messages in front of this one, which wait now.
fn accept(state: &mut State, end: usize, frame: MessageFrame) -> Option<Message> {
    comes_by(state, end)?;
    let receiving = &mut state.conduits.receiving[end];
    if frame.conduit != receiving.spec.id || !receiving.take_straight(frame.sequence, frame.frame_len) {
        return None;
    }
    if !state.faults.is_empty() {
        state.faults.remove(&receiving.spec.sender);
    }
    state.return_receipt(end, false);
    Some(frame.message)
}

/// Whether something comes in a moment, before anything else happens.
#[inline]
fn watch(runtime: &Runtime, glance: &Glance, seen: u64) -> bool {
    for count in 1..=GLANCES {
        if glance.has_news() {
            return true;
        }
        if count % GLANCES_AT_A_TIME == 0 {
            if runtime.attention.load(Ordering::Acquire) != seen {
                return false;
            }
            std::hint::spin_loop();
        }
    }
    false
}
