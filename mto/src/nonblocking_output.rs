//! An output, written at once or not at all: nobody may read it, and a relay has other things to do than to wait.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use xmml_wire::wakeup::{poll_writable, Polled};

/// So many bytes are written at once, at most: a pipe or a socket that has any room has room for them.
pub const PIECE: usize = libc::PIPE_BUF;

/// See the module.
pub struct NonblockingOutput {
    given: RawFd,
    /// Opened once more if it is a pipe or a terminal: that it must not wait holds for this relay then, not for others that write there.
    own: Option<File>,
}

impl NonblockingOutput {
    /// The standard output.
    pub fn stdout() -> NonblockingOutput {
        NonblockingOutput::of(io::stdout().as_raw_fd())
    }

    /// The standard error.
    pub fn stderr() -> NonblockingOutput {
        NonblockingOutput::of(io::stderr().as_raw_fd())
    }

    /// A descriptor that stays open as long as this.
    pub fn of(given: RawFd) -> NonblockingOutput {
        let path = format!("/proc/self/fd/{given}");
        NonblockingOutput { given, own: once_more(Path::new(&path)) }
    }

    /// Writes as much of the first [`PIECE`] bytes as there is room for.
    ///
    /// # Errors
    /// `WouldBlock`: there is no room now. Or it cannot be written.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        if let Some(own) = &self.own {
            return (&*own).write(piece);
        }
        // It is shared with others, and may wait.
        if poll_writable(self.given, Some(Instant::now()))? != Polled::Ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // SAFETY: the pointer and length describe `piece`; a write to a closed descriptor is an error.
        let count = unsafe { libc::write(self.given, piece.as_ptr().cast(), piece.len()) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl AsRawFd for NonblockingOutput {
    /// Where it is seen whether there is room.
    fn as_raw_fd(&self) -> RawFd {
        self.own.as_ref().map_or(self.given, AsRawFd::as_raw_fd)
    }
}

/// `None`: it is neither a pipe nor a terminal, or is not given once more.
fn once_more(path: &Path) -> Option<File> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let is_one = kind.is_fifo() || kind.is_char_device();
    is_one.then(|| OpenOptions::new().write(true).custom_flags(flags).open(path).ok()).flatten()
}
