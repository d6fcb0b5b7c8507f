//! The end that gets the files: compares with what is there, writes, checks every range.

mod asked;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::listing::{Entry, Kind};
use crate::message::{Piece, ToSource, ToTarget, MOST_DATA, MOST_PIECES};
use crate::ranges::{digest, digests, ranges, Range, DIGEST, MOST_DIGESTS, RANGE};
use crate::report::{Progress, Report};
use crate::tree::{dress, Layout, Status, Tree, Version, LOCK_LIMIT, LOCK_PAUSE};
use crate::{reason, Failure, Peer, Stop};

use self::asked::Asked;

/// A range that has arrived altered so often fails: the disk or memory of the source is broken.
const MOST_ATTEMPTS: u32 = 3;
/// Of a file that turns out to be another than the source was sent the digests of, so many bytes are asked for again at most: the list of the
/// ranges of a longer one would take much memory, and a source may name any length.
const MOST_AGAIN: u64 = (MOST_DIGESTS / DIGEST * RANGE) as u64;
/// So many ranges of a copy may arrive altered. Each is noted, and a source that lies could name ranges until the memory here is full.
const MOST_ALTERED: u32 = 1 << 20;
/// Memory that an entry takes here beside its names [bytes], at most.
const ENTRY_MEMORY: usize = 192;
/// Memory that a failure takes here beside its path and its reason [bytes], at most.
const FAILURE_MEMORY: usize = 512;
/// Memory that a byte of a path or reason of a failure takes [bytes], at most: Python, which gets them, has four for each character of a text
/// in which one is beyond U+FFFF.
const TEXT_MEMORY: usize = 4;
/// Errors after which no file can be written, with the advice to the user.
const NO_ROOM: [(i32, &str); 3] = [
    (libc::ENOSPC, "make room and copy again: what has come is kept"),
    (libc::EDQUOT, "make room and copy again: what has come is kept"),
    (libc::EROFS, "copy to another place, or have this one mounted for writing"),
];

/// Takes files, below a folder. One thread [considers](Target::consider) what is there already, another hears what comes.
pub struct Target {
    compare: bool,
    asked: Asked,
    listing_memory: usize,
    find_base: FindBase,
    pending: Mutex<Pending>,
    news: Condvar,
    /// What the source was sent the digests of, by the number of the file.
    compared: Mutex<HashMap<u64, Compared>>,
    report: Mutex<Report>,
    /// As the thread that considers sees it.
    tree: Mutex<Tree>,
    receiving: Mutex<Receiving>,
    /// Memory that the listing takes, and what has failed of it [bytes].
    held: AtomicUsize,
    is_stopped: AtomicBool,
    /// How far it is.
    pub progress: Progress,
}

/// Finds an earlier version of a file that has no version under its own name.
pub type FindBase = Box<dyn Fn(&Entry) -> Option<File> + Send + Sync>;

/// What waits to be considered; `None`: nothing more will come.
type Pending = VecDeque<Option<(u64, Arc<Entry>)>>;

struct Receiving {
    tree: Tree,
    entries: Vec<Arc<Entry>>,
    paths: HashSet<ByPath>,
    is_listed: bool,
    altered: u32,
    /// The names of files and folders that were asked for without a name.
    unnamed: HashSet<OsString>,
    arriving: HashMap<u64, PartialFile>,
    /// Files that have failed, at the target or the source: more of them may be on its way.
    given_up: HashSet<u64>,
}

/// An entry that is found by its path, which therefore stands in memory once.
struct ByPath(Arc<Entry>);

impl Hash for ByPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.path.hash(state);
    }
}

impl PartialEq for ByPath {
    fn eq(&self, other: &ByPath) -> bool {
        self.0.path == other.0.path
    }
}

impl Eq for ByPath {}

/// The content that the digests of a file are of. The source sends nothing of what stands in it.
#[derive(Clone, Copy)]
enum Compared {
    /// What an interrupted copy has left.
    Part(Version),
    /// An earlier version of the file.
    Earlier(Version),
}

/// A file that is being written.
struct PartialFile {
    file: File,
    /// Ranges that the source has to send again, and how often in a row each has come altered.
    lacking: BTreeMap<Range, u32>,
    received: u64,
}

/// Why an entry cannot be considered.
enum Trouble {
    Entry(io::Error),
    Stop(Stop),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Entry(error)
    }
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Trouble {
        Trouble::Stop(stop)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(peer: &dyn Peer, message: &ToSource) -> Result<(), Stop> {
    peer.send(&[&message.to_bytes()])
}

impl Target {
    /// An end that puts files there. With `compare`, files of the same size and time are compared by their checksums, too.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn new(layout: Layout, compare: bool) -> io::Result<Target> {
        let receiving_tree = Tree::new(layout.clone())?;
        Ok(Target {
            compare,
            asked: Asked::All,
            listing_memory: usize::MAX,
            find_base: Box::new(|_| None),
            pending: Mutex::default(),
            news: Condvar::new(),
            compared: Mutex::default(),
            report: Mutex::default(),
            tree: Mutex::new(Tree::new(layout)?),
            receiving: Mutex::new(Receiving {
                tree: receiving_tree,
                entries: Vec::new(),
                paths: HashSet::new(),
                is_listed: false,
                altered: 0,
                unnamed: HashSet::new(),
                arriving: HashMap::new(),
                given_up: HashSet::new(),
            }),
            held: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            progress: Progress::default(),
        })
    }

    /// Has files that have no version under their own name begin as a copy of what this finds.
    pub fn based_on(self, find_base: FindBase) -> Target {
        Target { find_base, ..self }
    }

    /// Takes nothing but files of these paths: who gives anything else does not keep to the protocol.
    pub fn only(self, paths: HashSet<OsString>) -> Target {
        Target { asked: Asked::Files(paths), ..self }
    }

    /// Takes nothing but files and folders of these names, with what is in them, and `unnamed` more, such as a home folder, whose names the
    /// source alone knows: who gives anything else does not keep to the protocol. None of the latter may be hidden: that name could be the one
    /// of a file that programs read.
    pub fn trees(self, names: HashSet<OsString>, unnamed: usize) -> Target {
        Target { asked: Asked::Trees(names, unnamed), ..self }
    }

    /// Takes no listing that needs more memory than this, with what fails of it [bytes]: a source that lies could list files for ever.
    pub fn listing_within(self, listing_memory: usize) -> Target {
        Target { listing_memory, ..self }
    }

    /// What came of the copy so far. What has failed is given away, so that it never stands in memory twice: a later report lacks it.
    pub fn take_report(&self) -> Report {
        let mut report = locked(&self.report);
        let failed = std::mem::take(&mut report.failed);
        Report { failed, ..report.clone() }
    }

    /// Ends the considering, and closes the files that are not complete: another attempt may write to them.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.enqueue(None);
        locked(&self.receiving).arriving.clear();
    }

    fn enqueue(&self, next: Option<(u64, Arc<Entry>)>) {
        locked(&self.pending).push_back(next);
        self.news.notify_one();
    }

    fn check(&self, peer: &dyn Peer) -> Result<(), Stop> {
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(Stop),
            false => peer.check(),
        }
    }

    /// Looks at what is there already, ahead of what comes; returns when it has looked at everything, or shall stop.
    pub fn consider(&self, peer: &dyn Peer) {
        let _ = self.consider_all(peer); // whoever hears learns of it as well
    }

    fn consider_all(&self, peer: &dyn Peer) -> Result<(), Stop> {
        let mut tree = locked(&self.tree);
        loop {
            let waiting = self.news.wait_while(locked(&self.pending), |waiting| waiting.is_empty());
            let next = waiting.unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, entry)) = next.flatten() else { break };
            match self.consider_entry(&mut tree, number, &entry, peer) {
                Err(Trouble::Stop(stop)) => return Err(stop),
                Err(Trouble::Entry(error)) => self.failed(number, &entry, reason(&error), peer)?,
                Ok(()) => {}
            }
        }
        self.check(peer)?;
        say(peer, &ToSource::Considered)
    }

    fn consider_entry(&self, tree: &mut Tree, number: u64, entry: &Entry, peer: &dyn Peer) -> Result<(), Trouble> {
        self.check(peer)?;
        match entry.kind {
            Kind::Folder => tree.make_folder(entry)?,
            Kind::Link => {
                if tree.link_target(entry).as_ref() != Some(&entry.link) {
                    tree.make_link(entry)?;
                }
            }
            Kind::File => {
                let status = tree.status(entry)?;
                status.map_or(Ok(()), Status::refuse_folder)?; // before anything is sent
                let is_alike = status.is_some_and(|status| status.is_file() && is_alike(status, entry));
                if is_alike && !self.compare {
                    tree.dress(entry)?;
                    tree.remove_part(entry);
                    locked(&self.report).untouched += 1;
                    self.progress.advance(entry.size);
                    say(peer, &ToSource::Stands(number))?;
                } else {
                    let digests = self.digests(tree, number, entry, peer)?;
                    say(peer, &ToSource::Have(number, digests))?;
                }
            }
        }
        Ok(())
    }

    /// The checksums of what an interrupted copy, or an older version of the file, has of the content.
    fn digests(&self, tree: &mut Tree, number: u64, entry: &Entry, peer: &dyn Peer) -> Result<Vec<u8>, Trouble> {
        let (file, compared): (_, fn(Version) -> Compared) = match self.part(tree, entry, peer)? {
            Some(part) => (part, Compared::Part),
            None => match self.earlier(tree, entry) {
                Some(earlier) => (earlier, Compared::Earlier),
                None => return Ok(Vec::new()),
            },
        };
        // Before the first range is read: what is written to it meanwhile makes another version of it.
        locked(&self.compared).insert(number, compared(Version::of(&file)?));
        digests(&file, entry.size, |length| {
            self.progress.compare(length as u64);
            Ok::<(), Trouble>(self.check(peer)?)
        })
    }

    /// What an interrupted copy has left, locked, so that no other copy writes to it while it is hashed.
    fn part(&self, tree: &mut Tree, entry: &Entry, peer: &dyn Peer) -> Result<Option<File>, Trouble> {
        let until = Instant::now() + LOCK_LIMIT;
        loop {
            match tree.open_part(entry) {
                Err(_) if Instant::now() < until => {
                    self.check(peer)?;
                    thread::sleep(LOCK_PAUSE);
                }
                opened => return Ok(opened?),
            }
        }
    }

    /// An earlier version of a file.
    fn earlier(&self, tree: &mut Tree, entry: &Entry) -> Option<File> {
        tree.open_file(entry).or_else(|| (self.find_base)(entry))
    }

    /// Acts on what the source says; false after its last message.
    ///
    /// # Errors
    /// It shall stop, or the source cannot go on, or the listing takes too much memory; or nothing more can be written, or the source does not
    /// keep to the protocol, which the source is told. What has come is kept for the next attempt.
    pub fn hear(&self, message: &[u8], peer: &dyn Peer) -> Result<bool, Failure> {
        let heard = ToTarget::read(message).map_err(Failure::Malformed);
        let done = heard.and_then(|heard| self.act(heard, peer));
        // Who lists files for ever may read nothing, and is not waited for.
        if let Err(failure @ (Failure::NoRoom(_) | Failure::Malformed(_))) = &done {
            let _ = say(peer, &ToSource::Stopped(failure.to_string())); // the failure is the same if nobody hears of it
        }
        done
    }

    fn act(&self, heard: ToTarget<'_>, peer: &dyn Peer) -> Result<bool, Failure> {
        let receiving = &mut *locked(&self.receiving);
        self.check_held(receiving)?; // what has failed meanwhile
        match heard {
            ToTarget::Entries { .. } | ToTarget::Listed { .. } if receiving.is_listed => {
                return Err(Failure::Malformed("the listing goes on after its end".to_owned()))
            }
            ToTarget::Entries { first, entries } if first == receiving.entries.len() as u64 => {
                self.take_entries(receiving, entries)?;
            }
            ToTarget::Listed { files, size, left_out } => {
                receiving.is_listed = true;
                let mut report = locked(&self.report);
                (report.files, report.size) = (files, size);
                drop(report);
                left_out.iter().for_each(|each| self.note_failure(&each.path, &each.reason));
                self.progress.set_total(files, size);
                self.enqueue(None);
            }
            ToTarget::Chunk { pieces, data, ends } => {
                self.store(receiving, &pieces, data, peer)?;
                ends.into_iter().try_for_each(|number| self.end(receiving, number, peer))?;
            }
            ToTarget::Spoilt(number, why) => {
                let entry = receiving.entry(number)?;
                receiving.arriving.remove(&number);
                if receiving.given_up.insert(number) {
                    self.note_failure(&entry.path, &why);
                }
            }
            ToTarget::Refused(why) => return Err(Failure::PeerFailed(why)),
            // Else ranges that are lacking were asked for again meanwhile.
            ToTarget::Finished if receiving.arriving.is_empty() => {
                self.finish_folders(receiving, peer)?;
                self.check_held(receiving)?;
                say(peer, &ToSource::Done)?;
                return Ok(false);
            }
            ToTarget::Finished => {}
            ToTarget::Entries { .. } => {
                return Err(Failure::Malformed("the entries of the listing do not follow each other".to_owned()))
            }
        }
        self.check_held(receiving)?;
        Ok(true)
    }

    fn take_entries(&self, receiving: &mut Receiving, entries: Vec<Entry>) -> Result<(), Failure> {
        for entry in entries {
            entry.check().map_err(Failure::Malformed)?;
            if !self.asked.takes(&entry, &mut receiving.unnamed) {
                let text = format!("the listing names {:?}, which nobody has asked for", entry.path);
                return Err(Failure::Malformed(text));
            }
            self.hold(entry.path.len() + entry.link.len() + ENTRY_MEMORY);
            self.check_held(receiving)?;
            let entry = Arc::new(entry);
            if !receiving.paths.insert(ByPath(entry.clone())) {
                return Err(Failure::Malformed(format!("the listing names {:?} twice", entry.path)));
            }
            self.enqueue(Some((receiving.entries.len() as u64, entry.clone())));
            receiving.entries.push(entry);
        }
        Ok(())
    }

    /// Notes that so many bytes more are kept of what there is to copy; false if that is more than may be.
    fn hold(&self, size: usize) -> bool {
        self.held.fetch_add(size, Ordering::Relaxed).saturating_add(size) <= self.listing_memory
    }

    /// Ends the copy if more would be kept than may be.
    fn check_held(&self, receiving: &Receiving) -> Result<(), Failure> {
        if self.held.load(Ordering::Relaxed) <= self.listing_memory {
            return Ok(());
        }
        let mut text = format!(
            "the list of what there is to copy takes more than {} MiB of memory here, with {} files, folders and links so far",
            self.listing_memory >> 20,
            receiving.entries.len()
        );
        let failed = &locked(&self.report).failed;
        if let Some((path, why)) = failed.first() {
            text += &format!(" and {} failures (the first: {}: {why})", failed.len(), Path::new(path).display());
        }
        Err(Failure::TooMuch(text))
    }

    /// Notes what is not as it should be here, as long as there is memory for it: then the next message of the source ends the copy.
    fn note_failure(&self, path: &OsStr, why: &str) {
        if self.hold(FAILURE_MEMORY + TEXT_MEMORY * (path.len() + why.len())) {
            locked(&self.report).failed.push((path.to_owned(), why.to_owned()));
        }
    }

    fn store(
        &self,
        receiving: &mut Receiving,
        pieces: &[Piece],
        mut data: &[u8],
        peer: &dyn Peer,
    ) -> Result<(), Failure> {
        for piece in pieces {
            let entry = receiving.entry(piece.file)?;
            let Range { offset, length } = piece.range;
            let is_in = length as u64 <= entry.size.saturating_sub(offset);
            if entry.kind != Kind::File || !(1..=MOST_DATA).contains(&length) || !is_in {
                return Err(Failure::Malformed(format!("a piece of {:?} lies outside of it", entry.path)));
            }
            let Some((content, rest)) = data.split_at_checked(length) else {
                return Err(Failure::Malformed("a piece of a file has not come whole".to_owned()));
            };
            data = rest;
            if receiving.given_up.contains(&piece.file) {
                continue;
            }
            if let Err(error) = self.write(receiving, piece, content) {
                self.trouble(receiving, piece.file, &error, peer)?;
            }
            if receiving.altered > MOST_ALTERED {
                let text = format!("more than {MOST_ALTERED} parts of files have come altered");
                return Err(Failure::Malformed(text));
            }
        }
        match data.is_empty() {
            true => Ok(()),
            false => Err(Failure::Malformed("there are bytes behind the pieces of files".to_owned())),
        }
    }

    fn write(&self, receiving: &mut Receiving, piece: &Piece, content: &[u8]) -> io::Result<()> {
        let arriving = self.open_partial(receiving, piece.file)?;
        if digest(content) != piece.digest {
            *arriving.lacking.entry(piece.range).or_default() += 1;
            receiving.altered += 1;
            return Ok(());
        }
        arriving.lacking.remove(&piece.range);
        arriving.file.write_all_at(content, piece.range.offset)?;
        arriving.received += content.len() as u64;
        locked(&self.report).sent += content.len() as u64;
        self.progress.advance(content.len() as u64);
        Ok(())
    }

    /// The file, open for writing. If what it begins with is no longer what the source was sent the digests of (another copy has
    /// completed the file, for one), everything is lacking that the source does not send anyway.
    fn open_partial<'a>(&self, receiving: &'a mut Receiving, number: u64) -> io::Result<&'a mut PartialFile> {
        let Receiving { tree, entries, arriving, .. } = receiving;
        Ok(match arriving.entry(number) {
            std::collections::hash_map::Entry::Occupied(begun) => begun.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let entry = &entries[number as usize];
                let (file, is_as_compared) = match locked(&self.compared).get(&number).copied() {
                    None => (tree.begin_part(entry, None, |_| {})?, true),
                    Some(Compared::Part(version)) => {
                        let file = tree.begin_part(entry, None, |_| {})?;
                        let is_as_compared = Version::of(&file)? == version;
                        (file, is_as_compared)
                    }
                    Some(Compared::Earlier(version)) => {
                        let base = self.earlier(tree, entry);
                        let file = tree.begin_part(entry, base.as_ref(), |length| self.progress.compare(length))?;
                        // After the copy: it may be written to in its place.
                        (file, base.map(|base| Version::of(&base)).transpose()? == Some(version))
                    }
                };
                if !is_as_compared && entry.size > MOST_AGAIN {
                    return Err(io::Error::other("what stood there was changed meanwhile; copy again"));
                }
                let lacking = ranges(if is_as_compared { 0 } else { entry.size }).map(|range| (range, 0)).collect();
                new.insert(PartialFile { file, lacking, received: 0 })
            }
        })
    }

    /// The file of this name, if the source was sent its digests, so that it need not be written if nothing of it has come.
    fn compared_file(&self, tree: &mut Tree, number: u64, entry: &Entry) -> io::Result<Option<File>> {
        let Some(Compared::Earlier(version)) = locked(&self.compared).get(&number).copied() else { return Ok(None) };
        let Some(file) = tree.open_file(entry) else { return Ok(None) };
        let is_whole = file.metadata()?.len() == entry.size && Version::of(&file)? == version;
        Ok(is_whole.then_some(file))
    }

    /// All of a file has come, or stood already.
    fn end(&self, receiving: &mut Receiving, number: u64, peer: &dyn Peer) -> Result<(), Failure> {
        let entry = receiving.entry(number)?;
        if entry.kind != Kind::File {
            return Err(Failure::Malformed(format!("{:?} is no file", entry.path)));
        }
        if receiving.given_up.contains(&number) {
            return Ok(());
        }
        match self.end_file(receiving, number, &entry) {
            Ok(answer) => {
                if !matches!(answer, ToSource::Again(..)) {
                    receiving.arriving.remove(&number);
                }
                match answer {
                    ToSource::Failed(_, why) => {
                        receiving.given_up.insert(number);
                        self.failed(number, &entry, why, peer)?;
                    }
                    answer => say(peer, &answer)?,
                }
                Ok(())
            }
            Err(error) => self.trouble(receiving, number, &error, peer),
        }
    }

    /// Finishes a file; returns what to say of it.
    fn end_file(&self, receiving: &mut Receiving, number: u64, entry: &Entry) -> io::Result<ToSource> {
        if !receiving.arriving.contains_key(&number) {
            if let Some(file) = self.compared_file(&mut receiving.tree, number, entry)? {
                dress(&file, entry)?;
                self.progress.advance(entry.size);
                return Ok(ToSource::Stored(number));
            }
        }
        let arriving = self.open_partial(receiving, number)?;
        if !arriving.lacking.is_empty() {
            if arriving.lacking.values().any(|times| *times >= MOST_ATTEMPTS) {
                let why = format!("a part of it came altered {MOST_ATTEMPTS} times; is a memory or disk broken?");
                return Ok(ToSource::Failed(number, why));
            }
            return Ok(ToSource::Again(number, arriving.lacking.keys().take(MOST_PIECES).copied().collect()));
        }
        let Receiving { tree, arriving, .. } = receiving;
        let arriving = &arriving[&number];
        tree.finish_part(entry, &arriving.file)?;
        self.progress.advance(entry.size.saturating_sub(arriving.received));
        Ok(ToSource::Stored(number))
    }

    /// A file cannot be written: it alone, or none any more.
    fn trouble(
        &self,
        receiving: &mut Receiving,
        number: u64,
        error: &io::Error,
        peer: &dyn Peer,
    ) -> Result<(), Failure> {
        let (entry, why) = (receiving.entry(number)?, reason(error));
        if let Some((_, advice)) = NO_ROOM.iter().find(|(number, _)| error.raw_os_error() == Some(*number)) {
            let path = Path::new(&entry.path).display();
            return Err(Failure::NoRoom(format!("{path}: {why}; {advice}")));
        }
        receiving.arriving.remove(&number);
        receiving.given_up.insert(number);
        let why = if error.raw_os_error().is_some() { format!("at the target: {why}") } else { why };
        Ok(self.failed(number, &entry, why, peer)?)
    }

    fn failed(&self, number: u64, entry: &Entry, why: String, peer: &dyn Peer) -> Result<(), Stop> {
        self.note_failure(&entry.path, &why);
        say(peer, &ToSource::Failed(number, why))
    }

    /// Modes and times of folders come last, the innermost first: writing into a folder changes its time.
    fn finish_folders(&self, receiving: &mut Receiving, peer: &dyn Peer) -> Result<(), Stop> {
        for (number, entry) in receiving.entries.iter().enumerate().rev() {
            if entry.kind == Kind::Folder {
                if let Err(error) = receiving.tree.finish_folder(entry) {
                    self.failed(number as u64, entry, reason(&error), peer)?;
                }
            }
        }
        Ok(())
    }
}

impl Receiving {
    fn entry(&self, number: u64) -> Result<Arc<Entry>, Failure> {
        let found = usize::try_from(number).ok().and_then(|number| self.entries.get(number));
        found.cloned().ok_or_else(|| Failure::Malformed(format!("there is no entry {number}")))
    }
}

/// Whether a file has the size and the time of the entry; some file systems know whole seconds only.
fn is_alike(status: Status, entry: &Entry) -> bool {
    let whole_seconds = entry.modified_ns.saturating_sub(entry.modified_ns.rem_euclid(1_000_000_000));
    status.size == entry.size && [entry.modified_ns, whole_seconds].contains(&status.modified_ns)
}
