//! Bytes of a stream on their way in one direction: what the one end has sent and the other has not taken yet. No socket here.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use xmml_wire::buffer::Buffer;

/// Pieces that are written at once, at most.
const PIECES: usize = 64;

/// What waits and is shorter is put together with others: a byte on its own takes the memory of some hundreds.
const SMALL: usize = 4 << 10;

/// So many bytes are put together, at most.
const TOGETHER: usize = 16 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct StreamBuffer {
    pieces: VecDeque<Buffer>,
    /// Small ones that have come after all of these.
    small: Vec<u8>,
    /// So many bytes of the first piece are out.
    skip: usize,
    waiting: usize,
    /// The sending end sends nothing more.
    ended: bool,
    /// The receiving end has been told so.
    told: bool,
    /// Bytes that have passed.
    passed: u64,
}

impl StreamBuffer {
    /// One in which `first` goes out before everything else, without being counted.
    pub fn beginning_with(first: Vec<u8>) -> StreamBuffer {
        StreamBuffer { waiting: first.len(), pieces: VecDeque::from([first.into()]), ..StreamBuffer::default() }
    }

    /// Passes bytes on; what `write` does not take waits. Bytes go out in order: while some wait, all wait.
    ///
    /// # Errors
    /// What `write` says, but for `WouldBlock`.
    pub fn pass(&mut self, bytes: &[u8], mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<()> {
        self.passed += bytes.len() as u64;
        let mut rest = bytes;
        while self.waiting == 0 && !rest.is_empty() {
            match taken(write(&[IoSlice::new(rest)]))? {
                Some(count) => rest = &rest[count..],
                None => break,
            }
        }
        self.wait(Buffer::copy_of(rest));
        Ok(())
    }

    /// The same with bytes that need not be copied to wait; returns how many went out.
    ///
    /// # Errors
    /// What `write` says, but for `WouldBlock`.
    pub fn pass_buffer(
        &mut self,
        bytes: Buffer,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.passed += bytes.len() as u64;
        let mut out = 0;
        while self.waiting == 0 && out < bytes.len() {
            match taken(write(&[IoSlice::new(&bytes[out..])]))? {
                Some(count) => out += count,
                None => break,
            }
        }
        self.wait(bytes.slice(out..bytes.len()));
        Ok(out)
    }

    /// Counts bytes that are passed on as a whole, and has them wait if `waits`: the last ones of `message`, behind a head that is the same
    /// for all. Small ones that wait together become one.
    pub fn pass_whole(&mut self, message: Buffer, bytes: usize, waits: bool) {
        self.passed += bytes as u64;
        if waits {
            let follows = message.len() < SMALL && !self.small.is_empty() && self.has_room(message.len());
            let from = if follows { message.len() - bytes } else { 0 };
            self.wait(message.slice(from..message.len()));
        }
    }

    /// Takes the first of those that wait as a whole.
    pub fn take_whole(&mut self) -> Option<Buffer> {
        if self.pieces.is_empty() {
            self.close_small();
        }
        let first = self.pieces.pop_front()?;
        self.waiting -= first.len();
        Some(first)
    }

    /// Puts what is left of a message that was taken back in front.
    pub fn put_back(&mut self, message: Buffer) {
        self.waiting += message.len();
        self.pieces.push_front(message);
    }

    fn wait(&mut self, bytes: Buffer) {
        self.waiting += bytes.len();
        let is_small = bytes.len() < SMALL;
        if !is_small || !self.has_room(bytes.len()) {
            self.close_small();
        }
        match is_small {
            true => self.small.extend_from_slice(&bytes),
            false => self.pieces.push_back(bytes),
        }
    }

    /// Whether so many bytes can be put together with those that were.
    fn has_room(&self, bytes: usize) -> bool {
        self.small.len() + bytes <= TOGETHER
    }

    /// Small ones that come from now on are put together anew.
    fn close_small(&mut self) {
        if !self.small.is_empty() {
            let mut small = std::mem::take(&mut self.small);
            small.shrink_to_fit();
            self.pieces.push_back(small.into());
        }
    }

    /// Writes what waits, as far as `write` takes it; returns how many bytes that were.
    ///
    /// # Errors
    /// What `write` says, but for `WouldBlock`.
    pub fn drain(&mut self, mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<usize> {
        let before = self.waiting;
        while self.waiting > 0 {
            let mut slices = Vec::with_capacity((self.pieces.len() + 1).min(PIECES));
            let pieces = self.pieces.iter().map(|piece| &piece[..]).chain([&self.small[..]]);
            for (index, piece) in pieces.take(PIECES).enumerate() {
                slices.push(IoSlice::new(if index == 0 { &piece[self.skip..] } else { piece }));
            }
            match taken(write(&slices))? {
                Some(count) => self.advance(count),
                None => break,
            }
        }
        Ok(before - self.waiting)
    }

    fn advance(&mut self, count: usize) {
        self.waiting -= count;
        self.skip += count;
        while let Some(first) = self.pieces.front() {
            if self.skip < first.len() {
                break;
            }
            self.skip -= first.len();
            self.pieces.pop_front();
        }
        if self.waiting == 0 {
            (self.skip, self.small) = (0, Vec::new());
        }
    }

    /// How many bytes wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The sending end sends nothing more.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether the sending end has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// True once: everything has been passed on, and the receiving end must now be told that nothing follows.
    pub fn must_tell_end(&mut self) -> bool {
        let is_due = self.ended && self.waiting == 0 && !self.told;
        self.told |= is_due;
        is_due
    }

    /// Whether the receiving end has been told that nothing follows.
    pub fn is_over(&self) -> bool {
        self.told
    }

    /// Bytes that came, whether they are out or wait.
    pub fn passed(&self) -> u64 {
        self.passed
    }
}

/// What a write took; `None`: there is no room now.
fn taken(written: io::Result<usize>) -> io::Result<Option<usize>> {
    match written {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            io::ErrorKind::Interrupted => Ok(Some(0)),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `step` bytes at a time until `room` is used up.
    fn narrow<'a>(
        out: &'a mut Vec<u8>,
        step: usize,
        room: usize,
    ) -> impl FnMut(&[IoSlice<'_>]) -> io::Result<usize> + 'a {
        move |slices| {
            let count = slices.iter().map(|slice| slice.len()).sum::<usize>().min(step).min(room - out.len());
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(count).collect();
            out.extend(bytes);
            Ok(count)
        }
    }

    #[test]
    fn bytes_leave_in_order_whatever_the_receiver_takes() {
        for step in [1, 2, 3, 100] {
            let mut out = Vec::new();
            let mut direction = StreamBuffer::beginning_with(vec![0, 1]);
            direction.pass(&[2, 3, 4], narrow(&mut out, step, 100)).unwrap();
            assert_eq!(direction.waiting(), 5, "what comes first goes first");
            direction.drain(narrow(&mut out, step, 4)).unwrap();
            direction.pass(&[5], narrow(&mut out, step, 100)).unwrap();
            assert_eq!(direction.drain(narrow(&mut out, step, 100)).unwrap(), 2);
            direction.pass(&[6, 7], narrow(&mut out, step, 100)).unwrap();
            assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 7]);
            assert_eq!(direction.passed(), 6);
        }
    }

    /// What a piece takes beside its bytes, about: where it is in the list, and two blocks of memory with what is known of them.
    const BESIDE: usize = 200;

    fn memory(direction: &StreamBuffer) -> usize {
        direction.pieces.iter().map(|piece| piece.len() + BESIDE).sum::<usize>() + direction.small.capacity()
    }

    #[test]
    fn what_waits_takes_the_memory_of_its_bytes_however_small_the_pieces_are() {
        const BYTES: usize = 1 << 20;
        let head: Vec<u8> = (0..16).collect();
        for size in [1, 7, 100, SMALL - 17, SMALL - 16, SMALL, BYTES] {
            let (mut bytes, mut whole) = (StreamBuffer::default(), StreamBuffer::default());
            let all: Vec<u8> = (0..BYTES).map(|at| (at * 7 / 5) as u8).collect();
            for piece in all.chunks(size) {
                bytes.pass_buffer(Buffer::copy_of(piece), |_| Err(io::ErrorKind::WouldBlock.into())).unwrap();
                whole.pass_whole([&head, piece].concat().into(), piece.len(), true);
            }
            for direction in [&bytes, &whole] {
                let memory = memory(direction);
                assert!(memory <= BYTES + BYTES / 8 + 2 * TOGETHER, "{memory} bytes of memory in pieces of {size}");
            }
            let mut out = Vec::new();
            bytes.drain(narrow(&mut out, 1000, BYTES)).unwrap();
            assert!(out == all, "pieces of {size}");
            let mut out = Vec::new();
            while let Some(message) = whole.take_whole() {
                assert_eq!(message[..16], head);
                out.extend_from_slice(&message[16..]);
            }
            assert!(out == all, "pieces of {size}");
            assert_eq!((bytes.waiting(), whole.waiting(), memory(&bytes), memory(&whole)), (0, 0, 0, 0));
        }
    }

    #[test]
    fn small_and_large_ones_that_wait_leave_in_order() {
        let mut seed = 1_u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let (mut direction, mut out, mut all) = (StreamBuffer::default(), Vec::new(), Vec::new());
        for number in 0..2000 {
            let size = [3, SMALL, 3 * SMALL][random(3)];
            let piece: Vec<u8> = (0..=random(size)).map(|at| (at + number) as u8).collect();
            all.extend_from_slice(&piece);
            let room = out.len() + random(4 * SMALL);
            direction.pass_buffer(piece.into(), narrow(&mut out, 2 * SMALL, room)).unwrap();
            let room = out.len() + random(2 * SMALL);
            direction.drain(narrow(&mut out, 5 * SMALL, room)).unwrap();
            assert_eq!(direction.waiting(), all.len() - out.len());
        }
        direction.drain(narrow(&mut out, usize::MAX, usize::MAX)).unwrap();
        assert!(out == all && direction.waiting() == 0);
    }

    #[test]
    fn the_end_is_told_once_and_behind_the_last_byte() {
        let mut out = Vec::new();
        let mut direction = StreamBuffer::default();
        direction.pass(&[1, 2], narrow(&mut out, 9, 1)).unwrap();
        direction.end();
        assert!(!direction.must_tell_end());
        direction.drain(narrow(&mut out, 9, 9)).unwrap();
        assert!(direction.must_tell_end() && !direction.must_tell_end());
        assert!(direction.is_over());
    }

    #[test]
    fn a_receiver_that_takes_nothing_is_an_error_not_a_loop() {
        let error = StreamBuffer::default().pass(&[1], |_| Ok(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
