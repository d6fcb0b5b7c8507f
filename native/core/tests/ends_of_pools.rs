//! Writers that say that they put nothing more at a port, and go on: they take what their readers make of it.

mod support;

use std::time::Duration;

use support::farms::{put, take};
use support::{Model, Run, LIMIT};
use xmml_core::instance::{Instance, Stamps, Taken};
use xmml_core::spec::PoolSpec;
use xmml_wire::data::Data;

const METHODS: [&str; 5] = ["inproc", "shm", "unix", "tcp", "protected tcp"];

/// `w` puts at `out` for `count` workers, which share it if it is a queue, and takes at `in` what they put.
fn farm_with_answers(method: &str, count: usize, is_queue: bool) -> Model {
    let mut model = Model::by(method).submodel("w", "out:Oi in:S", 1);
    let pool = PoolSpec { is_queue, ..PoolSpec::default() };
    for worker in (0..count).map(|index| format!("worker[{index}]")) {
        model = model.submodel(&worker, "in:S out:Oi", 1);
        for (from, to, pool) in
            [("w".to_owned(), worker.clone(), pool.clone()), (worker, "w".to_owned(), PoolSpec::default())]
        {
            model = model.couple_with(&format!("{from}.out"), &format!("{to}.in"), |conduit| {
                conduit.pool = Some(Box::new(pool));
                (conduit.capacity, conduit.byte_budget) = (64, 1 << 20);
                (conduit.sender_copy, conduit.receiver_copy) = (None, None);
            });
        }
    }
    model
}

fn answer_until_the_end(me: &Instance) {
    while let Some(number) = take(me) {
        put(me, 10 * number);
    }
    me.leave().unwrap();
}

#[test]
fn readers_see_the_end_of_a_writer_that_waits_for_their_answers() {
    for (method, is_queue) in METHODS.iter().flat_map(|method| [(method, false), (method, true)]) {
        let run = Run::of(farm_with_answers(method, 3, is_queue));
        let w = run.join("w");
        let workers: Vec<_> = (0..3).map(|index| run.join(&format!("worker[{index}]"))).collect();
        let mut answers: Vec<i64> = std::thread::scope(|scope| {
            workers.iter().for_each(|me| _ = scope.spawn(|| answer_until_the_end(me)));
            (0..40).for_each(|number| _ = put(&w, number));
            w.end("out").unwrap();
            w.end("out").unwrap();
            std::iter::from_fn(|| take(&w)).collect()
        });
        answers.sort_unstable();
        let times = if is_queue { 1 } else { 3 };
        let expected: Vec<i64> = (0..40).flat_map(|number| vec![10 * number; times]).collect();
        assert_eq!(answers, expected, "{method}");
        w.leave().unwrap();
    }
}

#[test]
fn a_worker_of_a_queue_sees_the_end_when_others_have_dealt_with_all() {
    let run = Run::of(farm_with_answers("shm", 2, true));
    let w = run.join("w");
    let workers: Vec<_> = (0..2).map(|index| run.join(&format!("worker[{index}]"))).collect();
    put(&w, 1);
    let busy = workers.iter().position(|me| take_soon(me).is_some()).unwrap();
    w.end("out").unwrap();
    let [idle, busy] = [&workers[1 - busy], &workers[busy]];
    assert_eq!(take_soon(idle), None, "it might still get what the other one gives back");
    // From here on the writer makes no call.
    assert_eq!(take(busy), None);
    assert_eq!(take(idle), None);
}

fn take_soon(me: &Instance) -> Option<i64> {
    match me.take("in", Some(Duration::from_millis(200))).unwrap() {
        Taken::Object(object) => match object.data {
            Data::Int(number) => Some(number),
            other => panic!("no number: {other:?}"),
        },
        Taken::TimedOut => None,
        other => panic!("neither an object nor a time that has passed: {other:?}"),
    }
}

#[test]
fn what_a_worker_that_leaves_gives_back_comes_before_the_end() {
    let run = Run::of(farm_with_answers("tcp", 2, true));
    let w = run.join("w");
    let workers: Vec<_> = (0..2).map(|index| run.join(&format!("worker[{index}]"))).collect();
    (0..20).for_each(|number| _ = put(&w, number));
    w.end("out").unwrap();
    assert!(workers[0].reuse().unwrap());
    let first = take(&workers[0]).unwrap();
    workers[0].leave().unwrap();
    let mut rest: Vec<i64> = std::iter::from_fn(|| take(&workers[1])).collect();
    rest.push(first);
    rest.sort_unstable();
    assert_eq!(rest, (0..20).collect::<Vec<_>>());
}

#[test]
fn after_the_end_nothing_is_put_and_a_group_that_has_begun_keeps_the_end_away() {
    let run = Run::of(farm_with_answers("inproc", 1, false));
    let (w, worker) = (run.join("w"), run.join("worker[0]"));
    w.begin_group("out", &[]).unwrap();
    let refused = w.end("out").unwrap_err().to_string();
    assert_eq!(refused, "w.out: a group was begun here; end it first, or abandon it");
    w.abandon_group("out").unwrap();
    w.end("out").unwrap();
    let told = "w.out: nothing can be put here after end()";
    assert_eq!(w.put("out", Data::Int(1), &[]).unwrap_err().to_string(), told);
    assert_eq!(w.send("out", None, Data::Int(1), Stamps::default()).unwrap_err().to_string(), told);
    assert_eq!(w.begin_group("out", &[]).unwrap_err().to_string(), told);
    assert!(matches!(worker.take("in", Some(LIMIT)).unwrap(), Taken::Ended));
}

#[test]
fn the_end_of_a_port_that_carries_messages_is_refused() {
    let run = Run::of(Model::new().submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in"));
    let (a, _b) = (run.join("a"), run.join("b"));
    let refused = a.end("out").unwrap_err().to_string();
    assert!(refused.starts_with("a.out: objects cannot be put here; it carries messages"), "{refused}");
}
