//! A payload as C reads it: texts end with a 0 byte, arrays are aligned, and elements keep their address.

use xmml_wire::buffer::Buffer;
use xmml_wire::data::{Array, Data, Dtype, Order};

use crate::array::{shape_text, CArray};
use crate::status::{Failure, Result, Status};
use crate::text::CText;

/// Something that a message can carry (`xmml_value`).
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No payload.
    #[default]
    Nothing,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Real and imaginary part.
    Complex([f64; 2]),
    /// UTF-8.
    Text(CText),
    /// Opaque bytes.
    Bytes(Buffer),
    /// A dense array.
    Array(CArray),
    /// An ordered sequence. Boxed: C holds pointers to elements while the list grows.
    #[allow(clippy::vec_box)]
    List(Vec<Box<Value>>),
    /// Keys are unique; the order is that of insertion.
    Map(Vec<(CText, Box<Value>)>),
}

impl From<Data> for Value {
    fn from(data: Data) -> Value {
        match data {
            Data::Nothing => Value::Nothing,
            Data::Bool(truth) => Value::Bool(truth),
            Data::Int(number) => Value::Int(number),
            Data::Float(number) => Value::Float(number),
            Data::Complex(real, imaginary) => Value::Complex([real, imaginary]),
            Data::Text(text) => Value::Text(text.into()),
            Data::Bytes(bytes) => Value::Bytes(bytes),
            Data::Array(array) => Value::Array(array.into()),
            Data::List(elements) => Value::List(elements.into_iter().map(|e| Box::new(e.into())).collect()),
            Data::Map(entries) => {
                Value::Map(entries.into_iter().map(|(key, e)| (key.into(), Box::new(e.into()))).collect())
            }
        }
    }
}

/// A single number, whether it came as such or as an array of rank 0.
enum Number {
    Bool(bool),
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

impl Value {
    /// For the core; shares the elements of arrays.
    pub fn to_data(&self) -> Data {
        match self {
            Value::Nothing => Data::Nothing,
            Value::Bool(truth) => Data::Bool(*truth),
            Value::Int(number) => Data::Int(*number),
            Value::Float(number) => Data::Float(*number),
            Value::Complex([real, imaginary]) => Data::Complex(*real, *imaginary),
            Value::Text(text) => Data::Text(text.as_str().to_owned()),
            Value::Bytes(bytes) => Data::Bytes(bytes.clone()),
            Value::Array(array) => Data::Array(array.to_core()),
            Value::List(elements) => Data::List(elements.iter().map(|e| e.to_data()).collect()),
            Value::Map(entries) => {
                Data::Map(entries.iter().map(|(key, e)| (key.as_str().to_owned(), e.to_data())).collect())
            }
        }
    }

    /// For people: what this is.
    pub fn describe(&self) -> String {
        match self {
            Value::Nothing => "nothing".into(),
            Value::Bool(_) => "a bool".into(),
            Value::Int(_) => "an integer".into(),
            Value::Float(_) => "a real number".into(),
            Value::Complex(_) => "a complex number".into(),
            Value::Text(_) => "text".into(),
            Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Value::Array(array) => format!("a {} array of shape {}", array.dtype.name(), shape_text(&array.shape)),
            Value::List(elements) => format!("a list of {}", elements.len()),
            Value::Map(entries) => {
                let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
                format!("a map with the keys [{}]", keys.join(", "))
            }
        }
    }

    /// Levels of lists and maps: 0 for anything else.
    pub fn depth(&self) -> usize {
        match self {
            Value::List(elements) => 1 + elements.iter().map(|e| e.depth()).max().unwrap_or(0),
            Value::Map(entries) => 1 + entries.iter().map(|(_, e)| e.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn number(&self) -> Option<Number> {
        Some(match self {
            Value::Bool(truth) => Number::Bool(*truth),
            Value::Int(number) => Number::Int((*number).into()),
            Value::Float(number) => Number::Float(*number),
            Value::Complex([real, imaginary]) => Number::Complex(*real, *imaginary),
            Value::Array(array) if array.shape.is_empty() => element(array),
            _ => return None,
        })
    }

    /// A truth value.
    pub fn read_bool(&self) -> Result<bool> {
        match self.number() {
            Some(Number::Bool(truth)) => Ok(truth),
            _ => Err(self.mismatch("a bool")),
        }
    }

    /// A whole number.
    pub fn read_int(&self) -> Result<i64> {
        match self.number() {
            Some(Number::Int(number)) => {
                i64::try_from(number).map_err(|_| self.mismatch("an integer of 64 bits with sign"))
            }
            _ => Err(self.mismatch("an integer")),
        }
    }

    /// A real number, or a whole one that a double holds exactly.
    pub fn read_float(&self) -> Result<f64> {
        match self.number() {
            Some(Number::Float(number)) => Ok(number),
            Some(Number::Int(number)) if number as f64 as i128 == number => Ok(number as f64),
            _ => Err(self.mismatch("a real number")),
        }
    }

    /// A complex number, or a real one.
    pub fn read_complex(&self) -> Result<(f64, f64)> {
        match self.number() {
            Some(Number::Complex(real, imaginary)) => Ok((real, imaginary)),
            _ => self.read_float().map(|real| (real, 0.0)).map_err(|_| self.mismatch("a complex number")),
        }
    }

    /// Text.
    pub fn read_text(&self) -> Result<&CText> {
        match self {
            Value::Text(text) => Ok(text),
            _ => Err(self.mismatch("text")),
        }
    }

    /// Bytes.
    pub fn read_bytes(&self) -> Result<&[u8]> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mismatch("bytes")),
        }
    }

    /// An array: its type, order, extents and elements. `None` accepts any type, rank or order.
    pub fn read_array(&self, dtype: Option<Dtype>, rank: Option<usize>, order: Option<Order>) -> Result<ArrayView<'_>> {
        let view = self.as_array(order).filter(|view| {
            dtype.is_none_or(|dtype| dtype == view.dtype) && rank.is_none_or(|rank| rank == view.shape.len())
        });
        view.ok_or_else(|| {
            let dtype = dtype.map_or("any type", Dtype::name);
            match rank {
                Some(rank) => self.mismatch(&format!("an array of {dtype} of rank {rank}")),
                None => self.mismatch(&format!("an array of {dtype}")),
            }
        })
    }

    fn as_array(&self, order: Option<Order>) -> Option<ArrayView<'_>> {
        let scalar = |dtype, data| Some(ArrayView { dtype, order: order.unwrap_or(Order::RowMajor), shape: &[], data });
        match self {
            Value::Array(array) => {
                let order = order.unwrap_or(array.order);
                Some(ArrayView { dtype: array.dtype, order, shape: &array.shape, data: array.data(order) })
            }
            Value::Bool(truth) => scalar(Dtype::Bool, bytes_of(truth)),
            Value::Int(number) => scalar(Dtype::I64, bytes_of(number)),
            Value::Float(number) => scalar(Dtype::F64, bytes_of(number)),
            Value::Complex(parts) => scalar(Dtype::C128, bytes_of(parts)),
            _ => None,
        }
    }

    fn mismatch(&self, expected: &str) -> Failure {
        Failure::new(Status::Type, format!("expected {expected}, but found {}", self.describe()))
    }
}

/// An array where it lies.
#[derive(Debug)]
pub struct ArrayView<'a> {
    pub dtype: Dtype,
    pub order: Order,
    pub shape: &'a [usize],
    pub data: &'a [u8],
}

/// A number without padding.
trait Plain {}
impl Plain for bool {}
impl Plain for i64 {}
impl Plain for f64 {}
impl Plain for [f64; 2] {}

fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: without padding, all of its bytes have a value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn element(array: &CArray) -> Number {
    let bytes = array.data(array.order);
    macro_rules! read {
        ($type:ty, $at:expr) => {{
            const SIZE: usize = size_of::<$type>();
            let mut raw = [0; SIZE];
            raw.copy_from_slice(&bytes[$at * SIZE..($at + 1) * SIZE]);
            <$type>::from_le_bytes(raw)
        }};
    }
    match array.dtype {
        Dtype::Bool => Number::Bool(bytes[0] != 0),
        Dtype::I8 => Number::Int(read!(i8, 0).into()),
        Dtype::I16 => Number::Int(read!(i16, 0).into()),
        Dtype::I32 => Number::Int(read!(i32, 0).into()),
        Dtype::I64 => Number::Int(read!(i64, 0).into()),
        Dtype::U8 => Number::Int(read!(u8, 0).into()),
        Dtype::U16 => Number::Int(read!(u16, 0).into()),
        Dtype::U32 => Number::Int(read!(u32, 0).into()),
        Dtype::U64 => Number::Int(read!(u64, 0).into()),
        Dtype::F32 => Number::Float(read!(f32, 0).into()),
        Dtype::F64 => Number::Float(read!(f64, 0)),
        Dtype::C64 => Number::Complex(read!(f32, 0).into(), read!(f32, 1).into()),
        Dtype::C128 => Number::Complex(read!(f64, 0), read!(f64, 1)),
    }
}

impl From<CArray> for Value {
    fn from(array: CArray) -> Value {
        Value::Array(array)
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Value {
        Value::Array(array.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank_0(dtype: Dtype, bytes: &[u8]) -> Value {
        Value::Array(CArray::copy_of(dtype, Order::RowMajor, &[], bytes).unwrap())
    }

    #[test]
    fn an_array_of_rank_0_is_a_number() {
        assert_eq!(rank_0(Dtype::F32, &1.5f32.to_le_bytes()).read_float().unwrap(), 1.5);
        assert_eq!(rank_0(Dtype::U16, &7u16.to_le_bytes()).read_int().unwrap(), 7);
        assert!(rank_0(Dtype::Bool, &[1]).read_bool().unwrap());
    }

    #[test]
    fn a_number_is_an_array_of_rank_0() {
        let number = Value::Float(2.5);
        let view = number.read_array(Some(Dtype::F64), Some(0), None).unwrap();
        assert_eq!(view.data, 2.5f64.to_ne_bytes());
    }

    #[test]
    fn a_whole_number_is_read_as_a_real_one_only_if_that_is_exact() {
        assert_eq!(Value::Int(1 << 53).read_float().unwrap(), 9_007_199_254_740_992.0);
        assert!(Value::Int((1 << 53) + 1).read_float().is_err());
        assert!(Value::Float(3.0).read_int().is_err());
    }

    #[test]
    fn a_number_too_large_for_a_signed_integer_is_an_error() {
        let huge = rank_0(Dtype::U64, &u64::MAX.to_le_bytes());
        assert_eq!(huge.read_int().unwrap_err().status, Status::Type);
    }

    #[test]
    fn another_type_or_rank_is_an_error_that_names_both() {
        let bytes: Vec<u8> = (0..12).collect();
        let array = Value::Array(CArray::copy_of(Dtype::U8, Order::RowMajor, &[3, 4], &bytes).unwrap());
        let failure = array.read_array(Some(Dtype::F64), Some(1), None).unwrap_err();
        assert_eq!(failure.text, "expected an array of float64 of rank 1, but found a uint8 array of shape (3, 4)");
    }

    #[test]
    fn nested_values_survive_the_way_to_the_core_and_back() {
        let inner = Value::List(vec![Box::new(Value::Int(1)), Box::new(Value::Text("zwei\0drei".into()))]);
        let map = Value::Map(vec![("l".into(), Box::new(inner)), ("n".into(), Box::new(Value::Nothing))]);
        let Value::Map(entries) = Value::from(map.to_data()) else { panic!("not a map") };
        let Value::List(elements) = &*entries[0].1 else { panic!("not a list") };
        assert_eq!(elements[0].read_int().unwrap(), 1);
        assert_eq!(elements[1].read_text().unwrap().len(), 9);
        assert!(matches!(*entries[1].1, Value::Nothing));
    }
}
