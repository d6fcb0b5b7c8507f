//! The conformance suite of the methods, through a relay.

#[path = "../../native/core/tests/support/mod.rs"]
mod support;

use std::sync::atomic::Ordering;
use std::sync::Once;

use mto::log::{Format, Level, Log};
use mto::relay::Relay;
use xmml_wire::relay_key::RelayKey;

/// Starts a relay that serves as long as this test program runs.
fn methods() -> [&'static str; 1] {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let mut relay = Relay::new("here", Log::to_stderr(Format::Text, Level::Info)).unwrap();
        let address = relay.listen("127.0.0.1:0").unwrap();
        support::NUMBERED.store(true, Ordering::Relaxed);
        for run in 0..100 {
            relay.add_run(&format!("test run {run}"), &RelayKey::of(&support::SECRET), None).unwrap();
        }
        std::thread::spawn(move || relay.serve().unwrap());
        std::env::set_var("XMML_RELAY", format!("{address}/here"));
    });
    ["relay"]
}

include!("../../native/core/tests/suites/conformance.rs");
