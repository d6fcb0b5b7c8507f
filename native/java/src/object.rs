//! Addresses of objects that Java holds, and texts.

use std::marker::PhantomData;

use jni::objects::{JLongArray, JObjectArray, JString};
use jni::sys::jlong;
use jni::JNIEnv;

use crate::failure::{Failure, Result};

/// Gives an object to Java.
pub fn give<T>(object: T) -> jlong {
    Box::into_raw(Box::new(object)) as jlong
}

/// What Java passes for an object that it holds: the `long` that [`give`] returned for one of this type, or 0 if it was closed. The classes of
/// the API keep them apart, and keep an object from being closed while one of their calls uses it.
#[repr(transparent)]
pub struct Address<T>(jlong, PhantomData<T>);

// Several threads of Java may use an object at once, each by a reference of its own.
impl<T: Sync> Address<T> {
    /// Whether there is no object.
    pub fn is_null(&self) -> bool {
        self.0 == 0
    }

    /// The object.
    pub fn get(&self) -> Result<&T> {
        // SAFETY: given by `give` for this type and not freed, or 0, as the classes of org.xmml promise.
        unsafe { (self.0 as *const T).as_ref() }.ok_or_else(closed)
    }

    /// Takes the object back.
    pub fn take(self) -> Result<T> {
        if self.is_null() {
            return Err(closed());
        }
        // SAFETY: given by `give` for this type; the classes of org.xmml pass an address that they give up once and for the last time.
        Ok(*unsafe { Box::from_raw(self.0 as *mut T) })
    }
}

fn closed() -> Failure {
    Failure::usage("it was closed already")
}

/// The objects whose addresses are in a `long[]`.
pub fn addresses<T>(env: &mut JNIEnv, array: &JLongArray) -> Result<Vec<Address<T>>> {
    let mut values = vec![0; env.get_array_length(array)? as usize];
    env.get_long_array_region(array, 0, &mut values)?;
    Ok(values.into_iter().map(|value| Address(value, PhantomData)).collect())
}

/// A text of Java.
pub fn text(env: &mut JNIEnv, string: &JString) -> Result<String> {
    // SAFETY: the declarations of org.xmml.Native say String wherever a call has one. (With a check, each text costs references.)
    Ok(unsafe { env.get_string_unchecked(string) }?.into())
}

/// A text, or none for null.
pub fn optional_text(env: &mut JNIEnv, string: &JString) -> Result<Option<String>> {
    if string.is_null() {
        return Ok(None);
    }
    text(env, string).map(Some)
}

/// The texts of a `String[]`.
pub fn texts(env: &mut JNIEnv, array: &JObjectArray) -> Result<Vec<String>> {
    let count = env.get_array_length(array)?;
    let mut all = Vec::with_capacity(count as usize);
    for i in 0..count {
        let string = JString::from(env.get_object_array_element(array, i)?);
        all.push(text(env, &string)?);
        env.delete_local_ref(string)?;
    }
    Ok(all)
}
