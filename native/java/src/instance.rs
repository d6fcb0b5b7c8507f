//! Joining, leaving, the loop, parameters, and what an instance knows of itself.

use jni::objects::{JClass, JString};
use jni::sys::{jboolean, jdouble, jdoubleArray, jint, jlong, jobject, jobjectArray, jstring, JNI_TRUE};
use jni::JNIEnv;
use xmml_core::instance::{Instance, JoinOptions};
use xmml_core::param;
use xmml_wire::buffer::BufferPool;
use xmml_wire::error::Error;
use xmml_wire::methods::names_in;

use crate::failure::{guard, Failure, Result};
use crate::object::{give, optional_text, text, Address};

/// An instance of the core, and memory for what it sends from Java's heap. It lives until the process ends: another thread of Java may
/// still be in a call when the instance is closed.
pub struct Member {
    pub core: Instance,
    pub pool: BufferPool,
}

impl Member {
    /// Wraps an instance; `Thread.interrupt` ends its waits.
    pub fn new(env: &JNIEnv, core: Instance) -> Result<Member> {
        let machine = env.get_java_vm()?;
        // Only threads of Java wait, so the one that asks is attached.
        core.set_interrupt(Box::new(move || {
            machine.get_env().is_ok_and(|mut env| is_interrupted(&mut env).unwrap_or(true))
        }));
        Ok(Member { core, pool: BufferPool::new() })
    }

    /// The name of the port with this number: where it stands among those that the model declares.
    pub fn port(&self, number: jint) -> &str {
        self.core.port_names().get(usize::try_from(number).unwrap_or(usize::MAX))
    }
}

fn is_interrupted(env: &mut JNIEnv) -> jni::errors::Result<bool> {
    env.with_local_frame(4, |env| {
        let thread = env.call_static_method("java/lang/Thread", "currentThread", "()Ljava/lang/Thread;", &[])?.l()?;
        env.call_method(&thread, "isInterrupted", "()Z", &[])?.z()
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_join(mut env: JNIEnv, _: JClass) -> jlong {
    guard(&mut env, |env| {
        let options = JoinOptions { coordinator: None, instance: None, secret_file: None, language: "java" };
        Ok(give(Member::new(env, Instance::join(options)?)?))
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_leave(mut env: JNIEnv, _: JClass, me: Address<Member>) {
    guard(&mut env, |_| Ok(me.get()?.core.leave()?));
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_fail(mut env: JNIEnv, _: JClass, me: Address<Member>, reason: JString) {
    guard(&mut env, |env| {
        let reason = text(env, &reason)?;
        me.get()?.core.fail(&reason);
        Ok(())
    });
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_warn(mut env: JNIEnv, _: JClass, me: Address<Member>, warning: JString) {
    guard(&mut env, |env| {
        let warning = text(env, &warning)?;
        me.get()?.core.warn(&warning);
        Ok(())
    });
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_reuse(mut env: JNIEnv, _: JClass, me: Address<Member>) -> jboolean {
    guard(&mut env, |_| Ok(me.get()?.core.reuse()?.into()))
}

/// NaN: the last step is behind us.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_step(mut env: JNIEnv, _: JClass, me: Address<Member>) -> jdouble {
    guard(&mut env, |_| Ok(me.get()?.core.next_step()?.unwrap_or(f64::NAN)))
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_name(mut env: JNIEnv, _: JClass, me: Address<Member>) -> jstring {
    guard(&mut env, |env| Ok(Text(env.new_string(me.get()?.core.name())?.into_raw()))).0
}

/// Index, count, time, origin, delta, total, steps.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_facts(mut env: JNIEnv, _: JClass, me: Address<Member>) -> jdoubleArray {
    guard(&mut env, |env| {
        let core = &me.get()?.core;
        let spec = core.spec();
        let (index, count) = (f64::from(spec.index), f64::from(spec.count));
        numbers(env, &[index, count, core.time(), core.origin(), spec.delta_s, spec.total_s, spec.steps as f64])
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_scale(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    name: JString,
) -> jdoubleArray {
    guard(&mut env, |env| {
        let name = text(env, &name)?;
        let scale = me.get()?.core.scale(&name)?;
        numbers(env, &[scale.delta, scale.total, scale.steps as f64])
    })
    .0
}

/// Every port: its name, its direction, its operator (or an empty text).
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_ports(mut env: JNIEnv, _: JClass, me: Address<Member>) -> jobjectArray {
    guard(&mut env, |env| {
        let ports = &me.get()?.core.spec().ports;
        let all: Vec<String> = ports
            .iter()
            .flat_map(|port| {
                let operator = port.operator.map_or_else(String::new, |operator| format!("{operator:?}"));
                [port.name.clone(), format!("{:?}", port.direction), operator]
            })
            .collect();
        strings(env, &all)
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_paramText(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    name: JString,
) -> jstring {
    guard(&mut env, |env| {
        let name = text(env, &name)?;
        let value = parameter(me.get()?, &name, |text| Ok(text.to_owned()))?;
        Ok(Text(env.new_string(value)?.into_raw()))
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_paramDouble(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    name: JString,
    unit: JString,
) -> jdouble {
    guard(&mut env, |env| {
        let (name, unit) = (text(env, &name)?, optional_text(env, &unit)?);
        parameter(me.get()?, &name, |text| param::as_float(text, unit.as_deref()))
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_paramLong(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    name: JString,
    unit: JString,
) -> jlong {
    guard(&mut env, |env| {
        let (name, unit) = (text(env, &name)?, optional_text(env, &unit)?);
        parameter(me.get()?, &name, |text| param::as_int(text, unit.as_deref()))
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_paramBoolean(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    name: JString,
) -> jboolean {
    guard(&mut env, |env| {
        let name = text(env, &name)?;
        parameter(me.get()?, &name, param::as_bool).map(jboolean::from)
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_hasParam(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    name: JString,
) -> jboolean {
    guard(&mut env, |env| {
        let name = text(env, &name)?;
        Ok(me.get()?.core.spec().params.contains_key(&name).into())
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_params(mut env: JNIEnv, _: JClass, me: Address<Member>) -> jobjectArray {
    guard(&mut env, |env| {
        let names: Vec<String> = me.get()?.core.spec().params.keys().cloned().collect();
        strings(env, &names)
    })
    .0
}

fn parameter<T>(me: &Member, name: &str, convert: impl FnOnce(&str) -> std::result::Result<T, String>) -> Result<T> {
    let params = &me.core.spec().params;
    let converted = match params.get(name) {
        Some(text) => convert(text),
        None if params.is_empty() => {
            Err("the model sets no parameters; add <param id=\"...\" value=\"...\"/> to the submodel".into())
        }
        None => {
            let known: Vec<&str> = params.keys().map(String::as_str).collect();
            Err(format!("the model does not set it; it sets {}", known.join(", ")))
        }
    };
    converted.map_err(|problem| {
        Failure::from(Error::Parameter { instance: me.core.name().into(), name: name.into(), problem })
    })
}

/// Throws what a call has to say that sends (or receives) on a port that there is none of.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_noPort(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: JString,
    sends: jboolean,
) -> jobject {
    guard(&mut env, |env| {
        let port = text(env, &port)?;
        let core = &me.get()?.core;
        match sends {
            JNI_TRUE => core.bind_out(&port)?,
            _ => core.bind_in(&port)?,
        };
        Ok(Exception::default())
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_connected(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
) -> jboolean {
    guard(&mut env, |_| {
        let me = me.get()?;
        Ok(me.core.connected(me.port(port))?.into())
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_copies(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
) -> jint {
    guard(&mut env, |_| {
        let me = me.get()?;
        Ok(me.core.copies(me.port(port))? as jint)
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_skip(mut env: JNIEnv, _: JClass, me: Address<Member>, port: jint) {
    guard(&mut env, |_| {
        let me = me.get()?;
        Ok(me.core.skip(me.port(port))?)
    });
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_methods(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
) -> jobjectArray {
    guard(&mut env, |env| {
        let me = me.get()?;
        let lines: Vec<String> = me.core.methods(me.port(port))?.iter().map(ToString::to_string).collect();
        strings(env, &lines)
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_setMethods(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    methods: JString,
) {
    guard(&mut env, |env| {
        let methods = text(env, &methods)?;
        let me = me.get()?;
        Ok(me.core.set_methods(me.port(port), &names_in(&methods)?)?)
    });
}

/// A reference that Java gets; null beside an exception.
macro_rules! references {
    ($($name:ident($raw:ty)),*) => {
        $(
            #[doc = "A reference for Java; null beside an exception."]
            pub struct $name(pub $raw);
            impl Default for $name {
                fn default() -> $name {
                    $name(std::ptr::null_mut())
                }
            }
        )*
    };
}
references!(Text(jstring), Numbers(jdoubleArray), Strings(jobjectArray), Exception(jobject), Reference(jobject));

fn numbers(env: &mut JNIEnv, values: &[f64]) -> Result<Numbers> {
    let array = env.new_double_array(values.len() as jint)?;
    env.set_double_array_region(&array, 0, values)?;
    Ok(Numbers(array.into_raw()))
}

/// A `String[]`.
pub fn strings(env: &mut JNIEnv, values: &[String]) -> Result<Strings> {
    let array = env.new_object_array(values.len() as jint, "java/lang/String", jni::objects::JObject::null())?;
    for (i, value) in values.iter().enumerate() {
        let string = env.new_string(value)?;
        env.set_object_array_element(&array, i as jint, &string)?;
        env.delete_local_ref(string)?;
    }
    Ok(Strings(array.into_raw()))
}
