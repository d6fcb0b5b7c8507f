//! Full conduits, receivers that leave, senders that end.

use std::time::Duration;

use xmml_core::coordinator::{Event, WaitKind};
use xmml_core::instance::{Received, Sent, Stamps};
use xmml_wire::data::Data;
use xmml_wire::error::Error;

use crate::support::{narrow, receive, receive_any, send, Model, Run};

#[test]
fn a_send_on_a_full_conduit_waits_for_the_receiver_and_says_so() {
    let run = Run::of(narrow(5, 2));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let me = run.join("a");
            me.reuse().unwrap();
            for value in 0..5 {
                send(&me, "out", value);
            }
            me.leave().unwrap();
        });
        let event =
            run.event("a waits for room", |event| matches!(event, Event::Waiting { instance, .. } if instance == "a"));
        let Event::Waiting { waits, sent, .. } = event else { unreachable!() };
        assert_eq!((waits[0].kind, sent), (WaitKind::Send, vec![(1, 2)]));
        let me = run.join("b");
        me.reuse().unwrap();
        assert_eq!((0..5).map(|_| receive(&me, "in").unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        sender.join().unwrap();
        me.leave().unwrap();
    });
    run.event("a goes on", |event| matches!(event, Event::Resumed { instance, .. } if instance == "a"));
}

#[test]
fn growing_a_conduit_lets_a_waiting_send_go_on() {
    let run = Run::of(narrow(5, 2));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let me = run.join("a");
            me.reuse().unwrap();
            for value in 0..5 {
                send(&me, "out", value);
            }
            run.coordinator.take_events();
        });
        run.event("a waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "a"));
        run.coordinator.grow(1, 5);
        sender.join().unwrap();
    });
}

#[test]
fn messages_above_the_byte_budget_pass_one_at_a_time() {
    let model =
        Model::new().submodel("a", "out:Oi", 6).submodel("b", "in:S", 6).couple_with("a.out", "b.in", |conduit| {
            conduit.byte_budget = 1000;
        });
    let run = Run::of(model);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let me = run.join("a");
            me.reuse().unwrap();
            for size in [10, 5000, 10, 10, 5000, 10] {
                me.send("out", None, Data::Text("x".repeat(size)), Stamps::default()).unwrap();
            }
            me.leave().unwrap();
        });
        let me = run.join("b");
        me.reuse().unwrap();
        for size in [10, 5000, 10, 10, 5000, 10] {
            let message = receive_any(&me, "in").unwrap();
            assert!(matches!(message.data, Data::Text(text) if text.len() == size));
        }
        me.leave().unwrap();
    });
}

#[test]
fn what_is_sent_to_a_receiver_that_has_left_is_dropped_counted_and_told() {
    let run = Run::of(narrow(10, 4).with("b", |spec| spec.check_order = false));
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    assert_eq!(send(&a, "out", 0), Sent::Queued);
    b.reuse().unwrap();
    assert_eq!(receive(&b, "in"), Some(0));
    b.leave().unwrap();
    let mut gone = 0;
    for value in 1..10 {
        gone += u64::from(send(&a, "out", value) == Sent::ReceiverGone);
    }
    assert!(gone >= 1, "at most the capacity can be on its way when the receiver leaves");
    a.leave().unwrap();
    let event = run.event("a leaves", |event| matches!(event, Event::Left { instance, .. } if instance == "a"));
    let Event::Left { conduits, .. } = event else { unreachable!() };
    assert_eq!(conduits[0].dropped, 9);
}

#[test]
fn a_blocked_send_ends_when_the_receiver_leaves() {
    let run = Run::of(narrow(5, 1).with("b", |spec| spec.check_order = false));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let me = run.join("a");
            me.reuse().unwrap();
            let sent: Vec<Sent> = (0..2).map(|value| send(&me, "out", value)).collect();
            me.leave().ok();
            sent
        });
        run.event("a waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "a"));
        let me = run.join("b");
        me.reuse().unwrap();
        me.leave().unwrap();
        assert_eq!(sender.join().unwrap(), [Sent::Queued, Sent::ReceiverGone]);
    });
}

#[test]
fn a_sender_may_end_before_its_receiver_joins_and_nothing_is_lost() {
    let run = Run::of(narrow(3, 8));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let me = run.join("a");
            me.reuse().unwrap();
            for value in 0..3 {
                send(&me, "out", value);
            }
            me.leave().unwrap();
        });
        std::thread::sleep(Duration::from_millis(50)); // as a rule it has ended then; if not, nothing is lost either
        let me = run.join("b");
        sender.join().unwrap();
        me.reuse().unwrap();
        assert_eq!((0..3).map(|_| receive(&me, "in").unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
        me.leave().unwrap();
    });
}

#[test]
fn a_sender_without_messages_ends_without_waiting_for_its_receiver() {
    let run = Run::of(narrow(3, 8).with("a", |spec| spec.check_order = false));
    let a = run.join("a");
    a.reuse().unwrap();
    a.leave().unwrap();
    let b = run.join("b");
    b.reuse().unwrap();
    assert_eq!(receive(&b, "in"), None);
    let error = b.ended_error("in", None).to_string();
    assert!(error.contains("a has ended"), "{error}");
    b.leave().unwrap();
}

#[test]
fn a_sender_that_vanishes_is_not_an_end() {
    let run = Run::of(narrow(3, 8));
    let b = run.join("b");
    b.reuse().unwrap();
    let a = run.join("a");
    a.reuse().unwrap();
    send(&a, "out", 0);
    assert_eq!(receive(&b, "in"), Some(0));
    drop(a);
    run.event("a is lost", |event| matches!(event, Event::Lost { instance } if instance == "a"));
    let received = b.receive("in", None, Some(Duration::from_millis(300))).unwrap();
    assert!(matches!(received, Received::TimedOut), "{received:?}");
    run.coordinator.abort("a failed");
    assert!(matches!(b.receive("in", None, None), Err(Error::Aborted { .. })));
}

#[test]
fn leaving_twice_is_fine_and_using_the_instance_after_that_is_not() {
    let run = Run::of(Model::new().submodel("a", "out:Of", 1));
    let me = run.join("a");
    me.reuse().unwrap();
    me.leave().unwrap();
    me.leave().unwrap();
    assert!(me.reuse().unwrap_err().to_string().contains("has left the run"));
}

#[test]
fn a_failure_is_told_with_its_reason() {
    let run = Run::of(Model::new().submodel("a", "out:Of", 1));
    let me = run.join("a");
    me.fail("division by zero");
    drop(me);
    run.event("a failed", |event| matches!(event, Event::Failed { text, .. } if text == "division by zero"));
    run.event("a is lost", |event| matches!(event, Event::Lost { instance } if instance == "a"));
}

#[test]
fn two_threads_that_receive_at_once_get_the_messages_of_each_port_in_order() {
    const COUNT: i64 = 30_000;
    let model = Model::new()
        .submodel("a", "one:Of two:Of", 1)
        .submodel("b", "here:finit there:finit", 1)
        .with("a", |spec| spec.check_order = false)
        .with("b", |spec| spec.check_order = false)
        .couple_with("a.one", "b.here", |conduit| conduit.methods = vec!["shm".into()])
        .couple_with("a.two", "b.there", |conduit| conduit.methods = vec!["shm".into()]);
    let run = Run::of(model);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let me = run.join("a");
            for value in 0..COUNT {
                send(&me, "one", value);
                send(&me, "two", value);
            }
            me.leave().unwrap();
        });
        let me = run.join("b");
        std::thread::scope(|scope| {
            for port in ["here", "there"] {
                let me = &me;
                scope.spawn(move || (0..COUNT).for_each(|value| assert_eq!(receive(me, port), Some(value), "{port}")));
            }
        });
        sender.join().unwrap(); // to whom `me` fails as soon as it is dropped
    });
}
