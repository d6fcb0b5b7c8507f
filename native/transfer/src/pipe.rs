//! Messages over two streams of bytes, each with its length in front: what one channel of ssh carries.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::report::Report;
use crate::target::Target;
use crate::{Failure, Peer, Stop};

/// Longest message [bytes]. The longest that an end sends holds the digests of a file, 64 MiB at most.
pub const LONGEST_MESSAGE: u32 = 128 << 20;

/// The other end, to which a stream of bytes leads.
pub struct Pipe<W> {
    writing: Mutex<W>,
}

impl<W: Write + Send> Pipe<W> {
    /// Sends over this stream.
    pub fn new(writing: W) -> Pipe<W> {
        Pipe { writing: Mutex::new(writing) }
    }
}

impl<W: Write + Send> Peer for Pipe<W> {
    fn send(&self, message: &[&[u8]]) -> Result<(), Stop> {
        let length: usize = message.iter().map(|part| part.len()).sum();
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut write = || {
            writing.write_all(&(length as u32).to_le_bytes())?;
            message.iter().try_for_each(|part| writing.write_all(part))?;
            writing.flush()
        };
        write().map_err(|_: io::Error| Stop)
    }

    fn check(&self) -> Result<(), Stop> {
        Ok(())
    }
}

/// Waits for a message; `None`: the stream has ended in front of one.
///
/// # Errors
/// The stream cannot be read, ends within a message, or the message is too long.
pub fn receive(reading: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    reading.take(4).read_to_end(&mut head)?;
    let Ok(head) = <[u8; 4]>::try_from(&*head) else {
        return if head.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    };
    let length = u32::from_le_bytes(head);
    if length > LONGEST_MESSAGE {
        let text = format!("a message of {length} bytes; the longest has {LONGEST_MESSAGE}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    // Memory is taken as bytes arrive, not as the length says.
    let mut message = Vec::new();
    match reading.take(length.into()).read_to_end(&mut message)? == length as usize {
        true => Ok(Some(message)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Takes everything that comes; another thread looks at what is there.
///
/// # Errors
/// As of [`Target::hear`]; it also stops when the stream ends.
pub fn take(target: &Target, reading: &mut impl Read, peer: &dyn Peer) -> Result<Report, Failure> {
    thread::scope(|scope| {
        scope.spawn(|| target.consider(peer));
        let mut hear = || loop {
            let message = receive(reading).ok().flatten().ok_or(Failure::Stopped)?;
            if !target.hear(&message, peer)? {
                return Ok(target.report());
            }
        };
        let done = hear();
        target.stop();
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent() {
        let mut bytes = Vec::new();
        let pipe = Pipe::new(&mut bytes);
        for message in [&[&b"a"[..], b"", b"bc"][..], &[], &[b"d"]] {
            pipe.send(message).unwrap();
        }
        let mut reading = &bytes[..];
        let mut received = Vec::new();
        while let Some(message) = receive(&mut reading).unwrap() {
            received.push(message);
        }
        assert_eq!(received, [&b"abc"[..], b"", b"d"]);
    }

    #[test]
    fn what_is_no_whole_message_is_an_error() {
        for (bytes, kind) in [
            (&b"\x05\0\0\0abcd"[..], io::ErrorKind::UnexpectedEof),
            (b"\x05\0", io::ErrorKind::UnexpectedEof),
            (b"\xff\xff\xff\xff", io::ErrorKind::InvalidData),
        ] {
            assert_eq!(receive(&mut &bytes[..]).unwrap_err().kind(), kind, "{bytes:?}");
        }
    }
}
