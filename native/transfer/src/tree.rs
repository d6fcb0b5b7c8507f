//! The folder that is copied to: nothing that the other end names is ever looked for outside of it.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::listing::{nanoseconds, Entry, LONGEST_PATH};

/// Ends the provisional name of a file.
pub const PART_SUFFIX: &str = ".xmml-part";
/// Bytes of an earlier version that are copied at a time.
const COPIED: u64 = 64 << 20;
const LONGEST_NAME: usize = 255;
const OPEN_FOLDERS: usize = 32;
const PERMISSIONS: u32 = 0o777;
/// How long a file is waited for that another copy writes: mostly one that is about to end.
pub(crate) const LOCK_LIMIT: Duration = Duration::from_secs(10);
pub(crate) const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Where entries go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The folder that they go into.
    pub base: PathBuf,
    /// What the first part of their paths becomes, if not what it is.
    pub name: Option<OsString>,
}

impl Layout {
    /// Where the entry of this path goes, below the base.
    fn of(&self, path: &OsStr) -> OsString {
        let Some(name) = &self.name else { return path.to_owned() };
        let mut whole = path.as_bytes().to_vec();
        let end = whole.iter().position(|byte| *byte == b'/').unwrap_or(whole.len());
        whole.splice(..end, name.as_bytes().iter().copied());
        OsString::from_vec(whole)
    }
}

/// The folder of a path, empty if it is the base, and the name in it.
fn divided(path: &OsStr) -> (&OsStr, &OsStr) {
    let bytes = path.as_bytes();
    match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (OsStr::from_bytes(&bytes[..slash]), OsStr::from_bytes(&bytes[slash + 1..])),
        None => (OsStr::new(""), path),
    }
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    mode: u32,
    inode: u64,
    /// Bytes.
    pub size: u64,
    /// When it was last written [ns since 1970].
    pub modified_ns: i64,
}

impl Status {
    fn is(self, kind: libc::mode_t) -> bool {
        self.mode & libc::S_IFMT == kind
    }

    /// Whether it is a file, and no link to one.
    pub fn is_file(self) -> bool {
        self.is(libc::S_IFREG)
    }

    fn is_folder(self) -> bool {
        self.is(libc::S_IFDIR)
    }

    /// Refuses to put a file or link in the place of a folder.
    ///
    /// # Errors
    /// It is a folder.
    pub fn refuse_folder(self) -> io::Result<()> {
        match self.is_folder() {
            true => Err(io::Error::new(io::ErrorKind::IsADirectory, "a folder has this name at the target")),
            false => Ok(()),
        }
    }
}

/// Tells whether a file is another one, or has been written to, since it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i64,
    changed_ns: i64,
}

impl Version {
    /// The numbers that it consists of, to be noted.
    pub fn numbers(&self) -> [i64; 5] {
        [self.device as i64, self.inode as i64, self.size as i64, self.modified_ns, self.changed_ns]
    }

    /// The version that consists of these [numbers](Version::numbers).
    pub fn from_numbers([device, inode, size, modified_ns, changed_ns]: [i64; 5]) -> Version {
        Version { device: device as u64, inode: inode as u64, size: size as u64, modified_ns, changed_ns }
    }

    /// The version that a file has now.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn of(file: &File) -> io::Result<Version> {
        let status = file.metadata()?;
        Ok(Version {
            device: status.dev(),
            inode: status.ino(),
            size: status.len(),
            modified_ns: nanoseconds(status.mtime(), status.mtime_nsec()),
            changed_ns: nanoseconds(status.ctime(), status.ctime_nsec()),
        })
    }
}

/// Files below a folder. Symbolic links in it are never followed.
pub struct Tree {
    layout: Layout,
    base: Arc<OwnedFd>,
    /// Those used last are at the end.
    folders: Vec<(OsString, Arc<OwnedFd>)>,
}

impl Tree {
    /// Opens the base.
    ///
    /// # Errors
    /// That is not possible.
    pub fn new(layout: Layout) -> io::Result<Tree> {
        let base = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(&layout.base)?;
        Ok(Tree { layout, base: Arc::new(base.into()), folders: Vec::new() })
    }

    /// A folder below the base.
    fn folder(&mut self, path: &OsStr) -> io::Result<Arc<OwnedFd>> {
        if path.is_empty() {
            return Ok(self.base.clone());
        }
        if let Some(at) = self.folders.iter().position(|(known, _)| known == path) {
            let last = self.folders.remove(at);
            self.folders.push(last);
        } else {
            let (above, name) = divided(path);
            let above = self.folder(above)?;
            let opened = open(&above, name, libc::O_RDONLY | libc::O_DIRECTORY, 0);
            let opened = opened.map_err(|error| match error.raw_os_error() {
                Some(libc::ELOOP | libc::ENOTDIR) => {
                    let is_link =
                        status_at(&above, name).is_ok_and(|found| found.is_some_and(|found| found.is(libc::S_IFLNK)));
                    let what = match is_link {
                        true => {
                            "a symbolic link, and nothing is written through one that lies below the folder copied to"
                        }
                        false => "no folder",
                    };
                    let text =
                        format!("at the target, {} is {what}; put a folder in its place", Path::new(path).display());
                    io::Error::new(io::ErrorKind::NotADirectory, text)
                }
                _ => error,
            })?;
            if self.folders.len() == OPEN_FOLDERS {
                self.folders.remove(0);
            }
            self.folders.push((path.to_owned(), Arc::new(opened.into())));
        }
        Ok(self.folders[self.folders.len() - 1].1.clone())
    }

    /// The folder of an entry, and the name in it.
    fn at(&mut self, entry: &Entry) -> io::Result<(Arc<OwnedFd>, OsString)> {
        let path = self.layout.of(&entry.path);
        let (above, name) = divided(&path);
        Ok((self.folder(above)?, name.to_owned()))
    }

    /// What stands there now under the entry's name; `None` if nothing does.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn status(&mut self, entry: &Entry) -> io::Result<Option<Status>> {
        let (folder, name) = self.at(entry)?;
        status_at(&folder, &name)
    }

    /// Makes a folder that we can write to, if it is not there; its own mode comes last.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_folder(&mut self, entry: &Entry) -> io::Result<()> {
        let (folder, name) = self.at(entry)?;
        let name_c = text(&name)?;
        match status_at(&folder, &name)? {
            // SAFETY: the descriptor is open and the name ends with a zero byte.
            None => done(unsafe { libc::mkdirat(folder.as_raw_fd(), name_c.as_ptr(), 0o700) }),
            Some(status) if !status.is_folder() => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something that is no folder has this name at the target",
            )),
            Some(status) if status.mode & 0o700 != 0o700 => {
                let mode = status.mode & 0o7777 | 0o700;
                // SAFETY: as above.
                done(unsafe { libc::fchmodat(folder.as_raw_fd(), name_c.as_ptr(), mode, 0) })
            }
            Some(_) => Ok(()),
        }
    }

    /// Gives a folder its mode and times.
    ///
    /// # Errors
    /// That is not possible.
    pub fn finish_folder(&mut self, entry: &Entry) -> io::Result<()> {
        let folder = self.folder(&self.layout.of(&entry.path))?;
        dress(&File::from(folder.try_clone()?), entry)
    }

    /// Makes a symbolic link, in place of a link or file of this name.
    ///
    /// # Errors
    /// That is not possible.
    pub fn make_link(&mut self, entry: &Entry) -> io::Result<()> {
        let (folder, name) = self.at(entry)?;
        refuse_folder(&folder, &name)?;
        let made = part_name(&name);
        remove(&folder, &made);
        let (made_c, link) = (text(&made)?, text(&entry.link)?);
        // SAFETY: the descriptor is open and both names end with a zero byte.
        done(unsafe { libc::symlinkat(link.as_ptr(), folder.as_raw_fd(), made_c.as_ptr()) })?;
        let times = times(entry);
        // SAFETY: as above; there are two times.
        let dated = done(unsafe {
            libc::utimensat(folder.as_raw_fd(), made_c.as_ptr(), times.as_ptr(), libc::AT_SYMLINK_NOFOLLOW)
        });
        dated.and_then(|()| rename(&folder, &made, &name)).inspect_err(|_| remove(&folder, &made))
    }

    /// Where the link of this name leads; `None` if there is no such link.
    pub fn link_target(&mut self, entry: &Entry) -> Option<OsString> {
        let (folder, name) = self.at(entry).ok()?;
        let name = text(&name).ok()?;
        let mut found = vec![0; LONGEST_PATH + 1];
        // SAFETY: the descriptor is open, the name ends with a zero byte; pointer and length describe `found`.
        let length =
            unsafe { libc::readlinkat(folder.as_raw_fd(), name.as_ptr(), found.as_mut_ptr().cast(), found.len()) };
        found.truncate(usize::try_from(length).ok()?);
        Some(OsString::from_vec(found))
    }

    /// The complete file of this name, for reading.
    pub fn open_file(&mut self, entry: &Entry) -> Option<File> {
        let (folder, name) = self.at(entry).ok()?;
        open_to_read(&folder, &name)
    }

    /// What an interrupted copy has left, for reading; no other copy writes to it while it is open.
    ///
    /// # Errors
    /// Another copy writes to it.
    pub fn open_part(&mut self, entry: &Entry) -> io::Result<Option<File>> {
        let Ok((folder, name)) = self.at(entry) else { return Ok(None) };
        // NFS locks only what may be written to.
        let part = open(&folder, &part_name(&name), libc::O_RDWR | libc::O_NONBLOCK, 0).ok();
        match part.filter(is_file) {
            Some(part) if !is_locked_by_us(&part) => Err(written_by_another()),
            part => Ok(part),
        }
    }

    /// Removes what an interrupted copy has left under the provisional name. Mostly there is nothing; what cannot be removed is reported
    /// when its name is needed.
    pub fn remove_part(&mut self, entry: &Entry) {
        if let (Ok(Some(_part)), Ok((folder, name))) = (self.open_part(entry), self.at(entry)) {
            remove(&folder, &part_name(&name));
        }
    }

    /// The file under its provisional name, for writing; it begins as a copy of `base` if there is one. `copied` is called behind
    /// each piece of that, with its length.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin_part(&mut self, entry: &Entry, base: Option<&File>, copied: impl Fn(u64)) -> io::Result<File> {
        let (folder, name) = self.at(entry)?;
        let mut file = locked_part(&folder, &part_name(&name), LOCK_LIMIT)?;
        if let Some(base) = base {
            file.set_len(0)?;
            loop {
                match io::copy(&mut base.take(COPIED), &mut file)? {
                    0 => break,
                    length => copied(length),
                }
            }
        }
        Ok(file)
    }

    /// Gives a file its size, mode, times and, when all is done, its name.
    ///
    /// # Errors
    /// That is not possible.
    pub fn finish_part(&mut self, entry: &Entry, file: &File) -> io::Result<()> {
        let (folder, name) = self.at(entry)?;
        let part = part_name(&name);
        refuse_folder(&folder, &name)?;
        file.set_len(entry.size)?;
        dress(file, entry)?;
        if !is_named(&folder, &part, file)? {
            let text =
                format!("{} at the target was removed while it was written; copy again", Path::new(&part).display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        rename(&folder, &part, &name)
    }

    /// Gives a file that has the right content already its mode and times.
    ///
    /// # Errors
    /// That is not possible.
    pub fn dress(&mut self, entry: &Entry) -> io::Result<()> {
        let vanished = || io::Error::new(io::ErrorKind::NotFound, "it was removed at the target meanwhile");
        dress(&self.open_file(entry).ok_or_else(vanished)?, entry)
    }
}

/// Opens a file under its provisional name. No other copy writes to it while it is open: each would take away what the other one has
/// written.
fn locked_part(folder: &OwnedFd, part: &OsStr, limit: Duration) -> io::Result<File> {
    let until = Instant::now() + limit;
    loop {
        let file = open(folder, part, libc::O_RDWR | libc::O_CREAT, 0o600)?;
        if !is_file(&file) {
            let text = format!("{} at the target is no file", Path::new(part).display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        if is_locked_by_us(&file) {
            // The other copy may have given it its own name meanwhile.
            if is_named(folder, part, &file)? {
                return Ok(file);
            }
        } else if Instant::now() > until {
            return Err(written_by_another());
        } else {
            thread::sleep(LOCK_PAUSE);
        }
    }
}

fn written_by_another() -> io::Error {
    let text = "another copy writes this file at the target; copy again when that has ended";
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

/// Whether an open file has this name still.
fn is_named(folder: &OwnedFd, name: &OsStr, file: &File) -> io::Result<bool> {
    let inode = file.metadata()?.ino();
    Ok(status_at(folder, name)?.is_some_and(|named| named.inode == inode))
}

fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|status| status.is_file())
}

/// Locks a file, for as long as it is open; false if another process has. Where the file system knows no locks, nobody has one.
fn is_locked_by_us(file: &File) -> bool {
    // SAFETY: the descriptor is open.
    let locked = done(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) });
    !locked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// The provisional name of a file.
pub fn part_name(name: &OsStr) -> OsString {
    let mut part = OsString::from(".");
    part.push(name);
    part.push(PART_SUFFIX);
    match part.len() <= LONGEST_NAME {
        true => part,
        false => format!(".{}{PART_SUFFIX}", blake3::hash(name.as_bytes()).to_hex()).into(),
    }
}

/// Gives a file or folder its mode and times.
pub(crate) fn dress(file: &File, entry: &Entry) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(entry.mode & PERMISSIONS))?;
    // SAFETY: the descriptor is open, and there are two times.
    done(unsafe { libc::futimens(file.as_raw_fd(), times(entry).as_ptr()) })
}

/// When a file is said to have been read and written last.
fn times(entry: &Entry) -> [libc::timespec; 2] {
    let time = libc::timespec {
        tv_sec: entry.modified_ns.div_euclid(1_000_000_000),
        tv_nsec: entry.modified_ns.rem_euclid(1_000_000_000),
    };
    [time; 2]
}

fn refuse_folder(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    status_at(folder, name)?.map_or(Ok(()), Status::refuse_folder)
}

fn text(name: &OsStr) -> io::Result<CString> {
    Ok(CString::new(name.as_bytes())?)
}

fn done(status: libc::c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens a file or folder, no link.
fn open(folder: &OwnedFd, name: &OsStr, flags: libc::c_int, mode: libc::mode_t) -> io::Result<File> {
    let name = text(name)?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the descriptor is open and the name ends with a zero byte.
    match unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, mode) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it has just been opened, and nobody else knows it.
        descriptor => Ok(unsafe { File::from_raw_fd(descriptor) }),
    }
}

fn open_to_read(folder: &OwnedFd, name: &OsStr) -> Option<File> {
    open(folder, name, libc::O_RDONLY | libc::O_NONBLOCK, 0).ok().filter(is_file)
}

fn status_at(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Status>> {
    let name = text(name)?;
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the descriptor is open, the name ends with a zero byte, and there is room for the status.
    let looked = done(unsafe {
        libc::fstatat(folder.as_raw_fd(), name.as_ptr(), status.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW)
    });
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        looked => looked?,
    }
    // SAFETY: the call has filled it.
    let status = unsafe { status.assume_init() };
    Ok(Some(Status {
        mode: status.st_mode,
        inode: status.st_ino,
        size: status.st_size as u64,
        modified_ns: nanoseconds(status.st_mtime, status.st_mtime_nsec),
    }))
}

fn rename(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let (from, to) = (text(from)?, text(to)?);
    let folder = folder.as_raw_fd();
    // SAFETY: the descriptor is open and both names end with a zero byte.
    done(unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) })
}

fn remove(folder: &OwnedFd, name: &OsStr) {
    if let Ok(name) = text(name) {
        // SAFETY: the descriptor is open and the name ends with a zero byte.
        unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::{file, Folder};

    #[test]
    fn a_file_that_another_copy_writes_is_no_file_of_ours() {
        let folder = Folder::new();
        let base = OwnedFd::from(File::open(folder.path()).unwrap());
        let name = part_name(OsStr::new("file"));
        let theirs = locked_part(&base, &name, Duration::ZERO).unwrap();
        let error = locked_part(&base, &name, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("another copy writes this file at the target"), "{error}");
        drop(theirs);
        locked_part(&base, &name, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_part_that_another_copy_writes_is_neither_compared_nor_removed_nor_renamed() {
        let folder = Folder::new();
        let mut tree = Tree::new(Layout { base: folder.path().to_owned(), name: None }).unwrap();
        let (entry, part) = (file("file", 4), folder.path().join(".file.xmml-part"));
        let theirs = tree.begin_part(&entry, None, |_| {}).unwrap();
        assert_eq!(tree.open_part(&entry).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        tree.remove_part(&entry);
        assert!(part.exists());
        fs::remove_file(&part).unwrap();
        fs::write(&part, "half").unwrap(); // of somebody else
        let error = tree.finish_part(&entry, &theirs).unwrap_err();
        assert!(error.to_string().contains("was removed while it was written"), "{error}");
        assert!(part.exists());
    }

    #[test]
    fn the_folder_that_is_copied_to_may_be_reached_by_links_but_none_below_it_are_followed() {
        let folder = Folder::new();
        let (elsewhere, runs) = (folder.path().join("elsewhere"), folder.path().join("runs"));
        fs::create_dir_all(elsewhere.join("other/in")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &runs).unwrap();
        std::os::unix::fs::symlink("other", elsewhere.join("run")).unwrap();
        std::os::unix::fs::symlink("in", elsewhere.join("run/link")).unwrap();
        let mut tree = Tree::new(Layout { base: runs.join("run"), name: None }).unwrap();
        let entry = file("in/file", 0);
        let part = tree.begin_part(&entry, None, |_| {}).unwrap();
        tree.finish_part(&entry, &part).unwrap();
        assert!(elsewhere.join("other/in/file").exists());
        let refused = tree.begin_part(&file("link/file", 0), None, |_| {}).unwrap_err().to_string();
        assert!(refused.contains("link is a symbolic link"), "{refused}");
    }

    #[test]
    fn the_provisional_name_of_a_long_name_is_short_enough() {
        assert_eq!(part_name(OsStr::new("a")), ".a.xmml-part");
        let long = part_name(OsStr::new(&"n".repeat(255)));
        assert!(long.len() <= LONGEST_NAME && long.to_string_lossy().ends_with(PART_SUFFIX));
    }

    #[test]
    fn the_first_part_of_a_path_may_get_another_name() {
        let layout = Layout { base: PathBuf::new(), name: Some("copy".into()) };
        assert_eq!(layout.of(OsStr::new("file")), "copy");
        assert_eq!(layout.of(OsStr::new("folder/a/b")), "copy/a/b");
    }

    #[test]
    fn times_before_1970_and_of_nanoseconds_are_kept() {
        let folder = Folder::new();
        fs::write(folder.path().join("file"), "x").unwrap();
        let mut tree = Tree::new(Layout { base: folder.path().to_owned(), name: None }).unwrap();
        for modified_ns in [-1_500_000_001, 1_600_000_000_123_456_789] {
            let entry = Entry { modified_ns, ..file("file", 1) };
            tree.dress(&entry).unwrap();
            assert_eq!(tree.status(&entry).unwrap().unwrap().modified_ns, modified_ns);
        }
    }
}
