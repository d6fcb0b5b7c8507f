//! One end of a path at work: streams that come and go, time that passes. Nothing here waits; a path is driven by whoever polls its
//! descriptor.

pub(crate) mod acceptor;
pub(crate) mod forwarded;
pub(crate) mod leader_followers;
pub(crate) mod measurement;
mod streams;
pub(crate) mod thread_pool;
mod time;

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::error::{Error, Result};
use xmml_wire::lock::lock;
use xmml_wire::wakeup::{Epoll, Interest, Ready, Timer};

use super::dialling::Dialling;
use super::farewell::Farewell;
use super::frame::{Lane, PathFrame, PathId, GIVEN_UP};
use super::session::{Bounds, Session};
use super::settings::Settings;
use super::stream::{Stream, StreamIo};
use super::tuning;
use crate::driver::acceptor::Acceptor;
use crate::driver::forwarded::ForwardedMessages;
use crate::driver::leader_followers::LeaderFollowers;
use crate::driver::measurement::Tuning;
use crate::driver::thread_pool::ThreadPool;

/// How long a receipt may wait for something to go along with.
const RECEIPT_DELAY: Duration = Duration::from_millis(20);

/// How long a path that is over waits for the other end's farewell.
const FAREWELL: Duration = Duration::from_secs(2);

/// Bytes of the control lane that may come without being asked for.
const CONTROL_WINDOW: u64 = 8 << 20;

/// Bytes of a piece unless told otherwise.
const CHUNK: u64 = 256 * 1024;

const TIMER: u64 = 0;
const ACCEPTOR: u64 = 1;
const BELL: u64 = 2;
/// The first token of a stream.
pub(super) const STREAMS: u64 = 16;

/// How a path is.
#[derive(Clone, Debug)]
pub enum State {
    /// No stream has been answered yet.
    Opening,
    /// At least one stream carries.
    Open,
    /// No stream is left, for this reason; new ones are tried, and what was on its way will be sent again.
    Broken(String),
    /// Both ends have finished, and everything has come.
    Closed,
    /// It is given up.
    Failed(Error),
}

/// Which end of a path this is.
pub(super) enum End {
    /// It opens the streams.
    Dialling(Box<Dialling>),
    /// It takes the streams that come to this acceptor.
    Listening(Arc<Acceptor>),
}

/// What both ends of a program share: see [`super::Path`].
pub(super) struct Shared {
    pub id: PathId,
    /// Who is at the other end.
    pub peer: String,
    pub epoll: Arc<Epoll>,
    timer: Timer,
    pub session: Mutex<Session>,
    carrying: Mutex<Vec<Arc<Stream>>>,
    driver: Mutex<Driver>,
    settings: Mutex<Arc<Settings>>,
    chunk: AtomicU64,
    /// Bytes per second, lately.
    rate: AtomicU64,
    /// Nothing passes, and the streams are looked at but seldom.
    pub rests: AtomicBool,
    /// It was asked to be driven soon while somebody drives it, who may just set the timer to a later time.
    hurried: AtomicBool,
    pub turns: LeaderFollowers,
    pub crew: ThreadPool,
    /// Where what goes out here has come from, if a relay passes it on.
    pub onward: Mutex<Option<Arc<ForwardedMessages>>>,
    pub is_encrypted: bool,
    /// For threads that are started by the path itself.
    pub this: Weak<Shared>,
}

/// What changes as streams come and go.
pub(super) struct Driver {
    pub end: End,
    state: State,
    /// Since when it is opening or broken, or streams come and go without bringing anything.
    since: Instant,
    /// When it was opened, or went on, last.
    opened: Instant,
    /// How much had come when the last stream was lost.
    progress: u64,
    next_token: u64,
    receipt_at: Option<Instant>,
    /// When the timer goes off, as far as this end has set it.
    timer_at: Option<Instant>,
    /// Streams that have more to read than a turn allows; their sockets need not be readable, for TLS reads ahead.
    unread: Vec<u64>,
    tick_at: Instant,
    /// A farewell was sent.
    closing_until: Option<Instant>,
    pub tuning: Tuning,
    /// The other end's program has asked for so many streams.
    pub theirs: Option<u32>,
    /// How often the other end has asked for other numbers of streams than this end's program wants.
    pub refused_wishes: u32,
    counts: Counts,
}

/// What has happened to the streams of a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Streams that were lost.
    pub lost: u64,
    /// How often a path without any stream went on.
    pub resumed: u64,
    /// Bytes that came by streams that are gone.
    pub bytes_in: u64,
    /// Bytes that went by streams that are gone.
    pub bytes_out: u64,
    /// Segments that TCP had sent again on streams that are gone.
    pub retransmitted: u64,
    /// Bytes that went without a copy by streams that are gone.
    pub zero_copy_bytes: u64,
}

impl Counts {
    /// Takes in what a stream that is gone has carried.
    fn add(&mut self, io: &StreamIo) {
        self.add_bytes(io);
        self.retransmitted += u64::from(io.info.retransmitted);
    }

    /// The same of its bytes alone.
    pub fn add_bytes(&mut self, io: &StreamIo) {
        self.bytes_in += io.bytes_in;
        self.bytes_out += io.bytes_out;
        self.zero_copy_bytes += io.uncopied.bytes;
    }
}

fn bounds(settings: &Settings) -> Bounds {
    Bounds {
        control_window: CONTROL_WINDOW,
        bulk_window: settings.window,
        max_message: settings.max_message,
        relays: settings.relays,
    }
}

fn given_up(reason: &str) -> PathFrame {
    PathFrame::Refused { code: GIVEN_UP, reason: reason.to_owned() }
}

impl Shared {
    pub fn new(id: PathId, peer: String, end: End, is_encrypted: bool, settings: Settings) -> Result<Arc<Shared>> {
        let io = |error: std::io::Error| Error::io("open a path", &error);
        let (epoll, timer) = (Arc::new(Epoll::new().map_err(io)?), Timer::new().map_err(io)?);
        epoll.add(timer.as_raw_fd(), TIMER, Interest::READ).map_err(io)?;
        if let End::Listening(acceptor) = &end {
            epoll.add(acceptor.fd(), ACCEPTOR, Interest::READ).map_err(io)?;
        }
        let (crew, turns) = (ThreadPool::new().map_err(io)?, LeaderFollowers::new().map_err(io)?);
        epoll.add(crew.bell(), BELL, Interest::READ).map_err(io)?;
        let now = Instant::now();
        timer.set(Some(now));
        let tuning = Tuning::new(tuning::first_streams(&settings), settings.link.map(|link| link.bandwidth), now);
        Ok(Arc::new_cyclic(|this| Shared {
            this: this.clone(),
            is_encrypted,
            rate: AtomicU64::new(0),
            rests: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
            id,
            peer,
            epoll,
            timer,
            session: Mutex::new(Session::new(bounds(&settings), &BufferPool::new())),
            carrying: Mutex::default(),
            chunk: AtomicU64::new(settings.chunk.unwrap_or(CHUNK)),
            settings: Mutex::new(Arc::new(settings)),
            driver: Mutex::new(Driver {
                end,
                state: State::Opening,
                since: now,
                opened: now,
                progress: 0,
                next_token: STREAMS,
                receipt_at: None,
                timer_at: None,
                unread: Vec::new(),
                tick_at: now,
                closing_until: None,
                tuning,
                theirs: None,
                refused_wishes: 0,
                counts: Counts::default(),
            }),
            crew,
            turns,
            onward: Mutex::default(),
        }))
    }

    pub fn session(&self) -> MutexGuard<'_, Session> {
        lock(&self.session)
    }

    pub fn settings(&self) -> Arc<Settings> {
        lock(&self.settings).clone()
    }

    pub fn carrying(&self) -> Vec<Arc<Stream>> {
        lock(&self.carrying).clone()
    }

    pub fn state(&self) -> State {
        lock(&self.driver).state.clone()
    }

    /// Why it is not open yet, as far as that is known.
    pub fn why_not_open(&self) -> Option<String> {
        let driver = lock(&self.driver);
        match (&driver.state, &driver.end) {
            (State::Opening, End::Dialling(dialling)) => dialling.last_reason.clone(),
            _ => None,
        }
    }

    pub fn counts(&self) -> Counts {
        lock(&self.driver).counts
    }

    /// Does what can be done now.
    pub fn drive(&self) -> Result<()> {
        let mut ready = Vec::new();
        let status = self.epoll.wait(&mut ready, Some(Instant::now()));
        status.map_err(|error| Error::io("look at the streams of a path", &error))?;
        let mut driver = lock(&self.driver);
        let mut knocks = None;
        for token in std::mem::take(&mut driver.unread) {
            self.serve(&mut driver, &Ready { token, readable: true, writable: false, hung_up: false });
        }
        for ready in &ready {
            match ready.token {
                TIMER => {
                    self.timer.lower();
                    driver.timer_at = None;
                }
                ACCEPTOR => knocks = driver.acceptor(),
                BELL => self.open_mail(&mut driver),
                _ => self.serve(&mut driver, ready),
            }
        }
        self.hurried.store(false, Ordering::SeqCst);
        self.pass_time(&mut driver);
        self.set_timer(&mut driver);
        let failed = match &driver.state {
            State::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        };
        drop(driver);
        self.hand_back();
        if let Some(acceptor) = knocks {
            acceptor.drive(); // may bring streams to this very path
        }
        failed
    }

    /// Lets streams that have nothing to do take what is to be sent.
    pub fn pump(&self) {
        self.hand_out();
        // Whether it gets on is to be seen soon, not with the next look at a path at rest.
        if self.rests.load(Ordering::Relaxed) && self.rests.swap(false, Ordering::Relaxed) {
            self.hurry();
        }
    }

    fn hand_out(&self) {
        let (mut taken, mut passed_over) = (Vec::new(), Vec::new());
        let streams = self.carrying();
        let all = streams.len();
        for stream in streams {
            let state = stream.try_io().map(|io| (io.is_idle(), io.is_passed_over));
            match state {
                // What it is given would only lie there; the others will have time for it.
                Some((_, true)) => {
                    passed_over.push(stream);
                    continue;
                }
                Some((true, false)) => self.write(&stream),
                Some((false, false)) => continue,
                None => {
                    taken.push(stream);
                    continue;
                }
            }
            if !self.session().has_work() {
                return;
            }
        }
        // If the others are gone meanwhile, those that are left carry what there is, however slowly.
        if passed_over.len() == all {
            passed_over.iter().for_each(|stream| stream.io().is_passed_over = false);
            taken = passed_over;
        }
        // Who has them may have looked for work already: look again behind them.
        for stream in taken {
            if !self.session().has_work() {
                return;
            }
            self.write(&stream);
        }
    }

    pub fn write(&self, stream: &Stream) {
        if stream.write(Some(&self.session), self.chunk()).is_err() {
            stream.wire.shut(); // whoever drives learns of it and takes the stream away
        }
    }

    /// Bytes of a piece from now on.
    pub fn set_chunk(&self, chunk: u64) {
        self.chunk.store(chunk, Ordering::Relaxed);
    }

    /// Bytes per second that the other end acknowledged, lately.
    pub fn set_rate(&self, rate: f64) {
        self.rate.store(rate as u64, Ordering::Relaxed);
    }

    /// Bytes of a piece.
    pub fn chunk(&self) -> u64 {
        self.chunk.load(Ordering::Relaxed)
    }

    pub fn stream_of(&self, token: u64) -> Option<Arc<Stream>> {
        lock(&self.carrying).iter().find(|stream| stream.token == token).cloned()
    }

    /// Nothing refers to the memory of `lent` any more when this returns.
    pub fn own(&self, lent: &Buffer) {
        let pool = BufferPool::new();
        let streams = self.carrying();
        // Nothing is cut from the message between the two: what is cut later is cut from the copy.
        let status = Lane::ALL.into_iter().try_for_each(|lane| self.session().outbox_mut(lane).own(lent, &pool));
        let status = status.and_then(|()| streams.iter().try_for_each(|stream| stream.io().own(lent, &pool)));
        if let Err(none) = status {
            // The memory must not be read after this call: without the path nobody does.
            let mut driver = lock(&self.driver);
            self.fail(&mut driver, Error::Usage { problem: format!("a message could not be kept: {none}") });
            *self.session() = Session::new(bounds(&self.settings()), &pool);
        }
    }

    /// Bytes per second that the other end acknowledged, lately.
    pub fn rate(&self) -> f64 {
        self.rate.load(Ordering::Relaxed) as f64
    }

    fn fail(&self, driver: &mut Driver, error: Error) {
        self.fail_with(driver, error, None);
    }

    /// The path cannot go on for this reason, which the other end is told.
    fn fail_both(&self, driver: &mut Driver, reason: &str) {
        let error = Error::Protocol { peer: self.peer.clone(), problem: format!("given up: {reason}") };
        self.fail_with(driver, error, Some(given_up(reason)));
    }

    /// It has failed; the error says besides how much is not known to have arrived, unless a relay sent it, which counts for itself.
    fn fail_with(&self, driver: &mut Driver, mut error: Error, last: Option<PathFrame>) {
        let lost = self.session().not_delivered();
        let is_of_relay = lock(&self.onward).is_some();
        if let (Error::Protocol { problem, .. }, 1.., false) = (&mut error, lost.messages, is_of_relay) {
            problem.push_str(&format!("; not known to have arrived: {lost}"));
        }
        self.end(driver, State::Failed(error), last);
    }

    fn close(&self, driver: &mut Driver) {
        self.end(driver, State::Closed, None);
    }

    /// It is over, and the other end is told by this last word, if there is one.
    fn end(&self, driver: &mut Driver, state: State, last: Option<PathFrame>) {
        if matches!(driver.state, State::Closed | State::Failed(_)) {
            return;
        }
        driver.state = state;
        self.drop_streams(driver, last);
        if let State::Failed(_) = driver.state {
            self.hurry(); // nothing else wakes who polls a path without streams
        }
    }

    fn drop_streams(&self, driver: &mut Driver, last: Option<PathFrame>) {
        let mut farewell = last.as_ref().and_then(|last| {
            let have = self.session().have();
            // Without a descriptor for it, streams take the word at once or not at all.
            Farewell::new(self.id, last.clone(), have, self.settings(), driver.next_token).ok()
        });
        // Who calls [`Shared::own`] waits for the list of streams, and so until none of them refers to the memory of others.
        let mut carrying = lock(&self.carrying);
        for stream in carrying.drain(..) {
            driver.counts.add(&stream.io());
            let is_said = last.as_ref().is_some_and(|last| stream.end_with(last));
            match &mut farewell {
                Some(farewell) if is_said => farewell.on(stream),
                _ => {
                    stream.io().leave();
                    stream.unwatch();
                    stream.wire.shut();
                }
            }
        }
        drop(carrying);
        self.crew.dismiss();
        let given_up = last.and_then(|last| match last {
            PathFrame::Refused { reason, .. } => Some(reason),
            _ => None,
        });
        match &mut driver.end {
            End::Dialling(dialling) => {
                if let (Some(farewell), Some(_)) = (&mut farewell, given_up) {
                    farewell.dials(dialling);
                }
                dialling.stop(&self.epoll);
            }
            End::Listening(acceptor) => {
                self.epoll.remove(acceptor.fd());
                acceptor.forget(&self.id, given_up);
            }
        }
        if let Some(farewell) = farewell {
            farewell.begin();
        }
    }

    /// The program drops the path: the other end is told, and whoever waits for something here.
    pub fn abandon(&self) {
        let mut driver = lock(&self.driver);
        let (state, last) = match driver.closing_until {
            Some(_) => (State::Closed, PathFrame::Bye),
            None => {
                let problem = "this program has left the path: nothing passes any more".to_owned();
                (State::Failed(Error::Usage { problem }), given_up("the program at the other end has ended it"))
            }
        };
        self.end(&mut driver, state, Some(last));
        drop(driver);
        self.turns.tell();
    }

    /// The path fails at both ends for this reason.
    pub fn give_up(&self, reason: &str) {
        let mut driver = lock(&self.driver);
        self.fail_both(&mut driver, reason);
        drop(driver);
        self.turns.tell();
    }

    /// Other settings from now on.
    pub fn set(&self, settings: Settings) -> Result<()> {
        settings.check()?;
        let mut driver = lock(&self.driver); // no stream comes meanwhile
        let before = self.settings();
        if let Err(error) = self.tune_streams(&settings) {
            let _ = self.tune_streams(&before); // as it was: they had taken that before
            return Err(Error::io("set a stream as the path wants it", &error));
        }
        for stream in self.carrying() {
            stream.io().uncopied.set(settings.zero_copy, &*stream.wire, self.is_encrypted);
        }
        self.chunk.store(settings.chunk.unwrap_or(CHUNK), Ordering::Relaxed);
        let mut session = self.session();
        session.inbox_mut(Lane::Bulk).set_window(settings.window);
        session.set_max_message(settings.max_message);
        session.set_relays(settings.relays);
        drop(session);
        let count = tuning::count_anew(&before, &settings);
        let bandwidth = settings.link.map(|link| link.bandwidth);
        *lock(&self.settings) = Arc::new(settings);
        if let Some(count) = count {
            driver.tuning.begin(count, bandwidth);
            // Of two numbers that programs ask for the later one counts.
            driver.theirs = None;
            match &mut driver.end {
                End::Dialling(dialling) => {
                    dialling.want(count);
                    self.tell(&self.own_streams());
                }
                End::Listening(_) => self.tell(&self.wish(count)),
            }
        } else {
            driver.tuning.go_on(bandwidth);
        }
        self.tell(&self.carries());
        self.timer.set(Some(Instant::now()));
        drop(driver);
        self.pump();
        Ok(())
    }

    fn tune_streams(&self, settings: &Settings) -> std::io::Result<()> {
        self.carrying().iter().try_for_each(|stream| super::socket::tune(stream.wire.fd(), settings))
    }

    /// The path is to be driven soon: something was asked for that only [`Shared::drive`] does.
    pub fn hurry(&self) {
        self.hurried.store(true, Ordering::SeqCst);
        self.timer.set(Some(Instant::now()));
    }
}

impl Driver {
    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn acceptor(&self) -> Option<Arc<Acceptor>> {
        match &self.end {
            End::Listening(acceptor) => Some(acceptor.clone()),
            End::Dialling(_) => None,
        }
    }

    fn last_reason(&self) -> String {
        match &self.end {
            End::Dialling(dialling) => dialling.last_reason.clone().unwrap_or_else(|| "it does not answer".to_owned()),
            End::Listening(_) => "no stream came".to_owned(),
        }
    }
}
