//! The thread itself: one per process, whatever the number of instances in it. It starts with the first instance and ends with the last.
//!
//! A child after fork has no threads but the one that forked: it gets a thread of its own when it joins a run itself, and leaves
//! everything of its parent's alone (also the locks, which may have been held at that moment).

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use xmml_wire::error::{Error, Result};
use xmml_wire::frame::Frame;
use xmml_wire::lock::lock;
use xmml_wire::per_process::PerProcess;
use xmml_wire::wakeup::{Epoll, EventFd, Interest, Ready};

use super::{Command, IoThread};

/// Token of the mailbox. Those of instances have the number of their seat above the lower 32 bits, and seats count from 1.
const MAILBOX: u64 = 0;

/// The epoll of the thread, as one instance sees it: its tokens are its own.
pub struct Watch {
    epoll: Arc<Epoll>,
    base: u64,
}

impl Watch {
    /// Begins to watch `fd`.
    pub fn add(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.epoll.add(fd, self.base | token, interest)
    }

    /// Watches `fd` for something else.
    pub fn change(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.epoll.change(fd, self.base | token, interest)
    }

    /// Stops watching `fd`, which must still be open.
    pub fn remove(&self, fd: RawFd) {
        self.epoll.remove(fd);
    }
}

/// What the mailbox of the thread holds.
enum Letter {
    /// An instance has joined; this came from its coordinator already.
    Begin(Box<IoThread>, Vec<Frame>),
    /// For the instance that is served already.
    Do(Command),
    /// The instance ends; the sender is dropped when the thread has let go of everything that belongs to it.
    End(Option<SyncSender<()>>),
}

struct Mailbox {
    flag: EventFd,
    letters: Mutex<Letters>,
}

#[derive(Default)]
struct Letters {
    queue: Vec<(u32, Letter)>,
    /// The thread is gone; nobody reads what is left here.
    closed: bool,
}

impl Mailbox {
    fn give(&self, seat: u32, letter: Letter) {
        let mut letters = lock(&self.letters);
        if letters.closed {
            return;
        }
        let was_empty = letters.queue.is_empty();
        letters.queue.push((seat, letter));
        drop(letters);
        if was_empty {
            self.flag.raise();
        }
    }

    fn take(&self) -> Vec<(u32, Letter)> {
        self.flag.lower();
        std::mem::take(&mut lock(&self.letters).queue)
    }

    fn close(&self) {
        let left = {
            let mut letters = lock(&self.letters);
            letters.closed = true;
            std::mem::take(&mut letters.queue)
        };
        drop(left); // instances that never began go with it; not under the lock
    }
}

/// What is the same for all instances of a process.
#[derive(Default)]
struct Process {
    last_seat: AtomicU32,
    /// How many instances there are.
    taken: AtomicUsize,
    running: Mutex<Option<Running>>,
}

/// A thread that runs.
struct Running {
    mailbox: Arc<Mailbox>,
    epoll: Arc<Epoll>,
    /// How many instances count on it.
    seats: usize,
}

impl Process {
    fn here() -> &'static Process {
        static HERE: PerProcess<Process> = PerProcess::new();
        HERE.get(Process::default)
    }
}

/// How many instances this process holds.
pub fn instances_here() -> &'static AtomicUsize {
    &Process::here().taken
}

/// An instance's place at the thread: by it the thread is told what to do.
pub struct Commands {
    mailbox: Arc<Mailbox>,
    seat: u32,
    ended: AtomicBool,
}

impl Commands {
    /// Takes a seat; the thread starts if it is the first. What the instance has watched goes through the [`Watch`].
    pub fn new() -> Result<(Commands, Watch)> {
        let process = Process::here();
        let mut running = lock(&process.running);
        if running.is_none() {
            *running = Some(start(process)?);
        }
        let Some(thread) = running.as_mut() else { unreachable!("it was started") };
        thread.seats += 1;
        process.taken.fetch_add(1, Ordering::Relaxed);
        let seat = process.last_seat.fetch_add(1, Ordering::Relaxed) + 1;
        let watch = Watch { epoll: thread.epoll.clone(), base: u64::from(seat) << 32 };
        Ok((Commands { mailbox: thread.mailbox.clone(), seat, ended: AtomicBool::new(false) }, watch))
    }

    /// Leaves a command, and wakes the thread.
    pub fn give(&self, command: Command) {
        self.mailbox.give(self.seat, Letter::Do(command));
    }

    pub(super) fn begin(&self, instance: Box<IoThread>, early: Vec<Frame>) {
        self.mailbox.give(self.seat, Letter::Begin(instance, early));
    }

    /// Ends the thread's work for this instance, and waits until nothing of it is left there. Does nothing the second time.
    pub fn end(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            let (done, when_done): (SyncSender<()>, Receiver<()>) = mpsc::sync_channel(1);
            self.mailbox.give(self.seat, Letter::End(Some(done)));
            // It fails when the sender is dropped: that is the answer.
            let _ = when_done.recv();
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.mailbox.give(self.seat, Letter::End(None));
        }
    }
}

fn start(process: &'static Process) -> Result<Running> {
    let problem = |error: io::Error| Error::io("start the I/O thread", &error);
    let mailbox = Arc::new(Mailbox { flag: EventFd::new().map_err(problem)?, letters: Mutex::default() });
    let epoll = Arc::new(Epoll::new().map_err(problem)?);
    epoll.add(mailbox.flag.as_raw_fd(), MAILBOX, Interest::READ).map_err(problem)?;
    let (its_mailbox, its_epoll) = (mailbox.clone(), epoll.clone());
    // It is made in the new thread: if there is none, it must not be dropped here, which would wait for our lock.
    let run = move || {
        let thread = Thread {
            process,
            mailbox: its_mailbox,
            epoll: its_epoll,
            served: HashMap::new(),
            deadlines: BinaryHeap::new(),
            touched: BTreeSet::new(),
        };
        thread.run();
    };
    std::thread::Builder::new().name("xmml-io".to_owned()).spawn(run).map_err(problem)?;
    Ok(Running { mailbox, epoll, seats: 0 })
}

/// An instance and when it wants to be looked at again.
struct Served {
    instance: Box<IoThread>,
    due: Option<Instant>,
}

struct Thread {
    process: &'static Process,
    mailbox: Arc<Mailbox>,
    epoll: Arc<Epoll>,
    served: HashMap<u32, Served>,
    /// When instances want to be looked at. An entry counts only while it is the one that the instance stands for.
    deadlines: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Instances to which something has happened.
    touched: BTreeSet<u32>,
}

impl Thread {
    fn run(mut self) {
        let mut ready = Vec::new();
        loop {
            let until = self.next_deadline();
            if let Err(error) = self.epoll.wait(&mut ready, until) {
                self.give_up(&Error::io("wait for connections", &error));
                return;
            }
            for event in &ready {
                if event.token == MAILBOX {
                    continue; // what it holds may end an instance: after the events of this round
                }
                let seat = (event.token >> 32) as u32;
                if let Some(served) = self.served.get_mut(&seat) {
                    served.instance.happened(Ready { token: event.token & u64::from(u32::MAX), ..*event });
                    self.touched.insert(seat);
                }
            }
            if ready.iter().any(|event| event.token == MAILBOX) && self.read_letters() {
                return;
            }
            self.meet_deadlines();
        }
    }

    /// True: the last instance has ended, and with it the thread.
    fn read_letters(&mut self) -> bool {
        let mut ended = 0;
        for (seat, letter) in self.mailbox.take() {
            match letter {
                Letter::Begin(mut instance, early) => {
                    instance.begin(early);
                    self.served.insert(seat, Served { instance, due: None });
                    self.touched.insert(seat);
                }
                Letter::Do(command) => {
                    if let Some(served) = self.served.get_mut(&seat) {
                        served.instance.obey(command);
                        self.touched.insert(seat);
                    }
                }
                Letter::End(done) => {
                    if let Some(mut served) = self.served.remove(&seat) {
                        served.instance.end();
                    }
                    drop(done);
                    ended += 1;
                }
            }
        }
        ended > 0 && self.release(ended)
    }

    /// Gives seats back; true if none is taken any more. Whoever takes the next one starts another thread.
    fn release(&self, count: usize) -> bool {
        self.process.taken.fetch_sub(count, Ordering::Relaxed);
        let mut running = lock(&self.process.running);
        let Some(thread) = running.as_mut() else { return true };
        thread.seats = thread.seats.saturating_sub(count);
        if thread.seats > 0 {
            return false;
        }
        *running = None;
        true
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(Reverse((when, seat))) = self.deadlines.peek() {
            if self.served.get(seat).is_some_and(|served| served.due == Some(*when)) {
                return Some(*when);
            }
            self.deadlines.pop();
        }
        None
    }

    /// Looks at the instances whose time has come or to which something has happened, and asks each when it wants that again.
    fn meet_deadlines(&mut self) {
        let now = Instant::now();
        while let Some(when) = self.next_deadline().filter(|when| *when <= now) {
            let Some(Reverse((_, seat))) = self.deadlines.pop() else { break };
            if let Some(served) = self.served.get_mut(&seat).filter(|served| served.due == Some(when)) {
                served.due = None;
                self.touched.insert(seat);
            }
        }
        for seat in std::mem::take(&mut self.touched) {
            let Some(served) = self.served.get_mut(&seat) else { continue };
            served.instance.expire();
            served.instance.reopen_doors();
            let due = served.instance.next_deadline();
            if due != served.due {
                served.due = due;
                self.deadlines.extend(due.map(|when| Reverse((when, seat))));
            }
        }
    }

    /// Nothing can be served any more: says so to whoever waits.
    fn give_up(&mut self, error: &Error) {
        for (_, served) in self.served.drain() {
            served.instance.give_up(error.clone());
        }
    }
}

impl Drop for Thread {
    /// Also when the thread ends by a fault in it.
    fn drop(&mut self) {
        if !self.served.is_empty() {
            let cause = "the thread that serves them has ended; this is a fault in xmml".to_owned();
            self.give_up(&Error::Io { action: "serve connections".to_owned(), cause });
        }
        let mut running = lock(&self.process.running);
        if running.as_ref().is_some_and(|own| Arc::ptr_eq(&own.mailbox, &self.mailbox)) {
            *running = None;
        }
        drop(running);
        self.mailbox.close();
    }
}
