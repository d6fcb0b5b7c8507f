//! One direction of a connection within a process: a queue of bytes, what is handed over beside them, and a bell.
//!
//! `native/wire/interleavings` runs this file under a model checker.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::sync::PoisonError;

use crate::concurrency::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::wakeup::EventFd;

/// A queue that was longer gives memory back when it is empty.
const KEPT_BYTES: usize = 4 * 1024;

/// See the module. `T` is what is handed over as it is.
pub struct Pipe<T> {
    queue: Mutex<Queue<T>>,
    /// There is something to read; a glance at it needs no lock.
    has_news: AtomicBool,
    /// Up when the reader must be woken.
    bell: EventFd,
}

struct Queue<T> {
    bytes: VecDeque<u8>,
    /// What was handed over and not taken in yet, by its number.
    handed_over: VecDeque<(u64, T)>,
    next_number: u64,
    /// No more will come.
    is_closed: bool,
    /// The reader waits for the bell: during the handshake always, afterwards when it has said so.
    is_listening: bool,
    /// The handshake is over: the reader looks without being rung for.
    is_established: bool,
    is_ringing: bool,
}

impl<T> Pipe<T> {
    /// An empty one with `bell`, which is down.
    pub fn new(bell: EventFd) -> Pipe<T> {
        let queue = Queue {
            bytes: VecDeque::new(),
            handed_over: VecDeque::new(),
            next_number: 1,
            is_closed: false,
            is_listening: true,
            is_established: false,
            is_ringing: false,
        };
        Pipe { queue: Mutex::new(queue), has_news: AtomicBool::new(false), bell }
    }

    /// What rings for the reader.
    pub fn bell(&self) -> &EventFd {
        &self.bell
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is there; 0 at the end, `WouldBlock` if there is nothing yet.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut queue = self.queue();
        if queue.bytes.is_empty() {
            self.has_news.store(queue.is_closed, Ordering::Release);
            if queue.is_closed {
                return Ok(0);
            }
            if !queue.is_established {
                self.silence(&mut queue);
            }
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = queue.bytes.read(into)?;
        if queue.bytes.is_empty() {
            self.has_news.store(queue.is_closed, Ordering::Release);
            if queue.bytes.capacity() > KEPT_BYTES {
                queue.bytes.shrink_to(KEPT_BYTES);
            }
        }
        Ok(count)
    }

    /// Takes all of `parts`, unless the pipe is closed.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut queue = self.queue();
        if queue.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        parts.iter().for_each(|part| queue.bytes.extend(part.iter()));
        self.announce(&mut queue);
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    /// No more can be written; what was written can still be read.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        queue.is_listening = true; // an end is always worth a ring
        self.announce(&mut queue);
    }

    /// The handshake is over: from now on the bell rings only for who has said that it sleeps.
    pub fn establish(&self) {
        let mut queue = self.queue();
        queue.is_established = true;
        queue.is_listening = false;
        self.silence(&mut queue);
    }

    /// Whether there is something to read, at a glance.
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Acquire)
    }

    /// The reader is about to wait for the bell. False: something is there already.
    pub fn announce_sleep(&self) -> bool {
        let mut queue = self.queue();
        let is_empty = queue.bytes.is_empty() && !queue.is_closed;
        queue.is_listening |= is_empty;
        is_empty
    }

    /// The reader has heard the bell.
    pub fn drain_wakeups(&self) {
        self.silence(&mut self.queue());
    }

    /// Leaves `what` for the reader; returns the number to announce it by.
    pub fn hand_over(&self, what: T) -> u64 {
        let mut queue = self.queue();
        let number = queue.next_number;
        queue.next_number += 1;
        queue.handed_over.push_back((number, what));
        number
    }

    /// Takes what was announced by `number`, once.
    pub fn take_over(&self, number: u64) -> Option<T> {
        let mut queue = self.queue();
        // In order, as they were announced; what was announced on the way and never written is passed over.
        while let Some((found, what)) = queue.handed_over.pop_front() {
            if found == number {
                return Some(what);
            }
        }
        None
    }

    /// Rings for the reader, if it listens.
    fn announce(&self, queue: &mut Queue<T>) {
        self.has_news.store(true, Ordering::Release);
        if queue.is_listening {
            queue.is_listening = !queue.is_established;
            if !std::mem::replace(&mut queue.is_ringing, true) {
                self.bell.raise();
            }
        }
    }

    /// The bell was heard. That of an end stays up: whoever looks must find that out.
    fn silence(&self, queue: &mut Queue<T>) {
        if queue.is_ringing && !queue.is_closed {
            queue.is_ringing = false;
            self.bell.lower();
        }
    }
}
