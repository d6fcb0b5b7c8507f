//! Arithmetic on the data of messages: arrays of any rank, scalars, and lists and maps of them.
//!
//! float32, float64 and complex values keep their type; float32 is computed in float64 and rounded once. Integers keep their type where
//! the result is an integer by construction (a sum, an integral factor) and fits it, which is checked; otherwise they become float64.
//! Truth values, text and bytes are no numbers.

use std::borrow::Cow;

use xmml_wire::buffer::{Buffer, BufferMut};
use xmml_wire::data::{Array, Data, Dtype, Element};

use super::Problem;

/// What is done, number by number.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// The only value times a factor.
    Scale(f64),
    /// The sum, in the order given.
    Sum,
    /// The sum divided by how many there are.
    Mean,
    /// `a + (b - a) * part` of the two values.
    Line(f64),
}

/// Every number times `factor`.
pub fn scale(data: &Data, factor: f64) -> Result<Data, Problem> {
    combine(Operation::Scale(factor), &[data])
}

/// The sum, number by number, in the order given.
pub fn sum(messages: &[Data]) -> Result<Data, Problem> {
    combine(Operation::Sum, &messages.iter().collect::<Vec<_>>())
}

/// The mean, number by number; integers become float64.
pub fn mean(messages: &[Data]) -> Result<Data, Problem> {
    combine(Operation::Mean, &messages.iter().collect::<Vec<_>>())
}

/// `a + (b - a) * part`, number by number; integers become float64.
pub fn line(a: &Data, b: &Data, part: f64) -> Result<Data, Problem> {
    combine(Operation::Line(part), &[a, b])
}

/// The same values in the types that [`line`] gives: integers as float64, everything else as it is.
pub fn as_reals(data: &Data) -> Result<Data, Problem> {
    match data {
        Data::Float(_) | Data::Complex(..) => Ok(data.clone()),
        Data::Array(array) if matches!(array.dtype, Dtype::F32 | Dtype::F64 | Dtype::C64 | Dtype::C128) => {
            Ok(data.clone())
        }
        // The mean of one is that value to the bit.
        _ => combine(Operation::Mean, &[data]),
    }
}

impl Operation {
    /// Whether integers stay integers.
    fn keeps_integers(self) -> bool {
        match self {
            Operation::Scale(factor) => factor.fract() == 0.0 && factor.abs() < 1e18,
            Operation::Sum => true,
            Operation::Mean | Operation::Line(_) => false,
        }
    }

    fn of_reals(self, values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let count = values.len() as f64;
        match (self, Two::of(values)) {
            (Operation::Scale(factor), Two { first, .. }) => factor * first,
            (Operation::Sum, Two { sum, .. }) => sum,
            (Operation::Mean, Two { sum, .. }) => sum / count,
            (Operation::Line(part), Two { first, last, .. }) => first + (last - first) * part,
        }
    }

    fn of_integers(self, mut values: impl ExactSizeIterator<Item = i128>) -> i128 {
        match self {
            Operation::Scale(factor) => values.next().unwrap_or(0).saturating_mul(factor as i128),
            _ => values.fold(0, i128::saturating_add),
        }
    }
}

/// What the operations need of the values at one place.
struct Two {
    first: f64,
    last: f64,
    /// Added from the left, beginning with the first value itself, so that a sum of one is that value to the bit.
    sum: f64,
}

impl Two {
    fn of(mut values: impl Iterator<Item = f64>) -> Two {
        let first = values.next().unwrap_or(0.0);
        values.fold(Two { first, last: first, sum: first }, |so_far, value| Two {
            last: value,
            sum: so_far.sum + value,
            ..so_far
        })
    }
}

/// Combines values of one structure, number by number.
fn combine(operation: Operation, all: &[&Data]) -> Result<Data, Problem> {
    let first = *all.first().ok_or("there is nothing to combine")?;
    match first {
        Data::List(items) => {
            let lists = all.iter().map(|data| match data {
                Data::List(others) if others.len() == items.len() => Ok(others),
                other => Err(differ(first, other)),
            });
            let lists = lists.collect::<Result<Vec<_>, _>>()?;
            let at = |at: usize| combine(operation, &lists.iter().map(|list| &list[at]).collect::<Vec<_>>());
            (0..items.len()).map(at).collect::<Result<_, _>>().map(Data::List)
        }
        Data::Map(entries) => {
            let under = |key: &String| {
                let values = all.iter().map(|data| match data {
                    Data::Map(others) if others.len() == entries.len() => {
                        data.get(key).ok_or_else(|| differ(first, data))
                    }
                    other => Err(differ(first, other)),
                });
                Ok((key.clone(), combine(operation, &values.collect::<Result<Vec<_>, _>>()?)?))
            };
            entries.iter().map(|(key, _)| under(key)).collect::<Result<_, Problem>>().map(Data::Map)
        }
        _ => {
            if let Some(other) = all.iter().find(|other| !same_form(first, other)) {
                return Err(differ(first, other));
            }
            combine_leaves(operation, first, all)
        }
    }
}

fn combine_leaves(operation: Operation, first: &Data, all: &[&Data]) -> Result<Data, Problem> {
    let number = |pick: fn(&Data) -> f64| operation.of_reals(all.iter().map(|data| pick(data)));
    match first {
        Data::Array(array) if array.dtype != Dtype::Bool => {
            let arrays = all.iter().filter_map(|data| match data {
                Data::Array(array) => Some(array),
                _ => None,
            });
            combine_arrays(operation, array, &arrays.collect::<Vec<_>>()).map(Data::Array)
        }
        Data::Float(_) => Ok(Data::Float(number(|data| match data {
            Data::Float(value) => *value,
            _ => f64::NAN,
        }))),
        Data::Complex(..) => Ok(Data::Complex(
            number(|data| match data {
                Data::Complex(real, _) => *real,
                _ => f64::NAN,
            }),
            number(|data| match data {
                Data::Complex(_, imaginary) => *imaginary,
                _ => f64::NAN,
            }),
        )),
        Data::Int(_) => {
            let values = || {
                all.iter().map(|data| match data {
                    Data::Int(value) => i128::from(*value),
                    _ => 0,
                })
            };
            match operation.keeps_integers() {
                true => fitting(operation.of_integers(values()), Dtype::I64).map(Data::Int),
                false => Ok(Data::Float(operation.of_reals(values().map(|value| value as f64)))),
            }
        }
        other => Err(format!("needs numbers, but the message holds {}", other.describe())),
    }
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

fn combine_arrays(operation: Operation, first: &Array, all: &[&Array]) -> Result<Array, Problem> {
    let whole = operation.keeps_integers();
    let (dtype, data) = match first.dtype {
        Dtype::F64 | Dtype::C128 => (first.dtype, reals::<f64, f64>(operation, all, |x| x, |x| x)?),
        Dtype::F32 | Dtype::C64 => (first.dtype, reals::<f32, f32>(operation, all, f64::from, |x| x as f32)?),
        Dtype::I8 => integers::<i8>(operation, all, whole)?,
        Dtype::I16 => integers::<i16>(operation, all, whole)?,
        Dtype::I32 => integers::<i32>(operation, all, whole)?,
        Dtype::I64 => integers::<i64>(operation, all, whole)?,
        Dtype::U8 | Dtype::Bool => integers::<u8>(operation, all, whole)?,
        Dtype::U16 => integers::<u16>(operation, all, whole)?,
        Dtype::U32 => integers::<u32>(operation, all, whole)?,
        Dtype::U64 => integers::<u64>(operation, all, whole)?,
    };
    Ok(Array { dtype, order: first.order, shape: first.shape.clone(), data })
}

fn integers<T>(operation: Operation, all: &[&Array], whole: bool) -> Result<(Dtype, Buffer), Problem>
where
    T: Element + Into<i128> + TryFrom<i128>,
{
    if !whole {
        let data = reals::<T, f64>(operation, all, |value| value.into() as f64, |value| value)?;
        return Ok((Dtype::F64, data));
    }
    let sources: Vec<_> = all.iter().map(|array| scalars::<T>(array)).collect();
    let data = filled(&sources, |at| {
        let result = operation.of_integers(sources.iter().map(|values| values[at].into()));
        fitting::<T>(result, T::DTYPE)
    })?;
    Ok((T::DTYPE, data))
}

fn fitting<T: TryFrom<i128>>(value: i128, dtype: Dtype) -> Result<T, Problem> {
    T::try_from(value).map_err(|_| format!("the result {value} does not fit {}", dtype.name()))
}

/// Computes in float64; complex numbers are pairs.
fn reals<T: Element, U: Element>(
    operation: Operation,
    all: &[&Array],
    widen: impl Fn(T) -> f64,
    narrow: impl Fn(f64) -> U,
) -> Result<Buffer, Problem> {
    let sources: Vec<_> = all.iter().map(|array| scalars::<T>(array)).collect();
    filled(&sources, |at| Ok(narrow(operation.of_reals(sources.iter().map(|values| widen(values[at]))))))
}

/// The numbers of an array (two for a complex one); copied only where they are not aligned.
fn scalars<T: Element>(array: &Array) -> Cow<'_, [T]> {
    // SAFETY: every bit pattern is a value of an element type.
    let (before, values, after) = unsafe { array.data.align_to::<T>() };
    if before.is_empty() && after.is_empty() {
        return Cow::Borrowed(values);
    }
    // SAFETY: each chunk has the bytes of one value.
    let read = |chunk: &[u8]| unsafe { chunk.as_ptr().cast::<T>().read_unaligned() };
    Cow::Owned(array.data.chunks_exact(size_of::<T>()).map(read).collect())
}

/// One result for each place of the sources.
fn filled<T: Element, U: Element>(
    sources: &[Cow<'_, [T]>],
    result: impl Fn(usize) -> Result<U, Problem>,
) -> Result<Buffer, Problem> {
    let count = sources.first().map_or(0, |values| values.len());
    let mut data = BufferMut::take(count * size_of::<U>());
    // SAFETY: every bit pattern is a value of an element type; the block is aligned for all of them.
    let (_, places, _) = unsafe { data.align_to_mut::<U>() };
    for (at, place) in places.iter_mut().enumerate() {
        *place = result(at)?;
    }
    Ok(data.freeze())
}
