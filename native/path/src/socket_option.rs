//! Options of sockets that no library names.

use std::io;
use std::os::fd::RawFd;

/// Sets an option whose value is a number.
///
/// # Errors
/// The system refuses.
pub(crate) fn set_option(fd: RawFd, level: i32, name: i32, value: u32) -> io::Result<()> {
    named_option(fd, level, name, &value.to_ne_bytes())
}

/// Sets an option whose value is these bytes.
///
/// # Errors
/// The system refuses.
pub(crate) fn named_option(fd: RawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`.
    let status = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
