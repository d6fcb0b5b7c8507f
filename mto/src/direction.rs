//! Bytes of a stream on their way in one direction: what the one end has sent and the other has not taken yet. No socket here.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use xmml_core::buffer::Buffer;

/// Pieces that are written at once, at most.
const PIECES: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Direction {
    pieces: VecDeque<Buffer>,
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

impl Direction {
    /// One in which `first` goes out before everything else, without being counted.
    pub fn beginning_with(first: Vec<u8>) -> Direction {
        Direction { waiting: first.len(), pieces: VecDeque::from([first.into()]), ..Direction::default() }
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

    /// Counts bytes that are passed on as a whole, and have them wait if `waits`.
    pub fn pass_whole(&mut self, message: Buffer, bytes: usize, waits: bool) {
        self.passed += bytes as u64;
        if waits {
            self.wait(message);
        }
    }

    /// Takes the first of those that wait as a whole.
    pub fn take_whole(&mut self) -> Option<Buffer> {
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
        if !bytes.is_empty() {
            self.waiting += bytes.len();
            self.pieces.push_back(bytes);
        }
    }

    /// Writes what waits, as far as `write` takes it; returns how many bytes that were.
    ///
    /// # Errors
    /// What `write` says, but for `WouldBlock`.
    pub fn drain(&mut self, mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<usize> {
        let before = self.waiting;
        while self.waiting > 0 {
            let mut slices = Vec::with_capacity(self.pieces.len().min(PIECES));
            for (index, piece) in self.pieces.iter().take(PIECES).enumerate() {
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
            let mut direction = Direction::beginning_with(vec![0, 1]);
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

    #[test]
    fn the_end_is_told_once_and_behind_the_last_byte() {
        let mut out = Vec::new();
        let mut direction = Direction::default();
        direction.pass(&[1, 2], narrow(&mut out, 9, 1)).unwrap();
        direction.end();
        assert!(!direction.must_tell_end());
        direction.drain(narrow(&mut out, 9, 9)).unwrap();
        assert!(direction.must_tell_end() && !direction.must_tell_end());
        assert!(direction.is_over());
    }

    #[test]
    fn a_receiver_that_takes_nothing_is_an_error_not_a_loop() {
        let error = Direction::default().pass(&[1], |_| Ok(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
