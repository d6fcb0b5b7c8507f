//! What an instance may rely on, beside the carrying of bytes: loops, ends, room, filters, time, liveness.

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use support::{filter, receive, receive_any, send, Model, Run};
use xmml_core::buffer::Buffer;
use xmml_core::coordinator::{Event, WaitKind};
use xmml_core::data::Data;
use xmml_core::error::Error;
use xmml_core::instance::{Instance, Received, Sent};
use xmml_core::message::Message;

/// `a.out` (in the loop) to `b.in` (in the loop), with a small capacity.
fn narrow(steps: u64, capacity: u32) -> Model {
    Model::new().submodel("a", "out:Oi", steps).submodel("b", "in:S", steps).couple_with("a.out", "b.in", |conduit| {
        conduit.capacity = capacity;
    })
}

// ---- runs ------------------------------------------------------------------------------------------------------------------------

#[test]
fn an_instance_without_initial_ports_runs_once() {
    let run = Run::of(Model::new().submodel("a", "out:Of", 1));
    let me = run.join("a");
    assert!(me.reuse().unwrap());
    assert!(!me.reuse().unwrap());
    me.leave().unwrap();
}

#[test]
fn a_called_instance_runs_once_per_message_and_ends_with_its_caller() {
    let model = Model::new()
        .submodel("macro", "call:Oi back:S", 5)
        .submodel("micro", "start:finit end:Of", 3)
        .couple("macro.call", "micro.start")
        .couple("micro.end", "macro.back");
    let run = Run::of(model);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let me = run.join("micro");
            let mut runs = 0;
            while me.reuse().unwrap() {
                let value = receive(&me, "start").unwrap();
                let times: Vec<f64> = std::iter::from_fn(|| me.next_step().unwrap()).collect();
                assert_eq!(times, [me.origin(), me.origin() + 1.0, me.origin() + 2.0]);
                send(&me, "end", value * 10);
                runs += 1;
            }
            assert_eq!(runs, 5);
            me.leave().unwrap();
        });
        let me = run.join("macro");
        while me.reuse().unwrap() {
            while let Some(time) = me.next_step().unwrap() {
                send(&me, "call", time as i64);
                assert_eq!(receive(&me, "back"), Some(time as i64 * 10));
            }
        }
        me.leave().unwrap();
    });
    let left = run.event("micro leaves", |event| matches!(event, Event::Left { instance, .. } if instance == "micro"));
    let Event::Left { runs, conduits, .. } = left else { unreachable!() };
    assert_eq!(runs, 5);
    assert_eq!(conduits.iter().map(|totals| (totals.sent, totals.received)).collect::<Vec<_>>(), [(5, 0), (0, 5)]);
}

#[test]
fn initial_ports_that_end_unevenly_are_an_error_that_names_both() {
    let model = Model::new()
        .submodel("x", "out:Of", 1)
        .submodel("y", "out:Of", 1)
        .submodel("b", "one:finit two:finit", 1)
        .couple("x.out", "b.one")
        .couple("y.out", "b.two");
    let run = Run::of(model.with("x", |spec| spec.check_order = false));
    let (x, y, b) = (run.join("x"), run.join("y"), run.join("b"));
    x.reuse().unwrap();
    x.leave().unwrap();
    y.reuse().unwrap();
    send(&y, "out", 1);
    y.leave().unwrap();
    let error = b.reuse().unwrap_err().to_string();
    assert!(error.contains("one (from x)") && error.contains("two (from y)"), "{error}");
}

#[test]
fn the_origin_of_a_run_is_the_latest_stamp_of_its_initial_messages() {
    let model = Model::new()
        .submodel("x", "out:Of", 1)
        .submodel("y", "out:Of", 1)
        .submodel("b", "one:finit two:finit end:Of", 2)
        .couple("x.out", "b.one")
        .couple("y.out", "b.two");
    let run = Run::of(model);
    let (x, y, b) = (run.join("x"), run.join("y"), run.join("b"));
    for (me, time) in [(&x, 3.0), (&y, 7.5)] {
        me.reuse().unwrap();
        me.send("out", None, Data::Nothing, Some(time), None).unwrap();
        me.leave().unwrap();
    }
    assert!(b.reuse().unwrap());
    assert_eq!((b.origin(), b.time()), (7.5, 7.5));
    receive_any(&b, "one");
    receive_any(&b, "two");
    assert_eq!(b.next_step().unwrap(), Some(7.5));
    assert_eq!(b.next_step().unwrap(), Some(8.5));
    assert_eq!(b.next_step().unwrap(), None);
    assert_eq!(b.time(), 9.5);
    b.leave().unwrap();
}

#[test]
fn a_call_out_of_order_is_an_error_that_says_what_was_expected() {
    let run = Run::of(narrow(2, 8));
    let me = run.join("b");
    let error = me.receive("in", None, None).unwrap_err();
    assert!(matches!(&error, Error::OperatorOrder { .. }), "{error}");
    assert!(error.to_string().contains("reuse() first"), "{error}");
}

#[test]
fn a_mapper_loops_while_every_in_port_can_deliver() {
    let model = Model::new()
        .submodel("a", "out:Oi", 3)
        .submodel("b", "out:Oi", 2)
        .submodel("c", "in:S", 2)
        .mapper("join", "left:in right:in sum:out")
        .couple("a.out", "join.left")
        .couple("b.out", "join.right")
        .couple("join.sum", "c.in");
    let run = Run::of(model.with("c", |spec| spec.check_order = false));
    std::thread::scope(|scope| {
        for (name, count) in [("a", 3), ("b", 2)] {
            let run = &run;
            scope.spawn(move || {
                let me = run.join(name);
                me.reuse().unwrap();
                for value in 0..count {
                    send(&me, "out", value);
                }
                me.leave().unwrap();
            });
        }
        scope.spawn(|| {
            let me = run.join("join");
            while me.reuse().unwrap() {
                let right = receive(&me, "right").unwrap();
                let left = receive(&me, "left").unwrap();
                send(&me, "sum", left + right);
            }
            me.leave().unwrap();
        });
        let me = run.join("c");
        me.reuse().unwrap();
        let first = receive_any(&me, "in").unwrap();
        assert_eq!((first.timestamp, first.next_timestamp), (0.0, Some(1.0)), "a mapper passes the stamps on");
        assert_eq!(receive(&me, "in"), Some(2));
        assert_eq!(receive(&me, "in"), None);
        me.leave().unwrap();
    });
}

// ---- ports -----------------------------------------------------------------------------------------------------------------------

#[test]
fn ports_that_are_not_coupled_do_nothing_and_unknown_ones_are_an_error() {
    let run = Run::of(Model::new().submodel("a", "out:Oi in:S", 1));
    let me = run.join("a");
    me.reuse().unwrap();
    assert_eq!(send(&me, "out", 1), Sent::NotConnected);
    assert!(matches!(me.receive("in", None, None).unwrap(), Received::NotConnected));
    assert!(!me.connected("out").unwrap() && !me.has_message("in", None).unwrap());
    let error = me.send("ouch", None, Data::Nothing, None, None).unwrap_err().to_string();
    assert!(error.contains("no port \"ouch\"") && error.contains("out, in"), "{error}");
    assert!(matches!(me.receive("out", None, None).unwrap_err(), Error::PortDirection { sends: true, .. }));
    me.leave().unwrap();
}

#[test]
fn one_port_may_lead_to_several_receivers() {
    let model = Model::new()
        .submodel("a", "out:Of", 1)
        .submodel("b", "in:finit", 1)
        .submodel("c", "in:finit", 1)
        .couple("a.out", "b.in")
        .couple("a.out", "c.in");
    let run = Run::of(model);
    let (a, b, c) = (run.join("a"), run.join("b"), run.join("c"));
    a.reuse().unwrap();
    send(&a, "out", 9);
    a.leave().unwrap();
    for me in [&b, &c] {
        assert!(me.reuse().unwrap());
        assert_eq!(receive(me, "in"), Some(9));
        assert!(!me.reuse().unwrap());
        me.leave().unwrap();
    }
}

#[test]
fn copies_are_addressed_one_by_one_or_all_at_once() {
    let mut model = Model::new().mapper("m", "back:in*3 out:out*3");
    for copy in 0..3 {
        let name = format!("c[{copy}]");
        model = model
            .submodel(&name, "in:finit out:Of", 1)
            .couple("m.out", &format!("{name}.in"))
            .couple(&format!("{name}.out"), "m.back");
    }
    let run = Run::of(model.with("m", |spec| spec.check_order = false));
    std::thread::scope(|scope| {
        for copy in 0..3 {
            let run = &run;
            scope.spawn(move || {
                let me = run.join(&format!("c[{copy}]"));
                while me.reuse().unwrap() {
                    let value = receive(&me, "in").unwrap();
                    send(&me, "out", value + 100 * copy);
                }
                me.leave().unwrap();
            });
        }
        let me = run.join("m");
        assert_eq!(me.copies("out").unwrap(), 3);
        for copy in 0..3 {
            me.send("out", Some(copy), Data::Int(i64::from(copy)), None, None).unwrap();
        }
        me.send("out", None, Data::Int(7), None, None).unwrap();
        for expected in [[0, 101, 202], [7, 107, 207]] {
            for (copy, expected) in expected.into_iter().enumerate() {
                let received = me.receive("back", Some(copy as u32), None).unwrap();
                let Received::Message(Message { data: Data::Int(value), .. }) = received else {
                    panic!("{received:?}")
                };
                assert_eq!(value, expected);
            }
        }
        let error = me.receive("back", None, None).unwrap_err().to_string();
        assert!(error.contains("from 3 copies"), "{error}");
        let error = me.send("out", Some(3), Data::Nothing, None, None).unwrap_err().to_string();
        assert!(error.contains("no copy 3"), "{error}");
        me.leave().unwrap();
    });
}

// ---- room ------------------------------------------------------------------------------------------------------------------------

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
                me.send("out", None, Data::Text("x".repeat(size)), None, None).unwrap();
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

// ---- ends ------------------------------------------------------------------------------------------------------------------------

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
        std::thread::sleep(Duration::from_millis(200));
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

// ---- filters and time ------------------------------------------------------------------------------------------------------------

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
        a.send("out", None, Data::Float(f64::from(value)), None, None).unwrap();
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
    let lent = unsafe { Buffer::wrap(memory.as_ptr(), memory.len(), Box::new(())) };
    a.send("out", None, Data::Bytes(lent), None, None).unwrap();
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
    a.send("out", None, Data::Nothing, Some(0.75), Some(None)).unwrap();
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
        a.send("out", None, Data::Nothing, Some(time), Some(None)).unwrap();
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

// ---- liveness --------------------------------------------------------------------------------------------------------------------

#[test]
fn a_wait_is_confirmed_while_it_lasts_and_not_after() {
    let run = Run::of(narrow(2, 8));
    let a = run.join("a");
    a.reuse().unwrap();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let me = run.join("b");
            me.reuse().unwrap();
            assert_eq!(receive(&me, "in"), Some(1));
            me
        });
        let event = run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
        let Event::Waiting { epoch, waits, .. } = event else { unreachable!() };
        assert_eq!((waits[0].conduit, waits[0].kind), (1, WaitKind::Receive));
        run.coordinator.confirm("b", epoch);
        run.event("b confirms", |event| matches!(event, Event::Confirmed { still: true, .. }));
        send(&a, "out", 1);
        run.event("b goes on", |event| matches!(event, Event::Resumed { epoch: other, .. } if *other == epoch));
        let me = receiver.join().unwrap();
        run.coordinator.confirm("b", epoch);
        run.event("b denies", |event| matches!(event, Event::Confirmed { still: false, .. }));
        drop(me);
    });
}

#[test]
fn progress_is_reported_at_most_four_times_a_second_and_at_the_end() {
    let run = Run::of(narrow(2000, 2000));
    let me = run.join("a");
    me.reuse().unwrap();
    let begin = Instant::now();
    let mut sent = 0;
    while begin.elapsed() < Duration::from_millis(900) {
        me.next_step().unwrap();
        send(&me, "out", sent);
        sent += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(400));
    let reports: Vec<u64> = run
        .drain()
        .iter()
        .filter_map(|event| match event {
            Event::Progress { messages_sent, .. } => Some(*messages_sent),
            _ => None,
        })
        .collect();
    assert!((2..=7).contains(&reports.len()), "{reports:?}");
    assert!(reports.is_sorted(), "{reports:?}");
    assert_eq!(*reports.last().unwrap(), sent as u64, "the last report has everything");
}

#[test]
fn an_interrupt_check_ends_a_wait() {
    let run = Run::of(narrow(2, 8));
    let me = run.join("b");
    me.set_interrupt(Box::new(|| true));
    me.reuse().unwrap();
    let begin = Instant::now();
    assert!(matches!(me.receive("in", None, None), Err(Error::Interrupted)));
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn an_instance_outlives_its_coordinator_as_long_as_it_need_not_wait() {
    let run = Run::of(narrow(3, 8));
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    send(&a, "out", 1);
    assert_eq!(receive(&b, "in"), Some(1));
    run.coordinator.close();
    send(&a, "out", 2);
    assert_eq!(receive(&b, "in"), Some(2));
}

#[test]
fn methods_tell_what_was_chosen_and_why_others_were_not() {
    let run = Run::of(Model::by("tcp").submodel("a", "out:Oi", 2).submodel("b", "in:S", 2).couple("a.out", "b.in"));
    let (a, b) = (run.join("a"), run.join("b"));
    assert_eq!(a.methods("out").unwrap()[0].name, "a.out -> b.in");
    run.event(
        "a method is chosen",
        |event| matches!(event, Event::Conduit { method, conduit: 1, .. } if method == "tcp"),
    );
    assert_eq!(a.methods("out").unwrap()[0].chosen.as_deref(), Some("tcp"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    send(&a, "out", 1);
    receive(&b, "in");
    assert_eq!(b.methods("in").unwrap()[0].chosen.as_deref(), Some("tcp"));
}

// ---- outside a run ---------------------------------------------------------------------------------------------------------------

#[test]
fn outside_a_run_the_error_says_what_is_missing() {
    let run = Run::of(Model::new());
    let mut options = run.options("a");
    options.instance = None;
    assert!(matches!(Instance::join(options), Err(Error::NotInARun { missing: "XMML_INSTANCE" })));
}

#[test]
fn an_instance_alone_takes_its_inputs_and_records_its_outputs() {
    let spec = Model::new().submodel("b", "start:finit in:S out:Oi end:Of unused:S", 2).alone("b");
    let number = |value| Message { timestamp: 0.0, next_timestamp: None, data: Data::Int(value) };
    let inputs = BTreeMap::from([("start".to_owned(), vec![number(1)]), ("in".to_owned(), vec![number(2), number(3)])]);
    let me = Instance::alone(spec, inputs).unwrap();
    let mut runs = 0;
    while me.reuse().unwrap() {
        let mut sum = receive(&me, "start").unwrap();
        while me.next_step().unwrap().is_some() {
            send(&me, "out", sum);
            sum += receive(&me, "in").unwrap();
            assert!(matches!(me.receive("unused", None, None).unwrap(), Received::NotConnected));
        }
        send(&me, "end", sum);
        runs += 1;
    }
    me.leave().unwrap();
    assert_eq!(runs, 1);
    let outputs = me.outputs();
    assert_eq!(outputs["out"].iter().map(|message| message.timestamp).collect::<Vec<_>>(), [0.0, 1.0]);
    assert_eq!(outputs["end"], [Message { timestamp: 2.0, next_timestamp: None, data: Data::Int(6) }]);
}

#[test]
fn inputs_for_a_port_that_does_not_exist_are_an_error() {
    let spec = Model::new().submodel("b", "in:S", 2).alone("b");
    let error = Instance::alone(spec, BTreeMap::from([("inn".to_owned(), vec![])])).err().unwrap().to_string();
    assert!(error.contains("\"inn\"") && error.contains("in ports are in"), "{error}");
}
