//! What is known of an object.

use std::borrow::Cow;
use std::sync::Arc;

use crate::schema::{Place, Schema, SystemAttribute, SYSTEM};
use crate::value::{Operand, Value};

/// What every object has, whoever offers it: the attributes `sys.*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct System {
    /// Time of the model \[s\].
    pub t: f64,
    /// Time of the model at which the next object comes \[s\]; `None`: this is the last, or nobody knows.
    pub dt_next: Option<f64>,
    /// Which object of its port it is, from 0.
    pub seq: u64,
    /// The instance that offers it.
    pub instance: Arc<str>,
    /// Which copy of a multiplied instance that is.
    pub index: Option<u32>,
    /// The rank that offers it.
    pub rank: u32,
    /// The out port.
    pub port: Arc<str>,
    /// Bytes of the payload.
    pub size: u64,
    /// Type of the elements.
    pub kind: Cow<'static, str>,
    /// Extents of an array.
    pub shape: Vec<u64>,
    /// The node on which it was offered.
    pub node: Arc<str>,
    /// Which group of its port it is of, from 0; `None`: it was offered alone.
    pub group: Option<u64>,
    /// How many objects of its group follow it at the reader; the writer does not know that.
    pub follow: Option<u64>,
    /// How many workers of a queue it was given to before, who died; `None`: none. The writer's selectors do not know that.
    pub redelivered: Option<u64>,
}

impl System {
    /// Sets an attribute that was kept somewhere, by its name.
    ///
    /// # Errors
    /// There is no such attribute, or it has no such value.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let Some((_, attribute, _)) = SYSTEM.iter().find(|(known, ..)| *known == name) else {
            return Err(format!("there is no attribute '{name}'"));
        };
        let wrong = || format!("{name} cannot be {value:?}");
        let number = || match value {
            Value::Int(number) => u64::try_from(*number).map_err(|_| wrong()),
            Value::Uint(number) => Ok(*number),
            _ => Err(wrong()),
        };
        let small = || number().and_then(|number| u32::try_from(number).map_err(|_| wrong()));
        let real = || match value {
            Value::Real(number) => Ok(*number),
            Value::Int(number) => Ok(*number as f64),
            _ => Err(wrong()),
        };
        let text = || match value {
            Value::Text(text) => Ok(&**text),
            _ => Err(wrong()),
        };
        match attribute {
            SystemAttribute::T => self.t = real()?,
            SystemAttribute::DtNext => self.dt_next = Some(real()?),
            SystemAttribute::Seq => self.seq = number()?,
            SystemAttribute::Instance => self.instance = text()?.into(),
            SystemAttribute::Index => self.index = Some(small()?),
            SystemAttribute::Rank => self.rank = small()?,
            SystemAttribute::Port => self.port = text()?.into(),
            SystemAttribute::Size => self.size = number()?,
            SystemAttribute::Type => self.kind = text()?.to_owned().into(),
            SystemAttribute::Node => self.node = text()?.into(),
            SystemAttribute::Group => self.group = Some(number()?),
            SystemAttribute::Follow => self.follow = Some(number()?),
            SystemAttribute::Redelivered => self.redelivered = Some(number()?),
            SystemAttribute::Shape => match value {
                Value::Ints(extents) => self.shape = extents.iter().map(|extent| *extent as u64).collect(),
                _ => return Err(wrong()),
            },
        }
        Ok(())
    }

    fn operand(&self, attribute: SystemAttribute) -> Option<Operand<'_>> {
        Some(match attribute {
            SystemAttribute::T => Operand::Real(self.t),
            SystemAttribute::DtNext => Operand::Real(self.dt_next?),
            SystemAttribute::Seq => Operand::Integer(self.seq.into()),
            SystemAttribute::Instance => Operand::Text(&self.instance),
            SystemAttribute::Index => Operand::Integer(self.index?.into()),
            SystemAttribute::Rank => Operand::Integer(self.rank.into()),
            SystemAttribute::Port => Operand::Text(&self.port),
            SystemAttribute::Size => Operand::Integer(self.size.into()),
            SystemAttribute::Type => Operand::Text(&self.kind),
            SystemAttribute::Node => Operand::Text(&self.node),
            SystemAttribute::Group => Operand::Integer(self.group?.into()),
            SystemAttribute::Follow => Operand::Integer(self.follow?.into()),
            SystemAttribute::Redelivered => Operand::Integer(self.redelivered?.into()),
            SystemAttribute::Shape => return None,
        })
    }

    fn value(&self, attribute: SystemAttribute) -> Option<Value> {
        Some(match attribute {
            SystemAttribute::Shape => Value::Ints(self.shape.iter().map(|extent| *extent as i64).collect()),
            SystemAttribute::T => Value::Real(self.t),
            SystemAttribute::DtNext => Value::Real(self.dt_next?),
            SystemAttribute::Seq => Value::Uint(self.seq),
            SystemAttribute::Instance => Value::Text((&*self.instance).into()),
            SystemAttribute::Index => Value::Uint(self.index?.into()),
            SystemAttribute::Rank => Value::Uint(self.rank.into()),
            SystemAttribute::Port => Value::Text((&*self.port).into()),
            SystemAttribute::Size => Value::Uint(self.size),
            SystemAttribute::Type => Value::Text((&*self.kind).into()),
            SystemAttribute::Node => Value::Text((&*self.node).into()),
            SystemAttribute::Group => Value::Uint(self.group?),
            SystemAttribute::Follow => Value::Uint(self.follow?),
            SystemAttribute::Redelivered => Value::Uint(self.redelivered?),
        })
    }
}

/// The attributes of an object, by their names.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// What they can be.
    pub schema: Arc<Schema>,
    /// Those of the schema, in its order.
    pub own: Vec<Option<Value>>,
    /// Those that every object has.
    pub system: System,
}

impl Attributes {
    /// The value of an attribute; `None`: the object does not have it.
    ///
    /// # Errors
    /// There is no such attribute; the text says what may have been meant.
    pub fn get(&self, name: &str) -> Result<Option<Value>, String> {
        Ok(match self.schema.find(name)?.0 {
            Place::Own(number) => self.own.get(number).cloned().flatten(),
            Place::System(attribute) => self.system.value(attribute),
        })
    }

    /// Every attribute that the object has, with its name: those of the schema, then `sys.*`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value)> {
        let own = self.schema.attributes().iter().zip(&self.own);
        let own = own.filter_map(|(attribute, value)| Some((&*attribute.name, value.clone()?)));
        own.chain(SYSTEM.iter().filter_map(|(name, attribute, _)| Some((*name, self.system.value(*attribute)?))))
    }
}

/// The attributes of an object, as selectors see them.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// Those of its schema, in the order of the schema.
    pub own: &'a [Option<Value>],
    /// Those that every object has.
    pub system: &'a System,
}

impl<'a> Described<'a> {
    /// The value at a place; `None`: it is absent.
    pub fn operand(&self, place: Place) -> Option<Operand<'a>> {
        match place {
            Place::Own(number) => self.own.get(number)?.as_ref()?.operand(),
            Place::System(attribute) => self.system.operand(attribute),
        }
    }

    /// Whether there is a value at a place.
    pub fn has(&self, place: Place) -> bool {
        match place {
            Place::Own(number) => self.own.get(number).is_some_and(Option::is_some),
            Place::System(SystemAttribute::Shape) => true,
            Place::System(attribute) => self.system.operand(attribute).is_some(),
        }
    }
}
