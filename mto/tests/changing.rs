//! The method of a conduit is changed from and to the relay while messages pass.

#[path = "../../native/core/tests/support/mod.rs"]
mod support;

use std::sync::Once;

use mto::log::{Format, Level, Log};
use mto::relay::Relay;
use xmml_core::coordinator::Event;
use xmml_wire::relay_key::RelayKey;

const METHODS: [&str; 8] = ["relay", "shm", "relay", "tcp", "relay", "inproc", "relay", "unix"];

include!("../../native/core/tests/suites/changing.rs");

/// A run whose instances know a relay, which serves as long as this test program runs.
fn run_of(model: Model) -> Run {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let mut relay = Relay::new("here", Log::to_stderr(Format::Text, Level::Info)).unwrap();
        let address = relay.listen("127.0.0.1:0").unwrap();
        support::NUMBERED.store(true, Ordering::Relaxed);
        for run in 0..10 {
            relay.add_run(&format!("test run {run}"), &RelayKey::of(&support::SECRET), None).unwrap();
        }
        std::thread::spawn(move || relay.serve().unwrap());
        std::env::set_var("XMML_RELAY", format!("{address}/here"));
    });
    Run::of(model)
}

#[test]
fn the_holder_of_the_coordinator_has_a_conduit_go_by_the_relay_and_back() {
    let run = run_of(stream(16));
    let done = AtomicBool::new(false);
    pass_numbers(&run, &done, &[10, 70_000], |a, _| {
        run.event("it goes", |event| matches!(event, Event::Conduits { conduits, .. } if conduits.contains(&1)));
        for method in ["tcp", "relay", "shm", "relay", "tcp"] {
            run.coordinator.change(1, &only(method)).unwrap();
            let changed = run.event("it changes", |event| matches!(event, Event::Changed { conduit: 1, .. }));
            assert!(matches!(&changed, Event::Changed { problem: None, .. }), "{method}: {changed:?}");
            assert_eq!(method_of(a, "out").as_deref(), Some(method));
        }
    });
}
