//! Callbacks on arrival (`xmml_callbacks.h`).

use std::ffi::{c_int, c_void};
use std::time::Duration;

use xmml_core::instance::{Callback, Served};
use xmml_wire::message::Message;

use crate::argument::{object, time_out, Text};
use crate::instance::{member_and_port, Member};
use crate::message::CMessage;
use crate::status::{guard, Failure, Result, Status};

/// A function of the program, and what it wants to be called with.
struct Called {
    function: unsafe extern "C" fn(*mut c_void, *mut CMessage) -> c_int,
    context: *mut c_void,
}

// SAFETY: the header says that the callback is called in whichever thread waits, and never twice at once; the rest is the program's.
unsafe impl Send for Called {}

#[no_mangle]
pub extern "C" fn xmml_on_message(
    me: Option<&Member>,
    port: Text,
    callback: Option<unsafe extern "C" fn(*mut c_void, *mut CMessage) -> c_int>,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        let (me, port) = member_and_port(me, port)?;
        let place = me.place(port);
        let callback = callback.map(|function| {
            let called = Called { function, context };
            Box::new(move |message: Message| {
                let Called { function, context } = &called;
                let message = Box::into_raw(Box::new(CMessage::new(message, place.clone())));
                // SAFETY: xmml_callbacks.h says what the function is called with, and that the message is then its own.
                match unsafe { function(*context, message) } {
                    0 => Ok(()),
                    status => Err(format!("it returned {status}")),
                }
            }) as Callback
        });
        me.core.on_message(port, callback).map_err(Failure::from)
    })
}

#[no_mangle]
pub extern "C" fn xmml_serve(me: Option<&Member>) -> c_int {
    guard(|| serve(object(me, "me")?, None))
}

#[no_mangle]
pub extern "C" fn xmml_serve_timeout(me: Option<&Member>, seconds: f64) -> c_int {
    guard(|| {
        let me = object(me, "me")?;
        serve(me, Some(time_out(seconds, &me.name)?))
    })
}

fn serve(me: &Member, timeout: Option<Duration>) -> Result<()> {
    match me.core.serve(timeout)? {
        Served::Called => Ok(()),
        Served::Ended => {
            Err(Failure::new(Status::Ended, format!("{}: nothing more will come on a port with a callback", me.name)))
        }
        Served::TimedOut => Err(Failure::new(Status::TimedOut, format!("{}: no message for a callback came", me.name))),
    }
}
