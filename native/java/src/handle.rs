//! Handles of ports.

use jni::objects::{JByteArray, JClass, JString};
use jni::sys::{jbyteArray, jint, jstring};
use jni::JNIEnv;
use xmml_core::handle::Handle;
use xmml_wire::methods::names_in;

use crate::failure::guard;
use crate::instance::{Member, Text};
use crate::object::{text, Address};

/// A `byte[]` for Java; null beside an exception.
pub struct Bytes(pub jbyteArray);

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes(std::ptr::null_mut())
    }
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_handle(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    holders: jint,
    methods: JString,
) -> jbyteArray {
    guard(&mut env, |env| {
        let methods = text(env, &methods)?;
        let me = me.get()?;
        let holders = u32::try_from(holders).unwrap_or_default(); // Java has looked
        let handle = me.core.handle(me.port(port), holders, &names_in(&methods)?)?;
        Ok(Bytes(env.byte_array_from_slice(&handle)?.into_raw()))
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_open(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    handle: JByteArray,
) -> jint {
    guard(&mut env, |env| {
        let handle = env.convert_byte_array(&handle)?;
        let me = me.get()?;
        Ok(me.core.open(me.port(port), &handle)? as jint)
    })
}

/// A number below 0: all that are open at the port.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_close(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    number: jint,
) {
    guard(&mut env, |_| {
        let me = me.get()?;
        Ok(me.core.close(me.port(port), u32::try_from(number).ok())?)
    });
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_revoke(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    handle: JByteArray,
) {
    guard(&mut env, |env| {
        let handle = env.convert_byte_array(&handle)?;
        Ok(me.get()?.core.revoke(&handle)?)
    });
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_handleText(mut env: JNIEnv, _: JClass, handle: JByteArray) -> jstring {
    guard(&mut env, |env| {
        let handle = Handle::read(&env.convert_byte_array(&handle)?)?;
        Ok(Text(env.new_string(handle.to_string())?.into_raw()))
    })
    .0
}
