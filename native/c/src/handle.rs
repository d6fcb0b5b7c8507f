//! Handles of ports (`xmml_handles.h`).

use std::cell::RefCell;
use std::ffi::{c_char, c_int};

use xmml_core::handle::Handle;
use xmml_wire::methods::names_in;

use crate::argument::{object, optional_text, place, place_for_object, text};
use crate::instance::Member;
use crate::status::{guard, Failure, Result};
use crate::text::CText;
use crate::value::Value;

#[no_mangle]
pub unsafe extern "C" fn xmml_handle(
    me: *mut Member,
    port: *const c_char,
    holders: u32,
    methods: *const c_char,
    handle: *mut *mut Value,
) -> c_int {
    guard(|| unsafe {
        let handle = place_for_object(handle, "handle")?;
        let names = names_in(optional_text(methods, "methods")?.unwrap_or_default())?;
        let bytes = object(me, "me")?.core.handle(text(port, "port")?, holders, &names)?;
        handle.set(Box::into_raw(Box::new(Value::Bytes(bytes.into()))));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_open(
    me: *mut Member,
    port: *const c_char,
    handle: *const Value,
    number: *mut u32,
) -> c_int {
    guard(|| unsafe {
        let opened = object(me, "me")?.core.open(text(port, "port")?, bytes_of(handle)?)?;
        if !number.is_null() {
            number.write(opened);
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_close(me: *mut Member, port: *const c_char) -> c_int {
    guard(|| unsafe { object(me, "me")?.core.close(text(port, "port")?, None).map_err(Failure::from) })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_close_number(me: *mut Member, port: *const c_char, number: u32) -> c_int {
    guard(|| unsafe { object(me, "me")?.core.close(text(port, "port")?, Some(number)).map_err(Failure::from) })
}

#[no_mangle]
pub unsafe extern "C" fn xmml_revoke(me: *mut Member, handle: *const Value) -> c_int {
    guard(|| unsafe { object(me, "me")?.core.revoke(bytes_of(handle)?).map_err(Failure::from) })
}

thread_local! {
    static SAID: RefCell<CText> = RefCell::new(CText::default());
}

#[no_mangle]
pub unsafe extern "C" fn xmml_handle_text(handle: *const Value, out: *mut *const c_char) -> c_int {
    guard(|| unsafe {
        let out = place(out, "text")?;
        let said = Handle::read(bytes_of(handle)?)?.to_string();
        let pointer = SAID.try_with(|place| {
            *place.borrow_mut() = CText::from(said);
            place.borrow().as_ptr()
        });
        out.set(pointer.map_err(|_| Failure::usage("this thread is ending"))?);
        Ok(())
    })
}

/// The bytes of a value that should be a handle.
///
/// # Safety
/// `handle` is null or points to a live value.
unsafe fn bytes_of<'a>(handle: *const Value) -> Result<&'a [u8]> {
    unsafe { object(handle, "handle")? }.read_bytes()
}
