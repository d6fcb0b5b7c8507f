//! One link: the path to another relay for a run, and what is known of that relay.

use std::collections::BTreeSet;
use std::io;

use xmml_path::{Lane, Path, State};
use xmml_wire::buffer::Buffer;

use super::round_trip::RoundTrip;
use crate::link_frame::{self, LinkMessage};
use crate::status::LinkStatus;
use crate::window::Budget;

/// Frames below so many bytes wait for the end of the turn of the loop that put them on a link.
const SMALL: usize = 16 << 10;

/// Bytes of a lane that a link may keep for the other relay in any case; one frame may go beyond.
const KEPT_FREELY: u64 = 1 << 20;

/// What a link takes out of the budget at once.
const RESERVED_AT_ONCE: u64 = 1 << 20;

/// Bytes of control that may wait for a relay that does not take its messages, as [`Path::kept`] counts them.
const UNREAD_MAX: u64 = 16 << 20;

/// An end of a stream of this relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndId {
    /// The stream.
    pub stream: u64,
    /// Which of its two ends, 0 or 1.
    pub side: usize,
}

/// The link of a run to another relay.
pub struct Link {
    run: String,
    path: Path,
    /// The address at which the other relay was dialled; `None`: it dialled this one.
    dialled: Option<String>,
    /// The site of the other relay, once it has said so.
    site: Option<String>,
    /// The number that the process of the other relay has drawn.
    life: u64,
    /// Its round trip.
    pub round_trip: RoundTrip,
    is_open: bool,
    /// Ends of streams that wait until the link takes more.
    blocked: BTreeSet<EndId>,
    /// Frames were put on it that wait for the end of the turn.
    is_loaded: bool,
    /// The other relay does not take its messages.
    is_unread: bool,
    /// What it has of the budget for frames that the other relay may not have yet, by lane.
    reserved: [u64; 2],
}

impl Link {
    /// Returns the link that a path makes. `dialled` is where the other relay was dialled, if it did not dial this one.
    pub fn new(run: &str, path: Path, dialled: Option<String>, round_trip: RoundTrip) -> Link {
        Link {
            run: run.to_owned(),
            path,
            dialled,
            site: None,
            life: 0,
            round_trip,
            is_open: false,
            blocked: BTreeSet::new(),
            is_loaded: false,
            is_unread: false,
            reserved: [0; 2],
        }
    }

    /// Returns the run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the site of the other relay, once that has said so.
    pub fn site(&self) -> Option<&str> {
        self.site.as_deref()
    }

    /// Returns where the other relay was dialled.
    pub fn dialled(&self) -> Option<&str> {
        self.dialled.as_deref()
    }

    /// Returns the number that the process of the other relay has drawn.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Notes whose relay is at the other end, and the number that its process has drawn.
    pub fn introduce(&mut self, site: &str, life: u64) {
        (self.site, self.life) = (Some(site.to_owned()), life);
    }

    /// Returns what the other end is called for people: its site, or where it was dialled.
    pub fn name(&self) -> &str {
        self.site.as_deref().or(self.dialled.as_deref()).unwrap_or("another relay")
    }

    /// Returns whether its path is open.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether streams can be opened by it.
    pub fn is_up(&self) -> bool {
        self.is_open && self.site.is_some()
    }

    /// Returns whether it is up, of this run, and leads to this site.
    pub fn leads_to(&self, run: &str, site: &str) -> bool {
        self.run == run && self.is_up() && self.site() == Some(site)
    }

    /// Drives the path. Returns whether it has opened or broken by that.
    ///
    /// # Errors
    /// The path has failed.
    pub fn drive(&mut self) -> (bool, xmml_wire::error::Result<()>) {
        let driven = self.path.drive();
        let is_open = matches!(self.path.state(), State::Open);
        let has_changed = std::mem::replace(&mut self.is_open, is_open) != is_open;
        if has_changed {
            // How long it was broken says nothing of the way.
            self.round_trip.interrupt();
        }
        (has_changed, driven)
    }

    /// Puts a frame on the link. Small ones leave together at the end of the turn: each write wakes the other relay.
    ///
    /// # Errors
    /// The link has failed.
    pub fn put(&mut self, lane: Lane, frame: impl Into<Buffer>) -> io::Result<()> {
        let frame = frame.into();
        if frame.len() < SMALL {
            self.is_loaded = true;
            return self.path.queue(lane, frame).map(drop).map_err(io::Error::other);
        }
        self.is_loaded = false;
        self.path.post(lane, frame).map(drop).map_err(io::Error::other)
    }

    /// Sends a message. If that fails, so does the link, which is found out when it is driven.
    pub fn send(&mut self, message: &LinkMessage) {
        let _ = self.put(Lane::Control, link_frame::message(message));
        self.is_unread |= self.path.kept(Lane::Control) > UNREAD_MAX;
    }

    /// Returns whether too many messages have waited for the other relay: it does not take them.
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Puts data of a stream on the link; `is_protected`: from one end of the stream to the other, so that it need not be encrypted again.
    ///
    /// # Errors
    /// The link has failed.
    pub fn put_data(&mut self, lane: Lane, frame: Buffer, is_protected: bool) -> io::Result<()> {
        if !is_protected || frame.len() < SMALL {
            return self.put(lane, frame);
        }
        self.is_loaded = false;
        self.path.post_protected(lane, frame).map(drop).map_err(io::Error::other)
    }

    /// Flushes queued frames.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.is_loaded) {
            self.path.send_queued();
        }
    }

    /// Returns whether it takes a frame more. What the other relay may not have yet is kept here, and comes out of the budget beyond
    /// [`KEPT_FREELY`].
    pub fn has_room(&mut self, lane: Lane, budget: &mut Budget) -> bool {
        if !self.path.has_room(lane) {
            return false;
        }
        let (kept, reserved) = (self.path.kept(lane), &mut self.reserved[lane as usize]);
        if kept >= KEPT_FREELY + *reserved {
            *reserved += budget.take(&self.run, RESERVED_AT_ONCE);
        }
        kept < KEPT_FREELY + *reserved
    }

    /// Releases what it does not need of the budget.
    pub fn release(&mut self, budget: &mut Budget) {
        for lane in Lane::ALL {
            let needed = self.path.kept(lane).saturating_sub(KEPT_FREELY).next_multiple_of(RESERVED_AT_ONCE);
            let spare = self.reserved[lane as usize].saturating_sub(needed);
            self.reserved[lane as usize] -= spare;
            budget.give_back(&self.run, spare);
        }
    }

    /// Releases everything that it has of the budget, at its end.
    pub fn release_all(&mut self, budget: &mut Budget) {
        budget.give_back(&self.run, std::mem::take(&mut self.reserved).iter().sum());
    }

    /// Notes that an end of a stream waits until the link takes more.
    pub fn block(&mut self, end: EndId) {
        self.blocked.insert(end);
    }

    /// Notes that an end of a stream does not wait any more.
    pub fn unblock(&mut self, end: EndId) {
        self.blocked.remove(&end);
    }

    /// Takes the ends of streams that wait, because there is room now.
    pub fn take_blocked(&mut self) -> BTreeSet<EndId> {
        std::mem::take(&mut self.blocked)
    }

    /// Returns its state, for people and programs.
    pub fn status(&self) -> LinkStatus {
        let stats = self.path.stats();
        LinkStatus {
            run: self.run.clone(),
            site: self.site.clone().unwrap_or_default(),
            dialled: self.dialled.clone().unwrap_or_default(),
            encrypted: self.path.is_encrypted(),
            state: match self.path.state() {
                State::Open => "up".to_owned(),
                State::Opening => "not open yet".to_owned(),
                State::Broken(reason) => format!("broken ({reason})"),
                State::Closed => "closed".to_owned(),
                State::Failed(error) => format!("failed ({error})"),
            },
            round_trip_ms: self.round_trip.measured().map_or(0.0, |time| time.as_secs_f64() * 1000.0),
            streams: stats.streams as u64,
            streams_lost: stats.streams_lost,
            resumed: stats.resumed,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
            kept_bytes: stats.kept.iter().sum(),
        }
    }
}
