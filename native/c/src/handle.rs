//! Handles of ports (`xmml_handles.h`).

use std::cell::RefCell;
use std::ffi::{c_char, c_int};

use xmml_core::handle::Handle;
use xmml_wire::methods::names_in;

use crate::argument::{object, optional_text, place, place_for_object, wanted, Out, Text};
use crate::instance::{member_and_port, Member};
use crate::status::{guard, Failure, Result};
use crate::text::CText;
use crate::value::Value;

#[no_mangle]
pub extern "C" fn xmml_handle(
    me: Option<&Member>,
    port: Text,
    holders: u32,
    methods: Text,
    handle: Out<*mut Value>,
) -> c_int {
    guard(|| {
        let handle = place_for_object(handle, "handle")?;
        let names = names_in(optional_text(methods, "methods")?.unwrap_or_default())?;
        let (me, port) = member_and_port(me, port)?;
        let bytes = me.core.handle(port, holders, &names)?;
        handle.give(Value::Bytes(bytes.into()));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_open(me: Option<&Member>, port: Text, handle: Option<&Value>, number: Out<u32>) -> c_int {
    guard(|| {
        let (me, port) = member_and_port(me, port)?;
        let opened = me.core.open(port, bytes_of(handle)?)?;
        if let Some(number) = wanted(number) {
            number.set(opened);
        }
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_close(me: Option<&Member>, port: Text) -> c_int {
    guard(|| close(me, port, None))
}

#[no_mangle]
pub extern "C" fn xmml_close_number(me: Option<&Member>, port: Text, number: u32) -> c_int {
    guard(|| close(me, port, Some(number)))
}

fn close(me: Option<&Member>, port: Text, number: Option<u32>) -> Result<()> {
    let (me, port) = member_and_port(me, port)?;
    me.core.close(port, number).map_err(Failure::from)
}

#[no_mangle]
pub extern "C" fn xmml_revoke(me: Option<&Member>, handle: Option<&Value>) -> c_int {
    guard(|| object(me, "me")?.core.revoke(bytes_of(handle)?).map_err(Failure::from))
}

thread_local! {
    static SAID: RefCell<CText> = RefCell::new(CText::default());
}

#[no_mangle]
pub extern "C" fn xmml_handle_text(handle: Option<&Value>, out: Out<*const c_char>) -> c_int {
    guard(|| {
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
fn bytes_of(handle: Option<&Value>) -> Result<&[u8]> {
    object(handle, "handle")?.read_bytes()
}
