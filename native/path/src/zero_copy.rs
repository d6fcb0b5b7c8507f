//! Sending without a copy into the kernel (`MSG_ZEROCOPY`), where the kernel does that and it helps.
//!
//! The kernel then reads the memory of a message when it sends, and again when TCP has to repeat something; it says when it will not any
//! more ([`pending`]). Until then the bytes must stay as they are: the receipt of the other end is not enough, for what was receipted may have
//! gone by another stream, while the kernel still repeats it here. So each stream keeps the buffers that it has sent in this way until the
//! kernel has let go of them, also after its end ([`parting`]).
//!
//! It follows that only memory which nobody can change while a buffer of it is held is sent in this way ([`Buffer::is_constant`]): not what
//! a program has lent, which may change once `send` has returned, or once its message has arrived.
//!
//! What stays on the host is copied after all, and costs more then. The kernel says so. By default a stream sends one piece in this
//! way, everything else as usual until the kernel has answered, and goes on only if nothing was copied.

mod parting;
mod pending;

use std::ffi::CStr;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::settings::ZeroCopy;
use crate::socket_option::set_option;
use pending::{Notice, Pending};
use xmml_wire::buffer::Buffer;
use xmml_wire::methods::Stream as Wire;

/// Less costs more to keep books of than to copy.
const LEAST: usize = 64 * 1024;

/// A kernel that has no room for what it has to remember is asked again when it has let go of something, or after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Why a stream has what it sends copied; of several reasons, the last of these says most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Copies {
    /// Nothing was sent yet that is long enough and in memory that stays as it is, or the kernel has not said yet what became of it.
    Untried,
    /// It was told to ([`ZeroCopy::Off`]).
    Told,
    /// What it sends is made by the encryption.
    Encrypted,
    /// The kernel does not offer it on this connection.
    NotOffered,
    /// The limits of locked memory leave no room.
    NoRoom,
    /// The kernel copied it all the same.
    Kernel,
}

impl Copies {
    /// The same for people.
    pub fn text(self) -> &'static CStr {
        match self {
            Copies::Told => c"the path was told to copy",
            Copies::Encrypted => c"the path is encrypted: what it sends is made by the encryption",
            Copies::NotOffered => c"this kernel does not send without copies on this connection",
            Copies::Untried => c"nothing was sent yet in pieces of 64 KiB that lie in memory of the path, or the kernel has not told of it yet",
            Copies::Kernel => c"the kernel copied all the same, as it does with what stays on the host",
            Copies::NoRoom => c"the limits of locked memory leave no room: ulimit -l, or net.core.optmem_max",
        }
    }
}

impl std::fmt::Display for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text().to_string_lossy())
    }
}

/// What one stream sends without copies. See the module.
pub struct Uncopied {
    wanted: ZeroCopy,
    /// Nothing: the kernel does it.
    copies: Option<Copies>,
    /// Until then the kernel has no room.
    pause: Option<Instant>,
    /// What the kernel may still read; none before the first.
    pending: Option<Pending>,
    /// Bytes that went without a copy by this end; the kernel may have made one.
    pub bytes: u64,
}

impl Uncopied {
    /// Copies everything, until it is told otherwise.
    pub fn new() -> Uncopied {
        Uncopied { wanted: ZeroCopy::Off, copies: Some(Copies::Told), pause: None, pending: None, bytes: 0 }
    }

    /// What the program wants of this stream from now on.
    pub fn set(&mut self, wanted: ZeroCopy, wire: &dyn Wire, is_encrypted: bool) {
        if wanted == self.wanted {
            return; // what the kernel has answered stands
        }
        self.wanted = wanted;
        self.copies = Some(match wire.bare_socket() {
            _ if wanted == ZeroCopy::Off => Copies::Told,
            Some(_) => Copies::Untried,
            None if is_encrypted => Copies::Encrypted,
            None => Copies::NotOffered,
        });
    }

    /// Why it copies, if it does.
    pub fn copies(&self) -> Option<Copies> {
        self.copies
    }

    /// Whether `data` from its byte `from` on is to be sent by [`Uncopied::send`].
    pub fn takes(&self, data: &Buffer, from: usize) -> bool {
        let may = match (self.wanted, self.copies) {
            (ZeroCopy::Off, _) | (_, Some(Copies::Told | Copies::Encrypted | Copies::NotOffered)) => false,
            (ZeroCopy::Auto, Some(Copies::Kernel)) => false,
            (ZeroCopy::Auto, Some(Copies::Untried | Copies::NoRoom)) => !self.is_pending(),
            (_, None) | (ZeroCopy::On, _) => true,
        };
        may && data.len() >= from + LEAST
            && data.is_constant()
            && self.pause.is_none_or(|until| until <= Instant::now())
    }

    fn is_pending(&self) -> bool {
        self.pending.as_ref().is_some_and(Pending::is_open)
    }

    /// Sends what it takes of `data` from its byte `from` on; `None`: it is to be sent as usual.
    ///
    /// # Errors
    /// As of a write.
    pub fn send(&mut self, wire: &Arc<dyn Wire>, data: &Buffer, from: usize) -> io::Result<Option<usize>> {
        self.hear(); // what is told is forgotten, and makes room
        if self.pending.is_none() {
            if set_option(wire.fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1).is_err() {
                self.copies = Some(Copies::NotOffered);
                return Ok(None);
            }
            self.pending = Some(Pending::new(wire.clone()));
        }
        let (Some(socket), Some(pending)) = (wire.bare_socket(), &mut self.pending) else { return Ok(None) };
        let flags = libc::MSG_NOSIGNAL | libc::MSG_ZEROCOPY;
        // The kernel may read the memory of `data` from here on; a send that fails leaves nothing behind.
        match SockRef::from(&socket).send_with_flags(&data[from..], flags) {
            Ok(count) => {
                pending.add(data);
                self.bytes += count as u64;
                self.pause = None;
                Ok(Some(count))
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => {
                    (self.copies, self.pause) = (Some(Copies::NoRoom), Some(Instant::now() + AGAIN));
                    Ok(None)
                }
                Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT | libc::EINVAL | libc::EFAULT) => {
                    self.copies = Some(Copies::NotOffered);
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }

    /// Sends what stands in front of data that is sent by [`Uncopied::send`]; it travels with them.
    ///
    /// # Errors
    /// As of a write.
    pub fn send_head(wire: &dyn Wire, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match wire.bare_socket() {
            Some(socket) => SockRef::from(&socket).send_vectored_with_flags(parts, libc::MSG_NOSIGNAL | libc::MSG_MORE),
            None => wire.write(parts),
        }
    }

    /// Takes in what the kernel has said, and lets go of what it has let go of. Until that is taken in, the descriptor is ready.
    pub fn hear(&mut self) {
        while let Some(notice) = self.pending.as_mut().filter(|pending| pending.is_open()).and_then(Pending::hear) {
            self.learn(&notice);
        }
    }

    fn learn(&mut self, notice: &Notice) {
        self.pause = None;
        if !matches!(self.copies, Some(Copies::Told | Copies::Encrypted | Copies::NotOffered)) {
            self.copies = notice.is_copied.then_some(Copies::Kernel);
        }
    }
}

/// The stream has gone, but the kernel may still send of the memory.
impl Drop for Uncopied {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            parting::see_off(pending);
        }
    }
}

#[cfg(test)]
mod tests;
