//! What an object needs so that a selector may choose it: conditions on single attributes, for tables and databases that look objects up.

use crate::schema::Place;
use crate::value::Value;

use super::{Comparison, Selector, Term, Test};

/// A condition on the value of an attribute, which must be there.
#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    /// It equals one of these.
    OneOf(Vec<Value>),
    /// It lies between these, and may be either of them; `None`: there is no such end.
    Within {
        /// The least.
        least: Option<Value>,
        /// The most.
        most: Option<Value>,
    },
}

impl Selector {
    /// Conditions that every object meets that the selector chooses, or that it cannot be compared with. Objects that meet all of them may
    /// still be others.
    ///
    /// # Example
    /// ```
    /// use xmml_pool::{schema::Schema, selector::{needs::Need, Selector}, value::Value};
    ///
    /// let schema = Schema::parse("step:int param:uint").unwrap();
    /// let selector = Selector::compile("param in (130, 131) and step % 6 = 0 and step > 3", &schema, |_| None).unwrap();
    /// // The remainder may have no result, which is told also of objects with a step of 3.
    /// let (place, _) = schema.find("param").unwrap();
    /// assert_eq!(selector.needs(), [(place, Need::OneOf(vec![Value::Int(130), Value::Int(131)]))]);
    /// ```
    pub fn needs(&self) -> Vec<(Place, Need)> {
        let mut needs = Vec::new();
        self.test.add_needs(&mut needs);
        needs
    }
}

impl Test {
    /// Adds the needs of this test; returns whether it has a result for every object. What stands behind a test without one in an `and`
    /// adds none: that there is no result is told, also of objects that a later test would exclude.
    fn add_needs(&self, needs: &mut Vec<(Place, Need)>) -> bool {
        if let Test::All(tests) = self {
            return tests.iter().all(|test| test.add_needs(needs));
        }
        if !self.has_always_a_result() {
            return false;
        }
        match self {
            Test::Compare(comparison, Term::Attribute(place), value) => {
                needs.extend(value.constant_value().and_then(|value| Some((*place, comparison.need(value)?))));
            }
            Test::Compare(comparison, value, Term::Attribute(place)) => {
                let comparison = comparison.turned_round();
                needs.extend(value.constant_value().and_then(|value| Some((*place, comparison.need(value)?))));
            }
            Test::OneOf(Term::Attribute(place), values) => {
                let values: Option<_> = values.iter().map(Term::constant_value).collect();
                needs.extend(values.map(|values| (*place, Need::OneOf(values))));
            }
            Test::Within { what: Term::Attribute(place), least, most, .. } => {
                let (least, most) = (least.constant_value(), most.constant_value());
                if least.is_some() || most.is_some() {
                    needs.push((*place, Need::Within { least, most }));
                }
            }
            _ => {}
        }
        true
    }

    fn has_always_a_result(&self) -> bool {
        match self {
            Test::Constant(_) | Test::Has(_) => true,
            Test::Not(test) => test.has_always_a_result(),
            Test::All(tests) | Test::Any(tests) => tests.iter().all(Test::has_always_a_result),
            Test::Compare(_, left, right) => left.is_plain() && right.is_plain(),
            Test::OneOf(what, members) => what.is_plain() && members.iter().all(Term::is_plain),
            Test::Within { what, least, most, step } => {
                let step = step.as_ref().is_none_or(|step| matches!(step, Term::Integer(_)));
                what.is_plain() && least.is_plain() && most.is_plain() && step
            }
            Test::Like(what, _) => what.is_plain(),
        }
    }
}

impl Comparison {
    /// What the left side needs if the right one has this value.
    fn need(self, value: Value) -> Option<Need> {
        Some(match self {
            Comparison::Equal => Need::OneOf(vec![value]),
            Comparison::Unequal => return None,
            Comparison::Less | Comparison::AtMost => Need::Within { least: None, most: Some(value) },
            Comparison::Greater | Comparison::AtLeast => Need::Within { least: Some(value), most: None },
        })
    }

    /// What compares the right side with the left one.
    fn turned_round(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::AtMost => Comparison::AtLeast,
            Comparison::Greater => Comparison::Less,
            Comparison::AtLeast => Comparison::AtMost,
            Comparison::Equal | Comparison::Unequal => self,
        }
    }
}

impl Term {
    /// `None`: its value depends on the object.
    fn constant_value(&self) -> Option<Value> {
        Some(match self {
            Term::Bool(value) => Value::Bool(*value),
            Term::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => Value::Int(value),
                (_, Ok(value)) => Value::Uint(value),
                _ => return None,
            },
            Term::Real(value) => Value::Real(*value),
            Term::Text(value) => Value::Text(value.clone()),
            Term::Time(value) => Value::Time(*value),
            Term::Attribute(_) | Term::Negated(_) | Term::Computed(..) => return None,
        })
    }

    fn is_plain(&self) -> bool {
        !matches!(self, Term::Negated(_) | Term::Computed(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use crate::time::Time;

    fn needs(selector: &str) -> Vec<(Place, Need)> {
        let schema = Schema::parse("step:int param:uint at:time share:real wet:bool").unwrap();
        Selector::compile(selector, &schema, |_| None).unwrap().needs()
    }

    fn within(least: Option<Value>, most: Option<Value>) -> Need {
        Need::Within { least, most }
    }

    #[test]
    fn each_part_of_an_and_adds_what_it_needs() {
        let (step, param, at, share) = (Place::Own(0), Place::Own(1), Place::Own(2), Place::Own(3));
        assert_eq!(
            needs("param = 18446744073709551615 and (3 > step and at >= '1970-01-01') and share in 0.5..2"),
            [
                (param, Need::OneOf(vec![Value::Uint(u64::MAX)])),
                (step, within(None, Some(Value::Int(3)))),
                (at, within(Some(Value::Time(Time(0))), None)),
                (share, within(Some(Value::Real(0.5)), Some(Value::Int(2)))),
            ]
        );
        assert_eq!(needs("step in 0..param step 2"), [(step, within(Some(Value::Int(0)), None))]);
        assert_eq!(needs("wet = true"), [(Place::Own(4), Need::OneOf(vec![Value::Bool(true)]))]);
    }

    #[test]
    fn other_tests_need_nothing() {
        for selector in
            ["step = 1 or step = 2", "not step = 1", "step != 1", "step = param", "step in (1, param)", "true"]
        {
            assert_eq!(needs(selector), [], "{selector}");
        }
    }

    #[test]
    fn what_stands_behind_a_test_that_may_have_no_result_adds_nothing() {
        let first = [(Place::Own(1), Need::OneOf(vec![Value::Int(1)]))];
        assert_eq!(needs("param = 1 and step % param = 0 and share > 1"), first);
        assert_eq!(needs("(param = 1 and step % param = 0) and share > 1"), first);
        assert_eq!(needs("param = 1 and step in 0..9 step param and share > 1"), first);
        assert_eq!(needs("param = 1 and step in 0..(param - 1) and share > 1"), first);
    }
}
