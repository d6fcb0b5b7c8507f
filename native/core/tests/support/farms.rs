//! Models with a queue, and what their writers and workers do.

use std::time::Duration;

use xmml_core::instance::{Instance, Taken};
use xmml_core::spec::PoolSpec;
use xmml_wire::data::Data;

use super::{Model, Run, LIMIT};

/// The writers put; `worker[0]` and following share what they put, within a limit of 1 MiB.
pub fn farm(method: &str, writers: &[&str], workers: usize) -> Model {
    let queue = PoolSpec { is_queue: true, ..PoolSpec::default() };
    coupled(method, writers, workers, &queue, 1 << 20)
}

pub fn coupled(method: &str, writers: &[&str], readers: usize, pool: &PoolSpec, limit: u64) -> Model {
    let mut model = Model::by(method);
    for writer in writers {
        model = model.submodel(writer, "out:Oi", 1);
    }
    for worker in (0..readers).map(|index| format!("worker[{index}]")) {
        model = model.submodel(&worker, "in:S", 1);
        for writer in writers {
            model = model.couple_with(&format!("{writer}.out"), &format!("{worker}.in"), |conduit| {
                conduit.pool = Some(Box::new(pool.clone()));
                (conduit.capacity, conduit.byte_budget) = (64, limit);
                (conduit.sender_copy, conduit.receiver_copy) = (None, None);
            });
        }
    }
    model
}

pub fn workers(run: &Run, count: usize) -> Vec<Instance> {
    (0..count).map(|index| run.join(&format!("worker[{index}]"))).collect()
}

pub fn put(me: &Instance, value: i64) -> u64 {
    me.put("out", Data::Int(value), &[]).unwrap()
}

/// The next number; `None`: the end.
pub fn take(me: &Instance) -> Option<i64> {
    match me.take("in", Some(LIMIT)).unwrap() {
        Taken::Object(object) => match object.data {
            Data::Int(number) => Some(number),
            other => panic!("no number: {other:?}"),
        },
        Taken::Ended => None,
        other => panic!("neither an object nor the end: {other:?}"),
    }
}

pub fn has_nothing(me: &Instance) -> bool {
    matches!(me.take("in", Some(Duration::from_millis(20))).unwrap(), Taken::TimedOut)
}

/// Everything that these take until the end.
pub fn all_of(workers: &[Instance]) -> Vec<i64> {
    let mut found: Vec<i64> = std::thread::scope(|scope| {
        let taking: Vec<_> =
            workers.iter().map(|me| scope.spawn(|| std::iter::from_fn(|| take(me)).collect::<Vec<_>>())).collect();
        taking.into_iter().flat_map(|taking| taking.join().unwrap()).collect()
    });
    found.sort_unstable();
    found
}
