//! The relay between two instances, and between them and their coordinator, ends and begins again while messages pass: each arrives,
//! once and in order, and neither instance is lost.
//!
//! `XMML_SOAK=1` ends it for two minutes instead of three times.

#[path = "../../native/core/tests/support/mod.rs"]
mod core_support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use core_support::{await_while_moving, receive, send, Model, Run, SECRET};
use mto::log::{Format, Level, Log};
use mto::relay::Relay;
use xmml_core::coordinator::Event;
use xmml_wire::wakeup::EventFd;

fn is_long() -> bool {
    std::env::var("XMML_SOAK").is_ok_and(|soak| soak != "0")
}

/// A relay that serves in a thread.
struct Serving {
    stop: Arc<EventFd>,
    thread: JoinHandle<()>,
}

impl Serving {
    fn kill(self) {
        self.stop.raise();
        self.thread.join().unwrap();
    }
}

fn serve_at(address: &str) -> Serving {
    let mut relay = Relay::new("here", Log::to_memory(Format::Text, Level::Info)).unwrap();
    relay.listen(address).unwrap();
    relay.add_run("test run", &SECRET, None).unwrap();
    let stop = relay.stop_flag();
    Serving { stop, thread: std::thread::spawn(move || relay.serve().unwrap()) }
}

#[test]
fn every_message_arrives_once_and_in_order_while_the_relay_is_killed_again_and_again() {
    let address = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };
    let relay = format!("{address}/here");
    std::env::set_var("XMML_RELAY", &relay);
    let run = Run::reachable(
        Model::by("relay")
            .submodel("a", "out:Oi", 1)
            .submodel("b", "in:S", 1)
            .with("a", |spec| spec.check_order = false)
            .with("b", |spec| spec.check_order = false)
            .couple("a.out", "b.in"),
        None,
        Some(&relay),
    );
    let (done, passed) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut serving = Some(serve_at(&address));
    let mut kills = 0;
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let me = run.join_by("relay", "a");
            me.reuse().unwrap();
            let mut value = 0;
            while !done.load(Ordering::Relaxed) {
                send(&me, "out", value);
                value += 1;
            }
            me.leave().unwrap();
            value
        });
        let receiving = scope.spawn(|| {
            let me = run.join_by("relay", "b");
            me.reuse().unwrap();
            let mut expected = 0;
            while let Some(value) = receive(&me, "in") {
                assert_eq!(value, expected, "MESSAGES WRONG");
                expected += 1;
                passed.store(expected as u64, Ordering::Relaxed);
            }
            me.leave().unwrap();
            expected
        });
        let until = Instant::now() + Duration::from_secs(120);
        while if is_long() { Instant::now() < until } else { kills < 3 } {
            // Messages pass again before the next kill.
            let before = passed.load(Ordering::Relaxed);
            let come = || passed.load(Ordering::Relaxed);
            await_while_moving(&format!("messages pass after {kills} kills"), come, || {
                (come() >= before + 200 || receiving.is_finished()).then_some(())
            });
            serving.take().expect("it serves").kill();
            serving = Some(serve_at(&address));
            kills += 1;
        }
        done.store(true, Ordering::Relaxed);
        let came = receiving.join().unwrap();
        assert_eq!(came, sending.join().unwrap(), "MESSAGES WRONG: what came is what was sent");
        println!("{kills} kills, {came} messages");
    });
    for name in ["a", "b"] {
        run.event("it has left", |event| matches!(event, Event::Left { instance, .. } if instance == name));
    }
    let events = run.drain();
    assert!(events.iter().any(|event| matches!(event, Event::Back { .. })), "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, Event::Lost { .. })), "{events:?}");
    serving.expect("it serves").kill();
    assert!(passed.load(Ordering::Relaxed) >= 600);
}
