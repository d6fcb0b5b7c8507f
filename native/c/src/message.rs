//! Messages that were received, and reading what they carry.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use xmml_core::instance::Object;
use xmml_wire::data::Order;
use xmml_wire::message::Message;

use crate::argument::{object, place, Elements, Out, Room};
use crate::status::{free, guard, Failure, Result, Status};
use crate::text::CText;
use crate::value::Value;
use crate::value_api::{array_to_c, bytes_to_c, complex_to_c, copy_to_c, text_to_c, XmmlArray};

/// `xmml_message`.
pub struct CMessage {
    timestamp: f64,
    next_timestamp: Option<f64>,
    value: Value,
    /// Instance and port, for errors.
    place: Arc<str>,
    /// What is known of it, if it is an object of a pool.
    described: Option<Described>,
}

/// An object of a pool without its payload, and what of it C has asked for, which keeps its address.
struct Described {
    object: Object,
    asked: BTreeMap<String, Box<Value>>,
    /// The names of its attributes.
    names: OnceCell<Vec<CText>>,
}

impl CMessage {
    /// A message of the core as it came in (or went out) at this place ([`crate::instance::Member::place`]).
    pub fn new(message: Message, place: Arc<str>) -> CMessage {
        CMessage {
            timestamp: message.timestamp,
            next_timestamp: message.next_timestamp,
            value: message.data.into(),
            place,
            described: None,
        }
    }

    /// An object that was taken at this place.
    pub fn of_object(mut object: Object, place: Arc<str>) -> CMessage {
        let (timestamp, next_timestamp) = (object.attributes.system.t, object.attributes.system.dt_next);
        let data = std::mem::take(&mut object.data);
        let described = Some(Described { object, asked: BTreeMap::new(), names: OnceCell::new() });
        CMessage { described, ..CMessage::new(Message { timestamp, next_timestamp, data }, place) }
    }

    /// The value of an attribute; `None`: the object does not have it.
    pub fn attribute(&mut self, name: &str) -> Result<Option<&Value>> {
        let usage = |problem: String| Failure::usage(format!("{}: {problem}", self.place));
        let Some(described) = &mut self.described else {
            return Err(usage("this is a message, and has no attributes; objects are taken by xmml_take".into()));
        };
        if !described.asked.contains_key(name) {
            let Some(value) = described.object.attribute(name).map_err(usage)? else { return Ok(None) };
            described.asked.insert(name.to_owned(), Box::new(value.into()));
        }
        Ok(described.asked.get(name).map(|value| &**value))
    }

    /// The names of the attributes that it has; none if it is no object.
    pub fn attribute_names(&self) -> &[CText] {
        self.described.as_ref().map_or(&[], |Described { object, names, .. }| {
            names.get_or_init(|| object.attributes.iter().map(|(name, _)| name.into()).collect())
        })
    }

    /// Reads the payload; an error says on which port it came.
    fn read<'a, T>(&'a self, reader: impl FnOnce(&'a Value) -> Result<T>) -> Result<T> {
        reader(&self.value).map_err(|failure| match failure.status {
            Status::Type => Failure::new(Status::Type, format!("{}: {}", self.place, failure.text)),
            _ => failure,
        })
    }
}

#[no_mangle]
pub extern "C" fn xmml_message_timestamp(message: Option<&CMessage>) -> f64 {
    message.map_or(f64::NAN, |message| message.timestamp)
}

#[no_mangle]
pub extern "C" fn xmml_message_next_timestamp(message: Option<&CMessage>) -> f64 {
    message.and_then(|message| message.next_timestamp).unwrap_or(f64::NAN)
}

#[no_mangle]
pub extern "C" fn xmml_message_has_next(message: Option<&CMessage>) -> c_int {
    message.is_some_and(|message| message.next_timestamp.is_some()).into()
}

#[no_mangle]
pub extern "C" fn xmml_message_data(message: Option<&CMessage>) -> *const Value {
    message.map_or(std::ptr::null(), |message| &raw const message.value)
}

#[no_mangle]
pub extern "C" fn xmml_message_free(message: Option<Box<CMessage>>) {
    free(message);
}

#[no_mangle]
pub extern "C" fn xmml_message_bool(message: Option<&CMessage>, out: Out<c_int>) -> c_int {
    guard(|| {
        place(out, "out")?.set(object(message, "message")?.read(Value::read_bool)?.into());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_message_int(message: Option<&CMessage>, out: Out<i64>) -> c_int {
    guard(|| {
        place(out, "out")?.set(object(message, "message")?.read(Value::read_int)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_message_double(message: Option<&CMessage>, out: Out<f64>) -> c_int {
    guard(|| {
        place(out, "out")?.set(object(message, "message")?.read(Value::read_float)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_message_complex(message: Option<&CMessage>, real: Out<f64>, imaginary: Out<f64>) -> c_int {
    guard(|| complex_to_c(object(message, "message")?.read(Value::read_complex), real, imaginary))
}

#[no_mangle]
pub extern "C" fn xmml_message_text(message: Option<&CMessage>, text: Out<*const c_char>, length: Out<usize>) -> c_int {
    guard(|| text_to_c(object(message, "message")?.read(Value::read_text), text, length))
}

#[no_mangle]
pub extern "C" fn xmml_message_bytes(message: Option<&CMessage>, bytes: Out<*const c_void>, size: Out<usize>) -> c_int {
    guard(|| bytes_to_c(object(message, "message")?.read(Value::read_bytes), bytes, size))
}

#[no_mangle]
pub extern "C" fn xmml_message_array(
    message: Option<&CMessage>,
    dtype: c_int,
    rank: usize,
    array: Out<XmmlArray>,
) -> c_int {
    guard(|| {
        let place = place(array, "array")?;
        place.set(
            object(message, "message")?.read(|value| array_to_c(value, Some(dtype), rank, Order::RowMajor as c_int))?,
        );
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_message_copy(
    message: Option<&CMessage>,
    dtype: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Room<u8>,
) -> c_int {
    guard(|| object(message, "message")?.read(|value| copy_to_c(value, dtype, rank, shape, data)))
}
