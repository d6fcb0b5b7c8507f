//! The ranges of a file and their checksums.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What is hashed and checked as one [bytes]: of a file in which a byte has changed, so much is sent.
pub const RANGE: usize = 512 << 10;
/// The length of a checksum [bytes].
pub const DIGEST: usize = 32;
/// Not more digests of a file are exchanged [bytes]: those of the first TiB. What lies behind is sent.
pub const MOST_DIGESTS: usize = 64 << 20;

/// The BLAKE3 checksum of a range.
pub type Digest = [u8; DIGEST];

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// Where they begin.
    pub offset: u64,
    /// How many there are.
    pub length: usize,
}

/// A file of this size [bytes], cut into ranges.
pub fn ranges(size: u64) -> impl Iterator<Item = Range> {
    let length = move |offset: u64| (size - offset).min(RANGE as u64) as usize;
    (0..size).step_by(RANGE).map(move |offset| Range { offset, length: length(offset) })
}

/// The checksum of some bytes.
pub fn digest(data: &[u8]) -> Digest {
    *blake3::hash(data).as_bytes()
}

/// The checksums of the whole ranges, not more than [`MOST_DIGESTS`] has room for, that `file` has of a file of `size` bytes, one after the other.
///
/// They end where the file ends: the rest is not there. `check` is called behind each range, with its length.
///
/// # Errors
/// The file cannot be read, or `check` fails.
pub fn digests<E: From<io::Error>>(
    file: &File,
    size: u64,
    check: impl Fn(usize) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut found = Vec::new();
    let mut data = vec![0; (RANGE as u64).min(size) as usize];
    for range in ranges(size).take(MOST_DIGESTS / DIGEST) {
        let data = &mut data[..range.length];
        match file.read_exact_at(data, range.offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            done => done?,
        }
        found.extend_from_slice(&digest(data));
        check(range.length)?;
    }
    Ok(found)
}

/// Whether the range of this number is there already, by the digests that the other end has sent.
pub fn stands(digests: &[u8], number: usize, wanted: &Digest) -> bool {
    digests.get(number * DIGEST..(number + 1) * DIGEST) == Some(wanted)
}
