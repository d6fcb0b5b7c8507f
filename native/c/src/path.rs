//! Paths: `xmml_path.h`.

mod identity;
mod settings;

use std::ffi::{c_char, c_int, c_void, CString};
use std::time::Duration;

use ::xmml_path::{cycle, gather, relay, scatter, Lane, Listener, Path, Received, Ticket};
use xmml_wire::buffer::Buffer;

use crate::argument::{elements, object, place, place_for_object, text, wanted, Elements, Out, Room, Text};
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

fn received(received: Received) -> Result<xmml_path_message> {
    match received {
        Received::Message(buffer) => Ok(xmml_path_message(buffer)),
        Received::Ended => Err(ended()),
    }
}

/// Bit of a ticket that says which lane.
const BULK: u64 = 1 << 63;

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_dial(
    path: Out<*mut xmml_path>,
    address: Text,
    me: Option<&xmml_path_identity>,
    peer: Text,
    given: Option<&xmml_path_settings>,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let place = place_for_object(path, "path")?;
        let (address, peer) = (text(address, "address")?, text(peer, "peer")?);
        let (me, settings) = (identity(me)?, settings(given)?);
        let limit = limit(timeout_s)?;
        let dialled = Path::dial(address, &me, peer, settings.connecting_for(limit))?;
        dialled.attend()?;
        in_time(dialled.wait_open(limit)?)?;
        place.give(xmml_path(dialled));
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_listen(
    listener: Out<*mut xmml_path_listener>,
    address: Text,
    me: Option<&xmml_path_identity>,
    given: Option<&xmml_path_settings>,
) -> c_int {
    guard(|| {
        let place = place_for_object(listener, "listener")?;
        let address = text(address, "address")?;
        let bound = Listener::bind(address, &identity(me)?, settings(given)?)?;
        bound.attend()?;
        let address = CString::new(bound.address()).unwrap_or_default();
        place.give(xmml_path_listener(bound, address));
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_listener_address(listener: Option<&xmml_path_listener>) -> *const c_char {
    guard_or(c"".as_ptr(), || Ok(object(listener, "listener")?.1.as_ptr()))
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_accept(
    listener: Option<&xmml_path_listener>,
    path: Out<*mut xmml_path>,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let place = place_for_object(path, "path")?;
        let accepted = object(listener, "listener")?.0.accept(limit(timeout_s)?)?;
        let accepted = accepted.ok_or_else(|| Failure::new(Status::TimedOut, "nobody has dialled in this time"))?;
        accepted.attend()?;
        place.give(xmml_path(accepted));
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_listener_close(listener: Option<&mut Option<Box<xmml_path_listener>>>) -> c_int {
    guard(|| {
        drop(object(listener, "listener")?.take());
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_send(
    path: Option<&xmml_path>,
    code: c_int,
    data: Elements<u8>,
    size: usize,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let path = &object(path, "path")?.0;
        in_time(path.send_from(lane(code)?, elements(data, size, "data")?, limit(timeout_s)?)?)
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_post(
    path: Option<&xmml_path>,
    code: c_int,
    data: Elements<u8>,
    size: usize,
    ticket: Out<u64>,
) -> c_int {
    guard(|| {
        let path = &object(path, "path")?.0;
        let lane = lane(code)?;
        let posted = path.post(lane, Buffer::copy_of(elements(data, size, "data")?))?;
        if let Some(ticket) = wanted(ticket) {
            let bit = if lane == Lane::Bulk { BULK } else { 0 };
            ticket.set(posted.position() | bit);
        }
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_wait(path: Option<&xmml_path>, ticket: u64, timeout_s: f64) -> c_int {
    guard(|| {
        let lane = if ticket & BULK == 0 { Lane::Control } else { Lane::Bulk };
        let ticket = Ticket::at(lane, ticket & !BULK);
        in_time(object(path, "path")?.0.wait_arrived(ticket, limit(timeout_s)?)?)
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_flush(path: Option<&xmml_path>, timeout_s: f64) -> c_int {
    guard(|| in_time(object(path, "path")?.0.flush(limit(timeout_s)?)?))
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_receive(
    path: Option<&xmml_path>,
    code: c_int,
    into: Out<*mut xmml_path_message>,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let place = place_for_object(into, "message")?;
        let path = &object(path, "path")?.0;
        let got = path.receive(lane(code)?, limit(timeout_s)?)?;
        place.give(received(got.ok_or_else(|| Failure::new(Status::TimedOut, "no message came in this time"))?)?);
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_receive_into(
    path: Option<&xmml_path>,
    code: c_int,
    data: Room<u8>,
    capacity: usize,
    size: Out<usize>,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let (place, lane) = (place(size, "size")?, lane(code)?);
        let path = &object(path, "path")?.0;
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
                data.fill(&got); // not longer than `capacity`
                place.set(got.len());
                Ok(())
            }
        }
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_message_data(message: Option<&xmml_path_message>) -> *const c_void {
    guard_or(std::ptr::null(), || Ok(object(message, "message")?.0.as_ptr().cast()))
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_message_size(message: Option<&xmml_path_message>) -> usize {
    guard_or(0, || Ok(object(message, "message")?.0.len()))
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_message_free(message: Option<&mut Option<Box<xmml_path_message>>>) {
    guard_or((), || {
        drop(object(message, "message")?.take());
        Ok(())
    });
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_send_receive(
    path: Option<&xmml_path>,
    code: c_int,
    data: Elements<u8>,
    size: usize,
    into: Out<*mut xmml_path_message>,
    timeout_s: f64,
) -> c_int {
    xmml_path_cycle(path, path, code, data, size, into, timeout_s)
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_cycle(
    to: Option<&xmml_path>,
    from: Option<&xmml_path>,
    code: c_int,
    data: Elements<u8>,
    size: usize,
    into: Out<*mut xmml_path_message>,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let place = place_for_object(into, "message")?;
        let (to, from) = (&object(to, "to")?.0, &object(from, "from")?.0);
        let sent = Buffer::copy_of(elements(data, size, "data")?);
        place.give(received(cycle(to, from, lane(code)?, sent, limit(timeout_s)?)?)?);
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_barrier(path: Option<&xmml_path>, timeout_s: f64) -> c_int {
    guard(|| in_time(object(path, "path")?.0.barrier(limit(timeout_s)?)?))
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_relay(one: Option<&xmml_path>, other: Option<&xmml_path>) -> c_int {
    guard(|| {
        relay(&object(one, "one")?.0, &object(other, "other")?.0)?;
        Ok(())
    })
}

fn several<'a>(paths: Elements<'a, Option<&'a xmml_path>>, count: usize) -> Result<Vec<&'a Path>> {
    let paths = elements(paths, count, "paths")?;
    paths.iter().map(|path| Ok(&object(*path, "a path")?.0)).collect()
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_scatter(
    paths: Elements<Option<&xmml_path>>,
    count: usize,
    code: c_int,
    data: Elements<Elements<u8>>,
    sizes: Elements<usize>,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let paths = several(paths, count)?;
        let (data, sizes) = (elements(data, count, "data")?, elements(sizes, count, "sizes")?);
        let parts = data.iter().zip(sizes).map(|(data, size)| Ok(Buffer::copy_of(elements(*data, *size, "data")?)));
        Ok(scatter(&paths, lane(code)?, parts.collect::<Result<_>>()?, limit(timeout_s)?)?)
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_gather(
    paths: Elements<Option<&xmml_path>>,
    count: usize,
    code: c_int,
    messages: Room<*mut xmml_path_message>,
    timeout_s: f64,
) -> c_int {
    guard(|| {
        let paths = several(paths, count)?;
        if messages.is_null() && count > 0 {
            return Err(Failure::usage("messages is a null pointer"));
        }
        messages.fill(&vec![std::ptr::null_mut(); count]);
        let parts = gather(&paths, lane(code)?, limit(timeout_s)?)?.into_iter(); // as many as paths
        let parts = parts.map(|part| Box::into_raw(Box::new(xmml_path_message(part))));
        messages.fill(&parts.collect::<Vec<_>>());
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_set(path: Option<&xmml_path>, given: Option<&xmml_path_settings>) -> c_int {
    guard(|| {
        let (path, settings) = (object(path, "path")?, settings(given)?);
        path.0.set(settings)?;
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_get_stats(path: Option<&xmml_path>, stats: Out<xmml_path_stats>) -> c_int {
    guard(|| {
        let place = place(stats, "stats")?;
        let stats = object(path, "path")?.0.stats();
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
pub extern "C" fn xmml_path_fd(path: Option<&xmml_path>) -> c_int {
    guard_or(-1, || Ok(object(path, "path")?.0.fd()))
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_drive(path: Option<&xmml_path>) -> c_int {
    guard(|| {
        object(path, "path")?.0.drive()?;
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_finish(path: Option<&xmml_path>) -> c_int {
    guard(|| {
        object(path, "path")?.0.finish();
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_close(path: Option<&mut Option<Box<xmml_path>>>, timeout_s: f64) -> c_int {
    guard(|| {
        let limit = limit(timeout_s)?;
        let path = object(path, "path")?.take().ok_or_else(|| Failure::usage("path is a null pointer"))?;
        in_time(path.0.close(limit)?)
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_free(path: Option<&mut Option<Box<xmml_path>>>) {
    guard_or((), || {
        drop(object(path, "path")?.take());
        Ok(())
    });
}
