//! The relay between two instances, and between them and their coordinator, ends and begins again while messages pass: each arrives,
//! once and in order, and neither instance is lost.
//!
//! `XMML_SOAK=1` ends it for two minutes instead of three times, and every ten seconds where the pauses are measured.

#[path = "../../native/core/tests/support/mod.rs"]
mod core_support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use core_support::proxy::{join_plainly, Fate, Proxy};
use core_support::{await_while_moving, receive, send, Model, Run, SECRET};
use mto::log::{Format, Level, Log};
use mto::relay::Relay;
use xmml_core::coordinator::Event;
use xmml_core::instance::Instance;
use xmml_core::runtime::link::PATIENCE;
use xmml_wire::handshake::TIMEOUT_S;
use xmml_wire::relay_key::RelayKey;
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
    relay.add_run("test run", &RelayKey::of(&SECRET), None).unwrap();
    let stop = relay.stop_flag();
    Serving { stop, thread: std::thread::spawn(move || relay.serve().unwrap()) }
}

/// An address where a relay can listen again and again; instances are told of it by the environment of the process, one test at a time.
fn known_relay() -> (String, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    std::env::set_var("XMML_RELAY", format!("{address}/here"));
    (address, turn)
}

/// `a` sends to `b`, without an order.
fn pair(methods: &[&str]) -> Model {
    let mut model = Model::new().submodel("a", "out:Oi", 1).submodel("b", "in:S", 1);
    model.methods = methods.iter().map(|name| (*name).to_owned()).collect();
    model.with("a", |spec| spec.check_order = false).with("b", |spec| spec.check_order = false).couple("a.out", "b.in")
}

/// Raises a flag also when the test fails, which would hang otherwise.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Numbers go from a to b while something is done, which gets how many have come; each comes once and in order. Returns how many came.
fn numbers_pass(a: &Instance, b: &Instance, meanwhile: impl FnOnce(&AtomicU64)) -> u64 {
    let (done, passed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ending = Ending(&done);
        let sending = scope.spawn(|| {
            a.reuse().unwrap();
            let mut value = 0;
            while !done.load(Ordering::Relaxed) {
                send(a, "out", value);
                value += 1;
            }
            a.leave().unwrap();
            value
        });
        let receiving = scope.spawn(|| {
            b.reuse().unwrap();
            let mut expected = 0;
            while let Some(value) = receive(b, "in") {
                assert_eq!(value, expected, "MESSAGES WRONG");
                expected += 1;
                passed.store(expected as u64, Ordering::Relaxed);
            }
            b.leave().unwrap();
            expected
        });
        meanwhile(&passed);
        drop(ending);
        let came = receiving.join().unwrap();
        assert_eq!(came, sending.join().unwrap(), "MESSAGES WRONG: what came is what was sent");
        came as u64
    })
}

/// Waits until so many more have come.
fn await_more(passed: &AtomicU64, more: u64) {
    let come = || passed.load(Ordering::Relaxed);
    let before = come();
    await_while_moving("messages pass", come, || (come() >= before + more).then_some(()));
}

#[test]
fn every_message_arrives_once_and_in_order_while_the_relay_is_killed_again_and_again() {
    let (address, _turn) = known_relay();
    let run = Run::reachable(pair(&["relay"]), None, Some(&format!("{address}/here")));
    let mut serving = Some(serve_at(&address));
    let (a, b) = (run.join_by("relay", "a"), run.join_by("relay", "b"));
    let mut kills = 0;
    let came = numbers_pass(&a, &b, |passed| {
        let until = Instant::now() + Duration::from_secs(120);
        while if is_long() { Instant::now() < until } else { kills < 3 } {
            // Messages pass again before the next kill.
            await_more(passed, 200);
            serving.take().expect("it serves").kill();
            serving = Some(serve_at(&address));
            kills += 1;
        }
    });
    println!("{kills} kills, {came} messages");
    for name in ["a", "b"] {
        run.event("it has left", |event| matches!(event, Event::Left { instance, .. } if instance == name));
    }
    let events = run.drain();
    assert!(events.iter().any(|event| matches!(event, Event::Back { .. })), "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, Event::Lost { .. })), "{events:?}");
    serving.expect("it serves").kill();
    assert!(came >= 600);
}

/// The address is that of a receiver behind a firewall that answers nothing. The sender dials the relay again while it waits for the address,
/// and not only when that has timed out.
#[test]
fn a_relay_that_is_back_is_found_at_once_though_another_address_of_the_receiver_is_silent() {
    let (address, _turn) = known_relay();
    let silent = Proxy::new(|_, _| Fate { silent_after: Some(0), ..Fate::default() });
    let run = Run::of(pair(&["tcp", "relay"]));
    let mut serving = Some(serve_at(&address));
    let (a, b) = (join_plainly(&run, "a"), silent.join_behind(&run, "b"));
    let mut pauses = Vec::new();
    numbers_pass(&a, &b, |passed| {
        for _ in 0..if is_long() { 12 } else { 3 } {
            await_more(passed, 200);
            if is_long() {
                std::thread::sleep(Duration::from_millis(8500)); // nine to ten seconds from one kill to the next
            }
            serving.take().expect("it serves").kill();
            // The sender finds it away once at least.
            std::thread::sleep(PATIENCE + Duration::from_millis(250));
            serving = Some(serve_at(&address));
            let began = Instant::now();
            await_more(passed, 1);
            pauses.push(began.elapsed());
        }
    });
    serving.expect("it serves").kill();
    println!("the longest pause behind the return of the relay was {:?}: {pauses:?}", pauses.iter().max());
    match is_long() {
        true => assert!(pauses.iter().all(|pause| *pause < Duration::from_secs(2)), "{pauses:?}"),
        // On a busy machine one of them may take as long as a handshake at most.
        false => assert!(pauses.iter().any(|pause| *pause < Duration::from_secs(TIMEOUT_S - 2)), "{pauses:?}"),
    }
}
