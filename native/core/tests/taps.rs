//! Taps: instances of which the model knows nothing, and that are shown what passes out ports of others. Whatever they do, the others go on.

mod support;

use std::time::Duration;

use support::farms::{coupled, put};
use support::taps::{free, next, opened, pair, shown, tap};
use support::{await_that, receive, send, Model, Run, LIMIT};
use xmml_core::control::WaitKind;
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, Received, Sent, Stamps, Taken};
use xmml_core::spec::{PoolSpec, FIRST_OPENED};
use xmml_wire::data::Data;

const METHODS: [&str; 5] = ["inproc", "shm", "unix", "tcp", "protected tcp"];

fn rest(me: &Instance) -> Vec<i64> {
    std::iter::from_fn(|| next(me)).map(|(number, _)| number).collect()
}

#[test]
fn a_tap_is_shown_the_messages_of_a_port_from_when_it_comes_and_then_their_end() {
    for method in METHODS {
        let run = pair(method);
        let (a, b) = (free(&run, "a"), free(&run, "b"));
        send(&a, "out", 1);
        let tap = opened(&run, tap(method, &["a"], "", 1 << 20));
        (2..50).for_each(|number| _ = send(&a, "out", number));
        std::thread::scope(|scope| {
            scope.spawn(|| a.leave().unwrap());
            assert_eq!(rest(&tap), (2..50).collect::<Vec<_>>(), "{method}");
            tap.leave().unwrap();
            assert_eq!(std::iter::from_fn(|| receive(&b, "in")).collect::<Vec<_>>(), (1..50).collect::<Vec<_>>());
        });
    }
}

#[test]
fn a_tap_is_shown_the_objects_of_a_pool_that_it_selects_and_nobody_counts_it_as_a_reader() {
    for method in METHODS {
        let queue = PoolSpec { is_queue: true, select: "sys.seq < 3".to_owned(), ..PoolSpec::default() };
        let run = Run::of(coupled(method, &["a"], 1, &queue, 1 << 20));
        let (a, worker) = (run.join("a"), run.join("worker[0]"));
        let tap = opened(&run, tap(method, &["a"], "sys.seq % 2 = 1", 1 << 20));
        assert_eq!((0..6).map(|number| put(&a, number)).collect::<Vec<_>>(), [1, 1, 1, 0, 0, 0]);
        std::thread::scope(|scope| {
            scope.spawn(|| a.leave().unwrap());
            scope.spawn(|| while let Taken::Object(_) = worker.take("in", Some(LIMIT)).unwrap() {});
            assert_eq!(rest(&tap), [1, 3, 5], "{method}");
        });
    }
}

#[test]
fn a_group_is_shown_to_a_tap_when_it_ends() {
    let run = Run::of(coupled("shm", &["a"], 1, &PoolSpec::default(), 1 << 20));
    let (a, _reader) = (run.join("a"), run.join("worker[0]"));
    a.begin_group("out", &[]).unwrap();
    put(&a, 1);
    let tap = opened(&run, tap("shm", &["a"], "", 1 << 20));
    put(&a, 2);
    assert!(matches!(tap.take("objects", Some(Duration::from_millis(20))).unwrap(), Taken::TimedOut));
    assert_eq!(a.end_group("out").unwrap(), 1);
    assert_eq!(next(&tap).map(|(number, _)| number), Some(2), "what was put before it came was not chosen by it");
}

#[test]
fn a_tap_of_several_writers_is_shown_what_each_puts_also_what_one_puts_that_joins_later() {
    let model = Model::by("shm").submodel("a", "out:Oi", 1).submodel("c", "out:Oi", 1).submodel("b", "x:S y:S", 1);
    let run =
        Run::of(["a", "b", "c"].iter().fold(model.couple("a.out", "b.x").couple("c.out", "b.y"), |model, name| {
            model.with(name, |spec| spec.check_order = false)
        }));
    let (a, b) = (free(&run, "a"), free(&run, "b"));
    let tap = opened(&run, tap("shm", &["a", "c"], "", 1 << 20));
    send(&a, "out", 1);
    assert_eq!(next(&tap), Some((1, "a".to_owned())));
    a.leave().unwrap();
    let c = free(&run, "c");
    shown(&run, "c");
    send(&c, "out", 2);
    assert_eq!(next(&tap), Some((2, "c".to_owned())));
    std::thread::scope(|scope| {
        scope.spawn(|| c.leave().unwrap());
        assert_eq!(next(&tap), None);
        assert_eq!((receive(&b, "x"), receive(&b, "y")), (Some(1), Some(2)));
    });
}

#[test]
fn a_tap_knows_which_messages_of_its_port_it_is_shown() {
    let run = pair("shm");
    let (a, _b) = (free(&run, "a"), free(&run, "b"));
    (0..3).for_each(|number| _ = send(&a, "out", number));
    let tap = opened(&run, tap("shm", &["a"], "", 1 << 20));
    send(&a, "out", 3);
    let Taken::Object(object) = tap.take("objects", Some(LIMIT)).unwrap() else { panic!("no object") };
    assert_eq!((object.data.clone(), object.attributes.system.seq), (Data::Int(3), 3));
}

#[test]
fn a_tap_that_takes_nothing_holds_up_nobody_and_its_losses_are_counted() {
    for method in METHODS {
        let run = pair(method);
        let (a, b) = (free(&run, "a"), free(&run, "b"));
        let _tap = opened(&run, tap(method, &["a"], "", 10_000));
        for number in 0..2_000 {
            send(&a, "out", number);
            assert_eq!(receive(&b, "in"), Some(number));
        }
        std::thread::scope(|scope| {
            scope.spawn(|| a.leave().unwrap());
            assert_eq!(receive(&b, "in"), None);
        });
        let left = run.event("a leaves", |event| matches!(event, Event::Left { instance, .. } if instance == "a"));
        let Event::Left { conduits, .. } = left else { unreachable!() };
        let of_tap = conduits.iter().find(|totals| totals.conduit >= FIRST_OPENED).unwrap();
        assert!(of_tap.sent + of_tap.dropped >= 2_000 && of_tap.dropped > 1_000, "{method}: {of_tap:?}");
        assert!(conduits.iter().filter(|totals| totals.conduit != of_tap.conduit).all(|totals| totals.dropped == 0));
    }
}

#[test]
fn a_tap_that_ends_without_a_word_or_leaves_changes_nothing_for_others() {
    for method in METHODS {
        for leaves in [false, true] {
            let run = pair(method);
            let (a, b) = (free(&run, "a"), free(&run, "b"));
            let tap = opened(&run, tap(method, &["a"], "", 1 << 20));
            send(&a, "out", 1);
            assert_eq!(next(&tap).map(|(number, _)| number), Some(1));
            match leaves {
                true => tap.leave().unwrap(),
                false => tap.abandon(),
            }
            drop(tap);
            run.event("the tap goes", |event| match event {
                Event::Left { instance, .. } | Event::Lost { instance } => instance == "tap",
                _ => false,
            });
            (2..500).for_each(|number| _ = send(&a, "out", number));
            std::thread::scope(|scope| {
                scope.spawn(|| a.leave().unwrap());
                assert_eq!(std::iter::from_fn(|| receive(&b, "in")).collect::<Vec<_>>(), (1..500).collect::<Vec<_>>());
            });
            b.leave().unwrap();
            let failures: Vec<Event> =
                run.drain().into_iter().filter(|event| matches!(event, Event::Failed { .. })).collect();
            assert!(failures.is_empty(), "{method}: {failures:?}");
        }
    }
}

#[test]
fn a_writer_that_joins_after_a_tap_was_lost_shows_it_nothing() {
    for method in METHODS {
        let run = pair(method);
        let b = free(&run, "b");
        run.coordinator.add_tap(tap(method, &["a"], "", 1 << 20));
        let tap = run.join("tap");
        tap.abandon();
        run.event("it is lost", |event| matches!(event, Event::Lost { instance } if instance == "tap"));
        let a = free(&run, "a");
        (0..100).for_each(|number| _ = send(&a, "out", number));
        std::thread::scope(|scope| {
            scope.spawn(|| a.leave().unwrap());
            assert_eq!(std::iter::from_fn(|| receive(&b, "in")).count(), 100, "{method}");
        });
        b.leave().unwrap();
        assert!(!run.drain().iter().any(|event| matches!(event, Event::Failed { .. } | Event::Warning { .. })));
    }
}

#[test]
fn a_tap_whose_selector_cannot_be_read_keeps_no_writer_out() {
    let run = pair("shm");
    let b = free(&run, "b");
    run.coordinator.add_tap(tap("shm", &["a"], "no_such_attribute = 3", 1 << 20));
    let _tap = run.join("tap");
    let a = free(&run, "a");
    send(&a, "out", 1);
    assert_eq!(receive(&b, "in"), Some(1));
    let warned = |event: &Event| matches!(event, Event::Warning { text, .. } if text.contains("no_such_attribute"));
    run.event("people are told", warned);
}

#[test]
fn a_tap_that_came_and_goes_in_the_middle_of_a_group_takes_no_object_of_another() {
    let run = Run::of(coupled("shm", &["a"], 1, &PoolSpec::default(), 1 << 20));
    let (a, reader) = (run.join("a"), run.join("worker[0]"));
    let first = opened(&run, tap("shm", &["a"], "", 1 << 20));
    put(&a, 0);
    assert_eq!(next(&first).map(|(number, _)| number), Some(0));
    a.begin_group("out", &[]).unwrap();
    put(&a, 1);
    first.leave().unwrap();
    run.event("it left", |event| matches!(event, Event::Left { instance, .. } if instance == "tap"));
    let mut spec = tap("shm", &["a"], "", 1 << 20);
    spec.name = "another".into();
    spec.conduits.iter_mut().for_each(|conduit| std::sync::Arc::make_mut(conduit).receiver = "another".into());
    run.coordinator.add_tap(spec);
    let second = run.join("another");
    shown(&run, "a");
    put(&a, 2);
    assert_eq!(a.end_group("out").unwrap(), 1);
    assert_eq!(next(&second).map(|(number, _)| number), Some(2));
    assert_eq!((0..3).map(|_| support::farms::take(&reader)).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
}

#[test]
fn a_tap_that_comes_when_its_writer_has_left_is_at_the_end() {
    let run = pair("shm");
    let (a, _b) = (free(&run, "a"), free(&run, "b"));
    a.leave().unwrap();
    run.coordinator.add_tap(tap("shm", &["a"], "", 1 << 20));
    assert_eq!(next(&run.join("tap")), None);
}

#[test]
fn what_is_shown_to_a_tap_does_not_count_as_sent() {
    let run = pair("shm");
    let (a, _b) = (free(&run, "a"), free(&run, "b"));
    let tap = opened(&run, tap("shm", &["a"], "", 1 << 20));
    send(&a, "out", 1);
    assert!(next(&tap).is_some());
    let progress =
        |event: &Event| matches!(event, Event::Progress { instance, messages_sent: 1, .. } if instance == "a");
    run.event("its progress", progress);
    a.leave().unwrap();
    assert!(!run.drain().iter().any(|event| matches!(event, Event::Progress { messages_sent: 2.., .. })));
}

#[test]
fn nothing_of_a_tap_decides_whether_a_receiver_is_left() {
    let run = pair("shm");
    let (a, b) = (free(&run, "a"), free(&run, "b"));
    let _tap = opened(&run, tap("shm", &["a"], "", 1 << 20));
    b.leave().unwrap();
    await_that("the receiver has left", || send(&a, "out", 1) == Sent::ReceiverGone);
}

#[test]
fn handles_end_when_only_a_tap_is_left() {
    let model = Model::by("shm").submodel("a", "out:Oi", 1).submodel("b", "in:S open:S!", 1).couple("a.out", "b.in");
    let run = Run::of(["a", "b"].iter().fold(model, |model, name| model.with(name, |spec| spec.check_order = false)));
    let (a, b) = (free(&run, "a"), free(&run, "b"));
    let _tap = opened(&run, tap("shm", &["a"], "", 1 << 20));
    let _handle = b.handle("open", 0, &[]).unwrap();
    a.leave().unwrap();
    assert!(matches!(b.receive("open", None, Some(LIMIT)).unwrap(), Received::Ended));
}

#[test]
fn put_in_a_group_counts_no_tap() {
    let run = Run::of(coupled("shm", &["a"], 1, &PoolSpec::default(), 1 << 20));
    let (a, _reader) = (run.join("a"), run.join("worker[0]"));
    let tap = opened(&run, tap("shm", &["a"], "", 1 << 20));
    a.begin_group("out", &[]).unwrap();
    assert_eq!(put(&a, 1), 1);
    assert_eq!(a.end_group("out").unwrap(), 1);
    assert_eq!(next(&tap).map(|(number, _)| number), Some(1));
}

#[test]
fn what_cannot_be_shown_to_a_tap_reaches_the_receivers_all_the_same() {
    let run = pair("shm");
    let (a, b) = (free(&run, "a"), free(&run, "b"));
    let tap = opened(&run, tap("shm", &["a"], "", 1 << 20));
    let deep = (0..64).fold(Data::Int(1), |inner, _| Data::List(vec![inner]));
    assert_eq!(a.send("out", None, deep.clone(), Stamps::default()).unwrap(), Sent::Queued);
    send(&a, "out", 2);
    assert_eq!(next(&tap).map(|(number, _)| number), Some(2));
    let Received::Message(message) = b.receive("in", None, Some(LIMIT)).unwrap() else { panic!("no message") };
    assert_eq!(message.data, deep);
    let told = run.event("a warning", |event| matches!(event, Event::Warning { instance, .. } if instance == "a"));
    let Event::Warning { text, .. } = told else { unreachable!() };
    assert!(text.contains("shown to no tap"), "{text}");
}

#[test]
fn the_number_of_a_message_counts_those_that_a_tap_has_missed() {
    let run = pair("shm");
    let (a, _b) = (free(&run, "a"), free(&run, "b"));
    let tap = opened(&run, tap("shm", &["a"], "", 1_000));
    (0..300).for_each(|number| _ = send(&a, "out", number));
    let (mut sent, mut shown) = (300, 0);
    await_that("it is shown messages again behind those that it has missed", || {
        let Taken::Object(object) = tap.take("objects", Some(Duration::from_millis(20))).unwrap() else {
            send(&a, "out", sent);
            sent += 1;
            return false;
        };
        let Data::Int(number) = object.data else { panic!("no number") };
        assert_eq!(number as u64, object.attributes.system.seq);
        shown += 1;
        number >= 300
    });
    assert!(shown < 300, "it has missed some");
}

#[test]
fn a_writer_that_leaves_while_a_tap_takes_nothing_has_not_broken_the_protocol() {
    for method in ["shm", "unix", "tcp"] {
        let queue = PoolSpec { is_queue: true, ..PoolSpec::default() };
        let run = Run::of(coupled(method, &["a"], 1, &queue, 1 << 20));
        let (a, worker) = (run.join("a"), run.join("worker[0]"));
        let tap = opened(&run, tap(method, &["a"], "", 32 << 20));
        let large = || Data::Bytes(vec![7; 20_000].into());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..40).for_each(|_| _ = a.put("out", large(), &[]).unwrap());
                a.leave().unwrap();
            });
            assert!(matches!(worker.take("in", Some(LIMIT)).unwrap(), Taken::Object(_)));
            run.event("it waits for its worker, and its taps have gone", |event| {
                let Event::Waiting { instance, waits, .. } = event else { return false };
                instance == "a" && waits.iter().any(|wait| wait.kind == WaitKind::Settled)
            });
            while let Taken::Object(_) = tap.take("objects", Some(Duration::from_millis(100))).unwrap_or(Taken::Ended) {
            }
            std::thread::sleep(Duration::from_secs(2)); // for what becomes of that; it holds also if that comes later
            while let Taken::Object(_) = worker.take("in", Some(LIMIT)).unwrap() {}
        });
        let is_of_writer = |event: &Event| matches!(event, Event::Failed { instance, .. } | Event::Lost { instance } if instance == "a");
        let events = run.drain();
        assert!(!events.iter().any(is_of_writer), "{method}: {events:?}");
    }
}
