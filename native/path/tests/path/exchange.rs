//! Patterns over several paths: cycles, parts that are scattered and gathered.

use std::time::Duration;

use xmml_path::{cycle, gather, scatter, Lane, Path, Received, Settings};

use crate::support::{pair, payload, streams, LIMIT};

/// Nothing comes so soon.
const SHORT: Option<Duration> = Some(Duration::from_millis(30));

fn two() -> ((Path, Path), (Path, Path)) {
    (pair(streams(2), Settings::default()), pair(streams(1), Settings::default()))
}

#[test]
fn a_cycle_sends_on_one_path_and_receives_from_the_other() {
    let ((right, right_there), (left, left_there)) = two();
    // Each path could give what is received, and each could take what is sent.
    right_there.post(Lane::Bulk, payload(1, 300_000)).unwrap();
    left_there.post(Lane::Bulk, payload(2, 200_000)).unwrap();
    let got = cycle(&right, &left, Lane::Bulk, payload(3, 400_000), LIMIT).unwrap();
    assert!(got == Received::Message(payload(2, 200_000)));
    assert!(right_there.receive(Lane::Bulk, LIMIT).unwrap() == Some(Received::Message(payload(3, 400_000))));
    assert_eq!(left_there.receive(Lane::Bulk, SHORT).unwrap(), None);
    assert!(right.receive(Lane::Bulk, LIMIT).unwrap() == Some(Received::Message(payload(1, 300_000))));
}

#[test]
fn parts_of_any_length_are_scattered_and_gathered_in_the_order_of_the_paths() {
    let ((one, one_there), (other, other_there)) = two();
    let parts = [payload(1, 5 << 20), payload(2, 150_001)];
    scatter(&[&one, &other], Lane::Bulk, parts.to_vec(), LIMIT).unwrap();
    assert!(gather(&[&one_there, &other_there], Lane::Bulk, LIMIT).unwrap() == parts);
    scatter(&[&other, &one], Lane::Bulk, parts.to_vec(), LIMIT).unwrap();
    assert!(gather(&[&other_there, &one_there], Lane::Bulk, LIMIT).unwrap() == parts);
}

#[test]
fn a_scatter_that_is_late_sends_nothing() {
    let narrow = Settings { window: 1 << 20, queue: 1 << 20, ..streams(1) };
    let (one, full) = (pair(streams(1), Settings::default()), pair(narrow.clone(), narrow));
    for number in 0..2 {
        full.0.post(Lane::Bulk, payload(number, 4 << 20)).unwrap();
    }
    let parts = [payload(1, 100_000), payload(2, 100_000)];
    let late = scatter(&[&one.0, &full.0], Lane::Bulk, parts.to_vec(), SHORT).unwrap_err().to_string();
    assert!(late.contains("took no message within 0.03 s"), "{late}");
    one.0.post(Lane::Bulk, payload(9, 10)).unwrap();
    assert_eq!(one.1.receive(Lane::Bulk, LIMIT).unwrap(), Some(Received::Message(payload(9, 10))));
}
