//! An instance without a run, for tests.

use std::collections::BTreeMap;

use jni::objects::{JClass, JDoubleArray, JLongArray, JObjectArray, JString};
use jni::sys::{jdouble, jlong};
use jni::JNIEnv;
use xmml_core::data::Data;
use xmml_core::instance::Instance;
use xmml_core::message::Message;
use xmml_core::spec::{Direction, InstanceSpec, Kind, Operator, PortSpec, ScaleKind, ScaleSpec};

use crate::data::longs;
use crate::failure::{guard, Failure, Result};
use crate::instance::Member;
use crate::object::{give, take, text, texts};

/// Makes the instance. Lists that belong together have the same length; the addresses of inputs are taken over.
#[no_mangle]
pub unsafe extern "system" fn Java_org_xmml_Native_alone(
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
        for ((port, timestamp), address) in at.into_iter().zip(times).zip(longs(env, &input_data)?) {
            let data = unsafe { take::<Data>(address as jlong)? };
            inputs.entry(port).or_default().push(Message { timestamp, next_timestamp: None, data });
        }
        let (ports, places) = (texts(env, &ports)?, texts(env, &places)?);
        let ports: Vec<PortSpec> =
            ports.into_iter().zip(places).map(|(name, place)| port(name, &place)).collect::<Result<_>>()?;
        let is_submodel = ports.iter().any(|port| port.operator.is_some());
        let params = texts(env, &params)?;
        let params = params.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        let extents = doubles(env, &extents)?;
        let scales = texts(env, &scales)?.into_iter().zip(extents.chunks_exact(2));
        let steps = steps.max(0) as u64;
        let spec = InstanceSpec {
            name: text(env, &name)?,
            kind: if is_submodel { Kind::Submodel } else { Kind::Mapper },
            index: 0,
            count: 1,
            check_order: true,
            steps,
            until: steps == 0,
            delta_s,
            total_s: steps as f64 * delta_s,
            scales: scales.map(|(name, extent)| scale(name, extent[0], extent[1])).collect(),
            params,
            ports,
            conduits: Vec::new(),
        };
        Ok(give(Member::new(env, Instance::alone(spec, inputs)?)?))
    })
}

/// An operator, or with the number of copies at the other end: `S*3`.
fn port(name: String, place: &str) -> Result<PortSpec> {
    let (place, copies) = match place.split_once('*') {
        None => (place, 0),
        Some((place, copies)) => {
            let count = copies.parse().ok().filter(|count| *count > 0);
            (
                place,
                count.ok_or_else(|| Failure::usage(format!("{copies} is no number of copies; they are at least 1")))?,
            )
        }
    };
    let (direction, operator) = match place {
        "finit" => (Direction::In, Some(Operator::Finit)),
        "S" => (Direction::In, Some(Operator::S)),
        "B" => (Direction::In, Some(Operator::B)),
        "Oi" => (Direction::Out, Some(Operator::Oi)),
        "Of" => (Direction::Out, Some(Operator::Of)),
        "in" => (Direction::In, None),
        "out" => (Direction::Out, None),
        _ => {
            let known = "they are finit, Oi, S, B, Of, and in, out for a mapper";
            return Err(Failure::usage(format!("\"{place}\" is no operator; {known}")));
        }
    };
    Ok(PortSpec { name, direction, operator, copies, decomposition: Default::default(), shape: vec![], open: false })
}

fn scale(name: String, delta: f64, total: f64) -> ScaleSpec {
    let steps = if delta > 0.0 { (total / delta).round() as u64 } else { 0 };
    ScaleSpec { name, kind: ScaleKind::Other, delta, total, steps }
}

fn doubles(env: &mut JNIEnv, array: &JDoubleArray) -> Result<Vec<f64>> {
    let mut values = vec![0.0; env.get_array_length(array)? as usize];
    env.get_double_array_region(array, 0, &mut values)?;
    Ok(values)
}
