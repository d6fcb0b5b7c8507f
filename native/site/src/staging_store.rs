//! The store of staged files at a site: each lies there once under its hash, for all runs.
//!
//! Several runs use a store at the same time, so that only whole files get a name in it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use xmml_transfer::ranges::RANGE;
use xmml_transfer::tree::{Version, PART_SUFFIX};

use crate::files::{dated, sha256_of, with_path, FileError};
use crate::protocol::Text;
use crate::system::{hexadecimal, replace_file};

/// How long a staged file is kept that no run wants.
const KEPT: Duration = Duration::from_secs(14 * 86400);
/// The folder in the store that says, for the path of a file in its model, which version was wanted last.
const VERSIONS: &str = "versions";
/// The file in the store that says which of its files were found to be right: a line for each, with its hash and the numbers of its version.
const VERIFIED: &str = "verified";

/// The store, as one order sees it.
pub struct StagingStore {
    folder: PathBuf,
    /// The files whose hashes were found to be right, by these.
    verified: HashMap<String, Version>,
}

impl StagingStore {
    /// Returns the store in a folder, of whose files nothing is known.
    pub fn at(folder: PathBuf) -> StagingStore {
        StagingStore { folder, verified: HashMap::new() }
    }

    /// Opens the store in a folder, which is made if it is not there, with what runs have noted about its files.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(folder: PathBuf) -> Result<StagingStore, FileError> {
        let mut store = StagingStore::at(folder);
        let versions = store.versions();
        with_path(&versions, fs::DirBuilder::new().recursive(true).mode(0o700).create(&versions))?;
        store.verified = store.read_verified();
        Ok(store)
    }

    fn versions(&self) -> PathBuf {
        self.folder.join(VERSIONS)
    }

    /// Returns the path of a file.
    pub fn file(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }

    /// Moves what has come into the store. Only whole files get a name there: another run may be looking at it, or bring
    /// the same file.
    ///
    /// # Errors
    /// A file cannot be moved.
    pub fn take_incoming(&self, incoming: &Path) -> Result<(), FileError> {
        for entry in fs::read_dir(incoming).into_iter().flatten() {
            let path = with_path(incoming, entry)?.path();
            let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
            if name.ends_with(PART_SUFFIX) {
                let _ = fs::remove_file(&path); // of a launcher that was killed
            } else {
                with_path(&path, fs::rename(&path, self.file(name)))?;
            }
        }
        Ok(())
    }

    /// Returns whether the store holds a file as it should be; one that was damaged is removed.
    ///
    /// A file is hashed once, and again only if it has changed since, by whatever run.
    ///
    /// # Errors
    /// The file cannot be read, or not be removed.
    pub fn holds(&mut self, sha256: &str) -> Result<bool, FileError> {
        let path = self.file(sha256);
        let version = || with_path(&path, File::open(&path).and_then(|file| Version::of(&file)));
        let known = self.verified.get(sha256).copied();
        if known.is_none() || version().ok() != known {
            match sha256_of(&path)? {
                Some(found) if found == sha256 => {}
                Some(_) => return with_path(&path, fs::remove_file(&path)).map(|()| false),
                None => return Ok(false),
            }
        }
        with_path(&path, dated(&path, SystemTime::now()))?;
        self.verified.insert(sha256.to_owned(), version()?);
        Ok(true)
    }

    /// Returns what runs have noted about the files of the store; a line that is none is left out.
    fn read_verified(&self) -> HashMap<String, Version> {
        let text = fs::read_to_string(self.folder.join(VERIFIED)).unwrap_or_default();
        let read = |line: &str| {
            let (sha256, numbers) = line.split_once(' ')?;
            let numbers = numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<Vec<_>>>()?;
            Some((sha256.to_owned(), Version::from_numbers(numbers.try_into().ok()?)))
        };
        text.lines().filter_map(read).collect()
    }

    /// Notes which files of the store were found to be right, for the next order. Another run may do so at the same time; what of that is
    /// lost, or cannot be written, is hashed once more.
    pub fn note_verified(&self) {
        let line = |(sha256, version): (&String, &Version)| {
            let numbers = version.numbers().map(|number| number.to_string());
            format!("{sha256} {}\n", numbers.join(" "))
        };
        let text: String = self.verified.iter().filter(|(sha256, _)| self.file(sha256).exists()).map(line).collect();
        let _ = replace_file(&self.folder.join(VERIFIED), text.as_bytes());
    }

    /// Returns the file that says which version of a file was wanted last.
    fn version_note(&self, path: &Text) -> PathBuf {
        self.versions().join(hexadecimal(&Sha256::digest(path.0.as_bytes())))
    }

    /// Notes the version of a file that is wanted; another run may do so at the same time.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn note_version(&self, path: &Text, sha256: &str) -> Result<(), FileError> {
        let note = self.version_note(path);
        with_path(&note, replace_file(&note, sha256.as_bytes()))
    }

    /// Returns the last version of a file; `None` if there is none that is worth comparing.
    pub fn last_version(&self, path: &Text) -> Option<File> {
        let sha256 = fs::read_to_string(self.version_note(path)).ok()?;
        let file = File::open(self.file(&sha256)).ok()?;
        (file.metadata().ok()?.len() > RANGE as u64).then_some(file)
    }

    /// Removes what has not been wanted for a long time.
    pub fn forget_old(&self) {
        for folder in [&self.folder, &self.versions()] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let written = entry.metadata().and_then(|found| found.modified());
                let age = written.ok().and_then(|written| written.elapsed().ok());
                if age.is_some_and(|age| age > KEPT) {
                    let _ = fs::remove_file(entry.path()); // another run may have done it
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_store_is_hashed_once_for_all_runs_and_again_when_it_has_changed() {
        let folder = std::env::temp_dir().join(format!("xmml-verified-{}", std::process::id()));
        let open = || StagingStore::open(folder.clone()).unwrap();
        let mut store = open();
        let path = store.file("wrong");
        fs::write(&path, "content").unwrap();
        let right = sha256_of(&path).unwrap().unwrap();
        fs::copy(&path, store.file(&right)).unwrap();
        assert!(store.holds(&right).unwrap());
        // Under a hash that is not its own, it stays whole as long as nobody reads it.
        let known = Version::of(&File::open(&path).unwrap()).unwrap();
        store.verified = HashMap::from([("wrong".to_owned(), known), ("removed".to_owned(), known)]);
        store.note_verified();
        for _ in 0..2 {
            let mut store = open();
            assert_eq!(store.verified.keys().collect::<Vec<_>>(), ["wrong"]);
            assert!(store.holds("wrong").unwrap());
            store.note_verified(); // being used has made another version of it
        }
        fs::write(&path, "CONTENT").unwrap();
        assert!(!open().holds("wrong").unwrap());
        assert!(!path.exists());
        fs::write(folder.join(VERIFIED), "nonsense\nwrong 1 2\n").unwrap();
        assert!(open().verified.is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
