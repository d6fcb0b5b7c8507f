//! The logs and results of a run at a site: those that are asked for are listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use xmml_transfer::listing::Origin;
use xmml_transfer::report::Progress;
use xmml_transfer::source::Source;

use crate::folder_walk::{entries_of, FoldersAbove};
use crate::patterns::{has_wildcards, matches};
use crate::protocol::Text;

/// So many names of links that do not come are told.
const LINKS_NAMED: usize = 3;

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
            let below = FolderContent::of(&work, wanted.follow_links, progress);
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
                let below = FolderContent::of(&path, wanted.follow_links, progress);
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

/// What is in a folder, at any depth.
#[derive(Default)]
struct FolderContent {
    files: Vec<PathBuf>,
    /// Symbolic links that are not followed, or lead to nothing.
    links: Vec<PathBuf>,
}

impl FolderContent {
    /// Lists a folder. A file, or a link to one, is listed itself; so is a link that leads to nothing, as a link.
    fn of(path: &Path, follow_links: bool, progress: &Progress) -> FolderContent {
        let mut below = FolderContent::default();
        if follow_links {
            below.follow(path, &mut FoldersAbove::default(), progress);
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
    fn follow(&mut self, path: &Path, above: &mut FoldersAbove, progress: &Progress) {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

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
            symlink("result", work.join(link)).unwrap();
        }
        symlink("in", work.join("folder")).unwrap();
        symlink("nothing", work.join("nowhere")).unwrap();
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
}
