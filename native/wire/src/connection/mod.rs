//! One authenticated connection between two processes of a run: frames both ways, never waiting.

pub mod authentication;
pub mod writer;

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::buffer::BufferPool;
use crate::error::explained;
use crate::frame::{self, Decoder, Frame, FrameError, Lent, Limits, MessageFrame};
use crate::lock::lock;
use crate::methods::{LentPlace, Memory, Stream};
use crate::wakeup::{poll_writable, Polled};

use crate::liveness::heartbeat::HeartbeatTimer;
pub use writer::{Outgoing, Writer};

/// From so many bytes on, a writer waits a moment for a receiver that is just reading, instead of copying what the caller lent.
const PATIENT_FROM: usize = 1 << 20;

/// For so long at a time without the receiver's taking anything.
const PATIENCE: Duration = Duration::from_millis(1);

/// How many times a stream is read at one look, if no frame comes of it.
const READS_AT_A_TIME: usize = 4096;

/// What a look at a connection found.
#[derive(Debug)]
pub enum Looked {
    /// Nothing new.
    Nothing,
    /// A part of a frame, so more is probably under way.
    Part,
    /// At least one frame, put where the caller said.
    Frames,
    /// The connection has ended or is broken, for this reason; frames may have come before.
    Closed(String),
    /// What came is no frame, or none that can be taken in, for this reason; frames may have come before, nothing can come after.
    Fault(FrameError),
}

/// An authenticated connection. The reader and the writer have a lock each; when both are needed, or the state of an instance
/// besides, the order is: reader, state, writer.
pub struct Connection {
    /// Under which the I/O thread knows it.
    pub token: u64,
    /// Name of its method.
    pub method: &'static str,
    /// Whether it can break while both ends live ([`crate::methods::Method::breaks`]).
    pub can_break: bool,
    /// Name of the instance at the other end.
    pub peer: String,
    stream: Box<dyn Stream>,
    reader: Mutex<Decoder>,
    writer: Mutex<Writer>,
    pool: BufferPool,
    closed: AtomicBool,
    /// Of a connection that can fall silent.
    pulse: Option<HeartbeatTimer>,
}

impl Connection {
    /// Takes over a stream whose handshake is done.
    pub fn new(
        token: u64,
        method: &'static str,
        can_break: bool,
        peer: String,
        stream: Box<dyn Stream>,
        pool: BufferPool,
        limits: Limits,
    ) -> Connection {
        Connection {
            token,
            method,
            can_break,
            peer,
            pulse: stream.can_fall_silent().then(HeartbeatTimer::begin),
            stream,
            reader: Mutex::new(Decoder::new(pool.clone(), limits)),
            pool,
            writer: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// For poll and epoll.
    pub fn fd(&self) -> RawFd {
        self.stream.fd()
    }

    /// Excludes other readers; held while the frames are delivered, so that they keep their order.
    pub fn reader(&self) -> MutexGuard<'_, Decoder> {
        lock(&self.reader)
    }

    /// Excludes other writers.
    pub fn writer(&self) -> MutexGuard<'_, Writer> {
        lock(&self.writer)
    }

    /// Whether its bytes are encrypted and authenticated from one end to the other.
    pub fn is_protected(&self) -> bool {
        self.stream.is_protected()
    }

    /// Whether nobody on the way can have changed what comes: whatever cannot be taken in is the peer's own doing.
    pub fn is_authentic(&self) -> bool {
        self.is_protected() || !self.stream.leaves_host()
    }

    /// Whether somebody has found it ended or broken.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether the peer can be gone without anybody here being told.
    pub fn can_fall_silent(&self) -> bool {
        self.pulse.is_some()
    }

    /// How long nothing has been heard of the peer; nothing of a connection that cannot fall silent.
    pub fn silent_for(&self) -> Duration {
        self.pulse.as_ref().map_or(Duration::ZERO, HeartbeatTimer::silent_for)
    }

    /// Queues a sign of life if nothing was queued since the last call. True: the caller must flush.
    pub fn beat(&self) -> bool {
        let mut writer = self.writer();
        let is_due = writer.is_idle();
        if is_due {
            writer.push(frame::encode_alive().to_vec().into());
            writer.begin_idle();
        }
        is_due
    }

    /// Ends it, in both directions.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.stream.shut();
    }

    /// Reads what is there, up to the first complete frames. A payload that has begun is read as far as it has come.
    pub fn read_frames(&self, decoder: &mut Decoder, frames: &mut Vec<Frame>) -> Looked {
        if self.is_closed() {
            return Looked::Closed("the connection is closed".to_owned());
        }
        let mut part = false;
        let nothing = |part| if part { Looked::Part } else { Looked::Nothing };
        // Who sends signs of life without end is looked at again later, so that it keeps nobody here for ever.
        for _ in 0..READS_AT_A_TIME {
            let space = decoder.space();
            let room = space.len();
            let count = match self.stream.read(space) {
                Ok(0) => return Looked::Closed(self.end_of_stream(decoder)),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return nothing(part),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Looked::Fault(FrameError::Stream { problem: error.to_string() });
                }
                Err(error) => return Looked::Closed(explained(&error)),
            };
            if let Some(pulse) = &self.pulse {
                pulse.hear();
            }
            decoder.filled(count);
            loop {
                match decoder.next_frame() {
                    Ok(Some(Frame::Lent(lent))) => match self.borrow(&lent) {
                        Ok(frame) => frames.push(frame),
                        Err(problem) => return Looked::Fault(FrameError::Stream { problem }),
                    },
                    Ok(Some(Frame::Alive)) => {}
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error @ FrameError::Refused { .. }) => return Looked::Closed(error.to_string()),
                    Err(error) => return Looked::Fault(error),
                }
            }
            if !frames.is_empty() {
                return Looked::Frames;
            }
            part = true;
            if count < room {
                return nothing(part);
            }
        }
        nothing(part)
    }

    /// The message whose payload was lent.
    fn borrow(&self, lent: &Lent) -> Result<Frame, String> {
        let Lent { region, offset, length, generation, .. } = *lent;
        let memory = self.stream.memory().ok_or("it lent memory on a connection that cannot")?;
        let payload = memory.borrow(&LentPlace { region, offset, length, generation })?;
        lent.message_frame(&payload).map(Frame::Message).map_err(|error| error.to_string())
    }

    /// The memory through which frames travel; `None`: they travel as bytes.
    pub fn memory(&self) -> Option<&dyn Memory> {
        self.stream.memory()
    }

    /// Whether frames travel through memory.
    pub fn is_memory(&self) -> bool {
        self.memory().is_some()
    }

    /// From which size on payloads are lent instead of written.
    pub fn lends_from(&self) -> usize {
        self.memory().map_or(usize::MAX, Memory::lends_from)
    }

    /// Whether a look may find something, as far as a glance can tell.
    pub fn has_news(&self) -> bool {
        self.memory().is_none_or(Memory::has_news) || self.is_closed()
    }

    /// Announces that the caller is about to sleep until the descriptor is readable; false: it must look first. See [`Memory::announce_sleep`].
    pub fn announce_sleep(&self) -> bool {
        self.memory().map_or_else(|| !self.stream.reads_ahead(), Memory::announce_sleep) && !self.is_closed()
    }

    /// Announces that the caller is about to sleep until a connection through memory has room. See [`Memory::announce_sleep_for_room`].
    pub fn announce_sleep_for_room(&self) -> bool {
        self.memory().is_none_or(Memory::announce_sleep_for_room)
    }

    /// The descriptor of a connection through memory was readable; the caller reads and writes on.
    pub fn drain_wakeups(&self) {
        if let Some(memory) = self.memory() {
            memory.drain_wakeups();
        }
    }

    fn end_of_stream(&self, decoder: &Decoder) -> String {
        match decoder.finish() {
            Ok(()) => "it closed the connection".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Writes a frame past the queue, if that is possible at once: always if it is short, goes through memory, and nothing waits.
    pub fn write_at_once(&self, front: &[u8], payload: &[u8]) -> bool {
        self.memory().is_some_and(|memory| self.writer().write_at_once(front, payload, memory))
    }

    /// Decodes the message that comes next where it lies, and gives it to `take`, if all of it is there in memory and nothing of it was
    /// read. If `take` returns `None`, it stays for a [`Connection::look`], which also finds out what is wrong with what is no such message.
    #[inline]
    pub fn take_short<R>(&self, take: impl FnOnce(MessageFrame) -> Option<R>) -> Option<R> {
        let reader = self.reader();
        if reader.is_inside_frame() || self.is_closed() {
            return None;
        }
        let next = self.memory()?.next_frame()?;
        let taken = take(frame::short_message(next.len(), |from, into| next.copy(from, into), &self.pool)?)?;
        next.skip();
        Some(taken)
    }

    /// Writes what is queued as far as there is room; what stays behind is copied if it belongs to a caller. False: the rest needs a watch for room, which the caller must arrange (it is the
    /// only one who gets this answer until the watch has found the queue empty).
    pub fn flush(&self) -> io::Result<bool> {
        let mut writer = self.writer();
        self.lend(&mut writer);
        if writer.handed_over {
            writer.own(&self.pool)?;
            return Ok(true);
        }
        let mut done = writer.write(&*self.stream)?;
        while !done && !self.is_memory() && writer.foreign_bytes() >= PATIENT_FROM {
            if poll_writable(self.fd(), Some(Instant::now() + PATIENCE))? != Polled::Ready {
                break;
            }
            done = writer.write(&*self.stream)?;
        }
        if !done {
            writer.own(&self.pool)?;
        }
        writer.handed_over = !done;
        Ok(done)
    }

    fn lend(&self, writer: &mut Writer) {
        if let Some(memory) = self.memory() {
            writer.lend(memory);
        }
    }

    /// For the watch: writes on when there is room. True: everything is out, and the watch must end.
    pub fn flush_watched(&self) -> io::Result<bool> {
        let mut writer = self.writer();
        self.lend(&mut writer); // a caller may have queued something and not have come to its own flush yet
        let done = writer.write(&*self.stream)?;
        writer.handed_over = !done;
        Ok(done)
    }
}
