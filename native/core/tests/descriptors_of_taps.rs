//! Taps that came and went leave nothing open in their writers. It counts the descriptors of its process, so it is alone in it.

mod support;

use std::sync::Arc;

use support::taps::{free, next, pair, shown, tap};
use support::{await_that, send};
use xmml_core::coordinator::Event;

#[test]
fn taps_that_came_and_went_leave_no_descriptors() {
    let run = pair("unix");
    let (a, _b) = (free(&run, "a"), free(&run, "b"));
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut before = 0;
    for number in 0..12 {
        let name = format!("tap {number}");
        let mut spec = tap("unix", &["a"], "", 1 << 20);
        spec.name.clone_from(&name);
        spec.conduits.iter_mut().for_each(|conduit| Arc::make_mut(conduit).receiver.clone_from(&name));
        run.coordinator.add_tap(spec);
        let tap = run.join(&name);
        shown(&run, "a");
        send(&a, "out", number);
        assert!(next(&tap).is_some());
        tap.leave().unwrap();
        run.event("it left", |event| matches!(event, Event::Left { instance, .. } if *instance == name));
        send(&a, "out", number);
        drop(tap);
        if number == 1 {
            before = count();
        }
    }
    await_that("descriptors go", || count() <= before + 1);
}
