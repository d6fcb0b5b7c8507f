//! When a run begins and what it may do; ports, copies and several receivers.

use xmml_core::coordinator::Event;
use xmml_core::instance::{Received, Sent, Stamps};
use xmml_wire::data::Data;
use xmml_wire::error::Error;
use xmml_wire::message::Message;

use crate::support::{narrow, receive, receive_any, send, Model, Run};

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
        me.send("out", None, Data::Nothing, Stamps { timestamp: Some(time), ..Stamps::default() }).unwrap();
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

#[test]
fn ports_that_are_not_coupled_do_nothing_and_unknown_ones_are_an_error() {
    let run = Run::of(Model::new().submodel("a", "out:Oi in:S", 1));
    let me = run.join("a");
    me.reuse().unwrap();
    assert_eq!(send(&me, "out", 1), Sent::NotConnected);
    assert!(matches!(me.receive("in", None, None).unwrap(), Received::NotConnected));
    assert!(!me.connected("out").unwrap() && !me.has_message("in", None).unwrap());
    let error = me.send("ouch", None, Data::Nothing, Stamps::default()).unwrap_err().to_string();
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
            me.send("out", Some(copy), Data::Int(i64::from(copy)), Stamps::default()).unwrap();
        }
        me.send("out", None, Data::Int(7), Stamps::default()).unwrap();
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
        let error = me.send("out", Some(3), Data::Nothing, Stamps::default()).unwrap_err().to_string();
        assert!(error.contains("no copy 3"), "{error}");
        me.leave().unwrap();
    });
}

#[test]
fn messages_of_two_conduits_on_one_connection_may_be_received_in_any_order() {
    let model = Model::by("shm").submodel("a", "one:Oi two:Oi", 0).submodel("b", "one:S two:S", 0);
    let free = |spec: &mut xmml_core::spec::InstanceSpec| spec.check_order = false;
    let model = model.with("a", free).with("b", free).couple("a.one", "b.one").couple("a.two", "b.two");
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    for round in 0..300_i64 {
        for port in ["one", "two"] {
            send(&a, port, 2 * round);
            send(&a, port, 2 * round + 1);
        }
        // What comes first goes the short way in one round, and stands behind messages of the other conduit in the next.
        let (first, second) = if round % 2 == 0 { ("one", "two") } else { ("two", "one") };
        for port in [first, second] {
            assert_eq!(receive(&b, port), Some(2 * round), "{port}");
            assert_eq!(receive(&b, port), Some(2 * round + 1), "{port}");
        }
    }
    a.leave().unwrap();
    assert_eq!(receive(&b, "one"), None);
    assert_eq!(receive(&b, "two"), None);
    b.leave().unwrap();
}
