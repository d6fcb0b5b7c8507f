//! What the model declares about an instance, for programs that do not know it: its ports and parameters.

use std::ffi::{c_char, c_int};

use xmml_core::spec::{Direction, Operator};

use crate::argument::{object, place, Out};
use crate::instance::Member;
use crate::status::{guard, guard_or, Failure, Status};

/// `xmml_port`.
#[repr(C)]
pub struct CPort {
    name: *const c_char,
    operator: *const c_char,
    is_out: c_int,
}

#[no_mangle]
pub extern "C" fn xmml_port_count(me: Option<&Member>) -> usize {
    guard_or(0, || Ok(object(me, "me")?.core.spec().ports.len()))
}

#[no_mangle]
pub extern "C" fn xmml_port_at(me: Option<&Member>, i: usize, port: Out<CPort>) -> c_int {
    guard(|| {
        let port = place(port, "port")?;
        let me = object(me, "me")?;
        let Some(spec) = me.core.spec().ports.get(i) else {
            let problem = format!("{}: there are {} ports", me.name, me.core.spec().ports.len());
            return Err(Failure::new(Status::Done, problem));
        };
        let operator = match spec.operator {
            None => c"",
            Some(Operator::Finit) => c"finit",
            Some(Operator::Oi) => c"Oi",
            Some(Operator::S) => c"S",
            Some(Operator::B) => c"B",
            Some(Operator::Of) => c"Of",
        };
        let is_out = (spec.direction == Direction::Out).into();
        port.set(CPort { name: me.bound(&spec.name).as_ptr(), operator: operator.as_ptr(), is_out });
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_param_count(me: Option<&Member>) -> usize {
    guard_or(0, || Ok(object(me, "me")?.param_names.len()))
}

#[no_mangle]
pub extern "C" fn xmml_param_name(me: Option<&Member>, i: usize) -> *const c_char {
    guard_or(std::ptr::null(), || {
        let names = &object(me, "me")?.param_names;
        Ok(names.get(i).map_or(std::ptr::null(), |name| name.as_ptr()))
    })
}
