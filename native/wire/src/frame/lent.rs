//! A message whose payload lies in memory that both sides see, and its return.

use smallvec::smallvec;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::frame::descriptor::{self, Layout};
use crate::frame::message::{Prefix, PREFIX};
use crate::frame::{framed, EncodedMessage, FrameError, Head, Kind, MessageFrame, Reader, HEAD};
use crate::message::Message;

/// A message that says where its payload lies instead of carrying it.
///
/// The body is that of a message; where the payload would stand: u64 region, u64 offset in it, u64 length, u64 generation. The receiver
/// may read the memory until it writes the generation into the table of returns (`methods/shm/returns.rs`); no frame is sent for that.
#[derive(Clone, Debug, PartialEq)]
pub struct Lent {
    /// On which conduit.
    pub conduit: u32,
    /// Its number on this conduit, from 1.
    pub sequence: u64,
    /// Which copy of a multiplied instance sent it.
    pub sender_copy: Option<u32>,
    /// Model time, in seconds.
    pub timestamp: f64,
    /// Model time of the next message.
    pub next_timestamp: Option<f64>,
    /// What the payload means.
    pub descriptor: Vec<u8>,
    /// Which shared memory; agreed upon when it was passed.
    pub region: u64,
    /// Where in it the payload begins.
    pub offset: u64,
    /// Bytes of payload.
    pub length: u64,
    /// Which loan it is: a count of the loans of the connection, the slot in the table of returns, and whether several read it.
    pub generation: u64,
}

impl Lent {
    /// The frame.
    pub fn encode(&self) -> EncodedMessage {
        let prefix = Prefix {
            timestamp: self.timestamp,
            next_timestamp: self.next_timestamp,
            descriptor_len: self.descriptor.len() as u32,
            copy: self.sender_copy,
        };
        let numbers = [self.region, self.offset, self.length, self.generation];
        let place = numbers.map(u64::to_le_bytes).concat();
        prefix.encode(Kind::Lent, self.conduit, self.sequence, &self.descriptor, smallvec![Buffer::copy_of(&place)])
    }

    pub(crate) fn decode(
        head: &Head,
        prefix: Prefix,
        descriptor: &[u8],
        place: &[u8],
    ) -> std::result::Result<Lent, FrameError> {
        let mut reader = Reader::new(place);
        let (region, offset, length, generation) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        reader.end()?;
        Ok(Lent {
            conduit: head.conduit,
            sequence: head.sequence,
            sender_copy: prefix.copy,
            timestamp: prefix.timestamp,
            next_timestamp: prefix.next_timestamp,
            descriptor: descriptor.to_vec(),
            region,
            offset,
            length,
            generation,
        })
    }

    /// The descriptor and payload for lending `message`: what a sender writes into the region.
    pub fn layout(message: &Message) -> Result<Layout> {
        Layout::of(&message.data)
    }

    /// The message, once `payload` (the place in the region) is at hand.
    pub fn message_frame(&self, payload: &Buffer) -> std::result::Result<MessageFrame, FrameError> {
        let message = Message {
            timestamp: self.timestamp,
            next_timestamp: self.next_timestamp,
            data: descriptor::decode(&self.descriptor, payload)?,
        };
        // As long as if the payload had come with it: that is what the sender counts.
        let frame_len = (HEAD + PREFIX + self.descriptor.len()) as u64 + self.length;
        let Lent { conduit, sequence, sender_copy, .. } = *self;
        Ok(MessageFrame { conduit, sequence, sender_copy, frame_len, checked: None, message })
    }
}

/// Says that a lent payload is not read any more. Body: u64 region, u64 offset, u64 generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// On which conduit it was lent.
    pub conduit: u32,
    /// Number of the message that lent it.
    pub sequence: u64,
    /// Which shared memory.
    pub region: u64,
    /// Where in it the payload begins.
    pub offset: u64,
    /// The generation it was lent with.
    pub generation: u64,
}

impl Returned {
    /// The frame.
    pub fn encode(&self) -> Vec<u8> {
        let body = [self.region, self.offset, self.generation].map(u64::to_le_bytes).concat();
        framed(Kind::Returned, 0, self.conduit, self.sequence, &body)
    }

    pub(crate) fn decode(head: &Head, body: &[u8]) -> std::result::Result<Returned, FrameError> {
        let mut reader = Reader::new(body);
        let (region, offset, generation) = (reader.u64()?, reader.u64()?, reader.u64()?);
        reader.end()?;
        Ok(Returned { conduit: head.conduit, sequence: head.sequence, region, offset, generation })
    }
}
