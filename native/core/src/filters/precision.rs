//! Fewer bits per number on the wire: `precision` at the sender, `restore` at the receiver, who gets arrays of the type that was sent.
//!
//! Arrays of float64, complex128, float32 and complex64 are rounded, wherever they stand in the data; all other data pass as they are.
//! Rounding is to nearest, ties to even. What travels is a list of two: the data with the rounded arrays in place of the
//! originals, and for each array, in the order in which they stand, two integers: its type and how it was rounded.

use half::{bf16, f16};

use xmml_wire::buffer::{BufferMut, BufferPool};
use xmml_wire::data::{Array, Data, Dtype};
use xmml_wire::frame::descriptor::MAX_RANK;
use xmml_wire::message::Message;

use super::{Filter, Problem};

/// What numbers become on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// IEEE single: 24 bits of precision, up to 3.4e38.
    Float32,
    /// IEEE half: 11 bits of precision, up to 65504.
    Float16,
    /// 8 bits of precision with the range of float32.
    Bfloat16,
    /// As many leading bytes of each number as the tolerance needs; the whole range of the type.
    Within(f64),
}

impl Form {
    /// The form called `name`.
    pub fn named(name: &str) -> Result<Form, Problem> {
        match name.trim() {
            "float32" => Ok(Form::Float32),
            "float16" => Ok(Form::Float16),
            "bfloat16" => Ok(Form::Bfloat16),
            other => Err(format!("to must be float32, float16 or bfloat16, not \"{other}\"; or give a tolerance")),
        }
    }

    /// Numbers that differ from the original by at most this part of it.
    pub fn within(tolerance: f64) -> Result<Form, Problem> {
        if tolerance > 0.0 && tolerance < 1.0 {
            Ok(Form::Within(tolerance))
        } else {
            Err(format!("tolerance must lie between 0 and 1, not be {tolerance}"))
        }
    }

    /// How this form stands on the wire for numbers of `bytes` bytes; `None`: they stay as they are.
    fn code(self, bytes: usize) -> Option<Code> {
        match self {
            Form::Float32 if bytes == 8 => Some(Code::Float32),
            Form::Float32 => None,
            Form::Float16 => Some(Code::Float16),
            Form::Bfloat16 => Some(Code::Bfloat16),
            Form::Within(tolerance) => {
                // A number of k bytes has a sign, the exponent, and the rest as fraction; rounding errs by half of its last bit.
                let exponent = if bytes == 8 { 11 } else { 8 };
                let fits = |kept: &usize| 0.5_f64.powi(8 * *kept as i32 - 1 - exponent + 1) <= tolerance;
                (2..bytes).find(fits).map(|kept| Code::Leading(kept as u8))
            }
        }
    }
}

/// A rounded array has up to so many extents more than the original.
const MORE_EXTENTS: usize = 2;

/// How the numbers of an array stand on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Float32,
    Float16,
    Bfloat16,
    /// The leading bytes, so many of each: all first bytes, then all second ones, ...
    Leading(u8),
}

/// On the wire: the array was not rounded.
const AS_IT_IS: i64 = 0;

impl Code {
    fn number(self) -> i64 {
        match self {
            Code::Float32 => 1,
            Code::Float16 => 2,
            Code::Bfloat16 => 3,
            Code::Leading(kept) => 16 + i64::from(kept),
        }
    }

    fn from_number(number: i64) -> Option<Code> {
        match number {
            1 => Some(Code::Float32),
            2 => Some(Code::Float16),
            3 => Some(Code::Bfloat16),
            18..=23 => Some(Code::Leading((number - 16) as u8)),
            _ => None,
        }
    }

    /// Type and bytes per number on the wire.
    fn wire(self) -> (Dtype, usize) {
        match self {
            Code::Float32 => (Dtype::F32, 4),
            Code::Float16 | Code::Bfloat16 => (Dtype::U16, 2),
            Code::Leading(kept) => (Dtype::U8, usize::from(kept)),
        }
    }
}

/// Bytes of the real numbers that an array is made of, and how many make an element; `None`: it has no real numbers.
fn reals(dtype: Dtype) -> Option<(usize, usize)> {
    match dtype {
        Dtype::F64 => Some((8, 1)),
        Dtype::C128 => Some((8, 2)),
        Dtype::F32 => Some((4, 1)),
        Dtype::C64 => Some((4, 2)),
        _ => None,
    }
}

/// Rounds arrays of real and complex numbers.
pub struct Reduce {
    form: Form,
    pool: BufferPool,
}

impl Reduce {
    /// To this form.
    pub fn new(form: Form) -> Reduce {
        Reduce { form, pool: BufferPool::new() }
    }

    fn reduce(&self, data: Data, notes: &mut Vec<Data>) -> Result<Data, Problem> {
        Ok(match data {
            Data::Array(array) => Data::Array(self.array(array, notes)?),
            Data::List(items) => {
                Data::List(items.into_iter().map(|item| self.reduce(item, notes)).collect::<Result<_, _>>()?)
            }
            Data::Map(entries) => Data::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| Ok((key, self.reduce(value, notes)?)))
                    .collect::<Result<_, Problem>>()?,
            ),
            other => other,
        })
    }

    fn array(&self, array: Array, notes: &mut Vec<Data>) -> Result<Array, Problem> {
        let has_room = array.shape.len() + MORE_EXTENTS <= MAX_RANK;
        let code = reals(array.dtype).filter(|_| has_room).and_then(|(bytes, _)| self.form.code(bytes));
        notes.push(Data::Int(i64::from(array.dtype as u8)));
        notes.push(Data::Int(code.map_or(AS_IT_IS, Code::number)));
        let (Some(code), Some((bytes, parts))) = (code, reals(array.dtype)) else { return Ok(array) };
        let (dtype, wide) = code.wire();
        let count = array.data.len() / bytes;
        let mut out = self.pool.take(count * wide).map_err(|none| none.to_string())?;
        let numbers = array.data.chunks_exact(bytes).map(real);
        match code {
            Code::Leading(kept) => leading(&array.data, bytes, usize::from(kept), &mut out),
            _ => {
                for (number, place) in numbers.zip(out.chunks_exact_mut(wide)) {
                    narrow(number, code, place)?;
                }
            }
        }
        let mut shape = array.shape;
        shape.extend(extents(code, parts));
        Array::new(dtype, array.order, shape, out.freeze()).map_err(|error| error.to_string())
    }
}

/// The extents behind those of the array: parts of a complex number, leading bytes.
fn extents(code: Code, parts: usize) -> Vec<u64> {
    let bytes = if let Code::Leading(kept) = code { vec![u64::from(kept)] } else { vec![] };
    let parts = if parts > 1 { vec![parts as u64] } else { vec![] };
    [parts, bytes].concat()
}

fn real(bytes: &[u8]) -> f64 {
    match bytes.try_into() {
        Ok(double) => f64::from_le_bytes(double),
        Err(_) => f64::from(f32::from_le_bytes(bytes.try_into().unwrap_or_default())),
    }
}

fn narrow(number: f64, code: Code, place: &mut [u8]) -> Result<(), Problem> {
    let too_large = |what: &str, most: f64| {
        Err(format!("{number} does not fit into {what} (at most {most}); use a tolerance instead, or another form"))
    };
    match code {
        Code::Float32 => {
            let narrow = number as f32;
            if narrow.is_infinite() && number.is_finite() {
                return too_large("float32", f64::from(f32::MAX));
            }
            place.copy_from_slice(&narrow.to_le_bytes());
        }
        Code::Float16 => {
            let narrow = f16::from_f64(number);
            if narrow.is_infinite() && number.is_finite() {
                return too_large("float16", f16::MAX.to_f64());
            }
            place.copy_from_slice(&narrow.to_le_bytes());
        }
        Code::Bfloat16 => {
            let narrow = bf16::from_f64(number);
            if narrow.is_infinite() && number.is_finite() {
                return too_large("bfloat16", bf16::MAX.to_f64());
            }
            place.copy_from_slice(&narrow.to_le_bytes());
        }
        Code::Leading(_) => {}
    }
    Ok(())
}

/// The `kept` leading bytes of each number after rounding.
fn leading(data: &[u8], bytes: usize, kept: usize, out: &mut [u8]) {
    let count = data.len() / bytes;
    for (at, number) in data.chunks_exact(bytes).enumerate() {
        let bits = match <[u8; 8]>::try_from(number) {
            Ok(double) => rounded(u64::from_le_bytes(double), kept, 0x7ff0_0000_0000_0000),
            Err(_) => {
                let single = u32::from_le_bytes(number.try_into().unwrap_or_default());
                rounded(u64::from(single) << 32, kept, 0x7f80_0000_0000_0000)
            }
        };
        for (plane, byte) in bits.to_be_bytes()[..kept].iter().enumerate() {
            out[plane * count + at] = *byte;
        }
    }
}

/// `bits` (a number whose exponent, all ones, is `infinite`) rounded to `kept` leading bytes.
fn rounded(bits: u64, kept: usize, infinite: u64) -> u64 {
    let dropped = 64 - 8 * kept as u32;
    let exponent = bits & infinite;
    if exponent == infinite {
        // A NaN must stay one although the bit that made it one may lie in what is dropped.
        let is_nan = bits & !infinite & (u64::MAX >> 1) != 0;
        let quiet = if is_nan { (infinite >> 1) & !infinite } else { 0 };
        return bits & !((1 << dropped) - 1) | quiet;
    }
    let half = 1_u64 << (dropped - 1);
    let odd = (bits >> dropped) & 1;
    let up = bits.wrapping_add(half - 1 + odd);
    // Rounding the largest numbers up would make them infinite.
    if up & infinite == infinite {
        bits
    } else {
        up
    }
}

impl Filter for Reduce {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn size_ratio(&self) -> f64 {
        self.form.code(8).map_or(1.0, |code| code.wire().1 as f64 / 8.0)
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let mut notes = Vec::new();
        let reduced = self.reduce(message.data, &mut notes)?;
        let data = Data::List(vec![reduced, Data::List(notes)]);
        out.push(Message { data, ..message });
        Ok(())
    }
}

/// The inverse of [`Reduce`], but for what was rounded away.
#[derive(Default)]
pub struct Restore {
    pool: BufferPool,
}

impl Restore {
    /// The data with their arrays in the types that they had.
    pub fn restore(&self, data: Data) -> Result<Data, Problem> {
        let strange = || "the message was not made by precision".to_owned();
        let Data::List(pair) = data else { return Err(strange()) };
        let [reduced, Data::List(notes)] = <[Data; 2]>::try_from(pair).map_err(|_| strange())? else {
            return Err(strange());
        };
        let mut notes = notes.iter().map(|note| match note {
            Data::Int(number) => Some(*number),
            _ => None,
        });
        let data = self.tree(reduced, &mut notes)?;
        if notes.next().is_some() {
            return Err(strange());
        }
        Ok(data)
    }

    fn tree(&self, data: Data, notes: &mut dyn Iterator<Item = Option<i64>>) -> Result<Data, Problem> {
        Ok(match data {
            Data::Array(array) => Data::Array(self.array(array, notes)?),
            Data::List(items) => {
                Data::List(items.into_iter().map(|item| self.tree(item, notes)).collect::<Result<_, _>>()?)
            }
            Data::Map(entries) => Data::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| Ok((key, self.tree(value, notes)?)))
                    .collect::<Result<_, Problem>>()?,
            ),
            other => other,
        })
    }

    fn array(&self, mut array: Array, notes: &mut dyn Iterator<Item = Option<i64>>) -> Result<Array, Problem> {
        let mut note = || notes.next().flatten().ok_or("the message says too little about its arrays");
        let (dtype, code) = (note()?, note()?);
        if code == AS_IT_IS {
            return Ok(array);
        }
        let strange =
            || format!("{} cannot be restored to type {dtype} from form {code}", Data::Array(array.clone()).describe());
        let dtype = u8::try_from(dtype).ok().and_then(Dtype::from_code);
        let (dtype, code) = dtype.zip(Code::from_number(code)).ok_or_else(strange)?;
        let (bytes, parts) = reals(dtype).ok_or_else(strange)?;
        let (wire, wide) = code.wire();
        let behind = extents(code, parts);
        let rank = array.shape.len().checked_sub(behind.len()).ok_or_else(strange)?;
        if array.dtype != wire || array.shape[rank..] != behind || wide > bytes {
            return Err(strange());
        }
        let count = array.data.len() / wide;
        let mut out = self.pool.take(count.saturating_mul(bytes)).map_err(|none| none.to_string())?;
        match code {
            Code::Leading(_) => from_leading(&array.data, bytes, wide, &mut out),
            _ => {
                for (narrow, place) in array.data.chunks_exact(wide).zip(out.chunks_exact_mut(bytes)) {
                    put(widened(narrow, code), place);
                }
            }
        }
        array.shape.truncate(rank);
        Array::new(dtype, array.order, array.shape, out.freeze()).map_err(|error| error.to_string())
    }
}

fn widened(bytes: &[u8], code: Code) -> f64 {
    let short = || bytes.try_into().map(u16::from_le_bytes).unwrap_or_default();
    match code {
        Code::Float16 => f16::from_bits(short()).to_f64(),
        Code::Bfloat16 => bf16::from_bits(short()).to_f64(),
        _ => real(bytes),
    }
}

fn put(number: f64, place: &mut [u8]) {
    if place.len() == 8 {
        place.copy_from_slice(&number.to_le_bytes());
    } else {
        place.copy_from_slice(&(number as f32).to_le_bytes());
    }
}

fn from_leading(planes: &[u8], bytes: usize, kept: usize, out: &mut BufferMut) {
    let count = planes.len() / kept;
    for (at, place) in out.chunks_exact_mut(bytes).enumerate() {
        let mut number = [0; 8];
        for (plane, byte) in number[..kept].iter_mut().enumerate() {
            *byte = planes[plane * count + at];
        }
        number[..bytes].reverse();
        place.copy_from_slice(&number[..bytes]);
    }
}

impl Filter for Restore {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn size_ratio(&self) -> f64 {
        2.0
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        out.push(Message { data: self.restore(message.data)?, ..message });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
