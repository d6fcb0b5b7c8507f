//! Objects of pools (`xmml_pools.h`).

use std::ffi::{c_char, c_int};

use xmml_core::instance::Taken;
use xmml_wire::data::{Data, Order};
use xmml_wire::error::Error;

use crate::argument::{object, optional_text, place, place_for_object, text, time_out, wanted, Elements, Out, Text};
use crate::instance::{member_and_port, Member};
use crate::message::CMessage;
use crate::receive::not_connected;
use crate::status::{guard, guard_or, Failure, Result, Status};
use crate::value::Value;
use crate::value_api::lent_array_from_c;

/// `whole`: extents of the array that it is a block of.
pub(crate) fn put(
    me: Option<&Member>,
    port: Text,
    data: impl FnOnce() -> Result<Data>,
    whole: Option<Vec<u64>>,
    attributes: Text,
    readers: Out<u64>,
) -> Result<()> {
    let (me, port) = member_and_port(me, port)?;
    let attributes = optional_text(attributes, "attributes")?.unwrap_or_default();
    let chosen = me.core.put_described(port, data()?, whole.as_deref(), attributes)?;
    if let Some(readers) = wanted(readers) {
        readers.set(chosen);
    }
    Ok(())
}

#[no_mangle]
pub extern "C" fn xmml_put(
    me: Option<&Member>,
    port: Text,
    value: Option<&Value>,
    attributes: Text,
    readers: Out<u64>,
) -> c_int {
    guard(|| put(me, port, || Ok(value.map_or(Data::Nothing, Value::to_data)), None, attributes, readers))
}

#[no_mangle]
pub extern "C" fn xmml_put_array(
    me: Option<&Member>,
    port: Text,
    dtype: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
    attributes: Text,
    readers: Out<u64>,
) -> c_int {
    xmml_put_array_order(me, port, dtype, Order::RowMajor as c_int, rank, shape, data, attributes, readers)
}

#[no_mangle]
#[allow(clippy::too_many_arguments)]
pub extern "C" fn xmml_put_array_order(
    me: Option<&Member>,
    port: Text,
    dtype: c_int,
    order: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
    attributes: Text,
    readers: Out<u64>,
) -> c_int {
    let array = || Ok(lent_array_from_c(dtype, order, rank, shape, data)?.to_data());
    guard(|| put(me, port, array, None, attributes, readers))
}

#[no_mangle]
pub extern "C" fn xmml_wanted(me: Option<&Member>, port: Text, attributes: Text, readers: Out<u64>) -> c_int {
    guard(|| {
        let (me, port) = member_and_port(me, port)?;
        let attributes = optional_text(attributes, "attributes")?.unwrap_or_default();
        place(readers, "readers")?.set(me.core.wanted_described(port, attributes)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_group_begin(me: Option<&Member>, port: Text, attributes: Text) -> c_int {
    guard(|| {
        let (me, port) = member_and_port(me, port)?;
        let attributes = optional_text(attributes, "attributes")?.unwrap_or_default();
        Ok(me.core.begin_group_described(port, attributes)?)
    })
}

#[no_mangle]
pub extern "C" fn xmml_group_end(me: Option<&Member>, port: Text, readers: Out<u64>) -> c_int {
    guard(|| {
        let (me, port) = member_and_port(me, port)?;
        let reached = me.core.end_group(port)?;
        if let Some(readers) = wanted(readers) {
            readers.set(reached);
        }
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_group_abandon(me: Option<&Member>, port: Text) -> c_int {
    guard(|| {
        let (me, port) = member_and_port(me, port)?;
        Ok(me.core.abandon_group(port)?)
    })
}

#[no_mangle]
pub extern "C" fn xmml_end(me: Option<&Member>, port: Text) -> c_int {
    guard(|| {
        let (me, port) = member_and_port(me, port)?;
        Ok(me.core.end(port)?)
    })
}

#[no_mangle]
pub extern "C" fn xmml_take(me: Option<&Member>, port: Text, object: Out<*mut CMessage>) -> c_int {
    guard(|| take(me, port, None, object))
}

#[no_mangle]
pub extern "C" fn xmml_take_timeout(
    me: Option<&Member>,
    port: Text,
    seconds: f64,
    object: Out<*mut CMessage>,
) -> c_int {
    guard(|| take(me, port, Some(seconds), object))
}

fn take(me: Option<&Member>, port: Text, seconds: Option<f64>, out: Out<*mut CMessage>) -> Result<()> {
    let out = place_for_object(out, "object")?;
    let (me, port) = member_and_port(me, port)?;
    let timeout = seconds.map(|seconds| time_out(seconds, me.place(port))).transpose()?;
    match me.core.take(port, timeout)? {
        Taken::Object(object) => {
            out.give(CMessage::of_object(*object, me.place(port)));
            Ok(())
        }
        Taken::Ended => Err(Failure::new(
            Status::Ended,
            format!("{}.{port}: all writers have ended, and everything that they put has been taken", me.name),
        )),
        Taken::TimedOut => {
            let seconds = seconds.unwrap_or_default();
            Err(Error::TimedOut { instance: me.name.to_string(), port: port.into(), seconds }.into())
        }
        Taken::NotConnected => Err(not_connected(me, port)),
    }
}

#[no_mangle]
pub extern "C" fn xmml_attribute(message: Option<&mut CMessage>, name: Text, value: Out<*const Value>) -> c_int {
    guard(|| {
        let value = place(value, "value")?;
        let found = object(message, "object")?.attribute(text(name, "name")?)?;
        value.set(found.map_or(std::ptr::null(), |found| &raw const *found));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_attribute_count(message: Option<&CMessage>) -> usize {
    guard_or(0, || Ok(object(message, "object")?.attribute_names().len()))
}

#[no_mangle]
pub extern "C" fn xmml_attribute_name(message: Option<&CMessage>, i: usize) -> *const c_char {
    guard_or(std::ptr::null(), || {
        let names = object(message, "object")?.attribute_names();
        Ok(names.get(i).map_or(std::ptr::null(), |name| name.as_ptr()))
    })
}
