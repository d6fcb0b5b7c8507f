//! Staging at a site: the files that a run or a job reads are laid out from the store, once that holds them all.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use xmml_transfer::target::Target;
use xmml_transfer::tree::Layout;

use crate::files::{copy, dated, with_path, FileError};
use crate::protocol::Text;
use crate::staging_store::StagingStore;

/// Files to be laid out in the folder of a run or a job.
#[derive(Deserialize)]
pub struct Staging {
    /// The folder that keeps staged files under their hashes.
    store: Text,
    /// The folder into which they are laid out, relative to that of the run.
    folder: Text,
    /// Path in that folder, hash, permissions, and when it was last written [ns since 1970, or before].
    files: Vec<(Text, String, u32, i64)>,
    /// Paths of files that no program writes to: they are not copied from the store.
    #[serde(default)]
    images: Vec<Text>,
}

/// What is missing in the store.
#[derive(Debug, Serialize)]
pub struct Missing {
    /// The hashes of files.
    missing: BTreeSet<String>,
}

impl Missing {
    /// Returns whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Lays files out from the store if that holds all of them; says which hashes are missing. Files that nobody has wanted
/// for a while leave the store.
///
/// # Errors
/// A file cannot be read or written.
pub fn stage(run: &Path, order: &Staging) -> Result<Missing, FileError> {
    let mut store = StagingStore::open(PathBuf::from(&order.store.0))?;
    store.take_incoming(&run.join("incoming"))?;
    let mut answer = Missing { missing: BTreeSet::new() };
    for (_, sha256, _, _) in &order.files {
        if answer.missing.contains(sha256) || !store.holds(sha256)? {
            answer.missing.insert(sha256.clone());
        }
    }
    store.note_verified();
    if answer.missing.is_empty() {
        for (path, sha256, mode, written) in &order.files {
            let file = run.join(&order.folder.0).join(&path.0);
            if let Some(parent) = file.parent() {
                with_path(parent, fs::create_dir_all(parent))?;
            }
            store.note_version(path, sha256)?;
            let kept = store.file(sha256);
            if order.images.contains(path) && is_linked(&kept, &file) {
                continue;
            }
            copy(&kept, &file)?;
            let from_1970 = Duration::from_nanos(written.unsigned_abs());
            let written = match written {
                0.. => SystemTime::UNIX_EPOCH + from_1970,
                _ => SystemTime::UNIX_EPOCH - from_1970,
            };
            with_path(&file, dated(&file, written))?;
            with_path(&file, fs::set_permissions(&file, Permissions::from_mode(*mode)))?;
        }
        store.forget_old();
    }
    Ok(answer)
}

/// Gives a file of the store another name, which costs no room; returns whether that could be done: not to another disk,
/// and not on one that knows no links.
fn is_linked(kept: &Path, file: &Path) -> bool {
    let _ = fs::remove_file(file); // there is none the first time
    fs::hard_link(kept, file).is_ok()
}

/// Returns the end of a copy that takes missing files into `incoming/`, from where `stage` moves them into the store. Of a
/// file of which the store has an earlier version, it takes what has changed.
///
/// # Errors
/// The folder for them cannot be made.
pub fn taking(run: &Path, order: Staging) -> Result<Target, FileError> {
    let base = run.join("incoming");
    // Not with what is above it: the folder of a run that was interrupted may just have been removed.
    match fs::DirBuilder::new().mode(0o700).create(&base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !base.is_dir() => return Err((base, error)),
        _ => {}
    }
    let target = with_path(&base, Target::new(Layout { base: base.clone(), name: None }, false))?;
    let store = StagingStore::at(PathBuf::from(order.store.0));
    let paths: BTreeMap<_, _> =
        order.files.into_iter().map(|(path, sha256, _, _)| (OsString::from(sha256), path)).collect();
    Ok(target.based_on(Box::new(move |entry| store.last_version(paths.get(&entry.path)?))))
}
