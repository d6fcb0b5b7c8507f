//! Bytes that leave the host are encrypted and authenticated from one end of a connection to the other, also through relays.
//!
//! The [handshake](crate::handshake) agrees on a key for each direction. What is written is cut into records:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | length of what follows, little-endian |
//! | 4 | 1 to 65,536 | the bytes, encrypted by AES-256-GCM |
//! | | 16 | the tag of AES-256-GCM, which covers the length as well |
//!
//! The nonce of a record is its number in its direction (12 bytes, little-endian), which is not on the wire: a record that is changed,
//! left out, repeated, put elsewhere or taken from another connection fails to decrypt. After [`RECORDS_PER_KEY`] records the key is
//! replaced by one that is derived from it.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Mutex;

use hmac::{Hmac, Mac};
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_256_GCM, NONCE_LEN};
use sha2::Sha256;

use crate::handshake::{Key, SessionKeys};
use crate::lock::lock;
use crate::methods::Stream;
use crate::per_process::process_id;
use crate::shared_memory::arena::Arena;
use crate::wakeup::Interest;

/// Bytes of a record's content at most.
pub const CONTENT_MAX: usize = 64 * 1024;

/// Bytes of the length in front of a record.
const LENGTH: usize = 4;

/// Bytes of the tag behind a record's content.
const TAG: usize = 16;

/// Records that one key protects.
pub const RECORDS_PER_KEY: u64 = if cfg!(test) { 8 } else { 1 << 20 };

/// Bytes of one long write that are encrypted at a time: they are still near the processor when the system takes them, and under way while the
/// others wait.
const WRITTEN_AT_A_TIME: usize = 48 * 1024;

/// A write of no more bytes goes out at once: the other end would be woken for the first half of it.
const WRITTEN_AT_ONCE: usize = 2 * CONTENT_MAX;

/// Bytes of room for what is read: of a connection with small messages, and of one whose records are long.
const ROOM_LEAST: usize = 4 * 1024;
const ROOM_MOST: usize = 4 * (LENGTH + CONTENT_MAX + TAG);

const NEXT_KEY: &[u8] = b"xmml next key\0";

/// The key of one direction, and the number of the next record.
struct Sequence {
    bytes: Key,
    key: LessSafeKey,
    number: u64,
}

impl Sequence {
    fn new(bytes: Key) -> Sequence {
        Sequence { bytes, key: prepared(&bytes), number: 0 }
    }

    /// The nonce of the next record, with the key that it is for.
    fn next(&mut self) -> (&LessSafeKey, Nonce) {
        if self.number > 0 && self.number % RECORDS_PER_KEY == 0 {
            let mut mac = Hmac::<Sha256>::new_from_slice(&self.bytes).unwrap_or_else(|_| unreachable!("of any length"));
            mac.update(NEXT_KEY);
            self.bytes = mac.finalize().into_bytes().into();
            self.key = prepared(&self.bytes);
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        (&self.key, Nonce::assume_unique_for_key(nonce))
    }
}

fn prepared(bytes: &Key) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, bytes).unwrap_or_else(|_| unreachable!("a key has 32 bytes"));
    LessSafeKey::new(key)
}

/// What is written: encrypted records that the stream has not taken yet.
struct Sending {
    sequence: Sequence,
    records: Vec<u8>,
    /// Bytes of `records` that the stream has taken.
    taken: usize,
}

impl Sending {
    /// Appends a record with this content to those that wait; it is at `begin` in `records` already, behind room for the length.
    fn seal(&mut self, begin: usize) {
        let content = begin + LENGTH;
        let length = ((self.records.len() - content + TAG) as u32).to_le_bytes();
        self.records[begin..content].copy_from_slice(&length);
        let (key, nonce) = self.sequence.next();
        let tag = key
            .seal_in_place_separate_tag(nonce, Aad::from(length), &mut self.records[content..])
            .unwrap_or_else(|_| unreachable!("a record is far shorter than what a key may protect at once"));
        self.records.extend_from_slice(tag.as_ref());
    }

    /// Encrypts the first bytes of `parts`; returns how many.
    fn take_in(&mut self, parts: &[IoSlice<'_>]) -> usize {
        let mut count = 0;
        let mut begin = None;
        let offered: usize = parts.iter().map(|part| part.len()).sum();
        let most = if offered <= WRITTEN_AT_ONCE { offered } else { WRITTEN_AT_A_TIME };
        for part in parts {
            let mut rest = &part[..part.len().min(most - count)];
            count += rest.len();
            while !rest.is_empty() {
                let at = *begin.get_or_insert_with(|| {
                    let at = self.records.len();
                    self.records.extend_from_slice(&[0; LENGTH]);
                    at
                });
                let room = CONTENT_MAX - (self.records.len() - at - LENGTH);
                let (now, later) = rest.split_at(rest.len().min(room));
                self.records.extend_from_slice(now);
                rest = later;
                if now.len() == room {
                    self.seal(at);
                    begin = None;
                }
            }
        }
        if let Some(begin) = begin {
            self.seal(begin);
        }
        count
    }

    /// Writes what waits; `WouldBlock`: not all of it.
    fn pass_on(&mut self, stream: &dyn Stream) -> io::Result<()> {
        while self.taken < self.records.len() {
            match stream.write(&[IoSlice::new(&self.records[self.taken..])]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.records.clear();
        self.taken = 0;
        Ok(())
    }
}

/// What was read: a part of a record, or one that is decrypted and not taken yet.
struct Receiving {
    sequence: Sequence,
    /// Room for what the stream gives, of which `begin..end` is not decrypted yet.
    records: Vec<u8>,
    begin: usize,
    end: usize,
    /// Where decrypted bytes stand in `records`.
    content: Range<usize>,
    /// The most of the room that was used since it was last looked whether it is too large.
    peak: usize,
}

impl Receiving {
    fn new(key: Key, records: Vec<u8>) -> Receiving {
        let end = records.len();
        Receiving { sequence: Sequence::new(key), records, begin: 0, end, content: 0..0, peak: 0 }
    }

    /// The length of the next record with what stands in front of it, as far as it is known.
    fn next_len(&self) -> Option<usize> {
        let length = self.records[self.begin..self.end].first_chunk::<LENGTH>()?;
        Some(LENGTH.saturating_add(u32::from_le_bytes(*length) as usize))
    }

    /// Decrypts the next record if it is there as a whole.
    fn open(&mut self) -> io::Result<bool> {
        let Some(len) = self.next_len() else { return Ok(false) };
        if !(LENGTH + TAG + 1..=LENGTH + TAG + CONTENT_MAX).contains(&len) {
            return Err(damaged());
        }
        if self.end - self.begin < len {
            return Ok(false);
        }
        let (length, record) = self.records[self.begin..self.begin + len].split_at_mut(LENGTH);
        let (key, nonce) = self.sequence.next();
        let opened = key.open_in_place(nonce, Aad::from(&*length), record).map_err(|_| damaged())?.len();
        let from = self.begin + LENGTH;
        self.content = from..from + opened;
        self.begin += len;
        Ok(true)
    }

    /// Copies decrypted bytes; returns how many.
    fn give(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.content.len());
        into[..count].copy_from_slice(&self.records[self.content.start..self.content.start + count]);
        self.content.start += count;
        count
    }

    /// Reads more of the stream, when nothing decrypted is left; the number of bytes, 0 at its end.
    fn read(&mut self, stream: &dyn Stream) -> io::Result<usize> {
        self.records.copy_within(self.begin..self.end, 0);
        (self.begin, self.end, self.content) = (0, self.end - self.begin, 0..0);
        if self.end == self.records.len() {
            // All of it was needed: there is more to come.
            let more = (2 * self.records.len()).clamp(ROOM_LEAST, ROOM_MOST);
            self.records.resize(more, 0);
        }
        let count = stream.read(&mut self.records[self.end..])?;
        self.end += count;
        self.peak = self.peak.max(self.end);
        Ok(count)
    }

    /// Nothing is there to be read: gives memory back that was not needed lately.
    fn rest(&mut self) {
        let is_too_large = self.records.len() > ROOM_LEAST && self.peak < self.records.len() / 4;
        if self.begin == self.end && self.peak > 0 && is_too_large {
            self.records = vec![0; (2 * self.peak).max(ROOM_LEAST)];
            (self.begin, self.end, self.content) = (0, 0, 0..0);
        }
        self.peak = 0;
    }

    /// Whether a whole record is there, decrypted or not.
    fn has_more(&self) -> bool {
        !self.content.is_empty() || self.next_len().is_some_and(|len| self.end - self.begin >= len)
    }
}

/// What came is not what the other end wrote next.
fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "what came was changed, left out or put in on its way: it is not what the other end has encrypted next",
    )
}

/// A stream whose bytes nobody between its ends can read, or change without being found out.
pub struct ProtectedStream {
    stream: Box<dyn Stream>,
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
    /// The process whose stream it is. A child after fork has the same keys and counts on from the same record: what both would write
    /// under one key and number would give the key away.
    process: u32,
}

impl ProtectedStream {
    fn check_process(&self) -> io::Result<()> {
        if self.process == process_id() {
            return Ok(());
        }
        Err(io::Error::other("this protected connection belongs to the process that this one was forked from"))
    }

    /// Protects a stream from here on. Of what was read of it already, `records`, returns the content that is complete, too.
    ///
    /// # Errors
    /// `InvalidData` if what was read is not what the other end has written.
    pub fn new(
        stream: Box<dyn Stream>,
        keys: &SessionKeys,
        records: Vec<u8>,
    ) -> io::Result<(ProtectedStream, Vec<u8>)> {
        let sending = Sending { sequence: Sequence::new(keys.sending), records: Vec::new(), taken: 0 };
        let mut receiving = Receiving::new(keys.receiving, records);
        let mut content = Vec::new();
        while receiving.open()? {
            content.extend_from_slice(&receiving.records[receiving.content.clone()]);
            receiving.content = 0..0;
        }
        let (sending, receiving) = (Mutex::new(sending), Mutex::new(receiving));
        Ok((ProtectedStream { stream, sending, receiving, process: process_id() }, content))
    }
}

impl Stream for ProtectedStream {
    fn fd(&self) -> RawFd {
        self.stream.fd()
    }

    fn peer(&self) -> &str {
        self.stream.peer()
    }

    /// Less than asked for only if there is nothing more to be read, as of a socket.
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.check_process()?;
        let mut receiving = lock(&self.receiving);
        let mut count = 0;
        loop {
            count += receiving.give(&mut into[count..]);
            if count == into.len() {
                return Ok(count);
            }
            if receiving.open()? {
                continue;
            }
            match receiving.read(&*self.stream) {
                Ok(0) => return Ok(count),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if count > 0 => {
                    receiving.rest();
                    return Ok(count); // what is wrong with the stream, the next read says again
                }
                Err(error) => {
                    receiving.rest();
                    return Err(error);
                }
            }
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.check_process()?;
        let mut sending = lock(&self.sending);
        sending.pass_on(&*self.stream)?;
        let count = sending.take_in(parts);
        match sending.pass_on(&*self.stream) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count), // what has not gone out is kept for the next write, or for `flush`
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.check_process()?;
        lock(&self.sending).pass_on(&*self.stream)
    }

    fn reads_ahead(&self) -> bool {
        lock(&self.receiving).has_more()
    }

    fn shut(&self) {
        self.stream.shut();
    }

    fn opening(&self) -> Option<Interest> {
        self.stream.opening()
    }

    fn can_fall_silent(&self) -> bool {
        self.stream.can_fall_silent()
    }

    fn is_protected(&self) -> bool {
        true
    }

    fn leaves_host(&self) -> bool {
        self.stream.leaves_host()
    }

    fn established(&self, arena: &Arena) -> io::Result<()> {
        self.stream.established(arena)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    /// One direction of a stream in memory, which takes and gives at most so many bytes at a time.
    #[derive(Default)]
    struct Narrow {
        bytes: Mutex<VecDeque<u8>>,
        room: usize,
        step: usize,
    }

    impl Narrow {
        fn new(room: usize, step: usize) -> Arc<Narrow> {
            Arc::new(Narrow { room, step, ..Narrow::default() })
        }
    }

    impl Stream for Arc<Narrow> {
        fn fd(&self) -> RawFd {
            -1
        }

        fn peer(&self) -> &str {
            "narrow"
        }

        fn read(&self, into: &mut [u8]) -> io::Result<usize> {
            let mut bytes = lock(&self.bytes);
            let count = into.len().min(bytes.len()).min(self.step);
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            into.iter_mut().zip(bytes.drain(..count)).for_each(|(to, from)| *to = from);
            Ok(count)
        }

        fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut bytes = lock(&self.bytes);
            let room = (self.room - bytes.len()).min(self.step);
            if room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let before = bytes.len();
            bytes.extend(parts.iter().flat_map(|part| part.iter().copied()).take(room));
            Ok(bytes.len() - before)
        }

        fn shut(&self) {}
    }

    const THERE: Key = [1; 32];
    const BACK: Key = [2; 32];

    /// The two ends of a stream whose bytes from the first to the second pass `between`.
    fn ends(between: &Arc<Narrow>) -> (ProtectedStream, ProtectedStream) {
        let here = SessionKeys { sending: THERE, receiving: BACK };
        let there = SessionKeys { sending: BACK, receiving: THERE };
        let end = |keys| ProtectedStream::new(Box::new(between.clone()), keys, Vec::new()).unwrap().0;
        (end(&here), end(&there))
    }

    fn write(end: &ProtectedStream, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[end.write(&[IoSlice::new(rest)]).unwrap()..];
        }
        end.flush().unwrap();
    }

    /// The records that an end makes of these writes.
    fn records(writes: &[&[u8]]) -> Vec<Vec<u8>> {
        let between = Narrow::new(usize::MAX, usize::MAX);
        let (here, _) = ends(&between);
        let record = |bytes: &&[u8]| {
            write(&here, bytes);
            lock(&between.bytes).drain(..).collect()
        };
        writes.iter().map(record).collect()
    }

    #[test]
    fn a_child_after_fork_neither_writes_nor_reads_records_of_its_parent() {
        let between = Narrow::new(usize::MAX, usize::MAX);
        let (here, there) = ends(&between);
        write(&here, b"from the parent");
        // SAFETY: the child calls nothing but the functions under test, which take locks that no other thread has, and _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_refused = here.write(&[IoSlice::new(b"from the child")]).is_err()
                && here.flush().is_err()
                && there.read(&mut [0; 100]).is_err();
            // SAFETY: it ends this process.
            unsafe { libc::_exit(i32::from(!is_refused)) };
        }
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child could use the connection");
        let mut read = [0; 100];
        assert_eq!(there.read(&mut read).unwrap(), 15, "the parent goes on");
    }

    /// What an end reads of these bytes until there is no more, and how that ended.
    fn read_of(bytes: Vec<u8>) -> (Vec<u8>, io::ErrorKind) {
        let between = Narrow::new(usize::MAX, usize::MAX);
        lock(&between.bytes).extend(bytes);
        let (_, there) = ends(&between);
        let mut read = Vec::new();
        loop {
            let mut into = [0; 1000];
            match there.read(&mut into) {
                Ok(count) => read.extend_from_slice(&into[..count]),
                Err(error) => return (read, error.kind()),
            }
        }
    }

    proptest! {
        #[test]
        fn bytes_arrive_however_they_are_cut(
            writes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3000), 1..40),
            scale in prop_oneof![Just(1), Just(100)],
            room in 1_usize..5000,
            step in 1_usize..2000,
            taken in 1_usize..4000,
        ) {
            let writes: Vec<Vec<u8>> = writes.into_iter().map(|write| write.repeat(scale)).collect();
            let (room, step, taken) = (room * scale, step * scale, taken * scale);
            let between = Narrow::new(room, step);
            let (here, there) = ends(&between);
            let (mut waiting, mut read) = (writes.concat(), Vec::new());
            let expected = waiting.clone();
            while read.len() < expected.len() {
                let written = match waiting.is_empty() {
                    true => here.flush().map(|()| 0),
                    false => here.write(&[IoSlice::new(&waiting[..waiting.len().min(taken)])]),
                };
                match written {
                    Ok(count) => drop(waiting.drain(..count)),
                    Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                let mut into = vec![0; taken];
                match there.read(&mut into) {
                    Ok(count) => read.extend_from_slice(&into[..count]),
                    Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            prop_assert!(read == expected);
        }

        #[test]
        fn a_changed_byte_is_found_out(at in any::<proptest::sample::Index>(), flips in 1_u8..) {
            let mut bytes = records(&[b"some numbers", b"some more"]).concat();
            let at = at.index(bytes.len());
            bytes[at] ^= flips;
            let (read, end) = read_of(bytes);
            // A length that grows makes the reader wait for more; nothing that was changed is ever given.
            prop_assert!(matches!(end, io::ErrorKind::InvalidData | io::ErrorKind::WouldBlock));
            prop_assert!(b"some numbers".starts_with(&read) && read.len() != 12 + 9);
        }
    }

    #[test]
    fn a_record_that_is_left_out_repeated_or_put_elsewhere_is_found_out() {
        let all = records(&[b"one", b"two", b"three"]);
        let of = |order: &[usize]| read_of(order.iter().flat_map(|at| all[*at].clone()).collect());
        assert_eq!(of(&[0, 1, 2]), (b"onetwothree".to_vec(), io::ErrorKind::WouldBlock));
        for order in [&[1][..], &[0, 2], &[0, 0], &[0, 2, 1], &[0, 1, 0]] {
            assert_eq!(of(order).1, io::ErrorKind::InvalidData, "{order:?}");
        }
    }

    #[test]
    fn who_reads_on_behind_a_record_that_was_left_out_gets_nothing() {
        let all = records(&[b"one", b"two", b"three", b"four"]);
        let between = Narrow::new(usize::MAX, usize::MAX);
        lock(&between.bytes).extend(all[1..].concat());
        let (_, there) = ends(&between);
        for _ in 0..4 {
            assert_eq!(there.read(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_record_of_the_other_direction_is_found_out() {
        let between = Narrow::new(usize::MAX, usize::MAX);
        let (here, _) = ends(&between);
        write(&here, b"one");
        assert_eq!(here.read(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn nothing_of_the_content_is_seen_in_between() {
        let content = [7_u8; 10_000];
        let record = &records(&[&content])[0];
        assert_eq!(record.len(), LENGTH + content.len() + TAG);
        assert!(!record.windows(4).any(|window| window == [7; 4]));
    }

    #[test]
    fn the_same_content_looks_different_after_the_key_is_replaced_and_is_read_all_the_same() {
        let writes = vec![&b"again"[..]; 3 * RECORDS_PER_KEY as usize];
        let all = records(&writes);
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
        assert_eq!(read_of(all.concat()).0, b"again".repeat(writes.len()));
        let first = Sequence::new(THERE);
        let mut later = Sequence::new(THERE);
        for _ in 0..=RECORDS_PER_KEY {
            later.next();
        }
        assert_ne!(first.bytes, later.bytes);
    }

    #[test]
    fn what_was_read_before_the_protection_began_is_opened() {
        let bytes = records(&[b"one", b"two"]).concat();
        let keys = SessionKeys { sending: BACK, receiving: THERE };
        let between = Narrow::new(usize::MAX, usize::MAX);
        let (whole, part) = bytes.split_at(bytes.len() - 3);
        let (stream, content) = ProtectedStream::new(Box::new(between.clone()), &keys, whole.to_vec()).unwrap();
        assert_eq!(content, b"one");
        lock(&between.bytes).extend(part);
        let mut into = [0; 10];
        let count = stream.read(&mut into).unwrap();
        assert_eq!(&into[..count], b"two");
    }

    #[test]
    fn a_reader_says_that_more_is_there_than_it_was_asked_for() {
        let between = Narrow::new(usize::MAX, usize::MAX);
        let (here, there) = ends(&between);
        assert!(!there.reads_ahead());
        write(&here, b"one");
        write(&here, b"two");
        for (wanted, more) in [(1, true), (2, true), (3, false)] {
            assert_eq!(there.read(&mut vec![0; wanted]).unwrap(), wanted);
            assert_eq!(there.reads_ahead(), more, "after {wanted}");
        }
    }

    #[test]
    fn a_connection_gives_back_the_room_of_long_messages_when_only_short_ones_come() {
        let between = Narrow::new(usize::MAX, usize::MAX);
        let (here, there) = ends(&between);
        let mut into = vec![0; 1 << 20];
        let mut receive = |length: usize| {
            write(&here, &vec![1; length]);
            assert_eq!(there.read(&mut into).unwrap(), length);
            assert!(there.read(&mut into).is_err());
            lock(&there.receiving).records.len()
        };
        assert_eq!(receive(1), ROOM_LEAST);
        assert!(receive(4 * CONTENT_MAX) > ROOM_LEAST);
        receive(1);
        assert_eq!(receive(1), ROOM_LEAST);
        assert!(receive(4 * CONTENT_MAX) > ROOM_LEAST);
    }

    #[test]
    fn a_record_longer_than_any_is_refused_before_it_is_waited_for() {
        assert_eq!(read_of(vec![0xff; 4]).1, io::ErrorKind::InvalidData);
        assert_eq!(read_of(vec![TAG as u8, 0, 0, 0]).1, io::ErrorKind::InvalidData);
    }
}
