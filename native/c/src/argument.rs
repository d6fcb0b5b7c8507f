//! What C passes, checked before it is used.

use std::ffi::{c_char, CStr};

use crate::status::{Failure, Result};

/// The object behind a pointer that must not be null.
///
/// # Safety
/// `pointer` is null or points to a live `T`.
pub unsafe fn object<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// The same for an object that is changed.
///
/// # Safety
/// `pointer` is null or points to a live `T` that nobody else uses at this time.
pub unsafe fn object_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// A place for a result, which must not be null.
///
/// # Safety
/// `pointer` is null or may be written to.
pub unsafe fn place<'a, T>(pointer: *mut T, name: &str) -> Result<Place<'a, T>> {
    if pointer.is_null() {
        return Err(null(name));
    }
    Ok(Place(pointer, std::marker::PhantomData))
}

/// Where a result goes; what was there before may be uninitialised.
pub struct Place<'a, T>(*mut T, std::marker::PhantomData<&'a mut T>);

impl<T> Place<'_, T> {
    /// Writes the result.
    pub fn set(self, value: T) {
        // SAFETY: promised to `place`.
        unsafe { self.0.write(value) }
    }
}

/// A place for a pointer to a new object; it holds null until there is one.
///
/// # Safety
/// `pointer` is null or may be written to.
pub unsafe fn place_for_object<'a, T>(pointer: *mut *mut T, name: &str) -> Result<Place<'a, *mut T>> {
    let place = unsafe { place(pointer, name)? };
    // SAFETY: checked by `place`.
    unsafe { pointer.write(std::ptr::null_mut()) };
    Ok(place)
}

/// A text that must not be null.
///
/// # Safety
/// `pointer` is null or points to bytes that end with a 0 byte.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(name));
    }
    let bytes = unsafe { CStr::from_ptr(pointer) };
    bytes.to_str().map_err(|_| Failure::usage(format!("{name} is not UTF-8: \"{}\"", bytes.to_string_lossy())))
}

/// A text, or none for null or an empty one.
///
/// # Safety
/// As for [`text`].
pub unsafe fn optional_text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    unsafe { text(pointer, name) }.map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// `len` elements at `pointer`, which may be null if there are none.
///
/// # Safety
/// `pointer` is null or points to that many elements.
pub unsafe fn elements<'a, T>(pointer: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

fn null(name: &str) -> Failure {
    Failure::usage(format!("{name} is a null pointer"))
}
