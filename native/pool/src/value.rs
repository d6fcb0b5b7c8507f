//! Values of attributes.

use std::fmt;

use crate::time::Time;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is not negative.
    Uint(u64),
    /// A number.
    Real(f64),
    /// A text, or the member of an enumeration.
    Text(Box<str>),
    /// A point in time.
    Time(Time),
    /// Whole numbers in order.
    Ints(Box<[i64]>),
    /// Numbers in order.
    Reals(Box<[f64]>),
    /// Bytes that nobody here understands.
    Bytes(Box<[u8]>),
}

impl Value {
    /// The value as an operand of selectors; `None`: lists and bytes are none.
    pub fn operand(&self) -> Option<Operand<'_>> {
        Some(match self {
            Value::Bool(value) => Operand::Bool(*value),
            Value::Int(value) => Operand::Integer((*value).into()),
            Value::Uint(value) => Operand::Integer((*value).into()),
            Value::Real(value) => Operand::Real(*value),
            Value::Text(value) => Operand::Text(value),
            Value::Time(value) => Operand::Time(*value),
            Value::Ints(_) | Value::Reals(_) | Value::Bytes(_) => return None,
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Uint(value) => write!(f, "{value}"),
            Value::Real(value) => write!(f, "{value:?}"),
            Value::Text(value) => write!(f, "'{value}'"),
            Value::Time(value) => write!(f, "{value}"),
            Value::Ints(values) => write!(f, "{values:?}"),
            Value::Reals(values) => write!(f, "{values:?}"),
            Value::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

/// A value that selectors compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<'a> {
    /// True or false.
    Bool(bool),
    /// A whole number: of an attribute, or between the least `int` and the most `uint`.
    Integer(i128),
    /// A number.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// A point in time.
    Time(Time),
}
