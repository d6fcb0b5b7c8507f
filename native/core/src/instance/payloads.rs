//! Where a payload lies while it travels.
//!
//! | payload | lies in | decided by |
//! |---|---|---|
//! | of a loan | the loan's block of the arena, which other processes of this host can read | [`Instance::hand_over`], before all others |
//! | for several receivers | one block of the arena for all, if a connection lends payloads of its length | [`Instance::for_all`] |
//! | for several receivers, one of which may have to be sent it again | one copy in memory of the instance | [`Instance::for_all`] |
//! | for a filter | memory of the instance, since a filter may hold it back | [`Instance::owned`] |
//! | that waits for its connection, or until its receiver has it | the arena if that connection may lend it, else memory of the instance | [`kept`] |
//! | any other | the caller's memory until it is written or lent; what is not written when the call returns is copied | [`Connection::flush`] |
//!
//! [`Connection::flush`]: xmml_wire::connection::Connection::flush

use xmml_wire::buffer::{Buffer, BufferPool, OutOfMemory};
use xmml_wire::data::Data;
use xmml_wire::error::{Error, Result};
use xmml_wire::frame::EncodedMessage;
use xmml_wire::message::Message;
use xmml_wire::methods::shm::stream::LENT_FROM;
use xmml_wire::shared_memory::arena::ArenaBlock;

use crate::runtime::state::State;
use crate::runtime::Runtime;

use super::{Backend, Instance};

impl Instance {
    /// A message that goes to several ends. What is shared is lent by connections that come up later, too.
    pub(super) fn for_all(&self, ends: &[usize], message: Message, is_cut: bool) -> Result<Message> {
        let message = self.shared(ends, message, is_cut);
        match !is_cut && self.is_kept_for_one_of(ends) {
            true => self.owned(&message),
            false => Ok(message),
        }
    }

    /// A message whose large payloads all receivers read from one block, if a connection of one of these ends lends them.
    pub(super) fn shared(&self, ends: &[usize], message: Message, is_cut: bool) -> Message {
        let from = self.lent_from(ends).filter(|_| !is_cut);
        Message { data: self.share(message.data, from.unwrap_or(usize::MAX)), ..message }
    }

    /// A message that may stay here after the send has returned.
    pub(super) fn owned(&self, message: &Message) -> Result<Message> {
        let data = message.data.clone().owned(&self.pool()).map_err(no_memory)?;
        Ok(Message { data, ..*message })
    }

    /// Memory of the instance.
    pub(super) fn pool(&self) -> BufferPool {
        match &self.backend {
            Backend::Run { runtime } => runtime.memory.pool.clone(),
            Backend::Alone(_) => BufferPool::new(),
        }
    }

    /// Whether one of these ends keeps what it sends until the receiver has it.
    fn is_kept_for_one_of(&self, ends: &[usize]) -> bool {
        self.with_state(|state| ends.iter().any(|end| state.conduits.sending[*end].keeps()))
    }

    /// The least length from which on one of these ends lends payloads; `None`: none of them lends any.
    fn lent_from(&self, ends: &[usize]) -> Option<usize> {
        self.with_state(|state| {
            let connections = ends
                .iter()
                .filter_map(|end| state.connections.links[state.conduits.sending[*end].link].connection.as_ref());
            connections.map(|connection| connection.lends_from()).min().filter(|from| *from < usize::MAX)
        })
    }

    /// One copy in the arena of each payload of at least `from` bytes. All receivers read it.
    fn share(&self, data: Data, from: usize) -> Data {
        let Backend::Run { runtime } = &self.backend else { return data };
        let mut share = |buffer: Buffer| {
            let shared = match buffer.owner::<ArenaBlock>() {
                Some(_) => buffer,
                None if buffer.len() < from => return buffer,
                None => match runtime.memory.arena.copy_of(std::slice::from_ref(&buffer)) {
                    Ok(copy) => copy,
                    Err(_) => return buffer, // then each gets a copy of its own
                },
            };
            if let Some((block, _)) = shared.owner::<ArenaBlock>() {
                block.share();
            }
            shared
        };
        data.with_memory(&mut share)
    }
}

/// A frame whose payload outlives the call, if the sending end keeps it; else the frame as it is.
pub(super) fn kept(frame: EncodedMessage, state: &State, end: usize, runtime: &Runtime) -> Result<EncodedMessage> {
    let sending = &state.conduits.sending[end];
    if !sending.keeps() {
        return Ok(frame);
    }
    let link = &state.connections.links[sending.link];
    let may_be_lent = link.connection.is_none() && link.chosen.is_none() && link.allows("shm");
    let memory = &runtime.memory;
    let copy_of = |piece: &Buffer| {
        if may_be_lent && piece.len() >= LENT_FROM {
            if let Ok(copy) = memory.arena.copy_of(std::slice::from_ref(piece)) {
                return Ok(copy);
            }
        }
        memory.pool.copy_of(piece)
    };
    frame.owned_by(copy_of).map_err(no_memory)
}

pub(super) fn no_memory(none: OutOfMemory) -> Error {
    Error::Io { action: "keep a message until it is sent".into(), cause: none.to_string() }
}
