//! A message of one number or one array, encoded where it is written from, and decoded where it lies: most messages are that, and short ones are sent so often that
//! the general way, which can encode anything, would take most of their time.

use crate::buffer::{Buffer, BufferPool};
use crate::data::{array_bytes, Data};
use crate::frame::descriptor::{ARRAY, BOOL, BYTES, COMPLEX, FLOAT, INT, NOTHING};
use crate::frame::message::{Prefix, HAS_NEXT, PREFIX};
use crate::frame::{Head, Kind, MessageFrame, HEAD, NO_COPY};
use crate::message::Message;

/// Arrays of more dimensions go the general way.
const RANK: usize = 6;

/// Where the descriptor begins.
const DESCRIPTOR: usize = HEAD + PREFIX;

/// Bytes up to the payload, at most: the descriptor of an array has eight for its types, for each extent, and for the place of its elements.
const ROOM: usize = DESCRIPTOR + 8 * (RANK + 2);

/// A frame that is ready to be written; its payload is where the caller has it.
pub struct ShortMessage<'a> {
    front: [u8; ROOM],
    front_len: usize,
    payload: &'a [u8],
}

impl<'a> ShortMessage<'a> {
    /// The same bytes as [`super::encode_message`] makes; `None`: only that can encode this message (or say why not).
    pub fn encode(conduit: u32, sequence: u64, copy: Option<u32>, message: &'a Message) -> Option<ShortMessage<'a>> {
        let mut front = [0; ROOM];
        let (descriptor_len, payload) = describe(&message.data, &mut front)?;
        let front_len = DESCRIPTOR + descriptor_len;
        let length = (front_len - HEAD + payload.len()) as u64;
        let flags = if message.next_timestamp.is_some() { HAS_NEXT } else { 0 };
        let head = Head { length, kind: Kind::Message, flags, conduit, sequence };
        front[..HEAD].copy_from_slice(&head.encode());
        front[24..32].copy_from_slice(&message.timestamp.to_le_bytes());
        front[32..40].copy_from_slice(&message.next_timestamp.unwrap_or(0.0).to_le_bytes());
        front[40..44].copy_from_slice(&(descriptor_len as u32).to_le_bytes());
        front[44..48].copy_from_slice(&copy.unwrap_or(NO_COPY).to_le_bytes());
        Some(ShortMessage { front, front_len, payload })
    }

    /// Bytes of the whole frame.
    pub fn frame_len(&self) -> u64 {
        (self.front_len + self.payload.len()) as u64
    }

    /// The frame up to its payload.
    pub fn front(&self) -> &[u8] {
        &self.front[..self.front_len]
    }

    /// The payload.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Writes the descriptor where it belongs; its length, and the payload.
fn describe<'a>(data: &'a Data, front: &mut [u8; ROOM]) -> Option<(usize, &'a [u8])> {
    let mut put = |at: usize, number: u64| front[DESCRIPTOR + at..][..8].copy_from_slice(&number.to_le_bytes());
    let node = |tag: u8, value: u8| u64::from(tag) | u64::from(value) << 8;
    match data {
        Data::Nothing => put(0, node(NOTHING, 0)),
        Data::Bool(value) => put(0, node(BOOL, u8::from(*value))),
        Data::Int(value) => {
            put(0, node(INT, 0));
            put(8, *value as u64);
            return Some((16, &[]));
        }
        Data::Float(value) => {
            put(0, node(FLOAT, 0));
            put(8, value.to_bits());
            return Some((16, &[]));
        }
        Data::Complex(real, imaginary) => {
            put(0, node(COMPLEX, 0));
            put(8, real.to_bits());
            put(16, imaginary.to_bits());
            return Some((24, &[]));
        }
        Data::Bytes(bytes) => {
            put(0, node(BYTES, 0));
            put(8, 0);
            put(16, bytes.len() as u64);
            return Some((24, bytes));
        }
        Data::Array(array) => {
            let rank = array.shape.len();
            if rank > RANK || array_bytes(array.dtype, &array.shape) != Some(array.data.len() as u64) {
                return None;
            }
            let types = u64::from(array.dtype as u8) << 8 | u64::from(array.order as u8) << 16;
            put(0, u64::from(ARRAY) | types | (rank as u64) << 24);
            for (at, extent) in array.shape.iter().enumerate() {
                put(8 + 8 * at, *extent);
            }
            put(8 + 8 * rank, 0);
            return Some((16 + 8 * rank, &array.data));
        }
        Data::Text(_) | Data::List(_) | Data::Map(_) => return None,
    }
    Some((8, &[]))
}

/// Decodes a frame of `len` bytes, of which `copy` copies those from an offset on, if it is a message without checksums whose descriptor is
/// as short as [`ShortMessage`] makes them; `None`: only a [`super::Decoder`] can decode it (or say what is wrong).
#[inline]
pub fn short_message(len: usize, copy: impl Fn(usize, &mut [u8]), pool: &BufferPool) -> Option<MessageFrame> {
    let mut front = [0; ROOM];
    let front = &mut front[..len.min(ROOM)];
    copy(0, front);
    let (head, rest) = front.split_first_chunk()?;
    let head = Head::decode(head).ok()?;
    if head.kind != Kind::Message || head.flags & !HAS_NEXT != 0 || head.length + HEAD as u64 != len as u64 {
        return None;
    }
    let (prefix, rest) = rest.split_at_checked(PREFIX)?;
    let prefix = Prefix::decode(&head, prefix).ok()?;
    let descriptor = rest.get(..prefix.descriptor_len as usize)?;
    let at = DESCRIPTOR + descriptor.len();
    let payload = match len - at {
        0 => Buffer::empty(),
        payload_len => {
            let mut payload = pool.take(payload_len).ok()?;
            copy(at, &mut payload);
            payload.freeze()
        }
    };
    MessageFrame::decode(&head, prefix, descriptor, payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::data::{Array, Dtype, Order};
    use crate::frame::encode_message;

    fn both(data: Data) -> (Option<Vec<u8>>, Vec<u8>) {
        let message = Message { timestamp: 1.5, next_timestamp: Some(2.5), data };
        let short = ShortMessage::encode(7, 3, Some(2), &message).map(|short| {
            let bytes: Vec<u8> = [short.front(), short.payload()].concat();
            assert_eq!(short.frame_len(), bytes.len() as u64);
            bytes
        });
        (short, encode_message(7, 3, Some(2), &message).unwrap().slices().collect::<Vec<_>>().concat())
    }

    #[test]
    fn a_short_message_is_encoded_as_any_other() {
        let array = |shape: &[u64]| {
            let elements = vec![0.5_f32; shape.iter().product::<u64>() as usize];
            Data::from(Array::from_slice(shape, &elements).unwrap())
        };
        let columns = Buffer::copy_of(&[1; 12]);
        let columns = Data::from(Array::new(Dtype::I16, Order::ColumnMajor, vec![2, 3], columns).unwrap());
        let numbers = [Data::Bool(true), Data::Bool(false), Data::Int(-3), Data::Float(0.1), Data::Complex(1.0, -2.0)];
        let arrays = [array(&[]), array(&[3]), array(&[2, 0, 4]), array(&[1, 2, 1, 2, 1, 2]), columns];
        let bytes = [Data::Bytes(Buffer::empty()), Data::Bytes(Buffer::copy_of(b"12345")), Data::Nothing];
        for data in numbers.into_iter().chain(arrays).chain(bytes) {
            let (short, general) = both(data);
            assert_eq!(short, Some(general));
        }
    }

    #[test]
    fn what_has_several_parts_or_many_dimensions_goes_the_general_way() {
        let deep = Data::from(Array::from_slice(&[1; RANK + 1], &[1_u8]).unwrap());
        for data in [Data::from("text"), Data::List(vec![Data::Nothing]), Data::Map(vec![]), deep] {
            assert_eq!(both(data).0, None);
        }
    }

    #[test]
    fn an_array_that_does_not_fit_its_shape_is_left_to_who_says_so() {
        let data = Buffer::copy_of(&[0; 8]);
        let data = Data::Array(Array { dtype: Dtype::F64, order: Order::RowMajor, shape: vec![2].into(), data });
        assert!(ShortMessage::encode(1, 1, None, &Message { data, ..Message::default() }).is_none());
    }
}
