//! The attributes that objects of a datatype have: their names, types, ranges and defaults.

mod scanner;

use std::collections::HashMap;
use std::fmt;

use xmml_wire::spelling::closest;

use crate::time::Time;
use crate::value::Value;
use crate::Mistake;

use self::scanner::Scanner;

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
    /// How many workers died to which it was given before.
    Redelivered,
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
    ("sys.redelivered", SystemAttribute::Redelivered, ANY_UINT),
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
        let mut declarations = Scanner::new(text);
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

    /// The name of the attribute at a place; `None`: there is none in this schema.
    pub fn name(&self, place: Place) -> Option<&str> {
        match place {
            Place::Own(number) => self.attributes.get(number).map(|attribute| &*attribute.name),
            Place::System(place) => SYSTEM.iter().find(|(_, known, _)| *known == place).map(|(name, ..)| *name),
        }
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
        let mut scanner = Scanner::new(text);
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

#[cfg(test)]
mod tests;
