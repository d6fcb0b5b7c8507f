//! From the tree of a selector to what is tested: names are found, and types are checked.

use std::ops::Range;

use xmml_wire::spelling::closest;

use crate::schema::{Place, Schema, Type, RESERVED};
use crate::time::Time;
use crate::value::Value;
use crate::Mistake;

use super::parser::{Expression, Node};
use super::pattern::Pattern;
use super::{Arithmetic, Comparison, Term, Test};

/// Compiles expressions for the objects of a schema.
pub struct Compiler<'a> {
    pub schema: &'a Schema,
    pub variable: &'a dyn Fn(&str) -> Option<Value>,
}

/// What kind of value a term has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sort<'a> {
    Bool,
    Integer,
    Real,
    Text,
    Member(&'a [Box<str>]),
    Time,
}

impl Sort<'_> {
    fn is_number(self) -> bool {
        matches!(self, Sort::Integer | Sort::Real)
    }

    fn noun(self) -> &'static str {
        match self {
            Sort::Bool => "true or false",
            Sort::Integer => "a whole number",
            Sort::Real => "a number",
            Sort::Text => "a text",
            Sort::Member(_) => "a member of an enumeration",
            Sort::Time => "a time",
        }
    }
}

/// A term, its sort, and where it stands.
struct Typed<'a> {
    term: Term,
    sort: Sort<'a>,
    at: Range<usize>,
    /// It is the value of this parameter of the reader. Parameters are texts until they are compared with something else.
    parameter: Option<String>,
}

impl Typed<'_> {
    /// The value of a parameter as a number, or as true or false; anything else as it is.
    fn read(self) -> Result<Self, Mistake> {
        let (Some(name), Term::Text(text)) = (&self.parameter, &self.term) else { return Ok(self) };
        let trimmed = text.trim();
        let (term, sort) = match (trimmed.parse::<i128>(), trimmed.parse::<f64>(), trimmed) {
            (Ok(number), ..) if (i64::MIN.into()..=u64::MAX.into()).contains(&number) => {
                (Term::Integer(number), Sort::Integer)
            }
            (_, Ok(number), _) if number.is_finite() => (Term::Real(number), Sort::Real),
            (.., "true") => (Term::Bool(true), Sort::Bool),
            (.., "false") => (Term::Bool(false), Sort::Bool),
            _ => {
                let problem = format!("the parameter '{name}' of the reader is '{text}', and a number is needed here");
                return Err(Mistake::new(self.at, problem));
            }
        };
        Ok(Typed { term, sort, ..self })
    }
}

impl<'a> Compiler<'a> {
    /// What holds, or does not.
    pub fn test(&self, expression: Expression) -> Result<Test, Mistake> {
        let at = expression.at;
        Ok(match expression.node {
            Node::Any(parts) => Test::Any(self.tests(parts)?),
            Node::All(parts) => Test::All(self.tests(parts)?),
            Node::Not(part) => Test::Not(Box::new(self.test(*part)?)),
            Node::Bool(value) => Test::Constant(value),
            Node::Has(name, at) => Test::Has(self.place(&name, &at)?.0),
            Node::Compare(comparison, left, right) => self.comparison(comparison, *left, *right)?,
            Node::OneOf(what, members) => {
                let what = self.term(*what)?;
                let members = members.into_iter().map(|member| {
                    let member = self.term(member)?;
                    let (_, member) = self.comparable(Comparison::Equal, &what, member)?;
                    Ok(member)
                });
                let members = members.collect::<Result<Vec<Term>, Mistake>>()?;
                Test::OneOf(what.term, members)
            }
            Node::Within(what, least, most, step) => self.range(*what, *least, *most, step.map(|step| *step))?,
            Node::Like(what, pattern) => {
                let what = self.term(*what)?;
                match what.sort {
                    Sort::Text | Sort::Member(_) => Test::Like(what.term, Pattern::new(&pattern)),
                    sort => {
                        return Err(Mistake::new(
                            what.at,
                            format!("'like' compares texts, and this is {}", sort.noun()),
                        ))
                    }
                }
            }
            Node::Name(_) | Node::Variable(_) | Node::Integer(_) | Node::Real(_) | Node::Text(_) => {
                return Err(self.no_test(expression.node, at))
            }
            Node::Negated(_) | Node::Computed(..) => {
                return Err(Mistake::new(at, "this is a number, and no condition: compare it, as in step % 6 = 0"))
            }
        })
    }

    fn no_test(&self, node: Node, at: Range<usize>) -> Mistake {
        let problem = match self.term(Expression { node, at: at.clone() }) {
            Err(mistake) => return mistake,
            Ok(Typed { sort: Sort::Bool, .. }) => "say what it is compared with, as in x = true".to_owned(),
            Ok(Typed { sort, .. }) => format!("this is {}, and no condition: compare it, as in x = 1", sort.noun()),
        };
        Mistake::new(at, problem)
    }

    fn tests(&self, parts: Vec<Expression>) -> Result<Vec<Test>, Mistake> {
        parts.into_iter().map(|part| self.test(part)).collect()
    }

    fn comparison(&self, comparison: Comparison, left: Expression, right: Expression) -> Result<Test, Mistake> {
        let (left, right) = (self.term(left)?, self.term(right)?);
        let (left, right) = match (left.sort, right.sort) {
            (Sort::Text, Sort::Integer | Sort::Real | Sort::Bool) => (left.read()?, right),
            _ => (left, right),
        };
        // A text takes the sort of what it is compared with: of the side that is no constant.
        Ok(match &left.term {
            Term::Text(_) => {
                let (right, left) = self.comparable(comparison, &right, left)?;
                Test::Compare(comparison, left, right)
            }
            _ => {
                let (left, right) = self.comparable(comparison, &left, right)?;
                Test::Compare(comparison, left, right)
            }
        })
    }

    fn range(
        &self,
        what: Expression,
        least: Expression,
        most: Expression,
        step: Option<Expression>,
    ) -> Result<Test, Mistake> {
        let what = self.term(what)?;
        let (least, most) = (self.term(least)?, self.term(most)?);
        let (what, least) = match step {
            Some(_) => (what.read()?, least.read()?),
            None => (what, least),
        };
        let step = step.map(|step| self.term(step)?.read()).transpose()?;
        if let Some(step) = &step {
            for part in [&what, &least, step] {
                if part.sort != Sort::Integer {
                    let problem = format!("ranges with a step are of whole numbers, and this is {}", part.sort.noun());
                    return Err(Mistake::new(part.at.clone(), problem));
                }
            }
            if matches!(step.term, Term::Integer(number) if number <= 0) {
                return Err(Mistake::new(step.at.clone(), "a step is more than 0"));
            }
        }
        let (_, least) = self.comparable(Comparison::AtMost, &what, least)?;
        let (_, most) = self.comparable(Comparison::AtMost, &what, most)?;
        Ok(Test::Within { what: what.term, least, most, step: step.map(|step| step.term) })
    }

    /// Both as terms that can be compared: a text becomes a time, or must be a member, if the other is one.
    fn comparable(&self, comparison: Comparison, what: &Typed<'_>, with: Typed<'_>) -> Result<(Term, Term), Mistake> {
        let is_ordering = !matches!(comparison, Comparison::Equal | Comparison::Unequal);
        let both = what.at.start.min(with.at.start)..what.at.end.max(with.at.end);
        let with = match what.sort {
            Sort::Integer | Sort::Real | Sort::Bool => with.read()?,
            Sort::Text | Sort::Member(_) | Sort::Time => with,
        };
        let term = match (what.sort, with.sort) {
            (Sort::Time, Sort::Text) => match &with.term {
                Term::Text(text) => match Time::parse(text) {
                    Some(time) => Term::Time(time),
                    None => {
                        let problem = format!("'{text}' is no time; times look like 2026-11-27 and 2026-11-27T12:00Z");
                        return Err(Mistake::new(with.at, problem));
                    }
                },
                _ => return Err(Mistake::new(both, "a time and a text cannot be compared")),
            },
            (Sort::Member(_), _) | (_, Sort::Member(_)) if is_ordering => {
                return Err(Mistake::new(both, "members of an enumeration have no order; compare them by =, != or in"))
            }
            (Sort::Member(members), Sort::Text) => {
                if let Term::Text(text) = &with.term {
                    if !members.contains(text) {
                        let meant = match closest(text, members.iter().map(|member| &**member)) {
                            Some(near) => format!("did you mean '{near}'?"),
                            None => format!("the members are {}", members.join(", ")),
                        };
                        return Err(Mistake::new(with.at, format!("there is no member '{text}'; {meant}")));
                    }
                }
                with.term
            }
            (Sort::Bool, Sort::Bool) if is_ordering => {
                return Err(Mistake::new(both, "true and false have no order; compare them by = or !="))
            }
            (Sort::Text, Sort::Member(_)) | (Sort::Member(_), Sort::Member(_)) => with.term,
            (left, right) if left == right || (left.is_number() && right.is_number()) => with.term,
            (left, right) => {
                let problem = format!("{} and {} cannot be compared", left.noun(), right.noun());
                return Err(Mistake::new(both, problem));
            }
        };
        Ok((what.term.clone(), term))
    }

    fn term(&self, expression: Expression) -> Result<Typed<'a>, Mistake> {
        let at = expression.at;
        let (term, sort) = match expression.node {
            Node::Bool(value) => (Term::Bool(value), Sort::Bool),
            Node::Integer(number) => (Term::Integer(number), Sort::Integer),
            Node::Real(number) => (Term::Real(number), Sort::Real),
            Node::Text(text) => (Term::Text(text.into()), Sort::Text),
            Node::Variable(name) => {
                let (term, sort) = self.variable(&name, &at)?;
                return Ok(Typed { term, sort, at, parameter: Some(name) });
            }
            Node::Name(name) => {
                let (place, kind) = self.place(&name, &at)?;
                (Term::Attribute(place), sort_of(kind).ok_or_else(|| no_operand(&name, kind, &at))?)
            }
            Node::Negated(part) => self.negated(*part)?,
            Node::Computed(arithmetic, left, right) => self.computed(arithmetic, *left, *right)?,
            _ => return Err(Mistake::new(at, "this is a condition, where a value is expected")),
        };
        Ok(Typed { term, sort, at, parameter: None })
    }

    fn variable(&self, name: &str, at: &Range<usize>) -> Result<(Term, Sort<'a>), Mistake> {
        let no_value = || {
            Mistake::new(
                at.clone(),
                format!("the reader has no parameter '{name}', and it is neither $index nor $count"),
            )
        };
        let value = (self.variable)(name).ok_or_else(no_value)?;
        let term = Term::constant(&value).ok_or_else(|| {
            Mistake::new(at.clone(), format!("${name} is {value}, and selectors compare single values only"))
        })?;
        let sort = match &term {
            Term::Bool(_) => Sort::Bool,
            Term::Integer(_) => Sort::Integer,
            Term::Real(_) => Sort::Real,
            Term::Time(_) => Sort::Time,
            _ => Sort::Text,
        };
        Ok((term, sort))
    }

    fn negated(&self, part: Expression) -> Result<(Term, Sort<'a>), Mistake> {
        let part = self.term(part)?.read()?;
        match (part.term, part.sort) {
            (Term::Integer(number), _) if number > 1 << 63 => Err(Mistake::new(part.at, "this number is too large")),
            (Term::Integer(number), _) => Ok((Term::Integer(-number), Sort::Integer)),
            (Term::Real(number), _) => Ok((Term::Real(-number), Sort::Real)),
            (term, sort) if sort.is_number() => Ok((Term::Negated(Box::new(term)), sort)),
            (_, sort) => Err(Mistake::new(part.at, format!("{} has no negative", sort.noun()))),
        }
    }

    fn computed(
        &self,
        arithmetic: Arithmetic,
        left: Expression,
        right: Expression,
    ) -> Result<(Term, Sort<'a>), Mistake> {
        let (left, right) = (self.term(left)?.read()?, self.term(right)?.read()?);
        for part in [&left, &right] {
            if part.sort != Sort::Integer {
                let problem = format!("selectors compute with whole numbers only, and this is {}", part.sort.noun());
                return Err(Mistake::new(part.at.clone(), problem));
            }
        }
        if arithmetic == Arithmetic::Remainder && right.term == Term::Integer(0) {
            return Err(Mistake::new(right.at, "there is no remainder by zero"));
        }
        Ok((Term::Computed(arithmetic, Box::new(left.term), Box::new(right.term)), Sort::Integer))
    }

    fn place(&self, name: &str, at: &Range<usize>) -> Result<(Place, &'a Type), Mistake> {
        let unknown = match name {
            "sys.follow" => Some("nobody knows sys.follow before the objects of a group are chosen"),
            "sys.redelivered" => Some("nobody knows sys.redelivered when an object is chosen"),
            _ => None,
        };
        if let Some(problem) = unknown {
            return Err(Mistake::new(at.clone(), problem));
        }
        self.schema.find(name).map_err(|problem| {
            let written = name.to_ascii_lowercase();
            let hint = match () {
                () if problem.ends_with('?') => String::new(),
                () if RESERVED.contains(&&*written) => format!("; did you mean {written}?"),
                () => "; a text stands between quotes".to_owned(),
            };
            Mistake::new(at.clone(), problem + &hint)
        })
    }
}

/// `None`: lists and bytes are not compared.
fn sort_of(kind: &Type) -> Option<Sort<'_>> {
    Some(match kind {
        Type::Bool => Sort::Bool,
        Type::Int(_) | Type::Uint(_) => Sort::Integer,
        Type::Real(_) => Sort::Real,
        Type::Text => Sort::Text,
        Type::Enum(members) => Sort::Member(members),
        Type::Time => Sort::Time,
        Type::Ints(_) | Type::Reals(_) | Type::Bytes => return None,
    })
}

fn no_operand(name: &str, kind: &Type, at: &Range<usize>) -> Mistake {
    Mistake::new(at.clone(), format!("{name} is {kind}, of which selectors can only ask has({name})"))
}
