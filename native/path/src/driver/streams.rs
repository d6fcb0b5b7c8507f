//! What streams bring to a path: they come, are heard, and go.

use std::sync::Arc;
use std::time::Instant;

use xmml_wire::error::Error;
use xmml_wire::lock::lock;
use xmml_wire::methods::Stream as Wire;
use xmml_wire::wakeup::{Interest, Ready};

use super::{Driver, End, Shared, State, RECEIPT_DELAY};
use crate::dialling::{Failure, Verdict};
use crate::driver::thread_pool::WorkerReport;
use crate::frame::{PathFrame, Receipt, GIVEN_UP, STREAM, UNKNOWN_PATH};
use crate::settings::{Streams, MAX_STREAMS};
use crate::socket;
use crate::stream::{Heard, Stream};
use crate::tcp_info::TcpInfo;

/// How often an end that leaves the number of streams to chance is told that it is fixed: it asks once or twice, and each answer waits here
/// until it is read.
const MOST_WISHES: u32 = 1000;

impl Shared {
    pub(super) fn serve(&self, driver: &mut Driver, ready: &Ready) {
        if let Some(stream) = self.stream_of(ready.token) {
            if let Err(reason) = self.serve_stream(driver, &stream, ready) {
                self.lose(driver, &stream, &reason);
            }
        } else if let End::Dialling(dialling) = &mut driver.end {
            match dialling.serve(ready.token, &self.epoll, self.id, &mut || lock(&self.session).have()) {
                Ok(None) => self.begin_at_first_sight(driver),
                Ok(Some((stream, have))) => self.attach(driver, stream, &have, false),
                Err(failure) => self.dial_failed(driver, failure),
            }
        }
    }

    /// Opens as many streams as the round trip asks for as soon as a connection shows how long it takes, so that they come right after the
    /// first.
    fn begin_at_first_sight(&self, driver: &mut Driver) {
        let End::Dialling(dialling) = &mut driver.end else { return };
        let Some(round_trip) = dialling.round_trip else { return };
        if driver.theirs.is_some() {
            return;
        }
        if let Some(count) = driver.tuning.begin_at(round_trip, &self.settings()) {
            dialling.want(count);
        }
    }

    fn serve_stream(
        &self,
        driver: &mut Driver,
        stream: &Arc<Stream>,
        ready: &Ready,
    ) -> std::result::Result<(), String> {
        let written = if ready.writable { stream.write(Some(&self.session), self.chunk()) } else { Ok(()) };
        // Who has closed it may have said why.
        if written.is_err() || ready.readable || ready.hung_up {
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
        written
    }

    /// What the threads of a path leave to whoever drives it.
    pub(super) fn open_mail(&self, driver: &mut Driver) {
        for (stream, mail) in self.crew.take_mail() {
            let status = match mail {
                WorkerReport::Frame(frame) => self.hear(driver, &stream, frame),
                WorkerReport::Broken(reason) => Err(reason),
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
                let mut session = self.session();
                if !session.is_finished() {
                    return Err("it says farewell to a path that is in use".to_owned());
                }
                session.farewell()?;
                drop(session);
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
            PathFrame::Streams { count, is_fixed } => {
                self.hear_of_streams(driver, count, is_fixed);
                match driver.refused_wishes {
                    ..=MOST_WISHES => Ok(()),
                    _ => Err("it asks again and again for other streams than it can have".to_owned()),
                }
            }
            PathFrame::Carries { bandwidth } => {
                driver.tuning.hear_of_bandwidth(bandwidth);
                Ok(())
            }
            other => Err(format!("it sends {other:?} where none belongs")),
        }
    }

    /// The other end would like so many streams.
    fn hear_of_streams(&self, driver: &mut Driver, count: u32, is_fixed: bool) {
        driver.theirs = is_fixed.then_some(count);
        let own = self.settings().streams;
        match &mut driver.end {
            End::Dialling(dialling) => match own {
                Streams::Fixed(own) if !is_fixed => dialling.want(own),
                _ => {
                    let count = count.clamp(1, MAX_STREAMS);
                    dialling.want(count);
                    driver.tuning.follow(count);
                }
            },
            // The end that dials leaves the number to this one.
            End::Listening(_) => {
                if let (Streams::Fixed(own), false) = (own, is_fixed) {
                    driver.refused_wishes += 1;
                    self.tell(&self.wish(own));
                }
            }
        }
    }

    /// The other end gives the path up, or does not know it.
    fn refused(&self, driver: &mut Driver, code: u16, reason: String) {
        let session = self.session();
        let was_over = session.is_finished() && session.peer_has_finished() && session.not_delivered().messages == 0;
        drop(session);
        if was_over && code == UNKNOWN_PATH {
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
        let old = lock(&self.carrying).iter().find(|old| old.id == stream.id).cloned();
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
        let settings = self.settings();
        self.pace_stream(driver, &stream, &settings);
        let mut io = stream.io();
        io.is_attached = true;
        io.uncopied.set(settings.zero_copy, &*stream.wire, self.is_encrypted);
        drop(io);
        if let End::Dialling(_) = driver.end {
            stream.push(&self.own_streams());
        }
        if settings.link.is_some() {
            stream.push(&self.carries());
        }
        lock(&self.carrying).push(stream.clone());
        let now = Instant::now();
        match driver.state {
            State::Opening => driver.since = now,
            State::Broken(_) => driver.counts.resumed += 1,
            _ => {}
        }
        if matches!(driver.state, State::Opening | State::Broken(_)) {
            (driver.state, driver.opened) = (State::Open, now);
            driver.tuning.at = now; // the round trip time is known now, and with it how many streams to begin with
        }
        let everything = Ready { token: stream.token, readable: true, writable: true, hung_up: false };
        if let Err(reason) = self.serve_stream(driver, &stream, &everything) {
            self.lose(driver, &stream, &reason);
        }
        self.pump();
    }

    /// A stream that was accepted for this path; `have` is what has come at the dialling end.
    pub fn adopt(&self, id: u32, wire: Arc<dyn Wire>, rest: &[u8], have: &[Receipt; 2]) {
        let mut driver = lock(&self.driver);
        if matches!(driver.state, State::Closed | State::Failed(_)) {
            return;
        }
        // Whoever took the connection in knows neither what was set since the path began nor, with a listener of its own, anything of it.
        if TcpInfo::of(wire.fd()).is_some() {
            if let Err(error) = socket::tune(wire.fd(), &self.settings()) {
                return self.fail(&mut driver, Error::io("set a stream as the path wants it", &error));
            }
        }
        let token = driver.token();
        if self.epoll.add(wire.fd(), token, Interest::READ).is_err() {
            return; // no memory for it: the other end tries again
        }
        let stream = Arc::new(Stream::new(id, token, wire, self.epoll.clone(), rest));
        self.attach(&mut driver, stream, have, true);
        self.set_timer(&mut driver);
        drop(driver);
        self.hand_back();
        self.turns.tell();
    }

    /// A stream is gone; what it had taken goes by others. If this end itself has ended it, because it can not take a message, the path is
    /// given up: the message would only come again.
    pub(super) fn lose(&self, driver: &mut Driver, stream: &Arc<Stream>, reason: &str) {
        let refusal = self.session().refusal();
        if let Some(reason) = refusal {
            return self.fail_both(driver, &reason);
        }
        let is_last = {
            let mut carrying = lock(&self.carrying);
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
        driver.counts.add(&io);
        let was_retired = io.is_retired;
        drop(io);
        let (progress, has_all) = {
            let mut session = self.session();
            session.detach(stream.id);
            (session.progress(), session.all_arrived())
        };
        if is_last && matches!(driver.state, State::Open) {
            if driver.closing_until.is_some() {
                return self.close(driver);
            }
            driver.state = State::Broken(reason.to_owned());
            let is_short = driver.opened.elapsed() < self.settings().silence;
            // Else it was broken all the time, though streams came about: they brought nothing of what waits.
            if progress != driver.progress || has_all || !is_short {
                driver.since = Instant::now();
            }
            driver.progress = progress;
        }
        if let End::Dialling(dialling) = &mut driver.end {
            dialling.lost(stream.id, was_retired, progress);
        }
        self.pump();
    }

    /// An attempt to open a stream failed. A verdict (another secret, another version) ends a path that has never stood.
    pub(super) fn dial_failed(&self, driver: &mut Driver, failure: Failure) {
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
}
