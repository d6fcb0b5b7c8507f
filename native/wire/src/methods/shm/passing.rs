//! Bytes over a Unix socket, with descriptors alongside.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Descriptors taken in at a time; more than that nobody passes.
const AT_ONCE: usize = 4;

/// Room for the ancillary data of [`AT_ONCE`] descriptors, aligned as the kernel wants it.
#[repr(C)]
union Ancillary {
    bytes: [u8; 64],
    _head: libc::cmsghdr,
}

/// Sends what there is room for, without waiting; the descriptor goes with the first byte.
pub fn send(socket: &impl AsRawFd, parts: &[IoSlice<'_>], pass: Option<BorrowedFd<'_>>) -> io::Result<usize> {
    let mut ancillary = Ancillary { bytes: [0; 64] };
    // SAFETY: an all-zero msghdr is a value of it.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = parts.as_ptr().cast_mut().cast(); // IoSlice has the layout of iovec; the kernel only reads it
    head.msg_iovlen = parts.len() as _;
    if let Some(file) = pass {
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute; the buffer is large enough for one descriptor.
        unsafe {
            head.msg_control = (&raw mut ancillary).cast();
            head.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
            let message = libc::CMSG_FIRSTHDR(&raw const head);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
            libc::CMSG_DATA(message).cast::<i32>().write_unaligned(file.as_raw_fd());
        }
    }
    // SAFETY: everything that `head` points to outlives the call.
    let count = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const head, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(count as usize)
}

/// Reads what is there, without waiting, and takes in descriptors that come along. 0: the stream has ended.
pub fn receive(socket: &impl AsRawFd, into: &mut [u8], passed: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut ancillary = Ancillary { bytes: [0; 64] };
    let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: an all-zero msghdr is a value of it.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = &raw mut piece;
    head.msg_iovlen = 1;
    head.msg_control = (&raw mut ancillary).cast();
    // SAFETY: only computes.
    head.msg_controllen = unsafe { libc::CMSG_SPACE((AT_ONCE * size_of::<i32>()) as u32) } as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: everything that `head` points to outlives the call, and the lengths are right.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, flags) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the ancillary data that the macros walk through.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&raw const head);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*message).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                for at in 0..bytes / size_of::<i32>() {
                    let file = libc::CMSG_DATA(message).cast::<i32>().add(at).read_unaligned();
                    // New descriptors that nobody else knows.
                    passed.push(OwnedFd::from_raw_fd(file));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const head, message);
        }
    }
    Ok(count as usize)
}

const _: () = assert!(AT_ONCE * size_of::<i32>() + size_of::<libc::cmsghdr>() <= 64);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_arrives_with_the_bytes_it_was_sent_with() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut reading, writing) = std::io::pipe().unwrap();
        send(&here, &[IoSlice::new(b"ab"), IoSlice::new(b"c")], Some(writing.as_fd())).unwrap();
        drop(writing);
        let (mut bytes, mut passed) = ([0; 8], Vec::new());
        assert_eq!(receive(&there, &mut bytes, &mut passed).unwrap(), 3);
        assert_eq!((&bytes[..3], passed.len()), (&b"abc"[..], 1));
        let mut writing = std::fs::File::from(passed.remove(0));
        writing.write_all(b"through").unwrap();
        drop(writing);
        let mut text = String::new();
        reading.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn nothing_there_is_not_the_end() {
        let (here, there) = UnixStream::pair().unwrap();
        let error = receive(&there, &mut [0; 8], &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // Closing would not do: a process that another test is just starting has a copy of the descriptor.
        here.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(receive(&there, &mut [0; 8], &mut Vec::new()).unwrap(), 0);
    }
}
