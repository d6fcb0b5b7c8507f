//! Payloads: made from what Java has, and looked at piece by piece.

use jni::objects::{
    AutoElementsCritical, JByteArray, JByteBuffer, JClass, JLongArray, JObjectArray, JPrimitiveArray, JString,
    ReleaseMode,
};
use jni::sys::{jboolean, jbyteArray, jdouble, jint, jlong, jlongArray, jobject, jobjectArray, jstring};
use jni::JNIEnv;
use xmml_wire::buffer::{Buffer, BufferMut};
use xmml_wire::data::{array_bytes, Array, Data, Dtype, Order};

use crate::failure::{guard, Failure, Result};
use crate::instance::{strings, Member, Text};
use crate::object::{addresses, give, text, texts, Address};

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_nothing(_env: JNIEnv, _: JClass) -> jlong {
    give(Data::Nothing)
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_bool(_env: JNIEnv, _: JClass, value: jboolean) -> jlong {
    give(Data::Bool(value != 0))
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_integer(_env: JNIEnv, _: JClass, value: jlong) -> jlong {
    give(Data::Int(value))
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_real(_env: JNIEnv, _: JClass, value: jdouble) -> jlong {
    give(Data::Float(value))
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_complex(_env: JNIEnv, _: JClass, re: jdouble, im: jdouble) -> jlong {
    give(Data::Complex(re, im))
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_text(mut env: JNIEnv, _: JClass, value: JString) -> jlong {
    guard(&mut env, |env| Ok(give(Data::Text(text(env, &value)?))))
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_bytes(mut env: JNIEnv, _: JClass, value: JByteArray) -> jlong {
    guard(&mut env, |env| Ok(give(Data::Bytes(Buffer::copy_of(&env.convert_byte_array(&value)?)))))
}

/// A list; takes over its elements.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_list(mut env: JNIEnv, _: JClass, elements: JLongArray) -> jlong {
    guard(&mut env, |env| Ok(give(Data::List(owned(env, &elements)?))))
}

/// A map; takes over its values. Keys are unique, since Java took them from a map.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_map(
    mut env: JNIEnv,
    _: JClass,
    keys: JObjectArray,
    values: JLongArray,
) -> jlong {
    guard(&mut env, |env| {
        let values = owned(env, &values)?;
        Ok(give(Data::Map(texts(env, &keys)?.into_iter().zip(values).collect())))
    })
}

/// A copy of an array of Java's heap, in memory that the instance (0: none) uses again.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_heapArray(
    mut env: JNIEnv,
    _: JClass,
    me: Address<Member>,
    dtype: jint,
    order: jint,
    shape: JLongArray,
    array: JPrimitiveArray<i8>,
) -> jlong {
    guard(&mut env, |env| {
        let (dtype, shape) = (dtype_of(dtype)?, longs(env, &shape)?);
        let bytes = usize::try_from(byte_count(dtype, &shape)?).map_err(|_| Failure::usage("too large for memory"))?;
        let out_of_memory = |none| Failure::usage(format!("cannot keep a message until it is sent: {none}"));
        let mut copy = match me.is_null() {
            true => BufferMut::take(bytes),
            false => me.get()?.pool.take(bytes).map_err(out_of_memory)?,
        };
        {
            // SAFETY: no call of Java and no wait follows before it is let go, since the collector may stand still meanwhile.
            let elements: AutoElementsCritical<i8> =
                unsafe { env.get_array_elements_critical(&array, ReleaseMode::NoCopyBack)? };
            let source = elements.as_ptr().cast::<u8>();
            // SAFETY: Java passes an array of primitives, of whatever type, with at least `bytes` bytes; the copy has as many, elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(source, copy.as_mut_ptr(), bytes) };
        }
        let data = copy.freeze();
        Ok(give(Data::Array(Array::new(dtype, order_of(order), shape, data)?)))
    })
}

/// An array that lies in a direct buffer: a copy, or in place, and then Java keeps the buffer until what this gives is freed.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_directArray(
    mut env: JNIEnv,
    _: JClass,
    dtype: jint,
    order: jint,
    shape: JLongArray,
    address: jlong,
    copy: jboolean,
) -> jlong {
    guard(&mut env, |env| {
        let (dtype, shape) = (dtype_of(dtype)?, longs(env, &shape)?);
        let bytes = byte_count(dtype, &shape)? as usize;
        // SAFETY: Java has checked that so many bytes follow in a buffer that it keeps.
        let mut data = unsafe { Buffer::wrap(address as *const u8, bytes) };
        if copy != 0 {
            data = Buffer::copy_of(&data);
        }
        Ok(give(Data::Array(Array::new(dtype, order_of(order), shape, data)?)))
    })
}

/// Where the memory of a direct buffer begins.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_addressOf(mut env: JNIEnv, _: JClass, buffer: JByteBuffer) -> jlong {
    guard(&mut env, |env| Ok(env.get_direct_buffer_address(&buffer)? as jlong))
}

/// What it is, as the C API counts kinds.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_kind(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jint {
    guard(&mut env, |_| {
        Ok(match data.get()? {
            Data::Nothing => 0,
            Data::Bool(_) => 1,
            Data::Int(_) => 2,
            Data::Float(_) => 3,
            Data::Complex(..) => 4,
            Data::Text(_) => 5,
            Data::Bytes(_) => 6,
            Data::Array(_) => 7,
            Data::List(_) => 8,
            Data::Map(_) => 9,
        })
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_asLong(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jlong {
    guard(&mut env, |_| match data.get()? {
        Data::Int(value) => Ok(*value),
        Data::Bool(value) => Ok((*value).into()),
        other => Err(unexpected("an integer", other)),
    })
}

/// A real number, or the real part of a complex one.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_asDouble(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jdouble {
    guard(&mut env, |_| match data.get()? {
        Data::Float(value) | Data::Complex(value, _) => Ok(*value),
        other => Err(unexpected("a real number", other)),
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_asImaginary(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jdouble {
    guard(&mut env, |_| match data.get()? {
        Data::Complex(_, value) => Ok(*value),
        other => Err(unexpected("a complex number", other)),
    })
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_asText(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jstring {
    guard(&mut env, |env| match data.get()? {
        Data::Text(value) => Ok(Text(env.new_string(value)?.into_raw())),
        other => Err(unexpected("text", other)),
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_asBytes(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jbyteArray {
    guard(&mut env, |env| match data.get()? {
        Data::Bytes(value) => Ok(Text(env.byte_array_from_slice(value)?.into_raw())),
        other => Err(unexpected("bytes", other)),
    })
    .0
}

/// The elements of a list or the values of a map, each of its own.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_children(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jlongArray {
    guard(&mut env, |env| {
        let children: Vec<jlong> = match data.get()? {
            Data::List(elements) => elements.iter().map(|element| give(element.clone())).collect(),
            Data::Map(entries) => entries.iter().map(|(_, value)| give(value.clone())).collect(),
            other => return Err(unexpected("a list or a map", other)),
        };
        let array = env.new_long_array(children.len() as jint)?;
        env.set_long_array_region(&array, 0, &children)?;
        Ok(Text(array.into_raw()))
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_keys(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jobjectArray {
    guard(&mut env, |env| match data.get()? {
        Data::Map(entries) => strings(env, &entries.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>()),
        other => Err(unexpected("a map", other)),
    })
    .0
}

/// Of an array: element type, order, whether it may be written to, address, bytes, and its extents.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_layout(mut env: JNIEnv, _: JClass, data: Address<Data>) -> jlongArray {
    guard(&mut env, |env| {
        let Data::Array(array) = data.get()? else {
            return Err(Failure::usage("it is no array"));
        };
        let bytes = byte_count(array.dtype, &array.shape)? as jlong;
        let start = array.data.as_ptr() as jlong;
        let mut layout: Vec<jlong> =
            vec![array.dtype as jlong, array.order as jlong, array.data.is_writable().into(), start, bytes];
        layout.extend(array.shape.iter().map(|&extent| extent as jlong));
        let values = env.new_long_array(layout.len() as jint)?;
        env.set_long_array_region(&values, 0, &layout)?;
        Ok(Text(values.into_raw()))
    })
    .0
}

/// A direct buffer over `size` bytes at `address`.
#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_view(mut env: JNIEnv, _: JClass, address: jlong, size: jint) -> jobject {
    guard(&mut env, |env| {
        // SAFETY: they belong to an array whose address Java frees after the last buffer over it.
        Ok(Text(unsafe { env.new_direct_byte_buffer(address as *mut u8, size as usize)? }.into_raw()))
    })
    .0
}

#[no_mangle]
pub extern "system" fn Java_org_xmml_Native_free(mut env: JNIEnv, _: JClass, data: Address<Data>) {
    guard(&mut env, |_| data.take().map(drop));
}

fn owned(env: &mut JNIEnv, array: &JLongArray) -> Result<Vec<Data>> {
    addresses(env, array)?.into_iter().map(Address::take).collect()
}

/// The numbers of a `long[]`.
pub fn longs(env: &mut JNIEnv, array: &JLongArray) -> Result<Vec<u64>> {
    let mut values = vec![0; env.get_array_length(array)? as usize];
    env.get_long_array_region(array, 0, &mut values)?;
    Ok(values.into_iter().map(|value: jlong| value as u64).collect())
}

fn byte_count(dtype: Dtype, shape: &[u64]) -> Result<u64> {
    array_bytes(dtype, shape).ok_or_else(|| Failure::usage("an array of this shape is larger than any memory"))
}

fn unexpected(what: &str, found: &Data) -> Failure {
    Failure::Exception(
        "org/xmml/DataTypeException",
        format!("expected {what}, but the message holds {}", found.describe()),
    )
}

/// The element type with this code.
pub fn dtype_of(code: jint) -> Result<Dtype> {
    let dtype = u8::try_from(code).ok().and_then(Dtype::from_code);
    dtype.ok_or_else(|| Failure::usage(format!("{code} is no element type")))
}

/// The memory order with this code.
pub fn order_of(code: jint) -> Order {
    if code == 1 {
        Order::ColumnMajor
    } else {
        Order::RowMajor
    }
}
