//! Pools: what is put by writers reaches those readers whose selectors choose it, with its attributes, by every method.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use support::{await_that, Model, Run, LIMIT};
use xmml_core::coordinator::{Event, WaitKind};
use xmml_core::instance::{Instance, Object, Received, Stamps, Taken};
use xmml_core::spec::PoolSpec;
use xmml_pool::value::Value;
use xmml_wire::data::{Array, Data};

const ATTRIBUTES: &str = "step:int[0..]! level:enum(low,high)";
const METHODS: [&str; 5] = ["inproc", "shm", "unix", "tcp", "protected tcp"];
const READERS: [(&str, &str); 3] =
    [("all", ""), ("even", "step % $of = 0"), ("other", "sys.index = $index or level = 'high'")];

/// `w[0]` and `w[1]` put into a pool; `all` takes everything, `even` and `other` what they choose.
fn pool(method: &str) -> Model {
    let mut model = Model::by(method).submodel("w[0]", "out:Oi", 1).submodel("w[1]", "out:Oi", 1);
    for (reader, select) in READERS {
        model = model.submodel(reader, "in:S", 1);
        for writer in ["w[0].out", "w[1].out"] {
            model = model.couple_with(writer, &format!("{reader}.in"), |conduit| {
                let variables = [("of", "2"), ("index", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
                let variables = BTreeMap::from(variables);
                let pool =
                    PoolSpec { attributes: ATTRIBUTES.into(), select: select.into(), variables, ..PoolSpec::default() };
                conduit.pool = Some(Box::new(pool));
                (conduit.sender_copy, conduit.capacity, conduit.byte_budget) = (None, 1 << 20, 1 << 20);
            });
        }
    }
    model
}

/// A run of that model, its writers, and its readers.
fn joined(method: &str) -> (Run, [Instance; 2], [Instance; 3]) {
    let run = Run::of(pool(method));
    let writers = ["w[0]", "w[1]"].map(|name| run.join(name));
    let readers = READERS.map(|(name, _)| run.join(name));
    (run, writers, readers)
}

fn step(number: i64) -> [(&'static str, Value); 1] {
    [("step", Value::Int(number))]
}

fn put(me: &Instance, value: i64, attributes: &[(&str, Value)]) -> u64 {
    me.put("out", Data::Int(value), attributes).unwrap()
}

fn take(me: &Instance) -> Option<Object> {
    match me.take("in", Some(LIMIT)).unwrap() {
        Taken::Object(object) => Some(*object),
        Taken::Ended => None,
        other => panic!("neither an object nor the end: {other:?}"),
    }
}

fn number_in(object: &Object) -> i64 {
    let Data::Int(number) = object.data else { panic!("no number: {object:?}") };
    number
}

#[test]
fn an_object_reaches_those_whose_selectors_choose_it() {
    for method in METHODS {
        let (_run, writers, readers) = joined(method);
        assert_eq!(put(&writers[0], 10, &step(0)), 2);
        assert_eq!(put(&writers[0], 11, &step(1)), 1);
        assert_eq!(put(&writers[1], 12, &step(3)), 2);
        let high = [("level", Value::Text("high".into())), ("step", Value::Int(5))];
        assert_eq!(put(&writers[0], 13, &high), 2);
        let found = std::thread::scope(|scope| {
            writers.iter().for_each(|writer| _ = scope.spawn(|| writer.leave().unwrap()));
            readers.each_ref().map(|me| {
                let mut numbers: Vec<i64> = std::iter::from_fn(|| take(me)).map(|object| number_in(&object)).collect();
                numbers.sort_unstable();
                numbers
            })
        });
        assert_eq!(found, [vec![10, 11, 12, 13], vec![10], vec![12, 13]], "{method}");
        assert!(take(&readers[0]).is_none(), "the end stays");
    }
}

#[test]
fn a_writer_asks_who_would_choose_an_object_before_there_is_one() {
    let (run, writers, [all, even, other]) = joined("shm");
    let wanted = |number| writers[0].wanted("out", &step(number)).unwrap();
    assert_eq!([wanted(0), wanted(1)], [2, 1]);
    assert_eq!(writers[0].wanted_described("out", "step=1 level=high").unwrap(), 2);
    let problem = writers[0].wanted("out", &[]).unwrap_err().to_string();
    assert_eq!(problem, "w[0].out: step is missing, which is required (int[0..])");
    writers[0].begin_group("out", &step(0)).unwrap();
    assert_eq!(writers[0].wanted("out", &[]).unwrap(), 2, "with what is common to the group");
    writers[0].abandon_group("out").unwrap();
    for reader in [&all, &even] {
        assert!(reader.reuse().unwrap());
        reader.leave().unwrap();
    }
    await_that("nobody is left who would", || wanted(0) == 0);
    assert_eq!(put(&writers[0], 1, &[("step", Value::Int(1)), ("level", Value::Text("high".into()))]), 1);
    assert_eq!(take(&other).map(|object| object.attributes.system.seq), Some(0), "nothing was put before");
    drop(run);
}

#[test]
fn attributes_arrive_with_those_that_every_object_has() {
    for method in METHODS {
        let (_run, writers, [all, ..]) = joined(method);
        put(&writers[1], 0, &step(1));
        let array = Array::from_slice(&[100, 30], &[0.5_f64; 3000]).unwrap();
        writers[1].put("out", Data::Array(array.clone()), &step(7)).unwrap();
        take(&all);
        let object = take(&all).unwrap();
        assert_eq!(object.data, Data::Array(array));
        let value = |name: &str| object.attributes.get(name).unwrap();
        assert_eq!(value("step"), Some(Value::Int(7)));
        assert_eq!(value("level"), None);
        assert_eq!(value("sys.instance"), Some(Value::Text("w".into())));
        assert_eq!(value("sys.index"), Some(Value::Uint(1)));
        assert_eq!(value("sys.port"), Some(Value::Text("out".into())));
        assert_eq!(value("sys.seq"), Some(Value::Uint(1)));
        assert_eq!(value("sys.size"), Some(Value::Uint(24_000)));
        assert_eq!(value("sys.type"), Some(Value::Text("float64".into())));
        assert_eq!(value("sys.shape"), Some(Value::Ints([100, 30].into())));
        assert_eq!(object.attributes.get("stap").unwrap_err(), "there is no attribute 'stap'; did you mean step?");
        let names: Vec<&str> = object.attributes.iter().map(|(name, _)| name).take(2).collect();
        assert_eq!(names, ["step", "sys.t"]);
    }
}

#[test]
fn what_is_not_allowed_is_told_and_not_sent() {
    let (_run, writers, [all, ..]) = joined("inproc");
    let told = |set: &[(&str, Value)]| writers[0].put("out", Data::Nothing, set).unwrap_err().to_string();
    assert_eq!(told(&[]), "w[0].out: step is missing, which is required (int[0..])");
    assert_eq!(told(&step(-1)), "w[0].out: step = -1 is not allowed: it is int[0..]");
    assert_eq!(told(&[("stp", Value::Int(1))]), "w[0].out: there is no attribute 'stp'; did you mean step?");
    let sent = writers[0].send("out", None, Data::Nothing, Stamps::default()).unwrap_err();
    assert_eq!(
        sent.to_string(),
        "w[0].out: step is missing, which is required (int[0..]); put() gives attributes, send() does not"
    );
    assert!(!all.has_message("in", None).unwrap());
    assert!(matches!(all.take("in", Some(Duration::ZERO)).unwrap(), Taken::TimedOut));
}

#[test]
fn a_program_that_sends_and_receives_puts_and_takes_payloads() {
    let couple = |conduit: &mut xmml_core::spec::ConduitSpec| {
        let pool = PoolSpec { select: "sys.size = 3".into(), ..PoolSpec::default() };
        conduit.pool = Some(Box::new(pool));
    };
    let model = Model::new().submodel("w", "out:Oi", 2).submodel("r", "in:S", 1);
    let run = Run::of(model.couple_with("w.out", "r.in", couple));
    let (w, r) = (run.join("w"), run.join("r"));
    for text in ["four", "abc", "no"] {
        w.send("out", None, Data::Text(text.into()), Stamps::default()).unwrap();
    }
    w.leave().unwrap();
    let Received::Message(message) = r.receive("in", None, None).unwrap() else { panic!("no message") };
    assert_eq!(message.data, Data::Text("abc".into()));
    assert!(matches!(r.receive("in", None, None).unwrap(), Received::Ended));
}

#[test]
fn a_writer_that_never_stops_keeps_no_other_one_out() {
    for method in METHODS {
        let (_run, writers, [all, ..]) = joined(method);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    put(&writers[0], 0, &step(1));
                }
            });
            take(&all);
            put(&writers[1], 9, &step(1));
            while number_in(&take(&all).unwrap()) != 9 {}
            is_over.store(true, Ordering::Relaxed);
            all.leave().unwrap(); // nobody waits for room with it any more
        });
    }
}

#[test]
fn a_reader_that_has_left_takes_nothing_more() {
    let (_run, writers, [all, even, _other]) = joined("shm");
    assert!(all.reuse().unwrap() && even.reuse().unwrap());
    assert_eq!(put(&writers[0], 1, &step(1)), 1);
    take(&all);
    all.leave().unwrap();
    await_that("it is known that all has left", || put(&writers[0], 1, &step(1)) == 0);
    assert_eq!(put(&writers[0], 1, &step(2)), 1, "another one takes it");
}

#[test]
fn a_put_waits_for_a_reader_that_is_behind() {
    for method in METHODS {
        let (run, writers, [all, ..]) = joined(method);
        let (sent, received) = channel();
        let writer = &writers[0];
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..4 {
                    let data = Data::Bytes(vec![0; 400_000].into());
                    writer.put("out", data, &step(2 * number + 1)).unwrap();
                    sent.send(number).unwrap();
                }
            });
            assert_eq!([received.recv().unwrap(), received.recv().unwrap()], [0, 1]);
            run.event("it waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "w[0]"));
            assert!(received.try_recv().is_err(), "more than its limit ({method})");
            let sizes = [(); 4].map(|()| take(&all).unwrap().data.payload_bytes());
            assert_eq!(sizes, [400_000; 4]);
        });
    }
}

#[test]
fn a_take_that_lasts_is_reported_as_a_wait_for_any_of_its_writers() {
    let (run, writers, [all, ..]) = joined("shm");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| take(&all).map(|object| number_in(&object)));
        let event =
            run.event("all waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "all"));
        let Event::Waiting { waits: told, is_any, .. } = event else { unreachable!() };
        assert!(is_any);
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|wait| wait.kind == WaitKind::Receive));
        put(&writers[1], 4, &step(1));
        assert_eq!(waits.join().unwrap(), Some(4));
    });
}

#[test]
fn a_limit_that_grows_lets_a_put_go_on() {
    let (run, writers, [all, ..]) = joined("shm");
    let writer = &writers[0];
    std::thread::scope(|scope| {
        let puts =
            scope.spawn(|| (0..5).for_each(|_| _ = writer.put("out", Data::Bytes(vec![0; 400_000].into()), &step(1))));
        run.event("it waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "w[0]"));
        run.coordinator.grow(1, 128);
        puts.join().unwrap();
    });
    (0..5).for_each(|_| assert!(take(&all).is_some()));
}

#[test]
fn ports_of_messages_are_no_pools() {
    let run = Run::of(Model::new().submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in"));
    let (a, b) = (run.join("a"), run.join("b"));
    let problem = a.put("out", Data::Nothing, &[]).unwrap_err().to_string();
    assert!(problem.starts_with("a.out: objects cannot be put here; it carries messages"), "{problem}");
    let problem = b.take("in", None).unwrap_err().to_string();
    assert!(problem.starts_with("b.in: objects cannot be taken here; it carries messages"), "{problem}");
}

#[test]
fn a_port_that_is_not_coupled_has_no_readers_and_no_objects() {
    let run = Run::of(Model::new().submodel("a", "out:Oi in:S", 1));
    let a = run.join("a");
    assert_eq!(a.put("out", Data::Nothing, &[]).unwrap(), 0);
    assert!(matches!(a.take("in", None).unwrap(), Taken::NotConnected));
}

#[test]
fn the_objects_of_a_group_are_there_all_at_once_when_it_ends() {
    for method in METHODS {
        let (_run, writers, [all, even, _]) = joined(method);
        writers[0].begin_group("out", &step(2)).unwrap();
        assert_eq!(writers[0].put("out", Data::Int(1), &[]).unwrap(), 2);
        assert_eq!(writers[0].put("out", Data::Int(2), &step(3)).unwrap(), 1, "its own instead of that of the group");
        let large = Array::from_slice(&[100, 300], &[0.5_f64; 30_000]).unwrap();
        assert_eq!(writers[0].put("out", Data::Array(large.clone()), &[]).unwrap(), 2);
        assert!(matches!(all.take("in", Some(Duration::from_millis(20))).unwrap(), Taken::TimedOut), "{method}");
        assert_eq!(writers[0].end_group("out").unwrap(), 2);
        assert_eq!(put(&writers[0], 4, &step(4)), 2);
        let number = |object: &Object, name: &str| object.attributes.get(name).unwrap();
        let found: Vec<Object> = (0..4).map(|_| take(&all).unwrap()).collect();
        let follow: Vec<_> = found.iter().map(|object| number(object, "sys.follow")).collect();
        assert_eq!(follow, [Some(Value::Uint(2)), Some(Value::Uint(1)), Some(Value::Uint(0)), None]);
        let groups: Vec<_> = found.iter().map(|object| number(object, "sys.group")).collect();
        assert_eq!(groups, [Some(Value::Uint(0)), Some(Value::Uint(0)), Some(Value::Uint(0)), None]);
        let steps: Vec<_> = found.iter().map(|object| number(object, "step")).collect();
        assert_eq!(steps, [2, 3, 2, 4].map(|step| Some(Value::Int(step))));
        assert_eq!(found[2].data, Data::Array(large.clone()), "{method}");
        let of_even: Vec<Object> = (0..3).map(|_| take(&even).unwrap()).collect();
        assert_eq!(number(&of_even[0], "sys.follow"), Some(Value::Uint(1)));
        assert_eq!((&of_even[1].data, number_in(&of_even[2])), (&Data::Array(large), 4));
    }
}

#[test]
fn threads_that_wait_at_a_port_share_a_group_that_comes() {
    for method in METHODS {
        let (_run, writers, [all, ..]) = joined(method);
        std::thread::scope(|scope| {
            let taking: Vec<_> = (0..4).map(|_| scope.spawn(|| number_in(&take(&all).unwrap()))).collect();
            writers[0].begin_group("out", &step(1)).unwrap();
            (0..4).for_each(|number| _ = put(&writers[0], number, &[]));
            std::thread::sleep(Duration::from_millis(20)); // for most to wait; it holds also if they come later
            writers[0].end_group("out").unwrap();
            let mut found: Vec<i64> = taking.into_iter().map(|taking| taking.join().unwrap()).collect();
            found.sort_unstable();
            assert_eq!(found, [0, 1, 2, 3], "{method}");
        });
    }
}

#[test]
fn a_group_that_is_abandoned_was_never_there() {
    let (_run, writers, [all, ..]) = joined("shm");
    writers[0].begin_group_described("out", "step=1").unwrap();
    put(&writers[0], 1, &[]);
    writers[0].abandon_group("out").unwrap();
    put(&writers[0], 2, &step(1));
    assert_eq!(number_in(&take(&all).unwrap()), 2);
}

#[test]
fn a_group_larger_than_the_limit_is_given_to_a_reader_that_holds_nothing() {
    let (_run, writers, [all, ..]) = joined("shm");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                writers[0].begin_group("out", &step(1)).unwrap();
                for _ in 0..5 {
                    writers[0].put("out", Data::Bytes(vec![7; 400_000].into()), &[]).unwrap();
                }
                writers[0].end_group("out").unwrap();
            }
        });
        let sizes: Vec<u64> = (0..10).map(|_| take(&all).unwrap().data.payload_bytes()).collect();
        assert_eq!(sizes, [400_000; 10]);
    });
}

#[test]
fn what_is_wrong_with_a_group_is_told() {
    let (_run, writers, _) = joined("inproc");
    let told = |result: xmml_wire::error::Result<u64>| result.unwrap_err().to_string();
    assert_eq!(told(writers[0].end_group("out")), "w[0].out: no group was begun here");
    assert_eq!(
        told(writers[0].begin_group("out", &step(-1)).map(|()| 0)),
        "w[0].out: step = -1 is not allowed: it is int[0..]"
    );
    writers[0].begin_group("out", &[]).unwrap();
    assert_eq!(
        told(writers[0].begin_group("out", &[]).map(|()| 0)),
        "w[0].out: a group was begun here and has not ended"
    );
    assert_eq!(
        told(writers[0].put("out", Data::Nothing, &[])),
        "w[0].out: step is missing, which is required (int[0..])"
    );
}
