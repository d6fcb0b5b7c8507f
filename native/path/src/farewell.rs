//! The last word of a path that is given up. Streams that do not take it at once are kept until they have; where none is left, or none gets
//! on, the end that dials opens one more stream to say it. A thread of its own does that: the program has dropped the path.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::wakeup::{Epoll, Ready};

use super::dialling::{Dialling, Verdict};
use super::frame::{PathFrame, PathId, Receipt};
use super::settings::Settings;
use super::stream::Stream;

/// Streams that have not brought the word to the other end within this are not relied on alone.
const SOON: Duration = Duration::from_secs(2);

/// How often one more stream is tried. An attempt at an end that does not look takes as long as a handshake may.
const ATTEMPTS: u32 = 5;

/// Bytes that are read of a stream, and forgotten, before it is the turn of others.
const TURN: usize = 4 << 20;

/// Threads that bring last words at a time; beyond that, streams take them at once or not at all.
const MOST: usize = 256;

static BRINGING: AtomicUsize = AtomicUsize::new(0);

/// See the module.
pub(super) struct Farewell {
    id: PathId,
    word: PathFrame,
    /// What has come at this end.
    have: [Receipt; 2],
    settings: Arc<Settings>,
    epoll: Arc<Epoll>,
    streams: Vec<Arc<Stream>>,
    /// Opens one more stream, if this is the end that dials.
    dialling: Option<Dialling>,
    attempts: u32,
    /// Streams that were opened here have tokens above this one.
    before: u64,
    last_token: u64,
}

impl Farewell {
    /// Says `word` on no stream yet; streams of the path have tokens up to `last_token`.
    ///
    /// # Errors
    /// If the system has no descriptor.
    pub fn new(
        id: PathId,
        word: PathFrame,
        have: [Receipt; 2],
        settings: Arc<Settings>,
        last_token: u64,
    ) -> std::io::Result<Farewell> {
        let epoll = Arc::new(Epoll::new()?);
        let (streams, dialling) = (Vec::new(), None);
        let before = last_token;
        Ok(Farewell { id, word, have, settings, epoll, streams, dialling, attempts: 0, before, last_token })
    }

    /// Takes over a stream on which it was said last ([`Stream::end_with`]).
    pub fn on(&mut self, stream: Arc<Stream>) {
        match stream.hand_over(&self.epoll) {
            Ok(()) => self.streams.push(stream),
            Err(_) => self.lose(&stream),
        }
    }

    fn say_on(&mut self, stream: Arc<Stream>) {
        match stream.end_with(&self.word) {
            true => self.on(stream),
            false => self.lose(&stream),
        }
    }

    fn lose(&mut self, stream: &Stream) {
        self.streams.retain(|other| other.token != stream.token);
        stream.unwatch();
        stream.wire.shut();
        if let Some(dialling) = self.dialling.as_mut().filter(|_| stream.token > self.before) {
            self.attempts += 1;
            dialling.lost(stream.id, false, 0);
        }
    }

    /// Says it on the streams that this end was just opening, and on one more if need be.
    pub fn dials(&mut self, dialling: &mut Dialling) {
        dialling.take_attaching().into_iter().for_each(|stream| self.say_on(stream));
        self.dialling = dialling.was_known().then(|| dialling.again_for_one());
    }

    /// Does not wait.
    pub fn begin(mut self) {
        if self.streams.is_empty() && self.dialling.is_none() {
            return;
        }
        let bringing = Bringing::one_more();
        if BRINGING.load(Ordering::SeqCst) > MOST {
            return self.part();
        }
        // If there is no thread, dropping the streams closes them.
        let _ = std::thread::Builder::new().name("xmml-path-farewell".into()).spawn(move || {
            let _bringing = bringing;
            self.bring();
            self.part();
        });
    }

    /// Until the other end has closed a stream behind the word, or says that it knows the path no more; as long as it would wait for this one.
    fn bring(&mut self) {
        let begun = Instant::now();
        let until = begun + self.settings.patience;
        let mut ready = Vec::new();
        loop {
            let now = Instant::now();
            if self.attempts >= ATTEMPTS {
                self.dialling = None;
            }
            if now >= until || (self.streams.is_empty() && self.dialling.is_none()) {
                return;
            }
            let dials_from = if self.streams.is_empty() { now } else { begun + SOON };
            let mut wake = until;
            if let Some(dialling) = &mut self.dialling {
                if dials_from <= now {
                    let failures = dialling.pass_time(now, &self.settings, &self.epoll, true, &mut self.last_token);
                    self.attempts += failures.len() as u32;
                    wake = wake.min(dialling.next_time().unwrap_or(until));
                } else {
                    wake = wake.min(dials_from);
                }
            }
            if self.epoll.wait(&mut ready, Some(wake)).is_err() || ready.iter().any(|ready| self.is_told_by(ready)) {
                return;
            }
        }
    }

    /// Goes on with what is ready; whether the other end knows now.
    fn is_told_by(&mut self, ready: &Ready) -> bool {
        if let Some(at) = self.streams.iter().position(|stream| stream.token == ready.token) {
            let stream = self.streams[at].clone();
            // Where one more stream has come, the other end closes the one that it replaces, whether it was told there or not.
            let is_replaced = stream.token <= self.before && self.dialling.as_ref().is_some_and(Dialling::was_known);
            return match is_told(&stream) {
                Ok(is_told) if !(is_told && is_replaced) => is_told,
                _ => {
                    self.lose(&stream);
                    false
                }
            };
        }
        let Some(dialling) = &mut self.dialling else { return false };
        match dialling.serve(ready.token, &self.epoll, self.id, &mut || self.have.clone()) {
            Ok(None) => false,
            Ok(Some((stream, _))) => {
                self.say_on(stream);
                false
            }
            Err(failure) => {
                self.attempts += 1;
                failure.verdict != Verdict::Again
            }
        }
    }

    fn part(&mut self) {
        self.streams.iter().for_each(|stream| stream.wire.shut());
    }
}

/// Goes on with a stream: whether the other end has closed it after it was told.
fn is_told(stream: &Stream) -> Result<bool, String> {
    let written = stream.write(None, 0);
    let mut bytes = [0; 16 * 1024];
    let mut turn = 0;
    while turn < TURN {
        match stream.wire.read(&mut bytes) {
            Ok(0) if stream.io().is_idle() => return Ok(true),
            Ok(0) => return Err("it was closed before all was written".to_owned()),
            Ok(count) => turn += count, // it comes too late
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return written.map(|()| false),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    written.map(|()| false)
}

/// Counts a thread.
struct Bringing;

impl Bringing {
    fn one_more() -> Bringing {
        BRINGING.fetch_add(1, Ordering::SeqCst);
        Bringing
    }
}

impl Drop for Bringing {
    fn drop(&mut self) {
        BRINGING.fetch_sub(1, Ordering::SeqCst);
    }
}
