//! Patterns of files below a folder, as a shell has them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use xmml_transfer::report::Progress;

use crate::folder_walk::{entries_of, FoldersAbove};

const ANY_TEXT: u32 = '*' as u32;
const ANY: u32 = '?' as u32;
const CLASS: u32 = '[' as u32;
const CLASS_END: u32 = ']' as u32;
const NOT: u32 = '!' as u32;
const TO: u32 = '-' as u32;

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
        all_below(path, &mut FoldersAbove::default(), progress, &mut found);
        return found;
    }
    if !has_wildcards(part) {
        let named = path.join(part);
        return if named.symlink_metadata().is_ok() { vec![named] } else { Vec::new() };
    }
    let pattern = NamePattern::new(part);
    let is_named = |name: &OsString| (!is_hidden(name) || bytes[0] == b'.') && pattern.is_match(name);
    entries_of(path, progress).into_iter().filter(|(_, name)| is_named(name)).map(|(inner, _)| inner).collect()
}

/// Finds a path and all below it that is not hidden.
fn all_below(path: &Path, above: &mut FoldersAbove, progress: &Progress, found: &mut Vec<PathBuf>) {
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

/// Returns whether a pattern may name several files.
pub fn has_wildcards(pattern: &OsStr) -> bool {
    pattern.as_bytes().iter().any(|byte| b"*?[".contains(byte))
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.')
}

/// A pattern of names, without folders.
struct NamePattern(Vec<u32>);

impl NamePattern {
    fn new(pattern: &OsStr) -> NamePattern {
        NamePattern(characters(pattern))
    }

    /// Returns whether the pattern names this.
    fn is_match(&self, name: &OsStr) -> bool {
        let name = characters(name);
        let (mut pattern, mut name) = (&self.0[..], &name[..]);
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
}

/// Returns the characters of a name; a byte that belongs to none is one, too, as Python has it.
fn characters(name: &OsStr) -> Vec<u32> {
    let in_chunk = |chunk: std::str::Utf8Chunk| {
        let others = chunk.invalid().iter().map(|byte| 0xDC00 + u32::from(*byte));
        chunk.valid().chars().map(u32::from).chain(others).collect::<Vec<_>>()
    };
    name.as_bytes().utf8_chunks().flat_map(in_chunk).collect()
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
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_that_lead_back_up_are_not_searched() {
        let folder = std::env::temp_dir().join(format!("xmml-searched-loops-{}", std::process::id()));
        fs::create_dir_all(folder.join("data/deep")).unwrap();
        fs::write(folder.join("data/deep/a.csv"), "a").unwrap();
        for name in ["up", "upper", "uppermost"] {
            symlink("..", folder.join("data/deep").join(name)).unwrap();
        }
        symlink("deep", folder.join("data/other")).unwrap();
        let named = |pattern: &str| matches(&folder, OsStr::new(pattern), &Progress::default());
        assert_eq!(named("data/**/*.csv"), ["deep", "other"].map(|name| folder.join("data").join(name).join("a.csv")));
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
            let is_named = NamePattern::new(OsStr::new(pattern)).is_match(OsStr::new(name));
            assert_eq!(is_named, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_byte_that_is_no_character_is_matched_as_one() {
        let name = OsStr::from_bytes(b"\xe9\xe8.csv");
        assert!(NamePattern::new(OsStr::new("??.csv")).is_match(name));
        assert!(NamePattern::new(OsStr::from_bytes(b"[\xe9]*.csv")).is_match(name));
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
            paths.iter().map(|path| path.strip_prefix(&folder).unwrap().display().to_string()).collect()
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
