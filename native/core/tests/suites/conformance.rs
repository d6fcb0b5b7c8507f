// What every method must do, whatever carries the bytes: each behaviour is tested over all of `methods()`, which whoever includes this
// file defines.

use std::time::Duration;

use support::{receive, send, Model, Run, LIMIT};
use xmml_wire::buffer::Buffer;
use xmml_core::coordinator::Event;
use xmml_wire::data::{Array, Data, Dtype, Order};
use xmml_core::instance::{Received, Sent, Stamps};

/// One sender, one receiver, one coupling inside their loops, without an order of operators.
fn pair(method: &str, steps: u64) -> Model {
    Model::by(method).submodel("a", "out:Oi", steps).submodel("b", "in:S", steps).couple("a.out", "b.in")
}

#[test]
fn messages_arrive_once_and_in_order_and_then_the_conduit_ends() {
    for method in methods() {
        let run = Run::of(pair(method, 1000));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let me = run.join("a");
                assert!(me.reuse().unwrap());
                for value in 0..1000 {
                    assert_eq!(send(&me, "out", value), Sent::Queued);
                }
                assert!(!me.reuse().unwrap());
                me.leave().unwrap();
            });
            let me = run.join("b");
            assert!(me.reuse().unwrap());
            for value in 0..1000 {
                assert_eq!(receive(&me, "in"), Some(value), "{method}");
            }
            assert!(!me.reuse().unwrap());
            me.leave().unwrap();
        });
        run.event("a leaves", |event| matches!(event, Event::Left { instance, .. } if instance == "a"));
        run.event("b leaves", |event| matches!(event, Event::Left { instance, .. } if instance == "b"));
    }
}

#[test]
fn large_arrays_arrive_byte_for_byte() {
    for method in methods() {
        let run = Run::of(pair(method, 3));
        let bytes: Vec<u8> = (0..(24 << 20) + 8).map(|at: u64| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let me = run.join("a");
                me.reuse().unwrap();
                for _ in 0..3 {
                    let data = Buffer::copy_of(&bytes);
                    let shape = vec![bytes.len() as u64 / 8];
                    let array = Array { dtype: Dtype::F64, order: Order::RowMajor, shape: shape.into(), data };
                    me.send("out", None, Data::Array(array), Stamps::default()).unwrap();
                }
                me.leave().unwrap();
            });
            let me = run.join("b");
            me.reuse().unwrap();
            for _ in 0..3 {
                let Received::Message(message) = me.receive("in", None, None).unwrap() else { panic!() };
                let Data::Array(array) = message.data else { panic!() };
                assert!(*array.data == *bytes, "{method}");
            }
            me.leave().unwrap();
        });
    }
}

#[test]
fn two_instances_exchange_messages_in_step() {
    for method in methods() {
        let model = Model::by(method)
            .submodel("a", "out:Oi in:S", 200)
            .submodel("b", "out:Oi in:S", 200)
            .couple("a.out", "b.in")
            .couple("b.out", "a.in");
        let run = Run::of(model);
        let play = |name: &str| {
            let me = run.join(name);
            let mut seen = Vec::new();
            while me.reuse().unwrap() {
                while let Some(time) = me.next_step().unwrap() {
                    send(&me, "out", time as i64);
                    seen.push(receive(&me, "in").unwrap());
                }
            }
            me.leave().unwrap();
            assert_eq!(seen, (0..200).collect::<Vec<_>>());
        };
        std::thread::scope(|scope| {
            scope.spawn(|| play("a"));
            play("b");
        });
    }
}

#[test]
fn an_abort_ends_every_wait() {
    for method in methods() {
        let run = Run::of(pair(method, 10));
        let a = run.join("a");
        a.reuse().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let me = run.join("b");
                me.reuse().unwrap();
                me.receive("in", None, None)
            });
            run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
            run.coordinator.abort("a test says so");
            let error = waiting.join().unwrap().unwrap_err().to_string();
            assert_eq!(error, "the run was stopped: a test says so");
        });
    }
}

#[test]
fn a_receive_with_a_time_out_takes_nothing_when_nothing_comes() {
    for method in methods() {
        let run = Run::of(pair(method, 2));
        let (a, b) = (run.join("a"), run.join("b"));
        a.reuse().unwrap();
        b.reuse().unwrap();
        assert!(matches!(b.receive("in", None, Some(Duration::from_millis(20))).unwrap(), Received::TimedOut));
        send(&a, "out", 5);
        let received = b.receive("in", None, Some(LIMIT)).unwrap();
        assert!(matches!(received, Received::Message(_)), "{method}");
    }
}
