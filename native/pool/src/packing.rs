//! The attributes of an object as bytes, as they travel before its payload.
//!
//! All numbers are little-endian, and nothing is aligned:
//!
//! | bytes | |
//! |---|---|
//! | 8 | u64 `sys.seq` |
//! | 1 + n | length of `sys.node`, then its UTF-8 |
//! | m / 8, rounded up | which of the m attributes of the schema are present: bit 0 of the first byte is the first attribute; bits behind the last are 0 |
//! | | the present ones, in the order of the schema |
//!
//! | type | bytes of a value |
//! |---|---|
//! | `bool` | 1: 0 or 1 |
//! | `int`, `uint`, `real` | 8: i64, u64, f64 |
//! | `time` | 8: i64, microseconds since 1970-01-01T00:00Z |
//! | `enum` | 2: u16, the place of the member, from 0 |
//! | `str`, `bytes` | 4 + n: u32 length, then UTF-8 or bytes |
//! | `int[]`, `real[]` | 4 + 8 n: u32 number of elements, then each as i64 or f64 |
//!
//! The other `sys.*` attributes are those of the message and its conduit.

use crate::schema::{Schema, Type};
use crate::time::Time;
use crate::value::Value;

/// Bytes of the packed attributes of one object at most.
pub const MOST_BYTES: usize = 64 * 1024;

/// What travels with the payload of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// Which object of its port it is, from 0.
    pub seq: u64,
    /// The node on which it was offered; of a longer name the first 255 bytes travel.
    pub node: Box<str>,
    /// The attributes of the schema, in its order.
    pub own: Vec<Option<Value>>,
}

impl Packed {
    /// The bytes for an object whose attributes were checked against its schema ([`Schema::complete`]).
    ///
    /// # Errors
    /// They are too many; the text says how many.
    ///
    /// # Example
    /// ```
    /// use xmml_pool::{packing::Packed, schema::Schema, value::Value};
    ///
    /// let schema = Schema::parse("step:int! level:enum(low,high)").unwrap();
    /// let own = schema.complete([("step", Value::Int(3)), ("level", Value::Text("high".into()))]).unwrap();
    /// let packed = Packed { seq: 7, node: "n1".into(), own };
    /// let bytes = packed.write(&schema).unwrap();
    /// assert_eq!(bytes, b"\x07\0\0\0\0\0\0\0\x02n1\x03\x03\0\0\0\0\0\0\0\x01\0");
    /// assert_eq!(Packed::read(&bytes, &schema), Ok(packed));
    /// ```
    pub fn write(&self, schema: &Schema) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend(self.seq.to_le_bytes());
        let node = fitting(&self.node, u8::MAX.into());
        bytes.push(node.len() as u8);
        bytes.extend(node.as_bytes());
        let present = bytes.len();
        bytes.resize(present + self.own.len().div_ceil(8), 0);
        for (number, (attribute, value)) in schema.attributes().iter().zip(&self.own).enumerate() {
            let Some(value) = value else { continue };
            bytes[present + number / 8] |= 1 << (number % 8);
            write_value(&mut bytes, &attribute.kind, value);
        }
        match bytes.len() <= MOST_BYTES {
            true => Ok(bytes),
            false => Err(format!("its attributes take {} bytes, and may take {MOST_BYTES}", bytes.len())),
        }
    }

    /// What [`Packed::write`] has made bytes of, by the same schema. The bytes may be anybody's: every value is checked.
    ///
    /// # Errors
    /// They are none such; the text says why.
    pub fn read(bytes: &[u8], schema: &Schema) -> Result<Packed, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("{} bytes of attributes, and there may be {MOST_BYTES}", bytes.len()));
        }
        let mut reader = Reader(bytes);
        let seq = u64::from_le_bytes(reader.array()?);
        let [length] = reader.array()?;
        let node = text(reader.take(length.into())?)?;
        let attributes = schema.attributes();
        let present = reader.take(attributes.len().div_ceil(8))?;
        if attributes.len() % 8 > 0 && present.last().is_some_and(|last| last >> (attributes.len() % 8) != 0) {
            return Err("attributes that the schema does not have".into());
        }
        let mut own = Vec::with_capacity(attributes.len());
        for (number, attribute) in attributes.iter().enumerate() {
            let is_present = present[number / 8] >> (number % 8) & 1 == 1;
            if attribute.is_required && !is_present {
                return Err(format!("{} is missing, which is required", attribute.name));
            }
            own.push(match is_present {
                true => {
                    Some(reader.value(&attribute.kind).map_err(|problem| format!("{}: {problem}", attribute.name))?)
                }
                false => None,
            });
        }
        match reader.0.len() {
            0 => Ok(Packed { seq, node, own }),
            rest => Err(format!("{rest} bytes behind the last attribute")),
        }
    }
}

/// `sys.seq` of what [`Packed::write`] has made bytes of; `None`: they are cut off.
pub fn seq_of(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|seq| u64::from_le_bytes(*seq))
}

/// As much of a text as fits into so many bytes.
fn fitting(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn write_value(bytes: &mut Vec<u8>, kind: &Type, value: &Value) {
    match value {
        Value::Bool(value) => bytes.push(u8::from(*value)),
        Value::Int(value) => bytes.extend(value.to_le_bytes()),
        Value::Uint(value) => bytes.extend(value.to_le_bytes()),
        Value::Real(value) => bytes.extend(value.to_le_bytes()),
        Value::Time(Time(value)) => bytes.extend(value.to_le_bytes()),
        Value::Text(value) => match kind {
            Type::Enum(members) => {
                let place = members.iter().position(|member| member == value).unwrap_or_default();
                bytes.extend((place as u16).to_le_bytes());
            }
            _ => write_bytes(bytes, value.as_bytes()),
        },
        Value::Bytes(value) => write_bytes(bytes, value),
        Value::Ints(values) => {
            bytes.extend((values.len() as u32).to_le_bytes());
            values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        }
        Value::Reals(values) => {
            bytes.extend((values.len() as u32).to_le_bytes());
            values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        }
    }
}

fn write_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend((value.len() as u32).to_le_bytes());
    bytes.extend(value);
}

fn text(bytes: &[u8]) -> Result<Box<str>, String> {
    std::str::from_utf8(bytes).map(Box::from).map_err(|_| "a text that is no UTF-8".into())
}

/// Bytes that have yet to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("the attributes are cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("the attributes are cut off")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn counted(&mut self, size: usize) -> Result<&'a [u8], String> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        self.take(count.checked_mul(size).ok_or("the attributes are cut off")?)
    }

    fn numbers<T>(&mut self, number: fn([u8; 8]) -> T) -> Result<Box<[T]>, String> {
        let bytes = self.counted(8)?.chunks_exact(8);
        Ok(bytes.filter_map(|each| each.try_into().ok()).map(number).collect())
    }

    fn value(&mut self, kind: &Type) -> Result<Value, String> {
        let value = match kind {
            Type::Bool => match self.array()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return Err(format!("{other} is neither true nor false")),
            },
            Type::Int(_) => Value::Int(i64::from_le_bytes(self.array()?)),
            Type::Uint(_) => Value::Uint(u64::from_le_bytes(self.array()?)),
            Type::Real(_) => Value::Real(f64::from_le_bytes(self.array()?)),
            Type::Time => Value::Time(Time(i64::from_le_bytes(self.array()?))),
            Type::Enum(members) => {
                let place = u16::from_le_bytes(self.array()?);
                let member = members.get(usize::from(place));
                Value::Text(member.ok_or_else(|| format!("there is no member {place}"))?.clone())
            }
            Type::Text => Value::Text(text(self.counted(1)?)?),
            Type::Bytes => Value::Bytes(self.counted(1)?.into()),
            Type::Ints(_) => Value::Ints(self.numbers(i64::from_le_bytes)?),
            Type::Reals(_) => Value::Reals(self.numbers(f64::from_le_bytes)?),
        };
        kind.take(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SCHEMA: &str =
        "b:bool i:int[-5..5] u:uint! r:real s:str e:enum(sfc,pl,ml) t:time is:int[] rs:real[][0..] x:bytes";

    fn schema() -> Schema {
        Schema::parse(SCHEMA).unwrap()
    }

    fn objects() -> impl Strategy<Value = Packed> {
        let numbers = (any::<bool>(), -5_i64..=5, any::<u64>(), any::<f64>().prop_filter("NaN", |real| !real.is_nan()));
        let texts =
            ("\\PC{0,20}", prop_oneof!["sfc", "pl", "ml"], -60_000_000_000_000_000_i64..250_000_000_000_000_000);
        let lists = (
            prop::collection::vec(any::<i64>(), 0..5),
            prop::collection::vec(0.0..1e9, 0..5),
            prop::collection::vec(any::<u8>(), 0..20),
        );
        (any::<u64>(), "[a-z0-9]{0,300}", numbers, texts, lists, any::<u16>()).prop_map(
            |(seq, node, numbers, texts, lists, present)| {
                let own = vec![
                    Value::Bool(numbers.0),
                    Value::Int(numbers.1),
                    Value::Uint(numbers.2),
                    Value::Real(numbers.3),
                    Value::Text(texts.0.into()),
                    Value::Text(texts.1.into()),
                    Value::Time(Time(texts.2)),
                    Value::Ints(lists.0.into()),
                    Value::Reals(lists.1.into()),
                    Value::Bytes(lists.2.into()),
                ];
                let is_there = |number: usize| number == 2 || present >> number & 1 == 1;
                let own = own.into_iter().enumerate();
                let own = own.map(|(number, value)| is_there(number).then_some(value)).collect();
                Packed { seq, node: node.into(), own }
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_packed_is_read(object in objects()) {
            let node = fitting(&object.node, 255).into();
            let bytes = object.write(&schema()).unwrap();
            prop_assert_eq!(Packed::read(&bytes, &schema()), Ok(Packed { node, ..object }));
        }

        #[test]
        fn bytes_that_are_cut_or_longer_are_refused(object in objects(), cut in any::<prop::sample::Index>()) {
            let mut bytes = object.write(&schema()).unwrap();
            let shorter = &bytes[..cut.index(bytes.len())];
            prop_assert!(Packed::read(shorter, &schema()).is_err());
            bytes.push(0);
            prop_assert_eq!(Packed::read(&bytes, &schema()).unwrap_err(), "1 bytes behind the last attribute");
        }
    }

    fn refusal(change: impl Fn(&mut Vec<u8>)) -> String {
        let schema = Schema::parse("u:uint[..9]! e:enum(a,b) b:bool").unwrap();
        let own = vec![Some(Value::Uint(3)), Some(Value::Text("b".into())), Some(Value::Bool(true))];
        let mut bytes = Packed { seq: 0, node: "".into(), own }.write(&schema).unwrap();
        change(&mut bytes);
        Packed::read(&bytes, &schema).unwrap_err()
    }

    #[test]
    fn a_value_that_its_type_does_not_allow_is_refused() {
        assert_eq!(refusal(|bytes| bytes[10] = 10), "u: 10 is not allowed: it is uint[..9]");
        assert_eq!(refusal(|bytes| bytes[18] = 2), "e: there is no member 2");
        assert_eq!(refusal(|bytes| bytes[20] = 2), "b: 2 is neither true nor false");
    }

    #[test]
    fn a_required_attribute_and_unknown_ones_are_looked_for() {
        assert_eq!(refusal(|bytes| bytes[9] = 0b110), "u is missing, which is required");
        assert_eq!(refusal(|bytes| bytes[9] = 0b1111), "attributes that the schema does not have");
    }

    #[test]
    fn too_many_bytes_are_refused_at_both_ends() {
        let schema = Schema::parse("x:bytes").unwrap();
        let own = vec![Some(Value::Bytes(vec![0; MOST_BYTES].into()))];
        let packed = Packed { seq: 0, node: "".into(), own };
        assert_eq!(packed.write(&schema).unwrap_err(), "its attributes take 65550 bytes, and may take 65536");
        assert!(Packed::read(&[0; MOST_BYTES + 1], &schema).unwrap_err().starts_with("65537 bytes of attributes"));
    }
}
