//! Reads declarations of attributes, and values for them, from a text.

use std::collections::HashSet;
use std::ops::Range;

use xmml_wire::spelling::closest;

use crate::value::Value;
use crate::Mistake;

use super::{Attribute, Bounds, Type, RESERVED, TYPES};

/// Reads declarations of attributes, and values for them, from a text.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    /// How far it is read [bytes].
    pub(super) at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<(Attribute, Range<usize>)>, Mistake> {
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
    pub(super) fn value(&mut self, kind: &Type) -> Result<Result<Value, String>, Mistake> {
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

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn take(&mut self, wanted: char) -> bool {
        let is_there = self.rest().starts_with(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    pub(super) fn skip(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|each| !belongs(each)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    pub(super) fn expected(&self, what: &str) -> Mistake {
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
