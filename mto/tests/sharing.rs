//! Conduits between two instances of different sites share one stream over the link of the relays, and so its credit.

mod support;

#[path = "../../native/core/tests/support/mod.rs"]
mod core_support;

use core_support::{receive_any, send, Model, Run};
use support::{await_that, Site, LIMIT};
use xmml_core::coordinator::{Event, WaitKind};
use xmml_core::instance::{Received, Stamps};
use xmml_wire::data::Data;

const RUN: (&str, &[u8]) = ("test run", &core_support::SECRET);

/// Messages that a conduit holds.
const CAPACITY: u32 = 8;

/// All of them are longer than what a stream usually gets, and what sockets hold.
const LONG: usize = 3 << 20;

/// Numbers that pass while another conduit is full.
const NUMBERS: i64 = 500;

#[test]
fn a_conduit_that_is_full_does_not_hold_up_another_of_the_same_instances() {
    let there = Site::start_at("there", "127.0.0.1:0", &[], &[RUN]);
    let here = Site::start_at("here", "127.0.0.1:0", std::slice::from_ref(&there.address), &[RUN]);
    for (from, to) in [(&here, &there), (&there, &here)] {
        await_that("the relays are linked", || from.status().runs[RUN.0].sites.contains(&to.name));
    }
    let at = |site: &Site| format!("{}/{}", site.address, site.name);
    // Where the coordinator and the receiver are; the sender is at the other relay.
    std::env::set_var("XMML_RELAY", at(&there));
    let unordered = |spec: &mut xmml_core::spec::InstanceSpec| spec.check_order = false;
    let model = Model::by("relay")
        .submodel("a", "full:Oi numbers:Oi", 1)
        .submodel("b", "unread:S in:S", 1)
        .with("a", unordered)
        .with("b", unordered)
        .couple_with("a.full", "b.unread", |conduit| conduit.capacity = CAPACITY)
        .couple("a.numbers", "b.in");
    let run = Run::reachable(model, None, Some(&at(&there)));
    let b = run.join_by("relay", "b");
    std::env::set_var("XMML_RELAY", at(&here));
    let a = run.join_by("relay", "a");
    // Not within a scope: if the numbers do not come, it waits for ever.
    let sending = std::thread::spawn(move || {
        a.reuse().unwrap();
        let long = || Data::Text("x".repeat(LONG));
        for _ in 0..CAPACITY {
            a.send("full", None, long(), Stamps::default()).unwrap();
        }
        for number in 0..NUMBERS {
            send(&a, "numbers", number);
        }
        a.send("full", None, long(), Stamps::default()).unwrap();
        a.leave().unwrap();
    });
    b.reuse().unwrap();
    for number in 0..NUMBERS {
        match b.receive("in", None, Some(LIMIT)).unwrap() {
            Received::Message(message) => assert!(matches!(message.data, Data::Int(value) if value == number)),
            other => panic!("number {number} does not come: {other:?}"),
        }
    }
    // It was full all the time.
    let all = vec![(1, u64::from(CAPACITY)), (2, NUMBERS as u64)];
    run.event("a waits for room", |event| {
        matches!(event, Event::Waiting { instance, waits, sent, .. }
            if instance == "a" && waits[0].kind == WaitKind::Send && *sent == all)
    });
    for _ in 0..=CAPACITY {
        let message = receive_any(&b, "unread").expect("it does not end yet");
        assert!(matches!(message.data, Data::Text(text) if text.len() == LONG));
    }
    b.leave().unwrap();
    sending.join().unwrap();
    // That to the coordinator, and that of the conduits.
    assert_eq!(here.status().runs[RUN.0].opened, 2);
}
