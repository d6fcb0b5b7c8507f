//! What C passes, as types: each says what `xmml.h` promises of such an argument, and checks what can be checked.
//!
//! An object is an `Option` of a reference, null being `None`. It is a shared reference wherever C may pass the same object twice or use it in
//! several threads at once (instances, paths, listeners), also where the header has no `const`: those change behind locks of their own. What
//! C gives up is an `Option<Box<T>>`. For what Rust has no type there are the types below. Only C makes them, as arguments of a call, so the
//! promises of the header hold for each: it is alive and of the type that the header says until the call returns.

use std::ffi::{c_char, CStr};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::status::{Failure, Result};

/// The object that C passed, which must not be null.
pub fn object<T>(given: Option<T>, name: &str) -> Result<T> {
    given.ok_or_else(|| null(name))
}

/// A limit of time, of a call at `place`.
pub fn time_out(seconds: f64, place: impl fmt::Display) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Failure::usage(format!("{place}: a time-out of {seconds} s; it must be a number from 0")))
}

/// A text (`const char *`), or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text<'a>(*const c_char, PhantomData<&'a c_char>);

impl Text<'_> {
    /// No text.
    pub const NULL: Text<'static> = Text(std::ptr::null(), PhantomData);

    /// Where it begins.
    pub fn address(self) -> *const c_char {
        self.0
    }
}

/// A text that must not be null.
pub fn text<'a>(given: Text<'a>, name: &str) -> Result<&'a str> {
    if given.0.is_null() {
        return Err(null(name));
    }
    // SAFETY: xmml.h promises that texts end with a 0 byte.
    let bytes = unsafe { CStr::from_ptr(given.0) };
    bytes.to_str().map_err(|_| Failure::usage(format!("{name} is not UTF-8: \"{}\"", bytes.to_string_lossy())))
}

/// A text, or none for null or an empty one.
pub fn optional_text<'a>(given: Text<'a>, name: &str) -> Result<Option<&'a str>> {
    if given.0.is_null() {
        return Ok(None);
    }
    text(given, name).map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// Where an array begins (`const T *`; bytes: `const void *`), or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Elements<'a, T>(*const T, PhantomData<&'a [T]>);

impl<T> Elements<'_, T> {
    /// Whether there is no array.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// The elements of an array, which may be null if there are none. `len` is how many the arguments beside it say.
pub fn elements<'a, T>(given: Elements<'a, T>, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if given.is_null() {
        return Err(null(name));
    }
    // SAFETY: xmml.h promises as many elements as the arguments beside the array say (`rank` extents, `size` bytes, a shape).
    Ok(unsafe { std::slice::from_raw_parts(given.0, len) })
}

/// A variable of the program for a result (`T *`), or null.
#[repr(transparent)]
pub struct Out<'a, T>(*mut T, PhantomData<&'a mut T>);

/// Where a result goes; what was there before may be uninitialised, and two results may have the same place.
pub struct Place<'a, T>(Out<'a, T>);

/// A place for a result, which must not be null.
pub fn place<'a, T>(given: Out<'a, T>, name: &str) -> Result<Place<'a, T>> {
    wanted(given).ok_or_else(|| null(name))
}

/// A place for a result, or none for null.
pub fn wanted<T>(given: Out<T>) -> Option<Place<T>> {
    (!given.0.is_null()).then_some(Place(given))
}

/// A place for a pointer to a new object; it holds null until there is one.
pub fn place_for_object<'a, T>(given: Out<'a, *mut T>, name: &str) -> Result<Place<'a, *mut T>> {
    let place = place(given, name)?;
    place.write(std::ptr::null_mut());
    Ok(place)
}

impl<T> Place<'_, T> {
    /// Writes the result.
    pub fn set(self, value: T) {
        self.write(value);
    }

    /// Writes what is to stand there until the result does.
    pub fn write(&self, value: T) {
        // SAFETY: not null, and xmml.h says which type of variable it is.
        unsafe { self.0 .0.write(value) }
    }
}

impl<T> Place<'_, *mut T> {
    /// Gives a new object, which belongs to the program now.
    pub fn give(self, object: T) {
        self.set(Box::into_raw(Box::new(object)));
    }
}

/// Memory of the program for several elements (`T *`; bytes: `void *`), or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Room<'a, T>(*mut T, PhantomData<&'a mut [T]>);

impl<T: Copy> Room<'_, T> {
    /// Whether there is no memory.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Copies elements to its beginning: as many as the arguments beside it say that there is room for, or fewer.
    pub fn fill(self, elements: &[T]) {
        if !elements.is_empty() {
            // SAFETY: xmml.h and xmml_path.h promise that much room, which is the program's own: it does not overlap what the library holds.
            unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), self.0, elements.len()) }
        }
    }
}

/// A list or map that is changed (`xmml_value *`), or null. No reference before it is known to be another than what is put into it.
#[repr(transparent)]
pub struct Container<'a, T>(*mut T, PhantomData<&'a mut T>);

/// What is put into a container, which takes it over, or null.
#[repr(transparent)]
pub struct Handed<T>(*mut T);

/// The container, which must not be null, and what is put into it. That is freed with the `Box` whatever becomes of it.
pub fn handed<'a, T>(given: Handed<T>, container: Container<'a, T>) -> Result<(Box<T>, Option<&'a mut T>)> {
    if given.0.is_null() {
        return Err(Failure::usage("the value to put in is a null pointer; making it failed"));
    }
    if std::ptr::eq(given.0, container.0) {
        return Err(Failure::usage("a list or map cannot hold itself"));
    }
    // SAFETY: xmml.h says that lists and maps take over what is put into them: it was made by this library, and nobody else holds it.
    let object = unsafe { Box::from_raw(given.0) };
    // SAFETY: null or another object; xmml.h lets one thread at a time use a value.
    Ok((object, unsafe { container.0.as_mut() }))
}

fn null(name: &str) -> Failure {
    Failure::usage(format!("{name} is a null pointer"))
}
