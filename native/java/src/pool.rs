//! Objects of pools, and their attributes.

use std::mem::size_of;
use std::time::Duration;

use jni::objects::{
    JByteArray, JClass, JDoubleArray, JFloatArray, JIntArray, JLongArray, JObject, JObjectArray, JShortArray, JString,
    JValue,
};
use jni::sys::{jdouble, jint, jlong, jobject, jobjectArray};
use jni::JNIEnv;
use xmml_core::instance::Taken;
use xmml_pool::object::Attributes;
use xmml_pool::time::Time;
use xmml_pool::value::Value;
use xmml_wire::data::Data;
use xmml_wire::message::Message;

use crate::exchange::{taken, ENDED, NOT_CONNECTED, TIMED_OUT};
use crate::failure::{guard, Failure, Result};
use crate::instance::{Member, Reference, Strings};
use crate::object::{give, text, texts, Address};

/// Returns how many readers choose the object.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_put(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    data: Address<Data>,
    attributes: JString,
) -> jlong {
    guard(&mut env, |env| {
        let attributes = text(env, &attributes)?;
        let me = me.get()?;
        Ok(me.core.put_described(me.port(port), data.get()?.clone(), None, &attributes)? as jlong)
    })
}

/// The same with attributes by name; a value that is null is left out.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_putNamed(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    data: Address<Data>,
    names: JObjectArray,
    values: JObjectArray,
) -> jlong {
    guard(&mut env, |env| {
        let names = texts(env, &names)?;
        let set = named(env, &names, &values)?;
        let me = me.get()?;
        Ok(me.core.put(me.port(port), data.get()?.clone(), &set)? as jlong)
    })
}

/// Returns how many readers would choose an object with these attributes.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_wanted(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    attributes: JString,
) -> jlong {
    guard(&mut env, |env| {
        let attributes = text(env, &attributes)?;
        let me = me.get()?;
        Ok(me.core.wanted_described(me.port(port), &attributes)? as jlong)
    })
}

/// The same with attributes by name; a value that is null is left out.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_wantedNamed(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    names: JObjectArray,
    values: JObjectArray,
) -> jlong {
    guard(&mut env, |env| {
        let names = texts(env, &names)?;
        let set = named(env, &names, &values)?;
        let me = me.get()?;
        Ok(me.core.wanted(me.port(port), &set)? as jlong)
    })
}

/// Objects that are put on this port from now on become visible together, when the group ends.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_beginGroup(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    attributes: JString,
) {
    guard(&mut env, |env| {
        let attributes = text(env, &attributes)?;
        let me = me.get()?;
        Ok(me.core.begin_group_described(me.port(port), &attributes)?)
    });
}

/// The same with attributes by name; a value that is null is left out.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_beginGroupNamed(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    names: JObjectArray,
    values: JObjectArray,
) {
    guard(&mut env, |env| {
        let names = texts(env, &names)?;
        let set = named(env, &names, &values)?;
        let me = me.get()?;
        Ok(me.core.begin_group(me.port(port), &set)?)
    });
}

/// Returns how many readers get some of its objects.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_endGroup(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
) -> jlong {
    guard(&mut env, |_| {
        let me = me.get()?;
        Ok(me.core.end_group(me.port(port))? as jlong)
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_abandonGroup(mut env: JNIEnv, _: JClass, me: Address<Member>, port: jint) {
    guard(&mut env, |_| {
        let me = me.get()?;
        Ok(me.core.abandon_group(me.port(port))?)
    });
}

/// Nothing more is put on this port.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_end(mut env: JNIEnv, _: JClass, me: Address<Member>, port: jint) {
    guard(&mut env, |_| {
        let me = me.get()?;
        Ok(me.core.end(me.port(port))?)
    });
}

/// The address of the payload, or why there is none; in `known` the address of the attributes, and how many bytes they take up. A time-out
/// below 0 means to wait.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_take(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    port: jint,
    timeout_s: jdouble,
    stamps: JDoubleArray,
    known: JLongArray,
) -> jlong {
    guard(&mut env, |env| {
        let me = me.get()?;
        // Beyond what a duration holds it is forever.
        let timeout = Duration::try_from_secs_f64(timeout_s).ok();
        match me.core.take(me.port(port), timeout)? {
            Taken::Object(object) => {
                let (attributes, data) = (object.attributes, object.data);
                let (timestamp, next_timestamp) = (attributes.system.t, attributes.system.dt_next);
                let bytes = memory_of(&attributes);
                env.set_long_array_region(&known, 0, &[give(attributes), bytes])?;
                taken(env, Message { timestamp, next_timestamp, data }, &stamps)
            }
            Taken::Ended => Ok(ENDED),
            Taken::TimedOut => Ok(TIMED_OUT),
            Taken::NotConnected => Ok(NOT_CONNECTED),
        }
    })
}

/// The value of an attribute; null: the object does not have it. `place` is what errors name.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_attribute(
    mut env: JNIEnv,
    _: JClass,
    known: Address<Attributes>,
    place: JString,
    name: JString,
) -> jobject {
    guard(&mut env, |env| {
        let name = text(env, &name)?;
        match known.get()?.get(&name) {
            Ok(Some(value)) => Ok(Reference(to_java(env, &value)?.into_raw())),
            Ok(None) => Ok(Reference::default()),
            Err(problem) => Err(Failure::usage(format!("{}: {problem}", text(env, &place)?))),
        }
    })
    .0
}

/// Name and value of every attribute that the object has, one behind the other.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_attributes(
    mut env: JNIEnv,
    _: JClass,
    known: Address<Attributes>,
) -> jobjectArray {
    guard(&mut env, |env| {
        let attributes: Vec<_> = known.get()?.iter().collect();
        let pairs = env.new_object_array(2 * attributes.len() as jint, "java/lang/Object", JObject::null())?;
        for (i, (name, value)) in (0..).zip(&attributes) {
            env.with_local_frame(8, |env| -> Result<()> {
                let name = env.new_string(name)?;
                env.set_object_array_element(&pairs, 2 * i, name)?;
                let value = to_java(env, value)?;
                Ok(env.set_object_array_element(&pairs, 2 * i + 1, value)?)
            })?;
        }
        Ok(Strings(pairs.into_raw()))
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_freeAttributes(mut env: JNIEnv, _: JClass, known: Address<Attributes>) {
    guard(&mut env, |_| known.take().map(drop));
}

/// Bytes outside Java's heap, about.
fn memory_of(attributes: &Attributes) -> jlong {
    let own = attributes.own.iter().flatten().map(|value| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Ints(numbers) => size_of::<i64>() * numbers.len(),
        Value::Reals(numbers) => size_of::<f64>() * numbers.len(),
        _ => 0,
    });
    let each = size_of::<Option<Value>>() * attributes.own.len();
    (size_of::<Attributes>() + each + own.sum::<usize>()) as jlong
}

/// A value of an attribute as an object of Java.
fn to_java<'local>(env: &mut JNIEnv<'local>, value: &Value) -> Result<JObject<'local>> {
    match value {
        Value::Bool(value) => boxed(env, "java/lang/Boolean", "(Z)Ljava/lang/Boolean;", JValue::from(*value)),
        Value::Int(value) => boxed(env, "java/lang/Long", "(J)Ljava/lang/Long;", JValue::from(*value)),
        Value::Uint(value) => match i64::try_from(*value) {
            Ok(value) => boxed(env, "java/lang/Long", "(J)Ljava/lang/Long;", JValue::from(value)),
            Err(_) => {
                let digits = env.new_string(value.to_string())?;
                Ok(env.new_object("java/math/BigInteger", "(Ljava/lang/String;)V", &[JValue::from(&digits)])?)
            }
        },
        Value::Real(value) => boxed(env, "java/lang/Double", "(D)Ljava/lang/Double;", JValue::from(*value)),
        Value::Text(text) => Ok(env.new_string(text)?.into()),
        Value::Time(Time(microseconds)) => {
            let (seconds, rest) = (microseconds.div_euclid(1_000_000), microseconds.rem_euclid(1_000_000));
            let since = [JValue::from(seconds), JValue::from(1_000 * rest)];
            Ok(env.call_static_method("java/time/Instant", "ofEpochSecond", "(JJ)Ljava/time/Instant;", &since)?.l()?)
        }
        Value::Ints(numbers) => {
            let array = env.new_long_array(numbers.len() as jint)?;
            env.set_long_array_region(&array, 0, numbers)?;
            Ok(array.into())
        }
        Value::Reals(numbers) => {
            let array = env.new_double_array(numbers.len() as jint)?;
            env.set_double_array_region(&array, 0, numbers)?;
            Ok(array.into())
        }
        Value::Bytes(bytes) => Ok(env.byte_array_from_slice(bytes)?.into()),
    }
}

fn boxed<'local>(env: &mut JNIEnv<'local>, class: &str, signature: &str, value: JValue) -> Result<JObject<'local>> {
    Ok(env.call_static_method(class, "valueOf", signature, &[value])?.l()?)
}

/// Attributes by name; a value that is null is left out.
fn named<'names>(
    env: &mut JNIEnv,
    names: &'names [String],
    values: &JObjectArray,
) -> Result<Vec<(&'names str, Value)>> {
    let mut set = Vec::with_capacity(names.len());
    for (i, name) in (0..).zip(names) {
        let value = env.get_object_array_element(values, i)?;
        if !value.is_null() {
            let value = env.with_local_frame(8, |env| from_java(env, name, &value))?;
            set.push((name.as_str(), value));
        }
        env.delete_local_ref(value)?;
    }
    Ok(set)
}

/// An object of Java as a value of an attribute.
fn from_java(env: &mut JNIEnv, name: &str, object: &JObject) -> Result<Value> {
    /// The elements of an array, as wide as an attribute has them.
    macro_rules! elements {
        ($array:ident, $narrow:ty, $region:ident) => {{
            let array = <&$array>::from(object);
            let mut found = vec![<$narrow>::default(); env.get_array_length(array)? as usize];
            env.$region(array, 0, &mut found)?;
            found.into_iter().map(Into::into).collect()
        }};
    }
    let class = env.get_object_class(object)?;
    let class = env.call_method(&class, "getName", "()Ljava/lang/String;", &[])?.l()?;
    let class = text(env, &JString::from(class))?;
    Ok(match class.as_str() {
        "java.lang.Boolean" => Value::Bool(env.call_method(object, "booleanValue", "()Z", &[])?.z()?),
        "java.lang.Long" | "java.lang.Integer" | "java.lang.Short" | "java.lang.Byte" => {
            Value::Int(env.call_method(object, "longValue", "()J", &[])?.j()?)
        }
        "java.lang.Double" | "java.lang.Float" => Value::Real(env.call_method(object, "doubleValue", "()D", &[])?.d()?),
        "java.lang.String" => Value::Text(text(env, <&JString>::from(object))?.into()),
        "java.math.BigInteger" => {
            let digits = env.call_method(object, "toString", "()Ljava/lang/String;", &[])?.l()?;
            whole_number(name, &text(env, &JString::from(digits))?)?
        }
        "java.time.Instant" => {
            let seconds = env.call_method(object, "getEpochSecond", "()J", &[])?.j()?;
            let nanoseconds = env.call_method(object, "getNano", "()I", &[])?.i()?;
            let microseconds = i128::from(seconds) * 1_000_000 + i128::from(nanoseconds / 1_000);
            // What a time cannot hold lies beyond every calendar, and is refused as such.
            Value::Time(Time(microseconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64))
        }
        "[B" => Value::Bytes(env.convert_byte_array(<&JByteArray>::from(object))?.into()),
        "[S" => Value::Ints(elements!(JShortArray, i16, get_short_array_region)),
        "[I" => Value::Ints(elements!(JIntArray, i32, get_int_array_region)),
        "[J" => Value::Ints(elements!(JLongArray, i64, get_long_array_region)),
        "[F" => Value::Reals(elements!(JFloatArray, f32, get_float_array_region)),
        "[D" => Value::Reals(elements!(JDoubleArray, f64, get_double_array_region)),
        _ => {
            let problem = format!(
                "{name}: an attribute cannot be a {class}; it can be a Boolean, a number, a String, an Instant, byte[], \
                 and arrays of short, int, long, float and double"
            );
            return Err(Failure::Exception("org/xmml/DataTypeException", problem));
        }
    })
}

fn whole_number(name: &str, digits: &str) -> Result<Value> {
    let signed = digits.parse().map(Value::Int);
    let number = signed.or_else(|_| digits.parse().map(Value::Uint));
    number.map_err(|_| Failure::usage(format!("{name} = {digits} is larger than any int or uint")))
}
