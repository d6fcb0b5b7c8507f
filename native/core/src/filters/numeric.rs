//! Arithmetic on the data of messages: arrays of any rank, scalars, and lists and maps of them.
//!
//! float32, float64 and complex values keep their type. Integers keep their type where the result is an integer by construction (a
//! sum, an integral factor) and fits it, which is checked; otherwise they become float64. Truth values, text and bytes are no numbers.

use crate::buffer::BufferMut;
use crate::data::{array_bytes, Array, Data, Dtype};

use super::Problem;

/// The numbers of one scalar or array, widened.
enum Numbers {
    /// Any integer type.
    Whole(Vec<i128>),
    /// Real types; complex ones as pairs.
    Real(Vec<f64>),
}

/// Applies `change` to every number; `whole` says whether integers stay integers (given a factor that is one).
pub fn scale(data: &Data, factor: f64) -> Result<Data, Problem> {
    combine_all(&[data], &|values| match values {
        Values::Real(values) => Value::Real(factor * values[0]),
        Values::Whole(values) if factor.fract() == 0.0 && factor.abs() < 1e18 => {
            Value::Whole(values[0].saturating_mul(factor as i128))
        }
        Values::Whole(values) => Value::Real(factor * values[0] as f64),
    })
}

/// The sum, number by number, in the order given.
pub fn sum(messages: &[Data]) -> Result<Data, Problem> {
    let all: Vec<&Data> = messages.iter().collect();
    combine_all(&all, &|values| match values {
        Values::Real(values) => Value::Real(total(values)),
        Values::Whole(values) => Value::Whole(values.iter().sum()),
    })
}

/// The mean, number by number; integers become float64.
pub fn mean(messages: &[Data]) -> Result<Data, Problem> {
    let all: Vec<&Data> = messages.iter().collect();
    combine_all(&all, &|values| match values {
        Values::Real(values) => Value::Real(total(values) / values.len() as f64),
        Values::Whole(values) => Value::Real(values.iter().sum::<i128>() as f64 / values.len() as f64),
    })
}

/// `a + (b - a) * part`, number by number; integers become float64.
pub fn line(a: &Data, b: &Data, part: f64) -> Result<Data, Problem> {
    combine_all(&[a, b], &|values| {
        let (a, b) = match values {
            Values::Real(values) => (values[0], values[1]),
            Values::Whole(values) => (values[0] as f64, values[1] as f64),
        };
        Value::Real(a + (b - a) * part)
    })
}

/// Adds from the left, beginning with the first value itself, so that a sum of one is that value to the bit.
fn total(values: &[f64]) -> f64 {
    values[1..].iter().fold(values[0], |sum, value| sum + value)
}

/// The numbers at one place of several values.
enum Values<'a> {
    Whole(&'a [i128]),
    Real(&'a [f64]),
}

/// The number that becomes of them.
enum Value {
    Whole(i128),
    Real(f64),
}

type Combine<'a> = &'a dyn Fn(Values<'_>) -> Value;

/// Combines values of one structure, number by number.
fn combine_all(all: &[&Data], combine: Combine<'_>) -> Result<Data, Problem> {
    match all[0] {
        Data::List(first) => {
            let lists = all
                .iter()
                .map(|data| match data {
                    Data::List(items) if items.len() == first.len() => Ok(items),
                    other => Err(differ(all[0], other)),
                })
                .collect::<Result<Vec<_>, _>>()?;
            let items = (0..first.len())
                .map(|at| combine_all(&lists.iter().map(|items| &items[at]).collect::<Vec<_>>(), combine))
                .collect::<Result<_, _>>()?;
            Ok(Data::List(items))
        }
        Data::Map(first) => {
            let entries = first
                .iter()
                .map(|(key, _)| {
                    let values = all
                        .iter()
                        .map(|data| data.get(key).ok_or_else(|| differ(all[0], data)))
                        .collect::<Result<Vec<_>, _>>()?;
                    Ok((key.clone(), combine_all(&values, combine)?))
                })
                .collect::<Result<Vec<_>, Problem>>()?;
            Ok(Data::Map(entries))
        }
        _ => combine_leaves(all, combine),
    }
}

fn combine_leaves(all: &[&Data], combine: Combine<'_>) -> Result<Data, Problem> {
    let first = all[0];
    for other in &all[1..] {
        if !same_form(first, other) {
            return Err(differ(first, other));
        }
    }
    let numbers = all.iter().map(|data| widen(data)).collect::<Result<Vec<_>, _>>()?;
    let count = match &numbers[0] {
        Numbers::Whole(values) => values.len(),
        Numbers::Real(values) => values.len(),
    };
    let mut wholes = Vec::with_capacity(numbers.len());
    let mut reals = Vec::with_capacity(numbers.len());
    let results = (0..count)
        .map(|at| {
            wholes.clear();
            reals.clear();
            for source in &numbers {
                match source {
                    Numbers::Whole(values) => wholes.push(values[at]),
                    Numbers::Real(values) => reals.push(values[at]),
                }
            }
            if reals.is_empty() {
                combine(Values::Whole(&wholes))
            } else {
                combine(Values::Real(&reals))
            }
        })
        .collect::<Vec<_>>();
    narrow(first, &results)
}

fn differ(first: &Data, other: &Data) -> Problem {
    format!("needs messages of one type and shape, but one holds {} and another {}", first.describe(), other.describe())
}

fn same_form(a: &Data, b: &Data) -> bool {
    match (a, b) {
        (Data::Array(a), Data::Array(b)) => a.dtype == b.dtype && a.order == b.order && a.shape == b.shape,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

fn widen(data: &Data) -> Result<Numbers, Problem> {
    Ok(match data {
        Data::Int(value) => Numbers::Whole(vec![i128::from(*value)]),
        Data::Float(value) => Numbers::Real(vec![*value]),
        Data::Complex(re, im) => Numbers::Real(vec![*re, *im]),
        Data::Array(array) if array.dtype != Dtype::Bool => widen_array(array),
        other => return Err(format!("needs numbers, but the message holds {}", other.describe())),
    })
}

fn widen_array(array: &Array) -> Numbers {
    fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
        bytes.chunks_exact(N).map(|chunk| read(chunk.try_into().expect("chunks of N bytes"))).collect()
    }
    let bytes = &array.data[..];
    match array.dtype {
        Dtype::I8 => Numbers::Whole(each(bytes, |b| i128::from(i8::from_le_bytes(b)))),
        Dtype::I16 => Numbers::Whole(each(bytes, |b| i128::from(i16::from_le_bytes(b)))),
        Dtype::I32 => Numbers::Whole(each(bytes, |b| i128::from(i32::from_le_bytes(b)))),
        Dtype::I64 => Numbers::Whole(each(bytes, |b| i128::from(i64::from_le_bytes(b)))),
        Dtype::Bool | Dtype::U8 => Numbers::Whole(each(bytes, |b| i128::from(u8::from_le_bytes(b)))),
        Dtype::U16 => Numbers::Whole(each(bytes, |b| i128::from(u16::from_le_bytes(b)))),
        Dtype::U32 => Numbers::Whole(each(bytes, |b| i128::from(u32::from_le_bytes(b)))),
        Dtype::U64 => Numbers::Whole(each(bytes, |b| i128::from(u64::from_le_bytes(b)))),
        Dtype::F32 | Dtype::C64 => Numbers::Real(each(bytes, |b| f64::from(f32::from_le_bytes(b)))),
        Dtype::F64 | Dtype::C128 => Numbers::Real(each(bytes, f64::from_le_bytes)),
    }
}

/// Puts the results into the form of `template`; integers that became real make it float64.
fn narrow(template: &Data, results: &[Value]) -> Result<Data, Problem> {
    let real = |value: &Value| match value {
        Value::Real(value) => *value,
        Value::Whole(value) => *value as f64,
    };
    Ok(match template {
        Data::Int(_) => match results[0] {
            Value::Whole(value) => Data::Int(i64::try_from(value).map_err(|_| overflow("int64", value))?),
            Value::Real(value) => Data::Float(value),
        },
        Data::Complex(..) => Data::Complex(real(&results[0]), real(&results[1])),
        Data::Array(array) => {
            let whole = results.iter().all(|value| matches!(value, Value::Whole(_)));
            let dtype = match array.dtype {
                kept @ (Dtype::F32 | Dtype::F64 | Dtype::C64 | Dtype::C128) => kept,
                kept if whole => kept,
                _ => Dtype::F64,
            };
            Data::Array(pack(array, dtype, results, &real)?)
        }
        _ => Data::Float(real(&results[0])),
    })
}

fn overflow(name: &str, value: i128) -> Problem {
    format!("the result {value} does not fit {name}")
}

fn pack(template: &Array, dtype: Dtype, results: &[Value], real: &dyn Fn(&Value) -> f64) -> Result<Array, Problem> {
    let len = array_bytes(dtype, &template.shape)
        .and_then(|len| usize::try_from(len).ok())
        .ok_or("the result is larger than the memory")?;
    let mut data = BufferMut::take(len);
    let scalar = match dtype {
        Dtype::C64 => 4,
        Dtype::C128 => 8,
        other => other.size(),
    };
    for (slot, value) in data.chunks_exact_mut(scalar).zip(results) {
        match (dtype, value) {
            (Dtype::F32 | Dtype::C64, value) => slot.copy_from_slice(&(real(value) as f32).to_le_bytes()),
            (Dtype::F64 | Dtype::C128, value) => slot.copy_from_slice(&real(value).to_le_bytes()),
            (_, Value::Whole(value)) => {
                if !fits(dtype, *value) {
                    return Err(overflow(dtype.name(), *value));
                }
                slot.copy_from_slice(&value.to_le_bytes()[..scalar]);
            }
            (_, Value::Real(_)) => unreachable!("integers that became real are packed as float64"),
        }
    }
    Ok(Array { dtype, order: template.order, shape: template.shape.clone(), data: data.freeze() })
}

fn fits(dtype: Dtype, value: i128) -> bool {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            (-(1_i128 << (bits - 1))..1_i128 << (bits - 1)).contains(&value)
        }
        _ => (0..1_i128 << bits).contains(&value),
    }
}
