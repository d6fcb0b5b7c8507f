//! Instances that die while the run goes on.

mod support;

use std::time::Duration;

use support::farms::{all_of, coupled, has_nothing, put, take};
use support::taps::{shown, tap};
use support::{Model, Run, LIMIT};
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, Taken};
use xmml_core::spec::{ConduitSpec, PoolSpec};
use xmml_pool::value::Value;
use xmml_wire::data::Data;

const METHODS: [&str; 5] = ["inproc", "shm", "unix", "tcp", "protected tcp"];

/// A writer, and workers that may die.
fn farm(method: &str, workers: usize) -> Model {
    let queue = PoolSpec { is_queue: true, reader_may_die: true, ..PoolSpec::default() };
    coupled(method, &["a"], workers, &queue, 1 << 20)
}

fn die(run: &Run, me: &Instance) {
    me.abandon();
    run.coordinator.go_on_without(me.name());
}

/// The next number, and how often it was given before.
fn take_marked(me: &Instance) -> (u64, Option<Value>) {
    match me.take("in", Some(LIMIT)).unwrap() {
        Taken::Object(object) => {
            let seq = object.attributes.system.seq;
            (seq, object.attributes.get("sys.redelivered").unwrap())
        }
        other => panic!("no object: {other:?}"),
    }
}

/// A writer `a`, a worker `w` that may die, and `r`, which gets what the worker makes.
fn chain(method: &str) -> Run {
    let queue = PoolSpec { is_queue: true, reader_may_die: true, ..PoolSpec::default() };
    let model = Model::by(method).submodel("a", "out:Oi", 1).submodel("w", "in:S out:Oi", 1).submodel("r", "in:S", 1);
    let pooled = |pool: PoolSpec| {
        move |conduit: &mut ConduitSpec| {
            conduit.pool = Some(Box::new(pool));
            (conduit.capacity, conduit.byte_budget) = (64, 64 << 20);
        }
    };
    Run::of(model.couple_with("a.out", "w.in", pooled(queue)).couple_with("w.out", "r.in", pooled(PoolSpec::default())))
}

fn given_again(run: &Run) -> (u64, Option<u64>) {
    let event = run.event("objects are given again", |event| matches!(event, Event::GivenAgain { .. }));
    let Event::GivenAgain { objects, deadly, .. } = event else { unreachable!() };
    (objects, deadly)
}

#[test]
fn what_a_reader_that_dies_had_not_settled_goes_to_another_and_is_marked() {
    for method in METHODS {
        let run = Run::of(farm(method, 2));
        let (a, first) = (run.join("a"), run.join("worker[0]"));
        (0..6).for_each(|number| _ = put(&a, number));
        assert_eq!(take_marked(&first), (0, None), "{method}");
        assert_eq!(take_marked(&first), (1, None), "{method}");
        die(&run, &first);
        let (objects, deadly) = given_again(&run);
        assert!(objects >= 1 && deadly.is_none(), "{method}");
        let second = run.join("worker[1]");
        assert_eq!(take_marked(&second), (1, Some(Value::Uint(1))), "{method}");
        std::thread::scope(|scope| {
            scope.spawn(|| a.leave().unwrap());
            let rest: Vec<i64> = std::iter::from_fn(|| take(&second)).collect();
            assert_eq!(rest, [2, 3, 4, 5], "{method}");
        });
    }
}

#[test]
fn an_object_with_which_the_fourth_reader_dies_is_named() {
    let run = Run::of(farm("shm", 5));
    let a = run.join("a");
    (0..3).for_each(|number| _ = put(&a, number));
    for copy in 0..4 {
        let me = run.join(&format!("worker[{copy}]"));
        if copy == 0 {
            assert_eq!(take(&me), Some(0)); // it deals with the first, and dies with the second
        }
        let times = (copy > 0).then_some(Value::Uint(copy));
        assert_eq!(take_marked(&me), (1, times));
        die(&run, &me);
        assert_eq!(given_again(&run).1, (copy == 3).then_some(1));
    }
}

#[test]
fn who_may_die_has_handed_over_what_it_made_of_an_object_before_it_gets_the_next() {
    for method in METHODS {
        let run = chain(method);
        let (a, w) = (run.join("a"), run.join("w"));
        (0..2).for_each(|number| _ = put(&a, number));
        assert_eq!(take(&w), Some(0), "{method}");
        put(&w, 100);
        assert!(has_nothing(&w), "{method}: its product is still here");
        let r = run.join("r");
        assert_eq!(take(&w), Some(1), "{method}");
        die(&run, &w);
        assert_eq!(take(&r), Some(100), "{method}");
    }
}

#[test]
fn who_may_die_waits_for_no_tap() {
    for method in METHODS {
        let run = chain(method);
        let (a, w, r) = (run.join("a"), run.join("w"), run.join("r"));
        run.coordinator.add_tap(tap(method, &["w"], "", 32 << 20));
        let tap = run.join("tap");
        shown(&run, "w");
        put(&a, 0);
        assert_eq!(take(&w), Some(0), "{method}");
        w.put("out", Data::Bytes(vec![1; 8].into()), &[]).unwrap();
        assert!(matches!(tap.take("objects", Some(LIMIT)).unwrap(), Taken::Object(_)), "{method}: it is shown objects");
        // It takes no more, and what is on its way to it fits into no socket.
        put(&a, 1);
        for _ in 0..2 {
            assert!(matches!(r.take("in", Some(Duration::ZERO)).unwrap(), Taken::Object(_) | Taken::TimedOut));
            w.put("out", Data::Bytes(vec![1; 8 << 20].into()), &[]).unwrap();
        }
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| take(&w));
            while !taking.is_finished() {
                r.take("in", Some(Duration::from_millis(10))).unwrap();
            }
            assert_eq!(taking.join().unwrap(), Some(1), "{method}");
        });
    }
}

#[test]
fn a_conduit_ends_behind_what_its_writer_has_put_that_dies() {
    for method in METHODS {
        let pool = PoolSpec { writer_may_die: true, ..PoolSpec::default() };
        let run = Run::of(coupled(method, &["a", "b"], 1, &pool, 1 << 20));
        let (a, b, reader) = (run.join("a"), run.join("b"), run.join("worker[0]"));
        put(&a, 0);
        assert_eq!(take(&reader), Some(0), "{method}"); // so that the rest goes out at once
        (1..20).for_each(|number| _ = put(&a, number));
        put(&b, 20);
        die(&run, &a);
        std::thread::scope(|scope| {
            scope.spawn(|| b.leave().unwrap());
            assert_eq!(all_of(std::slice::from_ref(&reader)), (1..=20).collect::<Vec<_>>(), "{method}");
        });
    }
}

#[test]
fn who_joins_later_hears_of_a_death_and_who_has_died_is_not_let_in() {
    let run = Run::of(farm("unix", 2));
    run.coordinator.go_on_without("worker[0]");
    let (a, second) = (run.join("a"), run.join("worker[1]"));
    let problem = run.try_join("worker[0]").err().map(|error| error.to_string()).unwrap_or_default();
    assert!(problem.contains("counts as dead"), "{problem}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..10).for_each(|number| _ = put(&a, number));
            a.leave().unwrap();
        });
        assert_eq!(all_of(std::slice::from_ref(&second)), (0..10).collect::<Vec<_>>());
    });
}
