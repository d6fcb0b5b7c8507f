//! Callbacks on arrival: a method of `org.xmml.InPort` is called, which knows what the program wants done.

use std::time::Duration;

use jni::objects::{GlobalRef, JClass, JObject, JString, JThrowable, JValue};
use jni::sys::{jdouble, jint};
use jni::{JNIEnv, JavaVM};
use xmml_core::instance::{Callback, Served};
use xmml_wire::message::Message;

use crate::failure::guard;
use crate::instance::Member;
use crate::object::{give, Address};

/// No `owner`: no longer.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_onMessage(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    owner: JObject,
) {
    guard(&mut env, |env| {
        let me = me.get()?;
        let callback = match owner.is_null() {
            true => None,
            false => {
                let (machine, owner) = (env.get_java_vm()?, env.new_global_ref(&owner)?);
                Some(Box::new(move |message| arrived(&machine, &owner, message)) as Callback)
            }
        };
        Ok(me.core.on_message(me.port(port), callback)?)
    });
}

/// Only threads of Java wait, so the one that calls is attached. An exception of the callback stays pending: whoever waited lets it out.
fn arrived(machine: &JavaVM, owner: &GlobalRef, message: Message) -> Result<(), String> {
    let mut env = machine.get_env().map_err(|error| error.to_string())?;
    let called = env.with_local_frame(8, |env| -> jni::errors::Result<()> {
        let (timestamp, next) = (message.timestamp, message.next_timestamp.unwrap_or(f64::INFINITY));
        let data = give(message.data.guarded());
        let arguments = [JValue::Long(data), JValue::Double(timestamp), JValue::Double(next)];
        env.call_method(owner, "arrived", "(JDD)V", &arguments).map(|_| ())
    });
    match called {
        Ok(()) => Ok(()),
        Err(jni::errors::Error::JavaException) => Err(said(&mut env).unwrap_or_else(|error| error.to_string())),
        Err(error) => {
            let text = error.to_string();
            // Somebody must let it out: the call that waited throws what is pending.
            let _ = env.throw_new("org/xmml/XmmlException", &text);
            Err(text)
        }
    }
}

/// What the pending exception says; it is pending again afterwards.
fn said(env: &mut JNIEnv) -> jni::errors::Result<String> {
    let thrown: JThrowable = env.exception_occurred()?;
    env.exception_clear()?;
    let text = env.call_method(&thrown, "toString", "()Ljava/lang/String;", &[]).and_then(|text| text.l());
    let text = text.and_then(|text| Ok(String::from(env.get_string(&JString::from(text))?)));
    if text.is_err() {
        let _ = env.exception_clear(); // of toString itself
    }
    env.throw(thrown)?;
    text
}

/// 0: a callback was called; 1: nothing more will come; 2: nothing came in time. A time-out below 0 means to wait.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_serve(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    timeout_s: jdouble,
) -> jint {
    guard(&mut env, |_| {
        let timeout = Duration::try_from_secs_f64(timeout_s).ok();
        Ok(match me.get()?.core.serve(timeout)? {
            Served::Called => 0,
            Served::Ended => 1,
            Served::TimedOut => 2,
        })
    })
}
