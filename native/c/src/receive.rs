//! Receiving.

use std::ffi::c_int;

use xmml_core::instance::Received;
use xmml_wire::error::Error;

use crate::argument::{place, place_for_object, time_out, Out, Text};
use crate::instance::{member_and_port, Member};
use crate::message::CMessage;
use crate::status::{guard, Failure, Result, Status};

/// What a receive does when there is no message.
#[derive(Clone, Copy)]
enum Patience {
    /// Waits; that the sender has ended is an error.
    Insists,
    /// Waits; that the sender has ended is an outcome.
    OrEnd,
    /// Waits at most so many seconds; that the sender has ended is an error.
    Seconds(f64),
}

fn receive(
    me: Option<&Member>,
    port: Text,
    of: Option<u32>,
    patience: Patience,
    out: Out<*mut CMessage>,
) -> Result<()> {
    let out = place_for_object(out, "message")?;
    let (me, port) = member_and_port(me, port)?;
    let timeout = match patience {
        Patience::Insists | Patience::OrEnd => None,
        Patience::Seconds(seconds) => Some(time_out(seconds, me.place(port))?),
    };
    match me.core.receive(port, of, timeout)? {
        Received::Message(message) => {
            out.give(CMessage::new(message, me.place(port)));
            Ok(())
        }
        Received::Ended => {
            let error = Failure::from(me.core.ended_error(port, of));
            Err(match patience {
                Patience::OrEnd => Failure { status: Status::Ended, ..error },
                Patience::Insists | Patience::Seconds(_) => error,
            })
        }
        Received::TimedOut => {
            let seconds = timeout.unwrap_or_default().as_secs_f64();
            Err(Error::TimedOut { instance: me.name.to_string(), port: port.into(), seconds }.into())
        }
        Received::NotConnected | Received::NoStateYet => Err(not_connected(me, port)),
    }
}

/// Nothing comes on a port, for whatever reason.
pub fn not_connected(me: &Member, port: &str) -> Failure {
    let what = match me.core.no_message_error(port) {
        Error::NoStateYet { .. } => "brings the state of the previous pass, and this is the first",
        Error::NotConnected { is_alone: true, .. } => {
            "has no inputs: none were given for it to this instance, which is alone"
        }
        _ => "is not coupled to anything in this model",
    };
    let text = format!("{}.{port} {what}; ask xmml_connected(me, \"{port}\", &yes) first", me.name);
    Failure::new(Status::NotConnected, text)
}

#[no_mangle]
pub extern "C" fn xmml_receive(me: Option<&Member>, port: Text, message: Out<*mut CMessage>) -> c_int {
    guard(|| receive(me, port, None, Patience::Insists, message))
}

#[no_mangle]
pub extern "C" fn xmml_receive_of(me: Option<&Member>, port: Text, of: u32, message: Out<*mut CMessage>) -> c_int {
    guard(|| receive(me, port, Some(of), Patience::Insists, message))
}

#[no_mangle]
pub extern "C" fn xmml_receive_or_end(me: Option<&Member>, port: Text, message: Out<*mut CMessage>) -> c_int {
    guard(|| receive(me, port, None, Patience::OrEnd, message))
}

#[no_mangle]
pub extern "C" fn xmml_receive_or_end_of(
    me: Option<&Member>,
    port: Text,
    of: u32,
    message: Out<*mut CMessage>,
) -> c_int {
    guard(|| receive(me, port, Some(of), Patience::OrEnd, message))
}

#[no_mangle]
pub extern "C" fn xmml_receive_timeout(
    me: Option<&Member>,
    port: Text,
    seconds: f64,
    message: Out<*mut CMessage>,
) -> c_int {
    guard(|| receive(me, port, None, Patience::Seconds(seconds), message))
}

#[no_mangle]
pub extern "C" fn xmml_receive_timeout_of(
    me: Option<&Member>,
    port: Text,
    of: u32,
    seconds: f64,
    message: Out<*mut CMessage>,
) -> c_int {
    guard(|| receive(me, port, Some(of), Patience::Seconds(seconds), message))
}

#[no_mangle]
pub extern "C" fn xmml_has_message(me: Option<&Member>, port: Text, yes: Out<c_int>) -> c_int {
    guard(|| has_message(me, port, None, yes))
}

#[no_mangle]
pub extern "C" fn xmml_has_message_of(me: Option<&Member>, port: Text, of: u32, yes: Out<c_int>) -> c_int {
    guard(|| has_message(me, port, Some(of), yes))
}

fn has_message(me: Option<&Member>, port: Text, of: Option<u32>, yes: Out<c_int>) -> Result<()> {
    let yes = place(yes, "yes")?;
    let (me, port) = member_and_port(me, port)?;
    yes.set(me.core.has_message(port, of)?.into());
    Ok(())
}
