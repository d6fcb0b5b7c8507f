//! Parameters.

use std::ffi::{c_char, c_int};

use crate::argument::{object, optional_text, place, text};
use crate::instance::Member;
use crate::status::{guard, guard_or, Failure};

#[no_mangle]
pub unsafe extern "C" fn xmml_has_param(me: *const Member, name: *const c_char) -> c_int {
    guard_or(0, || unsafe { Ok(object(me, "me")?.params.contains_key(text(name, "name")?).into()) })
}
