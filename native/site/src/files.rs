//! Copies and hashes of files, and errors that name the file.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::folder_walk::FoldersAbove;
use crate::system::{close, hexadecimal};

const PIECE: usize = 1 << 20;

/// What went wrong with a file, and which one that was.
pub type FileError = (PathBuf, io::Error);

/// Says which file it was.
pub fn with_path<T>(path: &Path, done: io::Result<T>) -> Result<T, FileError> {
    done.map_err(|error| (path.to_owned(), error))
}

/// Sets when a file was read and written last.
///
/// # Errors
/// The system refuses.
pub fn dated(file: &Path, written: SystemTime) -> io::Result<()> {
    File::open(file)?.set_times(FileTimes::new().set_accessed(written).set_modified(written))
}

/// Returns the hash of a file; `None` if it is not there.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_of(path: &Path) -> Result<Option<String>, FileError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err((path.to_owned(), error)),
    };
    let mut digest = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        match with_path(path, file.read(&mut piece))? {
            0 => break,
            count => digest.update(&piece[..count]),
        }
    }
    Ok(Some(hexadecimal(&digest.finalize())))
}

/// Programs of the model.
#[derive(Deserialize)]
pub struct Programs {
    /// Their paths in its folder.
    files: Vec<String>,
}

/// Returns the hashes of programs, by their paths; `None` for one that is not there.
///
/// # Errors
/// One cannot be read.
pub fn hash_programs(run: &Path, programs: &Programs) -> Result<BTreeMap<String, Option<String>>, FileError> {
    let model = run.join("model");
    programs.files.iter().map(|path| Ok((path.clone(), sha256_of(&model.join(path))?))).collect()
}

/// Copies a file and its permissions; says of which of the two files it could not be done. What is there under the name of the copy gives way
/// and stays as it is: it may be the same file as one of the staging store, or one that nobody may write to.
///
/// # Errors
/// One of them cannot be read or written.
pub fn copy(source: &Path, target: &Path) -> Result<(), FileError> {
    // Whoever opens a named pipe otherwise waits until somebody writes to it.
    let plain = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(source);
    let mut from = with_path(source, plain)?;
    let found = with_path(source, from.metadata())?;
    if !found.is_file() {
        return with_path(source, Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file that can be copied")));
    }
    let mode = found.permissions().mode();
    match fs::remove_file(target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return with_path(target, Err(error)),
        _ => {}
    }
    let mut to = with_path(target, OpenOptions::new().write(true).create_new(true).mode(mode).open(target))?;
    with_path(target, io::copy(&mut from, &mut to))?;
    with_path(target, to.set_permissions(found.permissions()).and_then(|()| close(to)))
}

/// Copies a file, or a folder with all that is in it and that links in it lead to, into a folder.
///
/// # Errors
/// Something cannot be read or written.
pub fn copy_into(source: &Path, folder: &Path) -> Result<(), FileError> {
    copy_below(source, folder, &mut FoldersAbove::default())
}

fn copy_below(source: &Path, folder: &Path, above: &mut FoldersAbove) -> Result<(), FileError> {
    let target = folder.join(source.file_name().unwrap_or_default());
    if !source.is_dir() {
        copy(source, &target)?;
        let written = with_path(source, fs::metadata(source).and_then(|found| found.modified()))?;
        // Only its owner may say when it was written: a copy of a file that cannot be written, for one.
        return with_path(&target, dated(&target, written));
    }
    if !above.enter(source) {
        return Ok(());
    }
    with_path(&target, fs::create_dir_all(&target))?;
    for entry in with_path(source, fs::read_dir(source))? {
        copy_below(&with_path(source, entry)?.path(), &target, above)?;
    }
    above.leave();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_that_lead_back_up_are_not_copied() {
        let folder = std::env::temp_dir().join(format!("xmml-copied-loops-{}", std::process::id()));
        fs::create_dir_all(folder.join("data/deep")).unwrap();
        fs::create_dir_all(folder.join("to")).unwrap();
        fs::write(folder.join("data/deep/a.csv"), "a").unwrap();
        for name in ["up", "upper", "uppermost"] {
            symlink("..", folder.join("data/deep").join(name)).unwrap();
        }
        symlink("deep", folder.join("data/other")).unwrap();
        copy_into(&folder.join("data"), &folder.join("to")).unwrap();
        let copied = |path: &str| folder.join("to/data").join(path).exists();
        let paths = ["deep/a.csv", "other/a.csv", "deep/up", "deep/upper", "other/uppermost"];
        assert_eq!(paths.map(copied), [true, true, false, false, false]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_copy_takes_the_place_of_another_file_and_leaves_its_content() {
        let folder = std::env::temp_dir().join(format!("xmml-copies-over-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [kept, new, target] = ["kept", "new", "target"].map(|name| folder.join(name));
        fs::write(&kept, "kept").unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o444)).unwrap();
        fs::write(&new, "new").unwrap();
        fs::hard_link(&kept, &target).unwrap();
        copy(&new, &target).unwrap();
        assert_eq!([&kept, &target].map(|path| fs::read_to_string(path).unwrap()), ["kept", "new"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_not_its_copy() {
        let folder = std::env::temp_dir().join(format!("xmml-copies-{}", std::process::id()));
        fs::create_dir_all(folder.join("in")).unwrap();
        fs::create_dir_all(folder.join("out")).unwrap();
        let link = folder.join("in/link");
        symlink("nothing", &link).unwrap();
        let (named, error) = copy_into(&link, &folder.join("out")).unwrap_err();
        assert_eq!((named, error.kind()), (link, io::ErrorKind::NotFound));
        fs::remove_dir_all(&folder).unwrap();
    }
}
