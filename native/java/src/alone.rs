//! An instance without a run, for tests.

use std::collections::BTreeMap;

use jni::objects::{JClass, JDoubleArray, JLongArray, JObjectArray, JString};
use jni::sys::{jdouble, jlong};
use jni::JNIEnv;
use xmml_core::instance::Instance;
use xmml_core::spec::InstanceSpec;
use xmml_wire::data::Data;
use xmml_wire::message::Message;

use crate::failure::{guard, Result};
use crate::instance::Member;
use crate::object::{addresses, give, text, texts};

/// Makes the instance. Lists that belong together have the same length; the addresses of inputs are taken over.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_alone(
    mut env: JNIEnv,
    _: JClass,
    name: JString,
    ports: JObjectArray,
    places: JObjectArray,
    params: JObjectArray,
    steps: jlong,
    delta_s: jdouble,
    scales: JObjectArray,
    extents: JDoubleArray,
    input_ports: JObjectArray,
    input_times: JDoubleArray,
    input_data: JLongArray,
) -> jlong {
    guard(&mut env, |env| {
        let mut inputs: BTreeMap<String, Vec<Message>> = BTreeMap::new();
        let (at, times) = (texts(env, &input_ports)?, doubles(env, &input_times)?);
        for ((port, timestamp), address) in at.into_iter().zip(times).zip(addresses::<Data>(env, &input_data)?) {
            let data = address.take()?;
            inputs.entry(port).or_default().push(Message { timestamp, next_timestamp: None, data });
        }
        let mut spec = InstanceSpec::new(&text(env, &name)?);
        for (port, place) in texts(env, &ports)?.iter().zip(texts(env, &places)?) {
            spec.add_port(port, &place)?;
        }
        for pair in texts(env, &params)?.chunks_exact(2) {
            spec.params.insert(pair[0].clone(), pair[1].clone());
        }
        spec.set_steps(steps.max(0) as u64, delta_s)?;
        for (name, extent) in texts(env, &scales)?.iter().zip(doubles(env, &extents)?.chunks_exact(2)) {
            spec.add_scale(name, extent[0], extent[1])?;
        }
        Ok(give(Member::new(env, Instance::alone(spec, inputs)?)?))
    })
}

fn doubles(env: &mut JNIEnv, array: &JDoubleArray) -> Result<Vec<f64>> {
    let mut values = vec![0.0; env.get_array_length(array)? as usize];
    env.get_double_array_region(array, 0, &mut values)?;
    Ok(values)
}
