//! Paths: `xmml_path.h`.

mod identity;
mod settings;

use std::ffi::{c_char, c_int, c_void, CString};
use std::time::Duration;

use ::xmml_path::{cycle, gather, relay, scatter, Lane, Listener, Path, Received, Ticket};
use xmml_wire::buffer::Buffer;

use crate::argument::{elements, object, object_mut, place, place_for_object, text};
use crate::status::{guard, guard_or, Failure, Result, Status};
use identity::{identity, xmml_path_identity};
use settings::{settings, xmml_path_settings};

/// A path that is attended.
#[allow(non_camel_case_types)]
pub struct xmml_path(Path);

/// A listener and its address for C.
#[allow(non_camel_case_types)]
pub struct xmml_path_listener(Listener, CString);

/// A received message.
#[allow(non_camel_case_types)]
pub struct xmml_path_message(Buffer);

/// See the header.
#[repr(C)]
#[allow(non_camel_case_types, missing_docs)]
pub struct xmml_path_stats {
    streams: u64,
    streams_lost: u64,
    resumed: u64,
    bytes_in: u64,
    bytes_out: u64,
    retransmitted: u64,
    rate: f64,
    round_trip: f64,
    zero_copy_streams: u64,
    zero_copy_bytes: u64,
    why_copied: *const c_char,
}

fn limit(seconds: f64) -> Result<Option<Duration>> {
    if seconds.is_nan() {
        return Err(Failure::usage("the time to wait is not a number"));
    }
    Ok(Duration::try_from_secs_f64(seconds).ok()) // negative or endless: no limit
}

fn lane(code: c_int) -> Result<Lane> {
    match code {
        0 => Ok(Lane::Control),
        1 => Ok(Lane::Bulk),
        _ => Err(Failure::usage(format!("there is no lane {code}; expected XMML_PATH_CONTROL or XMML_PATH_BULK"))),
    }
}

fn in_time(done: bool) -> Result<()> {
    match done {
        true => Ok(()),
        false => Err(Failure::new(Status::TimedOut, "the time has passed")),
    }
}

fn ended() -> Failure {
    Failure::new(Status::Ended, "the other end has finished, and everything was received")
}

unsafe fn bytes<'a>(data: *const c_void, size: usize) -> Result<&'a [u8]> {
    unsafe { elements(data.cast::<u8>(), size, "data") }
}

fn message(buffer: Buffer) -> *mut xmml_path_message {
    Box::into_raw(Box::new(xmml_path_message(buffer)))
}

fn received(received: Received) -> Result<*mut xmml_path_message> {
    match received {
        Received::Message(buffer) => Ok(message(buffer)),
        Received::Ended => Err(ended()),
    }
}

/// Bit of a ticket that says which lane.
const BULK: u64 = 1 << 63;

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_dial(
    path: *mut *mut xmml_path,
    address: *const c_char,
    me: *const xmml_path_identity,
    peer: *const c_char,
    given: *const xmml_path_settings,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let place = unsafe { place_for_object(path, "path")? };
        let (address, peer) = unsafe { (text(address, "address")?, text(peer, "peer")?) };
        let (me, settings) = unsafe { (identity(me)?, settings(given)?) };
        let limit = limit(timeout_s)?;
        let dialled = Path::dial(address, &me, peer, settings.connecting_for(limit))?;
        dialled.attend()?;
        in_time(dialled.wait_open(limit)?)?;
        place.set(Box::into_raw(Box::new(xmml_path(dialled))));
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_listen(
    listener: *mut *mut xmml_path_listener,
    address: *const c_char,
    me: *const xmml_path_identity,
    given: *const xmml_path_settings,
) -> c_int {
    guard(|| {
        let place = unsafe { place_for_object(listener, "listener")? };
        let address = unsafe { text(address, "address")? };
        let bound = unsafe { Listener::bind(address, &identity(me)?, settings(given)?)? };
        bound.attend()?;
        let address = CString::new(bound.address()).unwrap_or_default();
        place.set(Box::into_raw(Box::new(xmml_path_listener(bound, address))));
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_listener_address(listener: *const xmml_path_listener) -> *const c_char {
    guard_or(c"".as_ptr(), || Ok(unsafe { object(listener, "listener")? }.1.as_ptr()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_accept(
    listener: *mut xmml_path_listener,
    path: *mut *mut xmml_path,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let place = unsafe { place_for_object(path, "path")? };
        let accepted = unsafe { object(listener, "listener")? }.0.accept(limit(timeout_s)?)?;
        let accepted = accepted.ok_or_else(|| Failure::new(Status::TimedOut, "nobody has dialled in this time"))?;
        accepted.attend()?;
        place.set(Box::into_raw(Box::new(xmml_path(accepted))));
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_listener_close(listener: *mut *mut xmml_path_listener) -> c_int {
    guard(|| {
        drop(unsafe { taken(listener, "listener")? });
        Ok(())
    })
}

/// The object behind a pointer that is set to null.
unsafe fn taken<T>(pointer: *mut *mut T, name: &str) -> Result<Option<Box<T>>> {
    let pointer = unsafe { object_mut(pointer, name)? };
    let object = std::mem::replace(pointer, std::ptr::null_mut());
    // SAFETY: made by `Box::into_raw` in this module, and taken once: the pointer is null from now on.
    Ok((!object.is_null()).then(|| unsafe { Box::from_raw(object) }))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_send(
    path: *mut xmml_path,
    code: c_int,
    data: *const c_void,
    size: usize,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let path = &unsafe { object(path, "path")? }.0;
        in_time(path.send_from(lane(code)?, unsafe { bytes(data, size)? }, limit(timeout_s)?)?)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_post(
    path: *mut xmml_path,
    code: c_int,
    data: *const c_void,
    size: usize,
    ticket: *mut u64,
) -> c_int {
    guard(|| {
        let path = &unsafe { object(path, "path")? }.0;
        let lane = lane(code)?;
        let posted = path.post(lane, Buffer::copy_of(unsafe { bytes(data, size)? }))?;
        if !ticket.is_null() {
            let bit = if lane == Lane::Bulk { BULK } else { 0 };
            unsafe { place(ticket, "ticket")? }.set(posted.position() | bit);
        }
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_wait(path: *mut xmml_path, ticket: u64, timeout_s: f64) -> c_int {
    guard(|| {
        let lane = if ticket & BULK == 0 { Lane::Control } else { Lane::Bulk };
        let ticket = Ticket::at(lane, ticket & !BULK);
        in_time(unsafe { object(path, "path")? }.0.wait_arrived(ticket, limit(timeout_s)?)?)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_flush(path: *mut xmml_path, timeout_s: f64) -> c_int {
    guard(|| in_time(unsafe { object(path, "path")? }.0.flush(limit(timeout_s)?)?))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_receive(
    path: *mut xmml_path,
    code: c_int,
    into: *mut *mut xmml_path_message,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let place = unsafe { place_for_object(into, "message")? };
        let path = &unsafe { object(path, "path")? }.0;
        let got = path.receive(lane(code)?, limit(timeout_s)?)?;
        place.set(received(got.ok_or_else(|| Failure::new(Status::TimedOut, "no message came in this time"))?)?);
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_receive_into(
    path: *mut xmml_path,
    code: c_int,
    data: *mut c_void,
    capacity: usize,
    size: *mut usize,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let (place, lane) = (unsafe { place(size, "size")? }, lane(code)?);
        let path = &unsafe { object(path, "path")? }.0;
        if data.is_null() && capacity > 0 {
            return Err(Failure::usage("data is a null pointer"));
        }
        match path.wait_next(lane, limit(timeout_s)?)? {
            None => Err(Failure::new(Status::TimedOut, "no message came in this time")),
            Some(None) => Err(ended()),
            Some(Some(length)) if length > capacity => {
                place.set(length);
                let text = format!("the message has {length} bytes, the memory {capacity}; the message is still there");
                Err(Failure::new(Status::Type, text))
            }
            Some(Some(_)) => {
                let got = path.take(lane).ok_or_else(|| Failure::usage("another thread has taken the message"))?;
                // SAFETY: the caller promises `capacity` bytes, and the message is not longer.
                unsafe { std::ptr::copy_nonoverlapping(got.as_ptr(), data.cast(), got.len()) };
                place.set(got.len());
                Ok(())
            }
        }
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_message_data(message: *const xmml_path_message) -> *const c_void {
    guard_or(std::ptr::null(), || Ok(unsafe { object(message, "message")? }.0.as_ptr().cast()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_message_size(message: *const xmml_path_message) -> usize {
    guard_or(0, || Ok(unsafe { object(message, "message")? }.0.len()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_message_free(message: *mut *mut xmml_path_message) {
    guard_or((), || {
        drop(unsafe { taken(message, "message")? });
        Ok(())
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_send_receive(
    path: *mut xmml_path,
    code: c_int,
    data: *const c_void,
    size: usize,
    into: *mut *mut xmml_path_message,
    timeout_s: f64,
) -> c_int {
    unsafe { xmml_path_cycle(path, path, code, data, size, into, timeout_s) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_cycle(
    to: *mut xmml_path,
    from: *mut xmml_path,
    code: c_int,
    data: *const c_void,
    size: usize,
    into: *mut *mut xmml_path_message,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let place = unsafe { place_for_object(into, "message")? };
        let (to, from) = unsafe { (&object(to, "to")?.0, &object(from, "from")?.0) };
        let sent = Buffer::copy_of(unsafe { bytes(data, size)? });
        place.set(received(cycle(to, from, lane(code)?, sent, limit(timeout_s)?)?)?);
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_barrier(path: *mut xmml_path, timeout_s: f64) -> c_int {
    guard(|| in_time(unsafe { object(path, "path")? }.0.barrier(limit(timeout_s)?)?))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_relay(one: *mut xmml_path, other: *mut xmml_path) -> c_int {
    guard(|| {
        unsafe { relay(&object(one, "one")?.0, &object(other, "other")?.0)? };
        Ok(())
    })
}

unsafe fn several<'a>(paths: *const *mut xmml_path, count: usize) -> Result<Vec<&'a Path>> {
    let paths = unsafe { elements(paths, count, "paths")? };
    paths.iter().map(|path| Ok(&unsafe { object(*path, "a path")? }.0)).collect()
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_scatter(
    paths: *const *mut xmml_path,
    count: usize,
    code: c_int,
    data: *const *const c_void,
    sizes: *const usize,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let paths = unsafe { several(paths, count)? };
        let (data, sizes) = unsafe { (elements(data, count, "data")?, elements(sizes, count, "sizes")?) };
        let parts = data.iter().zip(sizes).map(|(data, size)| Ok(Buffer::copy_of(unsafe { bytes(*data, *size)? })));
        Ok(scatter(&paths, lane(code)?, parts.collect::<Result<_>>()?, limit(timeout_s)?)?)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_gather(
    paths: *const *mut xmml_path,
    count: usize,
    code: c_int,
    messages: *mut *mut xmml_path_message,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let paths = unsafe { several(paths, count)? };
        if messages.is_null() && count > 0 {
            return Err(Failure::usage("messages is a null pointer"));
        }
        for at in 0..count {
            // SAFETY: the caller promises room for `count` pointers.
            unsafe { messages.add(at).write(std::ptr::null_mut()) };
        }
        for (at, part) in gather(&paths, lane(code)?, limit(timeout_s)?)?.into_iter().enumerate() {
            // SAFETY: as above; there are as many parts as paths.
            unsafe { messages.add(at).write(message(part)) };
        }
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_set(path: *mut xmml_path, given: *const xmml_path_settings) -> c_int {
    guard(|| {
        let (path, settings) = unsafe { (object(path, "path")?, settings(given)?) };
        path.0.set(settings)?;
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_get_stats(path: *const xmml_path, stats: *mut xmml_path_stats) -> c_int {
    guard(|| {
        let place = unsafe { place(stats, "stats")? };
        let stats = unsafe { object(path, "path")? }.0.stats();
        place.set(xmml_path_stats {
            streams: stats.streams as u64,
            streams_lost: stats.streams_lost,
            resumed: stats.resumed,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
            retransmitted: stats.retransmitted,
            rate: stats.rate,
            round_trip: stats.round_trip,
            zero_copy_streams: stats.zero_copy_streams as u64,
            zero_copy_bytes: stats.zero_copy_bytes,
            why_copied: stats.why_copied.map_or(std::ptr::null(), |why| why.text().as_ptr()),
        });
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_fd(path: *const xmml_path) -> c_int {
    guard_or(-1, || Ok(unsafe { object(path, "path")? }.0.fd()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_drive(path: *mut xmml_path) -> c_int {
    guard(|| {
        unsafe { object(path, "path")? }.0.drive()?;
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_finish(path: *mut xmml_path) -> c_int {
    guard(|| {
        unsafe { object(path, "path")? }.0.finish();
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_close(path: *mut *mut xmml_path, timeout_s: f64) -> c_int {
    guard(|| {
        let limit = limit(timeout_s)?;
        let path = unsafe { taken(path, "path")? }.ok_or_else(|| Failure::usage("path is a null pointer"))?;
        in_time(path.0.close(limit)?)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn xmml_path_free(path: *mut *mut xmml_path) {
    guard_or((), || {
        drop(unsafe { taken(path, "path")? });
        Ok(())
    });
}
