//! Taps, and a pair of instances that they look at.

use std::sync::Arc;

use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, Taken};
use xmml_core::spec::{ConduitSpec, InstanceSpec, PoolSpec, FIRST_OPENED};
use xmml_wire::data::Data;

use super::{Model, Run, LIMIT};

/// A tap of `out` of these writers, which holds as much as this.
pub fn tap(method: &str, writers: &[&str], select: &str, limit: u64) -> InstanceSpec {
    let way = Model::by(method);
    let pool = PoolSpec { select: select.to_owned(), may_lose: true, is_tap: true, ..PoolSpec::default() };
    let shown = |writer: &&str| {
        Arc::new(ConduitSpec {
            methods: way.methods.clone(),
            protect: way.protect,
            byte_budget: limit,
            pool: Some(Box::new(pool.clone())),
            ..ConduitSpec::new(0, (writer, "out"), ("tap", "objects"))
        })
    };
    let mut spec = InstanceSpec::new("tap");
    spec.add_port("objects", "in").unwrap();
    InstanceSpec { conduits: writers.iter().map(shown).collect(), check_order: false, ..spec }
}

/// Joins as the tap, and waits until the writer `a` shows it what passes.
pub fn opened(run: &Run, spec: InstanceSpec) -> Instance {
    run.coordinator.add_tap(spec);
    let me = run.join("tap");
    shown(run, "a");
    me
}

/// Waits until a writer has a connection to the tap.
pub fn shown(run: &Run, writer: &str) {
    let is_of_tap = |conduits: &[u32]| conduits.iter().any(|id| *id >= FIRST_OPENED);
    let is_way = |event: &Event| matches!(event, Event::Conduits { instance, conduits, .. } if instance == writer && is_of_tap(conduits));
    run.event("it has a way to the tap", is_way);
}

pub fn next(me: &Instance) -> Option<(i64, String)> {
    match me.take("objects", Some(LIMIT)).unwrap() {
        Taken::Object(object) => match &object.data {
            Data::Int(number) => Some((*number, object.attributes.system.instance.to_string())),
            other => panic!("no number: {other:?}"),
        },
        Taken::Ended => None,
        other => panic!("neither an object nor the end: {other:?}"),
    }
}

pub fn free(run: &Run, name: &str) -> Instance {
    let me = run.join(name);
    assert!(me.reuse().unwrap());
    me
}

/// `a.out` leads to `b.in`, and both send and receive as they like.
pub fn pair(method: &str) -> Run {
    let model =
        Model::by(method)
            .submodel("a", "out:Oi", 1)
            .submodel("b", "in:S", 1)
            .couple_with("a.out", "b.in", |conduit| (conduit.capacity, conduit.byte_budget) = (1000, 64 << 20));
    Run::of(model.with("a", |spec| spec.check_order = false).with("b", |spec| spec.check_order = false))
}
