//! Checksums of messages: whether what arrives is what was sent.
//!
//! With flag bit 1 the descriptor of a message begins with 16 bytes more:
//!
//! | offset in the frame | bytes | |
//! |---|---|---|
//! | 48 | 4 | CRC-32C of the 48 bytes before: head and prefix, so that no length is believed before it is checked |
//! | 52 | 4 | how the next one was made ([`Algorithm`]) |
//! | 56 | 8 | checksum of everything behind these 16 bytes: descriptor and payload |

use xxhash_rust::xxh3::Xxh3;

use crate::frame::message::PREFIX;
use crate::frame::{FrameError, Head, Reader, HEAD};

/// Flag: the descriptor begins with checksums.
pub const HAS_CHECKSUM: u16 = 2;

/// Bytes of the checksums.
pub(crate) const CHECKSUMS: usize = 16;

/// Bytes that the first checksum guards, and that stand before it.
pub(crate) const GUARDED: usize = HEAD + PREFIX;

/// How a checksum of descriptor and payload is made; the discriminant is the code on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Algorithm {
    /// CRC-32C (Castagnoli), with zeros above it: finds every change of up to 32 bits in a row.
    Crc32c = 1,
    /// XXH3 with 64 bits: faster, and as good as any 64 bits.
    Xxh3 = 2,
}

impl Algorithm {
    /// The algorithm called `name`.
    pub fn named(name: &str) -> Option<Algorithm> {
        match name.trim() {
            "crc32c" => Some(Algorithm::Crc32c),
            "xxh3" => Some(Algorithm::Xxh3),
            _ => None,
        }
    }

    fn from_code(code: u32) -> Option<Algorithm> {
        match code {
            1 => Some(Algorithm::Crc32c),
            2 => Some(Algorithm::Xxh3),
            _ => None,
        }
    }

    /// The checksum of these pieces, one after the other.
    pub fn sum<'a>(self, pieces: impl Iterator<Item = &'a [u8]>) -> u64 {
        match self {
            Algorithm::Crc32c => u64::from(pieces.fold(0, crc32c::crc32c_append)),
            Algorithm::Xxh3 => {
                let mut hash = Xxh3::new();
                pieces.for_each(|piece| hash.update(piece));
                hash.digest()
            }
        }
    }
}

/// Puts the checksum of head and prefix where it belongs; again after each change of them.
pub(crate) fn seal(frame: &mut [u8]) {
    let (guarded, behind) = frame.split_at_mut(GUARDED);
    behind[..4].copy_from_slice(&crc32c::crc32c(guarded).to_le_bytes());
}

/// The checksums of a frame whose descriptor and payload are these.
pub(crate) fn checksums<'a>(algorithm: Algorithm, pieces: impl Iterator<Item = &'a [u8]>) -> [u8; CHECKSUMS] {
    let mut bytes = [0; CHECKSUMS];
    bytes[4..8].copy_from_slice(&(algorithm as u32).to_le_bytes());
    bytes[8..].copy_from_slice(&algorithm.sum(pieces).to_le_bytes());
    bytes
}

/// Checks the head and the prefix of a frame with checksums. `begin`: the first bytes of the frame. False: more bytes are needed.
pub(crate) fn is_guarded(head: &Head, begin: &[u8]) -> Result<bool, FrameError> {
    if head.flags & HAS_CHECKSUM == 0 {
        return Ok(true);
    }
    let Some((guarded, behind)) = begin.split_at_checked(GUARDED) else { return Ok(false) };
    let Some(sum) = behind.first_chunk() else { return Ok(false) };
    match u32::from_le_bytes(*sum) == crc32c::crc32c(guarded) {
        true => Ok(true),
        // Not even its numbers can be trusted: nobody knows which message it was.
        false => Err(FrameError::DamagedHead),
    }
}

/// Checks descriptor and payload of a frame (whose head was checked before), and returns the descriptor without the checksums.
pub(crate) fn verified<'a>(
    head: &Head,
    descriptor: &'a [u8],
    payload: &[u8],
) -> Result<(&'a [u8], Option<Algorithm>), FrameError> {
    if head.flags & HAS_CHECKSUM == 0 {
        return Ok((descriptor, None));
    }
    let (checksums, descriptor) = descriptor.split_at_checked(CHECKSUMS).ok_or(FrameError::TooShort)?;
    let mut reader = Reader::new(checksums);
    let (_, code, sum) = (reader.u32()?, reader.u32()?, reader.u64()?);
    let damaged = FrameError::Damaged { conduit: head.conduit, sequence: head.sequence };
    let Some(algorithm) = Algorithm::from_code(code) else { return Err(damaged) };
    match algorithm.sum([descriptor, payload].into_iter()) == sum {
        true => Ok((descriptor, Some(algorithm))),
        false => Err(damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Buffer, BufferPool};
    use crate::data::{Array, Data};
    use crate::frame::{encode_message, Decoder, EncodedMessage, Frame, Limits};
    use crate::message::Message;

    fn message(elements: usize) -> Message {
        let array = Array::from_slice(&[elements as u64], &vec![0.25_f64; elements]).unwrap();
        Message { timestamp: 1.0, next_timestamp: Some(2.0), data: Data::from(array) }
    }

    fn encoded(elements: usize, algorithm: Algorithm) -> EncodedMessage {
        encode_message(7, 0, None, &message(elements)).unwrap().checked(algorithm).numbered(3)
    }

    fn bytes(frame: &EncodedMessage) -> Vec<u8> {
        frame.slices().collect::<Vec<_>>().concat()
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        Decoder::new(BufferPool::new(), Limits::default()).push(bytes)
    }

    #[test]
    fn a_checked_message_arrives_as_it_was_whatever_its_length() {
        for algorithm in [Algorithm::Crc32c, Algorithm::Xxh3] {
            for elements in [0, 1, 100, 200, 3000] {
                let frame = encoded(elements, algorithm);
                assert_eq!(frame.frame_len(), bytes(&frame).len() as u64);
                let frames = decode(&bytes(&frame)).unwrap();
                let [Frame::Message(got)] = &frames[..] else { panic!("{frames:?}") };
                assert_eq!((got.conduit, got.sequence, got.checked), (7, 3, Some(algorithm)));
                assert_eq!(got.message, message(elements));
                assert_eq!(got.frame_len, frame.frame_len());
            }
        }
    }

    #[test]
    fn a_checked_message_can_be_readdressed() {
        let frame = encoded(10, Algorithm::Xxh3).readdressed(9, 4, Some(2));
        let frames = decode(&bytes(&frame)).unwrap();
        assert!(matches!(&frames[..], [Frame::Message(got)] if (got.conduit, got.sequence) == (9, 4)));
    }

    #[test]
    fn every_changed_bit_is_found_at_once_and_no_wrong_length_is_waited_for() {
        for algorithm in [Algorithm::Crc32c, Algorithm::Xxh3] {
            for elements in [1, 2200] {
                let good = bytes(&encoded(elements, algorithm));
                for bit in (0..good.len() * 8).filter(|bit| *bit < 8 * 200 || bit % 97 == 0) {
                    let mut wrong = good.clone();
                    wrong[bit / 8] ^= 1 << (bit % 8);
                    assert!(decode(&wrong).is_err(), "{algorithm:?}, {elements} elements, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn the_error_names_conduit_and_message() {
        let mut wrong = bytes(&encoded(1, Algorithm::Xxh3));
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(decode(&wrong), Err(FrameError::Damaged { conduit: 7, sequence: 3 }));
    }

    #[test]
    fn the_sums_are_those_of_the_published_algorithms() {
        let pieces = || [&b"1234"[..], b"56789"].into_iter();
        assert_eq!(Algorithm::Crc32c.sum(pieces()), 0xe306_9283);
        assert_eq!(Algorithm::Xxh3.sum(std::iter::empty()), 0x2d06_8005_38d3_94c2);
        assert_eq!(Algorithm::Xxh3.sum(pieces()), xxhash_rust::xxh3::xxh3_64(b"123456789"));
    }

    #[test]
    fn an_owned_copy_keeps_its_checksum() {
        let elements = vec![1.0_f64; 4000];
        // SAFETY: `elements` outlives the buffer.
        let lent = unsafe { Buffer::wrap(elements.as_ptr().cast(), 32_000) };
        let data =
            Data::Array(Array::new(crate::data::Dtype::F64, crate::data::Order::RowMajor, vec![4000], lent).unwrap());
        let frame = encode_message(1, 1, None, &Message { data, ..Message::default() }).unwrap();
        let frame = frame.checked(Algorithm::Xxh3).owned(&BufferPool::new()).unwrap();
        assert!(decode(&bytes(&frame)).is_ok());
    }
}
