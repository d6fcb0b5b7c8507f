//! The values a message can carry: arrays of any rank, scalars, text, bytes, and nested maps and lists of these.

use std::fmt;

use smallvec::SmallVec;

use crate::buffer::{Buffer, BufferPool, OutOfMemory};
use crate::error::{Error, Result};

/// The element type of an array; the discriminant is the code on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Dtype {
    /// One byte, 0 or 1.
    Bool = 0,
    I8 = 1,
    I16 = 2,
    I32 = 3,
    I64 = 4,
    U8 = 5,
    U16 = 6,
    U32 = 7,
    U64 = 8,
    F32 = 9,
    F64 = 10,
    /// Two `f32`: real part, imaginary part.
    C64 = 11,
    /// Two `f64`: real part, imaginary part.
    C128 = 12,
}

impl Dtype {
    /// Size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            Dtype::Bool | Dtype::I8 | Dtype::U8 => 1,
            Dtype::I16 | Dtype::U16 => 2,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::U64 | Dtype::F64 | Dtype::C64 => 8,
            Dtype::C128 => 16,
        }
    }

    /// The type with this code on the wire, or `None`.
    pub const fn from_code(code: u8) -> Option<Dtype> {
        Some(match code {
            0 => Dtype::Bool,
            1 => Dtype::I8,
            2 => Dtype::I16,
            3 => Dtype::I32,
            4 => Dtype::I64,
            5 => Dtype::U8,
            6 => Dtype::U16,
            7 => Dtype::U32,
            8 => Dtype::U64,
            9 => Dtype::F32,
            10 => Dtype::F64,
            11 => Dtype::C64,
            12 => Dtype::C128,
            _ => return None,
        })
    }

    /// Whether elements are whole numbers.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64
        )
    }

    /// The name users see in messages, as numpy spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::I8 => "int8",
            Dtype::I16 => "int16",
            Dtype::I32 => "int32",
            Dtype::I64 => "int64",
            Dtype::U8 => "uint8",
            Dtype::U16 => "uint16",
            Dtype::U32 => "uint32",
            Dtype::U64 => "uint64",
            Dtype::F32 => "float32",
            Dtype::F64 => "float64",
            Dtype::C64 => "complex64",
            Dtype::C128 => "complex128",
        }
    }
}

/// How the elements of an array follow each other in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Order {
    /// Last index fastest (C, numpy's default).
    RowMajor = 0,
    /// First index fastest (Fortran).
    ColumnMajor = 1,
}

/// The extents of an array; few arrays have more dimensions than fit without memory of their own.
pub type Shape = SmallVec<[u64; 4]>;

/// A dense n-dimensional array. Invariant: `data.len()` is the product of `shape` times the element size ([`Array::new`]
/// checks it).
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Element type.
    pub dtype: Dtype,
    /// Memory order of the elements.
    pub order: Order,
    /// Extent of each dimension, as the program that made the array indexes it; empty for rank 0.
    pub shape: Shape,
    /// The elements, little-endian, without gaps.
    pub data: Buffer,
}

/// What a message carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Data {
    /// No payload: only the time stamps count.
    #[default]
    Nothing,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A complex number: real part, imaginary part.
    Complex(f64, f64),
    /// Text in UTF-8.
    Text(String),
    /// Opaque bytes.
    Bytes(Buffer),
    /// A dense array.
    Array(Array),
    /// An ordered sequence.
    List(Vec<Data>),
    /// A mapping from text to values, in the order of insertion; keys are unique.
    Map(Vec<(String, Data)>),
}

/// How many bytes an array of this type and shape has; `None` if that is more than any memory holds (2^63).
///
/// Extents are checked even where another one is zero, so that no later product of them can overflow.
pub fn array_bytes(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    let mut product = dtype.size() as u64;
    for &extent in shape {
        product = product.checked_mul(extent.max(1)).filter(|&bytes| bytes < 1 << 63)?;
    }
    Some(if shape.contains(&0) { 0 } else { product })
}

/// A Rust type that can be an element of an [`Array`].
///
/// # Safety
/// The type is plain data in the layout that [`Dtype`] describes, and every bit pattern is a value of it.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// Its code.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(
            // SAFETY: plain little-endian numbers (or pairs of them) without invalid bit patterns.
            unsafe impl Element for $rust {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )*
    };
}

elements! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64, [f32; 2] => C64, [f64; 2] => C128,
}

#[cfg(target_endian = "big")]
compile_error!("payloads are little-endian and are shown to programs without conversion");

impl Array {
    /// An array over `data`, after checking that type, shape and length agree.
    pub fn new(dtype: Dtype, order: Order, shape: impl Into<Shape>, data: Buffer) -> Result<Array> {
        let shape = shape.into();
        if array_bytes(dtype, &shape) != Some(data.len() as u64) {
            return Err(Error::Usage {
                problem: format!(
                    "an array of {} with shape {} cannot have {} bytes",
                    dtype.name(),
                    ShapeText(&shape),
                    data.len()
                ),
            });
        }
        Ok(Array { dtype, order, shape, data })
    }

    /// A row-major array holding a copy of `elements`.
    pub fn from_slice<T: Element>(shape: &[u64], elements: &[T]) -> Result<Array> {
        // SAFETY: elements are plain data without padding.
        let bytes = unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) };
        Array::new(T::DTYPE, Order::RowMajor, Shape::from_slice(shape), Buffer::copy_of(bytes))
    }

    /// Number of elements: 1 for rank 0, 0 if an extent is 0.
    pub fn len(&self) -> usize {
        self.data.len() / self.dtype.size()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The elements as they lie in memory; `None` if they are of another type (or, in somebody else's memory, not aligned).
    pub fn elements<T: Element>(&self) -> Option<&[T]> {
        if T::DTYPE != self.dtype {
            return None;
        }
        if self.data.is_empty() {
            return Some(&[]);
        }
        // SAFETY: every bit pattern is a value of T.
        let (before, elements, after) = unsafe { self.data.align_to::<T>() };
        (before.is_empty() && after.is_empty()).then_some(elements)
    }
}

impl Data {
    /// What this is, for people: `an array of float64 with shape (3, 4)`.
    pub fn describe(&self) -> String {
        match self {
            Data::Nothing => "nothing".into(),
            Data::Bool(_) => "a truth value".into(),
            Data::Int(_) => "an integer".into(),
            Data::Float(_) => "a real number".into(),
            Data::Complex(..) => "a complex number".into(),
            Data::Text(_) => "text".into(),
            Data::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Data::Array(array) => {
                format!("an array of {} with shape {}", array.dtype.name(), ShapeText(&array.shape))
            }
            Data::List(items) => format!("a list of {}", items.len()),
            Data::Map(entries) => format!("a map of {}", entries.len()),
        }
    }

    /// The same with nothing lent in it ([`Buffer::is_foreign`]): memory that belongs to somebody else is copied into memory from `pool`.
    pub fn owned(self, pool: &BufferPool) -> std::result::Result<Data, OutOfMemory> {
        let mut failed = None;
        let owned = self.with_memory(&mut |buffer: Buffer| match buffer.is_foreign() {
            false => buffer,
            true => pool.copy_of(&buffer).unwrap_or_else(|none| {
                failed = Some(none);
                buffer
            }),
        });
        failed.map_or(Ok(owned), Err)
    }

    /// The same with other memory behind arrays and bytes.
    pub fn with_memory(self, other: &mut impl FnMut(Buffer) -> Buffer) -> Data {
        match self {
            Data::Bytes(bytes) => Data::Bytes(other(bytes)),
            Data::Array(array) => Data::Array(Array { data: other(array.data), ..array }),
            Data::List(items) => Data::List(items.into_iter().map(|item| item.with_memory(other)).collect()),
            Data::Map(entries) => {
                Data::Map(entries.into_iter().map(|(key, value)| (key, value.with_memory(other))).collect())
            }
            plain => plain,
        }
    }

    /// Whether all its arrays and bytes lie in memory that nobody but this value holds, so that it may be written to.
    pub fn owns_its_memory(&self) -> bool {
        let mut memories: Vec<(&Buffer, usize)> = Vec::new();
        self.count_parts(&mut memories);
        memories.iter().all(|(memory, parts)| memory.owners() == *parts && memory.is_writable())
    }

    /// Counts the parts in each memory.
    fn count_parts<'a>(&'a self, memories: &mut Vec<(&'a Buffer, usize)>) {
        match self {
            Data::Bytes(buffer) | Data::Array(Array { data: buffer, .. }) => {
                match memories.iter_mut().rev().find(|(memory, _)| memory.shares_memory_with(buffer)) {
                    Some((_, parts)) => *parts += 1,
                    None => memories.push((buffer, 1)),
                }
            }
            Data::List(items) => items.iter().for_each(|item| item.count_parts(memories)),
            Data::Map(entries) => entries.iter().for_each(|(_, item)| item.count_parts(memories)),
            _ => {}
        }
    }

    /// For programs that write to whatever says that it is writable, however many hold it: if others hold a part of its memory, nothing of
    /// this value says so any more.
    pub fn guarded(self) -> Data {
        match self.owns_its_memory() {
            true => self,
            false => self.with_memory(&mut Buffer::read_only),
        }
    }

    /// How many bytes of payload it holds, scalars and keys not counted.
    pub fn payload_bytes(&self) -> u64 {
        match self {
            Data::Text(text) => text.len() as u64,
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Array(array) => array.data.len() as u64,
            Data::List(items) => items.iter().map(Data::payload_bytes).sum(),
            Data::Map(entries) => entries.iter().map(|(_, value)| value.payload_bytes()).sum(),
            _ => 0,
        }
    }

    /// The value of a key of a map; `None` without that key or if this is no map.
    pub fn get(&self, key: &str) -> Option<&Data> {
        match self {
            Data::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }
}

macro_rules! conversions {
    ($($rust:ty => $make:expr),* $(,)?) => {
        $(
            impl From<$rust> for Data {
                fn from(value: $rust) -> Data {
                    $make(value)
                }
            }
        )*
    };
}

conversions! {
    bool => Data::Bool,
    i64 => Data::Int,
    i32 => |value| Data::Int(i64::from(value)),
    f64 => Data::Float,
    f32 => |value| Data::Float(f64::from(value)),
    &str => |text: &str| Data::Text(text.to_owned()),
    String => Data::Text,
    Buffer => Data::Bytes,
    Array => Data::Array,
    Vec<Data> => Data::List,
}

/// A shape as Python writes a tuple.
pub(crate) struct ShapeText<'a>(pub &'a [u64]);

impl fmt::Display for ShapeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [only] => write!(f, "({only},)"),
            extents => {
                f.write_str("(")?;
                for (at, extent) in extents.iter().enumerate() {
                    write!(f, "{}{extent}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_of_rank_0_has_one_element() {
        let array = Array::from_slice(&[], &[2.5_f64]).unwrap();
        assert_eq!((array.len(), array.elements::<f64>()), (1, Some(&[2.5][..])));
        assert_eq!(Data::from(array).describe(), "an array of float64 with shape ()");
    }

    #[test]
    fn an_array_with_an_extent_of_0_has_no_element() {
        let array = Array::from_slice::<i32>(&[3, 0, 2], &[]).unwrap();
        assert!(array.is_empty());
        assert_eq!(array.elements::<i32>(), Some(&[][..]));
    }

    #[test]
    fn bytes_that_do_not_fit_the_shape_are_refused() {
        let problem = Array::new(Dtype::F64, Order::RowMajor, vec![3], Buffer::copy_of(&[0; 16]));
        assert_eq!(problem.unwrap_err().to_string(), "an array of float64 with shape (3,) cannot have 16 bytes");
    }

    #[test]
    fn a_product_of_extents_that_overflows_is_refused_even_if_one_is_zero() {
        assert_eq!(array_bytes(Dtype::F64, &[1 << 40, 1 << 40]), None);
        assert_eq!(array_bytes(Dtype::U8, &[0, 1 << 40, 1 << 40]), None);
        assert_eq!(array_bytes(Dtype::U8, &[0, 1 << 40]), Some(0));
    }

    #[test]
    fn elements_of_another_type_are_not_reinterpreted() {
        let array = Array::from_slice(&[2], &[1_i64, 2]).unwrap();
        assert_eq!(array.elements::<f64>(), None);
        assert_eq!(array.elements::<i64>(), Some(&[1, 2][..]));
    }
}
