//! The body of a message, and of the two other kinds that are built like it: [`Block`] and [`Lent`].
//!
//! | offset in the frame | bytes | |
//! |---|---|---|
//! | 24 | 8 | f64 time stamp in seconds |
//! | 32 | 8 | f64 next time stamp; 0 without flag bit 0 |
//! | 40 | 4 | length of the descriptor, a multiple of 8 |
//! | 44 | 4 | index of the sending copy or rank, or how often an object of a queue was given before, or `ff ff ff ff` |
//! | 48 | | descriptor, then payload |
//!
//! With flag bit 1 the descriptor begins with checksums ([`check`]).
//!
//! [`Block`]: crate::frame::Block
//! [`Lent`]: crate::frame::Lent

use crate::buffer::{Buffer, BufferPool, OutOfMemory};
use crate::error::{Error, Result};
use crate::frame::check::{self, Algorithm, CHECKSUMS, HAS_CHECKSUM};
use crate::frame::descriptor::{self, Front, Layout, Pieces};
use crate::frame::{FrameError, Head, Kind, Reader, HEAD, NO_COPY};
use crate::message::Message;

/// Flag: there is a next time stamp.
pub const HAS_NEXT: u16 = 1;

/// Longest descriptor of a message.
pub const MAX_DESCRIPTOR: usize = 1 << 30;

/// Bytes between the head and the descriptor.
pub(crate) const PREFIX: usize = 24;

/// Payloads up to this size are copied behind the descriptor: one piece is written faster than two.
const INLINE_PAYLOAD: u64 = 1024;

/// A message as it is received.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageFrame {
    /// On which conduit.
    pub conduit: u32,
    /// Its number on this conduit, from 1.
    pub sequence: u64,
    /// Which copy of a multiplied instance sent it; of an object of a queue, how often it was given before to readers that died.
    pub sender_copy: Option<u32>,
    /// Bytes of the whole frame, as the sender counts them too.
    pub frame_len: u64,
    /// It had a checksum of this kind, which fitted.
    pub checked: Option<Algorithm>,
    /// What it carries.
    pub message: Message,
}

/// A message ready to be written: the bytes up to the payload, and the pieces of the payload, shared with the message.
#[derive(Clone, Debug)]
pub struct EncodedMessage {
    /// Head, time stamps, descriptor, and perhaps a short payload.
    pub head: Front,
    /// The payload, unless it stands behind the head already.
    pub payload: Pieces,
    frame_len: u64,
}

/// Encodes a message without copying arrays and bytes (except short ones).
pub fn encode_message(
    conduit: u32,
    sequence: u64,
    sender_copy: Option<u32>,
    message: &Message,
) -> Result<EncodedMessage> {
    encode_apart(conduit, sequence, sender_copy, message).map(EncodedMessage::in_few_pieces)
}

/// The same, also without copying short ones: for who writes the pieces at once.
pub fn encode_apart(
    conduit: u32,
    sequence: u64,
    sender_copy: Option<u32>,
    message: &Message,
) -> Result<EncodedMessage> {
    let layout = Layout::behind(HEAD + PREFIX, &message.data)?;
    let descriptor_len = layout.descriptor.len() - HEAD - PREFIX;
    if descriptor_len > MAX_DESCRIPTOR {
        let problem =
            "this cannot be sent: its structure alone takes more than 1 GiB; send arrays instead of lists of numbers";
        return Err(Error::Usage { problem: problem.into() });
    }
    let prefix = Prefix {
        timestamp: message.timestamp,
        next_timestamp: message.next_timestamp,
        descriptor_len: descriptor_len as u32,
        copy: sender_copy,
    };
    Ok(prefix.complete(Kind::Message, conduit, sequence, layout.descriptor, layout.payload))
}

impl EncodedMessage {
    /// Bytes of the whole frame.
    pub fn frame_len(&self) -> u64 {
        self.frame_len
    }

    /// The frame as slices to be written one after the other.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.head[..]).chain(self.payload.iter().map(|piece| &piece[..]))
    }

    /// The same message for another conduit (an out port with several receivers encodes once); shares the payload.
    pub fn readdressed(&self, conduit: u32, sequence: u64, sender_copy: Option<u32>) -> EncodedMessage {
        let mut other = self.clone();
        other.head[12..16].copy_from_slice(&conduit.to_le_bytes());
        other.head[16..24].copy_from_slice(&sequence.to_le_bytes());
        other.head[44..48].copy_from_slice(&sender_copy.unwrap_or(NO_COPY).to_le_bytes());
        other.seal();
        other
    }

    /// The same message with another sequence number.
    pub fn numbered(mut self, sequence: u64) -> EncodedMessage {
        self.number(sequence);
        self
    }

    /// Gives it another sequence number.
    pub fn number(&mut self, sequence: u64) {
        self.head[16..24].copy_from_slice(&sequence.to_le_bytes());
        self.seal();
    }

    /// The same message with a short payload behind the head.
    pub fn in_few_pieces(mut self) -> EncodedMessage {
        let payload_len = self.frame_len - self.head.len() as u64;
        if !self.payload.is_empty() && payload_len <= INLINE_PAYLOAD {
            self.head.reserve_exact(payload_len as usize);
            self.payload.drain(..).for_each(|piece| self.head.extend_from_slice(&piece));
        }
        self
    }

    /// The same message with checksums, by which the receiver finds out whether it was changed on its way.
    pub fn checked(mut self, algorithm: Algorithm) -> EncodedMessage {
        if self.is_checked() {
            return self;
        }
        let body = HEAD + PREFIX;
        let pieces = std::iter::once(&self.head[body..]).chain(self.payload.iter().map(|piece| &piece[..]));
        let checksums = check::checksums(algorithm, pieces);
        self.head.insert_from_slice(body, &checksums);
        self.frame_len += CHECKSUMS as u64;
        let descriptor_len = u32::from_le_bytes([self.head[40], self.head[41], self.head[42], self.head[43]]);
        self.head[0..8].copy_from_slice(&(self.frame_len - HEAD as u64).to_le_bytes());
        self.head[10] |= HAS_CHECKSUM as u8;
        self.head[40..44].copy_from_slice(&(descriptor_len + CHECKSUMS as u32).to_le_bytes());
        self.seal();
        self
    }

    /// Whether it has checksums. Then it must travel as it is, byte for byte.
    pub fn is_checked(&self) -> bool {
        u16::from_le_bytes([self.head[10], self.head[11]]) & HAS_CHECKSUM != 0
    }

    fn seal(&mut self) {
        if self.is_checked() {
            check::seal(&mut self.head);
        }
    }

    /// Copies what is lent by the caller, so that its memory may change after this.
    pub fn owned(self, pool: &BufferPool) -> std::result::Result<EncodedMessage, OutOfMemory> {
        self.owned_by(|piece| pool.copy_of(piece))
    }

    /// Replaces each lent piece of the payload by what `copy_of` makes of it.
    ///
    /// # Errors
    ///
    /// There is no memory for a copy.
    pub fn owned_by(
        mut self,
        copy_of: impl Fn(&Buffer) -> std::result::Result<Buffer, OutOfMemory>,
    ) -> std::result::Result<EncodedMessage, OutOfMemory> {
        for piece in self.payload.iter_mut().filter(|piece| piece.is_foreign()) {
            *piece = copy_of(piece)?;
        }
        Ok(self)
    }
}

/// What stands between the head and the descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prefix {
    pub timestamp: f64,
    pub next_timestamp: Option<f64>,
    pub descriptor_len: u32,
    pub copy: Option<u32>,
}

impl Prefix {
    pub fn encode(self, kind: Kind, conduit: u32, sequence: u64, descriptor: &[u8], payload: Pieces) -> EncodedMessage {
        let mut head = Front::from_slice(&[0; HEAD + PREFIX]);
        head.extend_from_slice(descriptor);
        self.complete(kind, conduit, sequence, head, payload).in_few_pieces()
    }

    /// Fills in what goes before the descriptor: `head` has room for it there.
    fn complete(self, kind: Kind, conduit: u32, sequence: u64, mut head: Front, payload: Pieces) -> EncodedMessage {
        let payload_len: u64 = payload.iter().map(|piece| piece.len() as u64).sum();
        let length = (head.len() - HEAD) as u64 + payload_len;
        let flags = if self.next_timestamp.is_some() { HAS_NEXT } else { 0 };
        head[..HEAD].copy_from_slice(&Head { length, kind, flags, conduit, sequence }.encode());
        let prefix = &mut head[HEAD..HEAD + PREFIX];
        prefix[0..8].copy_from_slice(&self.timestamp.to_le_bytes());
        prefix[8..16].copy_from_slice(&self.next_timestamp.unwrap_or(0.0).to_le_bytes());
        prefix[16..20].copy_from_slice(&self.descriptor_len.to_le_bytes());
        prefix[20..24].copy_from_slice(&self.copy.unwrap_or(NO_COPY).to_le_bytes());
        EncodedMessage { head, payload, frame_len: HEAD as u64 + length }
    }

    pub fn decode(head: &Head, bytes: &[u8]) -> std::result::Result<Prefix, FrameError> {
        let mut reader = Reader::new(bytes);
        let (timestamp, next) = (reader.f64()?, reader.f64()?);
        let (descriptor_len, copy) = (reader.u32()?, reader.u32()?);
        if descriptor_len % 8 != 0 {
            return Err(super::descriptor_error(format!("a length of {descriptor_len}")));
        }
        Ok(Prefix {
            timestamp,
            next_timestamp: (head.flags & HAS_NEXT != 0).then_some(next),
            descriptor_len,
            copy: (copy != NO_COPY).then_some(copy),
        })
    }
}

impl MessageFrame {
    pub(crate) fn decode(
        head: &Head,
        prefix: Prefix,
        descriptor: &[u8],
        payload: Buffer,
    ) -> std::result::Result<MessageFrame, FrameError> {
        let (descriptor, checked) = check::verified(head, descriptor, &payload)?;
        let data = descriptor::decode(descriptor, &payload)?;
        Ok(MessageFrame {
            conduit: head.conduit,
            sequence: head.sequence,
            sender_copy: prefix.copy,
            frame_len: HEAD as u64 + head.length,
            checked,
            message: Message { timestamp: prefix.timestamp, next_timestamp: prefix.next_timestamp, data },
        })
    }
}
