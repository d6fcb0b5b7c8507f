//! Which of the files and folders that a source lists are taken.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::listing::{Entry, Kind};

/// The files and folders that are taken.
pub enum Asked {
    /// All that come.
    All,
    /// Files of these paths.
    Files(HashSet<OsString>),
    /// Those of these names with what is in them, and so many more, whose names the source alone knows.
    Trees(HashSet<OsString>, usize),
}

impl Asked {
    /// Whether an entry is one of those that are taken. `unnamed` are the names that the source alone knew, so far.
    pub fn takes(&self, entry: &Entry, unnamed: &mut HashSet<OsString>) -> bool {
        match self {
            Asked::All => true,
            Asked::Files(paths) => entry.kind == Kind::File && paths.contains(&entry.path),
            Asked::Trees(names, more) => {
                let first = entry.path.as_bytes().split(|byte| *byte == b'/').next().unwrap_or_default();
                let name = OsStr::from_bytes(first);
                let is_known = names.contains(name) || unnamed.contains(name);
                let is_another = !is_known && unnamed.len() < *more && first.first() != Some(&b'.');
                if is_another {
                    unnamed.insert(name.to_owned());
                }
                is_known || is_another
            }
        }
    }
}
