//! Selectors: predicates over the attributes of objects, such as `param in (130, 131) and step % 6 = 0`.
//!
//! ```text
//! selector   = any
//! any        = all { "or" all }
//! all        = not { "and" not }
//! not        = "not" not | comparison
//! comparison = sum [ OP sum | "in" "(" sum { "," sum } ")" | "in" sum ".." sum [ "step" sum ] | "like" TEXT ]
//! sum        = product { ("+" | "-") product }
//! product    = sign { ("*" | "%") sign }
//! sign       = "-" sign | atom
//! atom       = INTEGER | REAL | TEXT | "true" | "false" | NAME | "$" NAME | "has" "(" NAME ")" | "(" any ")"
//! OP         = "=" | "!=" | "<" | "<=" | ">" | ">=" | "lt" | "le" | "gt" | "ge"
//! ```
//!
//! A comparison with an attribute that is absent is false, `!=` too; `not` negates that. Whole numbers are computed exactly; a result that
//! neither `int` nor `uint` can hold is an error, as is a remainder by zero. Remainders have the sign of the divisor.

mod compiler;
mod evaluation;
pub mod index;
pub mod needs;
mod parser;
mod pattern;
mod tokens;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use crate::object::Described;
use crate::schema::{Place, Schema};
use crate::time::Time;
use crate::value::{Operand, Value};
use crate::Mistake;

use self::pattern::Pattern;

/// Bytes of a selector at most.
pub const MOST_BYTES: usize = 64 * 1024;

/// Why an object could not be compared with a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undefined {
    /// What has no result.
    pub problem: String,
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Undefined {}

/// A predicate over the objects of one schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    test: Test,
}

impl Selector {
    /// Compiles a selector. `variable` knows the value of each `$name`: `$index` and `$count` of the reader, and its parameters. A text
    /// that is compared with a number, or with true or false, is read as one.
    ///
    /// # Errors
    /// Where the text is no selector, names what does not exist, or compares what cannot be compared.
    ///
    /// # Example
    /// ```
    /// use xmml_pool::{object::{Described, System}, schema::Schema, selector::Selector, value::Value};
    ///
    /// let schema = Schema::parse("step:int[0..]! param:uint!").unwrap();
    /// let selector = Selector::compile("param in (130, 131) and step % 6 = $index", &schema, |name| {
    ///     (name == "index").then_some(Value::Int(0))
    /// });
    /// let own = schema.complete([("step", Value::Int(12)), ("param", Value::Int(131))]).unwrap();
    /// let system = System::default();
    /// assert_eq!(selector.unwrap().matches(&Described { own: &own, system: &system }), Ok(true));
    /// ```
    pub fn compile(text: &str, schema: &Schema, variable: impl Fn(&str) -> Option<Value>) -> Result<Selector, Mistake> {
        if text.len() > MOST_BYTES {
            return Err(Mistake::new(0..text.len(), format!("a selector has at most {MOST_BYTES} bytes")));
        }
        let expression = parser::parse(text)?;
        Ok(Selector { test: compiler::Compiler { schema, variable: &variable }.test(expression)? })
    }

    /// Whether it chooses an object.
    ///
    /// # Errors
    /// A result that no type can hold, or a remainder by zero.
    pub fn matches(&self, object: &Described<'_>) -> Result<bool, Undefined> {
        self.test.holds(object)
    }

    /// Whether there may be an object that it chooses. False is certain.
    pub fn can_match(&self, schema: &Schema) -> bool {
        self.test.can_hold(schema)
    }
}

/// The names behind a `$` in a selector, each once: what a caller of [`Selector::compile`] is asked for.
///
/// # Errors
/// The text is no sequence of words of selectors.
pub fn variables(text: &str) -> Result<BTreeSet<String>, Mistake> {
    let names = tokens::tokens(text)?.into_iter().filter_map(|(token, _)| match token {
        tokens::Token::Variable(name) => Some(name),
        _ => None,
    });
    Ok(names.collect())
}

/// What holds for an object, or does not.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    Constant(bool),
    Has(Place),
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
    Compare(Comparison, Term, Term),
    OneOf(Term, Vec<Term>),
    Within { what: Term, least: Term, most: Term, step: Option<Term> },
    Like(Term, Pattern),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// What has a value for an object, or none.
#[derive(Clone, Debug, PartialEq)]
enum Term {
    Bool(bool),
    Integer(i128),
    Real(f64),
    Text(Box<str>),
    Time(Time),
    Attribute(Place),
    Negated(Box<Term>),
    Computed(Arithmetic, Box<Term>, Box<Term>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Plus,
    Minus,
    Times,
    Remainder,
}

impl Term {
    fn constant(value: &Value) -> Option<Term> {
        Some(match value.operand()? {
            Operand::Bool(value) => Term::Bool(value),
            Operand::Integer(value) => Term::Integer(value),
            Operand::Real(value) => Term::Real(value),
            Operand::Text(value) => Term::Text(value.into()),
            Operand::Time(value) => Term::Time(value),
        })
    }
}
