//! The files of a run or a job at a site: those that it reads are laid out, and those that it has made are listed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use xmml_transfer::listing::Origin;
use xmml_transfer::ranges::RANGE;
use xmml_transfer::report::Progress;
use xmml_transfer::source::Source;
use xmml_transfer::target::Target;
use xmml_transfer::tree::{Layout, Version, PART_SUFFIX};

use crate::protocol::Text;
use crate::system::{close, replace_file};

/// How long a staged file is kept that no run wants.
const KEPT: Duration = Duration::from_secs(14 * 86400);
const PIECE: usize = 1 << 20;
/// The folder in the store that says, for the path of a file in its model, which version was wanted last.
const VERSIONS: &str = "versions";
/// The file in the store that says which of its files were found to be right: a line for each, with its hash and the numbers of its version.
const VERIFIED: &str = "verified";
/// So many names of links that do not come are told.
const LINKS_NAMED: usize = 3;

/// What went wrong with a file, and which one that was.
pub type FileError = (PathBuf, io::Error);

/// Says which file it was.
pub fn with_path<T>(path: &Path, done: io::Result<T>) -> Result<T, FileError> {
    done.map_err(|error| (path.to_owned(), error))
}

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

/// The files of the store whose hashes were found to be right, by these.
type Verified = HashMap<String, Version>;

/// Lays files out from the store if that holds all of them; says which hashes are missing. Files that nobody has wanted
/// for a while leave the store.
///
/// Files of the store are hashed once, and again only if they have changed since, by whatever run.
///
/// # Errors
/// A file cannot be read or written.
pub fn stage(run: &Path, order: &Staging) -> Result<Missing, FileError> {
    let store = Path::new(&order.store.0);
    let versions = store.join(VERSIONS);
    with_path(&versions, fs::DirBuilder::new().recursive(true).mode(0o700).create(&versions))?;
    take_incoming(&run.join("incoming"), store)?;
    let mut verified = read_verified(store);
    let mut answer = Missing { missing: BTreeSet::new() };
    for (_, sha256, _, _) in &order.files {
        if answer.missing.contains(sha256) || !is_whole(&store.join(sha256), sha256, &mut verified)? {
            answer.missing.insert(sha256.clone());
        }
    }
    note_verified(store, &verified);
    if answer.missing.is_empty() {
        for (path, sha256, mode, written) in &order.files {
            let file = run.join(&order.folder.0).join(&path.0);
            if let Some(parent) = file.parent() {
                with_path(parent, fs::create_dir_all(parent))?;
            }
            note_version(store, path, sha256)?;
            if order.images.contains(path) && is_linked(&store.join(sha256), &file) {
                continue;
            }
            copy(&store.join(sha256), &file)?;
            let from_1970 = Duration::from_nanos(written.unsigned_abs());
            let written = match written {
                0.. => SystemTime::UNIX_EPOCH + from_1970,
                _ => SystemTime::UNIX_EPOCH - from_1970,
            };
            with_path(&file, dated(&file, written))?;
            with_path(&file, fs::set_permissions(&file, Permissions::from_mode(*mode)))?;
        }
        forget_old(store);
        forget_old(&versions);
    }
    Ok(answer)
}

/// Gives a file of the store another name, which costs no room; returns whether that could be done: not to another disk,
/// and not on one that knows no links.
fn is_linked(kept: &Path, file: &Path) -> bool {
    let _ = fs::remove_file(file); // there is none the first time
    fs::hard_link(kept, file).is_ok()
}

/// Moves what has come into the store. Only whole files get a name there: another run may be looking at it, or bring the
/// same file.
fn take_incoming(incoming: &Path, store: &Path) -> Result<(), FileError> {
    for entry in fs::read_dir(incoming).into_iter().flatten() {
        let path = with_path(incoming, entry)?.path();
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
        if name.ends_with(PART_SUFFIX) {
            let _ = fs::remove_file(&path); // of a launcher that was killed
        } else {
            with_path(&path, fs::rename(&path, store.join(name)))?;
        }
    }
    Ok(())
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
    let store = PathBuf::from(order.store.0);
    let paths: BTreeMap<_, _> =
        order.files.into_iter().map(|(path, sha256, _, _)| (OsString::from(sha256), path)).collect();
    Ok(target.based_on(Box::new(move |entry| last_version(&store, paths.get(&entry.path)?))))
}

/// Returns the file that says which version of a file was wanted last.
fn version_note(store: &Path, path: &Text) -> PathBuf {
    store.join(VERSIONS).join(hexadecimal(&Sha256::digest(path.0.as_bytes())))
}

/// Notes the version of a file that is wanted; another run may do so at the same time.
fn note_version(store: &Path, path: &Text, sha256: &str) -> Result<(), FileError> {
    let note = version_note(store, path);
    with_path(&note, replace_file(&note, sha256.as_bytes()))
}

/// Returns the last version of a file; `None` if there is none that is worth comparing.
fn last_version(store: &Path, path: &Text) -> Option<File> {
    let sha256 = fs::read_to_string(version_note(store, path)).ok()?;
    let file = File::open(store.join(sha256)).ok()?;
    (file.metadata().ok()?.len() > RANGE as u64).then_some(file)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn dated(file: &Path, written: SystemTime) -> io::Result<()> {
    File::open(file)?.set_times(FileTimes::new().set_accessed(written).set_modified(written))
}

/// Returns the hash of a file; `None` if it is not there.
fn sha256_of(path: &Path) -> Result<Option<String>, FileError> {
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

/// Returns what runs have noted about the files of the store; a line that is none is left out.
fn read_verified(store: &Path) -> Verified {
    let text = fs::read_to_string(store.join(VERIFIED)).unwrap_or_default();
    let read = |line: &str| {
        let (sha256, numbers) = line.split_once(' ')?;
        let numbers = numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<Vec<_>>>()?;
        Some((sha256.to_owned(), Version::from_numbers(numbers.try_into().ok()?)))
    };
    text.lines().filter_map(read).collect()
}

/// Notes which files of the store were found to be right, for the next order. Another run may do so at the same time; what of that is lost,
/// or cannot be written, is hashed once more.
fn note_verified(store: &Path, verified: &Verified) {
    let line = |(sha256, version): (&String, &Version)| {
        let numbers = version.numbers().map(|number| number.to_string());
        format!("{sha256} {}\n", numbers.join(" "))
    };
    let text: String = verified.iter().filter(|(sha256, _)| store.join(sha256).exists()).map(line).collect();
    let _ = replace_file(&store.join(VERIFIED), text.as_bytes());
}

/// Returns whether the store holds a file as it should be; one that was damaged is removed.
fn is_whole(path: &Path, sha256: &str, verified: &mut Verified) -> Result<bool, FileError> {
    let version = || with_path(path, File::open(path).and_then(|file| Version::of(&file)));
    let known = verified.get(sha256).copied();
    if known.is_none() || version().ok() != known {
        match sha256_of(path)? {
            Some(found) if found == sha256 => {}
            Some(_) => return with_path(path, fs::remove_file(path)).map(|()| false),
            None => return Ok(false),
        }
    }
    with_path(path, dated(path, SystemTime::now()))?;
    verified.insert(sha256.to_owned(), version()?);
    Ok(true)
}

/// Removes what has not been wanted for a long time.
fn forget_old(store: &Path) {
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        let written = entry.metadata().and_then(|found| found.modified());
        let age = written.ok().and_then(|written| written.elapsed().ok());
        if age.is_some_and(|age| age > KEPT) {
            let _ = fs::remove_file(entry.path()); // another run may have done it
        }
    }
}

/// The logs and results that are asked for.
#[derive(Deserialize)]
pub struct Wanted {
    /// Files, relative to the run's folder.
    files: Vec<Text>,
    /// Folders of instances, each with the patterns of its results; without patterns, all that was left.
    folders: BTreeMap<Text, Vec<Text>>,
    /// What a working folder without patterns may hold.
    most_bytes: u64,
    /// Symbolic links in folders are followed, and files come as copies of what they lead to.
    #[serde(default)]
    follow_links: bool,
}

/// What is there.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Paths relative to the run's folder.
    found: BTreeSet<Text>,
    /// How large these files are together.
    bytes: u64,
    /// The working folders that hold too much.
    too_large: Vec<Text>,
    /// Results that are not there: the folder of the instance, and the name, which has no wildcards.
    not_there: Vec<(Text, Text)>,
    /// How many symbolic links do not come, because no pattern names them or they lead to nothing.
    links: usize,
    /// The first of them.
    first_links: Vec<Text>,
}

impl Results {
    /// Returns the end that gives them.
    pub fn source(&self, run: &Path) -> Source {
        let origin = |path: &Text| Origin { file: run.join(&path.0), name: Some(path.0.clone()) };
        Source::new(self.found.iter().map(origin).collect()).of_growing_files()
    }
}

/// Lists the files asked for that are there, and logs and results in folders. What cannot be looked at is left out.
///
/// `progress` grows with every entry of a folder: a large one on a slow file system takes minutes.
pub fn list_results(run: &Path, wanted: &Wanted, progress: &Progress) -> Results {
    let mut found: Vec<PathBuf> =
        wanted.files.iter().map(|file| run.join(&file.0)).filter(|file| file.is_file()).collect();
    let (mut too_large, mut not_there, mut links) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (folder, patterns) in &wanted.folders {
        let top = run.join(&folder.0);
        found.extend(["stdout", "stderr"].iter().map(|name| top.join(name)).filter(|file| file.is_file()));
        let work = top.join("work");
        if patterns.is_empty() {
            let below = Below::of(&work, wanted.follow_links, progress);
            if size_of(&below.files, progress) <= wanted.most_bytes {
                found.extend(below.files);
                links.extend(below.links);
            } else {
                too_large.push(relative(&work, run));
            }
        }
        for pattern in patterns {
            let named = matches(&work, &pattern.0, progress);
            if named.is_empty() && !has_wildcards(&pattern.0) {
                not_there.push((folder.clone(), pattern.clone()));
            }
            for path in named {
                let below = Below::of(&path, wanted.follow_links, progress);
                let in_folder = |path: &PathBuf| Some(plain(path)).filter(|path| path.starts_with(&top));
                found.extend(below.files.iter().filter_map(in_folder));
                links.extend(below.links.iter().filter_map(in_folder));
            }
        }
    }
    let bytes = size_of(&found, progress);
    let found: BTreeSet<_> = found.iter().map(|path| relative(path, run)).collect();
    // Another pattern may name a link itself, or come through one to the files in a folder.
    let leads_to_found = |link: &Text| {
        let inside = Text(Path::new(&link.0).join("").into());
        found.contains(link) || found.range(inside..).next().is_some_and(|path| Path::new(&path.0).starts_with(&link.0))
    };
    let links: Vec<_> = links.iter().map(|path| relative(path, run)).filter(|link| !leads_to_found(link)).collect();
    let (count, first_links) = (links.len(), links.into_iter().take(LINKS_NAMED).collect());
    Results { found, bytes, too_large, not_there, links: count, first_links }
}

fn size_of(files: &[PathBuf], progress: &Progress) -> u64 {
    let size = |file: &PathBuf| {
        progress.compare(1);
        fs::metadata(file).map_or(0, |found| found.len())
    };
    files.iter().map(size).sum()
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn relative(path: &Path, run: &Path) -> Text {
    Text(path.strip_prefix(run).unwrap_or(path).as_os_str().to_owned())
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

/// What is in a folder, at any depth.
#[derive(Default)]
struct Below {
    files: Vec<PathBuf>,
    /// Symbolic links that are not followed, or lead to nothing.
    links: Vec<PathBuf>,
}

impl Below {
    /// Lists a folder. A file, or a link to one, is listed itself; so is a link that leads to nothing, as a link.
    fn of(path: &Path, follow_links: bool, progress: &Progress) -> Below {
        let mut below = Below::default();
        if follow_links {
            below.follow(path, &mut Above::default(), progress);
            return below;
        }
        if path.is_file() {
            below.files.push(path.to_owned());
        } else if path.is_symlink() && !path.exists() {
            below.links.push(path.to_owned());
        }
        let mut folders = if path.is_dir() { vec![path.to_owned()] } else { Vec::new() };
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue }; // it is not there, or went meanwhile
            for entry in entries.flatten() {
                progress.compare(1);
                let Ok(kind) = entry.file_type() else { continue }; // as above
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    below.files.push(entry.path());
                } else if kind.is_symlink() {
                    below.links.push(entry.path());
                }
            }
        }
        below
    }

    /// Adds a file, or what is in a folder, also behind links.
    fn follow(&mut self, path: &Path, above: &mut Above, progress: &Progress) {
        if path.is_file() {
            self.files.push(path.to_owned());
        } else if path.is_symlink() && !path.exists() {
            self.links.push(path.to_owned());
        } else if path.is_dir() && above.enter(path) {
            for (inner, _) in entries_of(path, progress) {
                self.follow(&inner, above, progress);
            }
            above.leave();
        }
    }
}

/// Copies a file and its permissions; says of which of the two files it could not be done.
fn copy(source: &Path, target: &Path) -> Result<(), FileError> {
    // Whoever opens a named pipe otherwise waits until somebody writes to it.
    let plain = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(source);
    let mut from = with_path(source, plain)?;
    let found = with_path(source, from.metadata())?;
    if !found.is_file() {
        return with_path(source, Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file that can be copied")));
    }
    let mode = found.permissions().mode();
    let options = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(target);
    let mut to = with_path(target, options)?;
    with_path(target, io::copy(&mut from, &mut to))?;
    with_path(target, to.set_permissions(found.permissions()).and_then(|()| close(to)))
}

/// Copies a file, or a folder with all that is in it and that links in it lead to, into a folder.
///
/// # Errors
/// Something cannot be read or written.
pub fn copy_into(source: &Path, folder: &Path) -> Result<(), FileError> {
    copy_below(source, folder, &mut Above::default())
}

fn copy_below(source: &Path, folder: &Path, above: &mut Above) -> Result<(), FileError> {
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

/// The folders above a place, by device and number: a link that leads back up to one of them is not followed.
#[derive(Default)]
struct Above(Vec<(u64, u64)>);

impl Above {
    /// Goes into a folder; returns false if a link has led back up to it.
    fn enter(&mut self, folder: &Path) -> bool {
        let Ok(found) = fs::metadata(folder) else { return false }; // it went meanwhile
        let identity = (found.dev(), found.ino());
        let is_new = !self.0.contains(&identity);
        if is_new {
            self.0.push(identity);
        }
        is_new
    }

    fn leave(&mut self) {
        self.0.pop();
    }
}

/// Returns what a pattern names below a folder, as a shell does: `*`, `?` and `[...]` stand for parts of a name, `**` for
/// any folders on the way. Only a pattern that begins with a dot names what does.
pub fn matches(folder: &Path, pattern: &OsStr, progress: &Progress) -> Vec<PathBuf> {
    let mut found = BTreeSet::from([folder.to_owned()]);
    for part in Path::new(pattern) {
        // `**` finds a folder on several ways.
        found = found.iter().flat_map(|path| below(path, part, progress)).collect();
    }
    found.into_iter().collect()
}

fn below(path: &Path, part: &OsStr, progress: &Progress) -> Vec<PathBuf> {
    let bytes = part.as_bytes();
    if bytes == b"**" {
        let mut found = Vec::new();
        all_below(path, &mut Above::default(), progress, &mut found);
        return found;
    }
    if !has_wildcards(part) {
        let named = path.join(part);
        return if named.symlink_metadata().is_ok() { vec![named] } else { Vec::new() };
    }
    let pattern = characters(part);
    let is_named = |name: &OsString| (!is_hidden(name) || bytes[0] == b'.') && is_match(&pattern, &characters(name));
    entries_of(path, progress).into_iter().filter(|(_, name)| is_named(name)).map(|(inner, _)| inner).collect()
}

/// Finds a path and all below it that is not hidden.
fn all_below(path: &Path, above: &mut Above, progress: &Progress, found: &mut Vec<PathBuf>) {
    let is_folder = path.is_dir();
    if is_folder && !above.enter(path) {
        return;
    }
    found.push(path.to_owned());
    if is_folder {
        for (inner, _) in entries_of(path, progress).into_iter().filter(|(_, name)| !is_hidden(name)) {
            all_below(&inner, above, progress, found);
        }
        above.leave();
    }
}

fn has_wildcards(pattern: &OsStr) -> bool {
    pattern.as_bytes().iter().any(|byte| b"*?[".contains(byte))
}

fn entries_of(folder: &Path, progress: &Progress) -> Vec<(PathBuf, OsString)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.inspect(|_| progress.compare(1)).map(|entry| (entry.path(), entry.file_name())).collect()
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.')
}

/// Returns the characters of a name; a byte that belongs to none is one, too, as Python has it.
fn characters(name: &OsStr) -> Vec<u32> {
    let in_chunk = |chunk: std::str::Utf8Chunk| {
        let others = chunk.invalid().iter().map(|byte| 0xDC00 + u32::from(*byte));
        chunk.valid().chars().map(u32::from).chain(others).collect::<Vec<_>>()
    };
    name.as_bytes().utf8_chunks().flat_map(in_chunk).collect()
}

const ANY_TEXT: u32 = '*' as u32;
const ANY: u32 = '?' as u32;
const CLASS: u32 = '[' as u32;
const CLASS_END: u32 = ']' as u32;
const NOT: u32 = '!' as u32;
const TO: u32 = '-' as u32;

fn is_match<'a>(mut pattern: &'a [u32], mut name: &'a [u32]) -> bool {
    // What follows the last `*`, and the text from which on it has been tried: an earlier `*` need not be tried again.
    let mut last = None;
    loop {
        if let [ANY_TEXT, rest @ ..] = pattern {
            last = Some((rest, name));
            pattern = rest;
        } else if let Some(rest) = after_one(pattern, name) {
            (pattern, name) = rest;
        } else if pattern.is_empty() && name.is_empty() {
            return true;
        } else {
            let Some((rest, [_, later @ ..])) = last else { return false };
            last = Some((rest, later));
            (pattern, name) = (rest, later);
        }
    }
}

/// Returns what is left of a pattern and a name if the pattern begins with what stands for their first character.
fn after_one<'a>(pattern: &'a [u32], name: &'a [u32]) -> Option<(&'a [u32], &'a [u32])> {
    let [character, after @ ..] = name else { return None };
    match pattern {
        [ANY, rest @ ..] => Some((rest, after)),
        [CLASS, ..] => match class(pattern, *character) {
            Some((is_in, rest)) => is_in.then_some((rest, after)),
            None => (*character == CLASS).then_some((&pattern[1..], after)),
        },
        [wanted, rest @ ..] => (wanted == character).then_some((rest, after)),
        [] => None,
    }
}

/// Returns whether a class of a pattern, `[abc]`, `[a-z]` or `[!abc]`, holds a character, and the pattern behind it; `None`
/// if it does not end.
fn class(pattern: &[u32], character: u32) -> Option<(bool, &[u32])> {
    let is_negated = pattern.get(1) == Some(&NOT);
    let begin = if is_negated { 2 } else { 1 };
    // The first may be a closing bracket itself.
    let end = begin + 1 + pattern.get(begin + 1..)?.iter().position(|character| *character == CLASS_END)?;
    let mut members = &pattern[begin..end];
    let mut is_in = false;
    loop {
        members = match members {
            [first, TO, last, rest @ ..] => {
                is_in |= (*first..=*last).contains(&character);
                rest
            }
            [first, rest @ ..] => {
                is_in |= *first == character;
                rest
            }
            [] => return Some((is_in != is_negated, &pattern[end + 1..])),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_that_lead_back_up_are_neither_searched_nor_copied() {
        let folder = std::env::temp_dir().join(format!("xmml-loops-{}", std::process::id()));
        fs::create_dir_all(folder.join("data/deep")).unwrap();
        fs::create_dir_all(folder.join("to")).unwrap();
        fs::write(folder.join("data/deep/a.csv"), "a").unwrap();
        for name in ["up", "upper", "uppermost"] {
            symlink("..", folder.join("data/deep").join(name)).unwrap();
        }
        symlink("deep", folder.join("data/other")).unwrap();
        let named = |pattern: &str| matches(&folder, OsStr::new(pattern), &Progress::default());
        assert_eq!(named("data/**/*.csv"), ["deep", "other"].map(|name| folder.join("data").join(name).join("a.csv")));
        copy_into(&folder.join("data"), &folder.join("to")).unwrap();
        assert_eq!(named("to/**").len(), 6);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_match_patterns_as_in_a_shell() {
        let cases: [(&str, &str, bool); 19] = [
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("?.csv", "ab.csv", false),
            ("a*b*c", "a_b_b_c", true),
            ("[ab].txt", "b.txt", true),
            ("[!ab].txt", "b.txt", false),
            ("[a-c]1", "b1", true),
            ("[]]", "]", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("**x", "yx", true),
            ("", "a", false),
            ("r?sum?.csv", "résumé.csv", true),
            ("[à-ý].csv", "é.csv", true),
            ("[!a].csv", "é.csv", true),
            ("[è].csv", "é.csv", false),
            ("*ab*ab", "ab_aab", true),
            ("*ab*abc", "ab_aab", false),
            ("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", &"a".repeat(200), false),
        ];
        for (pattern, name, expected) in cases {
            let is_named = is_match(&characters(OsStr::new(pattern)), &characters(OsStr::new(name)));
            assert_eq!(is_named, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_byte_that_is_no_character_is_matched_as_one() {
        let name = characters(OsStr::from_bytes(b"\xe9\xe8.csv"));
        assert!(is_match(&characters(OsStr::new("??.csv")), &name));
        assert!(is_match(&characters(OsStr::from_bytes(b"[\xe9]*.csv")), &name));
    }

    #[test]
    fn a_file_of_the_store_is_hashed_once_for_all_runs_and_again_when_it_has_changed() {
        let store = std::env::temp_dir().join(format!("xmml-verified-{}", std::process::id()));
        fs::create_dir_all(&store).unwrap();
        let path = store.join("wrong");
        fs::write(&path, "content").unwrap();
        let right = sha256_of(&path).unwrap().unwrap();
        let mut verified = Verified::new();
        assert!(is_whole(&path, &right, &mut verified).unwrap());
        // Under a hash that is not its own, it stays whole as long as nobody reads it.
        let known = verified[&right];
        note_verified(&store, &Verified::from([("wrong".to_owned(), known), ("removed".to_owned(), known)]));
        for _ in 0..2 {
            let mut verified = read_verified(&store);
            assert_eq!(verified.keys().collect::<Vec<_>>(), ["wrong"]);
            assert!(is_whole(&path, "wrong", &mut verified).unwrap());
            note_verified(&store, &verified); // being used has made another version of it
        }
        fs::write(&path, "CONTENT").unwrap();
        assert!(!is_whole(&path, "wrong", &mut read_verified(&store)).unwrap());
        assert!(!path.exists());
        fs::write(store.join(VERIFIED), "nonsense\nwrong 1 2\n").unwrap();
        assert!(read_verified(&store).is_empty());
        fs::remove_dir_all(&store).unwrap();
    }

    /// What is listed in the working folder of an instance, for patterns of results, and how much progress that was.
    fn listed(work: &Path, patterns: &[&str], follow_links: bool) -> (Results, u64) {
        let (run, progress) = (work.parent().unwrap().parent().unwrap(), Progress::default());
        let text = |text: &str| Text(text.into());
        let folders = BTreeMap::from([(text("a"), patterns.iter().map(|pattern| text(pattern)).collect())]);
        let wanted = Wanted { files: Vec::new(), folders, most_bytes: u64::MAX, follow_links };
        (list_results(run, &wanted, &progress), progress.compared())
    }

    #[test]
    fn links_are_followed_where_that_is_asked_for_but_not_back_up() {
        let run = std::env::temp_dir().join(format!("xmml-followed-{}", std::process::id()));
        let work = run.join("a/work");
        fs::create_dir_all(work.join("tree/deep")).unwrap();
        for file in ["tree/.hidden", "tree/deep/leaf"] {
            fs::write(work.join(file), "").unwrap();
        }
        for (link, to) in [("last", "tree"), ("tree/one", "deep/leaf"), ("tree/deep/up", ".."), ("tree/none", "none")] {
            symlink(to, work.join(link)).unwrap();
        }
        let found = |pattern: &str, follow_links: bool| {
            let (results, _) = listed(&work, &[pattern], follow_links);
            let names: Vec<_> = results.found.iter().map(|path| path.shown().into_owned()).collect();
            (names, results.links)
        };
        let below = |top: &str, names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("a/work/{top}/{name}")).collect()
        };
        assert_eq!(found("tree", false), (below("tree", &[".hidden", "deep/leaf"]), 3));
        assert_eq!(found("tree", true), (below("tree", &[".hidden", "deep/leaf", "one"]), 1));
        assert_eq!(found("last", true), (below("last", &[".hidden", "deep/leaf", "one"]), 1));
        fs::remove_dir_all(&run).unwrap();
    }

    #[test]
    fn links_that_no_pattern_names_are_counted_and_the_first_of_them_named() {
        let run = std::env::temp_dir().join(format!("xmml-links-{}", std::process::id()));
        let work = run.join("a/work");
        fs::create_dir_all(work.join("in")).unwrap();
        for file in ["result", "in/result"] {
            fs::write(work.join(file), "").unwrap();
        }
        for link in ["last", "in/one", "in/two", "in/three"] {
            std::os::unix::fs::symlink("result", work.join(link)).unwrap();
        }
        std::os::unix::fs::symlink("in", work.join("folder")).unwrap();
        std::os::unix::fs::symlink("nothing", work.join("nowhere")).unwrap();
        let cases: [(&[&str], usize, &[&str]); 6] = [
            (&[], 6, &["a/work/folder", "a/work/in/one", "a/work/in/three"]),
            (&["last", "in"], 3, &["a/work/in/one", "a/work/in/three", "a/work/in/two"]),
            (&["in", "in/t*"], 1, &["a/work/in/one"]),
            (&["folder", "last"], 3, &["a/work/folder/one", "a/work/folder/three", "a/work/folder/two"]),
            (&["nowhere"], 1, &["a/work/nowhere"]),
            (&["result", "last"], 0, &[]),
        ];
        for (patterns, links, first) in cases {
            let (results, _) = listed(&work, patterns, false);
            let named: Vec<_> = results.first_links.iter().map(|link| link.shown().into_owned()).collect();
            assert_eq!(
                (results.links, named),
                (links, first.iter().map(|&name| name.to_owned()).collect()),
                "{patterns:?}"
            );
        }
        fs::remove_dir_all(&run).unwrap();
    }

    #[test]
    fn each_entry_of_a_folder_that_is_listed_is_progress() {
        let run = std::env::temp_dir().join(format!("xmml-progress-{}", std::process::id()));
        let work = run.join("a/work");
        fs::create_dir_all(work.join("in")).unwrap();
        for number in 0..100 {
            fs::write(work.join(format!("in/{number}")), "").unwrap();
        }
        for patterns in [&[][..], &["in"], &["in/*"], &["**"]] {
            let (_, progress) = listed(&work, patterns, false);
            assert!(progress >= 200, "{patterns:?}: {progress}"); // each entry, and its size
        }
        fs::remove_dir_all(&run).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_not_its_copy() {
        let folder = std::env::temp_dir().join(format!("xmml-copies-{}", std::process::id()));
        fs::create_dir_all(folder.join("in")).unwrap();
        fs::create_dir_all(folder.join("out")).unwrap();
        let link = folder.join("in/link");
        std::os::unix::fs::symlink("nothing", &link).unwrap();
        let (named, error) = copy_into(&link, &folder.join("out")).unwrap_err();
        assert_eq!((named, error.kind()), (link, io::ErrorKind::NotFound));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn patterns_name_files_on_any_depth_but_not_what_is_hidden() {
        let folder = std::env::temp_dir().join(format!("xmml-patterns-{}", std::process::id()));
        for file in ["a.csv", "in/b.csv", "in/deep/c.csv", "in/.d.csv", ".git/e.csv", "in/f.txt"] {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
        }
        let found = |pattern: &str| -> Vec<String> {
            let paths = matches(&folder, OsStr::new(pattern), &Progress::default());
            paths.iter().map(|path| relative(path, &folder).shown().into_owned()).collect()
        };
        assert_eq!(found("**/*.csv"), ["a.csv", "in/b.csv", "in/deep/c.csv"]);
        assert_eq!(found("in/*.csv"), ["in/b.csv"]);
        assert_eq!(found("in/.*.csv"), ["in/.d.csv"]);
        assert_eq!(found("in"), ["in"]);
        assert_eq!(found("*/deep/*"), ["in/deep/c.csv"]);
        assert_eq!(found("nothing"), Vec::<String>::new());
        assert_eq!(found("**/deep/**"), ["in/deep", "in/deep/c.csv"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
