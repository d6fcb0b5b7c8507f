//! Filters at both ends of a conduit, and the time stamps of messages.

use xmml_core::coordinator::Event;
use xmml_core::instance::{NextStamp, Stamps};
use xmml_core::spec::Kind;
use xmml_wire::buffer::Buffer;
use xmml_wire::data::Data;

use crate::support::{filter, narrow, receive, receive_any, send, Model, Run};

#[test]
fn filters_work_at_both_ends() {
    let model =
        Model::new().submodel("a", "out:Oi", 3).submodel("b", "in:S", 6).couple_with("a.out", "b.in", |conduit| {
            conduit.sender_filters = vec![filter("multiply", 10.0)];
            conduit.receiver_filters = vec![filter("repeat", 2.0)];
        });
    let run = Run::of(model.with("b", |spec| spec.check_order = false));
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    for value in 0..3 {
        a.send("out", None, Data::Float(f64::from(value)), Stamps::default()).unwrap();
    }
    a.leave().unwrap();
    b.reuse().unwrap();
    let mut seen = Vec::new();
    for _ in 0..6 {
        let message = receive_any(&b, "in").unwrap();
        let Data::Float(value) = message.data else { panic!() };
        seen.push(value);
    }
    assert_eq!(seen, [0.0, 0.0, 10.0, 10.0, 20.0, 20.0]);
    assert!(receive_any(&b, "in").is_none());
    b.leave().unwrap();
}

#[test]
fn the_filter_last_sends_one_message_per_run_of_the_sender() {
    let model =
        Model::new().submodel("a", "out:Oi", 4).submodel("b", "in:finit", 1).couple_with("a.out", "b.in", |conduit| {
            conduit.sender_filters = vec![filter("last", 0.0)];
        });
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    for value in 0..4 {
        send(&a, "out", value);
    }
    assert!(!a.reuse().unwrap());
    a.leave().unwrap();
    assert!(b.reuse().unwrap());
    assert_eq!(receive(&b, "in"), Some(3));
    assert!(!b.reuse().unwrap());
    b.leave().unwrap();
}

#[test]
fn what_a_filter_holds_back_is_as_it_was_when_it_was_sent() {
    let model =
        Model::new().submodel("a", "out:Oi", 1).submodel("b", "in:finit", 1).couple_with("a.out", "b.in", |conduit| {
            conduit.sender_filters = vec![filter("last", 0.0)];
        });
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    let mut memory = vec![1_u8; 100_000];
    // SAFETY: the memory is changed after the send only.
    let lent = unsafe { Buffer::wrap(memory.as_ptr(), memory.len()) };
    a.send("out", None, Data::Bytes(lent), Stamps::default()).unwrap();
    memory.fill(2);
    a.leave().unwrap();
    assert!(b.reuse().unwrap());
    assert_eq!(receive_any(&b, "in").unwrap().data, Data::Bytes(Buffer::copy_of(&vec![1; 100_000])));
    assert!(!b.reuse().unwrap());
    b.leave().unwrap();
}

#[test]
fn stamps_default_to_the_iteration_and_explicit_ones_win() {
    let model = Model::new().submodel("a", "out:Oi", 3).submodel("b", "in:S", 4).couple("a.out", "b.in");
    let run = Run::of(model.with("a", |spec| spec.delta_s = 0.5));
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    send(&a, "out", 0);
    a.send("out", None, Data::Nothing, Stamps { timestamp: Some(0.75), next: NextStamp::Nothing }).unwrap();
    send(&a, "out", 2);
    a.leave().unwrap();
    b.reuse().unwrap();
    let stamps: Vec<_> = (0..3)
        .map(|_| receive_any(&b, "in").unwrap())
        .map(|message| (message.timestamp, message.next_timestamp))
        .collect();
    assert_eq!(stamps, [(0.0, Some(0.5)), (0.75, None), (1.0, None)]);
}

#[test]
fn time_that_goes_back_and_timelines_that_drift_apart_are_warned_about_once() {
    let run = Run::of(narrow(6, 8));
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    for time in [0.0, 5.0, 4.0, 3.0] {
        a.send("out", None, Data::Nothing, Stamps { timestamp: Some(time), next: NextStamp::Nothing }).unwrap();
    }
    run.event(
        "time goes back",
        |event| matches!(event, Event::Warning { text, .. } if text.contains("before that of the message")),
    );
    b.reuse().unwrap();
    (0..4).for_each(|_| drop(receive_any(&b, "in")));
    run.event(
        "drift",
        |event| matches!(event, Event::Warning { text, .. } if text.contains("timelines are 3 s apart")),
    );
    b.warn("the end");
    run.event("the end", |event| matches!(event, Event::Warning { text, .. } if text == "the end"));
    assert!(!run.drain().iter().any(|event| matches!(event, Event::Warning { .. })));
}

/// The warnings of a run in which `a` sends five numbers and `b` takes all that come through `sum` in groups of two.
fn warnings_of_a_sum(at_sender: bool, initial: bool) -> Vec<String> {
    let model = Model::new()
        .submodel("a", "out:Oi", 5)
        .submodel("b", if initial { "in:finit" } else { "in:S" }, 0)
        .with("b", |spec| spec.delta_s = 2.0)
        .couple_with("a.out", "b.in", |conduit| match at_sender {
            true => conduit.sender_filters = vec![filter("sum", 2.0)],
            false => conduit.receiver_filters = vec![filter("sum", 2.0)],
        });
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    for value in 0..5 {
        send(&a, "out", value);
    }
    a.leave().unwrap();
    let mut sums = Vec::new();
    while b.reuse().unwrap() {
        while let Some(sum) = receive(&b, "in") {
            sums.push(sum);
            if initial {
                break;
            }
        }
    }
    b.leave().unwrap();
    assert_eq!(sums, [1, 5]);
    run.event("b left", |event| matches!(event, Event::Left { instance, .. } if instance == "b"));
    let warnings = run.drain().into_iter().filter_map(|event| match event {
        Event::Warning { text, .. } => Some(text),
        _ => None,
    });
    warnings.collect()
}

#[test]
fn a_group_that_the_sender_does_not_complete_is_warned_about_once_wherever_the_filter_runs() {
    for (at_sender, initial) in [(true, false), (false, false), (false, true)] {
        let warnings = warnings_of_a_sum(at_sender, initial);
        assert_eq!(warnings.len(), 1, "{at_sender} {initial}: {warnings:?}");
        assert!(warnings[0].contains("filter sum: the last of 5 messages did not come out"), "{warnings:?}");
    }
}

#[test]
fn each_message_of_a_source_is_a_run_of_its_own_for_the_filter_last() {
    let model = Model::new()
        .submodel("source", "out:out", 1)
        .with("source", |spec| spec.kind = Kind::Terminal)
        .submodel("b", "in:finit", 1)
        .couple_with("source.out", "b.in", |conduit| conduit.sender_filters = vec![filter("last", 0.0)]);
    let run = Run::of(model);
    let (source, b) = (run.join("source"), run.join("b"));
    for value in 0..3 {
        send(&source, "out", value);
    }
    source.leave().unwrap();
    for value in 0..3 {
        assert!(b.reuse().unwrap());
        assert_eq!(receive(&b, "in"), Some(value));
    }
    assert!(!b.reuse().unwrap());
    b.leave().unwrap();
}
