//! Messages that were received, and reading what they carry.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use xmml_wire::data::Order;
use xmml_wire::message::Message;

use crate::argument::{object, place};
use crate::status::{guard, Failure, Result, Status};
use crate::value::Value;
use crate::value_api::{array_to_c, bytes_to_c, complex_to_c, copy_to_c, text_to_c, XmmlArray};

/// `xmml_message`.
pub struct CMessage {
    timestamp: f64,
    next_timestamp: Option<f64>,
    value: Value,
    /// Instance and port, for errors.
    place: Arc<str>,
}

impl CMessage {
    /// A message of the core as it came in (or went out) at this place ([`crate::instance::Member::place`]).
    pub fn new(message: Message, place: Arc<str>) -> CMessage {
        CMessage {
            timestamp: message.timestamp,
            next_timestamp: message.next_timestamp,
            value: message.data.into(),
            place,
        }
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
pub unsafe extern "C" fn xmml_message_timestamp(message: *const CMessage) -> f64 {
    unsafe { message.as_ref() }.map_or(f64::NAN, |message| message.timestamp)
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_next_timestamp(message: *const CMessage) -> f64 {
    unsafe { message.as_ref() }.and_then(|message| message.next_timestamp).unwrap_or(f64::NAN)
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_has_next(message: *const CMessage) -> c_int {
    unsafe { message.as_ref() }.is_some_and(|message| message.next_timestamp.is_some()).into()
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_data(message: *const CMessage) -> *const Value {
    unsafe { message.as_ref() }.map_or(std::ptr::null(), |message| &raw const message.value)
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_free(message: *mut CMessage) {
    if !message.is_null() {
        guard(|| {
            drop(unsafe { Box::from_raw(message) });
            Ok(())
        });
    }
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_bool(message: *const CMessage, out: *mut c_int) -> c_int {
    guard(|| unsafe {
        place(out, "out")?.set(object(message, "message")?.read(Value::read_bool)?.into());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_int(message: *const CMessage, out: *mut i64) -> c_int {
    guard(|| unsafe {
        place(out, "out")?.set(object(message, "message")?.read(Value::read_int)?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_double(message: *const CMessage, out: *mut f64) -> c_int {
    guard(|| unsafe {
        place(out, "out")?.set(object(message, "message")?.read(Value::read_float)?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_complex(message: *const CMessage, real: *mut f64, imaginary: *mut f64) -> c_int {
    guard(|| unsafe { complex_to_c(object(message, "message")?.read(Value::read_complex), real, imaginary) })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_text(
    message: *const CMessage,
    text: *mut *const c_char,
    length: *mut usize,
) -> c_int {
    guard(|| unsafe { text_to_c(object(message, "message")?.read(Value::read_text), text, length) })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_bytes(
    message: *const CMessage,
    bytes: *mut *const c_void,
    size: *mut usize,
) -> c_int {
    guard(|| unsafe { bytes_to_c(object(message, "message")?.read(Value::read_bytes), bytes, size) })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_array(
    message: *const CMessage,
    dtype: c_int,
    rank: usize,
    array: *mut XmmlArray,
) -> c_int {
    guard(|| unsafe {
        let place = place(array, "array")?;
        place.set(
            object(message, "message")?.read(|value| array_to_c(value, Some(dtype), rank, Order::RowMajor as c_int))?,
        );
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_message_copy(
    message: *const CMessage,
    dtype: c_int,
    rank: usize,
    shape: *const usize,
    data: *mut c_void,
) -> c_int {
    guard(|| unsafe { object(message, "message")?.read(|value| copy_to_c(value, dtype, rank, shape, data)) })
}
