//! What walks through folders share: the folders on the way, which links may lead back to, and the entries of one.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use xmml_transfer::report::Progress;

/// The folders above a place, by device and number: a link that leads back up to one of them is not followed.
#[derive(Default)]
pub struct FoldersAbove(Vec<(u64, u64)>);

impl FoldersAbove {
    /// Goes into a folder; returns false if a link has led back up to it.
    pub fn enter(&mut self, folder: &Path) -> bool {
        let Ok(found) = fs::metadata(folder) else { return false }; // it went meanwhile
        let identity = (found.dev(), found.ino());
        let is_new = !self.0.contains(&identity);
        if is_new {
            self.0.push(identity);
        }
        is_new
    }

    /// Leaves the last folder.
    pub fn leave(&mut self) {
        self.0.pop();
    }
}

/// Returns the paths and names of what is in a folder; nothing if it cannot be read.
pub fn entries_of(folder: &Path, progress: &Progress) -> Vec<(PathBuf, OsString)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.inspect(|_| progress.compare(1)).map(|entry| (entry.path(), entry.file_name())).collect()
}
