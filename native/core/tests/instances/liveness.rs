//! What an instance tells about itself while it runs and waits.

use std::time::Instant;

use xmml_core::coordinator::{Event, WaitKind};
use xmml_wire::error::Error;

use crate::support::{await_that, narrow, receive, send, Model, Run};

#[test]
fn a_wait_is_confirmed_while_it_lasts_and_not_after() {
    let run = Run::of(narrow(2, 8));
    let a = run.join("a");
    a.reuse().unwrap();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let me = run.join("b");
            me.reuse().unwrap();
            assert_eq!(receive(&me, "in"), Some(1));
            me
        });
        let event = run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
        let Event::Waiting { epoch, waits, .. } = event else { unreachable!() };
        assert_eq!((waits[0].conduit, waits[0].kind), (1, WaitKind::Receive));
        run.coordinator.confirm("b", epoch);
        run.event("b confirms", |event| matches!(event, Event::Confirmed { still: true, .. }));
        send(&a, "out", 1);
        run.event("b goes on", |event| matches!(event, Event::Resumed { epoch: other, .. } if *other == epoch));
        let me = receiver.join().unwrap();
        run.coordinator.confirm("b", epoch);
        run.event("b denies", |event| matches!(event, Event::Confirmed { still: false, .. }));
        drop(me);
    });
}

fn messages_reported(event: Event) -> Option<i64> {
    match event {
        Event::Progress { messages_sent, .. } => Some(messages_sent as i64),
        _ => None,
    }
}

#[test]
fn progress_is_reported_at_most_four_times_a_second_and_at_the_end() {
    let run = Run::of(narrow(100_000, 100_000));
    let begin = Instant::now();
    let me = run.join("a");
    me.reuse().unwrap();
    let (mut sent, mut reports) = (0, vec![]);
    await_that("progress is reported again and again", || {
        me.next_step().unwrap();
        send(&me, "out", sent);
        sent += 1;
        reports.extend(run.drain().into_iter().filter_map(messages_reported));
        reports.len() >= 4
    });
    while reports.last() != Some(&sent) {
        let event = run.event("progress is reported", |event| matches!(event, Event::Progress { .. }));
        reports.extend(messages_reported(event));
    }
    let most = 2 + begin.elapsed().as_millis() / 250;
    assert!(reports.len() as u128 <= most, "{most} at most: {reports:?}");
    assert!(reports.is_sorted(), "{reports:?}");
}

#[test]
fn an_interrupt_check_ends_a_wait() {
    let run = Run::of(narrow(2, 8));
    let me = run.join("b");
    me.set_interrupt(Box::new(|| true));
    me.reuse().unwrap();
    assert!(matches!(me.receive("in", None, None), Err(Error::Interrupted)));
}

#[test]
fn an_instance_outlives_its_coordinator_as_long_as_it_need_not_wait() {
    let run = Run::of(narrow(3, 8));
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    send(&a, "out", 1);
    assert_eq!(receive(&b, "in"), Some(1));
    run.coordinator.close();
    send(&a, "out", 2);
    assert_eq!(receive(&b, "in"), Some(2));
}

#[test]
fn methods_tell_what_was_chosen_and_why_others_were_not() {
    let run = Run::of(Model::by("tcp").submodel("a", "out:Oi", 2).submodel("b", "in:S", 2).couple("a.out", "b.in"));
    let (a, b) = (run.join("a"), run.join("b"));
    assert_eq!(a.methods("out").unwrap()[0].name, "a.out -> b.in");
    run.event(
        "a method is chosen",
        |event| matches!(event, Event::Conduits { method, conduits, .. } if method == "tcp" && *conduits == [1]),
    );
    assert_eq!(a.methods("out").unwrap()[0].chosen.as_deref(), Some("tcp"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    send(&a, "out", 1);
    receive(&b, "in");
    assert_eq!(b.methods("in").unwrap()[0].chosen.as_deref(), Some("tcp"));
}

#[test]
fn a_wait_is_withdrawn_and_none_is_reported_once_calls_come_from_a_second_thread() {
    let model = Model::new()
        .submodel("a", "question:Oi answer:S", 1)
        .submodel("b", "question:S answer:Oi", 1)
        .couple("a.question", "b.question")
        .couple("b.answer", "a.answer")
        .with("a", |spec| spec.check_order = false)
        .with("b", |spec| spec.check_order = false);
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receive(&a, "answer"));
        run.event("a waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "a"));
        assert!(!a.has_message("answer", None).unwrap());
        run.event("a may go on", |event| matches!(event, Event::Resumed { instance, .. } if instance == "a"));
        // Whoever begins to wait now is reported: by then the wait of a had been, too.
        let questioned = scope.spawn(|| receive(&b, "question"));
        run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
        a.warn("later");
        run.event("a speaks", |event| matches!(event, Event::Warning { text, .. } if text == "later"));
        let events = run.drain();
        assert!(!events.iter().any(|event| matches!(event, Event::Waiting { .. })), "{events:?}");
        send(&a, "question", 1);
        assert_eq!(questioned.join().unwrap(), Some(1));
        send(&b, "answer", 2);
        assert_eq!(waiting.join().unwrap(), Some(2));
    });
}
