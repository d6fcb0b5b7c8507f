//! What must hold when things go wrong or come together in an unlucky way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xmml_core::coordinator::Event;

use crate::support::{await_that, filter, receive, send, Model, Run};

/// Fails the test if `work` does not end, instead of hanging it.
fn ends(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(work);
    await_that("the work ends", || thread.is_finished());
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn conduits_between_the_same_two_may_use_different_methods() {
    ends(|| {
        let steps = 200;
        let model = Model::new()
            .submodel("a", "o:Oi p:Oi", steps)
            .submodel("b", "i:S j:S", steps)
            .couple_with("a.o", "b.i", |conduit| (conduit.capacity, conduit.methods) = (2, vec!["unix".into()]))
            .couple_with("a.p", "b.j", |conduit| (conduit.capacity, conduit.methods) = (2, vec!["tcp".into()]));
        let run = Run::of(model);
        let (a, b) = (run.join("a"), run.join("b"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(a.reuse().unwrap());
                while let Some(t) = a.next_step().unwrap() {
                    send(&a, "o", t as i64);
                    send(&a, "p", -t as i64);
                }
                a.leave().unwrap();
            });
            assert!(b.reuse().unwrap());
            while let Some(t) = b.next_step().unwrap() {
                assert_eq!(receive(&b, "i"), Some(t as i64));
                assert_eq!(receive(&b, "j"), Some(-t as i64));
            }
            b.leave().unwrap();
        });
    });
}

#[test]
fn asking_for_a_message_again_and_again_gives_the_sender_its_room_back() {
    ends(|| {
        let model = Model::new()
            .submodel("a", "o:out go:out", 1)
            .submodel("b", "i:in go:in", 1)
            .with("a", |spec| spec.check_order = false)
            .with("b", |spec| spec.check_order = false)
            .couple_with("a.o", "b.i", |conduit| conduit.capacity = 64)
            .couple("a.go", "b.go");
        let run = Run::of(model);
        let (a, b) = (run.join("a"), run.join("b"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                a.reuse().unwrap();
                for number in 0..80 {
                    send(&a, "o", number);
                }
                send(&a, "go", 0);
                a.leave().unwrap();
            });
            b.reuse().unwrap();
            (0..20).for_each(|number| assert_eq!(receive(&b, "i"), Some(number)));
            while !b.has_message("go", None).unwrap() {
                std::thread::sleep(Duration::from_millis(1));
            }
            (20..80).for_each(|number| assert_eq!(receive(&b, "i"), Some(number)));
            assert_eq!(receive(&b, "go"), Some(0));
            b.leave().unwrap();
        });
    });
}

#[test]
fn very_many_senders_at_one_door_all_come_in_and_nothing_is_lost() {
    crate::support::descriptors::allow_descriptors(4096); // the tests of this program that run at the same time need some, too
    ends(|| {
        let senders = 160;
        let mut model = Model::new().mapper("b", &format!("i:in*{senders}"));
        for copy in 0..senders {
            let name = format!("a[{copy}]");
            model = model.submodel(&name, "o:Of", 1).couple(&format!("{name}.o"), "b.i");
        }
        let run = Run::of(model);
        std::thread::scope(|scope| {
            let many: Vec<_> = (0..senders).map(|copy| (copy, run.join(&format!("a[{copy}]")))).collect();
            for (copy, a) in many {
                scope.spawn(move || {
                    a.reuse().unwrap();
                    send(&a, "o", copy);
                    a.leave().unwrap();
                });
            }
            let b = run.join("b");
            assert!(b.reuse().unwrap());
            for copy in 0..senders as u32 {
                match b.receive("i", Some(copy), None).unwrap() {
                    xmml_core::instance::Received::Message(message) => {
                        assert_eq!(message.data, xmml_wire::data::Data::Int(i64::from(copy)));
                    }
                    other => panic!("copy {copy}: {other:?}"),
                }
            }
            assert!(!b.reuse().unwrap());
            b.leave().unwrap();
        });
        let refused: Vec<Event> =
            run.drain().into_iter().filter(|event| matches!(event, Event::Refused { .. })).collect();
        assert!(refused.is_empty(), "nobody is turned away: {refused:?}");
    });
}

#[test]
fn the_last_words_of_the_coordinator_are_heard_by_who_is_just_speaking() {
    ends(|| {
        let run = Run::of(Model::new().submodel("a", "o:Of", 1).submodel("b", "i:finit", 1).couple("a.o", "b.i"));
        let b = run.join("b");
        let speak = AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while speak.load(Ordering::Relaxed) {
                    b.warn("still here");
                }
            });
            run.event("b speaks", |event| matches!(event, Event::Warning { .. }));
            run.coordinator.abort("somebody else failed");
            run.coordinator.close();
            let error = b.reuse().unwrap_err().to_string();
            speak.store(false, Ordering::Relaxed);
            assert!(error.contains("somebody else failed"), "{error}");
        });
    });
}

#[test]
fn a_wait_is_reported_anew_when_a_filter_swallows_what_came() {
    ends(|| {
        let model =
            Model::new()
                .submodel("a", "o:Oi", 3)
                .submodel("b", "i:S", 2)
                .couple_with("a.o", "b.i", |conduit| conduit.receiver_filters = vec![filter("drop", 2.0)]);
        let run = Run::of(model);
        let (a, b) = (run.join("a"), run.join("b"));
        let waits_after = |taken: u64| {
            run.event("b waits", |event| match event {
                Event::Waiting { instance, received, .. } => instance == "b" && *received == [(1, taken)],
                _ => false,
            });
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                b.reuse().unwrap();
                (0..2).for_each(|k| assert_eq!(receive(&b, "i"), Some(2 * k)));
                b.leave().unwrap();
            });
            a.reuse().unwrap();
            send(&a, "o", 0);
            waits_after(1);
            send(&a, "o", 1);
            waits_after(2);
            send(&a, "o", 2);
            a.leave().unwrap();
        });
    });
}
