//! The backlogs of an instance: what was put for readers that share objects, or may lose some, and waits for one that has room.
//!
//! Objects are given when they are put, when a reader settles some or leaves, and when a connection to one stands. What readers say is
//! read by calls of the program that wait, and by the I/O thread while objects wait: the program may compute for hours.

use std::time::Instant;

use rustc_hash::FxHashMap;

use xmml_wire::connection::Connection;
use xmml_wire::frame::EncodedMessage;

use crate::conduit::backlog::Backlog;
use crate::conduit::tap_gate::TapGate;
use crate::conduit::{Room, SendingEnd};
use crate::spec::PoolSpec;

use super::conduits::Conduits;
use super::routing::Routing;
use super::state::Counts;

/// So many objects a reader is given that shares with others: few, since others may be idle.
const OF_SHARED: u64 = 8;

/// The same of one that has all for itself.
const OF_OWN: u64 = 64;

/// One that is on another host has so many ahead, so that it has something to do while its receipt and the next object travel.
const FAR_AHEAD: u64 = 1;

/// So often an object is given again after the death of the reader that it was given to. A reader that dies with it after that is one too many.
const MOST_REDELIVERED: u32 = 3;

/// An object, as it waits.
#[derive(Clone, Debug)]
struct Offered {
    message: EncodedMessage,
    /// Which object of its port it is (`sys.seq`).
    seq: u64,
    /// How many readers died to which it was given.
    redelivered: u32,
}

/// What became of the objects that a reader was given that has died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// So many others will get.
    pub objects: u64,
    /// `sys.seq` of the first that too many have died with.
    pub deadly: Option<u64>,
}

/// What waits in a backlog.
#[derive(Default)]
pub struct Backlogged {
    /// Objects; those of a group are counted singly.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// How many objects a tap has missed that gets these.
    pub missed: u64,
}

/// All backlogs of an instance.
#[derive(Default)]
pub struct Backlogs {
    list: Vec<Served>,
    /// Which backlog a sending end is of, and its place there.
    places: FxHashMap<usize, (usize, usize)>,
}

/// A backlog and the ends by which it is given out.
struct Served {
    backlog: Backlog<Offered>,
    ends: Vec<usize>,
    readers: Readers,
    /// Nothing more is put: behind the last object comes the end.
    is_over: bool,
    /// The I/O thread reads what the readers say.
    is_read: bool,
}

/// For whom objects wait.
enum Readers {
    /// One that may lose some, or those of a queue.
    Ordinary,
    /// One that asks for the newest object, and gets the last one unasked.
    Latest,
    /// A tap.
    Tap(TapGate),
}

impl Served {
    fn is_latest(&self) -> bool {
        matches!(self.readers, Readers::Latest)
    }

    /// Of a tap.
    fn gate(&self) -> Option<&TapGate> {
        match &self.readers {
            Readers::Tap(gate) => Some(gate),
            _ => None,
        }
    }

    /// Whether what readers say would go on with something: objects wait for them, or the end does until all is settled, or a tap is shown
    /// nothing until it has taken some.
    fn is_awaited(&self) -> bool {
        let is_ending = self.is_over && !self.backlog.is_settled();
        is_ending || self.backlog.is_waiting() || self.gate().is_some_and(|gate| !gate.is_open() && !gate.is_gone())
    }

    /// Nobody is left to take so many objects.
    fn lose(&self, objects: u64, end: &mut SendingEnd) {
        match self.gate() {
            None => end.dropped += objects,
            Some(gate) => gate.close_for_good(),
        }
    }
}

impl Backlogs {
    /// Adds one without readers; returns its number.
    pub fn add(&mut self, limit_bytes: u64, pool: &PoolSpec) -> usize {
        let most_given = if pool.is_queue { OF_SHARED } else { OF_OWN };
        let (readers, backlog) = match (pool.is_latest, pool.is_tap) {
            (true, _) => (Readers::Latest, Backlog::of_newest()),
            (false, false) => (Readers::Ordinary, Backlog::new(limit_bytes, pool.may_lose, most_given)),
            (false, true) => (Readers::Tap(TapGate::default()), Backlog::new(limit_bytes, true, most_given)),
        };
        self.list.push(Served { backlog, ends: Vec::new(), readers, is_over: false, is_read: false });
        self.list.len() - 1
    }

    /// Adds the reader at this sending end.
    pub fn add_reader(&mut self, number: usize, end: usize) {
        let served = &mut self.list[number];
        self.places.insert(end, (number, served.backlog.add_reader()));
        served.ends.push(end);
    }

    /// The sending ends of one.
    pub fn ends(&self, number: usize) -> &[usize] {
        &self.list[number].ends
    }

    /// All sending ends that are given objects from backlogs.
    pub fn all_ends(&self) -> impl Iterator<Item = usize> + '_ {
        self.list.iter().flat_map(|served| served.ends.iter().copied())
    }

    /// Whether a sending end is given objects from a backlog.
    pub fn serve(&self, end: usize) -> bool {
        self.places.contains_key(&end)
    }

    /// Puts an object, of which `seq` is the number at its port, or so many of a group, into a backlog, and gives it out if a reader has room; `None`: the backlog is full. False:
    /// nobody is left to take it.
    pub fn put(
        &mut self,
        number: usize,
        object: &EncodedMessage,
        seq: u64,
        objects: u64,
        routing: &mut Routing<'_>,
    ) -> Option<bool> {
        let bytes = object.frame_len();
        let first = self.list[number].ends[0];
        match self.list[number].backlog.room(bytes) {
            Room::Full => None,
            Room::Gone => {
                self.list[number].lose(objects, &mut routing.conduits.sending[first]);
                Some(false)
            }
            Room::Free => {
                let offered = Offered { message: object.clone(), seq, redelivered: 0 };
                let lost = self.list[number].backlog.add(offered, bytes, objects);
                let sending = &mut routing.conduits.sending[first];
                match &self.list[number].readers {
                    Readers::Latest => sending.replaced += lost,
                    Readers::Ordinary => sending.dropped += lost,
                    Readers::Tap(gate) => {
                        sending.dropped += lost;
                        if lost > 0 {
                            gate.shut();
                        }
                    }
                }
                self.give_out(number, routing);
                Some(true)
            }
        }
    }

    /// A reader has said what it has settled.
    pub fn on_receipt(&mut self, end: usize, routing: &mut Routing<'_>) {
        let Some((number, place)) = self.places.get(&end).copied() else { return };
        let is_far = is_far(routing, end);
        self.list[number].backlog.settle(place, routing.conduits.sending[end].untaken(), is_far, Instant::now());
        if let Some(gate) = self.list[number].gate().filter(|_| self.list[number].backlog.has_much_room()) {
            gate.open();
        }
        self.give_out(number, routing);
        self.have_read(number, routing);
    }

    /// A reader has left.
    pub fn on_gone(&mut self, end: usize, routing: &mut Routing<'_>) {
        let Some((number, place)) = self.places.get(&end).copied() else { return };
        let left = routing.conduits.sending[end].untaken();
        let missed = self.list[number].backlog.reader_gone(place, left, Instant::now());
        self.list[number].lose(missed, &mut routing.conduits.sending[end]);
        self.give_out(number, routing);
        self.have_read(number, routing);
    }

    /// A reader has died. `None`: it was given nothing from backlogs that it has not settled.
    pub fn on_died(&mut self, end: usize, routing: &mut Routing<'_>) -> Option<GivenBack> {
        let (number, place) = self.places.get(&end).copied()?;
        let mut back = GivenBack::default();
        let dropped = self.list[number].backlog.reader_died(place, |offered| {
            offered.redelivered += 1;
            match offered.redelivered > MOST_REDELIVERED {
                true => back.deadly = back.deadly.or(Some(offered.seq)),
                false => back.objects += 1,
            }
        });
        self.list[number].lose(dropped, &mut routing.conduits.sending[end]);
        if back.deadly.is_some() {
            self.list[number].backlog.halt(); // the run fails
        }
        if self.is_without_readers(number) {
            back.objects = 0; // nobody is left to get them
        }
        self.give_out(number, routing);
        self.have_read(number, routing);
        (back != GivenBack::default()).then_some(back)
    }

    /// A connection to a reader stands.
    pub fn on_ready(&mut self, end: usize, routing: &mut Routing<'_>) {
        let Some((number, _)) = self.places.get(&end).copied() else { return };
        self.list[number].is_read = false; // what was read was another connection
        self.give_out(number, routing);
        self.have_read(number, routing);
    }

    fn give_out(&mut self, number: usize, routing: &mut Routing<'_>) {
        let Served { backlog, ends, .. } = &mut self.list[number];
        let now = Instant::now();
        let least_ahead = |routing: &Routing<'_>, place: usize| {
            let sending = &routing.conduits.sending[ends[place]];
            let is_ready = sending.may_be_given()
                && !sending.is_held()
                && routing.connections.links[sending.link].connection.is_some();
            is_ready.then_some(if is_far(routing, ends[place]) { FAR_AHEAD } else { 0 })
        };
        while let Some((place, object)) = backlog.give(now, |place| least_ahead(routing, place)) {
            let end = ends[place];
            send(end, &object, routing);
        }
        if self.list[number].is_over && self.list[number].backlog.is_settled() {
            self.list[number].ends.iter().for_each(|end| routing.end(*end));
        }
        self.list[number].is_read &= self.list[number].is_awaited();
    }

    /// Nothing more will be put into this one: its readers see the end when all of it is settled.
    pub fn end(&mut self, number: usize, routing: &mut Routing<'_>) {
        self.list[number].is_over = true;
        self.give_out(number, routing);
        self.have_read(number, routing);
    }

    /// Nothing more will be put: the last object for a reader that sees the newest one only is sent to it unasked. What others are to get
    /// waits until they have room: returns the numbers of their backlogs, but for those of taps.
    pub fn finish(&mut self, routing: &mut Routing<'_>) -> Vec<usize> {
        let mut others = Vec::new();
        for (number, Served { backlog, ends, readers, .. }) in self.list.iter_mut().enumerate() {
            match readers {
                Readers::Ordinary => others.push(number),
                Readers::Tap(_) => {}
                Readers::Latest => {
                    if let Some(last) = backlog.take_last() {
                        send(ends[0], &last, routing);
                    }
                    routing.end(ends[0]);
                }
            }
        }
        others
    }

    /// Whether all readers of this one have left.
    pub fn is_without_readers(&self, number: usize) -> bool {
        self.list[number].backlog.is_without_readers()
    }

    /// Whether objects wait for a reader of this one to have room.
    pub fn is_waiting(&self, number: usize) -> bool {
        self.list[number].backlog.is_waiting()
    }

    /// While objects wait, the I/O thread reads what the readers say.
    pub fn have_read(&mut self, number: usize, routing: &mut Routing<'_>) {
        let served = &mut self.list[number];
        if served.is_read || !served.is_awaited() {
            return;
        }
        served.is_read = true;
        let ends = &served.ends;
        for connection in routing.connections.outbound() {
            if ends.iter().any(|end| routing.conduits.sending[*end].spec.receiver == connection.peer) {
                routing.deferred.read_on_io_thread(connection.clone());
            }
        }
    }

    /// Conduits may go by other connections now.
    pub fn on_change(&mut self, routing: &mut Routing<'_>) {
        (0..self.list.len()).for_each(|number| self.give_out(number, routing));
        self.have_read_again(routing);
    }

    /// A caller may have taken the wake-up of a connection that the I/O thread reads.
    pub fn have_read_again(&mut self, routing: &mut Routing<'_>) {
        for number in 0..self.list.len() {
            self.list[number].is_read = false;
            self.have_read(number, routing);
        }
    }

    /// Whether the I/O thread must read this connection, since objects wait for the reader behind it.
    pub fn need(&self, connection: &Connection, conduits: &Conduits) -> bool {
        let leads_there = |end: &usize| conduits.sending[*end].spec.receiver == connection.peer;
        self.list.iter().any(|served| served.is_awaited() && served.ends.iter().any(leads_there))
    }

    /// More may be held for the readers of this end.
    pub fn grow(&mut self, end: usize) {
        if let Some((number, _)) = self.places.get(&end) {
            self.list[*number].backlog.grow();
        }
    }

    /// The numbers of those of taps, each with the sending end by which it is given out.
    pub fn of_taps(&self) -> Vec<(usize, usize)> {
        let taps = self.list.iter().enumerate().filter(|(_, served)| served.gate().is_some());
        taps.flat_map(|(number, served)| served.ends.iter().map(move |end| (number, *end))).collect()
    }

    /// Whether every object of this one was settled.
    pub fn is_settled(&self, number: usize) -> bool {
        self.list[number].backlog.is_settled()
    }

    /// The gate of the tap that gets what is put into this one; `None`: it is of readers that the model knows.
    pub fn gate(&self, number: usize) -> Option<TapGate> {
        self.list[number].gate().cloned()
    }

    /// How many objects a tap has missed, and will miss if it gets nothing more.
    pub fn missed_by_tap(&self, number: usize) -> u64 {
        let served = &self.list[number];
        served.backlog.unsettled_objects() + served.gate().map_or(0, TapGate::missed)
    }

    /// What waits for the reader at this sending end, or for all those of a queue of which it is the first.
    pub fn at(&self, end: usize) -> Backlogged {
        match self.places.get(&end) {
            Some((number, 0)) => {
                let served = &self.list[*number];
                Backlogged {
                    waiting: served.backlog.waiting_objects(),
                    waiting_bytes: served.backlog.waiting_bytes(),
                    missed: served.gate().map_or(0, TapGate::missed),
                }
            }
            _ => Backlogged::default(),
        }
    }

    /// Adds what waits for readers that see the newest object only to what was sent by conduit: one that has asked for it gets it, even if
    /// this end has not heard of that.
    pub fn count_newest(&self, conduits: &Conduits, sent: &mut Counts) {
        let latest = self.list.iter().filter(|served| served.is_latest() && served.backlog.is_waiting());
        for end in latest.map(|served| &conduits.sending[served.ends[0]]) {
            match sent.iter_mut().find(|(conduit, _)| *conduit == end.spec.id) {
                Some((_, count)) => *count += 1,
                None => sent.push((end.spec.id, 1)),
            }
        }
    }

    /// The sending ends whose readers have objects to settle before this instance may leave.
    pub fn unsettled(&self) -> impl Iterator<Item = usize> + '_ {
        self.list
            .iter()
            .filter(|served| !served.is_latest())
            .flat_map(|served| served.backlog.unsettled().map(|place| served.ends[place]))
    }
}

/// Sends an object by a sending end.
fn send(end: usize, object: &Offered, routing: &mut Routing<'_>) {
    let sending = &routing.conduits.sending[end];
    let again = (object.redelivered > 0).then_some(object.redelivered);
    let object = object.message.readdressed(sending.spec.id, sending.next_sequence(), again);
    if !routing.write_at_once(end, &object) {
        let bytes = object.frame_len();
        if let Some(frame) = routing.conduits.sending[end].send(object.into(), bytes) {
            routing.queue_on_link(end, frame);
        }
    }
}

/// Whether the reader at this sending end is on another host, as far as the way to it tells.
fn is_far(routing: &Routing<'_>, end: usize) -> bool {
    let link = &routing.connections.links[routing.conduits.sending[end].link];
    link.connection.as_ref().is_some_and(|connection| connection.can_break)
}
