//! Conduits whose readers see the newest object only, which they ask for.

mod support;

use std::time::{Duration, Instant};

use support::farms::{coupled, has_nothing, put, take};
use support::proxy::Random;
use support::{await_that, Model, Run, LIMIT};
use xmml_core::coordinator::{ConduitTotals, Event};
use xmml_core::instance::{Instance, Received, Stamps};
use xmml_core::spec::PoolSpec;
use xmml_wire::data::Data;

const METHODS: [&str; 5] = ["inproc", "shm", "unix", "tcp", "protected tcp"];

fn latest() -> PoolSpec {
    PoolSpec { is_latest: true, ..PoolSpec::default() }
}

/// `a` puts, and the reader sees the newest.
fn model(method: &str) -> Model {
    coupled(method, &["a"], 1, &latest(), 0)
}

fn joined(method: &str) -> (Run, Instance, Instance) {
    let run = Run::of(model(method));
    let (a, reader) = (run.join("a"), run.join("worker[0]"));
    (run, a, reader)
}

/// What an instance says of its only conduit when it leaves.
fn totals(run: &Run, name: &str) -> ConduitTotals {
    let left = run.event("it leaves", |event| matches!(event, Event::Left { instance, .. } if instance == name));
    let Event::Left { conduits, .. } = left else { unreachable!() };
    conduits[0]
}

/// How many objects have gone out to the reader.
fn sent(a: &Instance) -> u64 {
    a.methods("out").unwrap()[0].traffic.messages
}

/// Leaves while somebody else may still read.
fn leave(me: &Instance) {
    assert!(me.reuse().unwrap());
    me.leave().unwrap();
}

#[test]
fn a_reader_that_comes_late_gets_the_newest_alone() {
    for method in METHODS {
        let (run, a, reader) = joined(method);
        for number in 0..100 {
            assert_eq!(put(&a, number), 1);
        }
        assert_eq!(take(&reader), Some(99), "{method}");
        for number in 100..120 {
            put(&a, number);
        }
        assert_eq!(take(&reader), Some(119), "{method}");
        leave(&a);
        assert_eq!(take(&reader), None, "{method}");
        let ConduitTotals { sent, dropped, replaced, .. } = totals(&run, "a");
        assert_eq!((sent, dropped, replaced), (2, 0, 118), "{method}");
    }
}

#[test]
fn a_reader_that_waits_gets_each_as_it_comes_and_none_twice() {
    for method in METHODS {
        let (_run, a, reader) = joined(method);
        for number in 0..20 {
            std::thread::scope(|scope| {
                let taking = scope.spawn(|| take(&reader));
                std::thread::sleep(Duration::from_millis(2)); // it may wait then, or not
                put(&a, number);
                assert_eq!(taking.join().unwrap(), Some(number), "{method}");
            });
            assert!(number % 10 > 0 || has_nothing(&reader), "{method}");
        }
    }
}

#[test]
fn the_last_one_comes_unasked_in_place_of_one_that_was_not_taken() {
    for method in METHODS {
        let (run, a, reader) = joined(method);
        assert!(has_nothing(&reader), "it has asked");
        put(&a, 0);
        await_that("what was asked for goes out", || sent(&a) == 1);
        (1..3).for_each(|number| _ = put(&a, number));
        leave(&a);
        assert_eq!(take(&reader), Some(2), "{method}");
        assert_eq!(take(&reader), None, "{method}");
        leave(&reader);
        let (of_sender, of_reader) = (totals(&run, "a"), totals(&run, "worker[0]"));
        assert_eq!((of_sender.sent, of_sender.replaced, of_reader.replaced), (2, 1, 1), "{method}");
    }
}

#[test]
fn an_object_that_was_seen_to_be_there_makes_way_for_the_last_one() {
    let (_run, a, reader) = joined("shm");
    put(&a, 0);
    await_that("it is there", || reader.has_message("in", None).unwrap());
    (1..3).for_each(|number| _ = put(&a, number));
    leave(&a);
    await_that("the last one has come", || {
        reader.has_message("in", None).unwrap();
        take(&reader) == Some(2)
    });
    assert_eq!(take(&reader), None);
}

#[test]
fn one_that_only_asks_finds_what_came_since_it_asked_before() {
    for method in METHODS {
        let (_run, a, reader) = joined(method);
        let look = || match reader.receive("in", None, Some(Duration::ZERO)).unwrap() {
            Received::Message(message) => Some(message.data),
            Received::TimedOut => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(look(), None);
        for number in 0..3 {
            put(&a, number);
            let began = Instant::now();
            let found = loop {
                if let Some(found) = look() {
                    break found;
                }
                assert!(began.elapsed() < LIMIT, "{method}");
            };
            assert_eq!(found, Data::Int(number), "{method}");
            // It was asked for ahead: no look is needed that finds nothing.
            put(&a, number + 100);
            await_that("it goes out unasked", || sent(&a) == 2 * (number as u64 + 1));
            assert_eq!(look(), Some(Data::Int(number + 100)), "{method}");
            assert_eq!(look(), None, "{method}");
        }
    }
}

#[test]
fn at_any_speeds_time_increases_and_the_last_one_comes_and_all_others_were_replaced() {
    let mut random = Random(5);
    for method in METHODS {
        for _ in 0..6 {
            let (run, a, reader) = joined(method);
            let count = 100 + random.below(200) as i64;
            let [mut of_writer, mut of_reader] = [random.below(1 << 40), random.below(1 << 40)].map(Random);
            let most = [1, 300, 3000][random.below(3) as usize];
            let found = std::thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 0..count {
                        let size = [8, 5_000, 200_000][of_writer.below(3) as usize];
                        let data = Data::List(vec![Data::Int(number), Data::Bytes(vec![number as u8; size].into())]);
                        let stamps = Stamps { timestamp: Some(number as f64), ..Stamps::default() };
                        a.send("out", None, data, stamps).unwrap();
                        std::thread::sleep(Duration::from_micros(of_writer.below(300)));
                    }
                    leave(&a);
                });
                let mut found = Vec::new();
                loop {
                    let message = match reader.receive("in", None, Some(LIMIT)).unwrap() {
                        Received::Message(message) => message,
                        Received::Ended => break found,
                        other => panic!("{other:?}"),
                    };
                    let Data::List(parts) = &message.data else { panic!("{message:?}") };
                    let Data::Bytes(bytes) = &parts[1] else { panic!("{message:?}") };
                    let number = message.timestamp as i64;
                    assert_eq!(parts[0], Data::Int(number));
                    assert!(bytes.iter().all(|byte| *byte == number as u8), "MESSAGES WRONG");
                    found.push(number);
                    std::thread::sleep(Duration::from_micros(of_reader.below(most)));
                }
            });
            leave(&reader);
            assert!(found.is_sorted_by(|one, other| one < other), "{method}: {found:?}");
            assert_eq!(found.last(), Some(&(count - 1)), "{method}");
            let replaced = totals(&run, "a").replaced + totals(&run, "worker[0]").replaced;
            assert_eq!(found.len() as u64 + replaced, count as u64, "{method}");
        }
    }
}

#[test]
fn a_reader_that_has_left_is_not_written_for() {
    let (run, a, reader) = joined("tcp");
    put(&a, 0);
    assert_eq!(take(&reader), Some(0));
    leave(&reader);
    await_that("it is known that it has left", || put(&a, 1) == 0);
    leave(&a);
    assert!(totals(&run, "a").dropped > 0);
}
