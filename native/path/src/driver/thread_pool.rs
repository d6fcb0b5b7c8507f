//! Threads that carry streams besides whoever drives the path: encryption then has cores of its own.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, Weak};

use xmml_wire::lock::lock;
use xmml_wire::wakeup::{Epoll, EventFd, Interest, Ready};

use super::Shared;
use crate::frame::PathFrame;
use crate::stream::{Heard, Stream};

/// Threads of one path at most, unless it is told otherwise.
const MOST: usize = 4;

const STOP: u64 = 0;

/// What a thread leaves to whoever drives the path.
pub(crate) enum WorkerReport {
    /// A frame that is not about messages.
    Frame(PathFrame),
    /// The stream can be used no more.
    Broken(String),
}

struct Worker {
    epoll: Arc<Epoll>,
    stop: Arc<EventFd>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.raise();
    }
}

/// The threads of a path; none most of the time.
pub(crate) struct ThreadPool {
    workers: Mutex<Vec<Worker>>,
    mail: Mutex<Vec<(Arc<Stream>, WorkerReport)>>,
    /// Raised when something has happened that whoever drives or waits should see.
    bell: EventFd,
}

/// How many threads are worth having.
pub(crate) fn sensible() -> usize {
    match std::thread::available_parallelism() {
        Ok(cores) if cores.get() > 1 => cores.get().min(MOST),
        _ => 0,
    }
}

impl ThreadPool {
    pub fn new() -> std::io::Result<ThreadPool> {
        Ok(ThreadPool { workers: Mutex::default(), mail: Mutex::default(), bell: EventFd::new()? })
    }

    pub fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.workers).len()
    }

    /// What was left; the bell is silent until more is.
    pub fn take_mail(&self) -> Vec<(Arc<Stream>, WorkerReport)> {
        self.bell.lower();
        std::mem::take(&mut *lock(&self.mail))
    }

    /// Ends the threads. Their streams are watched by nobody.
    pub fn dismiss(&self) {
        lock(&self.workers).clear();
    }

    fn leave(&self, stream: &Arc<Stream>, mail: WorkerReport) {
        lock(&self.mail).push((stream.clone(), mail));
        self.bell.raise();
    }
}

impl Shared {
    /// Has so many threads carry the streams, or none; to be called again when streams have come.
    pub(crate) fn employ(self: &Arc<Shared>, count: usize) {
        let mut workers = lock(&self.crew.workers);
        if count == 0 {
            for stream in self.carrying() {
                if stream.hand_over(&self.epoll).is_err() {
                    stream.wire.shut(); // nobody would hear of it: it is opened again
                }
            }
            return workers.clear();
        }
        while workers.len() < count {
            let Ok(worker) = start(Arc::downgrade(self)) else { break }; // the system has no thread: fewer do it
            workers.push(worker);
        }
        if workers.is_empty() {
            return;
        }
        for stream in self.carrying() {
            let worker = &workers[stream.id as usize % workers.len()];
            if stream.hand_over(&worker.epoll).is_err() {
                stream.wire.shut();
            }
        }
    }

    fn carry(self: &Arc<Shared>, stream: &Arc<Stream>, ready: &Ready) -> Result<bool, String> {
        let before = self.session().sent();
        let written = if ready.writable { stream.write(Some(&self.session), self.chunk()) } else { Ok(()) };
        let mut more = false;
        let mut rings = false;
        // Who has closed it may have said why.
        if written.is_err() || ready.readable || ready.hung_up {
            more = loop {
                match stream.read(Some(&self.session))? {
                    Heard::Frame(frame) => self.crew.leave(stream, WorkerReport::Frame(frame)),
                    Heard::Nothing => break false,
                    Heard::More => break true,
                }
            };
            let works = {
                let session = self.session();
                rings = session.owes_receipt() || session.has_messages();
                session.has_work()
            };
            if works {
                self.pump();
            }
        }
        // There is room again where something has arrived; that something has left concerns only who waits just now.
        let now = self.session().sent();
        let gets_on = now.arrived != before.arrived || now.delivered != before.delivered;
        if rings || gets_on || (now.given != before.given && self.turns.has_callers()) {
            self.crew.bell.raise();
        }
        written.map(|()| more)
    }
}

fn start(path: Weak<Shared>) -> std::io::Result<Worker> {
    let worker = Worker { epoll: Arc::new(Epoll::new()?), stop: Arc::new(EventFd::new()?) };
    worker.epoll.add(worker.stop.as_raw_fd(), STOP, Interest::READ)?;
    // The thread keeps both alive, and so the stop is seen however it comes about.
    let (epoll, stop) = (worker.epoll.clone(), worker.stop.clone());
    std::thread::Builder::new().name("xmml-path-worker".into()).spawn(move || {
        let _stop = stop;
        work(&path, &epoll);
    })?;
    Ok(worker)
}

fn work(path: &Weak<Shared>, epoll: &Arc<Epoll>) {
    let mut ready: Vec<Ready> = Vec::new();
    let mut unread: Vec<u64> = Vec::new();
    loop {
        let until = (!unread.is_empty()).then(std::time::Instant::now);
        if epoll.wait(&mut ready, until).is_err() || ready.iter().any(|ready| ready.token == STOP) {
            return;
        }
        let Some(path) = path.upgrade() else { return };
        for token in std::mem::take(&mut unread) {
            if !ready.iter().any(|ready| ready.token == token && ready.readable) {
                ready.push(Ready { token, readable: true, writable: false, hung_up: false });
            }
        }
        for ready in &ready {
            let Some(stream) = path.stream_of(ready.token) else { continue };
            match path.carry(&stream, ready) {
                Ok(false) => {}
                Ok(true) => unread.push(ready.token),
                Err(reason) => {
                    stream.unwatch_by(epoll); // else it would be reported again until whoever drives has taken it away
                    path.crew.leave(&stream, WorkerReport::Broken(reason));
                }
            }
        }
    }
}
