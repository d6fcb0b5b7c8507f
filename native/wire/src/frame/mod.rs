//! Every frame that passes between two processes of a run: encoding and decoding, without a socket.
//!
//! A frame is a head of 24 bytes and a body. All numbers are little-endian; `docs/protocol.md` shows each kind byte by byte.
//!
//! | offset | bytes | head |
//! |---|---|---|
//! | 0 | 8 | length of the body |
//! | 8 | 1 | kind ([`Kind`]) |
//! | 9 | 1 | version of the frame format: 1 |
//! | 10 | 2 | flags |
//! | 12 | 4 | conduit |
//! | 16 | 8 | sequence number |

pub mod block;
pub mod check;
pub mod decoder;
pub mod descriptor;
pub mod lent;
pub mod message;
mod reader;
pub mod refusal;
mod short;

use std::fmt;

use crate::buffer::OutOfMemory;
use crate::error::Error;

pub use block::Block;
pub use decoder::{Decoder, Limits};
pub use lent::{Lent, Returned};
pub use message::encode_apart;
pub use message::{encode_message, EncodedMessage, MessageFrame};
pub use reader::Reader;
pub use short::{short_message, ShortMessage};

/// Bytes of the head.
pub const HEAD: usize = 24;

/// The version of the frame format that this crate writes and reads.
pub const FRAME_VERSION: u8 = 1;

/// Says "no copy" where the index of a copy of a multiplied instance stands.
pub const NO_COPY: u32 = u32::MAX;

/// What a frame is; the discriminant is the code on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A message on a conduit.
    Message = 1,
    /// The sender sends nothing more on this conduit.
    End = 2,
    /// The receiver of this conduit has left; what is not received yet will never be.
    Gone = 3,
    /// The receiver has taken every message up to this sequence number.
    Receipt = 4,
    /// A MessagePack value ([`crate::control`]).
    Control = 5,
    /// From the receiver, first on every connection and after an end: "I have everything up to this sequence number, send what follows".
    Resume = 6,
    /// The conduit goes on by another connection: nothing more of it comes here.
    Leaves = 7,
    /// The conduit goes on by this connection, behind this sequence number.
    Continues = 8,
    /// Nothing more comes on this connection; the receiver closes it.
    Closes = 9,
    /// Nothing but that the sender of this is alive; sent where there was nothing else to send for a while.
    Alive = 10,
    /// Opens a connection; sent by the side that dialled.
    Hello = 16,
    /// Answers a hello: the listener's range of versions, its challenge and its proof.
    Challenge = 17,
    /// The dialler's proof.
    Proof = 18,
    /// The listener does not go on, and why.
    Refused = 19,
    /// One rank's part of an array that is distributed over ranks.
    Block = 33,
    /// A message whose payload lies in memory that both sides see.
    Lent = 34,
    /// A lent payload is not needed any more.
    Returned = 35,
}

impl Kind {
    /// The kind with this code, or `None`.
    pub const fn from_code(code: u8) -> Option<Kind> {
        Some(match code {
            1 => Kind::Message,
            2 => Kind::End,
            3 => Kind::Gone,
            4 => Kind::Receipt,
            5 => Kind::Control,
            6 => Kind::Resume,
            7 => Kind::Leaves,
            8 => Kind::Continues,
            9 => Kind::Closes,
            10 => Kind::Alive,
            16 => Kind::Hello,
            17 => Kind::Challenge,
            18 => Kind::Proof,
            19 => Kind::Refused,
            33 => Kind::Block,
            34 => Kind::Lent,
            35 => Kind::Returned,
            _ => return None,
        })
    }

    /// Flags that have a meaning for this kind; all others must be zero.
    const fn known_flags(self) -> u16 {
        match self {
            Kind::Message => message::HAS_NEXT | check::HAS_CHECKSUM,
            Kind::Block | Kind::Lent => message::HAS_NEXT,
            _ => 0,
        }
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes that follow the head.
    pub length: u64,
    /// What the frame is.
    pub kind: Kind,
    /// Meaning depends on the kind.
    pub flags: u16,
    /// The conduit; 0 where none is meant.
    pub conduit: u32,
    /// Number of the message on its conduit, from 1 (0: none).
    pub sequence: u64,
}

impl Head {
    /// The 24 bytes.
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[0..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[9] = FRAME_VERSION;
        bytes[10..12].copy_from_slice(&self.flags.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.conduit.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// Reads 24 bytes; says by cause what this crate does not know.
    pub fn decode(bytes: &[u8; HEAD]) -> Result<Head, FrameError> {
        let [l0, l1, l2, l3, l4, l5, l6, l7, kind, version, f0, f1, c0, c1, c2, c3, s0, s1, s2, s3, s4, s5, s6, s7] =
            *bytes;
        let length = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
        let flags = u16::from_le_bytes([f0, f1]);
        let conduit = u32::from_le_bytes([c0, c1, c2, c3]);
        let sequence = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        if version != FRAME_VERSION {
            return Err(FrameError::UnknownVersion { version });
        }
        let kind = Kind::from_code(kind).ok_or(FrameError::UnknownKind { kind })?;
        if flags & !kind.known_flags() != 0 {
            return Err(FrameError::UnknownFlags { kind, flags });
        }
        Ok(Head { length, kind, flags, conduit, sequence })
    }
}

/// A complete frame as it is received.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Frame {
    /// A message on a conduit.
    Message(MessageFrame),
    /// The sender sends nothing more; takes the sequence number after its last message. On a connection that can break the receiver answers
    /// with a resume.
    End { conduit: u32, sequence: u64 },
    /// The receiver has left, having taken everything up to `sequence`.
    Gone { conduit: u32, sequence: u64 },
    /// The receiver has taken everything up to `sequence`.
    Receipt { conduit: u32, sequence: u64 },
    /// A control message, to be decoded by [`crate::control`].
    Control(Vec<u8>),
    /// The receiver has everything up to `sequence` and wants what follows.
    Resume { conduit: u32, sequence: u64 },
    /// Nothing more of this conduit comes on this connection: it goes on by another.
    Leaves { conduit: u32 },
    /// What follows `sequence` comes on this connection; what came before may still be under way on another.
    Continues { conduit: u32, sequence: u64 },
    /// Nothing more comes on this connection.
    Closes,
    /// The other side is alive.
    Alive,
    /// One rank's part of a distributed array.
    Block(Block),
    /// A message whose payload stays where it is.
    Lent(Lent),
    /// A lent payload is not needed any more.
    Returned(Returned),
}

/// The bytes of an end of a conduit: `sequence` is one more than that of its last message.
pub fn encode_end(conduit: u32, sequence: u64) -> [u8; HEAD] {
    bare(Kind::End, conduit, sequence)
}

/// The bytes that say that the receiver has left, having taken everything up to `sequence`.
pub fn encode_gone(conduit: u32, sequence: u64) -> [u8; HEAD] {
    bare(Kind::Gone, conduit, sequence)
}

/// The bytes of a receipt for everything up to `sequence`.
pub fn encode_receipt(conduit: u32, sequence: u64) -> [u8; HEAD] {
    bare(Kind::Receipt, conduit, sequence)
}

/// The bytes that ask for everything after `sequence` to be sent (again).
pub fn encode_resume(conduit: u32, sequence: u64) -> [u8; HEAD] {
    bare(Kind::Resume, conduit, sequence)
}

/// The bytes that say that a conduit goes on by another connection.
pub fn encode_leaves(conduit: u32) -> [u8; HEAD] {
    bare(Kind::Leaves, conduit, 0)
}

/// The bytes that say that a conduit goes on by this connection, behind `sequence`.
pub fn encode_continues(conduit: u32, sequence: u64) -> [u8; HEAD] {
    bare(Kind::Continues, conduit, sequence)
}

/// The bytes that say that nothing follows on this connection.
pub fn encode_closes() -> [u8; HEAD] {
    bare(Kind::Closes, 0, 0)
}

/// The bytes that say nothing but that this side is alive.
pub fn encode_alive() -> [u8; HEAD] {
    bare(Kind::Alive, 0, 0)
}

/// A control frame around a MessagePack value.
pub fn encode_control(value: &[u8]) -> Vec<u8> {
    framed(Kind::Control, 0, 0, 0, value)
}

fn bare(kind: Kind, conduit: u32, sequence: u64) -> [u8; HEAD] {
    Head { length: 0, kind, flags: 0, conduit, sequence }.encode()
}

/// A frame around a body that is already there.
pub(crate) fn framed(kind: Kind, flags: u16, conduit: u32, sequence: u64, body: &[u8]) -> Vec<u8> {
    let head = Head { length: body.len() as u64, kind, flags, conduit, sequence };
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    bytes.extend_from_slice(&head.encode());
    bytes.extend_from_slice(body);
    bytes
}

/// Why bytes are not a frame of this protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum FrameError {
    /// The format has a version that this crate does not read.
    UnknownVersion { version: u8 },
    /// There is no such kind.
    UnknownKind { kind: u8 },
    /// Flags without a meaning are set.
    UnknownFlags { kind: Kind, flags: u16 },
    /// The kind has no place on this connection.
    Unexpected { kind: Kind },
    /// The body is longer than allowed.
    TooLong { kind: Kind, length: u64, limit: u64 },
    /// The body (or a part of it) ends too early.
    TooShort,
    /// Something is left over behind the body's contents.
    LeftOver { bytes: u64 },
    /// The connection ended inside a frame.
    Cut { missing: u64 },
    /// The descriptor says something impossible.
    Descriptor { problem: String },
    /// The other side refused the connection after all.
    Refused { reason: String },
    /// The checksum of a message says that it was changed on its way.
    Damaged { conduit: u32, sequence: u64 },
    /// The same, where not even the number of the message can be trusted.
    DamagedHead,
    /// The stream that carries the frames found something impossible.
    Stream { problem: String },
    /// A text is not UTF-8.
    NotText,
    /// There is no memory for the payload.
    NoMemory { bytes: u64 },
}

impl std::error::Error for FrameError {}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::UnknownVersion { version } => {
                write!(f, "a frame of format {version}; this side reads format {FRAME_VERSION}")
            }
            FrameError::UnknownKind { kind } => write!(f, "a frame of unknown kind {kind}"),
            FrameError::UnknownFlags { kind, flags } => {
                write!(f, "a {kind:?} frame with unknown flags {flags:#06x}")
            }
            FrameError::Unexpected { kind } => write!(f, "a {kind:?} frame where none belongs"),
            FrameError::TooLong { kind, length, limit } => {
                write!(f, "a {kind:?} frame of {length} bytes; at most {limit} are allowed")
            }
            FrameError::TooShort => f.write_str("a frame that ends before its contents"),
            FrameError::LeftOver { bytes } => write!(f, "a frame with {bytes} bytes too many"),
            FrameError::Cut { missing } => {
                write!(f, "the connection ended inside a frame, at least {missing} bytes before its end")
            }
            FrameError::Descriptor { problem } => {
                write!(f, "a message with an impossible descriptor: {problem}")
            }
            FrameError::Refused { reason } => write!(f, "it refused: {reason}"),
            FrameError::Damaged { conduit, sequence } => {
                write!(f, "message {sequence} on conduit {conduit} was changed on its way: its checksum does not fit")
            }
            FrameError::DamagedHead => {
                f.write_str("a message was changed on its way: the checksum of its head does not fit")
            }
            FrameError::Stream { problem } => f.write_str(problem),
            FrameError::NotText => f.write_str("a text that is not UTF-8"),
            FrameError::NoMemory { bytes } => {
                write!(f, "there is no memory for a payload of {bytes} bytes")
            }
        }
    }
}

impl FrameError {
    /// This as an error of an instance, which knows who sent the bytes.
    pub fn from_peer(self, peer: &str) -> Error {
        Error::Protocol { peer: peer.into(), problem: self.to_string() }
    }
}

impl From<OutOfMemory> for FrameError {
    fn from(none: OutOfMemory) -> FrameError {
        FrameError::NoMemory { bytes: none.bytes as u64 }
    }
}

/// The error of a descriptor that is wrong in this way.
pub fn descriptor_error(problem: impl Into<String>) -> FrameError {
    FrameError::Descriptor { problem: problem.into() }
}

/// Appends a text with its length in front as u16; longer ones are cut at a character.
pub(crate) fn push_text(bytes: &mut Vec<u8>, text: &str) {
    let mut len = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    bytes.extend_from_slice(&(len as u16).to_le_bytes());
    bytes.extend_from_slice(&text.as_bytes()[..len]);
}

/// How many bytes fill `len` up to a multiple of 8.
pub(crate) const fn padding(len: usize) -> usize {
    len.wrapping_neg() % 8
}
