//! A member that breaks the protocol fails by name, with what it did; its partner waits for nothing that will not come. (`hostile` tries
//! every word and every frame; here is what each breach is called.)

use std::io::Write;
use std::time::{Duration, Instant};

use xmml_core::control::{ConduitTotals, ToCoordinator, ToInstance, Wait, WaitKind};
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, Received, Stamps};
use xmml_wire::data::Data;
use xmml_wire::frame::{self, encode_control};
use xmml_wire::handshake::{Role, TIMEOUT_S};
use xmml_wire::liveness::heartbeat::SILENCE_LIMIT;
use xmml_wire::message::Message;
use xmml_wire::methods::{MethodReport, Traffic};

use crate::support::by_hand::{connect, Client};
use crate::support::{Model, Run, SECRET};

/// Who breaks the protocol is named well before it would be for its silence, on a busy machine too.
const SOON: Duration = SILENCE_LIMIT;

/// `a`, by hand, sends to `b`; both have joined.
fn pair() -> (Run, Client, Instance) {
    let model = Model::by("unix").submodel("a", "out:Oi", 9).submodel("b", "in:S", 9).couple("a.out", "b.in");
    let run = Run::of(model);
    let control = joined(&run);
    let b = run.join("b");
    b.reuse().unwrap();
    (run, control, b)
}

fn joined(run: &Run) -> Client {
    let mut control = Client::to_coordinator(&run.coordinator, &SECRET, "a").unwrap();
    control.ask_to_join(std::process::id());
    assert!(matches!(control.hear(), ToInstance::Welcome { .. }));
    control
}

/// The connection on which `a` sends to `b`, once `b` has said where to begin.
fn data(control: &mut Client) -> Client {
    let table = control.table_of("b");
    let address = &table.entries.iter().find(|entry| entry.method == "unix").unwrap().addresses[0];
    let mut data = Client::dial(connect(address), "test run", &SECRET, "a", Role::Data, "b").unwrap();
    data.frame();
    data
}

fn message(number: u64) -> Vec<u8> {
    let message = Message { data: Data::Int(number as i64), ..Message::default() };
    frame::encode_message(1, number, None, &message).unwrap().head.to_vec()
}

fn totals(conduit: u32, sent: u64, received: u64) -> ConduitTotals {
    ConduitTotals { conduit, sent, received, bytes: 0, dropped: 0, replaced: 0 }
}

fn leaving(conduits: Vec<ConduitTotals>) -> ToCoordinator {
    ToCoordinator::Leaving { runs: 1, conduits, waited_s: 0.0 }
}

/// What the coordinator says of `a`, and that it says so soon.
fn failure(run: &Run) -> String {
    let begin = Instant::now();
    let failed = |event: &Event| matches!(event, Event::Failed { instance, .. } if instance == "a");
    let Event::Failed { text, .. } = run.event("a fails", failed) else { unreachable!("it fits") };
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    run.event("a is gone", |event| matches!(event, Event::Lost { instance } if instance == "a"));
    text
}

/// What the wait of `b` for `a` ends with, and that it ends soon.
fn refusal(run: &Run, b: &Instance) -> String {
    let begin = Instant::now();
    let text = loop {
        match b.receive("in", None, None) {
            Ok(Received::Message(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert!(text.starts_with("a: "), "{text}");
    run.event("the run is told", |event| matches!(event, Event::Failed { instance, .. } if instance == "b"));
    text
}

#[test]
fn who_leaves_without_totals_fails_by_name_and_nobody_waits_for_it() {
    let (run, mut control, b) = pair();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.receive("in", None, None).unwrap_err().to_string());
        control.say(&leaving(vec![]));
        let text = failure(&run);
        assert!(text.contains("left with 0 totals of a.out -> b.in (conduit 1), expected 1"), "{text}");
        run.coordinator.abort(&format!("a failed: {text}"));
        assert!(waiting.join().unwrap().contains("a failed"));
    });
}

#[test]
fn who_leaves_with_totals_that_cannot_be_fails_by_name() {
    for (said, problem) in [
        (leaving(vec![totals(99, 0, 0)]), "totals of conduit 99, which is none of its own"),
        (leaving(vec![totals(1, 0, 3)]), "sent 0 and received 3 on a.out -> b.in, against its direction"),
        (leaving(vec![totals(1, 0, 0), totals(1, 0, 0)]), "left with 2 totals"),
        (ToCoordinator::Leaving { runs: 1, conduits: vec![totals(1, 0, 0)], waited_s: f64::NAN }, "waited for NaN s"),
    ] {
        let (run, mut control, _b) = pair();
        control.say(&said);
        let text = failure(&run);
        assert!(text.contains(problem), "{text}");
    }
}

#[test]
fn who_leaves_twice_joins_twice_or_comes_back_without_having_gone_fails_by_name() {
    let again = ToCoordinator::Rejoin { token: vec![1; 32], heard: 0 };
    let join = ToCoordinator::Join { pid: 1, host: "h".into(), language: "l".into(), version: "v".into() };
    for (said, problem) in [
        (join, "it asked to join a second time"),
        (again, "it came back by the connection on which it had asked to join"),
    ] {
        let (run, mut control, _b) = pair();
        control.say(&said);
        assert!(failure(&run).contains(problem));
    }
    let (run, mut control, _b) = pair();
    control.say(&leaving(vec![totals(1, 0, 0)]));
    control.say(&leaving(vec![totals(1, 0, 0)]));
    run.event("it fails", |event| matches!(event, Event::Failed { text, .. } if text.contains("left a second time")));
}

#[test]
fn who_speaks_of_what_is_not_its_own_fails_by_name() {
    use ToCoordinator as Word;
    let waiting =
        |waits, sent, received| Word::Waiting { epoch: 1, waits, is_any: false, is_timed: false, sent, received };
    let receive = |conduit| Wait { conduit, kind: WaitKind::Receive };
    for (said, problem) in [
        (waiting(vec![receive(1)], vec![], vec![]), "receiving on conduit 1, which does not end at it"),
        (waiting(vec![], vec![(99, 1)], vec![]), "sending on conduit 99, which does not begin at it"),
        (waiting(vec![], vec![], vec![(1, 1)]), "receiving on conduit 1, which does not end at it"),
        (
            Word::Conduits { conduits: vec![99], method: "tcp".into(), protected: false, refused: vec![] },
            "sending on conduit 99",
        ),
        (Word::Change { request: 1, conduit: 99, methods: vec![] }, "receiving on conduit 99"),
        (Word::Changed { change: 7, conduit: 1, method: None, problem: None }, "change 7, which nobody asked for"),
        (Word::Prepared { change: 7, conduit: 1, methods: vec![] }, "change 7, which nobody asked for"),
        (Word::Admitted { conduit: 1 << 30, problem: None }, "of which it was not asked"),
        (
            Word::PeerEnded { peer: "c".into(), reason: String::new() },
            "a connection with c, with which it has no conduit",
        ),
    ] {
        let (run, mut control, _b) = pair();
        control.say(&said);
        let text = failure(&run);
        assert!(text.contains(problem), "{said:?}: {text}");
    }
}

#[test]
fn who_reports_numbers_that_cannot_be_fails_by_name() {
    let progress = |time, messages_sent| ToCoordinator::Progress {
        run: 1,
        iteration: 1,
        time,
        messages_sent,
        bytes_sent: 0,
        messages_received: 0,
        bytes_received: 0,
    };
    let figures = |traffic| {
        let report = MethodReport {
            conduit: 1,
            name: String::new(),
            chosen: None,
            protected: false,
            refused: vec![],
            slower: vec![],
            traffic,
        };
        ToCoordinator::Figures { number: 1, sending: vec![report], receiving: vec![] }
    };
    for (said, problem) in [
        (progress(f64::NAN, 1), "its time is NaN"),
        (progress(0.0, 1 << 63), "it counts 9223372036854775808"),
        (leaving(vec![totals(1, u64::MAX, 0)]), "it counts 18446744073709551615"),
        (figures(Traffic { bytes_per_s: f64::INFINITY, ..Traffic::default() }), "a rate or a time of inf"),
        (figures(Traffic { latency_s: Some(-1.0), ..Traffic::default() }), "a rate or a time of -1"),
        (figures(Traffic { bytes: u64::MAX, ..Traffic::default() }), "it counts 18446744073709551615"),
        (
            ToCoordinator::GivenAgain { conduit: 1, objects: 1, deadly: None },
            "gives objects of conduit 1 again, none of whose readers has died",
        ),
    ] {
        let (run, mut control, _b) = pair();
        control.say(&said);
        let text = failure(&run);
        assert!(text.contains(problem), "{said:?}: {text}");
    }
}

#[test]
fn who_sends_the_coordinator_what_is_no_word_fails_with_what_it_was_and_hears_why() {
    for (said, problem) in [
        (encode_control(&[0xc1; 3]), "a control message cannot be read"),
        (frame::encode_end(1, 1).to_vec(), "a frame to the coordinator that is no control message"),
        ([&u64::MAX.to_le_bytes()[..], &[5, 1, 0, 0], &[0; 12]].concat(), "18446744073709551615"),
    ] {
        let (run, mut control, _b) = pair();
        control.stream.write_all(&said).unwrap();
        let text = failure(&run);
        assert!(text.contains(problem), "{text}");
        let told = loop {
            match control.hear() {
                ToInstance::Abort { reason } => break reason,
                ToInstance::Peer { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(told.contains(problem), "{told}");
    }
}

#[test]
fn who_proves_who_it_is_and_does_not_ask_to_join_is_turned_away() {
    let run = Run::of(Model::new().submodel("a", "", 1));
    let begin = Instant::now();
    let mut control = Client::to_coordinator(&run.coordinator, &SECRET, "a").unwrap();
    assert!(control.next_frame().is_err(), "it is closed");
    assert!(begin.elapsed() > Duration::from_secs(TIMEOUT_S - 1), "{:?}", begin.elapsed());
    run.event("people are told", |event| {
        matches!(event, Event::Warning { instance, text } if instance == "a" && text.contains("did not ask to join"))
    });
    joined(&run);
}

#[test]
fn who_ends_a_connection_that_ends_only_with_its_process_and_lives_fails_by_name() {
    let (run, mut control, b) = pair();
    let data = data(&mut control);
    std::thread::scope(|scope| {
        scope.spawn(|| b.receive("in", None, None).unwrap_err()); // who waits sees that it ends
        drop(data);
        let text = failure(&run);
        assert!(text.contains("it lives, and ended a connection with b before its conduits had ended"), "{text}");
        run.coordinator.abort(&text);
    });
}

#[test]
fn who_closes_the_last_connection_by_which_messages_come_fails_by_name() {
    let (run, mut control, b) = pair();
    let mut data = data(&mut control);
    std::thread::scope(|scope| {
        scope.spawn(|| b.receive("in", None, None).unwrap_err());
        data.stream.write_all(&frame::encode_closes()).unwrap();
        let text = failure(&run);
        assert!(text.contains("closed the last connection by which its messages came"), "{text}");
        run.coordinator.abort(&text);
    });
}

#[test]
fn a_message_that_comes_twice_by_one_connection_is_refused_by_name() {
    let (run, mut control, b) = pair();
    let mut data = data(&mut control);
    data.stream.write_all(&[message(1), message(2), message(2)].concat()).unwrap();
    assert!(refusal(&run, &b).contains("message 2 came twice by one connection"));
}

#[test]
fn a_sender_that_waits_for_no_room_is_refused_by_name() {
    let model = Model::by("unix").submodel("a", "out:Oi other:Oi", 9).submodel("b", "in:S more:S", 9);
    let run = Run::of(model.couple("a.other", "b.more").couple("a.out", "b.in"));
    let mut control = joined(&run);
    let b = run.join("b");
    b.reuse().unwrap();
    let mut data = data(&mut control);
    // The conduit holds 8; nobody takes any, as b waits for the other one.
    let _ = data.stream.write_all(&(1..500).flat_map(message).collect::<Vec<u8>>());
    assert!(refusal(&run, &b).contains("the conduit holds 8 "));
}

#[test]
fn a_sender_that_left_with_more_than_came_is_refused_by_name() {
    let (run, mut control, b) = pair();
    let mut data = data(&mut control);
    data.stream.write_all(&message(1)).unwrap();
    control.say(&leaving(vec![totals(1, 5, 0)]));
    assert!(refusal(&run, &b).contains("left having sent 5 messages, of which 1 came"));
}

#[test]
fn a_sender_that_left_with_fewer_than_came_is_refused_by_name() {
    let (run, mut control, b) = pair();
    let mut data = data(&mut control);
    data.stream.write_all(&[message(1), message(2)].concat()).unwrap();
    assert!(matches!(b.receive("in", None, None), Ok(Received::Message(_))));
    control.say(&leaving(vec![totals(1, 1, 0)]));
    let refused = refusal(&run, &b);
    assert!(refused.contains("it left having sent 1 messages, of which 2 have come"), "{refused}");
}

#[test]
fn a_receiver_that_left_having_taken_more_than_was_sent_is_refused_by_name() {
    let model = Model::by("unix").submodel("a", "in:S", 9).submodel("b", "out:Oi", 9).couple("b.out", "a.in");
    let run = Run::of(model);
    let mut control = joined(&run);
    let b = run.join("b");
    b.reuse().unwrap();
    b.send("out", None, Data::Int(1), Stamps::default()).unwrap();
    control.say(&leaving(vec![totals(1, 0, 5)]));
    run.event("b says so", |event| {
        let text = "a: b.out -> a.in: it left having taken 5 messages of 1";
        matches!(event, Event::Failed { instance, text: said } if instance == "b" && said.contains(text))
    });
}

#[test]
fn who_connects_to_an_instance_to_which_it_does_not_send_is_refused_by_name() {
    let model = Model::by("unix").submodel("a", "out:Oi", 9).submodel("b", "in:S", 9).submodel("c", "", 1);
    let run = Run::of(model.couple("a.out", "b.in"));
    let mut control = joined(&run);
    let b = run.join("b");
    b.reuse().unwrap();
    let table = control.table_of("b");
    let address = &table.entries.iter().find(|entry| entry.method == "unix").unwrap().addresses[0];
    let _data = Client::dial(connect(address), "test run", &SECRET, "c", Role::Data, "b").unwrap();
    let error = b.receive("in", None, None).unwrap_err().to_string();
    assert_eq!(error, "c: it connected, but no conduit leads from it to here");
}
