//! The descriptor of a payload: what the bytes behind it mean.
//!
//! A descriptor is a tree of nodes; each is a multiple of 8 bytes long and begins with its tag. Texts, bytes and the elements
//! of arrays stand in the payload; their nodes say where: at offsets that are multiples of 8, in ascending order, without overlap, and
//! to the payload's end. A leaf without bytes has the offset 0.
//!
//! | tag | node |
//! |---|---|
//! | 0 nothing | u8 tag, 7 zeros |
//! | 1 truth value | u8 tag, u8 0 or 1, 6 zeros |
//! | 2 integer | u8 tag, 7 zeros, i64 |
//! | 3 real | u8 tag, 7 zeros, f64 |
//! | 4 complex | u8 tag, 7 zeros, f64 real part, f64 imaginary part |
//! | 5 text, 6 bytes | u8 tag, 7 zeros, u64 offset, u64 length |
//! | 7 array | u8 tag, u8 dtype, u8 order, u8 rank, u32 0, u64 extents\[rank\], u64 offset |
//! | 8 list | u8 tag, 7 zeros, u64 number of items, items |
//! | 9 map | u8 tag, 7 zeros, u64 number of entries; for each: u32 length of the key, key in UTF-8, zeros up to a multiple of 8, value |
//! | 10 bytes, here | u8 tag, 7 zeros, u64 length (at most 1024), the bytes, zeros up to a multiple of 8 |

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::buffer::{Buffer, BufferPool};
use crate::data::{array_bytes, Array, Data, Dtype, Order, Shape};
use crate::error::{Error, Result};
use crate::frame::{descriptor_error, padding, FrameError, Reader};

/// How deep lists and maps may be nested.
pub const MAX_DEPTH: usize = 64;

/// How many dimensions an array may have.
pub const MAX_RANK: usize = 64;

/// Offsets in the payload are multiples of this.
const PAYLOAD_ALIGNMENT: u64 = 8;

/// The bytes of a frame up to its payload: those of most messages (an array has up to eight dimensions) need no memory of their own.
pub type Front = SmallVec<[u8; 128]>;

/// The pieces of a payload; most have one.
pub type Pieces = SmallVec<[Buffer; 1]>;

/// What goes before a descriptor in a frame has at most so many bytes.
const FRONT_ROOM: usize = 64;

/// Room made for children before they are seen; more is made as they come.
const BELIEVED: usize = 1024;

pub(crate) const NOTHING: u8 = 0;
pub(crate) const BOOL: u8 = 1;
pub(crate) const INT: u8 = 2;
pub(crate) const FLOAT: u8 = 3;
pub(crate) const COMPLEX: u8 = 4;
const TEXT: u8 = 5;
pub(crate) const BYTES: u8 = 6;
pub(crate) const ARRAY: u8 = 7;
const LIST: u8 = 8;
const MAP: u8 = 9;
const BYTES_HERE: u8 = 10;

/// Bytes of a list that are no more than these stand in the descriptor. So an array that they describe remains the only piece of the payload,
/// which can be lent where it lies.
const MOST_BYTES_HERE: usize = 1024;

/// Data taken apart: the descriptor, and the payload as pieces that are shared with the data, not copied.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// A multiple of 8 bytes.
    pub descriptor: Front,
    /// One after the other they are the payload; zeros that align the next piece are pieces too.
    pub payload: Pieces,
    /// Bytes of all pieces.
    pub payload_len: u64,
}

impl Layout {
    /// Takes `data` apart, without copying arrays and bytes.
    pub fn of(data: &Data) -> Result<Layout> {
        Layout::behind(0, data)
    }

    /// The same with `room` (at most 64) bytes of zeros in front of the descriptor, for what goes before it in a frame.
    pub(crate) fn behind(room: usize, data: &Data) -> Result<Layout> {
        let mut layout = Layout::default();
        layout.descriptor.extend_from_slice(&[0; FRONT_ROOM][..room]);
        layout.node(data, 0)?;
        Ok(layout)
    }

    fn node(&mut self, data: &Data, depth: usize) -> Result<()> {
        match data {
            Data::Nothing => self.tag(NOTHING, 0),
            Data::Bool(value) => self.tag(BOOL, u8::from(*value)),
            Data::Int(value) => {
                self.tag(INT, 0);
                self.descriptor.extend_from_slice(&value.to_le_bytes());
            }
            Data::Float(value) => {
                self.tag(FLOAT, 0);
                self.descriptor.extend_from_slice(&value.to_le_bytes());
            }
            Data::Complex(real, imaginary) => {
                self.tag(COMPLEX, 0);
                self.descriptor.extend_from_slice(&real.to_le_bytes());
                self.descriptor.extend_from_slice(&imaginary.to_le_bytes());
            }
            Data::Text(text) => {
                self.tag(TEXT, 0);
                self.leaf(Buffer::copy_of(text.as_bytes()));
                self.u64(text.len() as u64);
            }
            Data::Bytes(bytes) => {
                self.tag(BYTES, 0);
                self.leaf(bytes.clone());
                self.u64(bytes.len() as u64);
            }
            Data::Array(array) => self.array(array)?,
            Data::List(items) => {
                check_depth(depth)?;
                self.tag(LIST, 0);
                self.u64(items.len() as u64);
                for item in items {
                    match item {
                        Data::Bytes(bytes) if bytes.len() <= MOST_BYTES_HERE => self.bytes_here(bytes),
                        _ => self.node(item, depth + 1)?,
                    }
                }
            }
            Data::Map(entries) => {
                check_depth(depth)?;
                self.tag(MAP, 0);
                self.u64(entries.len() as u64);
                let mut keys = HashSet::with_capacity(entries.len());
                for (key, value) in entries {
                    if !keys.insert(key) {
                        return Err(unusable(format!("a map has the key \"{key}\" twice")));
                    }
                    self.key(key)?;
                    self.node(value, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn array(&mut self, array: &Array) -> Result<()> {
        if array.shape.len() > MAX_RANK {
            let rank = array.shape.len();
            return Err(unusable(format!("an array of rank {rank}; at most {MAX_RANK} is possible")));
        }
        if array_bytes(array.dtype, &array.shape) != Some(array.data.len() as u64) {
            return Err(unusable("an array whose shape does not fit its bytes".into()));
        }
        push_array_node(&mut self.descriptor, array.dtype, array.order, &array.shape);
        self.leaf(array.data.clone());
        Ok(())
    }

    fn bytes_here(&mut self, bytes: &[u8]) {
        self.tag(BYTES_HERE, 0);
        self.u64(bytes.len() as u64);
        self.descriptor.extend_from_slice(bytes);
        self.descriptor.resize(self.descriptor.len() + padding(bytes.len()), 0);
    }

    fn tag(&mut self, tag: u8, value: u8) {
        self.descriptor.extend_from_slice(&[tag, value, 0, 0, 0, 0, 0, 0]);
    }

    fn u64(&mut self, value: u64) {
        self.descriptor.extend_from_slice(&value.to_le_bytes());
    }

    fn key(&mut self, key: &str) -> Result<()> {
        let len = u32::try_from(key.len()).map_err(|_| unusable("a key of 4 GiB".into()))?;
        self.descriptor.extend_from_slice(&len.to_le_bytes());
        self.descriptor.extend_from_slice(key.as_bytes());
        self.descriptor.resize(self.descriptor.len() + padding(4 + key.len()), 0);
        Ok(())
    }

    /// Puts `bytes` into the payload and their offset into the descriptor.
    fn leaf(&mut self, bytes: Buffer) {
        if bytes.is_empty() {
            return self.u64(0);
        }
        let gap = self.payload_len.wrapping_neg() % PAYLOAD_ALIGNMENT;
        if gap > 0 {
            self.payload.push(Buffer::copy_of(&[0; PAYLOAD_ALIGNMENT as usize][..gap as usize]));
            self.payload_len += gap;
        }
        self.u64(self.payload_len);
        self.payload_len += bytes.len() as u64;
        self.payload.push(bytes);
    }
}

fn check_depth(depth: usize) -> Result<()> {
    match depth < MAX_DEPTH {
        true => Ok(()),
        false => Err(unusable(format!("lists and maps nested more than {MAX_DEPTH} deep"))),
    }
}

fn unusable(what: String) -> Error {
    Error::Usage { problem: format!("this cannot be sent: {what}") }
}

/// Appends tag, dtype, order, rank and extents of an array; the offset follows.
pub(crate) fn push_array_node(descriptor: &mut Front, dtype: Dtype, order: Order, shape: &[u64]) {
    descriptor.extend_from_slice(&[ARRAY, dtype as u8, order as u8, shape.len() as u8, 0, 0, 0, 0]);
    for extent in shape {
        descriptor.extend_from_slice(&extent.to_le_bytes());
    }
}

/// Puts data together again: arrays and bytes are views into `payload`.
pub fn decode(descriptor: &[u8], payload: &Buffer) -> std::result::Result<Data, FrameError> {
    if let Some(data) = decode_plain(descriptor, payload) {
        return Ok(data);
    }
    let mut decoder = Decoder { reader: Reader::new(descriptor), payload, used: 0 };
    let data = decoder.node(0)?;
    decoder.reader.end()?;
    match payload.len() as u64 - decoder.used {
        0 => Ok(data),
        bytes => Err(FrameError::LeftOver { bytes }),
    }
}

/// One number, one array, or nothing, as in most messages; `None`: it is something else, or says something impossible.
fn decode_plain(descriptor: &[u8], payload: &Buffer) -> Option<Data> {
    let number = |at: usize| Some(u64::from_le_bytes(*descriptor.get(at..)?.first_chunk()?));
    let first = number(0)?;
    let [tag, dtype, order, rank, 0, 0, 0, 0] = first.to_le_bytes() else { return None };
    if tag == ARRAY {
        let rank = usize::from(rank);
        if descriptor.len() != 16 + 8 * rank || rank > MAX_RANK || number(8 + 8 * rank)? != 0 {
            return None;
        }
        let order = match order {
            0 => Order::RowMajor,
            1 => Order::ColumnMajor,
            _ => return None,
        };
        let dtype = Dtype::from_code(dtype).filter(|dtype| *dtype != Dtype::Bool)?;
        let mut shape = Shape::with_capacity(rank);
        for at in 1..=rank {
            shape.push(number(8 * at)?);
        }
        let fits = array_bytes(dtype, &shape) == Some(payload.len() as u64);
        return fits.then(|| Data::Array(Array { dtype, order, shape, data: payload.clone() }));
    }
    if !payload.is_empty() || first != u64::from(tag) {
        return None;
    }
    match (tag, descriptor.len()) {
        (NOTHING, 8) => Some(Data::Nothing),
        (INT, 16) => Some(Data::Int(number(8)? as i64)),
        (FLOAT, 16) => Some(Data::Float(f64::from_bits(number(8)?))),
        _ => None,
    }
}

struct Decoder<'a> {
    reader: Reader<'a>,
    payload: &'a Buffer,
    /// End of the last leaf; the next one does not begin before it.
    used: u64,
}

impl<'a> Decoder<'a> {
    fn node(&mut self, depth: usize) -> std::result::Result<Data, FrameError> {
        let tag = self.reader.u8()?;
        if tag == ARRAY {
            return self.array().map(Data::Array);
        }
        let value = self.reader.u8()?;
        self.reader.zeros(6)?;
        if value != 0 && !(tag == BOOL && value == 1) {
            return Err(descriptor_error(format!("node {tag} with the value {value}")));
        }
        Ok(match tag {
            NOTHING => Data::Nothing,
            BOOL => Data::Bool(value == 1),
            INT => Data::Int(i64::from_le_bytes(self.reader.array()?)),
            FLOAT => Data::Float(self.reader.f64()?),
            COMPLEX => Data::Complex(self.reader.f64()?, self.reader.f64()?),
            TEXT => {
                let bytes = self.leaf()?;
                // Copied before it is checked: what a peer has lent it could still change.
                Data::Text(String::from_utf8(bytes.to_vec()).map_err(|_| FrameError::NotText)?)
            }
            BYTES => Data::Bytes(self.leaf()?),
            BYTES_HERE => {
                let length = self.reader.u64()?;
                let length = usize::try_from(length).ok().filter(|length| *length <= MOST_BYTES_HERE);
                let length = length.ok_or_else(|| descriptor_error("more bytes than may stand here"))?;
                let bytes = Buffer::copy_of(self.reader.bytes(length)?);
                self.reader.zeros(padding(length))?;
                Data::Bytes(bytes)
            }
            LIST => {
                let count = self.count(depth, 8)?;
                let mut items = Vec::with_capacity(count.min(BELIEVED));
                for _ in 0..count {
                    items.push(self.node(depth + 1)?);
                }
                Data::List(items)
            }
            MAP => {
                let count = self.count(depth, 16)?;
                let mut entries = Vec::with_capacity(count.min(BELIEVED));
                let mut keys = HashSet::with_capacity(count.min(BELIEVED));
                for _ in 0..count {
                    let key = self.key()?;
                    if !keys.insert(key) {
                        return Err(descriptor_error(format!("the key \"{key}\" stands twice")));
                    }
                    entries.push((key.to_owned(), self.node(depth + 1)?));
                }
                Data::Map(entries)
            }
            _ => return Err(descriptor_error(format!("unknown tag {tag}"))),
        })
    }

    /// The number of children, each of at least `least` bytes: more than can stand here is refused before it is believed.
    fn count(&mut self, depth: usize, least: usize) -> std::result::Result<usize, FrameError> {
        if depth >= MAX_DEPTH {
            return Err(descriptor_error(format!("nested more than {MAX_DEPTH} deep")));
        }
        let count = self.reader.u64()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.reader.remaining() / least => Ok(count),
            _ => Err(descriptor_error(format!("{count} children where none can stand"))),
        }
    }

    fn array(&mut self) -> std::result::Result<Array, FrameError> {
        let (dtype, order, rank) = (self.reader.u8()?, self.reader.u8()?, self.reader.u8()?);
        self.reader.zeros(4)?;
        let (dtype, order, shape) = array_node(&mut self.reader, dtype, order, rank)?;
        let len = array_bytes(dtype, &shape).ok_or_else(|| descriptor_error("an array larger than any memory"))?;
        let offset = self.reader.u64()?;
        let data = self.part(offset, len)?;
        if dtype == Dtype::Bool && data.iter().any(|&byte| byte > 1) {
            return Err(descriptor_error("a truth value that is neither 0 nor 1"));
        }
        Ok(Array { dtype, order, shape, data })
    }

    fn leaf(&mut self) -> std::result::Result<Buffer, FrameError> {
        let (offset, len) = (self.reader.u64()?, self.reader.u64()?);
        self.part(offset, len)
    }

    fn part(&mut self, offset: u64, len: u64) -> std::result::Result<Buffer, FrameError> {
        let end = offset.checked_add(len).filter(|_| offset % PAYLOAD_ALIGNMENT == 0);
        match end {
            Some(0) => Ok(Buffer::empty()),
            Some(end) if end == offset => Err(descriptor_error("nothing at an offset other than 0")),
            Some(end) if offset >= self.used && end <= self.payload.len() as u64 => {
                self.used = end;
                Ok(self.payload.slice(offset as usize..end as usize))
            }
            _ => Err(descriptor_error(format!("{len} bytes at {offset} of a payload of {}", self.payload.len()))),
        }
    }

    fn key(&mut self) -> std::result::Result<&'a str, FrameError> {
        let len = self.reader.u32()? as usize;
        let bytes = self.reader.bytes(len)?;
        self.reader.zeros(padding(4 + len))?;
        std::str::from_utf8(bytes).map_err(|_| FrameError::NotText)
    }
}

/// Checks type, order and rank of an array node and reads its extents.
pub(crate) fn array_node(
    reader: &mut Reader<'_>,
    dtype: u8,
    order: u8,
    rank: u8,
) -> std::result::Result<(Dtype, Order, Shape), FrameError> {
    let dtype = Dtype::from_code(dtype).ok_or_else(|| descriptor_error(format!("unknown element type {dtype}")))?;
    let order = match order {
        0 => Order::RowMajor,
        1 => Order::ColumnMajor,
        _ => return Err(descriptor_error(format!("unknown order {order}"))),
    };
    if usize::from(rank) > MAX_RANK {
        return Err(descriptor_error(format!("an array of rank {rank}")));
    }
    let shape = (0..rank).map(|_| reader.u64()).collect::<std::result::Result<_, _>>()?;
    Ok((dtype, order, shape))
}

/// Data as one piece of bytes, as `serialize` makes them: u64 length of the descriptor, descriptor, payload.
pub fn to_bytes(data: &Data, pool: &BufferPool) -> Result<Buffer> {
    let layout = Layout::of(data)?;
    let total = 8 + layout.descriptor.len() as u64 + layout.payload_len;
    let no_memory = |bytes| Error::Usage { problem: format!("there is no memory for {bytes} bytes") };
    let len = usize::try_from(total).map_err(|_| no_memory(total))?;
    let mut bytes = pool.take(len).map_err(|_| no_memory(total))?;
    let mut at = 0;
    let mut put = |part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    };
    put(&(layout.descriptor.len() as u64).to_le_bytes());
    put(&layout.descriptor);
    layout.payload.iter().for_each(|piece| put(piece));
    Ok(bytes.freeze())
}

/// The inverse of [`to_bytes`]; arrays and bytes are views into `bytes`.
pub fn from_bytes(bytes: &Buffer) -> std::result::Result<Data, FrameError> {
    let mut reader = Reader::new(bytes);
    let len = usize::try_from(reader.u64()?).map_err(|_| FrameError::TooShort)?;
    // Copied before it is checked: what a peer has lent it could still change.
    let descriptor = reader.bytes(len)?.to_vec();
    decode(&descriptor, &bytes.slice(8 + len..bytes.len()))
}
