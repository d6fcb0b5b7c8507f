//! Queues and latest couplings whose connections break, or whose first way leads nowhere. (Where an instance listens is told by the environment of the process: every test
//! here joins one at a time.)

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use support::farms::{all_of, coupled, farm, put, take};
use support::proxy::{join_plainly, Fate, Proxy, Random};
use support::{Model, Run};
use xmml_core::instance::Taken;
use xmml_core::spec::PoolSpec;
use xmml_wire::liveness::heartbeat::SILENCE_LIMIT;

#[test]
fn objects_of_a_queue_survive_connections_that_break() {
    let mut random = Random(9);
    let proxy = Proxy::new(move |_, strikes| match strikes < 20 {
        true => Fate { cut_after: Some(2_000 + random.below(20_000)), ..Fate::default() },
        false => Fate::default(),
    });
    let run = Run::of(farm("tcp", &["a"], 2));
    std::thread::scope(|scope| {
        let first = proxy.join_behind(&run, "worker[0]");
        let second = join_plainly(&run, "worker[1]");
        let putting = scope.spawn(|| {
            let me = join_plainly(&run, "a");
            let mut number = 0;
            while proxy.strikes.load(Ordering::Relaxed) < 20 || number < 1000 {
                put(&me, number);
                number += 1;
                assert!(number < 2_000_000, "the proxy does not strike");
            }
            me.leave().unwrap();
            number
        });
        let found = all_of(&[first, second]);
        assert_eq!(found, (0..putting.join().unwrap()).collect::<Vec<_>>(), "MESSAGES WRONG");
    });
}

#[test]
fn the_newest_object_survives_connections_that_break() {
    let mut random = Random(11);
    let proxy = Proxy::new(move |_, strikes| match strikes < 20 {
        true => Fate { cut_after: Some(1_000 + random.below(5_000)), ..Fate::default() },
        false => Fate::default(),
    });
    let latest = PoolSpec { is_latest: true, ..PoolSpec::default() };
    let run = Run::of(coupled("tcp", &["a"], 1, &latest, 0));
    std::thread::scope(|scope| {
        let reader = proxy.join_behind(&run, "worker[0]");
        let putting = scope.spawn(|| {
            let me = join_plainly(&run, "a");
            let mut number = 0;
            while proxy.strikes.load(Ordering::Relaxed) < 20 || number < 1000 {
                put(&me, number);
                number += 1;
                std::thread::sleep(Duration::from_micros(20));
            }
            me.leave().unwrap();
            number
        });
        let found: Vec<i64> = std::iter::from_fn(|| take(&reader)).collect();
        assert!(found.is_sorted_by(|one, other| one < other), "MESSAGES WRONG: {found:?}");
        assert_eq!(found.last(), Some(&(putting.join().unwrap() - 1)));
    });
}

#[test]
fn objects_that_wait_are_given_when_their_reader_is_reached_by_another_method() {
    let proxy = Proxy::new(|_, _| Fate { silent_after: Some(0), ..Fate::default() });
    let queue = PoolSpec { is_queue: true, ..PoolSpec::default() };
    let model = Model::new()
        .submodel("a", "out:Oi msg:Oi", 1)
        .submodel("worker[0]", "in:S more:S", 1)
        .couple_with("a.msg", "worker[0].more", |conduit| conduit.methods = vec!["unix".into()])
        .couple_with("a.out", "worker[0].in", |conduit| {
            conduit.pool = Some(Box::new(queue.clone()));
            (conduit.capacity, conduit.byte_budget) = (64, 1 << 20);
            conduit.methods = vec!["tcp".into()];
        });
    let run = Run::of(model);
    let worker = proxy.join_behind(&run, "worker[0]");
    let a = join_plainly(&run, "a");
    assert!(worker.reuse().unwrap() && a.reuse().unwrap());
    put(&a, 1);
    support::send(&a, "msg", 7);
    assert_eq!(support::receive(&worker, "more"), Some(7));
    a.set_methods("out", &["unix".to_owned()]).unwrap();
    // Well before the silence of its former connection is noticed.
    let next = worker.take("in", Some(SILENCE_LIMIT / 2)).unwrap();
    assert!(matches!(next, Taken::Object(_)), "{next:?}");
}
