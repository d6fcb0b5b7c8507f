//! Messages over one or more channels: streams of bytes that carry them side by side.
//!
//! A channel of ssh carries 2 MiB a round trip, so several of them carry more of a large file. A message goes by whichever channel is free,
//! and arrives in the order in which it was sent. In its channel it has its number and its length in front. A channel begins with [`HELLO`], so
//! that the other end knows that it has come about, and ends with [`END`]: what ends without it was cut. A [`HELLO`] in between is a sign
//! of life.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use crate::report::{Progress, Report};
use crate::source::Source;
use crate::target::Target;
use crate::{reason, Failure, Peer, Stop};

/// Longest message [bytes]. The longest that an end sends holds the digests of a file, 64 MiB at most.
pub const LONGEST_MESSAGE: u32 = 128 << 20;
/// In place of the number of a message: the channel has come about, or the other end gets on with what takes long.
const HELLO: u64 = u64::MAX - 1;
/// In place of the number of a message: the channel carries no more.
const END: u64 = u64::MAX;
/// So many messages, and bytes of them, are kept until their turn comes; the channels of later ones are not read meanwhile. That is twice what
/// four channels have on their way in the longest pieces, and little beside what a login node grants.
const MOST_AHEAD: u64 = 32;
const MOST_KEPT: usize = 32 << 20;
/// Messages that wait for a channel.
const MOST_WAITING: usize = 4;
/// How long a channel waits for the end that it leads to: that may have to be read from a slow disk first.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);
const CONNECT_EVERY: Duration = Duration::from_millis(10);
/// How often an end that reads much, and has nothing to send of it, says that it gets on.
const SIGN_EVERY: Duration = Duration::from_secs(5);
/// Bytes that are copied at a time.
const PIECE: usize = 1 << 18;

/// Carries messages to the peer over one or several byte streams (channels), in the order in which they were sent.
pub struct MultichannelConnection {
    shared: Arc<Shared>,
    sign_every: Duration,
}

#[derive(Default)]
struct Shared {
    outgoing: Mutex<Outgoing>,
    outgoing_changed: Condvar,
    incoming: Mutex<Incoming>,
    incoming_changed: Condvar,
}

#[derive(Default)]
struct Outgoing {
    waiting: VecDeque<(u64, Vec<u8>)>,
    next: u64,
    is_closed: bool,
    is_cut: bool,
    open_channels: usize,
}

#[derive(Default)]
struct Incoming {
    arrived: BTreeMap<u64, Vec<u8>>,
    kept: usize,
    next: u64,
    open_channels: usize,
    cut: Option<io::Error>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MultichannelConnection {
    /// One channel, over these streams.
    pub fn new(reading: impl Read + Send + 'static, writing: impl Write + Send + 'static) -> MultichannelConnection {
        let connection = MultichannelConnection { shared: Arc::default(), sign_every: SIGN_EVERY };
        connection.shared.add(reading, writing);
        connection
    }

    /// Takes more channels as they come, over a socket of this abstract name; each is a process of the same user that [carries](carry).
    /// Without them everything goes by the first channel, so a name that somebody else has is no failure.
    pub fn listen(&self, name: &OsStr) {
        let bound = abstract_address(name).and_then(|address| UnixListener::bind_addr(&address));
        let Ok(listener) = bound else { return };
        let shared = self.shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let own = stream.and_then(|stream| has_our_user(&stream).map(|()| stream));
                match own.and_then(|stream| Ok((stream.try_clone()?, stream))) {
                    Ok((reading, writing)) => shared.add(reading, writing),
                    Err(_) => thread::sleep(CONNECT_EVERY), // there are no descriptors: the first channel carries all
                }
            }
        });
    }

    /// Waits for a message; `None`: the other end sends no more.
    ///
    /// # Errors
    /// A channel was cut, or has brought what is no message.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut incoming = locked(&self.shared.incoming);
        loop {
            let number = incoming.next;
            if let Some(message) = incoming.arrived.remove(&number) {
                incoming.next += 1;
                incoming.kept -= message.len();
                self.shared.incoming_changed.notify_all();
                return Ok(Some(message));
            }
            if let Some(error) = &incoming.cut {
                return Err(io::Error::new(error.kind(), error.to_string()));
            }
            if incoming.open_channels == 0 {
                return if incoming.arrived.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            incoming = self.shared.incoming_changed.wait(incoming).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until everything is sent, and says that no more comes. Where a channel was cut, nobody takes the rest.
    pub fn finish(self) {
        let mut outgoing = locked(&self.shared.outgoing);
        outgoing.is_closed = true;
        self.shared.outgoing_changed.notify_all();
        let goes_on = |outgoing: &mut Outgoing| outgoing.open_channels > 0 && !outgoing.is_cut;
        drop(self.shared.outgoing_changed.wait_while(outgoing, goes_on));
    }

    /// Takes everything that comes; another thread looks at what is there.
    ///
    /// # Errors
    /// As of [`Target::hear`]; it also stops when no more comes.
    pub fn take(&self, target: &Target) -> Result<Report, Failure> {
        thread::scope(|scope| {
            scope.spawn(|| target.consider(self));
            let _working = self.sign_while_working(scope, &target.progress);
            let hear = || loop {
                let message = self.receive().map_err(|error| Failure::PeerFailed(reason(&error)))?;
                let message = message.ok_or(Failure::Stopped)?;
                if !target.hear(&message, self)? {
                    return Ok(target.take_report());
                }
            };
            let done = hear();
            target.stop();
            done
        })
    }

    /// Gives everything away; another thread hears what is said of it.
    ///
    /// # Errors
    /// As of [`Source::run`]; it also stops when no more is said. Nothing is received after a failure.
    pub fn give(&self, source: &Source) -> Result<Report, Failure> {
        thread::scope(|scope| {
            scope.spawn(|| loop {
                match self.receive() {
                    Ok(Some(message)) if source.hear(&message) => {}
                    Ok(Some(_)) => return,
                    Ok(None) | Err(_) => return source.lose(),
                }
            });
            let working = self.sign_while_working(scope, &source.progress);
            let done = source.run(self).map_err(|failure| match failure {
                Failure::Stopped => source.last_word().map_or(Failure::Stopped, Failure::PeerFailed),
                failure => failure,
            });
            drop(working);
            if done.is_err() {
                // The target may go on waiting: whoever listens to it would do the same.
                self.shared.cut_incoming(io::ErrorKind::ConnectionAborted.into());
            }
            done
        })
    }

    /// Does work that takes long before there is anything to send, and sends a sign of life now and then, as long as the work notes progress.
    pub fn sign_while<T>(&self, work: impl FnOnce(&Progress) -> T) -> T {
        let progress = Progress::default();
        thread::scope(|scope| {
            let _working = self.sign_while_working(scope, &progress);
            work(&progress)
        })
    }

    /// Sends a sign of life now and then, as long as an end gets on; until what this returns is dropped.
    fn sign_while_working<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        progress: &'scope Progress,
    ) -> mpsc::Sender<()> {
        let (working, ended) = mpsc::channel();
        scope.spawn(move || {
            let mut compared = 0;
            while ended.recv_timeout(self.sign_every) == Err(RecvTimeoutError::Timeout) {
                let before = std::mem::replace(&mut compared, progress.compared());
                let mut outgoing = locked(&self.shared.outgoing);
                if compared > before && outgoing.waiting.is_empty() {
                    outgoing.waiting.push_back((HELLO, Vec::new()));
                    self.shared.outgoing_changed.notify_all();
                }
            }
        });
        working
    }
}

impl Peer for MultichannelConnection {
    fn send(&self, message: &[&[u8]]) -> Result<(), Stop> {
        let outgoing = locked(&self.shared.outgoing);
        let is_full = |outgoing: &mut Outgoing| outgoing.waiting.len() == MOST_WAITING && !outgoing.is_cut;
        let waited = self.shared.outgoing_changed.wait_while(outgoing, is_full);
        let mut outgoing = waited.unwrap_or_else(PoisonError::into_inner);
        if outgoing.is_cut {
            return Err(Stop);
        }
        let number = outgoing.next;
        outgoing.next += 1;
        outgoing.waiting.push_back((number, message.concat()));
        self.shared.outgoing_changed.notify_all();
        Ok(())
    }

    fn check(&self) -> Result<(), Stop> {
        match locked(&self.shared.outgoing).is_cut {
            true => Err(Stop),
            false => Ok(()),
        }
    }
}

impl Shared {
    fn add(self: &Arc<Shared>, reading: impl Read + Send + 'static, writing: impl Write + Send + 'static) {
        locked(&self.incoming).open_channels += 1;
        let shared = self.clone();
        thread::spawn(move || {
            let mut reading = BufReader::new(reading);
            // One that ends before it begins came too late: the other end has no use for it any more.
            let has_begun = reading.fill_buf().is_ok_and(|begin| !begin.is_empty());
            let done = if has_begun { shared.read_channel(reading) } else { Ok(()) };
            if let Err(error) = done {
                shared.cut_outgoing(); // first: whoever learns of the cut by receiving can send no more
                shared.cut_incoming(error);
            }
            locked(&shared.incoming).open_channels -= 1;
            shared.incoming_changed.notify_all();
        });
        locked(&self.outgoing).open_channels += 1;
        let shared = self.clone();
        thread::spawn(move || {
            let done = shared.write_channel(writing);
            let mut outgoing = locked(&shared.outgoing);
            outgoing.open_channels -= 1;
            outgoing.is_cut |= done.is_err();
            shared.outgoing_changed.notify_all();
        });
    }

    fn cut_incoming(&self, why: io::Error) {
        locked(&self.incoming).cut.get_or_insert(why);
        self.incoming_changed.notify_all();
    }

    fn cut_outgoing(&self) {
        locked(&self.outgoing).is_cut = true;
        self.outgoing_changed.notify_all();
    }

    /// Reads a channel to its end.
    fn read_channel(&self, mut reading: impl BufRead) -> io::Result<()> {
        loop {
            let (mut number, mut length) = ([0; 8], [0; 4]);
            reading.read_exact(&mut number)?;
            reading.read_exact(&mut length)?;
            let (number, length) = (u64::from_le_bytes(number), u32::from_le_bytes(length));
            match number {
                HELLO => continue,
                END => return Ok(()),
                _ if length > LONGEST_MESSAGE => {
                    let text = format!("a message of {length} bytes; the longest has {LONGEST_MESSAGE}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                _ => {}
            }
            // Memory is taken as bytes arrive, not as the length says.
            let mut message = Vec::new();
            if (&mut reading).take(length.into()).read_to_end(&mut message)? != length as usize {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let size = message.len();
            // The next one is always taken, or nothing would make room.
            let is_ahead = |incoming: &mut Incoming| {
                let before = number.saturating_sub(incoming.next);
                incoming.cut.is_none() && (before > MOST_AHEAD || (before > 0 && incoming.kept + size > MOST_KEPT))
            };
            let waited = self.incoming_changed.wait_while(locked(&self.incoming), is_ahead);
            let mut incoming = waited.unwrap_or_else(PoisonError::into_inner);
            if number < incoming.next || incoming.arrived.insert(number, message).is_some() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("message {number} came twice")));
            }
            incoming.kept += size;
            self.incoming_changed.notify_all();
        }
    }

    /// Writes what waits to a channel, until no more comes. The end of a channel says that nothing was lost, so that none is written after a
    /// cut.
    fn write_channel(&self, mut writing: impl Write) -> io::Result<()> {
        write_frame(&mut writing, HELLO, &[])?;
        loop {
            let is_idle =
                |outgoing: &mut Outgoing| outgoing.waiting.is_empty() && !outgoing.is_closed && !outgoing.is_cut;
            let waited = self.outgoing_changed.wait_while(locked(&self.outgoing), is_idle);
            let mut outgoing = waited.unwrap_or_else(PoisonError::into_inner);
            if outgoing.is_cut {
                return Ok(());
            }
            let next = outgoing.waiting.pop_front();
            drop(outgoing);
            self.outgoing_changed.notify_all();
            match next {
                Some((number, message)) => write_frame(&mut writing, number, &message)?,
                None => return write_frame(&mut writing, END, &[]),
            }
        }
    }
}

fn write_frame(writing: &mut impl Write, number: u64, message: &[u8]) -> io::Result<()> {
    let mut head = [0; 12];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..].copy_from_slice(&(message.len() as u32).to_le_bytes());
    writing.write_all(&head)?;
    writing.write_all(message)?;
    writing.flush()
}

/// Carries what comes over these streams to the process of this user that [listens](MultichannelConnection::listen), and back, until that ends.
///
/// # Errors
/// Nobody listens, or the streams cannot be read or written.
pub fn carry(
    name: &OsStr,
    mut reading: impl Read + Send + 'static,
    mut writing: impl Write + Send + 'static,
) -> io::Result<()> {
    let socket = connect(name)?;
    let (ended, end) = mpsc::channel();
    let (mut taken, ended_before) = (socket.try_clone()?, ended.clone());
    thread::spawn(move || {
        let done = copy(&mut reading, &mut taken); // the process there sees where it ends
        let _ = taken.shutdown(Shutdown::Write);
        if done.is_err() {
            let _ = ended_before.send(done); // nothing goes back either
        }
    });
    thread::spawn(move || ended.send(copy(&mut &socket, &mut writing)));
    end.recv().unwrap_or(Ok(()))
}

/// Copies what comes as it comes. `io::copy` would let the system do that, by `splice`. But Linux holds the lock of a pipe while `splice`
/// waits for the socket, and then a read from the pipe waits, too, even one that must not.
fn copy(reading: &mut impl Read, writing: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match reading.read(&mut piece)? {
            0 => return Ok(()),
            length => writing.write_all(&piece[..length]).and_then(|()| writing.flush())?,
        }
    }
}

fn connect(name: &OsStr) -> io::Result<UnixStream> {
    let until = Instant::now() + LISTENS_WITHIN;
    let address = abstract_address(name)?;
    loop {
        match UnixStream::connect_addr(&address) {
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => thread::sleep(CONNECT_EVERY),
            Ok(socket) => return has_our_user(&socket).map(|()| socket),
        }
    }
}

/// An address that is in no file system, so that nothing of it stays behind a process that was killed.
fn abstract_address(name: &OsStr) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name.as_bytes())
}

/// Checks that the process at the other end has the same user: anybody may use an abstract name.
fn has_our_user(socket: &UnixStream) -> io::Result<()> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the socket is open; pointer and length describe `peer`.
    let (status, own) = unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let room = (&raw mut peer).cast();
        (libc::getsockopt(socket.as_raw_fd(), level, option, room, &raw mut length), libc::geteuid())
    };
    match status {
        0 if peer.uid == own => Ok(()),
        0 => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "a process of another user has the name of its socket"))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ToSource, ToTarget};
    use crate::ranges::{digest, ranges, RANGE};
    use crate::tests::Folder;
    use crate::tree::Layout;

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    fn connection_over(streams: Vec<UnixStream>) -> MultichannelConnection {
        let mut streams = streams.into_iter().map(|stream| (stream.try_clone().unwrap(), stream));
        let (reading, writing) = streams.next().unwrap();
        let connection = MultichannelConnection::new(reading, writing);
        streams.for_each(|(reading, writing)| connection.shared.add(reading, writing));
        connection
    }

    fn messages() -> impl Iterator<Item = Vec<u8>> {
        (0..2000_usize).map(|number| vec![number as u8; number * 7919 % 5000])
    }

    fn all_received(connection: &MultichannelConnection) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| connection.receive().unwrap()).collect()
    }

    #[test]
    fn messages_come_whole_and_in_order_by_any_number_of_channels() {
        for count in 1..5 {
            let (here, there): (Vec<_>, Vec<_>) = (0..count).map(|_| pair()).unzip();
            let (here, there) = (connection_over(here), connection_over(there));
            thread::scope(|scope| {
                scope.spawn(|| {
                    messages().for_each(|message| {
                        here.send(&[&message[..message.len() / 2], &message[message.len() / 2..]]).unwrap()
                    });
                    here.finish();
                });
                assert!(all_received(&there).into_iter().eq(messages()), "{count} channels");
            });
        }
    }

    #[test]
    fn a_channel_that_is_not_read_holds_the_others_up_before_much_is_kept() {
        let (slow, quick) = (pair(), pair());
        let there = connection_over(vec![quick.1]);
        let mut writing = &quick.0;
        for number in 1..=MOST_AHEAD + 2 {
            write_frame(&mut writing, number, b"message").unwrap(); // message 0 is on the other channel
        }
        let shared = there.shared.clone();
        let kept = || locked(&shared.incoming).arrived.len();
        while kept() < MOST_AHEAD as usize {
            thread::yield_now();
        }
        shared.add(slow.1.try_clone().unwrap(), slow.1);
        assert_eq!(kept(), MOST_AHEAD as usize);
        write_frame(&mut &slow.0, 0, b"message").unwrap();
        for _ in 0..=MOST_AHEAD + 2 {
            assert_eq!(there.receive().unwrap().unwrap(), b"message");
        }
    }

    #[test]
    fn large_messages_are_kept_up_to_a_number_of_bytes_before_their_turn_comes() {
        const LARGE: usize = 4 << 20;
        let (slow, quick) = (pair(), pair());
        let there = connection_over(vec![quick.1]);
        let shared = there.shared.clone();
        let mut writing = quick.0;
        let sending = thread::spawn(move || {
            (1..=20).for_each(|number| write_frame(&mut writing, number, &[1; LARGE]).unwrap()); // message 0 is on the other channel
            write_frame(&mut writing, END, &[]).unwrap();
        });
        let kept = || locked(&shared.incoming).arrived.len();
        while kept() < MOST_KEPT / LARGE {
            thread::yield_now();
        }
        shared.add(slow.1.try_clone().unwrap(), slow.1);
        thread::sleep(Duration::from_millis(50)); // more would come
        assert_eq!(kept(), MOST_KEPT / LARGE);
        write_frame(&mut &slow.0, 0, &[1; LARGE]).unwrap();
        (0..=20).for_each(|_| assert_eq!(there.receive().unwrap().unwrap().len(), LARGE));
        sending.join().unwrap();
        assert_eq!(locked(&shared.incoming).kept, 0);
    }

    #[test]
    fn a_channel_that_is_cut_ends_the_others() {
        let (one, other) = (pair(), pair());
        let there = connection_over(vec![one.1, other.1]);
        write_frame(&mut &one.0, 0, b"message").unwrap();
        write_frame(&mut &other.0, HELLO, &[]).unwrap();
        assert_eq!(there.receive().unwrap().unwrap(), b"message");
        drop(other.0);
        assert!(there.receive().is_err());
        assert!(there.send(&[b"message"]).is_err());
    }

    /// A file of which another end has all but the last range, and what that end has of it.
    fn file_that_stands() -> (Folder, std::path::PathBuf, Vec<u8>) {
        let folder = Folder::new();
        let file = folder.path().join("file");
        std::fs::write(&file, vec![7; 200 * RANGE]).unwrap();
        let digests = ranges(200 * RANGE as u64).flat_map(|_| digest(&[7; RANGE])).collect();
        (folder, file, digests)
    }

    /// How many signs of life come before the first message of this kind.
    fn signs_before(reading: &mut impl Read, is_awaited: impl Fn(&[u8]) -> bool) -> usize {
        let mut signs = 0;
        loop {
            let mut head = [0; 12];
            reading.read_exact(&mut head).unwrap();
            let (number, length) = head.split_at(8);
            let mut message = vec![0; u32::from_le_bytes(length.try_into().unwrap()) as usize];
            reading.read_exact(&mut message).unwrap();
            match u64::from_le_bytes(number.try_into().unwrap()) {
                HELLO => signs += 1,
                _ if is_awaited(&message) => return signs - 1, // the first one says that the channel has come about
                _ => {}
            }
        }
    }

    #[test]
    fn a_source_that_finds_that_ranges_stand_says_that_it_gets_on() {
        let ((here, mut there), (_folder, file, digests)) = (pair(), file_that_stands());
        let mut main = connection_over(vec![here]);
        main.sign_every = Duration::from_millis(1);
        write_frame(&mut there, 0, &ToSource::Have(0, digests).to_bytes()).unwrap();
        thread::scope(|scope| {
            let giving = scope.spawn(move || main.give(&Source::new(vec![file.into()])).map(|_| main.finish()));
            let is_end = |message: &[u8]| matches!(ToTarget::read(message), Ok(ToTarget::Chunk { .. }));
            assert!(signs_before(&mut there, is_end) > 0);
            drop(there);
            giving.join().unwrap().unwrap_err();
        });
    }

    #[test]
    fn a_target_that_hashes_what_it_has_says_that_it_gets_on() {
        let ((here, mut there), (folder, ..)) = (pair(), file_that_stands());
        let mut main = connection_over(vec![here]);
        main.sign_every = Duration::from_millis(1);
        let entry = crate::tests::file("file", 200 * RANGE as u64);
        write_frame(&mut there, 0, &crate::message::entries(0, [&entry].into_iter())).unwrap();
        thread::scope(|scope| {
            let target = Target::new(Layout { base: folder.path().into(), name: None }, true).unwrap();
            let taking = scope.spawn(move || main.take(&target).map(|_| main.finish()));
            let is_answer = |message: &[u8]| matches!(ToSource::read(message), Ok(ToSource::Have(..)));
            assert!(signs_before(&mut there, is_answer) > 0);
            drop(there);
            taking.join().unwrap().unwrap_err();
        });
    }

    #[test]
    fn an_end_that_works_before_it_has_anything_to_send_says_that_it_gets_on() {
        let (here, mut there) = pair();
        let mut main = connection_over(vec![here]);
        main.sign_every = Duration::from_millis(1);
        let hearing = thread::spawn(move || {
            let mut begin_and_sign = [0; 2 * 12];
            there.read_exact(&mut begin_and_sign).unwrap();
            (begin_and_sign, there)
        });
        main.sign_while(|progress| {
            while !hearing.is_finished() {
                progress.compare(1);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let (frames, _there) = hearing.join().unwrap();
        assert!(frames.chunks(12).all(|frame| frame[..8] == HELLO.to_le_bytes()));
    }

    #[test]
    fn an_end_that_does_not_get_on_gives_no_sign_of_life() {
        let (here, mut there) = pair();
        let mut main = connection_over(vec![here]);
        main.sign_every = Duration::from_millis(1);
        thread::scope(|scope| {
            let giving = scope.spawn(move || main.give(&Source::new(vec![])).map(|_| main.finish()));
            thread::sleep(Duration::from_millis(50)); // it waits for an answer
            write_frame(&mut there, 0, &ToSource::Considered.to_bytes()).unwrap();
            let is_end = |message: &[u8]| matches!(ToTarget::read(message), Ok(ToTarget::Finished));
            assert_eq!(signs_before(&mut there, is_end), 0);
            drop(there);
            giving.join().unwrap().unwrap_err();
        });
    }

    #[test]
    fn a_channel_does_not_end_properly_when_another_one_was_cut() {
        let (cut, other, mut written) = (pair(), pair(), pair());
        let there = connection_over(vec![cut.1]);
        there.shared.add(other.1, written.0);
        write_frame(&mut &cut.0, HELLO, &[]).unwrap();
        drop(cut.0);
        assert!(there.receive().is_err());
        there.finish();
        let mut frames = Vec::new();
        written.1.read_to_end(&mut frames).unwrap();
        assert!(!frames.windows(8).any(|number| number == END.to_le_bytes()), "{frames:?}");
    }

    #[test]
    fn a_source_that_the_target_tells_nonsense_refuses_it_and_ends() {
        let (here, there) = pair();
        let (source, target) = (connection_over(vec![here]), connection_over(vec![there]));
        target.send(&[&ToSource::Have(7, vec![]).to_bytes()]).unwrap(); // and waits for what comes
        let (ended, ends) = mpsc::channel();
        thread::spawn(move || ended.send(source.give(&Source::new(vec![]))));
        let done = ends.recv_timeout(Duration::from_secs(60)).expect("it still listens to the target");
        assert!(matches!(done, Err(Failure::Malformed(_))), "{done:?}");
        let mut heard = std::iter::from_fn(|| target.receive().unwrap());
        assert!(heard.any(|message| matches!(ToTarget::read(&message), Ok(ToTarget::Refused(_)))));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let frame = |number: u64, length: u32, message: &[u8]| {
            [&number.to_le_bytes()[..], &length.to_le_bytes(), message].concat()
        };
        for (bytes, kind) in [
            (frame(0, 5, b"abcd"), io::ErrorKind::UnexpectedEof),
            (vec![0; 11], io::ErrorKind::UnexpectedEof),
            (frame(0, LONGEST_MESSAGE + 1, b""), io::ErrorKind::InvalidData),
            ([frame(1, 1, b"a"), frame(1, 1, b"b")].concat(), io::ErrorKind::InvalidData),
            ([frame(1, 1, b"a"), frame(END, 0, b"")].concat(), io::ErrorKind::UnexpectedEof),
        ] {
            let connection = MultichannelConnection::new(io::Cursor::new(bytes.clone()), io::sink());
            assert_eq!(connection.receive().unwrap_err().kind(), kind, "{bytes:?}");
        }
    }

    #[test]
    fn processes_carry_more_channels_to_a_socket_that_is_in_no_file_system() {
        let name = format!("xmml-test-channels-{}", std::process::id());
        let (here, there) = (pair(), pair());
        let main = connection_over(vec![here.1]);
        main.listen(OsStr::new(&name));
        let other = connection_over(vec![here.0]);
        let (reading, writing) = (there.1.try_clone().unwrap(), there.1);
        other.shared.add(there.0.try_clone().unwrap(), there.0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut messages = messages();
                while let Some(message) = main.receive().unwrap() {
                    assert_eq!(message, messages.next().unwrap());
                }
                assert!(messages.next().is_none());
            });
            thread::spawn(move || carry(OsStr::new(&name), reading, writing)); // until this process ends
            messages().for_each(|message| other.send(&[&message]).unwrap());
            other.finish();
        });
    }

    #[test]
    fn a_channel_over_which_nothing_can_be_read_any_more_ends_although_nobody_reads_what_it_writes() {
        struct Silent;
        impl Read for Silent {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::TimedOut.into())
            }
        }
        let name = format!("xmml-test-unread-{}", std::process::id());
        let listener = UnixListener::bind_addr(&abstract_address(OsStr::new(&name)).unwrap()).unwrap();
        thread::spawn(move || listener.accept().unwrap().0.write_all(&vec![0; 16 << 20])); // until this process ends
        let (_unread, writing) = pair();
        assert_eq!(carry(OsStr::new(&name), Silent, writing).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
