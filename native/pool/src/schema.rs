//! The attributes that objects of a datatype have: their names, types, ranges and defaults.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use xmml_wire::spelling::closest;

use crate::time::Time;
use crate::value::Value;
use crate::Mistake;

/// Attributes of one schema at most.
pub const MOST_ATTRIBUTES: usize = 1_000;

/// Bytes of the text of a schema at most.
pub const MOST_BYTES: usize = 64 * 1024;

/// Words of selectors, which no attribute can have as its name.
pub const RESERVED: &[&str] =
    &["and", "false", "ge", "gt", "has", "in", "le", "like", "lt", "not", "or", "sys", "true"];

/// The words for types.
const TYPES: &[&str] = &["bool", "int", "uint", "real", "str", "enum", "time", "bytes"];

/// The type of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// True or false.
    Bool,
    /// Whole numbers within bounds.
    Int(Bounds<i64>),
    /// Whole numbers within bounds, none negative.
    Uint(Bounds<u64>),
    /// Numbers within bounds.
    Real(Bounds<f64>),
    /// Any text.
    Text,
    /// One of these texts.
    Enum(Box<[Box<str>]>),
    /// A point in time.
    Time,
    /// Whole numbers in order, each within bounds.
    Ints(Bounds<i64>),
    /// Numbers in order, each within bounds.
    Reals(Bounds<f64>),
    /// Bytes.
    Bytes,
}

impl Type {
    /// The same without bounds.
    pub fn without_bounds(&self) -> Type {
        match self {
            Type::Int(_) => Type::Int(Bounds { least: None, most: None }),
            Type::Uint(_) => Type::Uint(Bounds { least: None, most: None }),
            Type::Real(_) => Type::Real(Bounds { least: None, most: None }),
            Type::Ints(_) => Type::Ints(Bounds { least: None, most: None }),
            Type::Reals(_) => Type::Reals(Bounds { least: None, most: None }),
            other => other.clone(),
        }
    }
}

/// The least and the most that a number may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds<T> {
    /// `None`: as little as the type has.
    pub least: Option<T>,
    /// `None`: as much as the type has.
    pub most: Option<T>,
}

impl<T: PartialOrd + Copy> Bounds<T> {
    fn contains(&self, value: T) -> bool {
        self.least.is_none_or(|least| least <= value) && self.most.is_none_or(|most| value <= most)
    }
}

impl<T: fmt::Display> fmt::Display for Bounds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bound: &Option<T>| bound.as_ref().map(T::to_string).unwrap_or_default();
        match (&self.least, &self.most) {
            (None, None) => Ok(()),
            _ => write!(f, "[{}..{}]", text(&self.least), text(&self.most)),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => write!(f, "bool"),
            Type::Int(bounds) => write!(f, "int{bounds}"),
            Type::Uint(bounds) => write!(f, "uint{bounds}"),
            Type::Real(bounds) => write!(f, "real{bounds}"),
            Type::Text => write!(f, "str"),
            Type::Enum(members) => write!(f, "enum({})", members.join(",")),
            Type::Time => write!(f, "time"),
            Type::Ints(bounds) => write!(f, "int[]{bounds}"),
            Type::Reals(bounds) => write!(f, "real[]{bounds}"),
            Type::Bytes => write!(f, "bytes"),
        }
    }
}

impl Type {
    /// The value as this type has it: a whole number may be given for a real one, a text for a time.
    ///
    /// # Errors
    /// What is allowed instead.
    pub fn take(&self, value: Value) -> Result<Value, String> {
        // Most values are what they should be, and moving them about costs more than the look.
        if self.allows(&value) {
            return Ok(value);
        }
        let converted = match (self, value) {
            (Type::Bool, value @ Value::Bool(_)) => Ok(value),
            (Type::Int(_), Value::Uint(number)) => {
                i64::try_from(number).map(Value::Int).map_err(|_| Value::Uint(number))
            }
            (Type::Uint(_), Value::Int(number)) => {
                u64::try_from(number).map(Value::Uint).map_err(|_| Value::Int(number))
            }
            (Type::Real(_), Value::Int(number)) => Ok(Value::Real(number as f64)),
            (Type::Real(_), Value::Uint(number)) => Ok(Value::Real(number as f64)),
            (Type::Time, Value::Text(text)) => Time::parse(&text).map(Value::Time).ok_or(Value::Text(text)),
            (Type::Reals(_), Value::Ints(numbers)) => {
                Ok(Value::Reals(numbers.iter().map(|number| *number as f64).collect()))
            }
            (_, value) => Ok(value),
        };
        let value = converted.map_err(|value| self.refusal(&value))?;
        match self.allows(&value) {
            true => Ok(value),
            false => Err(self.refusal(&value)),
        }
    }

    fn allows(&self, value: &Value) -> bool {
        match (self, value) {
            (Type::Int(bounds), Value::Int(number)) => bounds.contains(*number),
            (Type::Uint(bounds), Value::Uint(number)) => bounds.contains(*number),
            // What is not a number lies in no range.
            (Type::Real(bounds), Value::Real(number)) => bounds.contains(*number) && !number.is_nan(),
            (Type::Ints(bounds), Value::Ints(numbers)) => numbers.iter().all(|number| bounds.contains(*number)),
            (Type::Reals(bounds), Value::Reals(numbers)) => {
                numbers.iter().all(|number| bounds.contains(*number) && !number.is_nan())
            }
            (Type::Enum(members), Value::Text(text)) => members.contains(text),
            (Type::Bool, Value::Bool(_)) | (Type::Text, Value::Text(_)) => true,
            (Type::Time, Value::Time(time)) => time.is_of_a_calendar(),
            (Type::Bytes, Value::Bytes(_)) => true,
            _ => false,
        }
    }

    fn refusal(&self, value: &Value) -> String {
        let near = match (self, value) {
            (Type::Enum(members), Value::Text(text)) => closest(text, members.iter().map(|member| &**member)),
            _ => None,
        };
        let meant = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        format!("{value} is not allowed: it is {self}{meant}")
    }
}

/// One attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: Box<str>,
    /// What it can be.
    pub kind: Type,
    /// Whether each object must have it.
    pub is_required: bool,
    /// What an object has that does not say.
    pub default: Option<Value>,
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.name, self.kind, if self.is_required { "!" } else { "" })?;
        match &self.default {
            Some(default) => write!(f, "={default}"),
            None => Ok(()),
        }
    }
}

/// Where an attribute of an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// So many places behind the first of the schema.
    Own(usize),
    /// Among those that every object has.
    System(SystemAttribute),
}

/// An attribute that every object has: [`crate::object::System`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // they are documented where they stand
pub enum SystemAttribute {
    T,
    DtNext,
    Seq,
    Instance,
    Index,
    Rank,
    Port,
    Size,
    Type,
    Shape,
    Node,
    /// Which group of its port it is of, from 0.
    Group,
    /// How many objects of its group follow it.
    Follow,
}

const ANY_UINT: Type = Type::Uint(Bounds { least: None, most: None });
const ANY_REAL: Type = Type::Real(Bounds { least: None, most: None });

/// Name, place and type of each attribute that every object has.
pub const SYSTEM: &[(&str, SystemAttribute, Type)] = &[
    ("sys.t", SystemAttribute::T, ANY_REAL),
    ("sys.dt_next", SystemAttribute::DtNext, ANY_REAL),
    ("sys.seq", SystemAttribute::Seq, ANY_UINT),
    ("sys.instance", SystemAttribute::Instance, Type::Text),
    ("sys.index", SystemAttribute::Index, ANY_UINT),
    ("sys.rank", SystemAttribute::Rank, ANY_UINT),
    ("sys.port", SystemAttribute::Port, Type::Text),
    ("sys.size", SystemAttribute::Size, ANY_UINT),
    ("sys.type", SystemAttribute::Type, Type::Text),
    ("sys.shape", SystemAttribute::Shape, Type::Ints(Bounds { least: None, most: None })),
    ("sys.node", SystemAttribute::Node, Type::Text),
    ("sys.group", SystemAttribute::Group, ANY_UINT),
    ("sys.follow", SystemAttribute::Follow, ANY_UINT),
];

/// The attributes of a datatype.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    attributes: Vec<Attribute>,
    by_name: HashMap<Box<str>, usize>,
}

impl Schema {
    /// Reads declarations, with white space between them: `NAME:TYPE`, a range such as `[0..]` behind the type, `!` for what each object
    /// must have, `=VALUE` for a default.
    ///
    /// # Errors
    /// Where the text is no such declaration.
    ///
    /// # Example
    /// ```
    /// use xmml_pool::schema::Schema;
    /// let schema = Schema::parse("step:int[0..]! levtype:enum(sfc,pl,ml)! date:time expver:str=0001").unwrap();
    /// assert_eq!(schema.attributes().len(), 4);
    /// assert_eq!(Schema::parse("step:itn").unwrap_err().problem, "there is no type 'itn'; did you mean int?");
    /// ```
    pub fn parse(text: &str) -> Result<Schema, Mistake> {
        if text.len() > MOST_BYTES {
            return Err(Mistake::new(0..text.len(), format!("a schema has at most {MOST_BYTES} bytes")));
        }
        let mut schema = Schema::default();
        let mut declarations = Scanner { text, at: 0 };
        while let Some((attribute, at)) = declarations.next()? {
            if schema.by_name.contains_key(&attribute.name) {
                return Err(Mistake::new(at, format!("the attribute {} is declared twice", attribute.name)));
            }
            if schema.attributes.len() == MOST_ATTRIBUTES {
                return Err(Mistake::new(at, format!("a schema has at most {MOST_ATTRIBUTES} attributes")));
            }
            schema.by_name.insert(attribute.name.clone(), schema.attributes.len());
            schema.attributes.push(attribute);
        }
        Ok(schema)
    }

    /// The attributes, in the order in which they were declared.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Where an attribute stands, and its type.
    ///
    /// # Errors
    /// There is none of this name; the text says what may have been meant.
    pub fn find(&self, name: &str) -> Result<(Place, &Type), String> {
        if let Some(number) = self.by_name.get(name) {
            return Ok((Place::Own(*number), &self.attributes[*number].kind));
        }
        if let Some((_, attribute, kind)) = SYSTEM.iter().find(|(known, ..)| *known == name) {
            return Ok((Place::System(*attribute), kind));
        }
        let known = self.attributes.iter().map(|each| &*each.name).chain(SYSTEM.iter().map(|(name, ..)| *name));
        Err(match closest(name, known) {
            Some(near) => format!("there is no attribute '{name}'; did you mean {near}?"),
            None => format!("there is no attribute '{name}'"),
        })
    }

    /// The attributes of an object as a text gives them, with white space between: with defaults, and everything checked.
    ///
    /// # Errors
    /// Where the text gives none, or what [`Schema::complete`] says; then the place is the whole text.
    ///
    /// # Example
    /// ```
    /// use xmml_pool::{schema::Schema, value::Value};
    /// let schema = Schema::parse("step:int! level:enum(low,high) heights:real[] name:str").unwrap();
    /// let own = schema.read("step=3 level=high heights=[0.5,1] name='a field'").unwrap();
    /// assert_eq!(own[3], Some(Value::Text("a field".into())));
    /// assert_eq!(schema.read("step=x").unwrap_err().problem, "step: 'x' is no int");
    /// ```
    pub fn read(&self, text: &str) -> Result<Vec<Option<Value>>, Mistake> {
        self.read_some(text)
            .and_then(|set| self.with_defaults(set).map_err(|problem| Mistake::new(0..text.len(), problem)))
    }

    /// The attributes that a text gives, without defaults; those that are required may be missing.
    ///
    /// # Errors
    /// As of [`Schema::read`].
    pub fn read_some(&self, text: &str) -> Result<Vec<Option<Value>>, Mistake> {
        let mut scanner = Scanner { text, at: 0 };
        let mut set = Vec::new();
        loop {
            scanner.skip(char::is_whitespace);
            if scanner.at == text.len() {
                break;
            }
            let begin = scanner.at;
            let name = scanner.skip(|each| each.is_ascii_alphanumeric() || each == '_' || each == '.');
            let (_, kind) = self.find(name).map_err(|problem| Mistake::new(begin..scanner.at, problem))?;
            if !scanner.take('=') {
                return Err(scanner.expected(&format!("'=' and a value of {name}")));
            }
            let value = scanner.value(kind)?;
            let value = value.map_err(|problem| Mistake::new(begin..scanner.at, format!("{name}: {problem}")))?;
            if !scanner.rest().is_empty() && !scanner.rest().starts_with(char::is_whitespace) {
                return Err(scanner.expected("white space before the next attribute"));
            }
            set.push((name, value));
        }
        self.some(set).map_err(|problem| Mistake::new(0..text.len(), problem))
    }

    /// The attributes of an object for which these were set: with defaults, and everything checked.
    ///
    /// # Errors
    /// An attribute that does not exist, a value that is not allowed, or one that is required and missing; the text names it.
    pub fn complete<'a>(&self, set: impl IntoIterator<Item = (&'a str, Value)>) -> Result<Vec<Option<Value>>, String> {
        self.some(set).and_then(|values| self.with_defaults(values))
    }

    /// Attributes that were set, without defaults; those that are required may be missing.
    ///
    /// # Errors
    /// An attribute that does not exist, or a value that is not allowed; the text names it.
    pub fn some<'a>(&self, set: impl IntoIterator<Item = (&'a str, Value)>) -> Result<Vec<Option<Value>>, String> {
        let mut values = vec![None; self.attributes.len()];
        for (name, value) in set {
            let (place, kind) = self.find(name)?;
            let Place::Own(number) = place else {
                return Err(format!("{name} cannot be set: every object has it by itself"));
            };
            values[number] = Some(kind.take(value).map_err(|problem| format!("{name} = {problem}"))?);
        }
        Ok(values)
    }

    /// The same with defaults where nothing was set.
    ///
    /// # Errors
    /// One that is required is missing; the text names it.
    pub fn with_defaults(&self, mut values: Vec<Option<Value>>) -> Result<Vec<Option<Value>>, String> {
        for (attribute, value) in self.attributes.iter().zip(&mut values) {
            if value.is_none() {
                value.clone_from(&attribute.default);
            }
            if attribute.is_required && value.is_none() {
                return Err(format!("{} is missing, which is required ({})", attribute.name, attribute.kind));
            }
        }
        Ok(values)
    }
}

/// Reads declarations of attributes, and values for them, from a text.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn next(&mut self) -> Result<Option<(Attribute, Range<usize>)>, Mistake> {
        self.skip(char::is_whitespace);
        if self.at == self.text.len() {
            return Ok(None);
        }
        let begin = self.at;
        let name = self.skip(|each| each.is_ascii_alphanumeric() || each == '_');
        let at = begin..self.at;
        if !name.starts_with(|each: char| each.is_ascii_alphabetic() || each == '_') {
            return Err(self.expected("a name, such as step"));
        }
        if RESERVED.contains(&name) {
            return Err(Mistake::new(at, format!("'{name}' is a word of selectors, and cannot name an attribute")));
        }
        if !self.take(':') {
            return Err(self.expected(&format!("':' and the type of {name}")));
        }
        let kind = self.kind()?;
        let is_required = self.take('!');
        let default_at = self.at;
        let default = match self.take('=') {
            true => Some(self.default(&kind, default_at)?),
            false => None,
        };
        if !self.rest().is_empty() && !self.rest().starts_with(char::is_whitespace) {
            return Err(self.expected("'!', '=' with a default, or white space before the next attribute"));
        }
        if is_required && default.is_some() {
            let problem =
                format!("{name} is required, so that its default is never used: leave out '!' or the default");
            return Err(Mistake::new(at.start..self.at, problem));
        }
        Ok(Some((Attribute { name: name.into(), kind, is_required, default }, at)))
    }

    fn kind(&mut self) -> Result<Type, Mistake> {
        let begin = self.at;
        let word = self.skip(|each| each.is_ascii_alphanumeric() || each == '_');
        let at = begin..self.at;
        let is_list = self.rest().starts_with("[]");
        self.at += if is_list { 2 } else { 0 };
        Ok(match (word, is_list) {
            ("bool", false) => Type::Bool,
            ("int", false) => Type::Int(self.bounds()?),
            ("uint", false) => Type::Uint(self.bounds()?),
            ("real", false) => Type::Real(self.bounds()?),
            ("int", true) => Type::Ints(self.bounds()?),
            ("real", true) => Type::Reals(self.bounds()?),
            ("str", false) => Type::Text,
            ("enum", false) => Type::Enum(self.members()?),
            ("time", false) => Type::Time,
            ("bytes", false) => Type::Bytes,
            (known, true) if TYPES.contains(&known) => {
                return Err(Mistake::new(
                    begin..self.at,
                    format!("there are no lists of {known}, only int[] and real[]"),
                ))
            }
            ("", _) => return Err(self.expected(&format!("a type: {}, int[] or real[]", TYPES.join(", ")))),
            (unknown, _) => {
                let meant = match closest(unknown, TYPES.iter().copied()) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("the types are {}, int[] and real[]", TYPES.join(", ")),
                };
                return Err(Mistake::new(at, format!("there is no type '{unknown}'; {meant}")));
            }
        })
    }

    fn bounds<T: std::str::FromStr + PartialOrd + Copy>(&mut self) -> Result<Bounds<T>, Mistake> {
        let begin = self.at;
        if !self.take('[') {
            return Ok(Bounds { least: None, most: None });
        }
        let inner = self.skip(|each| each != ']' && !each.is_whitespace());
        if !self.take(']') {
            return Err(self.expected("']' behind the range"));
        }
        let range = || {
            let (least, most) = inner.split_once("..")?;
            let number = |text: &str| match text {
                "" => Some(None),
                // What is not a number has no order, not even with itself.
                _ => text.parse().ok().filter(|number: &T| number.partial_cmp(number).is_some()).map(Some),
            };
            let bounds: Bounds<T> = Bounds { least: number(least)?, most: number(most)? };
            let is_empty = matches!((bounds.least, bounds.most), (Some(least), Some(most)) if least > most);
            (!is_empty && (bounds.least.is_some() || bounds.most.is_some())).then_some(bounds)
        };
        range().ok_or_else(|| {
            let problem = format!("'[{inner}]' is no range of this type; ranges look like [0..], [..100] and [1..50]");
            Mistake::new(begin..self.at, problem)
        })
    }

    fn members(&mut self) -> Result<Box<[Box<str>]>, Mistake> {
        let begin = self.at;
        if !self.take('(') {
            return Err(self.expected("the members of the enumeration, as in enum(sfc,pl,ml)"));
        }
        let inner = self.skip(|each| each != ')');
        if !self.take(')') {
            return Err(self.expected("')' behind the members of the enumeration"));
        }
        let members: Vec<Box<str>> = inner.split(',').map(|member| member.trim().into()).collect();
        let at = begin..self.at;
        if members.iter().any(|member| member.is_empty() || member.contains(['\'', '"'])) {
            return Err(Mistake::new(
                at,
                "members of an enumeration are words with commas between, as in enum(sfc,pl,ml)",
            ));
        }
        let mut known = HashSet::new();
        if let Some(twice) = members.iter().find(|member| !known.insert(&***member)) {
            return Err(Mistake::new(at, format!("the member '{twice}' is declared twice")));
        }
        Ok(members.into())
    }

    fn default(&mut self, kind: &Type, begin: usize) -> Result<Value, Mistake> {
        if matches!(kind, Type::Ints(_) | Type::Reals(_) | Type::Bytes) {
            self.skip(|each| !each.is_whitespace());
            return Err(Mistake::new(begin..self.at, format!("an attribute of type {kind} has no default")));
        }
        let value = self.value(kind)?;
        value.map_err(|problem| Mistake::new(begin..self.at, format!("the default {problem}")))
    }

    /// The value behind a `=`; within, why the text that stands there is none of the type.
    fn value(&mut self, kind: &Type) -> Result<Result<Value, String>, Mistake> {
        if self.take('[') {
            let inner = self.skip(|each| each != ']');
            if !self.take(']') {
                return Err(self.expected("']' behind the last number"));
            }
            return Ok(list(inner, kind));
        }
        let text: String = match self.rest().chars().next().filter(|quote| ['\'', '"'].contains(quote)) {
            Some(quote) => {
                self.take(quote);
                let inner = self.skip(|each| each != quote).to_owned();
                if !self.take(quote) {
                    return Err(self.expected("the quote that ends the text"));
                }
                inner
            }
            None => self.skip(|each| !each.is_whitespace()).to_owned(),
        };
        let value = match kind {
            Type::Bool => text.parse().map(Value::Bool).ok(),
            Type::Int(_) => text.parse().map(Value::Int).ok(),
            Type::Uint(_) => text.parse().map(Value::Uint).ok(),
            Type::Real(_) => text.parse().map(Value::Real).ok(),
            Type::Text | Type::Enum(_) | Type::Time => Some(Value::Text(text.as_str().into())),
            Type::Bytes => Some(Value::Bytes(text.as_bytes().into())),
            Type::Ints(_) | Type::Reals(_) => None,
        };
        Ok(value.ok_or_else(|| format!("'{text}' is no {kind}")).and_then(|value| kind.take(value)))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.rest().starts_with(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    fn skip(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|each| !belongs(each)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn expected(&self, what: &str) -> Mistake {
        let found = self.rest().chars().next();
        let at = self.at..self.at + found.map_or(0, char::len_utf8);
        let found = found.map_or("the end".to_owned(), |found| format!("'{found}'"));
        Mistake::new(at, format!("found {found}, expected {what}"))
    }
}

/// The numbers between brackets.
fn list(inner: &str, kind: &Type) -> Result<Value, String> {
    let parts = || inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    let value = match kind {
        Type::Ints(_) => parts().map(|part| part.parse().ok()).collect::<Option<_>>().map(Value::Ints),
        Type::Reals(_) => parts().map(|part| part.parse().ok()).collect::<Option<_>>().map(Value::Reals),
        _ => None,
    };
    value.ok_or_else(|| format!("'[{inner}]' is no {kind}")).and_then(|value| kind.take(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_gives_attributes() {
        let schema =
            Schema::parse("step:int[0..]! e:enum(a,b)=a is:int[] rs:real[] t:time s:str x:bytes b:bool").unwrap();
        let own = schema.read(" step=3 is=[1, -2] rs=[] t=2026-11-27 s=\"it's\"\nx=raw b=true").unwrap();
        let set = [
            ("step", Value::Int(3)),
            ("is", Value::Ints([1, -2].into())),
            ("rs", Value::Reals([].into())),
            ("t", Value::Text("2026-11-27".into())),
            ("s", Value::Text("it's".into())),
            ("x", Value::Bytes((*b"raw").into())),
            ("b", Value::Bool(true)),
        ];
        assert_eq!(own, schema.complete(set).unwrap());
    }

    #[test]
    fn a_text_that_gives_none_is_told_with_its_place() {
        let schema = Schema::parse("step:int[0..]! e:enum(a,b) is:int[]").unwrap();
        for (text, at, problem) in [
            ("stap=3", 0..4, "there is no attribute 'stap'; did you mean step?"),
            ("step=3 e", 8..8, "found the end, expected '=' and a value of e"),
            ("step=-3", 0..7, "step: -3 is not allowed: it is int[0..]"),
            ("step=3,e=a", 0..10, "step: '3,e=a' is no int[0..]"),
            ("step=3 e='a'is=[1]", 12..13, "found 'i', expected white space before the next attribute"),
            ("is=[1,x] step=1", 0..8, "is: '[1,x]' is no int[]"),
            ("is=[1 step=1", 12..12, "found the end, expected ']' behind the last number"),
            ("e=a", 0..3, "step is missing, which is required (int[0..])"),
            ("step=1 sys.t=3", 0..14, "sys.t cannot be set: every object has it by itself"),
        ] {
            assert_eq!(schema.read(text), Err(Mistake::new(at, problem)), "{text}");
        }
    }

    const MARS: &str = "step:int[0..]! number:int[1..50]! param:uint! levtype:enum(sfc,pl,ml)! levelist:int[1..137] \
                        date:time! expver:str=0001";

    fn schema() -> Schema {
        Schema::parse(MARS).unwrap()
    }

    fn field() -> Vec<(&'static str, Value)> {
        vec![
            ("step", Value::Int(3)),
            ("number", Value::Int(1)),
            ("param", Value::Int(130)),
            ("levtype", Value::Text("pl".into())),
            ("date", Value::Text("2026-11-27".into())),
        ]
    }

    fn with(name: &'static str, value: Value) -> Result<Vec<Option<Value>>, String> {
        schema().complete(field().into_iter().chain([(name, value)]))
    }

    #[test]
    fn an_object_gets_the_types_and_defaults_of_its_schema() {
        let values = schema().complete(field()).unwrap();
        assert_eq!(values[2], Some(Value::Uint(130)));
        assert_eq!(values[4], None);
        assert_eq!(values[5], Some(Value::Time(Time::parse("2026-11-27").unwrap())));
        assert_eq!(values[6], Some(Value::Text("0001".into())));
    }

    #[test]
    fn a_schema_is_read_as_it_is_shown() {
        let shown =
            |schema: &Schema| schema.attributes().iter().map(Attribute::to_string).collect::<Vec<_>>().join(" ");
        let text = "a:bool=true b:int[-3..] c:uint[..7]! d:real[0.5..1.5] e:str='x y' f:enum(p,q)='q' g:time h:int[] i:real[][0..1] j:bytes!";
        let schema = Schema::parse(text).unwrap();
        assert_eq!(shown(&schema), text);
        assert_eq!(Schema::parse(&shown(&schema)).unwrap(), schema);
    }

    #[test]
    fn what_an_object_may_not_have_is_refused_with_what_is_allowed() {
        for (name, value, says) in [
            ("stpe", Value::Int(3), "there is no attribute 'stpe'; did you mean step?"),
            ("step", Value::Int(-1), "step = -1 is not allowed: it is int[0..]"),
            ("step", Value::Real(1.0), "step = 1.0 is not allowed: it is int[0..]"),
            ("number", Value::Int(51), "number = 51 is not allowed: it is int[1..50]"),
            ("param", Value::Int(-1), "param = -1 is not allowed: it is uint"),
            (
                "levtype",
                Value::Text("sf".into()),
                "levtype = 'sf' is not allowed: it is enum(sfc,pl,ml); did you mean 'sfc'?",
            ),
            ("date", Value::Text("yesterday".into()), "date = 'yesterday' is not allowed: it is time"),
            ("sys.seq", Value::Int(1), "sys.seq cannot be set: every object has it by itself"),
        ] {
            assert_eq!(with(name, value).unwrap_err(), says);
        }
    }

    #[test]
    fn a_required_attribute_is_missed_by_name() {
        let without = field().into_iter().filter(|(name, _)| *name != "number");
        assert_eq!(schema().complete(without).unwrap_err(), "number is missing, which is required (int[1..50])");
    }

    #[test]
    fn numbers_that_are_none_lie_in_no_range() {
        let schema = Schema::parse("x:real y:real[]").unwrap();
        assert!(schema.complete([("x", Value::Real(f64::NAN))]).is_err());
        assert!(schema.complete([("y", Value::Reals([1.0, f64::NAN].into()))]).is_err());
        assert!(schema.complete([("x", Value::Real(f64::INFINITY))]).is_ok());
    }

    #[test]
    fn schemas_are_bounded() {
        let many: Vec<String> = (0..10_000).map(|number| format!("m{number}")).collect();
        assert!(Schema::parse(&format!("e:enum({})", many.join(","))).is_ok());
        let problem = |text: &str| Schema::parse(text).unwrap_err().problem;
        assert_eq!(problem(&" ".repeat(MOST_BYTES + 1)), "a schema has at most 65536 bytes");
        assert_eq!(problem(&"é".repeat(MOST_BYTES)), "a schema has at most 65536 bytes");
    }

    #[test]
    fn mistakes_in_a_schema_are_named_where_they_stand() {
        for (text, at, says) in [
            ("step", 4..4, "found the end, expected ':' and the type of step"),
            (
                "step:",
                5..5,
                "found the end, expected a type: bool, int, uint, real, str, enum, time, bytes, int[] or real[]",
            ),
            ("a:int b:inte", 8..12, "there is no type 'inte'; did you mean int?"),
            ("a:int a:int", 6..7, "the attribute a is declared twice"),
            ("a:int[5..1]", 5..11, "'[5..1]' is no range of this type; ranges look like [0..], [..100] and [1..50]"),
            ("a:uint[-1..]", 6..12, "'[-1..]' is no range of this type; ranges look like [0..], [..100] and [1..50]"),
            ("a:real[nan..]", 6..13, "'[nan..]' is no range of this type; ranges look like [0..], [..100] and [1..50]"),
            ("a:int[1..", 9..9, "found the end, expected ']' behind the range"),
            ("a:enum", 6..6, "found the end, expected the members of the enumeration, as in enum(sfc,pl,ml)"),
            ("a:enum(p,p)", 6..11, "the member 'p' is declared twice"),
            ("a:enum(p,,q)", 6..12, "members of an enumeration are words with commas between, as in enum(sfc,pl,ml)"),
            ("a:str[]", 2..7, "there are no lists of str, only int[] and real[]"),
            ("a:int[0..3]=7", 11..13, "the default 7 is not allowed: it is int[0..3]"),
            ("a:int=x", 5..7, "the default 'x' is no int"),
            ("a:int!=3", 0..8, "a is required, so that its default is never used: leave out '!' or the default"),
            ("a:bytes=x", 7..9, "an attribute of type bytes has no default"),
            ("in:int", 0..2, "'in' is a word of selectors, and cannot name an attribute"),
            (
                "a:int;b:int",
                5..6,
                "found ';', expected '!', '=' with a default, or white space before the next attribute",
            ),
            ("é:int", 0..2, "found 'é', expected a name, such as step"),
        ] {
            assert_eq!(Schema::parse(text), Err(Mistake::new(at, says)), "{text}");
        }
    }
}
