//! Frames from a stream of bytes that arrives in pieces.
//!
//! The decoder says where the next bytes belong, so that the payload of a large message is read straight into the block it stays
//! in. Short frames are read many at a time into a small staging area and copied out of it. That area grows with what comes: a run
//! may have thousands of connections, most of which are silent.

use crate::buffer::{Buffer, BufferMut, BufferPool};
use crate::frame::check::{is_guarded, CHECKSUMS};
use crate::frame::message::{Prefix, MAX_DESCRIPTOR, PREFIX};
use crate::frame::{Block, Frame, FrameError, Head, Kind, Lent, MessageFrame, Returned, HEAD};

/// Longest body of a control frame, in bytes. It is allocated as the bytes come in.
pub const CONTROL_LIMIT: u64 = 16 << 20;

/// What a decoder accepts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest body of a message. Memory for it is spent as bytes arrive, not when they are announced.
    pub message: u64,
    /// Longest descriptor of a message.
    pub descriptor: u32,
    /// Longest body of a control frame, and every other kind.
    pub control: u64,
    /// How much is read ahead at most; frames up to this size pass through the staging area.
    pub staging: usize,
}

/// How much is read ahead at first.
const FIRST_STAGING: usize = 1024;

/// The least that the staging area may be: what is looked at of a frame at a time must fit.
const LEAST_STAGING: usize = 2 * (HEAD + PREFIX + CHECKSUMS);

impl Default for Limits {
    fn default() -> Limits {
        Limits { message: 1 << 40, descriptor: MAX_DESCRIPTOR as u32, control: CONTROL_LIMIT, staging: 16 * 1024 }
    }
}

/// Turns bytes into frames: read into [`space`](Decoder::space), tell [`filled`](Decoder::filled), take every
/// [`next`](Decoder::next_frame) until there is none.
#[derive(Debug)]
pub struct Decoder {
    pool: BufferPool,
    limits: Limits,
    staging: Vec<u8>,
    /// What is read but not used lies in `staging[start..end]`.
    start: usize,
    end: usize,
    state: State,
    /// For whoever collects frames: a list that keeps its memory.
    pub scratch: Vec<Frame>,
}

/// What is complete of a frame that does not fit into the staging area.
#[derive(Debug)]
enum State {
    /// Nothing; the next frame begins at the front of the staging area.
    Idle,
    /// The head of a message.
    Prefix(Head),
    /// Also the prefix, and a part of the descriptor.
    Descriptor(Head, Prefix, Vec<u8>),
    /// Also the descriptor, and so many bytes of the payload.
    Payload(Head, Prefix, Vec<u8>, BufferMut, usize),
    /// The head of another kind, and a part of the body.
    Body(Head, Vec<u8>),
    /// The bytes were not a frame; nothing after that can be understood.
    Failed(FrameError),
}

impl Decoder {
    /// A decoder that puts large payloads into blocks of `pool`.
    pub fn new(pool: BufferPool, limits: Limits) -> Decoder {
        let limits = Limits { staging: limits.staging.max(LEAST_STAGING), ..limits };
        let staging = vec![0; limits.staging.min(FIRST_STAGING.max(LEAST_STAGING))];
        Decoder { pool, limits, staging, start: 0, end: 0, state: State::Idle, scratch: Vec::new() }
    }

    /// Where the next bytes from the stream belong; never empty after [`next_frame`](Decoder::next_frame) returned `None`.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if let State::Payload(_, _, _, payload, filled) = &mut self.state {
                return &mut payload[*filled..];
            }
        }
        if self.start > 0 {
            self.staging.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.staging[self.end..]
    }

    /// Says that `count` bytes were written to the front of [`space`](Decoder::space).
    pub fn filled(&mut self, count: usize) {
        match &mut self.state {
            State::Payload(_, _, _, payload, filled) if self.start == self.end => {
                *filled = (*filled + count).min(payload.len());
            }
            _ => {
                self.end = (self.end + count).min(self.staging.len());
                if self.end == self.staging.len() {
                    self.make_room_for(2 * self.staging.len()); // there may be more, and to ask again costs a system call
                }
            }
        }
    }

    /// Has the staging area hold `bytes`, as far as it may.
    fn make_room_for(&mut self, bytes: usize) {
        let wanted = bytes.next_power_of_two().min(self.limits.staging);
        if wanted > self.staging.len() {
            self.staging.resize(wanted, 0);
        }
    }

    /// Takes bytes that somebody else has read (such as what followed a handshake), and returns the frames they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let space = self.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
            while let Some(frame) = self.next_frame()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    /// Takes in bytes that somebody else has read, without looking for frames in them yet. They must fit into the staging area: what comes
    /// along with a handshake does.
    pub fn stage(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.make_room_for(self.end + bytes.len());
        let space = self.space();
        let Some(room) = space.get_mut(..bytes.len()) else {
            return Err(FrameError::LeftOver { bytes: bytes.len() as u64 });
        };
        room.copy_from_slice(bytes);
        self.filled(bytes.len());
        Ok(())
    }

    /// The next complete frame, or `None` if more bytes are needed. After an error it is the same error for ever.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        match self.advance() {
            Err(error) => {
                self.state = State::Failed(error.clone());
                Err(error)
            }
            progress => progress,
        }
    }

    /// Says that the stream has ended: an error if that is inside a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        let staged = (self.end - self.start) as u64;
        let missing = match &self.state {
            State::Failed(error) => return Err(error.clone()),
            State::Idle if staged == 0 => return Ok(()),
            State::Idle => self.frame_len().map_or(HEAD as u64, |len| len).saturating_sub(staged),
            State::Prefix(head) => head.length.saturating_sub(staged),
            State::Descriptor(head, _, descriptor) => {
                head.length.saturating_sub((PREFIX + descriptor.len()) as u64 + staged)
            }
            State::Payload(_, _, _, payload, filled) => (payload.len() - filled) as u64,
            State::Body(head, body) => head.length.saturating_sub(body.len() as u64 + staged),
        };
        Err(FrameError::Cut { missing: missing.max(1) })
    }

    /// Whether a frame has begun and is not complete.
    pub fn is_inside_frame(&self) -> bool {
        !matches!(self.state, State::Idle) || self.start < self.end
    }

    fn staged(&self) -> &[u8] {
        &self.staging[self.start..self.end]
    }

    /// Length of the frame at the front of the staging area, if its head is there and makes sense.
    fn frame_len(&self) -> Option<u64> {
        let head = Head::decode(self.staged().first_chunk()?).ok()?;
        Some(head.length.saturating_add(HEAD as u64))
    }

    fn advance(&mut self) -> Result<Option<Frame>, FrameError> {
        // Apart from the rest, which moves the state about: nearly every frame begins and ends here.
        if matches!(self.state, State::Idle) {
            let Some(head) = self.staged().first_chunk() else {
                return Ok(None);
            };
            let head = Head::decode(head)?;
            if !is_guarded(&head, self.staged())? {
                return Ok(None);
            }
            self.check(&head)?;
            let fits = head.length <= (self.limits.staging - HEAD) as u64;
            if fits && self.end - self.start < HEAD + head.length as usize {
                self.make_room_for(HEAD + head.length as usize);
                return Ok(None);
            }
            self.start += HEAD;
            if fits {
                let body = self.start..self.start + head.length as usize;
                self.start = body.end;
                return whole(&head, &self.staging[body], &self.pool).map(Some);
            }
            self.state = match carries_payload(head.kind) {
                true => State::Prefix(head),
                false => State::Body(head, Vec::new()),
            };
        }
        self.advance_in_parts()
    }

    /// Goes on with a frame that does not fit into the staging area.
    fn advance_in_parts(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            match std::mem::replace(&mut self.state, State::Idle) {
                State::Idle => unreachable!("a frame has begun"),
                State::Prefix(head) => {
                    let Some(prefix) = self.staged().get(..PREFIX) else {
                        self.state = State::Prefix(head);
                        return Ok(None);
                    };
                    let prefix = Prefix::decode(&head, prefix)?;
                    if prefix.descriptor_len > self.limits.descriptor {
                        let (kind, length) = (head.kind, u64::from(prefix.descriptor_len));
                        let limit = u64::from(self.limits.descriptor);
                        return Err(FrameError::TooLong { kind, length, limit });
                    }
                    payload_len(&head, &prefix)?;
                    self.start += PREFIX;
                    self.state = State::Descriptor(head, prefix, Vec::new());
                }
                State::Descriptor(head, prefix, mut descriptor) => {
                    if !self.collect(&mut descriptor, prefix.descriptor_len as usize) {
                        self.state = State::Descriptor(head, prefix, descriptor);
                        return Ok(None);
                    }
                    let length = payload_len(&head, &prefix)?;
                    let length = usize::try_from(length).map_err(|_| FrameError::NoMemory { bytes: length })?;
                    let payload = self.pool.take(length)?;
                    self.state = State::Payload(head, prefix, descriptor, payload, 0);
                }
                State::Payload(head, prefix, descriptor, mut payload, mut filled) => {
                    let count = (self.end - self.start).min(payload.len() - filled);
                    payload[filled..filled + count].copy_from_slice(&self.staging[self.start..self.start + count]);
                    filled += count;
                    self.start += count;
                    if filled < payload.len() {
                        self.state = State::Payload(head, prefix, descriptor, payload, filled);
                        return Ok(None);
                    }
                    return carrier(&head, prefix, &descriptor, payload.freeze()).map(Some);
                }
                State::Body(head, mut body) => {
                    if !self.collect(&mut body, head.length as usize) {
                        self.state = State::Body(head, body);
                        return Ok(None);
                    }
                    return plain(&head, &body).map(Some);
                }
                State::Failed(error) => return Err(error),
            }
        }
    }

    fn check(&self, head: &Head) -> Result<(), FrameError> {
        let Head { kind, length, .. } = *head;
        let limit = match kind {
            Kind::Message | Kind::Block | Kind::Lent => self.limits.message,
            Kind::Control | Kind::Returned => self.limits.control,
            Kind::End | Kind::Gone | Kind::Receipt | Kind::Resume => 0,
            Kind::Leaves | Kind::Continues | Kind::Closes | Kind::Alive => 0,
            Kind::Hello | Kind::Challenge | Kind::Proof | Kind::Refused => return Err(FrameError::Unexpected { kind }),
        };
        match length <= limit {
            true => Ok(()),
            false => Err(FrameError::TooLong { kind, length, limit }),
        }
    }

    /// Moves what is staged to `part` until that is `len` bytes long; says whether it is.
    fn collect(&mut self, part: &mut Vec<u8>, len: usize) -> bool {
        let count = (self.end - self.start).min(len - part.len());
        part.extend_from_slice(&self.staging[self.start..self.start + count]);
        self.start += count;
        part.len() == len
    }
}

fn carries_payload(kind: Kind) -> bool {
    matches!(kind, Kind::Message | Kind::Block | Kind::Lent)
}

fn payload_len(head: &Head, prefix: &Prefix) -> Result<u64, FrameError> {
    let before = PREFIX as u64 + u64::from(prefix.descriptor_len);
    head.length.checked_sub(before).ok_or(FrameError::TooShort)
}

/// A frame whose body is all there.
fn whole(head: &Head, body: &[u8], pool: &BufferPool) -> Result<Frame, FrameError> {
    if !carries_payload(head.kind) {
        return plain(head, body);
    }
    let (prefix, rest) = body.split_at_checked(PREFIX).ok_or(FrameError::TooShort)?;
    let prefix = Prefix::decode(head, prefix)?;
    let (descriptor, payload) = rest.split_at_checked(prefix.descriptor_len as usize).ok_or(FrameError::TooShort)?;
    carrier(head, prefix, descriptor, pool.copy_of(payload)?)
}

fn carrier(head: &Head, prefix: Prefix, descriptor: &[u8], payload: Buffer) -> Result<Frame, FrameError> {
    match head.kind {
        Kind::Message => MessageFrame::decode(head, prefix, descriptor, payload).map(Frame::Message),
        Kind::Block => Block::decode(head, prefix, descriptor, payload).map(Frame::Block),
        Kind::Lent => Lent::decode(head, prefix, descriptor, &payload).map(Frame::Lent),
        kind => Err(FrameError::Unexpected { kind }),
    }
}

fn plain(head: &Head, body: &[u8]) -> Result<Frame, FrameError> {
    let (conduit, sequence) = (head.conduit, head.sequence);
    Ok(match head.kind {
        Kind::End => Frame::End { conduit, sequence },
        Kind::Gone => Frame::Gone { conduit, sequence },
        Kind::Receipt => Frame::Receipt { conduit, sequence },
        Kind::Resume => Frame::Resume { conduit, sequence },
        Kind::Leaves => Frame::Leaves { conduit },
        Kind::Continues => Frame::Continues { conduit, sequence },
        Kind::Closes => Frame::Closes,
        Kind::Alive => Frame::Alive,
        Kind::Control => Frame::Control(body.to_vec()),
        Kind::Returned => Frame::Returned(Returned::decode(head, body)?),
        // The listener found the proof of this side wrong, after this side had found the listener's right.
        Kind::Refused => return Err(FrameError::Refused { reason: super::refusal::reason(body)? }),
        kind => return Err(FrameError::Unexpected { kind }),
    })
}
