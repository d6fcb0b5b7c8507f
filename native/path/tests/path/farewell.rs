//! A path that is given up is told of at its other end, whatever its streams are doing: never taken for one whose connections are lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use xmml_path::{relay, Lane, Listener, Path, Received, Settings, State};
use xmml_wire::error::{Error, NotPassedOn};

use crate::cutter::{Cutter, Fate};
use crate::support::{await_some, await_that, identity, pair_at, payload, streams, LIMIT};

/// An end that is not told waits this long, and says then that the path was broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Streams of little room.
fn narrow(count: u32) -> Settings {
    Settings { socket_buffer: Some(64 << 10), patience: PATIENCE, ..streams(count) }
}

/// A path both ends of which are open, while nobody drives them.
fn idle_pair(count: u32) -> (Listener, Path, Path) {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), narrow(count)).unwrap();
    let here = Path::dial(&listener.address(), &identity("here"), "there", narrow(count)).unwrap();
    let mut there = None;
    await_that("it opens", || {
        here.drive().unwrap();
        listener.drive();
        there = there.take().or_else(|| listener.take());
        here.stats().streams == count as usize && there.is_some()
    });
    (listener, here, there.unwrap())
}

fn told(path: &Path) -> String {
    let error = path.receive(Lane::Control, LIMIT).unwrap_err().to_string();
    assert!(error.contains("given the path up"), "{error}");
    error
}

/// Fills the streams, as far as they go while the other end does not read.
fn fill(path: &Path) {
    let ticket = path.post(Lane::Bulk, payload(1, 32 << 20)).unwrap();
    path.drive().unwrap();
    assert!(!path.wait_left(ticket, Some(Duration::ZERO)).unwrap(), "the streams are not full");
}

#[test]
fn an_end_that_did_not_read_is_told_though_the_streams_were_full() {
    for dialler_fails in [true, false] {
        let (listener, here, there) = idle_pair(2);
        let (fails, stays) = if dialler_fails { (here, there) } else { (there, here) };
        fill(&fails);
        drop((fails, listener));
        told(&stays);
    }
}

#[test]
fn both_far_ends_of_a_relay_are_told_though_the_streams_to_one_were_full() {
    for relay_dials in [true, false] {
        let ((from, a, near), (to, one, other)) = (idle_pair(2), idle_pair(2));
        let (far, b) = if relay_dials { (one, other) } else { (other, one) };
        fill(&far);
        let relaying = std::thread::spawn(move || relay(&near, &far));
        drop((a, from, to));
        let error = told(&b);
        assert!(error.contains("has lost a path") && error.contains("has ended it"), "{error}");
        assert!(relaying.join().unwrap().is_err());
    }
}

#[test]
fn a_relay_that_fails_says_how_much_it_had_taken_and_not_passed_on() {
    let ((_here, a, near), (_there, far, b)) = (idle_pair(2), idle_pair(2));
    a.attend().unwrap();
    far.set(Settings { queue: 1 << 20, ..far.settings() }).unwrap();
    let relaying = std::thread::spawn(move || relay(&near, &far));
    for number in 0..40 {
        a.post(Lane::Bulk, payload(number, 100_000)).unwrap();
    }
    a.post(Lane::Control, payload(40, 10)).unwrap();
    await_that("the relay takes it", || a.stats().kept == [0, 0]);
    drop(b);
    let Err(Error::Relay { there, back, .. }) = relaying.join().unwrap() else { panic!("it has not failed") };
    assert_eq!(there, NotPassedOn { messages: 41, bytes: 4_000_010 });
    assert_eq!(back, NotPassedOn::default());
    let error = told(&a);
    assert!(error.ends_with("not known to have arrived: 41 messages (4000010 bytes)"), "{error}");
    assert_eq!(a.not_arrived(), there);
}

#[test]
fn a_relay_that_fails_does_not_count_what_has_come_through() {
    let ((_here, a, near), (_there, far, b)) = (idle_pair(2), idle_pair(2));
    std::thread::scope(|scope| {
        let relaying = scope.spawn(|| relay(&near, &far));
        for path in [&a, &b] {
            path.attend().unwrap();
            path.post(Lane::Bulk, payload(1, 100_000)).unwrap();
        }
        for path in [&a, &b] {
            assert!(matches!(path.receive(Lane::Bulk, LIMIT).unwrap(), Some(Received::Message(_))));
        }
        await_that("what has come is receipted", || [&near, &far].iter().all(|path| path.stats().kept == [0, 0]));
        drop(b);
        let Err(Error::Relay { there, back, .. }) = relaying.join().unwrap() else { panic!("it has not failed") };
        assert_eq!((there, back), (NotPassedOn::default(), NotPassedOn::default()));
    });
}

#[test]
fn an_end_whose_streams_have_stalled_is_told_by_one_more() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), narrow(2)).unwrap();
    let cutter = Cutter::new(listener.address(), |number| if number < 2 { Fate::Stall(100_000) } else { Fate::Lives });
    let (here, there) = pair_at(&listener, &cutter.address, narrow(2));
    here.post(Lane::Bulk, payload(1, 1 << 20)).unwrap();
    while cutter.strikes.load(Ordering::Relaxed) < 2 {
        here.receive(Lane::Control, Some(Duration::from_millis(10))).unwrap();
    }
    drop(here);
    told(&there);
}

#[test]
fn an_end_is_told_though_all_streams_had_been_lost() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), narrow(1)).unwrap();
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let cutter = Cutter::new(listener.address(), move |number| match number {
        0 => Fate::Cut(100_000),
        _ if gate.load(Ordering::SeqCst) => Fate::Lives,
        _ => Fate::Cut(0),
    });
    let (here, there) = pair_at(&listener, &cutter.address, narrow(1));
    here.post(Lane::Bulk, payload(1, 1 << 20)).unwrap();
    while !matches!(here.state(), State::Broken(_)) {
        here.receive(Lane::Control, Some(Duration::from_millis(10))).unwrap();
    }
    open.store(true, Ordering::SeqCst);
    drop(here);
    told(&there);
}

/// The end that sends would only send it again, the other one refuse it again, for ever. Whoever of the two it is, and whoever carries the
/// streams.
#[test]
fn a_message_longer_than_the_other_end_takes_fails_both_ends_which_say_so() {
    for (dialler_sends, workers) in [(true, None), (false, None), (true, Some(1)), (false, Some(1))] {
        let least = Settings { max_message: 1 << 20, workers, ..narrow(2) };
        let listener = Listener::bind("127.0.0.1:0", &identity("there"), least.clone()).unwrap();
        let (here, there) = pair_at(&listener, &listener.address(), least.clone());
        let (sends, takes) = if dialler_sends { (here, there) } else { (there, here) };
        sends.post(Lane::Bulk, payload(1, 1 << 20)).unwrap();
        assert_eq!(takes.receive(Lane::Bulk, LIMIT).unwrap(), Some(Received::Message(payload(1, 1 << 20))));
        // What is set later holds from then on.
        takes.set(Settings { max_message: 2 << 20, ..least }).unwrap();
        let taken = sends.post(Lane::Bulk, payload(2, 2 << 20)).unwrap();
        assert_eq!(takes.receive(Lane::Bulk, LIMIT).unwrap(), Some(Received::Message(payload(2, 2 << 20))));
        assert!(sends.wait_arrived(taken, LIMIT).unwrap());

        let lost = sends.post(Lane::Bulk, payload(3, 3_000_000)).unwrap();
        let limit = Some(PATIENCE / 2);
        let at_sender = sends.wait_arrived(lost, limit).expect_err("the sender is told").to_string();
        let at_receiver = takes.receive(Lane::Bulk, limit).expect_err("the receiver is told").to_string();
        for error in [&at_sender, &at_receiver] {
            let names = ["3000000 bytes", "2097152", "max_message"];
            assert!(names.iter().all(|name| error.contains(name)), "{error}");
        }
        assert!(at_sender.contains("given the path up"), "{at_sender}");
        assert!(at_sender.ends_with("not known to have arrived: 1 message (3000000 bytes)"), "{at_sender}");
    }
}

#[test]
fn whoever_waits_on_a_path_that_is_left_gets_an_error() {
    let (here, there) = pair_at_once();
    let here = Arc::new(here);
    let (tell, told) = std::sync::mpsc::channel();
    for lane in Lane::ALL {
        let (path, tell) = (here.clone(), tell.clone());
        std::thread::spawn(move || tell.send(path.receive(lane, None).map(|_| ())));
    }
    let (path, closing) = (here.clone(), tell.clone());
    std::thread::spawn(move || closing.send(path.wait_next(Lane::Bulk, None).map(|_| ())));
    here.abandon();
    for _ in 0..3 {
        let error = told.recv_timeout(LIMIT.unwrap()).expect("nobody waits any more").unwrap_err().to_string();
        assert!(error.contains("has left the path"), "{error}");
    }
    assert!(here.post(Lane::Bulk, payload(1, 1)).is_err() && here.close(Some(Duration::ZERO)).is_err());
    drop(tell);
    assert!(there.receive(Lane::Bulk, LIMIT).unwrap_err().to_string().contains("has ended it"));
}

fn pair_at_once() -> (Path, Path) {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), narrow(2)).unwrap();
    pair_at(&listener, &listener.address(), narrow(2))
}

/// Whoever of the two it is, and whatever of the opening is still under way then.
#[test]
fn a_path_that_is_given_up_when_it_was_hardly_opened_is_told_of() {
    for count in [1, 4] {
        for _ in 0..20 {
            let listener = Listener::bind("127.0.0.1:0", &identity("there"), narrow(count)).unwrap();
            let here = Path::dial(&listener.address(), &identity("here"), "there", narrow(count)).unwrap();
            let there = await_some("it opens", || {
                here.drive().unwrap();
                listener.drive();
                listener.take()
            });
            drop(here);
            told(&there);
        }
        for _ in 0..20 {
            let listener = Listener::bind("127.0.0.1:0", &identity("there"), narrow(count)).unwrap();
            let here = Path::dial(&listener.address(), &identity("here"), "there", narrow(count)).unwrap();
            here.attend().unwrap();
            drop(listener.accept(LIMIT).unwrap().expect("a path comes in"));
            listener.attend().unwrap();
            told(&here);
            drop(here);
            let ghost = listener.accept(Some(Duration::from_millis(20))).unwrap();
            assert!(ghost.is_none(), "streams of a path that has ended have become another: {ghost:?}");
        }
    }
}
