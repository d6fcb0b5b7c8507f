//! The method of a conduit is changed while messages pass, and what becomes of changes that are asked for.

mod support;

use support::{receive, send};
use xmml_core::coordinator::Event;

const METHODS: [&str; 8] = ["shm", "unix", "tcp", "inproc", "tcp", "unix", "inproc", "shm"];

include!("suites/changing.rs");

fn run_of(model: Model) -> Run {
    Run::of(model)
}

#[test]
fn the_holder_of_the_coordinator_changes_a_method_and_hears_what_became_of_it() {
    let run = Run::of(stream(16));
    let done = AtomicBool::new(false);
    pass_numbers(&run, &done, &[10], |_, _| {
        for method in ["tcp", "shm"] {
            run.event("it goes", |event| matches!(event, Event::Conduits { conduits, .. } if conduits.contains(&1)));
            run.coordinator.change(1, &only(method)).unwrap();
            let changed = run.event("it changes", |event| matches!(event, Event::Changed { conduit: 1, .. }));
            assert!(
                matches!(&changed, Event::Changed { method: Some(now), problem: None, .. } if now == method),
                "{changed:?}"
            );
        }
    });
}

#[test]
fn a_change_takes_effect_before_the_partner_joins() {
    let run = Run::of(stream(16));
    let a = run.join("a");
    a.set_methods("out", &only("tcp")).unwrap();
    assert_eq!(method_of(&a, "out"), None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            a.reuse().unwrap();
            send(&a, "out", 5);
            a.leave().unwrap();
        });
        let b = run.join("b");
        b.reuse().unwrap();
        assert_eq!(receive(&b, "in"), Some(5));
        assert_eq!(method_of(&b, "in").as_deref(), Some("tcp"));
        assert_eq!(receive(&b, "in"), None);
        b.leave().unwrap();
    });
}

#[test]
fn other_conduits_between_the_same_two_keep_their_method() {
    let run = Run::of(stream(16));
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    for turn in 0..10 {
        let method = ["tcp", "shm"][turn as usize % 2];
        a.set_methods("out", &only(method)).unwrap();
        send(&a, "out", turn);
        send(&a, "other", -turn);
        assert_eq!(receive(&b, "more"), Some(-turn));
        assert_eq!(receive(&b, "in"), Some(turn));
        assert_eq!(method_of(&a, "other").as_deref(), Some("inproc"));
        assert_eq!(method_of(&a, "out").as_deref(), Some(method));
        assert_eq!(method_of(&b, "more").as_deref(), Some("inproc"));
        assert_eq!(method_of(&b, "in").as_deref(), Some(method));
    }
    std::thread::scope(|scope| {
        scope.spawn(|| a.leave().unwrap());
        b.leave().unwrap();
    });
}

#[test]
fn an_unknown_method_is_refused_with_a_suggestion() {
    let run = Run::of(stream(16));
    let a = run.join("a");
    let error = a.set_methods("out", &only("tpc")).unwrap_err().to_string();
    assert!(error.contains("did you mean tcp?"), "{error}");
    let error = run.coordinator.change(1, &only("unx")).unwrap_err().to_string();
    assert!(error.contains("did you mean unix?"), "{error}");
}

#[test]
fn of_changes_asked_for_in_a_row_the_last_one_holds_and_each_is_answered() {
    let run = Run::of(stream(16));
    let done = AtomicBool::new(false);
    let methods = ["tcp", "shm", "tcp", "unix", "unix", "inproc", "shm"];
    pass_numbers(&run, &done, &[10, 5000], |a, _| {
        for turn in 0..changes() {
            let wanted: Vec<&str> = (0..3).map(|number| methods[(turn + number * number) % methods.len()]).collect();
            let asked: Vec<u64> =
                wanted.iter().map(|method| run.coordinator.change(1, &only(method)).unwrap()).collect();
            for (number, method) in asked.iter().zip(&wanted) {
                let answer =
                    run.event("its answer", |event| matches!(event, Event::Changed { change, .. } if change == number));
                let Event::Changed { method: now, problem, .. } = answer else { unreachable!() };
                let is_last = number == asked.last().unwrap();
                let overtaken = problem.as_ref().is_some_and(|problem| problem.contains("another change came"));
                assert!(problem.is_none() || (overtaken && !is_last), "{method} of {wanted:?}: {problem:?}");
                assert!(overtaken || now.as_deref() == Some(method), "{method} of {wanted:?}: {now:?}");
            }
            assert_eq!(method_of(a, "out").as_deref(), wanted.last().copied(), "{wanted:?}");
        }
    });
}

#[test]
fn a_change_whose_sender_leaves_is_answered() {
    let run = Run::of(stream(16));
    let (a, b) = (run.join("a"), run.join("b"));
    a.leave().unwrap();
    let problem = b.set_methods("in", &only("tcp")).unwrap_err().to_string();
    assert!(problem.contains("a has left"), "{problem}");
}
