//! Conduits that go over to the relay when tcp breaks, and back when it works again; runs whose coordinator is behind a relay.

#[path = "../../native/core/tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mto::log::{Format, Level, Log};
use mto::relay::Relay;
use support::proxy::{join_plainly, Fate, Proxy};
use support::{Model, Run};
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, NextStamp, Received, Stamps};
use xmml_wire::buffer::Buffer;
use xmml_wire::data::Data;
use xmml_wire::relay_key::RelayKey;

/// Conduits between the two.
const CONDUITS: usize = 3;

/// Instances are told by the environment of the process how to listen: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A relay that serves as long as this test program runs, and that its instances know; returns where.
fn relay() -> &'static str {
    static STARTED: OnceLock<String> = OnceLock::new();
    STARTED.get_or_init(|| {
        let mut relay = Relay::new("here", Log::to_stderr(Format::Text, Level::Info)).unwrap();
        let address = format!("{}/here", relay.listen("127.0.0.1:0").unwrap());
        support::NUMBERED.store(true, Ordering::Relaxed);
        for run in 0..10 {
            relay.add_run(&format!("test run {run}"), &RelayKey::of(&support::SECRET), None).unwrap();
        }
        std::thread::spawn(move || relay.serve().unwrap());
        std::env::set_var("XMML_RELAY", &address);
        address
    })
}

/// `a` sends to `b` on several conduits, without an order.
fn model(methods: &[&str]) -> Model {
    let ports = |direction: &str, operator: &str| {
        (0..CONDUITS).map(|number| format!("{direction}{number}:{operator} ")).collect::<String>()
    };
    let mut model = Model::new().submodel("a", &ports("out", "Oi"), 0).submodel("b", &ports("in", "S"), 0);
    model.methods = methods.iter().map(|name| (*name).to_owned()).collect();
    for number in 0..CONDUITS {
        model = model.couple_with(&format!("a.out{number}"), &format!("b.in{number}"), |conduit| conduit.capacity = 64);
    }
    model.with("a", |spec| spec.check_order = false).with("b", |spec| spec.check_order = false)
}

fn send(me: &Instance, conduit: usize, value: i64) {
    let padding = Buffer::from(vec![value as u8; value as usize % 3000]);
    let data = vec![Data::Int(value), Data::Bytes(padding)].into();
    me.send(&format!("out{conduit}"), None, data, Stamps { timestamp: Some(0.0), next: NextStamp::Nothing }).unwrap();
}

/// Takes the next number of a conduit; `None`: it has ended.
fn take(me: &Instance, conduit: usize) -> Option<i64> {
    match me.receive(&format!("in{conduit}"), None, None).unwrap() {
        Received::Message(message) => match message.data {
            Data::List(items) => match &items[..] {
                [Data::Int(value), Data::Bytes(padding)] => {
                    assert_eq!(padding.len(), *value as usize % 3000, "MESSAGES WRONG: {value} is cut short");
                    assert!(padding.iter().all(|byte| *byte == *value as u8), "MESSAGES WRONG: {value} is torn");
                    Some(*value)
                }
                other => panic!("MESSAGES WRONG: {other:?}"),
            },
            other => panic!("MESSAGES WRONG: {other:?}"),
        },
        Received::Ended => None,
        other => panic!("{other:?}"),
    }
}

/// Raises a flag also when the test fails, which would hang otherwise.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Numbers go from a to b on all conduits, at least so many and until `done`; b checks that each comes once, whole, and in order.
fn every_number_arrives(a: &Instance, b: &Instance, least: i64, done: &AtomicBool) {
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            a.reuse().unwrap();
            let mut value = 0;
            while value < least || !done.load(Ordering::Relaxed) {
                (0..CONDUITS).for_each(|conduit| send(a, conduit, value));
                value += 1;
            }
            a.leave().unwrap();
            value
        });
        b.reuse().unwrap();
        let (mut came, mut goes_on) = ([0; CONDUITS], true);
        while std::mem::take(&mut goes_on) {
            for (conduit, expected) in came.iter_mut().enumerate() {
                if let Some(value) = take(b, conduit) {
                    assert_eq!(value, *expected, "MESSAGES WRONG: conduit {conduit}");
                    (*expected, goes_on) = (*expected + 1, true);
                }
            }
        }
        b.leave().unwrap();
        assert_eq!(came, [sending.join().unwrap(); CONDUITS], "MESSAGES WRONG: what came is what was sent");
    });
}

fn methods(me: &Instance) -> Vec<Option<String>> {
    (0..CONDUITS).map(|conduit| me.methods(&format!("out{conduit}")).unwrap()[0].chosen.clone()).collect()
}

/// Waits until every conduit has been said to travel so.
fn await_method(run: &Run, name: &str) {
    let mut missing: Vec<u32> = (1..=CONDUITS as u32).collect();
    while !missing.is_empty() {
        let event = run.event(&format!("conduits {missing:?} go by {name}"), |event| {
            matches!(event, Event::Conduits { conduits, method, .. }
                if method == name && conduits.iter().any(|conduit| missing.contains(conduit)))
        });
        let Event::Conduits { conduits, .. } = event else { unreachable!() };
        missing.retain(|conduit| !conduits.contains(conduit));
    }
}

#[test]
fn conduits_go_over_to_the_relay_when_tcp_breaks_and_back_when_it_works_again() {
    let _alone = alone();
    relay();
    // So many connections by tcp live for a while; all others are cut at once.
    let may_live = Arc::new(AtomicU64::new(1));
    let (allowed, mut lived) = (may_live.clone(), 0);
    const LAST: u64 = 3;
    let proxy = Proxy::new(move |_, _| {
        let lives = lived < allowed.load(Ordering::Relaxed);
        lived += u64::from(lives);
        let after = if lives { 300_000 } else { 0 };
        Fate { cut_after: (!lives || lived < LAST).then_some(after), ..Fate::default() }
    });
    let run = Run::of(model(&["tcp", "relay"]));
    let (a, b) = (join_plainly(&run, "a"), proxy.join_behind(&run, "b"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ending = Ending(&done);
        scope.spawn(|| every_number_arrives(&a, &b, 1000, &done));
        for turn in 1..=LAST {
            may_live.store(turn, Ordering::Relaxed);
            await_method(&run, "tcp");
            if turn < LAST {
                await_method(&run, "relay");
            }
        }
        // The last one lives: they stay there.
        assert_eq!(methods(&a), vec![Some("tcp".to_owned()); CONDUITS]);
        drop(ending);
    });
}

#[test]
fn a_run_whose_coordinator_is_behind_a_relay_needs_no_other_way_to_it() {
    let _alone = alone();
    let run = Run::reachable(model(&["relay"]), None, Some(relay()));
    let (a, b) = (run.join_by("relay", "a"), run.join_by("relay", "b"));
    every_number_arrives(&a, &b, 2000, &AtomicBool::new(true));
    for name in ["a", "b"] {
        run.event("it has left", |event| matches!(event, Event::Left { instance, .. } if instance == name));
    }
}
