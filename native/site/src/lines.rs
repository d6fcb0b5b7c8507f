//! Lines: files of them that one host writes and another one reads, and messages of one line each.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::system::close;

/// Longer lines are returned in pieces, which are no JSON.
const LONGEST_LINE: usize = 16 * 1024 * 1024;
const READ: u64 = 256 * 1024;

/// What is added to a file, line by line. The file is opened anew for each poll: over NFS that shows what another host
/// has written.
pub struct Tail {
    path: PathBuf,
    offset: u64,
}

impl Tail {
    /// What is added to a file from an offset on.
    pub fn new(path: PathBuf, offset: u64) -> Tail {
        Tail { path, offset }
    }

    /// Returns where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns up to where the lines were returned.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns how large the file is; 0 if it cannot be opened.
    pub fn size(&self) -> u64 {
        File::open(&self.path).and_then(|file| file.metadata()).map_or(0, |found| found.len())
    }

    /// Returns the complete lines since the last call, each with the offset behind it. A file that is not there has none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn lines(&mut self) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.offset))?;
        let mut chunk = Vec::new();
        while Read::by_ref(&mut file).take(READ).read_to_end(&mut chunk)? > 0 {
            if chunk.contains(&b'\n') || chunk.len() > LONGEST_LINE {
                break;
            }
        }
        let mut found = Vec::new();
        let Some(end) = chunk.iter().rposition(|byte| *byte == b'\n') else {
            if chunk.len() > LONGEST_LINE {
                self.offset += chunk.len() as u64;
                found.push((self.offset, chunk));
            }
            return Ok(found);
        };
        for line in chunk[..end].split(|byte| *byte == b'\n') {
            self.offset += line.len() as u64 + 1;
            found.push((self.offset, line.to_vec()));
        }
        Ok(found)
    }
}

/// Adds whole lines to a file; closing it makes other hosts see them. What fails leaves no part of a line, to which a
/// later one would be added.
///
/// # Errors
/// The file cannot be written.
pub fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let before = file.metadata()?.len();
    let done = file.write_all(lines);
    let done = done.and(close(file));
    if done.is_err() {
        let _ = cut_torn_line(path, before, lines); // whoever reads it finds what is no line of ours
    }
    done
}

/// Removes the part of a line at the end of a file that had a size before lines were added. Whole lines stay, because
/// others may have read them.
fn cut_torn_line(path: &Path, before: u64, lines: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let added = usize::try_from(file.metadata()?.len().saturating_sub(before)).unwrap_or(usize::MAX);
    let Some(added) = lines.get(..added) else { return Ok(()) }; // somebody else has added to it
    let whole = added.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    file.set_len(before + whole as u64)
}

/// Returns a value as a line of JSON, with its end.
///
/// # Errors
/// JSON cannot hold the value.
pub fn json_line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Takes the complete lines out of a buffer.
pub fn complete_lines(buffer: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let Some(end) = buffer.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let rest = buffer.split_off(end + 1);
    let complete = std::mem::replace(buffer, rest);
    complete[..end].split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Returns the beginning of a line, for messages.
pub fn shortened(line: &[u8]) -> String {
    const MOST: usize = 200;
    let shown = String::from_utf8_lossy(&line[..line.len().min(MOST)]);
    if line.len() > MOST {
        format!("{shown}...")
    } else {
        shown.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_pieces_is_read_by_lines() {
        let mut buffer = b"one\ntw".to_vec();
        assert_eq!(complete_lines(&mut buffer), [b"one".to_vec()]);
        buffer.extend(b"o\n\nthree");
        assert_eq!(complete_lines(&mut buffer), [b"two".to_vec(), b"".to_vec()]);
        assert_eq!(buffer, b"three");
    }

    #[test]
    fn a_tail_has_what_was_added_and_where_it_ends() {
        let path = std::env::temp_dir().join(format!("xmml-tail-{}", std::process::id()));
        let mut tail = Tail::new(path.clone(), 0);
        assert_eq!(tail.lines().unwrap(), []);
        append(&path, b"one\ntwo\nthr").unwrap();
        assert_eq!(tail.lines().unwrap(), [(4, b"one".to_vec()), (8, b"two".to_vec())]);
        assert_eq!(tail.lines().unwrap(), []);
        append(&path, b"ee\n").unwrap();
        assert_eq!(tail.lines().unwrap(), [(14, b"three".to_vec())]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_line_that_is_too_long_keeps_none_that_follows() {
        let path = std::env::temp_dir().join(format!("xmml-endless-line-{}", std::process::id()));
        append(&path, &[vec![b'x'; LONGEST_LINE + 2 * READ as usize].as_slice(), b"\n{}\n"].concat()).unwrap();
        let mut tail = Tail::new(path.clone(), 0);
        let found: Vec<_> = (0..4).flat_map(|_| tail.lines().unwrap()).collect();
        assert_eq!(found.last().map(|(_, line)| line.as_slice()), Some(b"{}".as_slice()));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_line_that_is_longer_than_one_read_comes_whole() {
        let path = std::env::temp_dir().join(format!("xmml-long-line-{}", std::process::id()));
        let line = vec![b'x'; 3 * READ as usize];
        append(&path, &[line.as_slice(), b"\n"].concat()).unwrap();
        assert_eq!(Tail::new(path.clone(), 0).lines().unwrap(), [(line.len() as u64 + 1, line)]);
        std::fs::remove_file(&path).unwrap();
    }
}
