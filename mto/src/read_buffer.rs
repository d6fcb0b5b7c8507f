//! Where what processes send is read to: memory that becomes a frame for a link as it is, so that much of it is not copied, and is used
//! again when the frame has arrived. No socket here.

use std::io;

use xmml_wire::buffer::{Buffer, BufferMut, BufferPool, OutOfMemory, POOLED_FROM};

use crate::link_frame::{self, StreamId, DATA_HEAD};

/// How much is read at once.
pub const READ: usize = 256 << 10;

/// From so many bytes on the memory becomes a frame. Fewer are copied: a frame that waits would hold the memory of many.
const KEPT_FROM: usize = READ / 2;

/// How many bytes wait to be used again.
const KEPT: usize = 16 << 20;

/// See the module.
pub struct ReadBuffer {
    pool: BufferPool,
    /// Has room for the head of a frame in front.
    memory: Option<BufferMut>,
    /// Bytes that were read last.
    count: usize,
}

impl Default for ReadBuffer {
    fn default() -> ReadBuffer {
        ReadBuffer { pool: BufferPool::with_limit(KEPT), memory: None, count: 0 }
    }
}

impl ReadBuffer {
    /// Reads at most `most` bytes; returns how many came.
    ///
    /// # Errors
    /// What `read` says, or that there is no memory.
    pub fn read(&mut self, most: usize, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        self.count = 0;
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(self.pool.take(DATA_HEAD + READ).map_err(no_memory)?),
        };
        let count = read(&mut memory[DATA_HEAD..DATA_HEAD + most.min(READ)])?;
        self.count = count;
        Ok(count)
    }

    /// What was read.
    pub fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory[DATA_HEAD..DATA_HEAD + self.count])
    }

    /// What was read, as a frame of a stream. Nothing is left here.
    ///
    /// # Errors
    /// There is no memory.
    pub fn frame(&mut self, stream: StreamId) -> io::Result<Buffer> {
        let count = std::mem::take(&mut self.count);
        let len = DATA_HEAD + count;
        if let Some(mut memory) = self.memory.take_if(|_| count >= KEPT_FROM) {
            memory.truncate(len);
            memory[..DATA_HEAD].copy_from_slice(&link_frame::data_head(stream));
            return Ok(memory.freeze());
        }
        let bytes = self.memory.as_ref().map_or(&[][..], |memory| &memory[DATA_HEAD..len]);
        if len < POOLED_FROM {
            return Ok(link_frame::data(stream, bytes).into());
        }
        let mut memory = self.pool.take(len).map_err(no_memory)?;
        memory[..DATA_HEAD].copy_from_slice(&link_frame::data_head(stream));
        memory[DATA_HEAD..].copy_from_slice(bytes);
        Ok(memory.freeze())
    }
}

fn no_memory(none: OutOfMemory) -> io::Error {
    io::Error::other(none.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link_frame::LinkFrame;

    fn came(intake: &mut ReadBuffer, bytes: &[u8]) -> usize {
        let read = intake.read(READ, |into| {
            into[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        });
        read.unwrap()
    }

    #[test]
    fn what_comes_is_a_frame_however_much_it_is() {
        let mut intake = ReadBuffer::default();
        for count in [1, 1000, POOLED_FROM - DATA_HEAD, POOLED_FROM, KEPT_FROM - 1, KEPT_FROM, READ] {
            let bytes: Vec<u8> = (0..count).map(|at| at as u8).collect();
            assert_eq!(came(&mut intake, &bytes), count);
            assert_eq!(intake.bytes(), bytes);
            let frame = intake.frame(9).unwrap();
            assert_eq!(frame[DATA_HEAD..], bytes);
            assert_eq!(link_frame::read(frame.clone()), Ok(LinkFrame::Data(9, frame)));
            assert!(intake.bytes().is_empty());
        }
    }

    #[test]
    fn a_frame_is_its_own_while_more_comes_and_its_memory_is_used_again() {
        let mut intake = ReadBuffer::default();
        came(&mut intake, &[1; READ]);
        let first = intake.frame(1).unwrap();
        came(&mut intake, &[2; READ]);
        assert!(first[DATA_HEAD..].iter().all(|byte| *byte == 1));
        drop((first, intake.frame(1).unwrap()));
        assert_eq!(intake.pool.kept_bytes() / READ, 2);
        came(&mut intake, &[3; READ]);
        assert_eq!(intake.pool.kept_bytes() / READ, 1);
    }

    #[test]
    fn little_does_not_hold_the_memory_of_much() {
        let mut intake = ReadBuffer::default();
        came(&mut intake, &[1; KEPT_FROM - 1]);
        let frame = intake.frame(1).unwrap();
        assert!(!intake.memory.as_ref().unwrap().as_ptr_range().contains(&frame.as_ptr()));
        assert!(intake.memory.is_some(), "it is read to again");
    }

    #[test]
    fn no_more_is_read_than_is_asked_for() {
        let mut intake = ReadBuffer::default();
        assert_eq!(intake.read(7, |into| Ok(into.len())).unwrap(), 7);
        assert_eq!(intake.read(10 * READ, |into| Ok(into.len())).unwrap(), READ);
        assert!(intake.read(7, |_| Err(io::ErrorKind::WouldBlock.into())).is_err());
        assert!(intake.bytes().is_empty());
    }
}
