//! Frames on their way out of a connection.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use crate::buffer::{BufferPool, OutOfMemory};
use crate::frame::check::HAS_CHECKSUM;
use crate::frame::descriptor::{Front, Pieces};
use crate::frame::{EncodedMessage, Kind, HEAD};
use crate::methods::{LentPlace, Memory, Stream};

/// How many pieces one system call writes at most (the system allows 1024).
const PIECES: usize = 64;

/// A queue that was longer gives memory back when it is empty.
const KEPT_FRAMES: usize = 8;

/// A frame ready to be written. Cloning copies the head and shares the payload.
#[derive(Clone, Debug)]
pub struct Outgoing {
    head: Front,
    payload: Pieces,
}

/// Payloads of these frames can be lent instead of written. (What has a checksum travels as it is: the sum is over its bytes.)
fn can_be_lent(head: &[u8]) -> bool {
    head.get(KIND_AT) == Some(&(Kind::Message as u8)) && head.get(FLAGS_AT).is_some_and(|flags| flags & CHECKED == 0)
}

/// Where in a frame its kind stands.
const KIND_AT: usize = 8;

/// Where the low byte of its flags stands.
const FLAGS_AT: usize = 10;

const CHECKED: u8 = HAS_CHECKSUM as u8;

impl From<EncodedMessage> for Outgoing {
    fn from(message: EncodedMessage) -> Outgoing {
        let message = message.in_few_pieces();
        Outgoing { head: message.head, payload: message.payload }
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(head: Vec<u8>) -> Outgoing {
        Outgoing { head: Front::from_vec(head), payload: Pieces::new() }
    }
}

impl Outgoing {
    /// How many bytes it has.
    #[allow(clippy::len_without_is_empty)] // no frame is empty
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.iter().map(|piece| piece.len()).sum::<usize>()
    }

    /// Copies what belongs to somebody else.
    fn own(&mut self, pool: &BufferPool) -> Result<(), OutOfMemory> {
        for piece in self.payload.iter_mut().filter(|piece| piece.is_foreign()) {
            *piece = pool.copy_of(piece)?;
        }
        Ok(())
    }

    fn payload_len(&self) -> usize {
        self.payload.iter().map(|piece| piece.len()).sum()
    }

    /// The same frame with the place of its payload instead of the payload.
    fn lent_at(&mut self, place: &LentPlace) {
        let numbers = [place.region, place.offset, place.length, place.generation].map(u64::to_le_bytes).concat();
        let length = (self.head.len() - HEAD + numbers.len()) as u64;
        self.head[..8].copy_from_slice(&length.to_le_bytes());
        self.head[KIND_AT] = Kind::Lent as u8;
        self.head.extend_from_slice(&numbers);
        self.payload.clear();
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.head[..]).chain(self.payload.iter().map(|piece| &piece[..]))
    }
}

/// The frames that the kernel has not taken yet, in order.
#[derive(Debug, Default)]
pub struct Writer {
    queue: VecDeque<Outgoing>,
    /// Bytes of the first frame that are out already.
    written: usize,
    /// So many frames at the front were offered to the stream to be lent.
    offered: usize,
    /// So many frames at the front hold nothing that belongs to callers.
    owned: usize,
    /// The stream has taken bytes that it could not pass on.
    is_held_up: bool,
    /// Something was queued since somebody last asked.
    was_used: bool,
    /// The I/O thread watches for room and writes; callers only queue.
    pub handed_over: bool,
}

impl Writer {
    /// Puts a frame behind all others.
    pub fn push(&mut self, frame: Outgoing) {
        self.was_used = true;
        self.queue.push_back(frame);
    }

    /// How many bytes that belong to callers are not out yet (roughly: of the first frame, counted as if nothing of it were out).
    pub fn foreign_bytes(&self) -> usize {
        let frames = self.queue.iter().skip(self.owned);
        let lent = frames.flat_map(|frame| &frame.payload).filter(|piece| piece.is_foreign());
        lent.map(|piece| piece.len()).sum()
    }

    /// Copies what belongs to callers, so that it may stay here when they go on.
    pub fn own(&mut self, pool: &BufferPool) -> io::Result<()> {
        let mut fresh = self.queue.iter_mut().skip(self.owned);
        fresh.try_for_each(|frame| frame.own(pool)).map_err(|none| io::Error::other(none.to_string()))?;
        self.owned = self.queue.len();
        Ok(())
    }

    /// Whether nothing is queued, and nothing was since the last call.
    pub fn is_idle(&mut self) -> bool {
        !std::mem::replace(&mut self.was_used, false) && self.queue.is_empty()
    }

    /// What was queued last does not count.
    pub fn begin_idle(&mut self) {
        self.was_used = false;
    }

    /// Writes a frame past the queue, if nothing waits there and the memory takes all of it at once; false: it must be queued.
    pub fn write_at_once(&mut self, front: &[u8], payload: &[u8], memory: &dyn Memory) -> bool {
        if self.handed_over || !self.queue.is_empty() {
            return false;
        }
        self.was_used = true;
        // What is wrong with the stream, who writes the queue finds out too.
        memory.write_frame(front, payload).unwrap_or(false)
    }

    /// Whether the kernel has taken everything.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && !self.is_held_up
    }

    /// Forgets everything that is not out yet.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.written = 0;
        self.offered = 0;
        self.owned = 0;
        self.is_held_up = false;
    }

    /// Lends what can be lent.
    pub fn lend(&mut self, memory: &dyn Memory) {
        let from = memory.lends_from();
        // A frame that is partly out stays as it is.
        let begun = usize::from(self.written > 0);
        for frame in self.queue.iter_mut().skip(self.offered.max(begun)) {
            if frame.payload_len() >= from && can_be_lent(&frame.head) {
                if let Some(place) = memory.lend(&frame.payload) {
                    frame.lent_at(&place);
                }
            }
        }
        self.offered = self.queue.len();
    }

    /// Writes until everything is out (true) or the stream has no room (false).
    pub fn write(&mut self, stream: &dyn Stream) -> io::Result<bool> {
        while let Some(first) = self.queue.front() {
            let written = match self.queue.len() == 1 && first.payload.is_empty() {
                true => stream.write(&[IoSlice::new(&first.head[self.written..])]),
                false => stream.write(&self.next_pieces()),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let flushed = match stream.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            flushed => flushed.is_ok(),
        };
        self.is_held_up = !flushed;
        Ok(flushed)
    }

    fn next_pieces(&self) -> Vec<IoSlice<'_>> {
        let mut skip = self.written;
        let mut pieces = Vec::with_capacity(PIECES.min(4 * self.queue.len()));
        for piece in self.queue.iter().flat_map(Outgoing::pieces) {
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            pieces.push(IoSlice::new(&piece[skip..]));
            skip = 0;
            if pieces.len() == PIECES {
                break;
            }
        }
        pieces
    }

    fn advance(&mut self, count: usize) {
        self.written += count;
        while let Some(first) = self.queue.front() {
            let len = first.len();
            if self.written < len {
                break;
            }
            self.written -= len;
            self.queue.pop_front();
            self.offered = self.offered.saturating_sub(1);
            self.owned = self.owned.saturating_sub(1);
        }
        if self.queue.is_empty() && self.queue.capacity() > KEPT_FRAMES {
            self.queue = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use smallvec::smallvec;
    use std::os::fd::RawFd;
    use std::sync::Mutex;

    /// Takes at most `step` bytes at a time, and `room` in total.
    struct Narrow {
        step: usize,
        room: usize,
        taken: Mutex<Vec<u8>>,
    }

    impl Stream for Narrow {
        fn fd(&self) -> RawFd {
            -1
        }
        fn peer(&self) -> &str {
            "narrow"
        }
        fn read(&self, _into: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
        fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut taken = self.taken.lock().unwrap();
            let count = self.step.min(self.room - taken.len());
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).take(count).collect();
            taken.extend_from_slice(&bytes);
            Ok(bytes.len())
        }
        fn shut(&self) {}
    }

    #[test]
    fn frames_leave_in_order_whatever_pieces_the_stream_takes() {
        for step in [1, 2, 3, 5, 100] {
            let stream = Narrow { step, room: 1000, taken: Mutex::default() };
            let mut writer = Writer::default();
            writer.push(vec![1, 2, 3].into());
            writer.push(Outgoing {
                payload: smallvec![Buffer::copy_of(&[5, 6]), Buffer::copy_of(&[7])],
                ..vec![4].into()
            });
            assert!(writer.write(&stream).unwrap());
            assert!(writer.is_empty());
            assert_eq!(*stream.taken.lock().unwrap(), [1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn what_finds_no_room_waits() {
        let mut stream = Narrow { step: 100, room: 4, taken: Mutex::default() };
        let mut writer = Writer::default();
        writer.push(vec![1, 2, 3].into());
        writer.push(vec![4, 5, 6].into());
        assert!(!writer.write(&stream).unwrap());
        stream.room = 6;
        assert!(writer.write(&stream).unwrap());
        assert_eq!(*stream.taken.lock().unwrap(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn what_belongs_to_callers_is_copied_also_behind_frames_that_were_looked_at() {
        let foreign = || Outgoing { payload: smallvec![Buffer::from_owner(vec![7; 2])], ..vec![1].into() };
        let (mut writer, pool) = (Writer::default(), BufferPool::new());
        let mut narrow = Narrow { step: 3, room: 0, taken: Mutex::default() };
        for pushed in 1..=3 {
            writer.push(foreign());
            assert_eq!(writer.foreign_bytes(), 2);
            writer.own(&pool).unwrap();
            assert_eq!(writer.foreign_bytes(), 0);
            // The first frame leaves, so that all others move up.
            narrow.room = 3 * pushed / 2;
            assert!(!writer.write(&narrow).unwrap());
        }
    }
}
