//! The values a message can carry: arrays of any rank, scalars, text, bytes, and nested maps and lists of these.

use crate::buffer::Buffer;

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

/// A dense n-dimensional array. Invariant: `data.len()` is the product of `shape` times the element size.
#[derive(Clone, Debug)]
pub struct Array {
    /// Element type.
    pub dtype: Dtype,
    /// Memory order of the elements.
    pub order: Order,
    /// Extent of each dimension, as the program that made the array indexes it; empty for rank 0.
    pub shape: Vec<u64>,
    /// The elements, little-endian, without gaps.
    pub data: Buffer,
}

/// What a message carries.
#[derive(Clone, Debug, Default)]
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
