//! One end of a path as programs see it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xmml_wire::buffer::Buffer;
use xmml_wire::error::{Error, NotPassedOn, Result};
use xmml_wire::handshake;
use xmml_wire::internet_address::resolve;
use xmml_wire::lock::lock;

use crate::credentials::Fingerprint;
use crate::dialling::Dialling;
use crate::driver::leader_followers::BackgroundDriver;
use crate::driver::{End, Shared, State};
use crate::frame::Lane;
use crate::identity::Identity;
use crate::limit::until;
use crate::settings::Settings;
use crate::tcp_info::TcpInfo;
use crate::tuning;
use crate::zero_copy::Copies;

/// What a receive that waits may bring.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A message.
    Message(Buffer),
    /// The other end has finished, and every message of this lane has been received.
    Ended,
}

/// Where a message stands that was sent without waiting ([`Path::post`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    lane: Lane,
    end: u64,
}

impl Ticket {
    /// For those who keep it as a number ([`Ticket::position`]).
    pub fn at(lane: Lane, position: u64) -> Ticket {
        Ticket { lane, end: position }
    }

    /// The position behind the message on its lane.
    pub fn position(&self) -> u64 {
        self.end
    }
}

/// How a path is doing.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Streams that carry now.
    pub streams: usize,
    /// Streams that were lost since the path was opened.
    pub streams_lost: u64,
    /// How often the path went on after all streams had been lost.
    pub resumed: u64,
    /// Bytes that came, frames included.
    pub bytes_in: u64,
    /// Bytes that went to the kernel, frames included.
    pub bytes_out: u64,
    /// Bytes that this end keeps because the other may not have them: control, bulk.
    pub kept: [u64; 2],
    /// Complete messages that wait for the program: control, bulk.
    pub waiting: [usize; 2],
    /// Bytes per second that the other end acknowledged, lately.
    pub rate: f64,
    /// Round trip time, the mean of the streams, in seconds; 0 while it is not known.
    pub round_trip: f64,
    /// Segments that TCP had to send again.
    pub retransmitted: u64,
    /// Bytes of a piece.
    pub chunk: u64,
    /// Streams that send without copying into the kernel, what is fit for it ([`Settings::zero_copy`]).
    pub zero_copy_streams: usize,
    /// Bytes that were sent in that way, also those that the kernel copied all the same.
    pub zero_copy_bytes: u64,
    /// Why streams copy; of several reasons that which says most. `None`: none does, or there is none.
    pub why_copied: Option<Copies>,
}

/// One end of a path. See the [crate].
///
/// Dropping it gives the path up: what is not receipted yet is lost, and the other end is told, by a thread of its own if that takes time.
/// [`Path::close`] ends it in order.
pub struct Path {
    pub(crate) shared: Arc<Shared>,
    attendant: Mutex<Option<BackgroundDriver>>,
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Path(to {}, {:?})", self.peer(), self.state())
    }
}

impl Path {
    /// Begins to open a path to the program called `peer` that listens at `address` (`host:port`). Does not wait but for the name
    /// of the host; the path can be used at once.
    ///
    /// # Errors
    /// [`Error::Usage`] for settings that cannot be and addresses that have no meaning; [`Error::Io`] if the system has no room.
    pub fn dial(address: &str, me: &Identity, peer: &str, settings: Settings) -> Result<Path> {
        settings.check()?;
        Path::dial_any(&resolve(address)?, me, peer, settings)
    }

    /// The same where the addresses of the host are known; they are tried in turn. Never waits.
    ///
    /// # Errors
    /// As of [`Path::dial`]; [`Error::Usage`] without any address.
    pub fn dial_any(addresses: &[SocketAddr], me: &Identity, peer: &str, settings: Settings) -> Result<Path> {
        settings.check()?;
        me.check()?;
        if addresses.is_empty() {
            return Err(Error::Usage { problem: format!("there is no address at which {peer} can be dialled") });
        }
        let addresses = addresses.to_vec();
        let mut id = [0; 16];
        id.copy_from_slice(&handshake::fresh_nonce()?[..16]);
        let dialling = Dialling::new(me.clone(), peer.to_owned(), addresses, tuning::first_streams(&settings));
        let shared = Shared::new(id, peer.to_owned(), End::Dialling(Box::new(dialling)), me.tls.is_some(), settings)?;
        shared.drive()?;
        Ok(Path::over(shared))
    }

    pub(crate) fn over(shared: Arc<Shared>) -> Path {
        Path { shared, attendant: Mutex::default() }
    }

    /// Whether its streams are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.shared.is_encrypted
    }

    /// The certificates that the other end has shown on the streams that there are now, each once; none on streams that are not encrypted.
    pub fn shown_certificates(&self) -> BTreeSet<Fingerprint> {
        let streams = self.shared.carrying();
        streams.iter().filter_map(|stream| stream.wire.shown_certificate().map(Fingerprint::from_bytes)).collect()
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &str {
        &self.shared.peer
    }

    /// Readable when [`Path::drive`] has something to do: for poll, select, epoll.
    pub fn fd(&self) -> RawFd {
        self.shared.epoll.as_raw_fd()
    }

    /// Does what can be done now; never waits.
    ///
    /// # Errors
    /// Why the path has failed. Messages that had come can still be taken.
    pub fn drive(&self) -> Result<()> {
        let status = self.shared.drive();
        self.shared.turns.tell();
        status
    }

    /// Starts a thread that drives the path while nobody waits on it; a second call does nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no thread.
    pub fn attend(&self) -> Result<()> {
        let mut attendant = lock(&self.attendant);
        if attendant.is_none() {
            *attendant = Some(BackgroundDriver::start(&self.shared)?);
        }
        Ok(())
    }

    /// How it is.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Why a path that this end dials is not open yet: what became of the last attempt. `None`: none has failed so far, or it was opened.
    pub fn why_not_open(&self) -> Option<String> {
        self.shared.why_not_open()
    }

    /// Whether a message on this lane stays within what may be queued ([`Settings::queue`]; 8 MiB for control). One always may.
    pub fn has_room(&self, lane: Lane) -> bool {
        let limit = match lane {
            Lane::Control => 8 << 20,
            Lane::Bulk => self.shared.settings().queue,
        };
        self.shared.session().outbox(lane).has_room(limit)
    }

    /// Bytes of a lane that are kept because the other end may not have them, 64 of each message besides its own.
    pub fn kept(&self, lane: Lane) -> u64 {
        self.shared.session().outbox(lane).kept()
    }

    /// Sends a message without waiting and without copying it; it is kept until the other end has it. How much is kept is up to the
    /// caller: see [`Path::has_room`].
    ///
    /// # Errors
    /// Why the path has failed; [`Error::Usage`] after [`Path::finish`].
    pub fn post(&self, lane: Lane, message: impl Into<Buffer>) -> Result<Ticket> {
        let ticket = self.queue(lane, message)?;
        self.shared.pump();
        Ok(ticket)
    }

    /// As [`Path::post`], but what is queued may wait until [`Path::send_queued`]: several small messages then leave by one write.
    ///
    /// # Errors
    /// As of [`Path::post`].
    pub fn queue(&self, lane: Lane, message: impl Into<Buffer>) -> Result<Ticket> {
        if let State::Failed(error) = self.state() {
            return Err(error);
        }
        let end = self.shared.session().send(lane, message.into()).ok_or_else(finished)?;
        Ok(Ticket { lane, end })
    }

    /// As [`Path::post`], for a message that whoever takes it in the end can tell from any other: whoever made it has encrypted and
    /// authenticated it. On an encrypted path its first [`crate::CLOSED`] bytes are encrypted again, and where the others belong; these go as
    /// they are, so that nobody encrypts them twice.
    ///
    /// # Errors
    /// As of [`Path::post`].
    pub fn post_protected(&self, lane: Lane, message: impl Into<Buffer>) -> Result<Ticket> {
        if !self.is_encrypted() {
            return self.post(lane, message);
        }
        if let State::Failed(error) = self.state() {
            return Err(error);
        }
        let end = self.shared.session().send_protected(lane, message.into()).ok_or_else(finished)?;
        self.shared.pump();
        Ok(Ticket { lane, end })
    }

    /// Sends what was queued, as far as the streams take it; the rest follows when they do.
    pub fn send_queued(&self) {
        self.shared.pump();
    }

    /// Whether the other end is known to have a message; if a program there passes it on ([`relay`]), whether the last end has it.
    pub fn has_arrived(&self, ticket: Ticket) -> bool {
        self.shared.session().outbox(ticket.lane).delivered_before() >= ticket.end
    }

    /// The messages sent so far that are not known to have arrived; also of a path that has failed.
    pub fn not_arrived(&self) -> NotPassedOn {
        self.shared.session().not_delivered()
    }

    /// The next message of a lane, if it has come.
    pub fn take(&self, lane: Lane) -> Option<Buffer> {
        self.take_with_end(lane).map(|(message, _)| message)
    }

    /// The same with the position behind it.
    pub(crate) fn take_with_end(&self, lane: Lane) -> Option<(Buffer, u64)> {
        let mut session = self.shared.session();
        let message = session.take(lane).map(|message| (message, session.inbox(lane).taken_before()));
        let has_work = session.inbox(lane).receipt_is_due();
        drop(session);
        if has_work {
            self.shared.pump();
        }
        message
    }

    /// Whether the other end has finished and everything of this lane was taken.
    pub fn has_ended(&self, lane: Lane) -> bool {
        self.shared.session().has_ended(lane)
    }

    /// Waits until the path is open; false: not before `limit`.
    ///
    /// # Errors
    /// Why it cannot be opened: nobody answers, another secret, another version.
    pub fn wait_open(&self, limit: Option<Duration>) -> Result<bool> {
        let opened = self.shared.wait(until(limit), || {
            Ok(matches!(self.state(), State::Open | State::Broken(_) | State::Closed).then_some(()))
        })?;
        Ok(opened.is_some())
    }

    /// Waits until a message may be queued; false: not within `limit`.
    ///
    /// # Errors
    /// Why the path has failed.
    pub fn wait_room(&self, lane: Lane, limit: Option<Duration>) -> Result<bool> {
        Ok(self.shared.wait(until(limit), || Ok(self.has_room(lane).then_some(())))?.is_some())
    }

    /// Waits until all of a message has left at least once; false: not within `limit`.
    ///
    /// # Errors
    /// Why the path has failed.
    pub fn wait_left(&self, ticket: Ticket, limit: Option<Duration>) -> Result<bool> {
        let left = || self.shared.session().outbox(ticket.lane).given_before() >= ticket.end;
        Ok(self.shared.wait(until(limit), || Ok(left().then_some(())))?.is_some())
    }

    /// Waits until the other end is known to have a message, as of [`Path::has_arrived`]; false: not within `limit`.
    ///
    /// # Errors
    /// Why the path has failed.
    pub fn wait_arrived(&self, ticket: Ticket, limit: Option<Duration>) -> Result<bool> {
        Ok(self.shared.wait(until(limit), || Ok(self.has_arrived(ticket).then_some(())))?.is_some())
    }

    /// Copies what is still needed of messages in the memory of `lent`: when this returns, the path refers to that memory no more.
    pub fn own(&self, lent: &Buffer) {
        self.shared.own(lent);
    }

    /// Waits for the next message of a lane without taking it: how long it is, or `Some(None)` if the lane has ended; `None`: not within
    /// `limit`.
    ///
    /// # Errors
    /// Why the path has failed.
    pub fn wait_next(&self, lane: Lane, limit: Option<Duration>) -> Result<Option<Option<usize>>> {
        self.shared.wait(until(limit), || {
            let mut session = self.shared.session();
            match session.inbox(lane).next_len() {
                Some(length) => Ok(Some(Some(length))),
                None => {
                    session.take_end(lane);
                    Ok(session.has_ended(lane).then_some(None))
                }
            }
        })
    }

    /// Sends a message; waits while more is queued than allowed. False: there was no room within `limit`, and nothing was sent.
    ///
    /// # Errors
    /// As of [`Path::post`].
    pub fn send(&self, lane: Lane, message: impl Into<Buffer>, limit: Option<Duration>) -> Result<bool> {
        let room = self.wait_room(lane, limit)?;
        if room {
            self.post(lane, message)?;
        }
        Ok(room)
    }

    /// Waits for the next message of a lane; `None`: none within `limit`.
    ///
    /// # Errors
    /// Why the path has failed.
    pub fn receive(&self, lane: Lane, limit: Option<Duration>) -> Result<Option<Received>> {
        self.shared.wait(until(limit), || {
            if let Some(message) = self.take(lane) {
                return Ok(Some(Received::Message(message)));
            }
            Ok(self.has_ended(lane).then_some(Received::Ended))
        })
    }

    /// Waits until everything has arrived that was sent so far, as of [`Path::has_arrived`]; false: not within `limit`.
    ///
    /// # Errors
    /// Why the path has failed.
    pub fn flush(&self, limit: Option<Duration>) -> Result<bool> {
        let ends = {
            let session = self.shared.session();
            Lane::ALL.map(|lane| Ticket { lane, end: session.outbox(lane).end() })
        };
        let flushed =
            self.shared.wait(until(limit), || Ok(ends.iter().all(|end| self.has_arrived(*end)).then_some(())))?;
        Ok(flushed.is_some())
    }

    /// Says that this end sends nothing more; what was sent still travels, and messages still come.
    pub fn finish(&self) {
        self.shared.session().finish();
        self.shared.pump();
        self.shared.hurry();
    }

    /// Finishes, and waits until the other end has done so too and everything has arrived at both, as of [`Path::has_arrived`]; false: not
    /// within `limit`. What has come by a path that was to be passed on ([`Settings::relays`]), and is not, has arrived here then.
    ///
    /// # Errors
    /// Why the path has failed.
    pub fn close(&self, limit: Option<Duration>) -> Result<bool> {
        self.shared.session().set_relays(false);
        self.finish();
        let closed = self.shared.wait(until(limit), || Ok(matches!(self.state(), State::Closed).then_some(())))?;
        Ok(closed.is_some())
    }

    /// Other settings from now on; the streams in use go on. A number of streams that was found out ([`Streams::Auto`]) stays as it is,
    /// unless the figures of the link are others.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be; [`Error::Io`] if the system refuses something. Then everything is as it was.
    pub fn set(&self, settings: Settings) -> Result<()> {
        self.shared.set(settings)
    }

    /// The settings.
    pub fn settings(&self) -> Settings {
        Settings::clone(&self.shared.settings())
    }

    /// How it is doing.
    pub fn stats(&self) -> Stats {
        let counts = self.shared.counts();
        let carrying = self.shared.carrying();
        let session = self.shared.session();
        let (kept, waiting) =
            (Lane::ALL.map(|lane| session.outbox(lane).kept()), Lane::ALL.map(|lane| session.inbox(lane).waiting()));
        drop(session);
        let mut passed = counts;
        let mut copies = Vec::with_capacity(carrying.len());
        for stream in &carrying {
            let io = stream.io();
            passed.add_bytes(&io);
            copies.push(io.uncopied.copies());
        }
        let infos: Vec<TcpInfo> = carrying.iter().filter_map(|stream| TcpInfo::of(stream.wire.fd())).collect();
        let round_trips: f64 = infos.iter().map(|info| info.round_trip.as_secs_f64()).sum();
        Stats {
            streams: carrying.len(),
            streams_lost: counts.lost,
            resumed: counts.resumed,
            bytes_in: passed.bytes_in,
            bytes_out: passed.bytes_out,
            kept,
            waiting,
            rate: self.shared.rate(),
            round_trip: round_trips / infos.len().max(1) as f64,
            retransmitted: counts.retransmitted + infos.iter().map(|info| u64::from(info.retransmitted)).sum::<u64>(),
            chunk: self.shared.chunk(),
            zero_copy_streams: copies.iter().filter(|copies| copies.is_none()).count(),
            zero_copy_bytes: passed.zero_copy_bytes,
            why_copied: copies.into_iter().flatten().max(),
        }
    }
}

impl Path {
    /// Leaves the path as dropping it does: its thread ends, the other end is told, and whoever waits for something gets an error. Whoever
    /// must not wait for a thread any more when the path is dropped (an interpreter that ends) does this before.
    pub fn abandon(&self) {
        lock(&self.attendant).take();
        self.shared.abandon();
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The error of a call that would send after [`Path::finish`].
pub(crate) fn finished() -> Error {
    Error::Usage { problem: "this end of the path has finished: nothing more can be sent".to_owned() }
}
