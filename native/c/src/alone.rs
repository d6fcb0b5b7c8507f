//! An instance without a run, for tests.

use std::collections::BTreeMap;
use std::ffi::c_int;

use xmml_core::instance::Instance;
use xmml_core::spec::InstanceSpec;
use xmml_wire::message::Message;

use crate::argument::{object, place_for_object, text, Out, Text};
use crate::instance::{member_and_port, Member};
use crate::message::CMessage;
use crate::status::{free, guard, guard_pointer, Failure, Status};
use crate::value::Value;

/// `xmml_alone`: what such an instance is to be.
pub struct Alone {
    spec: InstanceSpec,
    inputs: BTreeMap<String, Vec<Message>>,
}

#[no_mangle]
pub extern "C" fn xmml_alone_new(name: Text) -> *mut Alone {
    guard_pointer(|| {
        let spec = InstanceSpec::new(text(name, "name")?);
        Ok(Alone { spec, inputs: BTreeMap::new() })
    })
}

#[no_mangle]
pub extern "C" fn xmml_alone_port(alone: Option<&mut Alone>, port: Text, place: Text) -> c_int {
    guard(|| {
        let alone = object(alone, "alone")?;
        Ok(alone.spec.add_port(text(port, "port")?, text(place, "operator")?)?)
    })
}

#[no_mangle]
pub extern "C" fn xmml_alone_param(alone: Option<&mut Alone>, name: Text, value: Text) -> c_int {
    guard(|| {
        let alone = object(alone, "alone")?;
        alone.spec.params.insert(text(name, "name")?.into(), text(value, "text")?.into());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_alone_steps(alone: Option<&mut Alone>, steps: u64, delta_s: f64) -> c_int {
    guard(|| Ok(object(alone, "alone")?.spec.set_steps(steps, delta_s)?))
}

#[no_mangle]
pub extern "C" fn xmml_alone_scale(alone: Option<&mut Alone>, name: Text, delta: f64, total: f64) -> c_int {
    guard(|| Ok(object(alone, "alone")?.spec.add_scale(text(name, "name")?, delta, total)?))
}

#[no_mangle]
pub extern "C" fn xmml_alone_input(
    alone: Option<&mut Alone>,
    port: Text,
    timestamp: f64,
    value: Option<&Value>,
) -> c_int {
    guard(|| {
        let (alone, port) = (object(alone, "alone")?, text(port, "port")?);
        let data = object(value, "value")?.to_data();
        let message = Message { timestamp, next_timestamp: None, data };
        alone.inputs.entry(port.into()).or_default().push(message);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_alone_join(alone: Option<&mut Option<Box<Alone>>>, me: Out<*mut Member>) -> c_int {
    guard(|| {
        let alone = object(alone, "alone")?.take();
        let alone = alone.ok_or_else(|| Failure::usage("*alone is a null pointer"))?;
        let me = place_for_object(me, "me")?;
        let core = Instance::alone(alone.spec, alone.inputs)?;
        me.give(Member::new(core));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_alone_free(alone: Option<Box<Alone>>) {
    free(alone);
}

#[no_mangle]
pub extern "C" fn xmml_output(me: Option<&Member>, port: Text, i: usize, message: Out<*mut CMessage>) -> c_int {
    guard(|| {
        let out = place_for_object(message, "message")?;
        let (me, port) = member_and_port(me, port)?;
        let sent = me.core.outputs().remove(port).unwrap_or_default();
        let count = sent.len();
        match sent.into_iter().nth(i) {
            Some(message) => out.give(CMessage::new(message, me.place(port))),
            None => {
                let text = format!("{}.{port}: {count} message(s) were sent, so there is no number {i}", me.name);
                return Err(Failure::new(Status::Done, text));
            }
        }
        Ok(())
    })
}
