//! Sending and receiving.

use std::time::Duration;

use jni::objects::{JClass, JDoubleArray, JLongArray, JString};
use jni::sys::{jboolean, jdouble, jint, jlong};
use jni::JNIEnv;
use xmml_core::instance::{NextStamp, Received, Sent, Stamps};
use xmml_wire::data::{Array, Data};
use xmml_wire::error::Error;
use xmml_wire::message::Message;

use crate::data::{dtype_of, longs, order_of};
use crate::failure::{guard, Failure, Result};
use crate::instance::Member;
use crate::object::{give, text, Address};

/// What `receive` and `take` give instead of an address.
pub const ENDED: jlong = -1;
pub const TIMED_OUT: jlong = -2;
pub const NOT_CONNECTED: jlong = -3;

/// A copy number, or none for -1.
fn copy(number: jint) -> Option<u32> {
    u32::try_from(number).ok()
}

/// Time stamps: NaN takes that of the loop; as the next one, infinity says that there is none. False: every receiver has left.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_send(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    to: jint,
    data: Address<Data>,
    timestamp: jdouble,
    next_timestamp: jdouble,
) -> jboolean {
    guard(&mut env, |_| {
        let me = me.get()?;
        let data = data.get()?;
        let timestamp = (!timestamp.is_nan()).then_some(timestamp);
        let next = match next_timestamp {
            next if next.is_nan() => NextStamp::OfLoop,
            f64::INFINITY => NextStamp::Nothing,
            next => NextStamp::At(next),
        };
        let sent = me.core.send(me.port(port), copy(to), data.clone(), Stamps { timestamp, next })?;
        Ok((sent != Sent::ReceiverGone).into())
    })
}

/// The address of the data, with the time stamps in `stamps`; or why there is none. A time-out below 0 means to wait.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_receive(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    of: jint,
    timeout_s: jdouble,
    stamps: JDoubleArray,
) -> jlong {
    guard(&mut env, |env| {
        let me = me.get()?;
        // Beyond what a duration holds it is forever.
        let timeout = Duration::try_from_secs_f64(timeout_s).ok();
        match me.core.receive(me.port(port), copy(of), timeout)? {
            Received::Message(message) => taken(env, message, &stamps),
            Received::Ended => Ok(ENDED),
            Received::TimedOut => Ok(TIMED_OUT),
            Received::NotConnected | Received::NoStateYet => Ok(NOT_CONNECTED),
        }
    })
}

/// The address of the data of a message; its time stamps are put into `stamps`.
pub fn taken(env: &mut JNIEnv, message: Message, stamps: &JDoubleArray) -> Result<jlong> {
    let times = [message.timestamp, message.next_timestamp.unwrap_or(f64::INFINITY)];
    env.set_double_array_region(stamps, 0, &times)?;
    Ok(give(message.data.guarded()))
}

/// Throws what a receive that insists has to say about an outcome without a message.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_throwWithout(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    of: jint,
    outcome: jlong,
    timeout_s: jdouble,
) {
    guard(&mut env, |_| -> Result<()> {
        let me = me.get()?;
        let port = me.port(port);
        let core = &me.core;
        Err(Failure::from(match outcome {
            ENDED => core.ended_error(port, copy(of)),
            TIMED_OUT => Error::TimedOut { instance: core.name().into(), port: port.into(), seconds: timeout_s },
            _ => core.no_message_error(port),
        }))
    });
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_hasMessage(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    of: jint,
) -> jboolean {
    guard(&mut env, |_| {
        let me = me.get()?;
        Ok(me.core.has_message(me.port(port), copy(of))?.into())
    })
}

/// An array in memory that is handed over when it is sent.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_loan(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    dtype: jint,
    order: jint,
    shape: JLongArray,
) -> jlong {
    guard(&mut env, |env| {
        let (dtype, shape) = (dtype_of(dtype)?, longs(env, &shape)?);
        let data = me.get()?.core.loan(dtype, &shape, false)?;
        Ok(give(Data::Array(Array { dtype, order: order_of(order), shape: shape.into(), data })))
    })
}

/// A message that an instance by itself has sent; 0 if there are not so many.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_output(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: JString,
    i: jint,
    stamps: JDoubleArray,
) -> jlong {
    guard(&mut env, |env| {
        let port = text(env, &port)?;
        let sent = me.get()?.core.outputs().remove(&port).unwrap_or_default();
        sent.into_iter().nth(i as usize).map_or(Ok(0), |message| taken(env, message, &stamps))
    })
}
