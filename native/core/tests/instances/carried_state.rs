//! A coupling of an instance with itself that carries the state of one run to the next.

use xmml_core::coordinator::{Event, WaitKind};
use xmml_core::instance::{Instance, Received};
use xmml_wire::error::Error;

use crate::support::{receive, receive_any, send, Model, Run};

/// `caller` starts `micro` as often as it makes steps; `micro` keeps its state in a conduit.
fn called(steps: u64) -> Model {
    Model::new()
        .submodel("caller", "call:Oi", steps)
        .submodel("micro", "start:finit before:finit after:Of", 5)
        .couple("caller.call", "micro.start")
        .couple_with("micro.after", "micro.before", |conduit| conduit.is_state = true)
}

fn call(run: &Run, steps: i64) {
    let caller = run.join("caller");
    caller.reuse().unwrap();
    for step in 0..steps {
        send(&caller, "call", step);
    }
    caller.leave().unwrap();
}

fn state_or(me: &Instance, first: i64) -> i64 {
    match me.receive("before", None, None).unwrap() {
        Received::NoStateYet => first,
        Received::Message(message) => match message.data {
            xmml_wire::data::Data::Int(value) => value,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_run_does_without_and_each_later_one_has_what_the_one_before_sent() {
    let run = Run::of(called(4));
    std::thread::scope(|scope| {
        scope.spawn(|| call(&run, 4));
        let me = run.join("micro");
        let mut seen = Vec::new();
        while me.reuse().unwrap() {
            let start = receive(&me, "start").unwrap();
            let before = state_or(&me, -1);
            seen.push((start, before));
            send(&me, "after", start * 10);
        }
        me.leave().unwrap();
        assert_eq!(seen, [(0, -1), (1, 0), (2, 10), (3, 20)]);
    });
    let event = run.event("micro left", |event| matches!(event, Event::Left { instance, .. } if instance == "micro"));
    let Event::Left { runs, conduits, .. } = event else { unreachable!() };
    assert_eq!(runs, 4);
    assert!(conduits.iter().all(|totals| totals.dropped == 0), "the last state is no loss: {conduits:?}");
}

#[test]
fn in_the_first_run_the_port_is_as_if_it_were_not_coupled() {
    let run = Run::of(called(2));
    std::thread::scope(|scope| {
        scope.spawn(|| call(&run, 2));
        let me = run.join("micro");
        assert!(me.connected("before").unwrap());
        for (number, there) in [(0, false), (1, true)] {
            assert!(me.reuse().unwrap());
            assert_eq!(receive(&me, "start"), Some(number));
            assert_eq!(me.connected("before").unwrap(), there);
            assert_eq!(me.has_message("before", None).unwrap(), there);
            assert_eq!(matches!(me.receive("before", None, None).unwrap(), Received::NoStateYet), !there);
            send(&me, "after", 1);
        }
        assert!(!me.reuse().unwrap());
        let error = me.no_message_error("before");
        assert!(
            matches!(error, Error::NoStateYet { .. }) && error.to_string().contains("this is the first"),
            "{error}"
        );
        me.leave().unwrap();
    });
}

#[test]
fn a_later_run_must_take_the_state_like_any_other_initial_message() {
    let run = Run::of(called(2));
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| call(&run, 2));
        let me = run.join("micro");
        for number in 0..2 {
            assert!(me.reuse().unwrap());
            receive(&me, "start");
            if number == 0 {
                send(&me, "after", 1);
            }
        }
        caller.join().unwrap(); // to whom `me` fails as soon as it is dropped
        let error = me.reuse().unwrap_err().to_string();
        assert!(error.contains("expected receive on \"before\" (finit)"), "{error}");
    });
}

#[test]
fn without_other_initial_messages_there_is_one_run() {
    let model = Model::new().submodel("lonely", "before:finit after:Of", 1).couple_with(
        "lonely.after",
        "lonely.before",
        |conduit| conduit.is_state = true,
    );
    let run = Run::of(model);
    let me = run.join("lonely");
    assert!(me.reuse().unwrap());
    send(&me, "after", 1);
    assert!(!me.reuse().unwrap());
    me.leave().unwrap();
}

#[test]
fn the_state_does_not_move_the_time_at_which_a_run_begins() {
    let run = Run::of(called(2));
    std::thread::scope(|scope| {
        scope.spawn(|| call(&run, 2));
        let me = run.join("micro");
        for number in 0..2 {
            assert!(me.reuse().unwrap());
            assert_eq!(me.origin(), f64::from(number), "a run of 5 s is called every second");
            assert_eq!(receive_any(&me, "start").unwrap().timestamp, f64::from(number));
            state_or(&me, 0);
            send(&me, "after", 1);
        }
        assert!(!me.reuse().unwrap());
        me.leave().unwrap();
    });
}

#[test]
fn a_state_that_was_not_sent_is_waited_for_and_the_wait_is_reported() {
    let run = Run::of(called(2));
    std::thread::scope(|scope| {
        scope.spawn(|| call(&run, 2));
        let waiting = scope.spawn(|| {
            let me = run.join("micro");
            assert!(me.reuse().unwrap());
            receive(&me, "start");
            me.skip("after").unwrap();
            me.reuse().unwrap_err()
        });
        let is_its = |event: &Event| match event {
            Event::Waiting { instance, waits, .. } => {
                instance == "micro" && waits.iter().all(|wait| wait.conduit == 2 && wait.kind == WaitKind::Receive)
            }
            _ => false,
        };
        run.event("micro waits for itself only", is_its);
        run.coordinator.abort("it would wait for ever");
        let error = waiting.join().unwrap().to_string();
        assert!(error.contains("for ever"), "{error}");
    });
}
