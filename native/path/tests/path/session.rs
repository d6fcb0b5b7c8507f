//! The two ends of a path without sockets: frames are lost with their streams, come in another order, and twice.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use proptest::prelude::*;
use xmml_path::frame::{ChunkHead, Lane, PathFrame, Purpose, Receipt, GRAIN};
use xmml_path::inbox::{Delivers, Place};
use xmml_path::outbox::{Outbox, MOST_UNDELIVERED};
use xmml_path::session::{Bounds, Outgoing, Session};
use xmml_wire::buffer::{Buffer, BufferPool};

const WINDOW: u64 = 256 * 1024;

fn bounds() -> Bounds {
    Bounds { control_window: WINDOW, bulk_window: WINDOW, max_message: 1 << 30, relays: false }
}

fn end() -> Session {
    Session::new(bounds(), &BufferPool::new())
}

/// A message that tells its number and is different at each byte.
fn payload(number: u64, length: usize) -> Buffer {
    let bytes: Vec<u8> =
        (0..length as u64).map(|at| (at.wrapping_mul(31) ^ number.wrapping_mul(0x9e37)) as u8).collect();
    bytes.into()
}

/// One end takes in a whole frame.
fn take_in(session: &mut Session, frame: &Outgoing) {
    take_in_part(session, frame, frame.payload.len());
}

/// One end takes in the first `count` bytes of the data of a frame.
fn take_in_part(session: &mut Session, frame: &Outgoing, count: usize) {
    let (decoded, _) = PathFrame::decode(&frame.head).unwrap().expect("a whole head");
    match decoded {
        PathFrame::Chunk(chunk) => {
            session.begin(&chunk).unwrap();
            fill(session, &chunk, &frame.payload[..count]);
        }
        PathFrame::Receipt(receipt) => session.receipted(&receipt).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn fill(session: &mut Session, chunk: &ChunkHead, data: &[u8]) {
    let mut at = 0;
    while at < data.len() {
        match session.place(chunk, at as u64) {
            Place::Into(mut part) => {
                let count = part.bytes().len().min(data.len() - at);
                part.bytes()[..count].copy_from_slice(&data[at..at + count]);
                session.filled(chunk.lane, part, count);
                at += count;
            }
            Place::Known(count) => at += count as usize,
            Place::Busy => panic!("nobody else fills"),
        }
    }
}

/// Two ends and the streams between them, each a queue of frames under way in either direction.
struct Pair {
    ends: [Session; 2],
    streams: BTreeMap<u32, [VecDeque<Outgoing>; 2]>,
    next_stream: u32,
}

impl Pair {
    fn new() -> Pair {
        Pair { ends: [end(), end()], streams: BTreeMap::new(), next_stream: 0 }
    }

    fn open(&mut self) {
        let (one, other) = (self.ends[0].have(), self.ends[1].have());
        self.ends[0].attach(self.next_stream, &other).unwrap();
        self.ends[1].attach(self.next_stream, &one).unwrap();
        self.streams.insert(self.next_stream, Default::default());
        self.next_stream += 1;
    }

    /// What is under way on the stream is lost, all but the first frames and a part of the next.
    fn cut(&mut self, stream: u32, frames: usize, part: u64) {
        let queues = self.streams.remove(&stream).unwrap();
        for (from, queue) in queues.into_iter().enumerate() {
            for (at, frame) in queue.iter().enumerate().take(frames + 1) {
                match at < frames {
                    true => take_in(&mut self.ends[1 - from], frame),
                    false => {
                        let count = part.min(frame.payload.len() as u64) as usize;
                        let is_chunk = !frame.payload.is_empty();
                        if is_chunk {
                            take_in_part(&mut self.ends[1 - from], frame, count);
                        }
                    }
                }
            }
        }
        self.ends.iter_mut().for_each(|end| end.detach(stream));
    }

    /// The stream takes one frame from an end.
    fn write(&mut self, stream: u32, from: usize, chunk: u64) -> bool {
        let frame = self.ends[from].next(stream, chunk).or_else(|| self.ends[from].late_receipt());
        let is_some = frame.is_some();
        self.streams.get_mut(&stream).unwrap()[from].extend(frame);
        is_some
    }

    /// The stream brings one frame to the other end.
    fn read(&mut self, stream: u32, from: usize) -> bool {
        let frame = self.streams.get_mut(&stream).unwrap()[from].pop_front();
        if let Some(frame) = &frame {
            take_in(&mut self.ends[1 - from], frame);
        }
        frame.is_some()
    }

    fn stream(&self, number: usize) -> Option<u32> {
        (!self.streams.is_empty()).then(|| *self.streams.keys().nth(number % self.streams.len()).unwrap())
    }

    fn pass(&mut self, event: &StreamEvent) {
        let number = match *event {
            StreamEvent::Open => return self.open(),
            StreamEvent::Write(stream, ..)
            | StreamEvent::Read(stream, _)
            | StreamEvent::Cut(stream, ..)
            | StreamEvent::Again(stream, _) => stream,
        };
        let Some(stream) = self.stream(number) else { return };
        match *event {
            StreamEvent::Open => {}
            StreamEvent::Write(_, from, chunk) => _ = self.write(stream, from, chunk),
            StreamEvent::Read(_, from) => _ = self.read(stream, from),
            StreamEvent::Cut(_, frames, part) => self.cut(stream, frames, part),
            StreamEvent::Again(_, end) => self.ends[end].send_again(stream),
        }
    }

    /// Nothing more is cut: everything that can pass does.
    fn settle(&mut self, mut taken: impl FnMut(usize, &mut Session)) {
        if self.streams.is_empty() {
            self.open();
        }
        let streams: Vec<u32> = self.streams.keys().copied().collect();
        loop {
            let mut moved = false;
            for &stream in &streams {
                for from in [0, 1] {
                    moved |= self.write(stream, from, 64 * 1024);
                    moved |= self.read(stream, from);
                    taken(1 - from, &mut self.ends[1 - from]);
                }
            }
            // What was taken last may have made room that the sender is not told of yet.
            if !moved && !self.ends.iter().any(Session::owes_receipt) {
                return;
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Send(usize, Lane, usize),
    Take(usize),
    Stream(StreamEvent),
}

#[derive(Clone, Debug)]
enum StreamEvent {
    Write(usize, usize, u64),
    Read(usize, usize),
    Open,
    Cut(usize, usize, u64),
    Again(usize, usize),
}

fn stream_events() -> impl Strategy<Value = StreamEvent> {
    use StreamEvent::{Again, Cut, Open, Read, Write};
    prop_oneof![
        8 => (any::<usize>(), 0..2usize, 0..200_000u64).prop_map(|(stream, from, chunk)| Write(stream, from, chunk)),
        8 => (any::<usize>(), 0..2usize).prop_map(|(stream, from)| Read(stream, from)),
        1 => Just(Open),
        1 => (any::<usize>(), 0..4usize, 0..100_000u64).prop_map(|(stream, frames, part)| Cut(stream, frames, part)),
        1 => (any::<usize>(), 0..2usize).prop_map(|(stream, end)| Again(stream, end)),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    let size = prop_oneof![Just(0), 1..100usize, 4000..5000usize, 0..600_000usize];
    let lane = prop_oneof![Just(Lane::Control), Just(Lane::Bulk)];
    prop_oneof![
        3 => (0..2usize, lane, size).prop_map(|(end, lane, size)| Event::Send(end, lane, size)),
        2 => (0..2usize).prop_map(Event::Take),
        19 => stream_events().prop_map(Event::Stream),
    ]
}

fn cases() -> u32 {
    if std::env::var_os("XMML_SOAK").is_some() {
        20_000
    } else {
        300
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_message_comes_once_and_in_order_whatever_is_cut(events in proptest::collection::vec(events(), 1..120)) {
        let mut pair = Pair::new();
        let mut sent: [[u64; 2]; 2] = Default::default();
        let mut sizes: [[Vec<usize>; 2]; 2] = Default::default();
        let mut got: [[usize; 2]; 2] = Default::default();
        let mut take = |end: usize, session: &mut Session, sizes: &[[Vec<usize>; 2]; 2]| {
            for lane in Lane::ALL {
                while let Some(message) = session.take(lane) {
                    let number = got[end][lane as usize];
                    let expected = payload(number as u64, sizes[1 - end][lane as usize][number]);
                    assert!(message == expected, "MESSAGES WRONG: {number} of {lane:?} at end {end}");
                    got[end][lane as usize] += 1;
                }
            }
        };
        for event in events {
            match event {
                Event::Send(end, lane, size) => {
                    let number = &mut sent[end][lane as usize];
                    pair.ends[end].send(lane, payload(*number, size)).unwrap();
                    sizes[end][lane as usize].push(size);
                    *number += 1;
                }
                Event::Take(end) => take(end, &mut pair.ends[end], &sizes),
                Event::Stream(event) => pair.pass(&event),
            }
        }
        pair.settle(|end, session| take(end, session, &sizes));
        for end in [0, 1] {
            for lane in Lane::ALL {
                prop_assert_eq!(got[1 - end][lane as usize] as u64, sent[end][lane as usize], "end {} {:?}", end, lane);
            }
        }
        prop_assert!(pair.ends.iter().all(Session::all_arrived), "something is kept for ever");
    }
}

#[derive(Clone, Debug)]
enum Passing {
    Event(Event),
    /// The relay hears that so many more of the messages that it has taken have come through.
    Deliver(Lane, usize),
    Barrier,
}

fn passing() -> impl Strategy<Value = Passing> {
    let lane = prop_oneof![Just(Lane::Control), Just(Lane::Bulk)];
    prop_oneof![
        8 => events().prop_map(Passing::Event),
        2 => (lane, 0..4usize).prop_map(|(lane, count)| Passing::Deliver(lane, count)),
        1 => Just(Passing::Barrier),
    ]
}

/// A relay at one end: which of its messages have been sent, taken, and are through, by lane; and where each ends.
#[derive(Default)]
struct Through {
    sent: [u64; 2],
    ends: [Vec<u64>; 2],
    taken: [usize; 2],
    through: [usize; 2],
}

impl Through {
    fn take(&mut self, relay: &mut Session) {
        for lane in Lane::ALL {
            while relay.take(lane).is_some() {
                assert_eq!(relay.inbox(lane).taken_before(), self.ends[lane as usize][self.taken[lane as usize]]);
                self.taken[lane as usize] += 1;
            }
        }
    }

    fn deliver(&mut self, relay: &mut Session, lane: Lane, count: usize) {
        let at = lane as usize;
        self.through[at] = self.taken[at].min(self.through[at] + count);
        if let Some(last) = self.through[at].checked_sub(1) {
            relay.inbox_mut(lane).deliver(self.ends[at][last]);
        }
    }

    /// What the sender is told is never more than is through; every message that is not is counted.
    fn check(&self, sender: &Session, is_settled: bool) {
        let mut open = 0;
        for (at, lane) in Lane::ALL.into_iter().enumerate() {
            let told = sender.outbox(lane).delivered_before();
            let known = self.ends[at].iter().filter(|end| **end <= told).count();
            assert!(known <= self.through[at], "{known} of {lane:?} are told, {} are through", self.through[at]);
            assert!(known == self.through[at] || !is_settled, "{known} of {lane:?}, {} are through", self.through[at]);
            open += self.sent[at] - known as u64;
        }
        assert_eq!(sender.not_delivered().messages, open);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_sender_is_told_exactly_what_a_relay_has_brought_through(events in proptest::collection::vec(passing(), 1..120)) {
        let mut pair = Pair::new();
        Lane::ALL.iter().for_each(|&lane| pair.ends[1].inbox_mut(lane).set_delivers(Delivers::PassedOn));
        let mut way = Through::default();
        for event in events {
            match event {
                Passing::Event(Event::Send(_, lane, size)) => {
                    let number = way.sent[lane as usize];
                    way.ends[lane as usize].push(pair.ends[0].send(lane, payload(number, size)).unwrap());
                    way.sent[lane as usize] += 1;
                }
                Passing::Event(Event::Take(_)) => way.take(&mut pair.ends[1]),
                Passing::Event(Event::Stream(event)) => pair.pass(&event),
                Passing::Deliver(lane, count) => way.deliver(&mut pair.ends[1], lane, count),
                Passing::Barrier => {
                    pair.ends[0].send_barrier().unwrap();
                }
            }
            way.check(&pair.ends[0], false);
        }
        pair.settle(|end, session| if end == 1 { way.take(session) });
        way.check(&pair.ends[0], true);
        prop_assert!(pair.ends[0].all_arrived(), "something is kept for ever");
        Lane::ALL.iter().for_each(|&lane| way.deliver(&mut pair.ends[1], lane, usize::MAX / 2));
        pair.settle(|_, _| ());
        way.check(&pair.ends[0], true);
        prop_assert!(pair.ends[0].all_delivered() && Lane::ALL.iter().all(|&lane| pair.ends[1].inbox(lane).all_delivered()), "a barrier is not delivered");
    }
}

/// Of each message that a relay has and does not bring through, its length is kept: not of any number.
#[test]
fn a_sender_waits_when_a_relay_has_a_million_messages_and_brings_none_through() {
    let mut outbox = Outbox::new(Lane::Bulk);
    let receipt = |all_before: u64, delivered: u64| Receipt {
        lane: Lane::Bulk,
        all_before,
        delivered: Some(delivered),
        credit: u64::MAX / 2,
        besides: Vec::new(),
    };
    outbox.receipted(&receipt(0, 0)).unwrap();
    let mut first = 0;
    for number in 0..MOST_UNDELIVERED {
        assert!(outbox.has_room(1), "after {number} messages");
        let end = outbox.push(Purpose::Data, Buffer::empty(), false);
        first = if number == 0 { end } else { first };
        while outbox.cut(GRAIN).is_some() {}
        outbox.receipted(&receipt(end, 0)).unwrap();
    }
    assert_eq!(outbox.not_delivered(0).messages, MOST_UNDELIVERED as u64);
    assert!(!outbox.has_room(1));
    outbox.receipted(&receipt(outbox.end(), first)).unwrap();
    assert!(outbox.has_room(1));
}

#[test]
fn a_farewell_before_everything_was_sent_is_none() {
    let mut pair = Pair::new();
    pair.open();
    pair.ends[0].send(Lane::Bulk, payload(0, 10)).unwrap();
    assert!(pair.ends[0].farewell().is_err());
    pair.write(0, 0, GRAIN);
    while pair.write(0, 0, GRAIN) {}
    assert_eq!(pair.ends[0].not_delivered().messages, 1, "it was sent, and not receipted");
    pair.ends[0].farewell().unwrap();
    assert!(pair.ends[0].all_delivered() && pair.ends[0].not_delivered().messages == 0);
}

#[test]
fn a_path_gets_on_although_every_stream_dies_before_its_first_receipt() {
    let mut pair = Pair::new();
    pair.ends[0].send(Lane::Bulk, payload(0, 200_000)).unwrap();
    for _ in 0..100 {
        pair.open();
        let stream = pair.stream(0).unwrap();
        pair.write(stream, 0, 64 * 1024);
        pair.cut(stream, 0, GRAIN);
        if let Some(message) = pair.ends[1].take(Lane::Bulk) {
            assert!(message == payload(0, 200_000));
            return;
        }
    }
    panic!("the message does not come, although every stream brings {GRAIN} bytes of it");
}

#[test]
fn control_goes_out_before_bulk_that_waits_longer() {
    let mut pair = Pair::new();
    pair.open();
    pair.ends[0].send(Lane::Bulk, payload(0, 200_000)).unwrap();
    pair.write(0, 0, 64 * 1024);
    pair.ends[0].send(Lane::Control, payload(0, 10)).unwrap();
    pair.write(0, 0, 64 * 1024);
    pair.read(0, 0);
    pair.read(0, 0);
    assert!(pair.ends[1].take(Lane::Control).is_some());
    assert!(pair.ends[1].take(Lane::Bulk).is_none());
}

#[test]
fn the_first_of_three_streams_is_kept_for_control_and_both_of_two_carry_bulk() {
    for (count, is_kept) in [(1, false), (2, false), (3, true), (8, true)] {
        let (mut session, mut other) = (end(), end());
        let have = other.have();
        (0..count).for_each(|stream| session.attach(stream, &have).unwrap());
        session.have(); // no receipt is due
        session.send(Lane::Bulk, payload(0, 200_000)).unwrap();
        assert_eq!(session.next(0, GRAIN).is_none(), is_kept, "bulk on the first of {count}");
        assert!(session.next(count - 1, GRAIN).is_some(), "bulk on the last of {count}");
        session.send(Lane::Control, payload(0, 10)).unwrap();
        let frame = session.next(0, GRAIN).expect("control goes on any stream");
        let (head, _) = PathFrame::decode(&frame.head).unwrap().unwrap();
        assert!(matches!(head, PathFrame::Chunk(chunk) if chunk.lane == Lane::Control), "{head:?}");
    }
}

#[test]
fn an_end_that_does_not_take_is_sent_no_more_than_its_window_and_the_message_under_way() {
    let mut pair = Pair::new();
    pair.open();
    for number in 0..100 {
        pair.ends[0].send(Lane::Bulk, payload(number, 50_000)).unwrap();
    }
    pair.settle(|_, _| ());
    let waiting = pair.ends[1].inbox(Lane::Bulk).waiting();
    assert!(waiting > 0 && waiting as u64 * 50_000 <= WINDOW + 50_000, "{waiting} messages wait");
    pair.ends[0].send(Lane::Control, payload(0, 10)).unwrap();
    pair.settle(|_, _| ());
    assert!(pair.ends[1].take(Lane::Control).is_some(), "a full lane holds up the other");
    let mut taken = 0;
    pair.settle(|end, session| {
        if end == 1 {
            taken += std::iter::from_fn(|| session.take(Lane::Bulk)).count();
        }
    });
    assert_eq!(taken, 100);
}

#[test]
fn the_rest_of_a_message_that_lacks_room_for_one_piece_comes_when_those_before_it_are_taken() {
    let mut pair = Pair::new();
    pair.open();
    let (first, second) = (4033, 63 * GRAIN as usize);
    pair.ends[0].send(Lane::Bulk, payload(0, first)).unwrap();
    pair.ends[0].send(Lane::Bulk, payload(1, second)).unwrap();
    pair.settle(|_, _| ());
    assert!(pair.ends[0].outbox(Lane::Bulk).waits_for_credit() && !pair.ends[1].owes_receipt());
    assert!(pair.ends[1].take(Lane::Bulk).is_some_and(|message| message == payload(0, first)));
    assert!(pair.ends[1].has_work(), "the sender is not told that there is room");
    pair.settle(|_, _| ());
    assert!(pair.ends[1].take(Lane::Bulk).is_some_and(|message| message == payload(1, second)));
}

#[test]
fn a_message_longer_than_the_window_passes() {
    let mut pair = Pair::new();
    pair.open();
    pair.ends[0].send(Lane::Bulk, payload(0, 3_000_000)).unwrap();
    let mut taken = None;
    pair.settle(|end, session| {
        if end == 1 && taken.is_none() {
            taken = session.take(Lane::Bulk);
        }
    });
    assert!(taken.is_some_and(|message| message == payload(0, 3_000_000)));
}

#[test]
fn what_cannot_be_is_refused() {
    let chunk = |start, total, offset, length| ChunkHead {
        lane: Lane::Bulk,
        purpose: xmml_path::frame::Purpose::Data,
        length,
        start,
        total,
        offset,
        is_open: false,
    };
    let mut session = end();
    session.begin(&chunk(0, 100, 0, 100)).unwrap();
    assert!(session.begin(&chunk(0, 99, 0, 99)).is_err(), "the same message with another length");
    assert!(session.begin(&chunk(100, 100, 0, 100)).is_err(), "a message across another");
    assert!(session.begin(&chunk(WINDOW, 100, 0, 100)).is_err(), "beyond what was granted");
    assert!(session.begin(&chunk(164, 2 << 30, 0, 4096)).is_err(), "too long a message");
    for bad in
        [chunk(0, 100, 4096, 0), chunk(0, 10_000, 1, 4096), chunk(0, 10_000, 0, 5000), chunk(0, u64::MAX, 0, 4096)]
    {
        assert!(PathFrame::decode(&bad.encode()).is_err(), "{bad:?}");
    }
    let mut outbox = end();
    outbox.send(Lane::Bulk, payload(0, 10)).unwrap();
    let mut receipt = outbox.have()[1].clone();
    receipt.all_before = 74;
    assert!(outbox.receipted(&receipt).is_err(), "a receipt for what was never sent");
}
