//! Whether an object is chosen, and whether any could be.

use std::cmp::Ordering;

use crate::object::Described;
use crate::schema::{Bounds, Place, Schema, Type};
use crate::value::Operand;

use super::{Arithmetic, Comparison, Term, Test, Undefined};

/// What `int` and `uint` can hold.
const LEAST: i128 = i64::MIN as i128;
const MOST: i128 = u64::MAX as i128;

impl Test {
    pub fn holds(&self, object: &Described<'_>) -> Result<bool, Undefined> {
        Ok(match self {
            Test::Constant(value) => *value,
            Test::Has(place) => object.has(*place),
            Test::Not(test) => !test.holds(object)?,
            Test::All(tests) => {
                for test in tests {
                    if !test.holds(object)? {
                        return Ok(false);
                    }
                }
                true
            }
            Test::Any(tests) => {
                for test in tests {
                    if test.holds(object)? {
                        return Ok(true);
                    }
                }
                false
            }
            Test::Compare(comparison, left, right) => match (left.value(object)?, right.value(object)?) {
                (Some(left), Some(right)) => comparison.holds(order(left, right)),
                _ => false,
            },
            Test::OneOf(what, members) => {
                let Some(what) = what.value(object)? else { return Ok(false) };
                for member in members {
                    if let Some(member) = member.value(object)? {
                        if order(what, member) == Some(Ordering::Equal) {
                            return Ok(true);
                        }
                    }
                }
                false
            }
            Test::Within { what, least, most, step } => {
                let (Some(what), Some(least), Some(most)) =
                    (what.value(object)?, least.value(object)?, most.value(object)?)
                else {
                    return Ok(false);
                };
                let is_between =
                    Comparison::AtLeast.holds(order(what, least)) && Comparison::AtMost.holds(order(what, most));
                match (step, what, least) {
                    (None, ..) => is_between,
                    (Some(step), Operand::Integer(what), Operand::Integer(least)) => match step.value(object)? {
                        Some(Operand::Integer(step)) if step > 0 => is_between && (what - least) % step == 0,
                        Some(_) => {
                            return Err(Undefined { problem: "a range has a step that is not more than 0".into() })
                        }
                        None => false,
                    },
                    _ => false, // the compiler takes steps of whole numbers only
                }
            }
            Test::Like(what, pattern) => {
                matches!(what.value(object)?, Some(Operand::Text(text)) if pattern.matches(text))
            }
        })
    }

    /// Whether it may hold for an object of this schema. False is certain.
    pub fn can_hold(&self, schema: &Schema) -> bool {
        match self {
            Test::Constant(value) => *value,
            Test::All(tests) => tests.iter().all(|test| test.can_hold(schema)),
            Test::Any(tests) => tests.iter().any(|test| test.can_hold(schema)),
            Test::Compare(comparison, left, right) => can_compare(*comparison, left, right, schema),
            Test::OneOf(what, members) => {
                members.iter().any(|member| can_compare(Comparison::Equal, what, member, schema))
            }
            Test::Within { what, least, most, .. } => {
                can_compare(Comparison::AtLeast, what, least, schema)
                    && can_compare(Comparison::AtMost, what, most, schema)
                    && can_compare(Comparison::AtMost, least, most, schema)
            }
            Test::Has(_) | Test::Not(_) | Test::Like(..) => true,
        }
    }
}

impl Comparison {
    /// `order`: of the left to the right; `None`: there is none.
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::Unequal => order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl Term {
    /// Its value; `None`: an attribute is absent.
    fn value<'a>(&'a self, object: &Described<'a>) -> Result<Option<Operand<'a>>, Undefined> {
        Ok(Some(match self {
            Term::Bool(value) => Operand::Bool(*value),
            Term::Integer(number) => Operand::Integer(*number),
            Term::Real(number) => Operand::Real(*number),
            Term::Text(text) => Operand::Text(text),
            Term::Time(time) => Operand::Time(*time),
            Term::Attribute(place) => return Ok(object.operand(*place)),
            Term::Negated(part) => match part.value(object)? {
                Some(Operand::Integer(number)) => Operand::Integer(held(-number, || format!("-({number})"))?),
                Some(Operand::Real(number)) => Operand::Real(-number),
                _ => return Ok(None),
            },
            Term::Computed(arithmetic, left, right) => match (left.value(object)?, right.value(object)?) {
                (Some(Operand::Integer(left)), Some(Operand::Integer(right))) => {
                    Operand::Integer(arithmetic.of(left, right)?)
                }
                _ => return Ok(None),
            },
        }))
    }

    /// The least and the most that a number may be; `None`: that is not known, or it is no number.
    fn bounds(&self, schema: &Schema) -> Option<Bounds<f64>> {
        let point = |number: f64| Some(Bounds { least: Some(number), most: Some(number) });
        match self {
            Term::Integer(number) => point(*number as f64),
            Term::Real(number) => point(*number),
            Term::Attribute(Place::Own(number)) => match &schema.attributes().get(*number)?.kind {
                Type::Int(bounds) => {
                    Some(Bounds { least: bounds.least.map(|it| it as f64), most: bounds.most.map(|it| it as f64) })
                }
                Type::Uint(bounds) => Some(Bounds {
                    least: Some(bounds.least.unwrap_or(0) as f64),
                    most: bounds.most.map(|it| it as f64),
                }),
                Type::Real(bounds) => Some(*bounds),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Arithmetic {
    fn of(self, left: i128, right: i128) -> Result<i128, Undefined> {
        // Both lie between the least int and the most uint, or are written in the selector.
        let (sign, result) = match self {
            Arithmetic::Plus => ('+', left.checked_add(right)),
            Arithmetic::Minus => ('-', left.checked_sub(right)),
            Arithmetic::Times => ('*', left.checked_mul(right)),
            Arithmetic::Remainder if right == 0 => {
                return Err(Undefined { problem: format!("{left} % 0 has no result") });
            }
            Arithmetic::Remainder => ('%', Some(floored_remainder(left, right))),
        };
        held(result.unwrap_or(i128::MAX), || format!("{left} {sign} {right}"))
    }
}

/// The remainder that has the sign of the divisor.
fn floored_remainder(left: i128, right: i128) -> i128 {
    let remainder = left.wrapping_rem(right);
    match remainder != 0 && (remainder < 0) != (right < 0) {
        true => remainder + right,
        false => remainder,
    }
}

fn held(number: i128, what: impl FnOnce() -> String) -> Result<i128, Undefined> {
    match (LEAST..=MOST).contains(&number) {
        true => Ok(number),
        false => Err(Undefined { problem: format!("{} is too large for a whole number", what()) }),
    }
}

/// The order of two values that can be compared; `None`: one of them is not a number, or they are of different kinds.
fn order(left: Operand<'_>, right: Operand<'_>) -> Option<Ordering> {
    match (left, right) {
        (Operand::Integer(left), Operand::Integer(right)) => Some(left.cmp(&right)),
        (Operand::Real(left), Operand::Real(right)) => left.partial_cmp(&right),
        (Operand::Integer(left), Operand::Real(right)) => exact_order(left, right),
        (Operand::Real(left), Operand::Integer(right)) => exact_order(right, left).map(Ordering::reverse),
        (Operand::Text(left), Operand::Text(right)) => Some(left.cmp(right)),
        (Operand::Time(left), Operand::Time(right)) => Some(left.cmp(&right)),
        (Operand::Bool(left), Operand::Bool(right)) => Some(left.cmp(&right)),
        _ => None,
    }
}

/// The order of a whole number and a real one, neither of which is rounded.
fn exact_order(whole: i128, real: f64) -> Option<Ordering> {
    if real.is_nan() {
        return None;
    }
    // Far from what whole numbers reach, the conversion saturates, which keeps the order.
    let below = real.floor();
    let order = whole.cmp(&(below as i128));
    match order {
        Ordering::Equal if real > below => Some(Ordering::Less),
        _ => Some(order),
    }
}

fn can_compare(comparison: Comparison, left: &Term, right: &Term, schema: &Schema) -> bool {
    let (Some(left), Some(right)) = (left.bounds(schema), right.bounds(schema)) else { return true };
    // Whole numbers that are rounded to the same real one may differ: such a bound does not decide.
    let is_below =
        |most: Option<f64>, least: Option<f64>| matches!((most, least), (Some(most), Some(least)) if most < least);
    let is_at_most = |most: Option<f64>, least: Option<f64>| matches!((most, least), (Some(most), Some(least)) if most <= least && most.abs() < 9e15);
    match comparison {
        Comparison::Equal => !is_below(left.most, right.least) && !is_below(right.most, left.least),
        Comparison::Unequal => true,
        Comparison::Less => !is_at_most(right.most, left.least),
        Comparison::AtMost => !is_below(right.most, left.least),
        Comparison::Greater => !is_at_most(left.most, right.least),
        Comparison::AtLeast => !is_below(left.most, right.least),
    }
}
