//! What an object of a pool is, and how it travels: as a message, a list of its packed attributes ([`Packed`]) and its payload.

use std::sync::Arc;

use smallvec::SmallVec;

use xmml_pool::object::{Attributes, System};
use xmml_pool::packing::Packed;
use xmml_pool::schema::Schema;
use xmml_pool::value::Value;
use xmml_wire::data::{Array, Data, Element};
use xmml_wire::message::Message;
use xmml_wire::methods::Place;

/// An object that was taken.
#[derive(Clone, Debug)]
pub struct Object {
    /// What is known of it.
    pub attributes: Attributes,
    /// What it holds.
    pub data: Data,
}

impl Object {
    /// The value of an attribute as data: lists as arrays of one dimension, a time as text; `None`: the object does not have it.
    ///
    /// # Errors
    /// There is no such attribute, or it is a whole number that data cannot hold.
    pub fn attribute(&self, name: &str) -> std::result::Result<Option<Data>, String> {
        let Some(value) = self.attributes.get(name)? else { return Ok(None) };
        Ok(Some(match value {
            Value::Bool(value) => Data::Bool(value),
            Value::Int(value) => Data::Int(value),
            Value::Uint(value) => match i64::try_from(value) {
                Ok(value) => Data::Int(value),
                Err(_) => return Err(format!("{name} is {value}, which is larger than any int64")),
            },
            Value::Real(value) => Data::Float(value),
            Value::Text(value) => Data::Text(value.into()),
            Value::Time(value) => Data::Text(value.to_string()),
            Value::Ints(values) => Data::Array(row(&values)?),
            Value::Reals(values) => Data::Array(row(&values)?),
            Value::Bytes(value) => Data::Bytes(value.into_vec().into()),
        }))
    }
}

fn row<T: Element>(values: &[T]) -> std::result::Result<Array, String> {
    Array::from_slice(&[values.len() as u64], values).map_err(|error| error.to_string())
}

/// What the library of a reader notes behind an object that has come, for whoever opens it, maybe on another rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Origin {
    /// The place of its writer among those of the port.
    pub writer: usize,
    /// How often it was given before.
    pub redelivered: Option<u64>,
    /// Extents of the whole array, of which the payload is a block.
    pub whole: Option<Vec<u64>>,
}

impl Origin {
    /// The object with this behind it.
    pub fn behind(&self, mut object: Message) -> Message {
        if let Data::List(parts) = &mut object.data {
            let number = |number: u64| Data::Int(number as i64);
            parts.extend([self.redelivered.map_or(Data::Nothing, number), number(self.writer as u64)]);
            parts.extend(self.whole.iter().map(|whole| Data::List(whole.iter().copied().map(number).collect())));
        }
        object
    }

    /// Takes it off an object again.
    pub fn off(object: &mut Message) -> Option<Origin> {
        let number = |data: &Data| match data {
            Data::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        let Data::List(parts) = &mut object.data else { return None };
        let mut last = parts.pop()?;
        let mut whole = None;
        if let Data::List(extents) = last {
            whole = extents.iter().map(number).collect();
            last = parts.pop()?;
        }
        let writer = usize::try_from(number(&last)?).ok()?;
        Some(Origin { writer, redelivered: number(&parts.pop()?), whole })
    }
}

/// Messages that bring objects of an instance without a run to an in port, whose attributes are declared so.
///
/// # Errors
/// What is wrong with the declarations or with an attribute.
pub fn as_messages(
    attributes: &str,
    objects: impl IntoIterator<Item = (Data, Vec<(String, Value)>)>,
) -> std::result::Result<Vec<Message>, String> {
    let schema = Schema::parse(attributes).map_err(|mistake| mistake.to_string())?;
    let pack = |(seq, (data, set)): (u64, (Data, Vec<(String, Value)>))| {
        let own = schema.complete(set.iter().map(|(name, value)| (name.as_str(), value.clone())))?;
        let data = on_the_way(&schema, Packed { seq, node: Place::here().host.into(), own }, data)?;
        Ok(Message { data, ..Message::default() })
    };
    (0..).zip(objects).map(pack).collect()
}

/// An object as it travels. (What a reader gets of a group is one message: a list of the packed attributes and the payload of each object,
/// and the number of the group.)
pub(super) fn on_the_way(schema: &Schema, packed: Packed, payload: Data) -> std::result::Result<Data, String> {
    Ok(Data::List(vec![Data::Bytes(packed.write(schema)?.into()), payload]))
}

/// The objects of what has come: one that was put alone, or those of a group, each as a list of its packed attributes, its payload and
/// what it has of its group.
///
/// # Errors
/// It is none such.
pub(super) fn taken_apart(message: Message) -> std::result::Result<SmallVec<[Message; 1]>, String> {
    let foreign = || "it sent what is no object".to_owned();
    let Data::List(mut parts) = message.data else { return Err(foreign()) };
    if let [Data::Bytes(_), _] = parts[..] {
        return Ok(SmallVec::from_buf([Message { data: Data::List(parts), ..message }]));
    }
    let (Some(Data::Int(group)), 1..) = (parts.pop(), parts.len()) else { return Err(foreign()) };
    if parts.len() % 4 != 0 {
        return Err(foreign());
    }
    let mut follow = (parts.len() / 4) as i64;
    let mut parts = parts.into_iter();
    let mut objects = SmallVec::new();
    while let (Some(packed), Some(payload), Some(stamp), Some(next)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    {
        let next_timestamp = match next {
            Data::Nothing => None,
            Data::Float(time) if time.is_finite() => Some(time),
            _ => return Err(foreign()),
        };
        let timestamp = match stamp {
            Data::Float(time) if time.is_finite() => time,
            _ => return Err(foreign()),
        };
        follow -= 1;
        let data = Data::List(vec![packed, payload, Data::Int(group), Data::Int(follow)]);
        objects.push(Message { timestamp, next_timestamp, data });
    }
    Ok(objects)
}

impl Object {
    /// What came in as [`on_the_way`] has made it; `system` says of the writer what does not travel, and `whole` of which array the payload
    /// is a block.
    ///
    /// # Errors
    /// It is none such; the text says why.
    pub(super) fn of_message(
        schema: &Arc<Schema>,
        message: Message,
        system: System,
        whole: Option<Vec<u64>>,
    ) -> std::result::Result<Object, String> {
        let Data::List(parts) = message.data else { return Err("it sent what is no object".into()) };
        let mut parts = parts.into_iter();
        let (Some(Data::Bytes(packed)), Some(data)) = (parts.next(), parts.next()) else {
            return Err("it sent what is no object".into());
        };
        let mut of_group = parts.map(|part| match part {
            Data::Int(number) => {
                u64::try_from(number).map_err(|_| format!("it sent {number} as the number of a group"))
            }
            _ => Err("it sent what is no object".to_owned()),
        });
        let (group, follow) = (of_group.next().transpose()?, of_group.next().transpose()?);
        let Packed { seq, node, own } = Packed::read(&packed, schema)?;
        let (t, dt_next) = (message.timestamp, message.next_timestamp);
        let system = with_payload(System { t, dt_next, seq, node: node.into(), group, follow, ..system }, &data);
        let system = of_whole(system, &data, whole);
        Ok(Object { attributes: Attributes { schema: schema.clone(), own, system }, data })
    }
}

/// The attributes that follow from a payload.
pub(super) fn with_payload(system: System, data: &Data) -> System {
    let (kind, shape) = match data {
        Data::Nothing => ("nothing", &[][..]),
        Data::Bool(_) => ("bool", &[][..]),
        Data::Int(_) => ("int", &[][..]),
        Data::Float(_) => ("float", &[][..]),
        Data::Complex(..) => ("complex", &[][..]),
        Data::Text(_) => ("str", &[][..]),
        Data::Bytes(_) => ("bytes", &[][..]),
        Data::Array(array) => (array.dtype.name(), &array.shape[..]),
        Data::List(_) => ("list", &[][..]),
        Data::Map(_) => ("map", &[][..]),
    };
    System { size: data.payload_bytes(), kind: kind.into(), shape: shape.into(), ..system }
}

/// The same of a payload that is a block of an array with the extents `whole`: attributes tell of all of it.
pub(super) fn of_whole(system: System, block: &Data, whole: Option<Vec<u64>>) -> System {
    let (Some(shape), Data::Array(block)) = (whole, block) else { return system };
    let elements = shape.iter().fold(1_u64, |elements, extent| elements.saturating_mul(*extent));
    System { size: elements.saturating_mul(block.dtype.size() as u64), shape, ..system }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parts: Vec<Data>) -> Message {
        Message { data: Data::List(parts), ..Message::default() }
    }

    fn bytes() -> Data {
        Data::Bytes(vec![0].into())
    }

    #[test]
    fn an_object_alone_stays_as_it_is_and_a_group_is_taken_apart() {
        let alone = message(vec![bytes(), Data::Int(1)]);
        assert_eq!(taken_apart(alone.clone()).unwrap().to_vec(), [alone]);
        let (first, second) = ([Data::Float(0.5), Data::Float(1.5)], [Data::Float(2.5), Data::Nothing]);
        let mut parts = vec![bytes(), Data::Int(1)];
        parts.extend(first);
        parts.extend([bytes(), Data::Int(2)]);
        parts.extend(second);
        parts.push(Data::Int(7));
        let single = |payload, follow| message(vec![bytes(), Data::Int(payload), Data::Int(7), Data::Int(follow)]);
        let stamped = |timestamp, next_timestamp, message| Message { timestamp, next_timestamp, ..message };
        let expected = [stamped(0.5, Some(1.5), single(1, 1)), stamped(2.5, None, single(2, 0))];
        assert_eq!(taken_apart(message(parts)).unwrap().to_vec(), expected);
    }

    #[test]
    fn what_is_neither_is_refused() {
        let wrong = [
            vec![],
            vec![Data::Int(0)],
            vec![bytes()],
            vec![Data::Nothing, Data::Nothing],
            vec![bytes(), Data::Nothing, bytes()],
            vec![bytes(), Data::Nothing, Data::Int(0), Data::Int(0)],
            vec![bytes(), Data::Nothing, bytes(), Data::Nothing],
            vec![bytes(), Data::Nothing, Data::Nothing, Data::Nothing, Data::Int(0)],
            vec![bytes(), Data::Nothing, Data::Float(f64::NAN), Data::Nothing, Data::Int(0)],
            vec![bytes(), Data::Nothing, Data::Float(0.0), Data::Bool(true), Data::Int(0)],
        ];
        for parts in wrong {
            assert!(taken_apart(message(parts.clone())).is_err(), "{parts:?}");
        }
        assert!(taken_apart(Message::default()).is_err());
        let schema = Arc::new(Schema::parse("").unwrap());
        let packed = Packed { seq: 0, node: "n".into(), own: Vec::new() }.write(&schema).unwrap();
        let stamps = || [Data::Float(0.0), Data::Nothing];
        let group = |number| {
            let [stamp, next] = stamps();
            message(vec![Data::Bytes(packed.clone().into()), Data::Nothing, stamp, next, Data::Int(number)])
        };
        let opened = |number| {
            let object = taken_apart(group(number)).unwrap().pop().unwrap();
            Object::of_message(&schema, object, System::default(), None)
        };
        assert!(opened(0).is_ok());
        assert_eq!(opened(-1).unwrap_err(), "it sent -1 as the number of a group");
        let [stamp, next] = stamps();
        let no_bytes = message(vec![Data::Nothing, Data::Nothing, stamp, next, Data::Int(0)]);
        let object = taken_apart(no_bytes).unwrap().pop().unwrap();
        assert!(Object::of_message(&schema, object, System::default(), None).is_err());
    }
}
