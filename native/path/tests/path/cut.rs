//! Paths whose connections are cut at random bytes, or stall: every message comes once and in order all the same.

use std::sync::atomic::Ordering;
use std::time::Duration;

use xmml_path::ZeroCopy::{self, Auto, On};
use xmml_path::{Lane, Listener, Path, Received, Settings};

use crate::cutter::{Cutter, Fate, Random};
use crate::support::{await_that, identity, pair_at, payload, streams, LIMIT};

/// Both ends send each other messages of random sizes on both lanes until so many strikes have been made, and check what comes.
fn talk_while(cutter: &Cutter, strikes: u64, here: &Path, there: &Path) {
    let sizes = |number: u64| match number % 7 {
        0 => 300_000 + (number % 1000) as usize * 100,
        1 => 0,
        _ => (number % 5000) as usize,
    };
    let send = |path: &Path| {
        let mut number = 0;
        while cutter.strikes.load(Ordering::Relaxed) < strikes {
            assert!(path.send(Lane::Bulk, payload(number, sizes(number)), LIMIT).unwrap());
            if number % 10 == 0 {
                path.send(Lane::Control, payload(number, 100), LIMIT).unwrap();
            }
            number += 1;
        }
        path.finish();
        number
    };
    let receive = |path: &Path, lane: Lane, every: u64| {
        for number in 0.. {
            match path.receive(lane, LIMIT).unwrap().expect("it gets stuck") {
                Received::Message(message) => {
                    let size = if lane == Lane::Control { 100 } else { sizes(number) };
                    assert!(message == payload(number * every, size), "MESSAGES WRONG: {number} on {lane:?}");
                }
                Received::Ended => return number,
            }
        }
        unreachable!()
    };
    std::thread::scope(|scope| {
        let ends = [(here, there), (there, here)].map(|(from, to)| {
            let sent = scope.spawn(|| send(from));
            let bulk = scope.spawn(move || receive(to, Lane::Bulk, 1));
            let control = scope.spawn(move || receive(to, Lane::Control, 10));
            (sent, bulk, control)
        });
        for (sent, bulk, control) in ends {
            let sent = sent.join().unwrap();
            assert_eq!(bulk.join().unwrap(), sent, "MESSAGES WRONG");
            assert_eq!(control.join().unwrap(), sent.div_ceil(10), "MESSAGES WRONG");
        }
        scope.spawn(|| assert!(here.close(LIMIT).unwrap(), "{:?}", here.state()));
        assert!(there.close(LIMIT).unwrap(), "{:?}", there.state());
    });
}

fn strikes() -> u64 {
    if std::env::var_os("XMML_SOAK").is_some() {
        1000
    } else {
        50
    }
}

#[test]
fn no_message_is_lost_or_doubled_however_often_connections_are_cut() {
    // Without copies the kernel reads the memory of messages while connections are lost and others bring them.
    let variants =
        [(1, None, Auto), (4, None, Auto), (4, Some(2), Auto), (1, None, On), (4, None, On), (4, Some(2), On)];
    for (count, workers, zero_copy) in variants {
        // What waits when the last cut has been counted still has to pass.
        let chunk = (zero_copy == On).then_some(128 << 10); // at such rates shorter ones would be cut, which are copied
        let short = |settings| Settings { queue: 1 << 20, workers, zero_copy, chunk, ..settings };
        let listener = Listener::bind("127.0.0.1:0", &identity("there"), short(Settings::default())).unwrap();
        let mut random = Random(0x5eed + u64::from(count));
        let cutter = Cutter::new(listener.address(), move |_| Fate::Cut(600 + random.below(400_000)));
        let (here, there) = pair_at(&listener, &cutter.address, short(streams(count)));
        talk_while(&cutter, strikes() / variants.len() as u64, &here, &there);
        let stats = here.stats();
        assert!(stats.streams_lost > 0 && (zero_copy == Auto || stats.zero_copy_bytes > 256 << 10), "{stats:?}");
    }
}

#[test]
fn a_path_gets_on_when_no_connection_lives_for_a_receipt() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    // The handshake and the opening take about 600 bytes, the first piece of a message 262,144.
    let cutter = Cutter::new(listener.address(), |_| Fate::Cut(30_000));
    let (here, there) = pair_at(&listener, &cutter.address, streams(1));
    here.post(Lane::Bulk, payload(1, 500_000)).unwrap();
    assert_eq!(there.receive(Lane::Bulk, LIMIT).unwrap(), Some(Received::Message(payload(1, 500_000))));
    assert!(here.stats().resumed > 5, "{:?}", here.stats());
}

/// Each connection is cut in the middle of the first grain of a message, which is sent from its beginning again.
#[test]
fn a_path_on_which_nothing_gets_on_is_given_up_though_connections_come_about() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    let cutter = Cutter::new(listener.address(), |_| Fate::Cut(2_000));
    let patience = Duration::from_secs(8); // for a third connection on a busy machine, too
    let (here, _there) = pair_at(&listener, &cutter.address, Settings { patience, ..streams(1) });
    let ticket = here.post(Lane::Bulk, payload(1, 500_000)).unwrap();
    let error = here.wait_arrived(ticket, LIMIT).expect_err("it is given up").to_string();
    assert!(error.contains("could not be mended within 8 s"), "{error}");
    let strikes = cutter.strikes.load(Ordering::Relaxed);
    assert!((3..30).contains(&strikes), "{strikes} connections, one behind the other");
}

#[test]
fn a_stream_that_falls_silent_is_replaced() {
    for zero_copy in [Auto, On] {
        a_silent_stream_is_replaced(zero_copy);
    }
}

fn a_silent_stream_is_replaced(zero_copy: ZeroCopy) {
    let quick =
        |count| Settings { silence: Duration::from_millis(400), zero_copy, chunk: Some(128 << 10), ..streams(count) };
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), quick(1)).unwrap();
    let cutter = Cutter::new(listener.address(), |number| if number < 3 { Fate::Stall(200_000) } else { Fate::Lives });
    let (here, there) = pair_at(&listener, &cutter.address, quick(3));
    for number in 0..30 {
        here.post(Lane::Bulk, payload(number, 100_000)).unwrap();
    }
    for number in 0..30 {
        let got = there.receive(Lane::Bulk, LIMIT).unwrap();
        assert!(got == Some(Received::Message(payload(number, 100_000))), "MESSAGES WRONG: {number}");
    }
    // One of three is kept for what is urgent: it carries too little to stall.
    await_that("the two that stall are replaced", || here.stats().streams_lost >= 2);
    assert!(zero_copy == Auto || here.stats().zero_copy_bytes > 0, "{:?}", here.stats());
}
