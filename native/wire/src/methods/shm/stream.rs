//! A connection through shared memory, with a Unix socket beside it.
//!
//! The handshake goes over the socket, and the memory of the connection with its first bytes. After that all frames go through the rings
//! of that memory; over the socket go only
//!
//! | bytes | |
//! |---|---|
//! | 0 | wakes the other side, which has said that it sleeps |
//! | 1, u64 id, u64 length, and a descriptor | here is a region that payloads will be lent from |
//! | 2, u64 id | nothing will be lent from that region any more |
//!
//! and its end says that the other process is gone, however it ended.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use socket2::{SockRef, Socket};

use crate::buffer::Buffer;
use crate::error::explained;
use crate::lock::lock;
use crate::methods::{LentPlace, Memory, Stream};
use crate::shared_memory::arena::{Arena, ArenaBlock, Region};
use crate::shared_memory::SharedMemory;

use super::loans::{Borrowed, Loans, Ticket};
use super::passing;
use super::process::Peer;
use super::ring::{self, Glance, Reader, Writer};
use super::segment::Segment;

/// Payloads of this size and more are lent.
pub const LENT_FROM: usize = 16 * 1024;

/// Regions that a peer may have passed at a time.
const REGIONS: usize = 4096;

/// Descriptors that a peer may have passed without having said what they are.
const PASSED: usize = 16;

/// How many pieces of what came over the socket are taken in at one look.
const MESSAGES_AT_A_TIME: usize = 256;

const BELL: u8 = 0;
const REGION: u8 = 1;
const GIVEN_UP: u8 = 2;

/// A connection through shared memory, once its handshake is done over the socket.
pub struct ShmStream {
    socket: Arc<Socket>,
    peer: String,
    before: Mutex<Before>,
    rings: OnceLock<Rings>,
}

/// What the handshake needs.
struct Before {
    /// The dialler's memory; passed with the first bytes.
    segment: Option<Segment>,
    is_passed: bool,
    /// What the listener was passed.
    files: Vec<OwnedFd>,
}

/// What frames travel through, and the socket beside it.
struct Rings {
    socket: Arc<Socket>,
    segment: Segment,
    writer: Mutex<Writer>,
    reader: Mutex<Reader>,
    /// Of the reader.
    glance: Arc<Glance>,
    loans: Arc<Loans>,
    arena: Arena,
    /// Regions that the other side knows.
    passed: Mutex<Passed>,
    beside: Mutex<Beside>,
    /// The socket has ended: what is in the ring is all there will be.
    ended: AtomicBool,
    /// What came over the socket that cannot be.
    fault: OnceLock<String>,
}

#[derive(Default)]
struct Passed {
    regions: HashMap<u64, Weak<Region>>,
    /// How many regions the arena had given up when they were looked through last.
    given_up: u64,
}

/// What has come over the socket.
#[derive(Default)]
struct Beside {
    bytes: VecDeque<u8>,
    files: Vec<OwnedFd>,
    regions: HashMap<u64, Arc<SharedMemory>>,
}

impl ShmStream {
    /// The dialler's end.
    pub fn dialler(socket: Socket, peer: String, segment: Segment) -> io::Result<ShmStream> {
        ShmStream::new(socket, peer, Some(segment))
    }

    /// The listener's end.
    pub fn listener(socket: Socket, peer: String) -> io::Result<ShmStream> {
        ShmStream::new(socket, peer, None)
    }

    fn new(socket: Socket, peer: String, segment: Option<Segment>) -> io::Result<ShmStream> {
        socket.set_nonblocking(true)?;
        let before = Mutex::new(Before { segment, is_passed: false, files: Vec::new() });
        Ok(ShmStream { socket: Arc::new(socket), peer, before, rings: OnceLock::new() })
    }
}

fn corrupt(problem: ring::Corrupt) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.to_string())
}

impl Stream for ShmStream {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn established(&self, arena: &Arena) -> io::Result<()> {
        let mut before = lock(&self.before);
        let segment = match before.segment.take() {
            Some(mut segment) => {
                segment.was_passed();
                segment
            }
            None if before.files.is_empty() => return Err(io::Error::other("no shared memory was passed")),
            None => Segment::open(before.files.remove(0))?,
        };
        before.files.clear();
        let loans = Arc::new(Loans::new(segment.clone(), Peer::of(&self.socket)));
        arena.enrol(loans.clone());
        let reader = Reader::new(segment.incoming_bytes());
        let rings = Rings {
            socket: self.socket.clone(),
            writer: Mutex::new(Writer::new(segment.outgoing_bytes())),
            glance: reader.glance(),
            reader: Mutex::new(reader),
            segment,
            loans,
            arena: arena.clone(),
            passed: Mutex::default(),
            beside: Mutex::default(),
            ended: AtomicBool::new(false),
            fault: OnceLock::new(),
        };
        self.rings.set(rings).map_err(|_| io::Error::other("the handshake was done before"))
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(rings) = self.rings.get() {
            return rings.read(into);
        }
        let mut before = lock(&self.before);
        let count = passing::receive(&self.socket, into, &mut before.files)?;
        before.files.truncate(1);
        Ok(count)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(rings) = self.rings.get() {
            return rings.write(parts);
        }
        let mut before = lock(&self.before);
        let pass = before.segment.as_ref().filter(|_| !before.is_passed).and_then(Segment::file);
        let count = passing::send(&self.socket, parts, pass)?;
        before.is_passed = true;
        Ok(count)
    }

    fn shut(&self) {
        if let Some(rings) = self.rings.get() {
            rings.loans.close();
        }
        // Fails only if the peer is gone already.
        let _ = SockRef::from(&self.socket).shutdown(std::net::Shutdown::Both);
    }

    fn memory(&self) -> Option<&dyn Memory> {
        self.rings.get().map(|rings| rings as &dyn Memory)
    }
}

impl Memory for Rings {
    fn has_news(&self) -> bool {
        self.glance.has_news() || self.ended.load(Ordering::Relaxed)
    }

    fn announce_sleep(&self) -> bool {
        !self.ended.load(Ordering::Acquire) && self.glance.announce_sleep(self.segment.incoming())
    }

    fn announce_sleep_for_room(&self) -> bool {
        // Positions that cannot be are found by the write that follows.
        !self.ended.load(Ordering::Acquire) && lock(&self.writer).announce_sleep(self.segment.outgoing())
    }

    fn drain_wakeups(&self) {
        self.hear(&mut lock(&self.beside));
    }

    fn write_frame(&self, front: &[u8], payload: &[u8]) -> io::Result<bool> {
        if self.ended.load(Ordering::Acquire) {
            return Ok(false);
        }
        let is_written = lock(&self.writer).write_frame(self.segment.outgoing(), front, payload).map_err(corrupt)?;
        if is_written && Writer::take_reader_sleep(self.segment.outgoing()) {
            self.ring_the_bell();
        }
        Ok(is_written)
    }

    fn glance(&self) -> Option<&Glance> {
        Some(&self.glance)
    }

    fn next_frame(&self) -> Option<NextFrame<'_>> {
        let mut reader = lock(&self.reader);
        // What cannot be is found by the read that follows.
        let length = reader.frame().ok().flatten()?;
        Some(NextFrame { rings: self, reader, length })
    }

    fn lends_from(&self) -> usize {
        LENT_FROM
    }

    fn lend(&self, payload: &[Buffer]) -> Option<LentPlace> {
        let buffer = match payload {
            [only] if only.owner::<ArenaBlock>().is_some_and(|(block, _)| block.is_of(&self.arena)) => only.clone(),
            pieces => self.arena.copy_of(pieces).ok()?,
        };
        let (block, start) = buffer.owner::<ArenaBlock>()?;
        let (region, offset) = block.place();
        let (region, offset, is_shared) = (region.clone(), (offset + start) as u64, block.is_shared());
        if offset % crate::buffer::ALIGNMENT as u64 != 0 || !self.pass(&region) {
            return None;
        }
        let length = buffer.len() as u64;
        let ticket = self.loans.lend(buffer, is_shared)?;
        Some(LentPlace { region: region.id, offset, length, generation: ticket.encode() })
    }

    fn borrow(&self, place: &LentPlace) -> Result<Buffer, String> {
        let ticket = Ticket::decode(place.generation).ok_or("it lent memory under a number that cannot be")?;
        let mut beside = lock(&self.beside);
        if !beside.regions.contains_key(&place.region) {
            self.hear(&mut beside);
        }
        let memory = beside.regions.get(&place.region).ok_or("it lent memory that it did not pass")?.clone();
        drop(beside);
        Borrowed::buffer(&memory, place.offset, place.length, &self.segment, ticket)
    }
}

/// A frame that lies whole in the memory of a connection, and comes next. Nobody else reads as long as this exists; unless
/// [`NextFrame::skip`] says that it was taken, it is read again.
pub struct NextFrame<'a> {
    rings: &'a Rings,
    reader: MutexGuard<'a, Reader>,
    length: usize,
}

impl NextFrame<'_> {
    /// Bytes of the frame: at least those of its head.
    #[allow(clippy::len_without_is_empty)] // no frame is empty
    pub fn len(&self) -> usize {
        self.length
    }

    /// Copies bytes from `from` on, as many as `into` holds; those must be within the frame.
    #[inline]
    pub fn copy(&self, from: usize, into: &mut [u8]) {
        assert!(into.len() <= self.length && from <= self.length - into.len(), "within the frame");
        self.reader.copy_of_frame(from, into);
    }

    /// The frame was taken: what follows comes next.
    #[inline]
    pub fn skip(mut self) {
        let incoming = self.rings.segment.incoming();
        self.reader.skip_frame(incoming);
        if self.reader.take_writer_sleep(incoming) {
            drop(self.reader);
            self.rings.ring_the_bell();
        }
    }
}

const _: () = assert!(ring::FRAME_HEAD == crate::frame::HEAD);

impl Rings {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        // Before the ring is looked at: what was published before the end is there then.
        let ended = self.ended.load(Ordering::Acquire);
        let mut reader = lock(&self.reader);
        let count = reader.read(self.segment.incoming(), into).map_err(corrupt)?;
        let must_wake = count > 0 && reader.take_writer_sleep(self.segment.incoming());
        drop(reader);
        if count == 0 {
            return match self.fault.get() {
                Some(problem) => Err(io::Error::new(io::ErrorKind::InvalidData, problem.clone())),
                None if ended => Ok(0),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        if must_wake {
            self.ring_the_bell();
        }
        Ok(count)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.ended.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = lock(&self.writer).write(self.segment.outgoing(), parts).map_err(corrupt)?;
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if Writer::take_reader_sleep(self.segment.outgoing()) {
            self.ring_the_bell();
        }
        Ok(count)
    }

    fn ring_the_bell(&self) {
        // A socket that is full of such bytes wakes the other side anyway; one that is broken needs no waking.
        let _ = passing::send(&self.socket, &[IoSlice::new(&[BELL])], None);
    }

    /// Makes sure that the other side knows a region; false: it cannot be told now.
    fn pass(&self, region: &Arc<Region>) -> bool {
        let mut passed = lock(&self.passed);
        let given_up = self.arena.given_up();
        if passed.given_up != given_up {
            passed.given_up = given_up;
            passed.regions.retain(|id, region| {
                let exists = region.strong_count() > 0;
                if !exists {
                    let message = [&[GIVEN_UP][..], &id.to_le_bytes()].concat();
                    // If it is not told, it keeps a mapping that it has no use for.
                    let _ = passing::send(&self.socket, &[IoSlice::new(&message)], None);
                }
                exists
            });
        }
        if passed.regions.contains_key(&region.id) {
            return true;
        }
        let length = region.memory.length() as u64;
        let message = [&[REGION][..], &region.id.to_le_bytes(), &length.to_le_bytes()].concat();
        let sent = passing::send(&self.socket, &[IoSlice::new(&message)], region.memory.file());
        // So few bytes go at once or not at all.
        let is_known = sent.is_ok_and(|count| count == message.len());
        if is_known {
            passed.regions.insert(region.id, Arc::downgrade(region));
        }
        is_known
    }

    /// Takes in what has come over the socket.
    fn hear(&self, beside: &mut Beside) {
        // Who sends without end is heard again at the next look, so that it keeps nobody here for ever.
        for _ in 0..MESSAGES_AT_A_TIME {
            let mut bytes = [0; 256];
            let files = beside.files.len();
            match passing::receive(&self.socket, &mut bytes, &mut beside.files) {
                Ok(0) => self.ended.store(true, Ordering::Release),
                Ok(count) => {
                    beside.bytes.extend(&bytes[..count]);
                    // A read that gets less than it asks for has taken all there is, unless a descriptor cut it short.
                    let is_all = count < bytes.len() && beside.files.len() == files;
                    let problem = match beside.take_in() {
                        Err(problem) => problem,
                        Ok(()) if is_all => return,
                        Ok(()) => continue,
                    };
                    // Nothing that follows can be understood.
                    let _ = self.fault.set(problem); // the first one counts
                    self.ended.store(true, Ordering::Release);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => self.ended.store(true, Ordering::Release),
            }
            return;
        }
    }
}

impl Beside {
    /// Takes in complete messages; says what makes no sense.
    fn take_in(&mut self) -> Result<(), String> {
        while let Some(kind) = self.bytes.front().copied() {
            let length = match kind {
                BELL => 1,
                REGION => 17,
                GIVEN_UP => 9,
                _ => return Err(format!("it sent a message of unknown kind {kind} beside its memory")),
            };
            if self.bytes.len() < length {
                break;
            }
            let message: Vec<u8> = self.bytes.drain(..length).collect();
            let number = |at: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&message[at..at + 8]);
                u64::from_le_bytes(bytes)
            };
            match kind {
                REGION => {
                    if self.files.is_empty() {
                        return Err("it announced memory that it did not pass".to_owned());
                    }
                    if self.regions.len() >= REGIONS {
                        return Err(format!("it passed more than {REGIONS} pieces of memory"));
                    }
                    let file = self.files.remove(0);
                    let length = usize::try_from(number(9)).map_err(|error| error.to_string())?;
                    let memory = SharedMemory::open(file, length).map_err(|error| explained(&error))?;
                    self.regions.insert(number(1), Arc::new(memory));
                }
                GIVEN_UP => drop(self.regions.remove(&number(1))),
                _ => {}
            }
        }
        if self.files.len() > PASSED {
            return Err(format!("it passed more than {PASSED} descriptors without saying what they are"));
        }
        Ok(())
    }
}
