//! What the kernel may still read of the memory that it was told to send without a copy, and what it says of it: each send has a number, and
//! the error queue of the socket tells which numbers are done with.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use xmml_wire::buffer::Buffer;
use xmml_wire::methods::Stream as Wire;

use crate::ranges::Ranges;

/// `ee_origin` of a notice of sends without copies (linux/errqueue.h).
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;

/// `ee_code` of a notice of sends that were copied after all.
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// The kernel has done with some sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    first: u32,
    last: u32,
    /// It had to copy at least one of them.
    pub is_copied: bool,
}

#[cfg(test)]
impl Notice {
    /// Of these sends, both included.
    pub fn of(first: u32, last: u32, is_copied: bool) -> Notice {
        Notice { first, last, is_copied }
    }
}

/// See the module.
pub struct Pending {
    wire: Arc<dyn Wire>,
    /// How many sends there were; the kernel counts them in the same way, but with 32 bits.
    sends: u64,
    /// Those that it has done with.
    done: Ranges,
    /// Memory that it may still read, and behind which send that ends.
    held: VecDeque<(u64, Buffer)>,
}

impl Pending {
    /// Nothing was sent yet.
    pub fn new(wire: Arc<dyn Wire>) -> Pending {
        Pending { wire, sends: 0, done: Ranges::default(), held: VecDeque::new() }
    }

    /// A part of `data` was sent.
    pub fn add(&mut self, data: &Buffer) {
        self.sends += 1;
        match self.held.back_mut() {
            // A message that goes in several pieces is held once; the kernel lets go of it with the last.
            Some((end, last)) if last.shares_memory_with(data) => *end = self.sends,
            _ => self.held.push_back((self.sends, data.clone())),
        }
    }

    /// Whether the kernel may still read something.
    pub fn is_open(&self) -> bool {
        self.done_before() < self.sends
    }

    /// How many pieces of memory are held.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// As if so many sends had been and were done with.
    #[cfg(test)]
    pub fn skip_to(&mut self, sends: u64) {
        self.sends = sends;
        self.done.insert(0..sends);
    }

    /// The kernel has done with every send before this.
    fn done_before(&self) -> u64 {
        self.done.around(0).map_or(0, |range| range.end)
    }

    /// The next thing that the kernel says, if it says something; memory that it has let go of is let go of.
    pub fn hear(&mut self) -> Option<Notice> {
        let notice = next_notice(self.wire.bare_socket()?.as_raw_fd())?;
        self.take_in(&notice);
        Some(notice)
    }

    /// Notices may come in any order when TCP has repeated something.
    pub fn take_in(&mut self, notice: &Notice) {
        let before = self.done_before();
        let number = |low: u32| before + u64::from(low.wrapping_sub(before as u32));
        let (first, end) = (number(notice.first), number(notice.last) + 1);
        if first < end && end <= self.sends {
            self.done.insert(first..end);
        }
        let before = self.done_before();
        while self.held.front().is_some_and(|(end, _)| *end <= before) {
            self.held.pop_front();
        }
    }

    /// Sends nothing more; what is with the kernel still goes.
    pub fn shut(&self) {
        self.wire.shut();
    }

    /// Has the kernel forget the connection, and with it what it has not sent.
    pub fn break_off(&self) {
        let Some(socket) = self.wire.bare_socket() else { return };
        // SAFETY: all bytes zero are an address, that without a family.
        let nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
        const { assert!(libc::AF_UNSPEC == 0) };
        let length = size_of_val(&nowhere) as libc::socklen_t;
        // SAFETY: the pointer and length describe `nowhere`. It fails only where there is no connection any more.
        unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, length) };
    }
}

/// The next notice in the error queue of a socket; `None`: there is none now.
fn next_notice(fd: RawFd) -> Option<Notice> {
    loop {
        // As long as the address of a router behind the notice, in words so that it is aligned.
        let mut control = [0u64; 16];
        // SAFETY: all bytes zero are a message header without any parts.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: `header` describes `control`, and both outlive the call.
        let status = unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        if status < 0 {
            match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted => continue,
                _ => return None,
            }
        }
        // SAFETY: the kernel has filled `control`, and says in `header` how far.
        if let Some(notice) = unsafe { notice_in(&header) } {
            return Some(notice);
        }
    }
}

/// The notice in the control data of a header.
///
/// # Safety
/// `header` describes control data as recvmsg(2) leaves them.
unsafe fn notice_in(header: &libc::msghdr) -> Option<Notice> {
    // SAFETY: as promised.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: the macros return a header that lies within the control data, or null.
    while let Some(part) = unsafe { next.as_ref() } {
        if matches!(
            (part.cmsg_level, part.cmsg_type),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        ) {
            // SAFETY: parts of this kind begin with a `sock_extended_err`, wherever it is aligned.
            let told = unsafe { libc::CMSG_DATA(part).cast::<libc::sock_extended_err>().read_unaligned() };
            if told.ee_errno == 0 && told.ee_origin == SO_EE_ORIGIN_ZEROCOPY {
                let is_copied = told.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0;
                return Some(Notice { first: told.ee_info, last: told.ee_data, is_copied });
            }
        }
        // SAFETY: as above, and `part` is one of its headers.
        next = unsafe { libc::CMSG_NXTHDR(header, part) };
    }
    None
}
