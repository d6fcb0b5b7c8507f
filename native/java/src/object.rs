//! Addresses of objects that Java holds, and texts.

use jni::objects::{JObjectArray, JString};
use jni::sys::jlong;
use jni::JNIEnv;

use crate::failure::{Failure, Result};

/// Gives an object to Java.
pub fn give<T>(object: T) -> jlong {
    Box::into_raw(Box::new(object)) as jlong
}

/// The object at an address that Java holds.
///
/// # Safety
/// `address` is 0, or was given by [`give`] for the same type and not freed.
pub unsafe fn object<'a, T>(address: jlong) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    unsafe { (address as *const T).as_ref() }.ok_or_else(|| Failure::usage("it was closed already"))
}

/// Takes an object back.
///
/// # Safety
/// As for [`object`]; the address is not used again.
pub unsafe fn take<T>(address: jlong) -> Result<T> {
    if address == 0 {
        return Err(Failure::usage("it was closed already"));
    }
    // SAFETY: promised by the caller.
    Ok(*unsafe { Box::from_raw(address as *mut T) })
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
