//! One end of a path at work: streams that come and go, time that passes. Nothing here waits; a path is driven by whoever polls its
//! descriptor.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::crew::{Crew, Mail};
use super::dialling::{Dialling, Failure, Verdict};
use super::frame::{Lane, PathFrame, PathId, Receipt, GIVEN_UP, STREAM, UNKNOWN_PATH};
use super::listener::Door;
use super::session::{Bounds, Session};
use super::settings::Settings;
use super::stream::{Heard, Stream};
use super::tuned::Tuning;
use super::tuning::{self, Tuner};
use super::waiting::Turns;
use crate::buffer::{Buffer, BufferPool};
use crate::error::{Error, Result};
use crate::wakeup::{Epoll, Interest, Ready, Timer};

/// How long a receipt may wait for something to go along with.
const RECEIPT_DELAY: Duration = Duration::from_millis(20);

/// How long a path that is over waits for the other end's farewell.
const FAREWELL: Duration = Duration::from_secs(2);

/// Bytes of the control lane that may come without being asked for.
const CONTROL_WINDOW: u64 = 8 << 20;

/// Bytes of a piece unless told otherwise.
const CHUNK: u64 = 256 * 1024;

const TIMER: u64 = 0;
const DOOR: u64 = 1;
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
    /// It takes the streams that come to this door.
    Listening(Arc<Door>),
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
    pub turns: Turns,
    pub crew: Crew,
    pub is_encrypted: bool,
    /// For threads that are started by the path itself.
    pub this: Weak<Shared>,
}

/// What changes as streams come and go.
pub(super) struct Driver {
    pub end: End,
    state: State,
    /// Since when it is opening or broken.
    since: Instant,
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
}

fn bounds(settings: &Settings) -> Bounds {
    Bounds { control_window: CONTROL_WINDOW, bulk_window: settings.window, max_message: settings.max_message }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(id: PathId, peer: String, end: End, is_encrypted: bool, settings: Settings) -> Result<Arc<Shared>> {
        let io = |error: std::io::Error| Error::io("open a path", &error);
        let bounds =
            Bounds { control_window: CONTROL_WINDOW, bulk_window: settings.window, max_message: settings.max_message };
        let (epoll, timer) = (Arc::new(Epoll::new().map_err(io)?), Timer::new().map_err(io)?);
        epoll.add(timer.as_raw_fd(), TIMER, Interest::READ).map_err(io)?;
        if let End::Listening(door) = &end {
            epoll.add(door.fd(), DOOR, Interest::READ).map_err(io)?;
        }
        let (crew, turns) = (Crew::new().map_err(io)?, Turns::new().map_err(io)?);
        epoll.add(crew.bell(), BELL, Interest::READ).map_err(io)?;
        let now = Instant::now();
        timer.set(Some(now));
        let tuner = Tuner::new(tuning::first_streams(&settings));
        Ok(Arc::new_cyclic(|this| Shared {
            this: this.clone(),
            is_encrypted,
            rate: AtomicU64::new(0),
            id,
            peer,
            epoll,
            timer,
            session: Mutex::new(Session::new(bounds, &BufferPool::new())),
            carrying: Mutex::default(),
            chunk: AtomicU64::new(settings.chunk.unwrap_or(CHUNK)),
            settings: Mutex::new(Arc::new(settings)),
            driver: Mutex::new(Driver {
                end,
                state: State::Opening,
                since: now,
                next_token: STREAMS,
                receipt_at: None,
                timer_at: None,
                unread: Vec::new(),
                tick_at: now,
                closing_until: None,
                tuning: Tuning::new(tuner, now),
                counts: Counts::default(),
            }),
            crew,
            turns,
        }))
    }

    pub fn session(&self) -> MutexGuard<'_, Session> {
        locked(&self.session)
    }

    pub fn settings(&self) -> Arc<Settings> {
        locked(&self.settings).clone()
    }

    pub fn carrying(&self) -> Vec<Arc<Stream>> {
        locked(&self.carrying).clone()
    }

    pub fn state(&self) -> State {
        locked(&self.driver).state.clone()
    }

    pub fn counts(&self) -> Counts {
        locked(&self.driver).counts
    }

    /// Does what can be done now.
    pub fn drive(&self) -> Result<()> {
        let mut ready = Vec::new();
        let status = self.epoll.wait(&mut ready, Some(Instant::now()));
        status.map_err(|error| Error::io("look at the streams of a path", &error))?;
        let mut driver = locked(&self.driver);
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
                DOOR => knocks = driver.door(),
                BELL => self.open_mail(&mut driver),
                _ => self.serve(&mut driver, ready),
            }
        }
        self.pass_time(&mut driver);
        self.set_timer(&mut driver);
        let failed = match &driver.state {
            State::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        };
        drop(driver);
        if let Some(door) = knocks {
            door.drive(); // may bring streams to this very path
        }
        failed
    }

    /// Lets streams that have nothing to do take what is to be sent.
    pub fn pump(&self) {
        let mut taken = Vec::new();
        for stream in self.carrying() {
            let is_idle = stream.try_io().map(|io| io.is_idle());
            match is_idle {
                Some(true) => self.write(&stream),
                Some(false) => continue,
                None => {
                    taken.push(stream);
                    continue;
                }
            }
            if !self.session().has_work() {
                return;
            }
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
        locked(&self.carrying).iter().find(|stream| stream.token == token).cloned()
    }

    fn serve(&self, driver: &mut Driver, ready: &Ready) {
        if let Some(stream) = self.stream_of(ready.token) {
            if let Err(reason) = self.serve_stream(driver, &stream, ready) {
                self.lose(driver, &stream, &reason);
            }
        } else if let End::Dialling(dialling) = &mut driver.end {
            match dialling.serve(ready.token, &self.epoll, self.id, &mut || locked(&self.session).have()) {
                Ok(None) => {}
                Ok(Some((stream, have))) => self.attach(driver, stream, &have, false),
                Err(failure) => self.dial_failed(driver, failure),
            }
        }
    }

    fn serve_stream(
        &self,
        driver: &mut Driver,
        stream: &Arc<Stream>,
        ready: &Ready,
    ) -> std::result::Result<(), String> {
        if ready.writable {
            stream.write(Some(&self.session), self.chunk())?;
        }
        if ready.readable || ready.hung_up {
            loop {
                match stream.read(Some(&self.session))? {
                    Heard::Frame(frame) => self.hear(driver, stream, frame)?,
                    Heard::Nothing => break,
                    Heard::More => {
                        driver.unread.push(stream.token);
                        break;
                    }
                }
            }
            let (works, owes) = {
                let session = self.session();
                (session.has_work(), session.owes_receipt())
            };
            if works {
                self.pump();
            } else if owes && driver.receipt_at.is_none() {
                driver.receipt_at = Some(Instant::now() + RECEIPT_DELAY);
            }
        }
        Ok(())
    }

    /// What the threads of a path leave to whoever drives it.
    fn open_mail(&self, driver: &mut Driver) {
        for (stream, mail) in self.crew.take_mail() {
            let status = match mail {
                Mail::Frame(frame) => self.hear(driver, &stream, frame),
                Mail::Broken(reason) => Err(reason),
            };
            if let Err(reason) = status {
                self.lose(driver, &stream, &reason);
            }
        }
        if self.session().owes_receipt() && driver.receipt_at.is_none() {
            driver.receipt_at = Some(Instant::now() + RECEIPT_DELAY);
        }
    }

    /// A frame that is not about messages.
    fn hear(&self, driver: &mut Driver, stream: &Arc<Stream>, frame: PathFrame) -> std::result::Result<(), String> {
        match frame {
            PathFrame::Bye => {
                if !self.session().is_finished() {
                    return Err("it says farewell to a path that is in use".to_owned());
                }
                self.close(driver);
                Ok(())
            }
            PathFrame::Refused { code: STREAM, reason } => Err(reason),
            PathFrame::Refused { code, reason } => {
                self.refused(driver, code, reason);
                Ok(())
            }
            PathFrame::Retire => {
                // With it goes what has come: then nothing has to be sent again when the stream is gone.
                let mut io = stream.io();
                while let Some(receipt) = self.session().late_receipt() {
                    io.push(receipt);
                }
                if std::mem::replace(&mut io.is_retired, true) {
                    drop(io);
                    self.write(stream);
                    return Err("it is not needed any more".to_owned());
                }
                drop(io);
                stream.push(&PathFrame::Retire);
                self.write(stream);
                Ok(())
            }
            PathFrame::Streams(count) => {
                if let End::Dialling(dialling) = &mut driver.end {
                    dialling.want(count.clamp(1, super::settings::MAX_STREAMS));
                }
                Ok(())
            }
            other => Err(format!("it sends {other:?} where none belongs")),
        }
    }

    /// The other end gives the path up, or does not know it.
    fn refused(&self, driver: &mut Driver, code: u16, reason: String) {
        let over = code == UNKNOWN_PATH && self.session().is_finished() && self.session().peer_has_finished();
        if over {
            return self.close(driver); // the other end had said farewell
        }
        let problem = match code {
            UNKNOWN_PATH => format!("the path is not known there any more: {reason}"),
            GIVEN_UP => format!("it has given the path up: {reason}"),
            _ => reason,
        };
        self.fail(driver, Error::Protocol { peer: self.peer.clone(), problem });
    }

    /// A stream on which both ends have said what they have.
    pub fn attach(&self, driver: &mut Driver, stream: Arc<Stream>, have: &[Receipt; 2], answer: bool) {
        let old = locked(&self.carrying).iter().find(|old| old.id == stream.id).cloned();
        if let Some(old) = old {
            self.lose(driver, &old, "it was replaced");
        }
        {
            let mut session = self.session();
            if answer {
                let have = session.have();
                stream.push(&PathFrame::Attached { have });
            }
            if let Err(reason) = session.attach(stream.id, have) {
                drop(session);
                let peer = self.peer.clone();
                return self.fail(driver, Error::Protocol { peer, problem: reason });
            }
        }
        stream.io().is_attached = true;
        locked(&self.carrying).push(stream.clone());
        if let State::Broken(_) = driver.state {
            driver.counts.resumed += 1;
        }
        if matches!(driver.state, State::Opening | State::Broken(_)) {
            driver.state = State::Open;
        }
        let everything = Ready { token: stream.token, readable: true, writable: true, hung_up: false };
        if let Err(reason) = self.serve_stream(driver, &stream, &everything) {
            self.lose(driver, &stream, &reason);
        }
        self.pump();
    }

    /// A stream that was accepted for this path; `have` is what has come at the dialling end.
    pub fn adopt(&self, id: u32, wire: Box<dyn crate::methods::Stream>, rest: &[u8], have: &[Receipt; 2]) {
        let mut driver = locked(&self.driver);
        if matches!(driver.state, State::Closed | State::Failed(_)) {
            return;
        }
        let token = driver.token();
        if self.epoll.add(wire.fd(), token, Interest::READ).is_err() {
            return; // no memory for it: the other end tries again
        }
        let stream = Arc::new(Stream::new(id, token, wire, self.epoll.clone(), rest));
        self.attach(&mut driver, stream, have, true);
        self.set_timer(&mut driver);
        drop(driver);
        self.turns.tell();
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
            let mut driver = locked(&self.driver);
            self.fail(&mut driver, Error::Usage { problem: format!("a message could not be kept: {none}") });
            *self.session() = Session::new(bounds(&self.settings()), &pool);
        }
    }

    /// Bytes per second that the other end acknowledged, lately.
    pub fn rate(&self) -> f64 {
        self.rate.load(Ordering::Relaxed) as f64
    }

    /// A stream is gone; what it had taken goes by others.
    fn lose(&self, driver: &mut Driver, stream: &Arc<Stream>, reason: &str) {
        let is_last = {
            let mut carrying = locked(&self.carrying);
            let before = carrying.len();
            carrying.retain(|other| other.token != stream.token);
            if carrying.len() == before {
                return;
            }
            carrying.is_empty()
        };
        stream.unwatch();
        stream.wire.shut();
        let mut io = stream.io();
        io.leave();
        driver.counts.lost += u64::from(!io.is_retired);
        driver.counts.bytes_in += io.bytes_in;
        driver.counts.bytes_out += io.bytes_out;
        driver.counts.retransmitted += u64::from(io.info.retransmitted);
        let was_retired = io.is_retired;
        drop(io);
        self.session().detach(stream.id);
        if is_last && matches!(driver.state, State::Open) {
            if driver.closing_until.is_some() {
                return self.close(driver);
            }
            driver.state = State::Broken(reason.to_owned());
            driver.since = Instant::now();
        }
        if let End::Dialling(dialling) = &mut driver.end {
            dialling.lost(stream.id, was_retired);
        }
        self.pump();
    }

    /// An attempt to open a stream failed. A verdict (another secret, another version) ends a path that has never stood.
    fn dial_failed(&self, driver: &mut Driver, failure: Failure) {
        let Failure { reason, verdict } = failure;
        match (&mut driver.state, verdict) {
            (_, Verdict::Refused(code @ (UNKNOWN_PATH | GIVEN_UP))) => self.refused(driver, code, reason),
            (State::Opening, Verdict::Strangers) => {
                self.fail(driver, Error::Protocol { peer: self.peer.clone(), problem: reason });
            }
            (State::Broken(last), _) => *last = reason,
            _ => {}
        }
    }

    fn pass_time(&self, driver: &mut Driver) {
        if matches!(driver.state, State::Closed | State::Failed(_)) {
            return;
        }
        let now = Instant::now();
        let settings = self.settings();
        if let End::Dialling(dialling) = &mut driver.end {
            let resumes = !matches!(driver.state, State::Opening);
            let failures = dialling.pass_time(now, &settings, &self.epoll, resumes, &mut driver.next_token);
            let spare = dialling.spare();
            for failure in failures {
                self.dial_failed(driver, failure);
            }
            self.retire(spare);
        }
        if driver.tuning.at <= now {
            self.tune(driver, now, &settings);
        }
        if driver.receipt_at.is_some_and(|at| at <= now) {
            driver.receipt_at = None;
            self.send_late_receipts();
        }
        if driver.tick_at <= now {
            driver.tick_at = now + settings.silence / 8;
            self.look_at_streams(driver, now, &settings);
        }
        self.end_if_over(driver, now);
        self.give_up_if_late(driver, now, &settings);
    }

    fn send_late_receipts(&self) {
        let stream = self.carrying().into_iter().find(|stream| stream.io().is_idle());
        let Some(stream) = stream else { return }; // all are writing: receipts go along
        let mut io = stream.io();
        while let Some(receipt) = self.session().late_receipt() {
            io.push(receipt);
        }
        drop(io);
        self.write(&stream);
    }

    fn look_at_streams(&self, driver: &mut Driver, now: Instant, settings: &Settings) {
        for stream in self.carrying() {
            let io = stream.io();
            let (silent, quiet) = (now - io.heard.min(now), now - io.spoke.min(now));
            let is_idle = io.is_idle();
            drop(io);
            if silent > settings.silence {
                self.lose(driver, &stream, &format!("nothing was heard for {:.1} s", silent.as_secs_f64()));
            } else if quiet > settings.silence / 4 && is_idle {
                stream.push(&PathFrame::Alive);
                self.write(&stream);
            }
        }
    }

    fn end_if_over(&self, driver: &mut Driver, now: Instant) {
        match driver.closing_until {
            Some(until) if until <= now => self.close(driver),
            Some(_) => {}
            None if self.session().is_over() => {
                driver.closing_until = Some(now + FAREWELL);
                for stream in self.carrying() {
                    stream.push(&PathFrame::Bye);
                    self.write(&stream);
                }
                if self.carrying().is_empty() {
                    self.close(driver);
                }
            }
            None => {}
        }
    }

    fn give_up_if_late(&self, driver: &mut Driver, now: Instant, settings: &Settings) {
        let (limit, reason) = match &driver.state {
            State::Opening => (settings.connect, driver.last_reason()),
            State::Broken(reason) => (settings.patience, reason.clone()),
            _ => return,
        };
        if now < driver.since + limit {
            return;
        }
        let (seconds, peer) = (limit.as_secs_f64(), self.peer.clone());
        let problem = match driver.state {
            State::Opening => format!("no path to it could be opened within {seconds} s: {reason}"),
            _ => format!("the path to it was broken and could not be mended within {seconds} s: {reason}"),
        };
        self.fail(driver, Error::Protocol { peer, problem });
    }

    fn fail(&self, driver: &mut Driver, error: Error) {
        if matches!(driver.state, State::Closed | State::Failed(_)) {
            return;
        }
        driver.state = State::Failed(error);
        self.drop_streams(driver);
    }

    fn close(&self, driver: &mut Driver) {
        if matches!(driver.state, State::Closed | State::Failed(_)) {
            return;
        }
        driver.state = State::Closed;
        self.drop_streams(driver);
    }

    fn drop_streams(&self, driver: &mut Driver) {
        for stream in std::mem::take(&mut *locked(&self.carrying)) {
            let mut io = stream.io();
            io.leave();
            driver.counts.bytes_in += io.bytes_in;
            driver.counts.bytes_out += io.bytes_out;
            driver.counts.retransmitted += u64::from(io.info.retransmitted);
            drop(io);
            stream.unwatch();
            stream.wire.shut();
        }
        self.crew.dismiss();
        match &mut driver.end {
            End::Dialling(dialling) => dialling.stop(&self.epoll),
            End::Listening(door) => {
                self.epoll.remove(door.fd());
                door.forget(&self.id);
            }
        }
    }

    /// The program gives the path up: the other end is told if it can be told at once.
    pub fn abandon(&self) {
        let mut driver = locked(&self.driver);
        for stream in self.carrying() {
            stream.push(&PathFrame::Refused {
                code: GIVEN_UP,
                reason: "the program at the other end has ended it".into(),
            });
            self.write(&stream);
        }
        self.close(&mut driver);
    }

    /// Other settings from now on.
    pub fn set(&self, settings: Settings) -> Result<()> {
        settings.check()?;
        self.chunk.store(settings.chunk.unwrap_or(CHUNK), Ordering::Relaxed);
        self.session().inbox_mut(Lane::Bulk).set_window(settings.window);
        let count = tuning::first_streams(&settings);
        for stream in self.carrying() {
            let status = super::socket::tune(stream.wire.fd(), &settings);
            status.map_err(|error| Error::io("set a stream as the path wants it", &error))?;
        }
        *locked(&self.settings) = Arc::new(settings);
        let mut driver = locked(&self.driver);
        driver.tuning.begin(count);
        match &mut driver.end {
            End::Dialling(dialling) => dialling.want(count),
            End::Listening(_) => self.ask_for(count),
        }
        self.timer.set(Some(Instant::now()));
        drop(driver);
        self.pump();
        Ok(())
    }

    /// The path is to be driven soon: something was asked for that only [`Shared::drive`] does.
    pub fn hurry(&self) {
        self.timer.set(Some(Instant::now()));
    }

    /// Sets the timer if it would go off too late. One that goes off too early costs a look, which is cheaper than to set it anew
    /// whenever something comes.
    fn set_timer(&self, driver: &mut Driver) {
        let dial_at = match &driver.end {
            End::Dialling(dialling) => dialling.next_time(),
            End::Listening(_) => None,
        };
        let times = [Some(driver.tick_at), Some(driver.tuning.at), driver.receipt_at, driver.closing_until, dial_at];
        let next = match driver.state {
            _ if !driver.unread.is_empty() => Some(Instant::now()),
            State::Closed | State::Failed(_) => None,
            _ => times.into_iter().flatten().min(),
        };
        let is_in_time = match (driver.timer_at, next) {
            (Some(at), Some(next)) => at <= next,
            (at, next) => at == next,
        };
        if !is_in_time {
            self.timer.set(next);
            driver.timer_at = next;
        }
    }
}

impl Driver {
    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn door(&self) -> Option<Arc<Door>> {
        match &self.end {
            End::Listening(door) => Some(door.clone()),
            End::Dialling(_) => None,
        }
    }

    fn last_reason(&self) -> String {
        match &self.end {
            End::Dialling(dialling) => dialling.last_reason.clone(),
            End::Listening(_) => "no stream came".to_owned(),
        }
    }
}
