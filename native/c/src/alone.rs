//! An instance without a run, for tests.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};

use xmml_core::instance::Instance;
use xmml_core::spec::InstanceSpec;
use xmml_wire::message::Message;

use crate::argument::{object, object_mut, place_for_object, text};
use crate::instance::Member;
use crate::message::CMessage;
use crate::status::{guard, guard_pointer, Failure, Status};
use crate::value::Value;

/// `xmml_alone`: what such an instance is to be.
pub struct Alone {
    spec: InstanceSpec,
    inputs: BTreeMap<String, Vec<Message>>,
}

#[no_mangle]
pub unsafe extern "C" fn xmml_alone_new(name: *const c_char) -> *mut Alone {
    guard_pointer(|| {
        let spec = InstanceSpec::new(unsafe { text(name, "name")? });
        Ok(Alone { spec, inputs: BTreeMap::new() })
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_alone_port(alone: *mut Alone, port: *const c_char, place: *const c_char) -> c_int {
    guard(|| unsafe {
        let alone = object_mut(alone, "alone")?;
        Ok(alone.spec.add_port(text(port, "port")?, text(place, "operator")?)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_alone_param(alone: *mut Alone, name: *const c_char, value: *const c_char) -> c_int {
    guard(|| unsafe {
        let alone = object_mut(alone, "alone")?;
        alone.spec.params.insert(text(name, "name")?.into(), text(value, "text")?.into());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_alone_steps(alone: *mut Alone, steps: u64, delta_s: f64) -> c_int {
    guard(|| Ok(unsafe { object_mut(alone, "alone")? }.spec.set_steps(steps, delta_s)?))
}

#[no_mangle]
pub unsafe extern "C" fn xmml_alone_scale(alone: *mut Alone, name: *const c_char, delta: f64, total: f64) -> c_int {
    guard(|| unsafe { Ok(object_mut(alone, "alone")?.spec.add_scale(text(name, "name")?, delta, total)?) })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_alone_input(
    alone: *mut Alone,
    port: *const c_char,
    timestamp: f64,
    value: *const Value,
) -> c_int {
    guard(|| unsafe {
        let (alone, port) = (object_mut(alone, "alone")?, text(port, "port")?);
        let data = object(value, "value")?.to_data();
        let message = Message { timestamp, next_timestamp: None, data };
        alone.inputs.entry(port.into()).or_default().push(message);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_alone_join(alone: *mut *mut Alone, me: *mut *mut Member) -> c_int {
    guard(|| unsafe {
        let alone = std::mem::replace(object_mut(alone, "alone")?, std::ptr::null_mut());
        if alone.is_null() {
            return Err(Failure::usage("*alone is a null pointer"));
        }
        let alone = Box::from_raw(alone);
        let me = place_for_object(me, "me")?;
        let core = Instance::alone(alone.spec, alone.inputs)?;
        me.set(Box::into_raw(Box::new(Member::new(core))));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_alone_free(alone: *mut Alone) {
    if !alone.is_null() {
        guard(|| {
            drop(unsafe { Box::from_raw(alone) });
            Ok(())
        });
    }
}

#[no_mangle]
pub unsafe extern "C" fn xmml_output(
    me: *const Member,
    port: *const c_char,
    i: usize,
    message: *mut *mut CMessage,
) -> c_int {
    guard(|| unsafe {
        let out = place_for_object(message, "message")?;
        let (me, port) = (object(me, "me")?, text(port, "port")?);
        let sent = me.core.outputs().remove(port).unwrap_or_default();
        let count = sent.len();
        match sent.into_iter().nth(i) {
            Some(message) => out.set(Box::into_raw(Box::new(CMessage::new(message, me.place(port))))),
            None => {
                let text = format!("{}.{port}: {count} message(s) were sent, so there is no number {i}", me.name);
                return Err(Failure::new(Status::Done, text));
            }
        }
        Ok(())
    })
}
