//! Programs that pass on what comes by a path to another: what a sender is told to have arrived has come to the last end.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use xmml_path::{relay, Lane, Listener, Path, Received, Settings, Ticket};
use xmml_wire::error::{Error, NotPassedOn, Result};

use crate::cutter::{Cutter, Fate, Random};
use crate::support::{await_that, identity, pair, pair_at, payload, streams, LIMIT};

/// Long enough for a receipt that should not come.
const SOON: Option<Duration> = Some(Duration::from_millis(60));

/// Connections begin and others listen at other addresses, so a port here stays free until somebody comes back to it.
const NOBODYS: &str = "127.0.0.77:0";

fn relays(count: u32) -> Settings {
    Settings { relays: true, ..streams(count) }
}

/// The end of a path in a relay, and the address at which it will find the other.
fn to_nobody_yet() -> (Path, String) {
    let listener = Listener::bind(NOBODYS, &identity("there"), Settings::default()).unwrap();
    let address = listener.address();
    (Path::dial(&address, &identity("here"), "there", relays(2)).unwrap(), address)
}

/// The end that was dialled before it was there.
fn comes_at(address: &str) -> Path {
    let listener = Listener::bind(address, &identity("there"), Settings::default()).unwrap();
    let path = listener.accept(LIMIT).unwrap().expect("a path comes in");
    path.attend().unwrap();
    path
}

/// A relay in a thread of its own, which lasts no longer than the paths: it passes everything on, and ends both in order.
fn relaying(near: Path, far: Path) -> Receiver<Result<(u64, u64)>> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let passed = relay(&near, &far);
        assert!(passed.is_err() || (near.close(LIMIT).unwrap() && far.close(LIMIT).unwrap()));
        tell.send(passed)
    });
    told
}

fn outcome(told: &Receiver<Result<(u64, u64)>>) -> Result<(u64, u64)> {
    told.recv_timeout(LIMIT.unwrap()).expect("the relay ends")
}

/// Waits until the next program has everything that was sent.
fn come(path: &Path) {
    await_that("it comes", || path.stats().kept == [0, 0]);
}

fn take(path: &Path, lane: Lane, number: u64, length: usize) {
    match path.receive(lane, LIMIT).unwrap() {
        Some(Received::Message(message)) => assert!(message == payload(number, length), "MESSAGES WRONG: {number}"),
        other => panic!("message {number} was expected, not {other:?}"),
    }
}

#[test]
fn what_a_relay_has_has_not_arrived_before_the_last_end_has_it() {
    let ((a, near), (far, address)) = (pair(streams(2), relays(2)), to_nobody_yet());
    let not_flushed = |messages: u64| {
        come(&a);
        assert!(!a.flush(SOON).unwrap(), "nobody but the relay has it");
        assert_eq!(a.not_arrived(), NotPassedOn { messages, bytes: messages * 100_000 });
    };
    let post = |number| Lane::ALL.map(|lane| a.post(lane, payload(number, 100_000)).unwrap());
    post(1);
    not_flushed(2); // it has not begun to pass on
    let told = relaying(near, far);
    post(2);
    not_flushed(4);
    let b = comes_at(&address);
    assert!(a.flush(LIMIT).unwrap());
    assert_eq!(a.not_arrived(), NotPassedOn::default());
    for number in [1, 2] {
        Lane::ALL.iter().for_each(|&lane| take(&b, lane, number, 100_000));
    }
    drop(b);
    assert!(outcome(&told).is_err());
}

#[test]
fn a_path_through_a_relay_ends_when_everything_has_come_through() {
    let ((a, near), (far, address)) = (pair(streams(2), relays(2)), to_nobody_yet());
    let told = relaying(near, far);
    a.post(Lane::Bulk, payload(1, 100_000)).unwrap();
    assert!(!a.close(SOON).unwrap(), "nobody but the relay has it");
    let b = comes_at(&address);
    b.post(Lane::Bulk, payload(2, 10)).unwrap();
    let ending = std::thread::spawn(move || {
        take(&b, Lane::Bulk, 1, 100_000);
        assert!(b.close(LIMIT).unwrap());
    });
    take(&a, Lane::Bulk, 2, 10);
    assert!(a.close(LIMIT).unwrap());
    assert_eq!(a.not_arrived(), NotPassedOn::default());
    ending.join().unwrap();
    assert_eq!(outcome(&told).unwrap(), (1, 1));
}

/// The last word of an end may come while somebody is about to wait for it: the relay ends all the same, each time.
#[test]
fn a_relay_ends_whenever_both_ends_have() {
    for round in 0..600 {
        let ((a, near), (far, b)) = (pair(streams(2), relays(2)), pair(relays(2), streams(2)));
        let told = relaying(near, far);
        a.post(Lane::Bulk, payload(round, 10)).unwrap();
        let ending = std::thread::spawn(move || {
            take(&b, Lane::Bulk, round, 10);
            assert!(b.close(LIMIT).unwrap());
        });
        assert!(a.close(LIMIT).unwrap());
        ending.join().unwrap();
        assert_eq!(outcome(&told).unwrap(), (1, 0));
    }
}

/// Both directions of two relays in a row are full before anybody takes anything.
#[test]
fn relays_in_a_row_go_on_when_both_directions_were_full() {
    let small = |relays| Settings { window: 256 << 10, queue: 256 << 10, relays, ..streams(2) };
    let [(a, near), (far, next), (last, b)] = [0, 1, 2].map(|at| pair(small(at > 0), small(at < 2)));
    let told = [relaying(near, far), relaying(next, last)];
    let sent = [&a, &b].map(|path| {
        let mut sent = 0;
        // At least fifteen are taken in, however busy the machine is.
        let short = Some(Duration::from_millis(200));
        while path.send(Lane::Bulk, payload(sent, 100_000), if sent < 15 { LIMIT } else { short }).unwrap() {
            sent += 1;
        }
        sent
    });
    // Three windows, three queues and what is under way; of 0.25 MiB and a message each.
    assert!(sent.iter().all(|&sent| sent <= 45), "{sent:?} messages were taken in");
    assert!(!a.flush(SOON).unwrap() && !b.flush(SOON).unwrap());
    let taking = [(a, sent[1]), (b, sent[0])].map(|(path, count)| {
        std::thread::spawn(move || {
            (0..count).for_each(|number| take(&path, Lane::Bulk, number, 100_000));
            assert!(path.flush(LIMIT).unwrap());
            assert!(path.close(LIMIT).unwrap());
        })
    });
    taking.into_iter().for_each(|taking| taking.join().unwrap());
    told.iter().for_each(|told| assert_eq!(outcome(told).unwrap(), (sent[0], sent[1])));
}

/// All streams of both paths are cut again and again; the paths go on, and so does what is told of what has arrived.
#[test]
fn what_has_arrived_is_told_through_a_relay_whose_streams_are_cut() {
    let cutting = |seed: u64, dials: Settings, listens: Settings| {
        let listener = Listener::bind("127.0.0.1:0", &identity("there"), listens).unwrap();
        let mut random = Random(seed);
        let cutter = Cutter::new(listener.address(), move |number| match number {
            0..40 => Fate::Cut(50_000 + random.below(500_000)),
            _ => Fate::Lives,
        });
        (pair_at(&listener, &cutter.address, dials), cutter)
    };
    let ((a, near), before) = cutting(17, streams(2), relays(2));
    let ((far, b), behind) = cutting(29, relays(2), streams(2));
    let told = relaying(near, far);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..150).for_each(|number| take(&b, Lane::Bulk, number, 100_000)));
        for number in 0..150 {
            let ticket = a.post(Lane::Bulk, payload(number, 100_000)).unwrap();
            assert!(number % 10 != 9 || a.wait_arrived(ticket, LIMIT).unwrap());
        }
        assert!(a.flush(LIMIT).unwrap());
    });
    a.finish();
    b.finish();
    assert_eq!(outcome(&told).unwrap(), (150, 0));
    assert!(before.strikes.load(Ordering::Relaxed) >= 10 && behind.strikes.load(Ordering::Relaxed) >= 10);
}

/// How many bytes a message has: one that is cut short is seen.
fn size_of(number: u64) -> usize {
    (number * 7919 % 40_000) as usize
}

/// The path behind the relay is lost for good at any moment: what has arrived is there, and the rest is named.
#[test]
fn what_has_arrived_is_there_though_the_path_behind_the_relay_is_lost() {
    let mut random = Random(4711);
    let mut lost = 0;
    for _ in 0..8 {
        let patience = Duration::from_millis(300);
        let (a, near) = pair(streams(2), relays(1));
        let last = Settings { patience, ..streams(2) };
        let listener = Listener::bind("127.0.0.1:0", &identity("there"), last.clone()).unwrap();
        let bytes = 100_000 + random.below(2_000_000);
        let cutter = Cutter::new(listener.address(), move |number| Fate::Cut(if number < 2 { bytes } else { 0 }));
        let (far, b) = pair_at(&listener, &cutter.address, Settings { relays: true, ..last });
        let told = relaying(near, far);
        std::thread::scope(|scope| {
            let came = scope.spawn(|| {
                let mut came = 0;
                while let Ok(Some(Received::Message(message))) = b.receive(Lane::Bulk, LIMIT) {
                    assert!(message == payload(came, size_of(came)), "MESSAGES WRONG: {came}");
                    came += 1;
                }
                came
            });
            let mut posted: Vec<Ticket> = Vec::new();
            let error = loop {
                match a.wait_room(Lane::Bulk, LIMIT) {
                    Ok(_) if posted.len() < 2000 => {
                        let number = posted.len() as u64;
                        match a.post(Lane::Bulk, payload(number, size_of(number))) {
                            Ok(ticket) => posted.push(ticket),
                            Err(error) => break error, // it has failed with room left
                        }
                    }
                    Ok(_) => break a.receive(Lane::Bulk, LIMIT).unwrap_err(),
                    Err(error) => break error,
                }
            };
            let arrived = posted.iter().filter(|ticket| a.has_arrived(**ticket)).count() as u64;
            let came = came.join().unwrap();
            assert!(arrived <= came, "{arrived} messages have arrived, and {came} have come");
            let not_arrived = a.not_arrived();
            assert_eq!(not_arrived.messages, posted.len() as u64 - arrived);
            assert!(error.to_string().ends_with(&format!("not known to have arrived: {not_arrived}")), "{error}");
            let Err(Error::Relay { there, .. }) = outcome(&told) else { panic!("it has not failed") };
            assert!(there.messages <= not_arrived.messages, "{there} of {not_arrived}");
            lost += there.messages;
        });
    }
    assert!(lost > 0, "there was never anything in the relay");
}

#[test]
fn a_barrier_behind_the_last_message_is_no_message_that_does_not_arrive() {
    let ((a, near), (far, b)) = (pair(streams(1), relays(1)), pair(relays(1), streams(1)));
    let told = relaying(near, far);
    for number in 0..3 {
        assert!(!a.barrier(Some(Duration::ZERO)).unwrap(), "barriers are not passed on");
        a.post(Lane::Bulk, payload(number, 10)).unwrap();
        assert!(!a.barrier(Some(Duration::ZERO)).unwrap());
        take(&b, Lane::Bulk, number, 10);
        assert!(a.flush(LIMIT).unwrap());
    }
    a.finish();
    b.finish();
    assert_eq!(outcome(&told).unwrap(), (3, 0));
}

#[test]
fn a_program_that_meant_to_pass_on_may_take_what_comes_itself() {
    let (a, near) = pair(streams(1), relays(1));
    a.post(Lane::Bulk, payload(0, 10)).unwrap();
    assert!(!a.flush(SOON).unwrap());
    take(&near, Lane::Bulk, 0, 10);
    assert!(a.flush(LIMIT).unwrap());
    a.post(Lane::Bulk, payload(1, 10)).unwrap();
    come(&a);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(near.close(LIMIT).unwrap()));
        assert!(a.close(LIMIT).unwrap());
    });
    take(&near, Lane::Bulk, 1, 10);
}
