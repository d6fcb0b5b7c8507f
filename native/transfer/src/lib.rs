//! Moves files and folders between two machines, in ranges with checksums: of what stands at the target already, nothing travels.
//!
//! A [`Source`](source::Source) lists and reads, a [`Target`](target::Target) compares and writes. Neither knows how its messages travel:
//! whoever has an end gives it what comes, and sends what it says ([`Peer`]).

pub mod listing;
pub mod message;
pub mod multichannel_connection;
pub mod ranges;
pub mod report;
pub mod source;
pub mod target;
pub mod tree;

use std::fmt::{self, Display, Formatter};
use std::io;

/// The other end of a copy, as an end sees it.
pub trait Peer: Sync {
    /// Sends a message, which is these parts one behind the other; waits while the way is full.
    ///
    /// # Errors
    /// The end shall stop: the connection is gone, for one.
    fn send(&self, message: &[&[u8]]) -> Result<(), Stop>;

    /// Is called now and then while an end works or waits.
    ///
    /// # Errors
    /// The end shall stop.
    fn check(&self) -> Result<(), Stop>;
}

/// An end shall stop. Why, whoever has it knows.
#[derive(Debug)]
pub struct Stop;

/// Why an end cannot go on.
#[derive(Debug)]
pub enum Failure {
    /// It was told to stop.
    Stopped,
    /// The other end cannot go on.
    PeerFailed(String),
    /// The other end does not keep to the protocol.
    Malformed(String),
    /// Nothing more can be written here.
    NoRoom(String),
    /// The listing takes more memory than it may.
    TooMuch(String),
}

impl From<Stop> for Failure {
    fn from(_: Stop) -> Failure {
        Failure::Stopped
    }
}

impl Display for Failure {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Stopped => text.write_str("it was told to stop"),
            Failure::PeerFailed(why) | Failure::Malformed(why) | Failure::NoRoom(why) | Failure::TooMuch(why) => {
                text.write_str(why)
            }
        }
    }
}

impl std::error::Error for Failure {}

/// What the system says of an error, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::listing::{Entry, Kind};

    /// A folder for one test, removed with it.
    pub(crate) struct Folder(PathBuf);

    impl Folder {
        pub(crate) fn new() -> Folder {
            static NUMBER: AtomicU64 = AtomicU64::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("xmml-transfer-{}-{number}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    pub(crate) fn file(path: &str, size: u64) -> Entry {
        Entry { path: path.into(), kind: Kind::File, size, mode: 0o644, modified_ns: 0, link: OsString::new() }
    }

    pub(crate) fn link(path: &str) -> Entry {
        Entry { kind: Kind::Link, link: "/etc/passwd".into(), ..file(path, 0) }
    }
}
