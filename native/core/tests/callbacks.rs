//! Callbacks on arrival: called by whoever waits, when the order of operators allows it, one at a time.

mod support;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use support::{receive, send, Model, Run};
use xmml_core::coordinator::{Event, WaitKind};
use xmml_core::instance::{Callback, Instance, Served};
use xmml_wire::data::Data;
use xmml_wire::error::Error;
use xmml_wire::message::Message;

/// `a` sends on `one` and `two`, `b` receives on `one` and `two`.
fn two_conduits(steps: u64) -> Model {
    Model::new()
        .submodel("a", "one:Oi two:Oi", steps)
        .submodel("b", "one:S two:S", steps)
        .couple("a.one", "b.one")
        .couple("a.two", "b.two")
}

/// Nobody looks at the order of calls.
fn in_any_order(model: Model) -> Model {
    ["a", "b"].iter().fold(model, |model, name| model.with(name, |spec| spec.check_order = false))
}

fn number_in(message: &Message) -> i64 {
    let Data::Int(number) = message.data else { panic!("no number: {message:?}") };
    number
}

/// A callback that keeps the numbers it gets.
fn keeping() -> (Arc<Mutex<Vec<i64>>>, Callback) {
    let kept: Arc<Mutex<Vec<i64>>> = Arc::default();
    let also = kept.clone();
    let callback = Box::new(move |message: Message| {
        also.lock().unwrap().push(number_in(&message));
        Ok(())
    });
    (kept, callback)
}

#[test]
fn while_a_receive_waits_the_messages_of_another_port_reach_their_callback() {
    let run = Run::of(in_any_order(two_conduits(1)));
    let (a, b) = (run.join("a"), run.join("b"));
    let (kept, callback) = keeping();
    b.on_message("two", Some(callback)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..5).for_each(|number| assert_eq!(send(&a, "two", number), xmml_core::instance::Sent::Queued));
            // What was sent first on another port is there first; then the receive has its own.
            run.event(
                "b has taken them",
                |event| matches!(event, Event::Progress { instance, messages_received: 5, .. } if instance == "b"),
            );
            send(&a, "one", 7);
        });
        assert_eq!(receive(&b, "one"), Some(7));
    });
    assert_eq!(*kept.lock().unwrap(), [0, 1, 2, 3, 4]);
}

/// So that it costs no more than a receive: no other thread has to be woken.
#[test]
fn a_callback_is_called_by_the_thread_that_waits() {
    let run = Run::of(in_any_order(two_conduits(1)));
    let (a, b) = (run.join("a"), run.join("b"));
    let (called_by, caller) = channel();
    let callback = move |_| called_by.send(thread::current().id()).map_err(|error| error.to_string());
    b.on_message("one", Some(Box::new(callback))).unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| (b.serve(None).unwrap(), thread::current().id()));
        run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
        send(&a, "one", 1);
        assert_eq!(serving.join().unwrap(), (Served::Called, caller.recv().unwrap()));
    });
}

#[test]
fn a_callback_is_not_called_before_the_order_of_operators_allows_its_receipt() {
    let steps = 3;
    let model = Model::new()
        .submodel("a", "out:Oi back:S", steps)
        .submodel("b", "in:S back:Oi", steps)
        .couple("a.out", "b.in")
        .couple("b.back", "a.back");
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    let (kept, callback) = keeping();
    b.on_message("in", Some(callback)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(a.reuse().unwrap());
            while a.next_step().unwrap().is_some() {
                send(&a, "out", 10);
                assert!(receive(&a, "back").is_some());
            }
            a.leave().unwrap();
        });
        assert!(b.reuse().unwrap());
        while b.next_step().unwrap().is_some() {
            let too_early = b.serve(None).unwrap_err().to_string();
            assert!(too_early.contains("send on \"back\" (Oi)"), "{too_early}");
            send(&b, "back", 1);
            assert_eq!(b.serve(None).unwrap(), Served::Called);
        }
        b.leave().unwrap();
    });
    assert_eq!(*kept.lock().unwrap(), [10; 3]);
}

#[test]
fn to_serve_ends_with_the_last_sender_and_says_when_nothing_came_in_time() {
    let run = Run::of(in_any_order(two_conduits(1)));
    let b = run.join("b");
    let (one, callback) = keeping();
    b.on_message("one", Some(callback)).unwrap();
    let (two, callback) = keeping();
    b.on_message("two", Some(callback)).unwrap();
    assert_eq!(b.serve(Some(Duration::ZERO)).unwrap(), Served::TimedOut);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let a = run.join("a");
            for number in 0..100 {
                send(&a, if number % 2 == 0 { "one" } else { "two" }, number);
            }
            a.leave().unwrap();
        });
        while b.serve(None).unwrap() == Served::Called {}
    });
    assert_eq!(b.serve(None).unwrap(), Served::Ended);
    assert_eq!((one.lock().unwrap().len(), two.lock().unwrap().len()), (50, 50));
    assert!(one.lock().unwrap().is_sorted() && two.lock().unwrap().is_sorted());
    b.leave().unwrap();
}

#[test]
fn a_callback_that_fails_fails_the_run_and_names_its_instance_and_port() {
    let run = Run::of(in_any_order(two_conduits(1)));
    let (a, b) = (run.join("a"), run.join("b"));
    b.on_message("two", Some(Box::new(|_| Err("the sea is dry".into())))).unwrap();
    send(&a, "two", 1);
    let error = b.receive("one", None, None).unwrap_err();
    assert!(matches!(&error, Error::Callback { instance, port, .. } if instance == "b" && port == "two"), "{error:?}");
    let failed = run.event("it failed", |event| matches!(event, Event::Failed { instance, .. } if instance == "b"));
    let Event::Failed { text, .. } = failed else { unreachable!() };
    assert_eq!(text, "b.two: the callback for its messages failed: the sea is dry");
}

#[test]
fn callbacks_may_send_and_receive_and_are_never_called_within_each_other() {
    let model = Model::new()
        .submodel("a", "one:Oi two:Oi echo:S", 1)
        .submodel("b", "one:S two:S echo:Oi", 1)
        .couple("a.one", "b.one")
        .couple("a.two", "b.two")
        .couple("b.echo", "a.echo");
    let run = Run::of(in_any_order(model));
    let (a, b) = (run.join("a"), Arc::new(run.join("b")));
    let (inside, me) = (AtomicBool::new(false), Arc::downgrade(&b));
    let callback = move |message: Message| {
        assert!(!inside.swap(true, Ordering::SeqCst), "one within another");
        let b = me.upgrade().unwrap();
        let other = receive(&b, "two").unwrap();
        send(&b, "echo", number_in(&message) + other);
        inside.store(false, Ordering::SeqCst);
        Ok(())
    };
    b.on_message("one", Some(Box::new(callback))).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| while b.serve(None).unwrap() == Served::Called {});
        for number in 0..50 {
            send(&a, "one", number);
            send(&a, "one", number + 1000);
            send(&a, "two", number);
            send(&a, "two", 1);
            assert_eq!(receive(&a, "echo"), Some(2 * number));
            assert_eq!(receive(&a, "echo"), Some(number + 1001));
        }
        a.leave().unwrap();
    });
}

#[test]
fn several_threads_that_wait_call_one_callback_at_a_time_in_the_order_of_the_messages() {
    let run = Run::of(in_any_order(two_conduits(1)));
    let (a, b) = (run.join("a"), run.join("b"));
    let expected = Arc::new(AtomicI64::new(0));
    let (next, busy) = (expected.clone(), AtomicBool::new(false));
    let callback = move |message: Message| {
        assert!(!busy.swap(true, Ordering::SeqCst), "two at once");
        assert_eq!(number_in(&message), next.fetch_add(1, Ordering::SeqCst));
        busy.store(false, Ordering::SeqCst);
        Ok(())
    };
    b.on_message("one", Some(Box::new(callback))).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| while b.serve(None).unwrap() == Served::Called {});
        }
        (0..3000).for_each(|number| assert_eq!(send(&a, "one", number), xmml_core::instance::Sent::Queued));
        a.leave().unwrap();
    });
    assert_eq!(expected.load(Ordering::SeqCst), 3000);
}

#[test]
fn a_callback_can_serve_an_open_port_and_be_taken_back() {
    let model = Model::new().submodel("giver", "in:S!", 1).submodel("user", "out:Oi!", 1);
    let run =
        Run::of(["giver", "user"].iter().fold(model, |model, name| model.with(name, |spec| spec.check_order = false)));
    let (giver, user) = (run.join("giver"), run.join("user"));
    let (kept, callback) = keeping();
    giver.on_message("in", Some(callback)).unwrap();
    user.open("out", &giver.handle("in", 1, &[]).unwrap()).unwrap();
    send(&user, "out", 1);
    assert_eq!(giver.serve(None).unwrap(), Served::Called);
    giver.on_message("in", None).unwrap();
    let nothing = giver.serve(None).unwrap_err().to_string();
    assert!(nothing.contains("giver has no callback"), "{nothing}");
    send(&user, "out", 2);
    assert_eq!(receive(&giver, "in"), Some(2));
    assert_eq!(*kept.lock().unwrap(), [1]);
}

#[test]
fn a_wait_with_callbacks_is_reported_as_one_for_any_of_its_conduits() {
    let run = Run::of(in_any_order(two_conduits(1)));
    let a = run.join("a");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let b = run.join("b");
            b.on_message("two", Some(keeping().1)).unwrap();
            assert_eq!(receive(&b, "one"), None);
        });
        let event = run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
        let Event::Waiting { waits, is_any, .. } = event else { unreachable!() };
        assert_eq!(
            waits.iter().map(|wait| (wait.conduit, wait.kind)).collect::<Vec<_>>(),
            [(1, WaitKind::Receive), (2, WaitKind::Receive)]
        );
        assert!(is_any);
        a.leave().unwrap();
    });
}

#[test]
fn an_instance_that_is_alone_gives_its_inputs_to_callbacks() {
    let spec = Model::new().submodel("me", "in:S out:Oi", 2).alone("me");
    let input = |value| Message { timestamp: 0.0, next_timestamp: None, data: Data::Int(value) };
    let inputs = [("in".to_owned(), vec![input(3), input(4)])];
    let me = Instance::alone(spec, inputs.into()).unwrap();
    let (kept, callback) = keeping();
    me.on_message("in", Some(callback)).unwrap();
    assert!(me.reuse().unwrap());
    while me.next_step().unwrap().is_some() {
        send(&me, "out", 0);
        assert_eq!(me.serve(None).unwrap(), Served::Called);
    }
    assert_eq!(*kept.lock().unwrap(), [3, 4]);
}
