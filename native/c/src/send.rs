//! Sending.

use std::ffi::c_int;

use xmml_core::instance::{NextStamp, Sent, Stamps};
use xmml_wire::data::{Data, Order};

use crate::argument::{object, text, Elements, Text};
use crate::instance::{member_and_port, Member};
use crate::status::{guard, Failure, Result, Status};
use crate::value::Value;
use crate::value_api::{bytes_from_c, lent_array_from_c};

/// `XMML_DEFAULT_TIME`; not NaN, which is what a mistake in a program yields.
const DEFAULT_TIME: f64 = f64::NEG_INFINITY;
/// `XMML_NO_TIME`.
const NO_TIME: f64 = f64::INFINITY;

#[no_mangle]
pub extern "C" fn xmml_default_time() -> f64 {
    DEFAULT_TIME
}

#[no_mangle]
pub extern "C" fn xmml_no_time() -> f64 {
    NO_TIME
}

/// Where a message goes and which times it bears.
struct Address<'a> {
    me: Option<&'a Member>,
    port: Text<'a>,
    to: Option<u32>,
    timestamp: f64,
    next_timestamp: f64,
}

impl<'a> Address<'a> {
    fn new(me: Option<&'a Member>, port: Text<'a>) -> Address<'a> {
        Address { me, port, to: None, timestamp: DEFAULT_TIME, next_timestamp: DEFAULT_TIME }
    }

    fn to(self, to: u32) -> Self {
        Address { to: Some(to), ..self }
    }

    fn at(self, timestamp: f64, next_timestamp: f64) -> Self {
        Address { timestamp, next_timestamp, ..self }
    }

    fn send(self, data: impl FnOnce() -> Result<Data>) -> Result<()> {
        let (me, port) = member_and_port(self.me, self.port)?;
        let timestamp = match self.timestamp {
            DEFAULT_TIME => None,
            time => Some(time),
        };
        let next = match self.next_timestamp {
            DEFAULT_TIME => NextStamp::OfLoop,
            NO_TIME => NextStamp::Nothing,
            time => NextStamp::At(time),
        };
        match me.core.send(port, self.to, data()?, Stamps { timestamp, next })? {
            Sent::Queued | Sent::NotConnected => Ok(()),
            Sent::ReceiverGone => Err(Failure::new(
                Status::ReceiverGone,
                format!("{}.{port}: every receiver has left; the message was dropped", me.name),
            )),
        }
    }
}

#[no_mangle]
pub extern "C" fn xmml_send(me: Option<&Member>, port: Text, value: Option<&Value>) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(object(value, "value")?.to_data())))
}

#[no_mangle]
pub extern "C" fn xmml_send_to(me: Option<&Member>, port: Text, to: u32, value: Option<&Value>) -> c_int {
    guard(|| Address::new(me, port).to(to).send(|| Ok(object(value, "value")?.to_data())))
}

#[no_mangle]
pub extern "C" fn xmml_send_at(
    me: Option<&Member>,
    port: Text,
    value: Option<&Value>,
    timestamp: f64,
    next_timestamp: f64,
) -> c_int {
    let address = Address::new(me, port).at(timestamp, next_timestamp);
    guard(|| address.send(|| Ok(object(value, "value")?.to_data())))
}

#[no_mangle]
pub extern "C" fn xmml_send_to_at(
    me: Option<&Member>,
    port: Text,
    to: u32,
    value: Option<&Value>,
    timestamp: f64,
    next_timestamp: f64,
) -> c_int {
    let address = Address::new(me, port).to(to).at(timestamp, next_timestamp);
    guard(|| address.send(|| Ok(object(value, "value")?.to_data())))
}

#[no_mangle]
pub extern "C" fn xmml_send_array(
    me: Option<&Member>,
    port: Text,
    dtype: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> c_int {
    let order = Order::RowMajor as c_int;
    guard(|| Address::new(me, port).send(|| Ok(lent_array_from_c(dtype, order, rank, shape, data)?.to_data())))
}

#[no_mangle]
pub extern "C" fn xmml_send_array_order(
    me: Option<&Member>,
    port: Text,
    dtype: c_int,
    order: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(lent_array_from_c(dtype, order, rank, shape, data)?.to_data())))
}

#[no_mangle]
pub extern "C" fn xmml_send_array_at(
    me: Option<&Member>,
    port: Text,
    dtype: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
    timestamp: f64,
    next_timestamp: f64,
) -> c_int {
    let address = Address::new(me, port).at(timestamp, next_timestamp);
    let order = Order::RowMajor as c_int;
    guard(|| address.send(|| Ok(lent_array_from_c(dtype, order, rank, shape, data)?.to_data())))
}

#[no_mangle]
pub extern "C" fn xmml_send_array_to(
    me: Option<&Member>,
    port: Text,
    to: u32,
    dtype: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> c_int {
    let address = Address::new(me, port).to(to);
    let order = Order::RowMajor as c_int;
    guard(|| address.send(|| Ok(lent_array_from_c(dtype, order, rank, shape, data)?.to_data())))
}

#[no_mangle]
pub extern "C" fn xmml_send_nothing(me: Option<&Member>, port: Text) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(Data::Nothing)))
}

#[no_mangle]
pub extern "C" fn xmml_send_bool(me: Option<&Member>, port: Text, value: c_int) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(Data::Bool(value != 0))))
}

#[no_mangle]
pub extern "C" fn xmml_send_int(me: Option<&Member>, port: Text, value: i64) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(Data::Int(value))))
}

#[no_mangle]
pub extern "C" fn xmml_send_double(me: Option<&Member>, port: Text, value: f64) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(Data::Float(value))))
}

#[no_mangle]
pub extern "C" fn xmml_send_complex(me: Option<&Member>, port: Text, real: f64, imaginary: f64) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(Data::Complex(real, imaginary))))
}

#[no_mangle]
pub extern "C" fn xmml_send_text(me: Option<&Member>, port: Text, value: Text) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(Data::Text(text(value, "text")?.to_owned()))))
}

#[no_mangle]
pub extern "C" fn xmml_send_bytes(me: Option<&Member>, port: Text, bytes: Elements<u8>, size: usize) -> c_int {
    guard(|| Address::new(me, port).send(|| Ok(bytes_from_c(bytes, size)?.to_data())))
}
