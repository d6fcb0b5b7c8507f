//! What the two ends of a path say to each other on every stream, after the handshake: encoding and decoding, without a socket.
//!
//! A frame is a head of 8 bytes and a body; all numbers are little-endian.
//!
//! | offset | bytes | head |
//! |---|---|---|
//! | 0 | 1 | kind |
//! | 1 | 1 | lane: 0 control, 1 bulk; 0 where none is meant |
//! | 2 | 2 | flags; only a chunk has some |
//! | 4 | 4 | length of the body |
//!
//! The messages of a lane lie one behind the other in a space of *positions*: each takes [`OVERHEAD`] positions and one for each of its
//! bytes. Receipts and credit speak of positions, so that they hold whatever way a message was cut and whichever streams took its pieces.

use std::ops::Range;

use xmml_wire::frame::{descriptor_error, FrameError, Reader};

/// Bytes of the head of a frame.
pub const HEAD: usize = 8;

/// Bytes of a chunk in front of its data, the head included.
pub const CHUNK_HEAD: usize = 32;

/// Of a message that is protected already so many bytes are encrypted all the same on an encrypted stream: what it begins with is for
/// those who pass it on.
pub const CLOSED: u64 = 16;

/// Positions that a message takes besides those of its bytes; the first chunk of a message brings them.
pub const OVERHEAD: u64 = 64;

/// Chunks begin at a multiple of this within their message, and end at one or with the message: what a receiver touches is paid for.
pub const GRAIN: u64 = 4096;

/// Longest chunk, in bytes of data.
pub const MAX_CHUNK: u64 = 16 << 20;

/// Ranges that one receipt names at most.
pub const MAX_RANGES: usize = 512;

/// Longest reason of a refusal, in bytes.
pub const MAX_REASON: usize = 400;

/// Longest body of anything but a chunk.
/// The flag of a chunk whose bytes are not encrypted by the stream, but for the first [`CLOSED`] of the message.
const OPEN: u16 = 1 << 8;

const MAX_BODY: usize = 64 + 2 * (32 + 16 * MAX_RANGES);

/// One of the two orders in which messages travel. Control goes out first, so that it never waits behind bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lane {
    /// Small and urgent.
    Control = 0,
    /// Everything else.
    Bulk = 1,
}

impl Lane {
    /// Both, the more urgent first.
    pub const ALL: [Lane; 2] = [Lane::Control, Lane::Bulk];

    fn from_code(code: u8) -> Result<Lane, FrameError> {
        match code {
            0 => Ok(Lane::Control),
            1 => Ok(Lane::Bulk),
            _ => Err(descriptor_error(format!("lane {code}"))),
        }
    }
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Purpose {
    /// For the program at the other end.
    Data = 0,
    /// The other end has come to a barrier.
    Barrier = 1,
    /// Nothing follows on this lane.
    End = 2,
}

impl Purpose {
    fn from_code(code: u16) -> Result<Purpose, FrameError> {
        match code {
            0 => Ok(Purpose::Data),
            1 => Ok(Purpose::Barrier),
            2 => Ok(Purpose::End),
            _ => Err(descriptor_error(format!("a chunk with flags {code:#06x}"))),
        }
    }
}

/// Where a piece of a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// The lane of its message.
    pub lane: Lane,
    /// What its message is for.
    pub purpose: Purpose,
    /// Bytes of data in this chunk.
    pub length: u32,
    /// Position of its message on the lane.
    pub start: u64,
    /// Bytes of its message.
    pub total: u64,
    /// Where in its message the data begins.
    pub offset: u64,
    /// Whether its message is protected already, so that an encrypted stream need not encrypt the chunk ([`ChunkHead::closed`]).
    pub is_open: bool,
}

impl ChunkHead {
    /// The positions that this chunk covers when the first `bytes` of its data are there.
    pub fn covers(&self, bytes: u64) -> Range<u64> {
        let data = self.start + OVERHEAD + self.offset;
        match self.offset {
            0 => self.start..data + bytes,
            _ => data..data + bytes,
        }
    }

    /// Of its data so many bytes, the first, belong to what an encrypted stream encrypts.
    pub fn closed(&self) -> u64 {
        match (self.is_open, self.offset) {
            (false, _) => u64::from(self.length),
            (true, 0) => CLOSED.min(u64::from(self.length)),
            (true, _) => 0,
        }
    }

    /// The position behind its message.
    pub fn end(&self) -> u64 {
        self.start + OVERHEAD + self.total
    }

    /// The first [`CHUNK_HEAD`] bytes of the frame.
    pub fn encode(&self) -> [u8; CHUNK_HEAD] {
        let mut bytes = [0; CHUNK_HEAD];
        bytes[..HEAD].copy_from_slice(&head(
            CHUNK,
            self.lane as u8,
            self.purpose as u16 | if self.is_open { OPEN } else { 0 },
            CHUNK_HEAD - HEAD + self.length as usize,
        ));
        bytes[8..16].copy_from_slice(&self.start.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.total.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    fn decode(head: &Head, numbers: &[u8]) -> Result<ChunkHead, FrameError> {
        let mut reader = Reader::new(numbers);
        let (start, total, offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let length = head.length - (CHUNK_HEAD - HEAD) as u32;
        let chunk = ChunkHead {
            lane: Lane::from_code(head.lane)?,
            purpose: Purpose::from_code(head.flags & !OPEN)?,
            length,
            start,
            total,
            offset,
            is_open: head.flags & OPEN != 0,
        };
        chunk.check()?;
        Ok(chunk)
    }

    fn check(&self) -> Result<(), FrameError> {
        let end = self.offset.checked_add(u64::from(self.length)).filter(|&end| end <= self.total);
        let fits = self.start.checked_add(self.total).and_then(|at| at.checked_add(2 * OVERHEAD));
        let (Some(end), Some(_)) = (end, fits) else {
            return Err(descriptor_error("a chunk beyond the end of its message"));
        };
        if u64::from(self.length) > MAX_CHUNK {
            return Err(descriptor_error(format!("a chunk of {} bytes; at most {MAX_CHUNK} are allowed", self.length)));
        }
        if self.offset % GRAIN != 0 || (end % GRAIN != 0 && end != self.total) || (self.length == 0 && self.offset != 0)
        {
            return Err(descriptor_error(format!("a chunk of bytes {} to {end}: not cut at {GRAIN}", self.offset)));
        }
        if self.purpose != Purpose::Data && self.total != 0 {
            return Err(descriptor_error("a barrier or an end with data"));
        }
        if self.is_open && self.closed() == u64::from(self.length) {
            return Err(descriptor_error("an open chunk with nothing that is open"));
        }
        Ok(())
    }
}

/// What has come on one lane, and how far the other side may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The lane.
    pub lane: Lane,
    /// Everything before this position has come.
    pub all_before: u64,
    /// Everything before this position is where the messages go to. `None`: they go no further, and that is what has come; a program that
    /// passes them on says how much of it has come through.
    pub delivered: Option<u64>,
    /// Nothing at or behind this position may be sent yet.
    pub credit: u64,
    /// What has come besides, in ascending order; the first ranges if there are too many.
    pub besides: Vec<Range<u64>>,
}

impl Receipt {
    fn encode_body(&self, into: &mut Vec<u8>) {
        let count = self.besides.len().min(MAX_RANGES);
        into.extend_from_slice(&self.all_before.to_le_bytes());
        into.extend_from_slice(&self.credit.to_le_bytes());
        into.extend_from_slice(&(count as u32).to_le_bytes());
        into.extend_from_slice(&u32::from(self.delivered.is_some()).to_le_bytes());
        self.delivered.iter().for_each(|before| into.extend_from_slice(&before.to_le_bytes()));
        for range in &self.besides[..count] {
            into.extend_from_slice(&range.start.to_le_bytes());
            into.extend_from_slice(&range.end.to_le_bytes());
        }
    }

    fn decode_body(lane: Lane, reader: &mut Reader<'_>) -> Result<Receipt, FrameError> {
        let (all_before, credit, count) = (reader.u64()?, reader.u64()?, reader.u32()? as usize);
        let delivered = match reader.u32()? {
            0 => None,
            1 => Some(reader.u64()?),
            _ => return Err(descriptor_error("a truth value that is neither 0 nor 1")),
        };
        if count > MAX_RANGES {
            return Err(descriptor_error(format!("a receipt of {count} ranges; at most {MAX_RANGES} are allowed")));
        }
        if delivered.is_some_and(|delivered| delivered > all_before) {
            return Err(descriptor_error("a receipt by which more is delivered than has come"));
        }
        let mut besides: Vec<Range<u64>> = Vec::with_capacity(count);
        for _ in 0..count {
            let range = reader.u64()?..reader.u64()?;
            let behind = besides.last().map_or(all_before, |last| last.end);
            if range.is_empty() || range.start <= behind {
                return Err(descriptor_error("a receipt whose ranges are not in order"));
            }
            besides.push(range);
        }
        Ok(Receipt { lane, all_before, delivered, credit, besides })
    }
}

/// Names a path between two ends; random.
pub type PathId = [u8; 16];

/// What the two ends of a path say to each other. Every variant is one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFrame {
    /// The first on a stream, from the side that dialled: the stream belongs to path `id` as number `stream`. `resumes` if the path
    /// has stood before. Body: id, u32 stream, u8 resumes, 3 zeros, receipts of both lanes (what has come at this end).
    Attach {
        /// The path.
        id: PathId,
        /// Which of its streams; one that is there already under this number is replaced.
        stream: u32,
        /// Whether an earlier stream has been answered.
        resumes: bool,
        /// What has come at the dialling end: control, bulk.
        have: [Receipt; 2],
    },
    /// Answers an attach. Body: receipts of both lanes (what has come at the listening end).
    Attached {
        /// What has come at the listening end: control, bulk.
        have: [Receipt; 2],
    },
    /// A piece of a message. Body: u64 position of the message, u64 bytes of the message, u64 offset of the piece, data. The flags of
    /// the head say what the message is for: 0 data, 1 barrier, 2 end of the lane.
    Chunk(ChunkHead),
    /// What has come on a lane, and credit. Body: u64 all before, u64 credit, u32 number of ranges, u32 1 if u64 "delivered before"
    /// follows, else 0, then for each range u64 first, u64 behind the last.
    Receipt(Receipt),
    /// Nothing but a sign of life; no body.
    Alive,
    /// The sender of this puts nothing more on this stream, which is taken out of use; answered by the same, then closed. No body.
    Retire,
    /// How many streams an end would like the path to have; the dialling end opens them, and says this whenever a stream is attached.
    /// Body: u32, the highest bit for `is_fixed`.
    Streams {
        /// So many; 0: the end that says this measures how many pay, and has nothing to say yet.
        count: u32,
        /// The program has asked for this number; what was measured at the other end does not change it.
        is_fixed: bool,
    },
    /// What the link carries, as far as this end knows; said whenever a stream is attached, and when that changes. Body: u64.
    Carries {
        /// Bytes per second; 0: this end does not know.
        bandwidth: u64,
    },
    /// The path has ended at this end: everything has come, and everything it sent was receipted. No body.
    Bye,
    /// The path or the stream is not taken, or given up, and why. Body: u16 code, u16 length, reason in UTF-8.
    Refused {
        /// Whether it is the path that is unknown here ([`UNKNOWN_PATH`]), or something else.
        code: u16,
        /// For people.
        reason: String,
    },
}

/// Code of a refusal: no such path here (any more).
pub const UNKNOWN_PATH: u16 = 1;

/// Code of a refusal: the other end gives the path up.
pub const GIVEN_UP: u16 = 2;

/// Code of a refusal: this stream is not needed or not allowed; the path goes on.
pub const STREAM: u16 = 3;

/// In a number of streams: the program has asked for it.
const FIXED: u32 = 1 << 31;

const ATTACH: u8 = 1;
const ATTACHED: u8 = 2;
const CHUNK: u8 = 3;
const RECEIPT: u8 = 4;
const ALIVE: u8 = 5;
const RETIRE: u8 = 6;
const STREAMS: u8 = 7;
const BYE: u8 = 8;
const REFUSED: u8 = 9;
const CARRIES: u8 = 10;

fn head(kind: u8, lane: u8, flags: u16, length: usize) -> [u8; HEAD] {
    let mut bytes = [kind, lane, 0, 0, 0, 0, 0, 0];
    bytes[2..4].copy_from_slice(&flags.to_le_bytes());
    bytes[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    bytes
}

struct Head {
    kind: u8,
    lane: u8,
    flags: u16,
    length: u32,
}

impl PathFrame {
    /// The bytes; of a chunk those in front of its data.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let (kind, lane) = match self {
            PathFrame::Attach { id, stream, resumes, have } => {
                body.extend_from_slice(id);
                body.extend_from_slice(&stream.to_le_bytes());
                body.extend_from_slice(&[u8::from(*resumes), 0, 0, 0]);
                have.iter().for_each(|receipt| receipt.encode_body(&mut body));
                (ATTACH, 0)
            }
            PathFrame::Attached { have } => {
                have.iter().for_each(|receipt| receipt.encode_body(&mut body));
                (ATTACHED, 0)
            }
            PathFrame::Chunk(chunk) => return chunk.encode().to_vec(),
            PathFrame::Receipt(receipt) => {
                receipt.encode_body(&mut body);
                (RECEIPT, receipt.lane as u8)
            }
            PathFrame::Alive => (ALIVE, 0),
            PathFrame::Retire => (RETIRE, 0),
            PathFrame::Streams { count, is_fixed } => {
                let fixed = if *is_fixed { FIXED } else { 0 };
                body.extend_from_slice(&(count & !FIXED | fixed).to_le_bytes());
                (STREAMS, 0)
            }
            PathFrame::Carries { bandwidth } => {
                body.extend_from_slice(&bandwidth.to_le_bytes());
                (CARRIES, 0)
            }
            PathFrame::Bye => (BYE, 0),
            PathFrame::Refused { code, reason } => {
                let mut end = reason.len().min(MAX_REASON);
                while !reason.is_char_boundary(end) {
                    end -= 1;
                }
                body.extend_from_slice(&code.to_le_bytes());
                body.extend_from_slice(&(end as u16).to_le_bytes());
                body.extend_from_slice(&reason.as_bytes()[..end]);
                (REFUSED, 0)
            }
        };
        [&head(kind, lane, 0, body.len()), &body[..]].concat()
    }

    /// The frame at the front of `bytes` and how many bytes it takes (of a chunk those in front of its data); `None`: more bytes are
    /// needed.
    pub fn decode(bytes: &[u8]) -> Result<Option<(PathFrame, usize)>, FrameError> {
        let Some(front) = bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let mut reader = Reader::new(front);
        let head = Head { kind: reader.u8()?, lane: reader.u8()?, flags: reader.u16()?, length: reader.u32()? };
        let length = head.length as usize;
        if head.kind == CHUNK {
            if length < CHUNK_HEAD - HEAD {
                return Err(FrameError::TooShort);
            }
            let Some(numbers) = bytes.get(HEAD..CHUNK_HEAD) else {
                return Ok(None);
            };
            return Ok(Some((PathFrame::Chunk(ChunkHead::decode(&head, numbers)?), CHUNK_HEAD)));
        }
        if !(ATTACH..=CARRIES).contains(&head.kind) {
            return Err(FrameError::UnknownKind { kind: head.kind });
        }
        if head.flags != 0 || (head.lane != 0 && head.kind != RECEIPT) {
            return Err(descriptor_error("flags without a meaning"));
        }
        if length > MAX_BODY {
            return Err(descriptor_error(format!("a frame of {length} bytes; at most {MAX_BODY} are allowed")));
        }
        let Some(body) = bytes.get(HEAD..HEAD + length) else {
            return Ok(None);
        };
        let mut reader = Reader::new(body);
        let frame = PathFrame::decode_body(&head, &mut reader)?;
        reader.end()?;
        Ok(Some((frame, HEAD + length)))
    }

    fn decode_body(head: &Head, reader: &mut Reader<'_>) -> Result<PathFrame, FrameError> {
        Ok(match head.kind {
            ATTACH => {
                let (id, stream, resumes) = (reader.array()?, reader.u32()?, reader.u8()?);
                reader.zeros(3)?;
                if resumes > 1 {
                    return Err(descriptor_error("a truth value that is neither 0 nor 1"));
                }
                PathFrame::Attach { id, stream, resumes: resumes == 1, have: both(reader)? }
            }
            ATTACHED => PathFrame::Attached { have: both(reader)? },
            RECEIPT => PathFrame::Receipt(Receipt::decode_body(Lane::from_code(head.lane)?, reader)?),
            ALIVE => PathFrame::Alive,
            RETIRE => PathFrame::Retire,
            STREAMS => {
                let number = reader.u32()?;
                PathFrame::Streams { count: number & !FIXED, is_fixed: number & FIXED != 0 }
            }
            CARRIES => PathFrame::Carries { bandwidth: reader.u64()? },
            BYE => PathFrame::Bye,
            REFUSED => {
                let (code, reason) = (reader.u16()?, reader.text()?);
                if reason.len() > MAX_REASON {
                    return Err(descriptor_error(format!("a reason of {} bytes", reason.len())));
                }
                let reason = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                PathFrame::Refused { code, reason }
            }
            kind => return Err(FrameError::UnknownKind { kind }),
        })
    }
}

fn both(reader: &mut Reader<'_>) -> Result<[Receipt; 2], FrameError> {
    Ok([Receipt::decode_body(Lane::Control, reader)?, Receipt::decode_body(Lane::Bulk, reader)?])
}
