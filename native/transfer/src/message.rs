//! What the two ends of a copy say to each other.
//!
//! A message is a MessagePack array, its kind first. File names travel as text that need not be UTF-8, so that any name survives.
//! Everything that comes from the other end is checked for its shape before it is used.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rmp::{decode, encode};

use crate::listing::{Entry, Kind, LeftOut};
use crate::ranges::{Digest, Range, RANGE};

/// Of these messages, of those by which the ends agree on a way, and of how both ends cut files into ranges.
pub const VERSION: u64 = 4;
/// Pieces of small files that travel in one message.
pub const MOST_PIECES: usize = 1024;
/// Entries of the listing in one message.
pub const MOST_ENTRIES: usize = 1024;
/// Bytes of files in one message.
pub const MOST_DATA: usize = 8 * RANGE;
/// Bytes of a text that tells why something failed; what is longer is cut.
const LONGEST_REASON: usize = 4096;

// The kinds of messages; below 20 those by which two ends agree on a way.
const REFUSED: u64 = 2;
const ENTRIES: u64 = 20;
const LISTED: u64 = 21;
const CHUNK: u64 = 22;
const SPOILT: u64 = 23;
const FINISHED: u64 = 24;
const HAVE: u64 = 40;
const STANDS: u64 = 41;
const AGAIN: u64 = 42;
const STORED: u64 = 43;
const FAILED: u64 = 44;
const CONSIDERED: u64 = 45;
const DONE: u64 = 46;
const STOPPED: u64 = 47;

/// Bytes of a file that travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The number of the file's entry.
    pub file: u64,
    /// Where the bytes stand in it.
    pub range: Range,
    /// Their checksum.
    pub digest: Digest,
}

/// From the source to the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToTarget<'a> {
    /// Part of the listing.
    Entries {
        /// The number of the first entry.
        first: u64,
        /// What there is.
        entries: Vec<Entry>,
    },
    /// The listing has ended.
    Listed {
        /// Files.
        files: u64,
        /// Bytes in them.
        size: u64,
        /// What was left out, or the first of it.
        left_out: Vec<LeftOut>,
    },
    /// Pieces of files.
    Chunk {
        /// What they are.
        pieces: Vec<Piece>,
        /// Their bytes, one behind the other.
        data: &'a [u8],
        /// Numbers of the files that end with it.
        ends: Vec<u64>,
    },
    /// A file cannot be copied.
    Spoilt(u64, String),
    /// Everything that was asked for has been sent; said again when more was asked for since.
    Finished,
    /// The other end will not take part.
    Refused(String),
}

/// From the target to the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSource {
    /// A file shall be copied; the digests of the ranges of it that are there.
    Have(u64, Vec<u8>),
    /// A file need not be copied.
    Stands(u64),
    /// Ranges of a file that came altered.
    Again(u64, Vec<Range>),
    /// A file is complete.
    Stored(u64),
    /// An entry cannot be made at the target.
    Failed(u64, String),
    /// There is no entry left to ask for.
    Considered,
    /// Every file has been stored or has failed.
    Done,
    /// The target cannot go on.
    Stopped(String),
    /// The other end will not take part.
    Refused(String),
}

impl ToTarget<'_> {
    /// Reads a message.
    ///
    /// # Errors
    /// It is none; the text says so.
    pub fn read(message: &[u8]) -> Result<ToTarget<'_>, String> {
        let mut reader = Reader { rest: message };
        let length = reader.array(4);
        let read = length.and_then(|length| match (reader.number()?, length) {
            (ENTRIES, 3) => {
                Some(ToTarget::Entries { first: reader.number()?, entries: reader.list(MOST_ENTRIES, Reader::entry)? })
            }
            (LISTED, 4) => Some(ToTarget::Listed {
                files: reader.number()?,
                size: reader.number()?,
                left_out: reader.list(MOST_ENTRIES, Reader::left_out)?,
            }),
            (CHUNK, 4) => Some(ToTarget::Chunk {
                pieces: reader.list(MOST_PIECES, Reader::piece)?,
                data: reader.bytes()?,
                ends: reader.list(MOST_PIECES, Reader::number)?,
            }),
            (SPOILT, 3) => Some(ToTarget::Spoilt(reader.number()?, reader.reason()?)),
            (FINISHED, 1) => Some(ToTarget::Finished),
            (REFUSED, 2) => Some(ToTarget::Refused(reader.reason()?)),
            _ => None,
        });
        read.filter(|_| reader.rest.is_empty()).ok_or_else(|| unreadable(message, "writes"))
    }
}

impl ToSource {
    /// Reads a message.
    ///
    /// # Errors
    /// It is none; the text says so.
    pub fn read(message: &[u8]) -> Result<ToSource, String> {
        let mut reader = Reader { rest: message };
        let length = reader.array(3);
        let read = length.and_then(|length| match (reader.number()?, length) {
            (HAVE, 3) => Some(ToSource::Have(reader.number()?, reader.bytes()?.to_vec())),
            (STANDS, 2) => Some(ToSource::Stands(reader.number()?)),
            (AGAIN, 3) => Some(ToSource::Again(reader.number()?, reader.list(MOST_PIECES, Reader::range)?)),
            (STORED, 2) => Some(ToSource::Stored(reader.number()?)),
            (FAILED, 3) => Some(ToSource::Failed(reader.number()?, reader.reason()?)),
            (CONSIDERED, 1) => Some(ToSource::Considered),
            (DONE, 1) => Some(ToSource::Done),
            (STOPPED, 2) => Some(ToSource::Stopped(reader.reason()?)),
            (REFUSED, 2) => Some(ToSource::Refused(reader.reason()?)),
            _ => None,
        });
        read.filter(|_| reader.rest.is_empty()).ok_or_else(|| unreadable(message, "reads"))
    }

    /// Whether the target says no more after this.
    pub fn is_last(&self) -> bool {
        matches!(self, ToSource::Done | ToSource::Stopped(_) | ToSource::Refused(_))
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            ToSource::Have(file, digests) => writer.message(HAVE, 2).number(*file).bytes(digests),
            ToSource::Stands(file) => writer.message(STANDS, 1).number(*file),
            ToSource::Again(file, ranges) => writer.message(AGAIN, 2).number(*file).list(ranges, |writer, range| {
                writer.array(2).number(range.offset).number(range.length as u64);
            }),
            ToSource::Stored(file) => writer.message(STORED, 1).number(*file),
            ToSource::Failed(entry, why) => writer.message(FAILED, 2).number(*entry).text(why.as_bytes()),
            ToSource::Considered => writer.message(CONSIDERED, 0),
            ToSource::Done => writer.message(DONE, 0),
            ToSource::Stopped(why) => writer.message(STOPPED, 1).text(why.as_bytes()),
            ToSource::Refused(why) => writer.message(REFUSED, 1).text(why.as_bytes()),
        };
        writer.text
    }
}

fn unreadable(message: &[u8], does: &str) -> String {
    format!("a message of {} bytes cannot be read by the end that {does}", message.len())
}

/// An [`ToTarget::Entries`] as bytes.
pub fn entries<'a>(first: u64, entries: impl ExactSizeIterator<Item = &'a Entry>) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.message(ENTRIES, 2).number(first).array(entries.len());
    for entry in entries {
        writer.array(6).text(entry.path.as_bytes()).number(entry.kind as u64).number(entry.size);
        writer.number(entry.mode.into()).signed(entry.modified_ns).text(entry.link.as_bytes());
    }
    writer.text
}

/// A [`ToTarget::Listed`] as bytes; of what was left out, the first.
pub fn listed(files: u64, size: u64, left_out: &[LeftOut]) -> Vec<u8> {
    let mut writer = Writer::default();
    let told = &left_out[..left_out.len().min(MOST_ENTRIES)];
    writer.message(LISTED, 3).number(files).number(size).list(told, |writer, each| {
        writer.array(2).text(each.path.as_bytes()).text(each.reason.as_bytes());
    });
    writer.text
}

/// A [`ToTarget::Chunk`] as bytes: what stands before its data, and what behind.
pub fn around_chunk(pieces: &[Piece], size: usize, ends: &[u64]) -> (Vec<u8>, Vec<u8>) {
    let (mut before, mut behind) = (Writer::default(), Writer::default());
    before.message(CHUNK, 3).list(pieces, |writer, piece| {
        let Range { offset, length } = piece.range;
        writer.array(4).number(piece.file).number(offset).number(length as u64).bytes(&piece.digest);
    });
    before.head_of_bytes(size);
    behind.list(ends, |writer, file| {
        writer.number(*file);
    });
    (before.text, behind.text)
}

/// A [`ToTarget::Spoilt`] as bytes.
pub fn spoilt(file: u64, why: &str) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.message(SPOILT, 2).number(file).text(why.as_bytes());
    writer.text
}

/// A [`ToTarget::Finished`] as bytes.
pub fn finished() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.message(FINISHED, 0);
    writer.text
}

/// A [`ToTarget::Refused`] as bytes.
pub fn refused(why: &str) -> Vec<u8> {
    ToSource::Refused(why.to_owned()).to_bytes()
}

/// Reads values one after the other; `None`: what comes next is something else.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        decode::read_int(&mut self.rest).ok()
    }

    /// The length of an array that is not longer than so much.
    fn array(&mut self, most: usize) -> Option<usize> {
        let length = decode::read_array_len(&mut self.rest).ok()? as usize;
        (length <= most).then_some(length)
    }

    fn array_of(&mut self, length: usize) -> Option<()> {
        (self.array(length)? == length).then_some(())
    }

    fn list<T>(&mut self, most: usize, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.array(most)?;
        (0..length).map(|_| item(self)).collect()
    }

    fn take(&mut self, length: u32) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(taken)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = decode::read_bin_len(&mut self.rest).ok()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<OsString> {
        let length = decode::read_str_len(&mut self.rest).ok()?;
        Some(OsString::from_vec(self.take(length)?.to_vec()))
    }

    fn reason(&mut self) -> Option<String> {
        let mut text = String::from_utf8_lossy(self.text()?.as_bytes()).into_owned();
        let end = (0..=LONGEST_REASON.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        Some(text)
    }

    fn entry(&mut self) -> Option<Entry> {
        self.array_of(6)?;
        Some(Entry {
            path: self.text()?,
            kind: Kind::of(self.number()?)?,
            size: self.number()?,
            mode: decode::read_int(&mut self.rest).ok()?,
            modified_ns: decode::read_int(&mut self.rest).ok()?,
            link: self.text()?,
        })
    }

    fn left_out(&mut self) -> Option<LeftOut> {
        self.array_of(2)?;
        Some(LeftOut { path: self.text()?, reason: self.reason()? })
    }

    fn range(&mut self) -> Option<Range> {
        self.array_of(2)?;
        self.offset_and_length()
    }

    fn offset_and_length(&mut self) -> Option<Range> {
        Some(Range { offset: self.number()?, length: decode::read_int(&mut self.rest).ok()? })
    }

    fn piece(&mut self) -> Option<Piece> {
        self.array_of(4)?;
        let (file, range) = (self.number()?, self.offset_and_length()?);
        Some(Piece { file, range, digest: self.bytes()?.try_into().ok()? })
    }
}

/// Writes values one after the other, into memory, where nothing can fail.
#[derive(Default)]
struct Writer {
    text: Vec<u8>,
}

impl Writer {
    fn message(&mut self, kind: u64, values: usize) -> &mut Writer {
        self.array(1 + values).number(kind)
    }

    fn array(&mut self, length: usize) -> &mut Writer {
        let _ = encode::write_array_len(&mut self.text, length as u32);
        self
    }

    fn number(&mut self, value: u64) -> &mut Writer {
        let _ = encode::write_uint(&mut self.text, value);
        self
    }

    fn signed(&mut self, value: i64) -> &mut Writer {
        let _ = encode::write_sint(&mut self.text, value);
        self
    }

    fn text(&mut self, text: &[u8]) -> &mut Writer {
        let _ = encode::write_str_len(&mut self.text, text.len() as u32);
        self.text.extend_from_slice(text);
        self
    }

    fn head_of_bytes(&mut self, length: usize) {
        let _ = encode::write_bin_len(&mut self.text, length as u32);
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.head_of_bytes(bytes.len());
        self.text.extend_from_slice(bytes);
        self
    }

    fn list<T>(&mut self, items: &[T], write: impl Fn(&mut Writer, &T)) -> &mut Writer {
        self.array(items.len());
        items.iter().for_each(|item| write(self, item));
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = OsString> {
        proptest::collection::vec(any::<u8>(), 0..70).prop_map(OsString::from_vec)
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let kind = prop_oneof![Just(Kind::File), Just(Kind::Folder), Just(Kind::Link)];
        (text(), kind, any::<u64>(), any::<u32>(), any::<i64>(), text())
            .prop_map(|(path, kind, size, mode, modified_ns, link)| Entry { path, kind, size, mode, modified_ns, link })
    }

    fn range() -> impl Strategy<Value = Range> {
        (any::<u64>(), any::<usize>()).prop_map(|(offset, length)| Range { offset, length })
    }

    fn to_source() -> impl Strategy<Value = ToSource> {
        let reason = || "[a-z ü]{0,60}";
        let ranges = proptest::collection::vec(range(), 0..40);
        prop_oneof![
            (any::<u64>(), any::<Vec<u8>>()).prop_map(|(file, digests)| ToSource::Have(file, digests)),
            any::<u64>().prop_map(ToSource::Stands),
            (any::<u64>(), ranges).prop_map(|(file, ranges)| ToSource::Again(file, ranges)),
            any::<u64>().prop_map(ToSource::Stored),
            (any::<u64>(), reason()).prop_map(|(entry, why)| ToSource::Failed(entry, why)),
            Just(ToSource::Considered),
            Just(ToSource::Done),
            reason().prop_map(ToSource::Stopped),
            reason().prop_map(ToSource::Refused),
        ]
    }

    proptest! {
        #[test]
        fn what_the_target_says_is_read_as_it_was(message in to_source()) {
            prop_assert_eq!(ToSource::read(&message.to_bytes()), Ok(message));
        }

        #[test]
        fn a_listing_is_read_as_it_was(first: u64, all in proptest::collection::vec(entry(), 0..40)) {
            let message = entries(first, all.iter());
            prop_assert_eq!(ToTarget::read(&message), Ok(ToTarget::Entries { first, entries: all }));
        }

        #[test]
        fn a_chunk_is_read_as_it_was(
            pieces in proptest::collection::vec((any::<u64>(), range(), any::<Digest>()), 0..40),
            data: Vec<u8>,
            ends: Vec<u64>,
        ) {
            let pieces: Vec<Piece> =
                pieces.into_iter().map(|(file, range, digest)| Piece { file, range, digest }).collect();
            let (before, behind) = around_chunk(&pieces, data.len(), &ends);
            let message = [before, data.clone(), behind].concat();
            prop_assert_eq!(ToTarget::read(&message), Ok(ToTarget::Chunk { pieces, data: &data, ends }));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = (ToSource::read(&bytes), ToTarget::read(&bytes));
        }
    }

    /// Bytes as the package `msgpack` of Python writes them.
    #[test]
    fn messages_are_message_pack() {
        let entry = Entry {
            path: OsString::from_vec(b"a/\xff".to_vec()),
            kind: Kind::Link,
            size: 0,
            mode: 0o777,
            modified_ns: -1,
            link: "../c".into(),
        };
        let again = ToSource::Again(1, vec![Range { offset: 0, length: 7 }]);
        for (message, bytes) in [
            (
                entries(300, [entry].iter()),
                &b"\x93\x14\xcd\x01\x2c\x91\x96\xa3a/\xff\x02\x00\xcd\x01\xff\xff\xa4../c"[..],
            ),
            (listed(1, 2, &[]), b"\x94\x15\x01\x02\x90"),
            (spoilt(0, "it changed"), b"\x93\x17\x00\xaait changed"),
            (finished(), b"\x91\x18"),
            (ToSource::Have(1, b"d".to_vec()).to_bytes(), b"\x93\x28\x01\xc4\x01d"),
            (again.to_bytes(), b"\x93\x2a\x01\x91\x92\x00\x07"),
        ] {
            assert_eq!(message, bytes);
        }
    }

    #[test]
    fn counts_that_no_end_sends_are_refused_before_anything_is_kept() {
        let pieces = b"\x94\x16\xdd\xff\xff\xff\xff";
        let entries = b"\x93\x14\x00\xdd\x00\x10\x00\x00";
        let data = b"\x94\x16\x90\xc6\xff\xff\xff\xff";
        let (more_behind, value_too_many, no_kind) = (b"\x91\x18\x00", b"\x92\x18\x00", b"\x91\x63");
        for message in [&pieces[..], entries, data, more_behind, value_too_many, no_kind, b""] {
            assert!(ToTarget::read(message).unwrap_err().contains("cannot be read"), "{message:?}");
        }
    }

    /// The digest of one range would stand for another one.
    #[test]
    fn ends_that_cut_files_into_other_ranges_speak_another_version() {
        assert_eq!((VERSION, RANGE), (4, 512 << 10));
    }
}
