//! Pools whose objects wait with the writer: those of queues, which their readers share, and those of readers that may lose some.

mod support;

use std::sync::mpsc::channel;
use std::time::Duration;

use support::farms::{all_of, coupled, farm, has_nothing, put, take, workers};
use support::{await_that, Run, LIMIT};
use xmml_core::coordinator::{Event, WaitKind};
use xmml_core::instance::{Instance, Taken};
use xmml_core::spec::PoolSpec;
use xmml_wire::data::Data;
use xmml_wire::methods::Traffic;

const METHODS: [&str; 5] = ["inproc", "shm", "unix", "tcp", "protected tcp"];

#[test]
fn each_object_of_a_queue_goes_to_one_reader() {
    for method in METHODS {
        let run = Run::of(farm(method, &["a", "b"], 3));
        let (a, b, workers) = (run.join("a"), run.join("b"), workers(&run, 3));
        let found = std::thread::scope(|scope| {
            for (writer, first) in [(&a, 0), (&b, 1000)] {
                scope.spawn(move || {
                    (first..first + 300).for_each(|number| assert_eq!(put(writer, number), 1));
                    writer.leave().unwrap();
                });
            }
            all_of(&workers)
        });
        assert_eq!(found, (0..300).chain(1000..1300).collect::<Vec<_>>(), "{method}");
    }
}

#[test]
fn while_the_writer_computes_an_idle_reader_gets_what_a_busy_one_would_keep_waiting() {
    for method in METHODS {
        let run = Run::of(farm(method, &["a"], 2));
        let (a, workers) = (run.join("a"), workers(&run, 2));
        for number in 0..10 {
            put(&a, number);
        }
        // From here on the writer makes no call.
        assert!(take(&workers[0]).is_some());
        // Only a connection to another host has one ahead, too.
        let others = if method.contains("tcp") { 8 } else { 9 };
        let of_other: Vec<i64> = (0..others).filter_map(|_| take(&workers[1])).collect();
        assert_eq!(of_other.len(), others, "{method}");
        assert!(has_nothing(&workers[1]));
    }
}

#[test]
fn large_arrays_of_a_queue_arrive_whole() {
    for method in METHODS {
        let run = Run::of(farm(method, &["a"], 2));
        let (a, workers) = (run.join("a"), workers(&run, 2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..40_u8 {
                    let mut bytes = vec![number; 300_000];
                    a.put("out", Data::Bytes(bytes.clone().into()), &[]).unwrap();
                    bytes.fill(255);
                }
                a.leave().unwrap();
            });
            let check = |me: &Instance| {
                let mut sum = 0;
                while let Taken::Object(object) = me.take("in", Some(LIMIT)).unwrap() {
                    let Data::Bytes(bytes) = object.data else { panic!("no bytes") };
                    assert!(bytes.len() == 300_000 && bytes.iter().all(|byte| *byte == bytes[0]), "{method}");
                    sum += u64::from(bytes[0]);
                }
                sum
            };
            let sums: Vec<_> = workers.iter().map(|me| scope.spawn(move || check(me))).collect();
            assert_eq!(sums.into_iter().map(|sum| sum.join().unwrap()).sum::<u64>(), (0..40).sum());
        });
    }
}

#[test]
fn what_a_reader_that_leaves_was_given_and_has_not_taken_goes_to_another() {
    for method in METHODS {
        let run = Run::of(farm(method, &["a"], 2));
        let (a, mut workers) = (run.join("a"), workers(&run, 2));
        let (last, leaver) = (workers.pop().unwrap(), workers.pop().unwrap());
        assert!(last.reuse().unwrap() && leaver.reuse().unwrap());
        for number in 0..20 {
            put(&a, number);
        }
        let taken = take(&leaver).unwrap();
        leaver.leave().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| a.leave().unwrap());
            let mut found = all_of(std::slice::from_ref(&last));
            found.push(taken);
            found.sort_unstable();
            assert_eq!(found, (0..20).collect::<Vec<_>>(), "{method}");
        });
    }
}

#[test]
fn nobody_is_at_the_end_while_another_deals_with_an_object() {
    let run = Run::of(farm("shm", &["a"], 2));
    let (a, workers) = (run.join("a"), workers(&run, 2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            put(&a, 1);
            put(&a, 2);
            a.leave().unwrap();
        });
        assert_eq!(take(&workers[0]).into_iter().chain(take(&workers[1])).sum::<i64>(), 3);
        let waits = run.event("it waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "a"));
        let Event::Waiting { waits, .. } = waits else { unreachable!() };
        assert_eq!(waits.iter().map(|wait| wait.kind).collect::<Vec<_>>(), [WaitKind::Settled; 2]);
        assert!(has_nothing(&workers[0]), "the other one has not dealt with its own");
        assert_eq!([take(&workers[1]), take(&workers[0])], [None, None]);
    });
}

#[test]
fn a_put_waits_for_any_reader_of_a_queue_that_holds_its_limit() {
    let run = Run::of(farm("shm", &["a"], 2));
    let (a, workers) = (run.join("a"), workers(&run, 2));
    let (sent, received) = channel();
    let large = || Data::Bytes(vec![0; 400_000].into());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..5 {
                a.put("out", large(), &[]).unwrap();
                sent.send(number).unwrap();
            }
        });
        assert_eq!([received.recv().unwrap(), received.recv().unwrap()], [0, 1]);
        let waits = run.event("it waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "a"));
        let Event::Waiting { waits, is_any, .. } = waits else { unreachable!() };
        assert!(is_any && waits.len() == 2 && waits.iter().all(|wait| wait.kind == WaitKind::Send));
        let next = || assert!(matches!(workers[1].take("in", Some(LIMIT)).unwrap(), Taken::Object(_)));
        next();
        assert!(received.recv_timeout(Duration::from_millis(50)).is_err(), "it has not dealt with that");
        next();
        assert_eq!(received.recv_timeout(LIMIT), Ok(2));
        run.coordinator.grow(1, 64);
        assert_eq!([received.recv().unwrap(), received.recv().unwrap()], [3, 4]);
    });
}

#[test]
fn a_put_that_waits_is_reported_again_when_a_reader_leaves_that_was_given_nothing() {
    let run = Run::of(farm("tcp", &["a"], 2));
    let (a, workers) = (run.join("a"), workers(&run, 2));
    let is_of_a = |event: &Event, conduits: usize| match event {
        Event::Waiting { instance, waits, .. } => instance == "a" && waits.len() == conduits,
        _ => false,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let data = Data::Bytes(vec![0; 600_000].into());
            (0..2).for_each(|_| _ = a.put("out", data.clone(), &[]).unwrap());
        });
        run.event("a waits for both", |event| is_of_a(event, 2));
        assert!(workers[1].reuse().unwrap());
        workers[1].leave().unwrap();
        run.event("a waits for one", |event| is_of_a(event, 1));
        run.coordinator.grow(1, 64);
    });
}

#[test]
fn without_readers_objects_are_counted_and_nobody_waits() {
    let run = Run::of(farm("tcp", &["a"], 2));
    let (a, workers) = (run.join("a"), workers(&run, 2));
    for number in 0..10 {
        put(&a, number);
    }
    for me in workers {
        assert!(me.reuse().unwrap());
        me.leave().unwrap();
    }
    await_that("it is known that they have left", || put(&a, 10) == 0);
    a.leave().unwrap();
    let left = run.event("a leaves", |event| matches!(event, Event::Left { instance, .. } if instance == "a"));
    let Event::Left { conduits, .. } = left else { unreachable!() };
    assert!(conduits.iter().map(|totals| totals.dropped).sum::<u64>() > 10);
}

#[test]
fn a_reader_that_may_lose_some_holds_up_nobody_and_gets_the_newest() {
    for method in METHODS {
        let lossy = PoolSpec { may_lose: true, ..PoolSpec::default() };
        let run = Run::of(coupled(method, &["a"], 1, &lossy, 10_000));
        let (a, workers) = (run.join("a"), workers(&run, 1));
        for number in 0..2_000 {
            assert_eq!(put(&a, number), 1);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| a.leave().unwrap());
            let found = all_of(&workers);
            assert!(found.len() < 500 && found.is_sorted(), "{method}: {}", found.len());
            assert_eq!(found.last(), Some(&1_999), "{method}");
            let left = run.event("a leaves", |event| matches!(event, Event::Left { instance, .. } if instance == "a"));
            let Event::Left { conduits, .. } = left else { unreachable!() };
            assert_eq!((conduits[0].sent, conduits[0].dropped), (found.len() as u64, 2_000 - found.len() as u64));
        });
    }
}

#[test]
fn a_reader_that_keeps_up_loses_nothing() {
    let lossy = PoolSpec { may_lose: true, ..PoolSpec::default() };
    let run = Run::of(coupled("shm", &["a"], 1, &lossy, 1 << 20));
    let (a, workers) = (run.join("a"), workers(&run, 1));
    for number in 0..500 {
        put(&a, number);
        assert_eq!(take(&workers[0]), Some(number));
    }
}

#[test]
fn the_objects_of_a_group_are_shared_one_by_one() {
    let run = Run::of(farm("shm", &["a"], 2));
    let (a, workers) = (run.join("a"), workers(&run, 2));
    a.begin_group("out", &[]).unwrap();
    (0..6).for_each(|number| assert_eq!(put(&a, number), 1));
    assert!(workers.iter().all(has_nothing));
    assert_eq!(a.end_group("out").unwrap(), 1);
    assert!(take(&workers[0]).is_some() && take(&workers[1]).is_some());
    std::thread::scope(|scope| {
        scope.spawn(|| a.leave().unwrap());
        assert_eq!(all_of(&workers).len(), 4);
    });
}

#[test]
fn while_the_writer_computes_another_gets_what_a_reader_that_left_had_been_given() {
    for method in METHODS {
        let run = Run::of(farm(method, &["a"], 2));
        let (a, mut workers) = (run.join("a"), workers(&run, 2));
        let (last, leaver) = (workers.pop().unwrap(), workers.pop().unwrap());
        assert!(last.reuse().unwrap() && leaver.reuse().unwrap());
        put(&a, 1);
        put(&a, 2);
        // From here on the writer makes no call.
        leaver.leave().unwrap();
        run.event("it left", |event| matches!(event, Event::Left { instance, .. } if instance == "worker[0]"));
        assert_eq!(take(&last).unwrap() + take(&last).unwrap(), 3, "{method}");
    }
}

#[test]
fn a_fast_reader_that_may_lose_some_and_pauses_is_given_no_more_than_its_limit() {
    for method in METHODS {
        let lossy = PoolSpec { may_lose: true, ..PoolSpec::default() };
        let run = Run::of(coupled(method, &["a"], 1, &lossy, 1 << 20));
        let (a, workers) = (run.join("a"), workers(&run, 1));
        for number in 0..500 {
            put(&a, number);
            assert_eq!(take(&workers[0]), Some(number));
        }
        assert!(has_nothing(&workers[0]));
        for _ in 0..64 {
            assert_eq!(a.put("out", Data::Bytes(vec![0; 600_000].into()), &[]).unwrap(), 1);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| _ = a.leave());
            let mut count = 0;
            loop {
                match workers[0].take("in", Some(LIMIT)) {
                    Ok(Taken::Object(_)) => count += 1,
                    Ok(Taken::Ended) => break,
                    other => panic!("{method}: {other:?} after {count}"),
                }
            }
            assert!(count < 8, "{method}: {count} objects of 600 kB waited for it, and its limit is 1 MiB");
        });
    }
}

#[test]
fn a_writer_tells_what_waits_for_readers_of_a_queue_once_and_what_a_slow_reader_has_lost() {
    let run = Run::of(farm("shm", &["a"], 2));
    let a = run.join("a");
    (0..20).for_each(|number| _ = put(&a, number));
    let told = |figure: fn(&Traffic) -> u64| -> Vec<u64> {
        a.methods("out").unwrap().iter().map(|report| figure(&report.traffic)).collect()
    };
    assert_eq!(told(|traffic| traffic.waiting), [20, 0]);
    let held = told(|traffic| traffic.held_bytes);
    assert!(held[0] > 20 * 8 && held[1] == 0, "{held:?}");

    let lossy = PoolSpec { may_lose: true, ..PoolSpec::default() };
    let run = Run::of(coupled("shm", &["a"], 1, &lossy, 10_000));
    let a = run.join("a");
    (0..2_000).for_each(|number| _ = put(&a, number));
    let traffic = a.methods("out").unwrap()[0].traffic;
    assert!(traffic.waiting > 0 && traffic.waiting + traffic.dropped == 2_000, "{traffic:?}");
    assert!((1..=10_000).contains(&traffic.held_bytes), "{traffic:?}");

    let worker = run.join("worker[0]");
    worker.leave().unwrap();
    await_that("nothing is held for a reader that has left", || a.methods("out").unwrap()[0].traffic.held_bytes == 0);
}
