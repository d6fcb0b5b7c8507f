//! What a copy did, and how far it is.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// What an end did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Files that there are to copy.
    pub files: u64,
    /// Their bytes.
    pub size: u64,
    /// Bytes of them that had to travel.
    pub sent: u64,
    /// Files that stood there already.
    pub untouched: u64,
    /// What is not as it should be at the target, and why.
    pub failed: Vec<(OsString, String)>,
}

/// How far a copy is; whoever shows it looks at any time.
#[derive(Debug, Default)]
pub struct Progress {
    total: OnceLock<(u64, u64)>,
    standing: AtomicU64,
    compared: AtomicU64,
}

impl Progress {
    /// Files and bytes that there are to copy, once that is known.
    pub fn total(&self) -> Option<(u64, u64)> {
        self.total.get().copied()
    }

    /// Bytes that stand at the target.
    pub fn standing(&self) -> u64 {
        self.standing.load(Ordering::Relaxed)
    }

    /// What grows while an end reads and compares what it has, and sends nothing meanwhile: bytes, or entries of folders that it lists.
    pub fn compared(&self) -> u64 {
        self.compared.load(Ordering::Relaxed)
    }

    /// Notes that more was read here to be compared [bytes], or that other work has made progress.
    pub fn compare(&self, size: u64) {
        self.compared.fetch_add(size, Ordering::Relaxed);
    }

    pub(crate) fn set_total(&self, files: u64, size: u64) {
        let _ = self.total.set((files, size)); // it is told once
    }

    pub(crate) fn advance(&self, size: u64) {
        self.standing.fetch_add(size, Ordering::Relaxed);
    }
}
