//! What there is to copy: the entries of a tree, and which entries from the other end may be believed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::reason;

/// Longest path of an entry and longest target of a link [bytes]: what Linux takes.
pub const LONGEST_PATH: usize = 4096;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    File = 0,
    Folder = 1,
    Link = 2,
}

impl Kind {
    /// The kind of this number.
    pub fn of(number: u64) -> Option<Kind> {
        [Kind::File, Kind::Folder, Kind::Link].into_iter().find(|kind| *kind as u64 == number)
    }
}

/// One file, folder or symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Begins with the name of what was asked for; parts are divided by slashes.
    pub path: OsString,
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file.
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// When it was last written [ns since 1970].
    pub modified_ns: i64,
    /// Where a symbolic link leads.
    pub link: OsString,
}

impl Entry {
    /// Checks what the other end has sent.
    ///
    /// # Errors
    /// Its values are impossible, or it could lead out of the target; the text says so. A symbolic link that stands for all that was asked for
    /// could: a later copy to the same place would be written where it leads. No source lists one, since [`listing`] follows it.
    pub fn check(&self) -> Result<(), String> {
        let (path, link) = (self.path.as_bytes(), self.link.as_bytes());
        if path.len() > LONGEST_PATH || link.len() > LONGEST_PATH {
            return Err("an entry of the listing has too long a name".to_owned());
        }
        let leads_out = path.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b".."));
        if leads_out || path.contains(&0) || link.contains(&0) {
            return Err(format!(
                "the listing names {:?}, which could lead out of the folder that is copied to",
                self.path
            ));
        }
        if self.kind == Kind::Link && !path.contains(&b'/') {
            return Err(format!("the listing gives {:?} as a symbolic link, not what that leads to", self.path));
        }
        if self.size >= 1 << 63 || self.mode > 0o7777 {
            return Err(format!("the listing has impossible values for {:?}", self.path));
        }
        Ok(())
    }
}

/// An entry and where it is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// As the other end gets to know it.
    pub entry: Entry,
    /// Its file here.
    pub file: PathBuf,
}

/// A file or folder that shall be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Where it is; a symbolic link is followed.
    pub file: PathBuf,
    /// What its copy is called, if not the same.
    pub name: Option<OsString>,
}

impl From<PathBuf> for Origin {
    fn from(file: PathBuf) -> Origin {
        Origin { file, name: None }
    }
}

/// Something that cannot be copied, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LeftOut {
    pub path: OsString,
    pub reason: String,
}

/// The entries of files and folders, each folder before what is in it, in the order of names.
///
/// A source that is a symbolic link is followed; links in folders are copied as links. Sockets, pipes and devices are left out, as is what
/// cannot be read.
pub fn listing(sources: &[Origin]) -> impl Iterator<Item = Result<Found, LeftOut>> + '_ {
    sources.iter().flat_map(|Origin { file, name }| match fs::metadata(file) {
        Ok(status) => {
            let name = name.clone().unwrap_or_else(|| name_of(file));
            Below { waiting: vec![Ok((file.clone(), name, status))] }
        }
        Err(error) => Below { waiting: vec![Err(left_out(file, reason(&error)))] },
    })
}

fn name_of(source: &Path) -> OsString {
    let whole;
    let name = match source.file_name() {
        Some(name) => Some(name),
        None => {
            whole = source.canonicalize();
            whole.as_deref().ok().and_then(Path::file_name)
        }
    };
    name.unwrap_or(OsStr::new("root")).to_owned()
}

fn left_out(path: &Path, reason: String) -> LeftOut {
    LeftOut { path: path.as_os_str().to_owned(), reason }
}

/// A file or folder that is looked at next: where it is, its path as an entry, its status.
type Waiting = Result<(PathBuf, OsString, Metadata), LeftOut>;

struct Below {
    waiting: Vec<Waiting>,
}

impl Iterator for Below {
    type Item = Result<Found, LeftOut>;

    fn next(&mut self) -> Option<Self::Item> {
        let (file, path, status) = match self.waiting.pop()? {
            Ok(next) => next,
            Err(left_out) => return Some(Err(left_out)),
        };
        let mut entry = Entry {
            path,
            kind: Kind::File,
            size: 0,
            mode: status.mode() & 0o7777,
            modified_ns: nanoseconds(status.mtime(), status.mtime_nsec()),
            link: OsString::new(),
        };
        let kind = status.file_type();
        let read = if kind.is_file() {
            entry.size = status.len();
            Ok(())
        } else if kind.is_symlink() {
            entry.kind = Kind::Link;
            fs::read_link(&file).map(|link| entry.link = link.into_os_string())
        } else if kind.is_dir() {
            entry.kind = Kind::Folder;
            self.enter(&file, &entry.path)
        } else {
            return Some(Err(left_out(&file, "it is neither a file nor a folder nor a link".to_owned())));
        };
        Some(match read {
            Ok(()) => Ok(Found { entry, file }),
            Err(error) => Err(left_out(&file, reason(&error))),
        })
    }
}

impl Below {
    fn enter(&mut self, folder: &Path, path: &OsStr) -> std::io::Result<()> {
        let mut names =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
        names.sort_unstable_by(|one, other| other.cmp(one));
        for name in names {
            let file = folder.join(&name);
            let path = OsString::from_vec([path.as_bytes(), b"/", name.as_bytes()].concat());
            self.waiting.push(match fs::symlink_metadata(&file) {
                Ok(status) => Ok((file, path, status)),
                Err(error) => Err(left_out(&file, reason(&error))),
            });
        }
        Ok(())
    }
}

/// A time since 1970, in nanoseconds.
pub(crate) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::tests::{file, link, Folder};

    fn paths(source: PathBuf) -> Vec<OsString> {
        listing(&[source.into()]).map(|found| found.unwrap().entry.path).collect()
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_in_the_order_of_names() {
        let folder = Folder::new();
        for name in ["f/b", "f/a/2", "f/a/1"] {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        assert_eq!(paths(folder.path().join("f")), ["f", "f/a", "f/a/1", "f/a/2", "f/b"]);
    }

    #[test]
    fn a_link_is_copied_as_a_link_but_followed_when_it_is_named() {
        let folder = Folder::new();
        fs::create_dir(folder.path().join("f")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("f/link")).unwrap();
        std::os::unix::fs::symlink("f", folder.path().join("latest")).unwrap();
        let found: Vec<Entry> =
            listing(&[folder.path().join("latest").into()]).map(|found| found.unwrap().entry).collect();
        let seen: Vec<_> = found.iter().map(|entry| (&*entry.path, entry.kind, &*entry.link)).collect();
        let text = OsStr::new;
        let link = (text("latest/link"), Kind::Link, text("nowhere"));
        assert_eq!(seen, [(text("latest"), Kind::Folder, text("")), link]);
    }

    #[test]
    fn what_cannot_be_copied_is_left_out_with_a_reason() {
        let folder = Folder::new();
        let (socket, missing) = (folder.path().join("f/socket"), folder.path().join("missing"));
        fs::create_dir(folder.path().join("f")).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let found: Vec<LeftOut> =
            listing(&[folder.path().join("f").into(), missing.clone().into()]).filter_map(Result::err).collect();
        let expected = [
            left_out(&socket, "it is neither a file nor a folder nor a link".to_owned()),
            left_out(&missing, "No such file or directory".to_owned()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_copy_may_have_another_name() {
        let folder = Folder::new();
        fs::create_dir_all(folder.path().join("f/g")).unwrap();
        let origin = Origin { file: folder.path().join("f"), name: Some("other".into()) };
        let paths: Vec<_> = listing(&[origin]).map(|found| found.unwrap().entry.path).collect();
        assert_eq!(paths, ["other", "other/g"]);
    }

    #[test]
    fn names_need_not_be_text() {
        let folder = Folder::new();
        fs::create_dir(folder.path().join("f")).unwrap();
        fs::write(folder.path().join("f").join(OsStr::from_bytes(b"\xff\n")), "").unwrap();
        assert_eq!(paths(folder.path().join("f"))[1], OsStr::from_bytes(b"f/\xff\n"));
    }

    #[test]
    fn folders_may_lie_very_deep_in_each_other() {
        let folder = Folder::new();
        let top = folder.path().join("f");
        fs::create_dir_all(format!("{}{}", top.display(), "/d".repeat(1100))).unwrap();
        assert_eq!(paths(top).len(), 1101);
    }

    #[test]
    fn the_folder_in_which_one_is_has_its_name() {
        assert_eq!(name_of(Path::new("a/b/")), "b");
        assert_eq!(name_of(Path::new(".")), std::env::current_dir().unwrap().file_name().unwrap());
        assert_eq!(name_of(Path::new("/")), "root");
    }

    #[test]
    fn a_path_that_could_lead_out_of_the_target_is_refused() {
        for path in ["", "/etc/passwd", "a/../../b", "..", "a//b", "a/.", "a\0b", &"x".repeat(5000)] {
            let refused = file(path, 1).check().unwrap_err();
            assert!(refused.contains("listing"), "{refused}");
        }
        file("a/b..c/.d", 1).check().unwrap();
    }

    #[test]
    fn what_was_asked_for_is_no_link_but_what_is_in_it_may_be_one() {
        let refused = link("a").check().unwrap_err();
        assert!(refused.contains("symbolic link"), "{refused}");
        link("a/b").check().unwrap();
    }

    #[test]
    fn impossible_values_are_refused() {
        let file = file("a", 1);
        for entry in [
            Entry { size: 1 << 63, ..file.clone() },
            Entry { mode: 0o70000, ..file.clone() },
            Entry { link: "x".repeat(5000).into(), ..file.clone() },
            Entry { link: "x\0".into(), ..file },
        ] {
            assert!(entry.check().unwrap_err().contains("listing"));
        }
    }
}
