//! One stream of a path: takes frames off its socket and puts frames on it, as far as that goes without waiting.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use xmml_wire::buffer::{Buffer, BufferPool, OutOfMemory};
use xmml_wire::lock::lock;
use xmml_wire::methods::Stream as Wire;
use xmml_wire::wakeup::{Epoll, Interest};

use super::frame::{ChunkHead, PathFrame, CHUNK_HEAD};
use super::inbox::Place;
use super::session::{Outgoing, Session};
use super::tcp_info::TcpInfo;
use super::zero_copy::Uncopied;

/// Bytes that are read at once where no long chunk is under way.
const STAGING: usize = 64 * 1024;

/// Behind a long chunk only so much is read besides: most of the next one then goes straight where it belongs.
const SHORT_READ: usize = 2 * 1024;

/// Of a chunk, so much is worth a read of its own straight to where it belongs.
const DIRECT_FROM: u64 = 8 * 1024;

/// Frames that are written at once.
const PIECES: usize = 64;

/// A turn of reading ends after so many bytes, so that other streams have theirs.
const TURN: usize = 4 << 20;

/// One stream of a path.
pub struct Stream {
    /// Its number on the path.
    pub id: u32,
    /// Under which it is watched.
    pub token: u64,
    /// What carries it.
    pub wire: Arc<dyn Wire>,
    io: Mutex<StreamIo>,
}

/// How a turn of reading ended.
#[derive(Debug)]
pub enum Heard {
    /// A frame that is not about messages.
    Frame(PathFrame),
    /// Nothing more to read now.
    Nothing,
    /// There is more; it is the turn of others.
    More,
}

/// What changes on a stream; locked by whoever reads or writes.
pub struct StreamIo {
    staging: Box<[u8]>,
    from: usize,
    to: usize,
    /// The chunk that is being read, and how much of it has come.
    chunk: Option<(ChunkHead, u64)>,
    /// The stream is encrypted; open chunks are not.
    is_encrypted: bool,
    out: VecDeque<Outgoing>,
    /// Bytes of the first frame that are out already.
    written: usize,
    /// Whether messages may pass: both ends have said what they have.
    pub is_attached: bool,
    /// Nothing more is put on it.
    pub is_retired: bool,
    interest: Interest,
    /// Who watches it: the path, or a thread of its own.
    watch: Arc<Epoll>,
    /// When something came last.
    pub heard: Instant,
    /// When something went out last.
    pub spoke: Instant,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Bytes that went.
    pub bytes_out: u64,
    /// What the kernel said last.
    pub info: TcpInfo,
    /// Others send what this one has taken, because it does not get on; it takes nothing more.
    pub is_passed_over: bool,
    /// What it sends without copies.
    pub uncopied: Uncopied,
}

impl Stream {
    /// Over a connection on which the ends have proved themselves, and which `watch` watches; `rest` was read behind the handshake.
    pub fn new(id: u32, token: u64, wire: Arc<dyn Wire>, watch: Arc<Epoll>, rest: &[u8]) -> Stream {
        let mut staging = vec![0; STAGING.max(rest.len())].into_boxed_slice();
        staging[..rest.len()].copy_from_slice(rest);
        let now = Instant::now();
        let io = StreamIo {
            staging,
            from: 0,
            to: rest.len(),
            chunk: None,
            is_encrypted: wire.clear().is_some(),
            out: VecDeque::new(),
            written: 0,
            is_attached: false,
            is_retired: false,
            interest: Interest::READ,
            watch,
            heard: now,
            spoke: now,
            bytes_in: 0,
            bytes_out: 0,
            info: TcpInfo::default(),
            is_passed_over: false,
            uncopied: Uncopied::new(),
        };
        Stream { id, token, wire, io: Mutex::new(io) }
    }

    /// The changing part.
    pub fn io(&self) -> MutexGuard<'_, StreamIo> {
        lock(&self.io)
    }

    /// The changing part, if nobody else has it.
    pub fn try_io(&self) -> Option<MutexGuard<'_, StreamIo>> {
        self.io.try_lock().ok()
    }

    /// Reads until a frame comes that is not about messages, or nothing more. Without a session messages are refused.
    ///
    /// # Errors
    /// Why the stream can be used no more, for people.
    pub fn read(&self, session: Option<&Mutex<Session>>) -> Result<Heard, String> {
        let mut io = self.io();
        io.uncopied.hear();
        let mut turn = 0;
        let mut is_drained = false;
        loop {
            if let Some(frame) = io.parse(session)? {
                return Ok(Heard::Frame(frame));
            }
            if is_drained {
                return Ok(Heard::Nothing); // what has come since is told by the descriptor
            }
            if turn >= TURN {
                return Ok(Heard::More);
            }
            match io.fill(&*self.wire, session) {
                Ok((0, _)) => return Err("the other end has closed the connection".to_owned()),
                Ok((count, asked)) => {
                    turn += count;
                    io.bytes_in += count as u64;
                    io.heard = Instant::now();
                    is_drained = count < asked && !self.wire.reads_ahead();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Heard::Nothing),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Writes what was pushed, and of a session what is to be sent, as far as this stream can take it.
    ///
    /// # Errors
    /// Why the stream can be used no more, for people.
    pub fn write(&self, session: Option<&Mutex<Session>>, chunk: u64) -> Result<(), String> {
        let mut io = self.io();
        io.uncopied.hear();
        io.write(self, session, chunk)
    }

    /// Writes what is begun to its end and `last` behind it, as far as this goes now, and takes nothing else any more. It refers to nobody
    /// else's memory then. False: it can be used no more.
    pub fn end_with(&self, last: &PathFrame) -> bool {
        let mut io = self.io();
        io.end_with(Outgoing::of(last), &BufferPool::new()).is_ok() && io.write(self, None, 0).is_ok()
    }

    /// Has it watched by somebody else.
    ///
    /// # Errors
    /// If the system has no room for it; then nobody watches it.
    pub fn hand_over(&self, watch: &Arc<Epoll>) -> io::Result<()> {
        let mut io = self.io();
        if !Arc::ptr_eq(&io.watch, watch) {
            io.watch.remove(self.wire.fd());
            watch.add(self.wire.fd(), self.token, io.interest)?;
            io.watch = watch.clone();
        }
        Ok(())
    }

    /// Nobody watches it any more.
    pub fn unwatch(&self) {
        self.io().watch.remove(self.wire.fd());
    }

    /// The same, unless somebody else watches it by now.
    pub fn unwatch_by(&self, watch: &Arc<Epoll>) {
        let io = self.io();
        if Arc::ptr_eq(&io.watch, watch) {
            watch.remove(self.wire.fd());
        }
    }

    /// What carries it, and what was read and not understood yet.
    pub fn into_parts(self) -> (Arc<dyn Wire>, Vec<u8>) {
        let io = self.io.into_inner().unwrap_or_else(PoisonError::into_inner);
        (self.wire, io.staging[io.from..io.to].to_vec())
    }

    /// Puts a frame behind those that are being written.
    pub fn push(&self, frame: &PathFrame) {
        self.io().out.push_back(Outgoing::of(frame));
    }
}

impl StreamIo {
    /// Puts a frame behind those that are being written.
    pub fn push(&mut self, frame: Outgoing) {
        self.out.push_back(frame);
    }

    /// Nothing passes any more: what waits to be written is forgotten, and whoever still holds the stream finds nothing to do.
    pub fn leave(&mut self) {
        self.is_attached = false;
        self.out.clear();
        self.written = 0;
    }

    /// Whoever still holds the stream finds nothing else to do.
    fn end_with(&mut self, last: Outgoing, pool: &BufferPool) -> Result<(), OutOfMemory> {
        let begun = self.out.pop_front().filter(|_| self.written > 0);
        self.is_attached = false;
        self.out.clear();
        if let Some(begun) = begun {
            self.out.push_back(Outgoing { payload: pool.copy_of(&begun.payload)?, ..begun });
        }
        self.out.push_back(last);
        Ok(())
    }

    /// Copies what waits to be written from the memory of `lent`.
    pub fn own(&mut self, lent: &Buffer, pool: &BufferPool) -> Result<(), OutOfMemory> {
        for frame in &mut self.out {
            if frame.payload.shares_memory_with(lent) {
                frame.payload = pool.copy_of(&frame.payload)?;
            }
        }
        Ok(())
    }

    /// Whether everything given to this stream is with the kernel.
    pub fn is_idle(&self) -> bool {
        self.out.is_empty()
    }

    /// Goes through what has been read; ends with a frame that is not about messages, or when more must be read.
    fn parse(&mut self, session: Option<&Mutex<Session>>) -> Result<Option<PathFrame>, String> {
        loop {
            if let (Some((chunk, at)), Some(session)) = (self.chunk, session) {
                if at == u64::from(chunk.length) {
                    self.chunk = None;
                } else if self.from == self.to {
                    return Ok(None);
                } else if at >= self.closed(&chunk) {
                    return Err("it goes on in the middle of an open chunk".to_owned());
                } else {
                    self.take_staged(&chunk, at, session);
                }
                continue;
            }
            let staged = &self.staging[self.from..self.to];
            let Some((frame, len)) = PathFrame::decode(staged).map_err(|error| error.to_string())? else {
                return Ok(None);
            };
            self.from += len;
            match (frame, session.filter(|_| self.is_attached)) {
                (PathFrame::Chunk(chunk), Some(session)) => {
                    lock(session).begin(&chunk)?;
                    self.chunk = Some((chunk, 0));
                }
                (PathFrame::Receipt(receipt), Some(session)) => lock(session).receipted(&receipt)?,
                (PathFrame::Chunk(_) | PathFrame::Receipt(_), None) => {
                    return Err("it sends messages before it has attached".to_owned());
                }
                (PathFrame::Alive, _) => {}
                (frame, _) => return Ok(Some(frame)),
            }
        }
    }

    /// Of the data of a chunk so many bytes, the first, come as everything else does; the others come open.
    fn closed(&self, chunk: &ChunkHead) -> u64 {
        if self.is_encrypted {
            chunk.closed()
        } else {
            u64::from(chunk.length)
        }
    }

    /// Puts staged bytes of a chunk where they belong.
    fn take_staged(&mut self, chunk: &ChunkHead, at: u64, session: &Mutex<Session>) {
        let closed = usize::try_from(self.closed(chunk) - at).unwrap_or(usize::MAX);
        let staged = &self.staging[self.from..self.to.min(self.from.saturating_add(closed))];
        let place = lock(session).place(chunk, at);
        let count = match place {
            Place::Busy => {
                std::thread::yield_now();
                0
            }
            Place::Known(len) => staged.len().min(len as usize),
            Place::Into(mut part) => {
                let count = part.bytes().len().min(staged.len());
                part.bytes()[..count].copy_from_slice(&staged[..count]);
                lock(session).filled(chunk.lane, part, count);
                count
            }
        };
        self.from += count;
        self.chunk = Some((*chunk, at + count as u64));
    }

    /// Reads once; how much came, and how much could have.
    fn fill(&mut self, wire: &dyn Wire, session: Option<&Mutex<Session>>) -> io::Result<(usize, usize)> {
        let mut limit = STAGING;
        if let (Some((chunk, at)), Some(session)) = (self.chunk, session) {
            // Nothing is staged while a chunk is under way, else it would have been taken.
            let closed = self.closed(&chunk);
            if at >= closed {
                return self.fill_open(wire, &chunk, at, session);
            }
            let left = closed - at;
            if left >= DIRECT_FROM {
                let place = lock(session).place(&chunk, at);
                match place {
                    Place::Busy => {
                        std::thread::yield_now();
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    Place::Into(mut part) => {
                        let asked = part.bytes().len();
                        let read = wire.read(part.bytes());
                        let count = *read.as_ref().unwrap_or(&0);
                        lock(session).filled(chunk.lane, part, count);
                        self.chunk = Some((chunk, at + count as u64));
                        return read.map(|count| (count, asked));
                    }
                    Place::Known(len) => limit = limit.min(len as usize),
                }
            } else {
                limit = left as usize + SHORT_READ;
            }
        }
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else {
            self.staging.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let end = self.staging.len().min(self.to + limit.max(CHUNK_HEAD));
        let count = wire.read(&mut self.staging[self.to..end])?;
        let asked = end - self.to;
        self.to += count;
        Ok((count, asked))
    }

    /// Reads once of the open bytes of a chunk. No byte behind them may be taken: it is encrypted.
    fn fill_open(
        &mut self,
        wire: &dyn Wire,
        chunk: &ChunkHead,
        at: u64,
        session: &Mutex<Session>,
    ) -> io::Result<(usize, usize)> {
        let Some(clear) = wire.clear() else { return Err(io::ErrorKind::Unsupported.into()) };
        let place = lock(session).place(chunk, at);
        let (count, asked) = match place {
            Place::Busy => {
                std::thread::yield_now();
                return Err(io::ErrorKind::Interrupted.into());
            }
            Place::Into(mut part) => {
                let asked = part.bytes().len();
                let read = clear.read(part.bytes());
                lock(session).filled(chunk.lane, part, *read.as_ref().unwrap_or(&0));
                (read?, asked)
            }
            Place::Known(len) => {
                let asked = self.staging.len().min(usize::try_from(len).unwrap_or(usize::MAX));
                (clear.read(&mut self.staging[..asked])?, asked)
            }
        };
        self.chunk = Some((*chunk, at + count as u64));
        Ok((count, asked))
    }

    fn write(&mut self, stream: &Stream, session: Option<&Mutex<Session>>, chunk: u64) -> Result<(), String> {
        let is_blocked = loop {
            if self.out.is_empty() {
                self.pull(stream.id, session, chunk);
            }
            if self.out.is_empty() {
                match stream.wire.flush() {
                    Ok(()) => break false,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break true,
                    Err(error) => return Err(error.to_string()),
                }
            }
            match self.put(&stream.wire) {
                Ok(0) => return Err("the connection takes nothing more".to_owned()),
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        };
        let interest = Interest { read: true, write: is_blocked, close: false };
        if interest != self.interest {
            self.watch.change(stream.wire.fd(), stream.token, interest).map_err(|error| error.to_string())?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Takes the next frames from the session: several small ones or a large one. What a stream were given that does not get on would lie
    /// there, though its socket says that there is room.
    fn pull(&mut self, id: u32, session: Option<&Mutex<Session>>, chunk: u64) {
        let carries = self.is_attached && !self.is_retired && !self.is_passed_over;
        let Some(session) = session.filter(|_| carries) else { return };
        let mut session = lock(session);
        let mut bytes = 0;
        // More than a piece would wait here for its turn, while another stream could send it.
        let most = (STAGING as u64).min(chunk) as usize;
        while bytes < most && self.out.len() < PIECES / 2 {
            let Some(frame) = session.next(id, chunk) else { break };
            bytes += frame.len();
            self.out.push_back(frame);
        }
        if !self.out.is_empty() {
            self.out.extend(session.late_receipt());
        }
    }

    /// Writes once what comes next: data that need no copy, or everything in front of them.
    fn put(&mut self, wire: &Arc<dyn Wire>) -> io::Result<usize> {
        if let Some(first) = self.out.front().filter(|first| self.is_open(first)) {
            if let Some(clear) = wire.clear() {
                let (head, payload) = (&first.head[..], &first.payload[..]);
                let (closed, open) = payload.split_at(first.closed);
                let left = |piece: &'_ [u8], before: usize| self.written.saturating_sub(before).min(piece.len());
                let closed = &closed[left(closed, head.len())..];
                let open = &open[left(open, first.closed_len())..];
                return clear.write(&[IoSlice::new(&head[left(head, 0)..]), IoSlice::new(closed)], open);
            }
        }
        if let Some(first) = self.out.front() {
            let from = self.written.checked_sub(first.head.len());
            if let Some(from) = from.filter(|from| self.uncopied.takes(&first.payload, *from)) {
                if let Some(count) = self.uncopied.send(wire, &first.payload, from)? {
                    return Ok(count);
                }
            }
        }
        match self.pieces() {
            (pieces, false) => wire.write(&pieces),
            (pieces, true) => Uncopied::send_head(&**wire, &pieces),
        }
    }

    /// What is to be written together, and whether data that need no copy come behind it.
    fn pieces(&self) -> (Vec<IoSlice<'_>>, bool) {
        let mut skip = self.written;
        let mut pieces = Vec::with_capacity(2 * self.out.len().min(PIECES));
        for frame in self.out.iter().take(PIECES / 2) {
            if self.is_open(frame) {
                break; // it is written by itself
            }
            for is_data in [false, true] {
                if is_data && !pieces.is_empty() && self.uncopied.takes(&frame.payload, 0) {
                    return (pieces, true);
                }
                let piece = if is_data { &frame.payload[..] } else { &frame.head[..] };
                let hidden = skip.min(piece.len());
                skip -= hidden;
                if hidden < piece.len() {
                    pieces.push(IoSlice::new(&piece[hidden..]));
                }
            }
        }
        (pieces, false)
    }

    /// Whether a part of a frame is not encrypted though the stream is.
    fn is_open(&self, frame: &Outgoing) -> bool {
        self.is_encrypted && frame.closed < frame.payload.len()
    }

    fn advance(&mut self, count: usize) {
        self.spoke = Instant::now();
        self.bytes_out += count as u64;
        self.written += count;
        while let Some(first) = self.out.front() {
            let len = first.len();
            if self.written < len {
                break;
            }
            self.written -= len;
            self.out.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, RawFd};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use xmml_wire::wakeup::EventFd;

    use super::*;
    use crate::frame::Lane;
    use crate::session::Bounds;

    /// Takes whatever is written, as a socket does whose other end is gone and whose memory grows.
    struct Sink {
        descriptor: EventFd,
        taken: Arc<AtomicUsize>,
    }

    impl Wire for Sink {
        fn fd(&self) -> RawFd {
            self.descriptor.as_raw_fd()
        }

        fn peer(&self) -> &str {
            "nobody"
        }

        fn read(&self, _into: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            let count = parts.iter().map(|part| part.len()).sum();
            self.taken.fetch_add(count, Ordering::Relaxed);
            Ok(count)
        }

        fn shut(&self) {}
    }

    #[test]
    fn a_stream_that_does_not_get_on_takes_no_messages_though_its_socket_has_room() {
        let pool = BufferPool::new();
        let bounds = Bounds { control_window: 1 << 20, bulk_window: 1 << 20, max_message: 1 << 20, relays: false };
        let (mut session, mut other) = (Session::new(bounds, &pool), Session::new(bounds, &pool));
        session.attach(0, &other.have()).unwrap();
        session.have(); // no receipt is due
        session.send(Lane::Bulk, pool.copy_of(&[7; 1000]).unwrap()).unwrap();
        let session = Mutex::new(session);
        let (taken, watch) = (Arc::new(AtomicUsize::new(0)), Arc::new(Epoll::new().unwrap()));
        let sink = Sink { descriptor: EventFd::new().unwrap(), taken: taken.clone() };
        let stream = Stream::new(0, 1, Arc::new(sink), watch, &[]);
        (stream.io().is_attached, stream.io().is_passed_over) = (true, true);

        stream.push(&PathFrame::Alive);
        stream.write(Some(&session), 1 << 16).unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), PathFrame::Alive.encode().len());
        assert!(lock(&session).has_unsent(), "others carry it");

        stream.io().is_passed_over = false;
        stream.write(Some(&session), 1 << 16).unwrap();
        assert!(taken.load(Ordering::Relaxed) > 1000);
        assert!(!lock(&session).has_unsent());
    }

    #[test]
    fn who_watched_a_stream_before_does_not_take_it_from_who_watches_it_now() {
        let [before, now] = [0; 2].map(|_| Arc::new(Epoll::new().unwrap()));
        let sink = Sink { descriptor: EventFd::new().unwrap(), taken: Arc::default() };
        sink.descriptor.raise();
        before.add(sink.fd(), 1, Interest::READ).unwrap();
        let stream = Stream::new(0, 1, Arc::new(sink), before.clone(), &[]);
        stream.hand_over(&now).unwrap();
        let hears = |watch: &Epoll| {
            let mut ready = Vec::new();
            watch.wait(&mut ready, Some(Instant::now())).unwrap();
            !ready.is_empty()
        };
        stream.unwatch_by(&before);
        assert!(hears(&now) && !hears(&before));
        stream.unwatch_by(&now);
        assert!(!hears(&now));
    }
}
