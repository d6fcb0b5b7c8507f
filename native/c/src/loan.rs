//! Arrays that are handed over when they are sent.

use std::ffi::{c_int, c_void};

use xmml_wire::data::Dtype;

use crate::argument::{object, place_for_object, Elements, Out};
use crate::instance::Member;
use crate::status::{guard, Failure, Result};
use crate::value_api::{dtype_of, shape_from_c};

#[no_mangle]
pub extern "C" fn xmml_loan(
    me: Option<&Member>,
    dtype: c_int,
    rank: usize,
    shape: Elements<usize>,
    memory: Out<*mut c_void>,
) -> c_int {
    guard(|| {
        let memory = place_for_object(memory, "memory")?;
        let dtype: Dtype = dtype_of(dtype)?;
        let shape: Vec<u64> = shape_from_c(rank, shape)?.iter().map(|extent| *extent as u64).collect();
        let buffer = object(me, "me")?.core.loan(dtype, &shape, true)?;
        memory.set(buffer.as_ptr().cast_mut().cast());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_give_back(me: Option<&Member>, memory: *mut c_void) -> c_int {
    guard(|| {
        let me = object(me, "me")?;
        if memory.is_null() || me.core.give_back(memory.cast_const().cast()) {
            return Ok(());
        }
        let problem = "this memory is not on loan: xmml_give_back takes what xmml_loan gave and what was not sent";
        Result::Err(Failure::usage(problem.to_owned()))
    })
}
