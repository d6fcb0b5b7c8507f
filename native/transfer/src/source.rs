//! The end that has the files: lists, reads, sends what the other end lacks.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::listing::{listing, nanoseconds, Entry, Found, Kind, Origin};
use crate::message::{self, Piece, ToSource, MOST_DATA, MOST_ENTRIES, MOST_PIECES};
use crate::ranges::{digest, ranges, stands, Digest, Range, DIGEST};
use crate::report::{Progress, Report};
use crate::{reason, Failure, Peer, Stop};

/// How often an end that waits looks whether it shall stop.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// A target that stops says why before it closes the connection, so that the reason has arrived, or arrives soon.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(2);

/// Gives files away.
pub struct Source {
    sources: Vec<Origin>,
    heard: Mutex<VecDeque<Heard>>,
    news: Condvar,
    /// Files that the target cannot write.
    failed: Mutex<HashSet<u64>>,
    /// Nothing will be heard any more.
    is_lost: AtomicBool,
    /// Files may grow while they are copied.
    may_grow: bool,
    /// How far it is.
    pub progress: Progress,
}

/// What has come from the target; an error: the connection is gone, or it was none of the protocol.
type Heard = Result<ToSource, Failure>;

impl Source {
    /// An end that gives these files and folders.
    pub fn new(sources: Vec<Origin>) -> Source {
        Source {
            sources,
            heard: Mutex::default(),
            news: Condvar::new(),
            failed: Mutex::default(),
            is_lost: AtomicBool::new(false),
            may_grow: false,
            progress: Progress::default(),
        }
    }

    /// Gives files that grow meanwhile as they were when they were listed: logs, for one.
    pub fn of_growing_files(self) -> Source {
        Source { may_grow: true, ..self }
    }

    /// Queues a message of the target; never blocks. Returns false after the target's last message.
    pub fn hear(&self, message: &[u8]) -> bool {
        let heard = ToSource::read(message).map_err(Failure::Malformed);
        let goes_on = heard.as_ref().is_ok_and(|heard| !heard.is_last());
        if let Ok(ToSource::Failed(file, _)) = &heard {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(*file);
        }
        self.put(heard);
        goes_on
    }

    /// Nothing will be heard any more: the connection is gone.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
        self.put(Err(Failure::Stopped));
    }

    /// Why the target has stopped, if it has said so; for after a message could not be sent. Waits for the reason while the other thread
    /// still hears.
    pub fn last_word(&self) -> Option<String> {
        let may_come = |waiting: &mut VecDeque<Heard>| {
            !self.is_lost.load(Ordering::Relaxed) && !waiting.iter().flatten().any(ToSource::is_last)
        };
        let (mut waiting, _) = self
            .news
            .wait_timeout_while(self.waiting(), LAST_WORD_WITHIN, may_come)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting).into_iter().flatten().find_map(|heard| match heard {
            ToSource::Stopped(why) | ToSource::Refused(why) => Some(why),
            _ => None,
        })
    }

    fn put(&self, heard: Heard) {
        self.waiting().push_back(heard);
        self.news.notify_one();
    }

    fn has_failed(&self, file: u64) -> bool {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).contains(&file)
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, peer: &dyn Peer) -> Result<ToSource, Failure> {
        loop {
            let (mut waiting, _) = self
                .news
                .wait_timeout_while(self.waiting(), CHECK_EVERY, |waiting| waiting.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(heard) = waiting.pop_front() {
                return heard;
            }
            drop(waiting);
            peer.check()?;
        }
    }

    /// Copies everything; returns what came of it. Another thread hears meanwhile.
    ///
    /// # Errors
    /// It shall stop, or the target cannot go on or does not keep to the protocol, which the target is told. What stands at the target is
    /// kept there for the next attempt.
    pub fn run(&self, peer: &dyn Peer) -> Result<Report, Failure> {
        let done = self.give_all(peer);
        if let Err(failure @ Failure::Malformed(_)) = &done {
            let _ = peer.send(&[&message::refused(&failure.to_string())]); // the failure is the same if nobody hears of it
        }
        done
    }

    fn give_all(&self, peer: &dyn Peer) -> Result<Report, Failure> {
        let mut giving = Giving {
            peer,
            source: self,
            entries: Vec::new(),
            chunk: Chunk::default(),
            report: Report::default(),
            unanswered: HashSet::new(),
            ahead: None,
        };
        giving.list(&self.sources)?;
        giving.read_ahead();
        let (mut is_considered, mut is_owed) = (false, false);
        loop {
            match self.next(peer)? {
                ToSource::Have(file, digests) if digests.len() % DIGEST == 0 => giving.give(file, &digests)?,
                ToSource::Stands(file) => {
                    let size = giving.entry(file)?.entry.size;
                    giving.report.untouched += 1;
                    self.progress.advance(size);
                }
                ToSource::Again(file, altered) => {
                    giving.give_again(file, &altered)?;
                    is_owed = true;
                }
                ToSource::Stored(file) => {
                    giving.unanswered.remove(&file);
                }
                ToSource::Failed(file, why) => {
                    let path = giving.entry(file)?.entry.path.clone();
                    giving.unanswered.remove(&file);
                    giving.report.failed.push((path, why));
                }
                ToSource::Considered => (is_considered, is_owed) = (true, true),
                ToSource::Done if is_considered && giving.unanswered.is_empty() => return Ok(giving.report),
                ToSource::Stopped(why) | ToSource::Refused(why) => return Err(Failure::PeerFailed(why)),
                ToSource::Have(..) => return Err(malformed("the digests of a file have not come whole")),
                ToSource::Done => return Err(malformed("the target says that it is done, but it is not")),
            }
            if self.waiting().is_empty() {
                giving.flush()?;
                if is_considered && is_owed {
                    // Without waiting for what is stored: the target knows by itself what it still lacks.
                    peer.send(&[&message::finished()])?;
                    is_owed = false;
                }
            }
        }
    }
}

fn malformed(what: &str) -> Failure {
    Failure::Malformed(what.to_owned())
}

/// Pieces of files that travel together.
#[derive(Default)]
struct Chunk {
    pieces: Vec<Piece>,
    data: Vec<u8>,
    ends: Vec<u64>,
}

/// Why a file cannot be copied.
enum Spoilt {
    File(String),
    Stop(Stop),
}

impl From<io::Error> for Spoilt {
    fn from(error: io::Error) -> Spoilt {
        Spoilt::File(match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                "it became shorter while it was copied; copy it again when nobody writes to it".to_owned()
            }
            _ => reason(&error),
        })
    }
}

impl From<Stop> for Spoilt {
    fn from(stop: Stop) -> Spoilt {
        Spoilt::Stop(stop)
    }
}

struct Giving<'a> {
    peer: &'a dyn Peer,
    source: &'a Source,
    entries: Vec<Found>,
    chunk: Chunk,
    report: Report,
    unanswered: HashSet<u64>,
    /// Where the first file begins: its number, the range, the bytes, their checksum.
    ahead: Option<(u64, Range, Vec<u8>, Digest)>,
}

impl Giving<'_> {
    fn entry(&self, number: u64) -> Result<&Found, Failure> {
        let found = usize::try_from(number).ok().and_then(|number| self.entries.get(number));
        found.ok_or_else(|| Failure::Malformed(format!("there is no entry {number}")))
    }

    fn list(&mut self, sources: &[Origin]) -> Result<(), Stop> {
        let mut told = 0;
        let mut left_out = Vec::new();
        for found in listing(sources) {
            self.peer.check()?;
            let found = match found {
                Ok(found) => found,
                Err(each) => {
                    left_out.push(each);
                    continue;
                }
            };
            if found.entry.kind == Kind::File {
                self.report.files += 1;
                self.report.size += found.entry.size;
            }
            self.entries.push(found);
            if self.entries.len() - told == MOST_ENTRIES {
                told = self.tell_entries(told)?;
            }
        }
        self.tell_entries(told)?;
        self.peer.send(&[&message::listed(self.report.files, self.report.size, &left_out)])?;
        self.report.failed.extend(left_out.into_iter().map(|each| (each.path, each.reason)));
        self.source.progress.set_total(self.report.files, self.report.size);
        Ok(())
    }

    /// Sends the entries from this number on; returns the number of the next.
    fn tell_entries(&self, first: usize) -> Result<usize, Stop> {
        let entries = self.entries[first..].iter().map(|found| &found.entry);
        if entries.len() > 0 {
            self.peer.send(&[&message::entries(first as u64, entries)])?;
        }
        Ok(self.entries.len())
    }

    /// Reads where the first file begins while the target still considers what it lacks: mostly all of it. What goes wrong is found out,
    /// and told, when the file is given.
    fn read_ahead(&mut self) {
        let first = self.entries.iter().position(|found| found.entry.kind == Kind::File);
        let Some(number) = first else { return };
        let found = &self.entries[number];
        let Some(range) = ranges(found.entry.size).next() else { return };
        let mut data = vec![0; range.length];
        if open(found).and_then(|file| file.read_exact_at(&mut data, range.offset)).is_ok() {
            let checksum = digest(&data);
            self.ahead = Some((number as u64, range, data, checksum));
        }
    }

    /// Sends the ranges of a file that the other end lacks.
    fn give(&mut self, number: u64, digests: &[u8]) -> Result<(), Failure> {
        let found = self.entry(number)?.clone();
        self.unanswered.insert(number);
        let given = self.read_and_add(number, &found, digests);
        self.ended(number, found.entry.path, given)
    }

    fn read_and_add(&mut self, number: u64, found: &Found, digests: &[u8]) -> Result<(), Spoilt> {
        let file = open(found)?;
        self.check_as_listed(&found.entry, &file)?;
        for (place, range) in ranges(found.entry.size).enumerate() {
            if self.source.is_lost.load(Ordering::Relaxed) {
                return Err(Stop.into());
            }
            if self.source.has_failed(number) {
                return Ok(()); // the target needs no more of it
            }
            self.peer.check()?;
            self.add(number, range, &file, |checksum| !stands(digests, place, checksum))?;
            self.source.progress.advance(range.length as u64);
            self.source.progress.compare(range.length as u64);
        }
        self.check_as_listed(&found.entry, &file)
    }

    /// Checks that a file is as it was when it was listed, or has only grown where that is allowed.
    fn check_as_listed(&self, entry: &Entry, file: &File) -> Result<(), Spoilt> {
        let status = file.metadata()?;
        let modified_ns = nanoseconds(status.mtime(), status.mtime_nsec());
        let is_as_listed = (status.len(), modified_ns) == (entry.size, entry.modified_ns);
        let has_grown = self.source.may_grow && status.len() >= entry.size;
        match status.is_file() && (is_as_listed || has_grown) {
            true => Ok(()),
            false => {
                Err(Spoilt::File("it changed while it was copied; copy it again when nobody writes to it".to_owned()))
            }
        }
    }

    fn give_again(&mut self, number: u64, altered: &[Range]) -> Result<(), Failure> {
        let found = self.entry(number)?.clone();
        let size = found.entry.size;
        let is_in = |range: &Range| {
            (1..=MOST_DATA).contains(&range.length) && range.length as u64 <= size.saturating_sub(range.offset)
        };
        if !altered.iter().all(is_in) {
            return Err(malformed("a range that does not exist is asked for again"));
        }
        let mut read_again = || {
            let file = open(&found)?;
            altered.iter().try_for_each(|range| self.add(number, *range, &file, |_| true))
        };
        let given = read_again();
        self.ended(number, found.entry.path, given)
    }

    /// Tells that a file is complete, with its last piece, or that it cannot be copied, behind what has been sent of it.
    fn ended(&mut self, number: u64, path: OsString, given: Result<(), Spoilt>) -> Result<(), Failure> {
        match given {
            Ok(()) => {
                self.chunk.ends.push(number);
                if self.chunk.ends.len() == MOST_PIECES {
                    self.flush()?;
                }
            }
            Err(Spoilt::Stop(stop)) => return Err(stop.into()),
            Err(Spoilt::File(why)) => {
                self.flush()?;
                self.peer.send(&[&message::spoilt(number, &why)])?;
                self.unanswered.remove(&number);
                self.report.failed.push((path, why));
            }
        }
        Ok(())
    }

    /// Reads a range into the chunk, and leaves it there if its checksum says that it is needed.
    fn add(
        &mut self,
        number: u64,
        range: Range,
        file: &File,
        is_needed: impl Fn(&Digest) -> bool,
    ) -> Result<(), Spoilt> {
        if self.chunk.data.len() + range.length > MOST_DATA {
            self.flush()?;
        }
        let begin = self.chunk.data.len();
        let checksum = match self.ahead.take() {
            Some((of, beginning, data, checksum)) if (of, beginning) == (number, range) => {
                self.chunk.data.extend_from_slice(&data);
                checksum
            }
            _ => {
                self.chunk.data.resize(begin + range.length, 0);
                let data = &mut self.chunk.data[begin..];
                if let Err(error) = file.read_exact_at(data, range.offset) {
                    self.chunk.data.truncate(begin);
                    return Err(error.into());
                }
                digest(data)
            }
        };
        if !is_needed(&checksum) {
            self.chunk.data.truncate(begin);
            return Ok(());
        }
        self.chunk.pieces.push(Piece { file: number, range, digest: checksum });
        if self.chunk.data.len() == MOST_DATA || self.chunk.pieces.len() == MOST_PIECES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Stop> {
        let Chunk { pieces, data, ends } = &mut self.chunk;
        if pieces.is_empty() && ends.is_empty() {
            return Ok(());
        }
        self.report.sent += data.len() as u64;
        let (before, behind) = message::around_chunk(pieces, data.len(), ends);
        self.peer.send(&[&before, data, &behind])?;
        pieces.clear();
        data.clear();
        ends.clear();
        Ok(())
    }
}

fn open(found: &Found) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&found.file)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt;
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::message::ToTarget;
    use crate::tests::Folder;

    /// A target that keeps what comes.
    struct Kept(Mutex<mpsc::Sender<Vec<u8>>>);

    impl Kept {
        fn new() -> (Kept, mpsc::Receiver<Vec<u8>>) {
            let (sender, receiver) = mpsc::channel();
            (Kept(Mutex::new(sender)), receiver)
        }
    }

    impl Peer for Kept {
        fn send(&self, message: &[&[u8]]) -> Result<(), Stop> {
            self.0.lock().unwrap().send(message.concat()).map_err(|_| Stop)
        }

        fn check(&self) -> Result<(), Stop> {
            Ok(())
        }
    }

    fn failure(source: &Source) -> Failure {
        let (peer, _sent) = Kept::new();
        source.run(&peer).unwrap_err()
    }

    /// Waits until somebody has read a file since `watched_for_reading` was asked.
    fn wait_until_read(watch: &OwnedFd) {
        let mut events = [0_u8; 256];
        // SAFETY: pointer and length describe `events`.
        let length = unsafe { libc::read(watch.as_raw_fd(), events.as_mut_ptr().cast(), events.len()) };
        assert!(length > 0);
    }

    fn watched_for_reading(file: &std::path::Path) -> OwnedFd {
        let name = CString::new(file.as_os_str().as_bytes()).unwrap();
        // SAFETY: the descriptor is new and the name ends with a zero byte.
        unsafe {
            let watch = OwnedFd::from_raw_fd(libc::inotify_init1(libc::IN_CLOEXEC));
            assert!(libc::inotify_add_watch(watch.as_raw_fd(), name.as_ptr(), libc::IN_ACCESS) >= 0);
            watch
        }
    }

    #[test]
    fn the_source_reads_ahead_while_the_target_considers() {
        let folder = Folder::new();
        let file = folder.path().join("file");
        fs::write(&file, vec![7; 1000]).unwrap();
        let (source, (peer, sent)) = (Source::new(vec![file.clone().into()]), Kept::new());
        let watch = watched_for_reading(&file);
        let report = thread::scope(|scope| {
            let running = scope.spawn(|| source.run(&peer));
            wait_until_read(&watch); // nothing was heard of the target yet
            source.hear(&ToSource::Have(0, vec![]).to_bytes());
            let mut chunks = sent.iter().filter(
                |message| matches!(ToTarget::read(message), Ok(ToTarget::Chunk { data, .. }) if data == [7; 1000]),
            );
            assert!(chunks.next().is_some());
            for answer in [ToSource::Considered, ToSource::Stored(0), ToSource::Done] {
                source.hear(&answer.to_bytes());
            }
            running.join().unwrap().unwrap()
        });
        assert_eq!((report.files, report.size, report.sent), (1, 1000, 1000));
    }

    #[test]
    fn a_file_that_may_grow_is_given_as_it_was_when_it_was_listed() {
        let folder = Folder::new();
        let file = folder.path().join("log");
        for (grows, is_given) in [(true, true), (false, false)] {
            fs::write(&file, "begun").unwrap();
            let source = Source::new(vec![file.clone().into()]);
            let source = if grows { source.of_growing_files() } else { source };
            let (peer, sent) = Kept::new();
            let report = thread::scope(|scope| {
                let running = scope.spawn(|| source.run(&peer));
                let is_listed = |message: &Vec<u8>| matches!(ToTarget::read(message), Ok(ToTarget::Listed { .. }));
                assert!(sent.iter().any(|message| is_listed(&message)));
                fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b" and gone on").unwrap();
                source.hear(&ToSource::Have(0, vec![]).to_bytes());
                let data = sent.iter().find_map(|message| match ToTarget::read(&message) {
                    Ok(ToTarget::Chunk { data, .. }) => Some(data.to_vec()),
                    Ok(ToTarget::Spoilt(..)) => Some(vec![]),
                    _ => None,
                });
                assert_eq!(data.unwrap(), if is_given { &b"begun"[..] } else { b"" });
                let answers =
                    [Some(ToSource::Considered), is_given.then_some(ToSource::Stored(0)), Some(ToSource::Done)];
                for answer in answers.into_iter().flatten() {
                    source.hear(&answer.to_bytes());
                }
                running.join().unwrap().unwrap()
            });
            assert_eq!(report.failed.is_empty(), is_given);
        }
    }

    /// A target that cannot write what comes.
    struct Failing<'a>(&'a Source);

    impl Peer for Failing<'_> {
        fn send(&self, message: &[&[u8]]) -> Result<(), Stop> {
            if matches!(ToTarget::read(&message.concat()), Ok(ToTarget::Chunk { .. })) {
                self.0.hear(&ToSource::Failed(0, "Permission denied".to_owned()).to_bytes());
                self.0.hear(&ToSource::Done.to_bytes());
            }
            Ok(())
        }

        fn check(&self) -> Result<(), Stop> {
            Ok(())
        }
    }

    #[test]
    fn a_file_that_the_target_cannot_write_is_given_no_further() {
        let folder = Folder::new();
        let file = folder.path().join("file");
        fs::File::create(&file).unwrap().set_len(200 << 20).unwrap();
        let source = Source::new(vec![file.into()]);
        for answer in [ToSource::Have(0, vec![]), ToSource::Considered] {
            source.hear(&answer.to_bytes());
        }
        let report = source.run(&Failing(&source)).unwrap();
        assert_eq!(report.failed, [("file".into(), "Permission denied".to_owned())]);
        assert!(report.sent < 10 << 20, "{}", report.sent);
    }

    /// A target that has closed the connection.
    struct Gone;

    impl Peer for Gone {
        fn send(&self, _: &[&[u8]]) -> Result<(), Stop> {
            Err(Stop)
        }

        fn check(&self) -> Result<(), Stop> {
            Ok(())
        }
    }

    #[test]
    fn why_the_target_stopped_is_known_also_when_it_arrives_after_a_message_could_not_be_sent() {
        let source = Source::new(vec![]);
        source.hear(&ToSource::Considered.to_bytes());
        assert!(matches!(source.run(&Gone), Err(Failure::Stopped)));
        let said = thread::scope(|scope| {
            let last = scope.spawn(|| source.last_word());
            source.hear(&ToSource::Stopped("the disk is full".to_owned()).to_bytes());
            last.join().unwrap()
        });
        assert_eq!(said.as_deref(), Some("the disk is full"));
    }

    #[test]
    fn a_target_that_is_gone_without_a_word_is_waited_for_no_longer() {
        let source = Source::new(vec![]);
        source.hear(&ToSource::Considered.to_bytes());
        source.lose();
        assert_eq!(source.last_word(), None);
    }

    #[test]
    fn an_answer_about_what_was_never_listed_ends_the_copy() {
        let never = u64::MAX;
        for answer in [
            ToSource::Have(never, vec![]),
            ToSource::Stands(never),
            ToSource::Failed(never, String::new()),
            ToSource::Again(0, vec![]),
            ToSource::Have(0, vec![1]),
            ToSource::Done,
        ] {
            let source = Source::new(vec![]);
            source.hear(&answer.to_bytes());
            let failure = failure(&source);
            assert!(matches!(failure, Failure::Malformed(_)), "{answer:?}: {failure}");
        }
    }

    #[test]
    fn ranges_that_a_file_has_not_are_not_read_again() {
        let folder = Folder::new();
        let file = folder.path().join("file");
        fs::write(&file, "data").unwrap();
        for (offset, length) in [(0, 5), (4, 1), (u64::MAX, 1), (0, 0), (0, MOST_DATA + 1)] {
            let source = Source::new(vec![file.clone().into()]);
            source.hear(&ToSource::Again(0, vec![Range { offset, length }]).to_bytes());
            let failure = failure(&source);
            assert!(failure.to_string().contains("a range that does not exist"), "{failure}");
        }
    }
}
