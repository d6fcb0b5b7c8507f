//! Peers that are gone without a word, and peers that only seem to be.

mod support;

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::Once;
use std::time::{Duration, Instant};

use support::proxy::{join_plainly, Fate, Proxy};
use support::{receive, send, Model, Run};
use xmml_core::coordinator::{CoordinatorAddress, Event};
use xmml_core::instance::{Instance, JoinOptions, Stamps};

/// Instead of half a minute. Signs of life are given six times as often.
const LIMIT_S: f64 = 12.0;

/// Instead of a minute.
const AWAY_LIMIT_S: f64 = 6.0;

/// Instead of half a minute.
const CONNECT_LIMIT_S: f64 = 12.0;

/// Shortens the limits, for all tests of this program.
fn shorten() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::env::set_var("XMML_SILENCE_LIMIT_S", LIMIT_S.to_string());
        std::env::set_var("XMML_AWAY_LIMIT_S", AWAY_LIMIT_S.to_string());
        std::env::set_var("XMML_CONNECT_LIMIT_S", CONNECT_LIMIT_S.to_string());
    });
}

fn pair(steps: u64) -> Model {
    Model::by("tcp").submodel("a", "out:Oi", steps).submodel("b", "in:S", steps).couple("a.out", "b.in")
}

fn sleep_s(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

#[test]
fn a_connection_that_falls_silent_is_given_up_and_made_again_without_loss() {
    shorten();
    let run = Run::of(pair(300));
    let proxy =
        Proxy::new(|number, _| Fate { silent_after: (number < 1).then_some(2_000 + 500 * number), ..Fate::default() });
    std::thread::scope(|scope| {
        let receiver = proxy.join_behind(&run, "b");
        scope.spawn(|| {
            let me = join_plainly(&run, "a");
            me.reuse().unwrap();
            for value in 0..300 {
                send(&me, "out", value);
            }
            me.leave().unwrap();
        });
        receiver.reuse().unwrap();
        for value in 0..300 {
            assert_eq!(receive(&receiver, "in"), Some(value));
        }
        receiver.leave().unwrap();
    });
    assert!(proxy.connections.load(Ordering::Relaxed) >= 2);
}

#[test]
fn neither_a_pause_of_both_nor_a_receiver_that_computes_is_taken_for_silence() {
    shorten();
    let run = Run::of(pair(2));
    let proxy = Proxy::new(|_, _| Fate::default());
    std::thread::scope(|scope| {
        let receiver = proxy.join_behind(&run, "b");
        scope.spawn(|| {
            let me = join_plainly(&run, "a");
            me.reuse().unwrap();
            send(&me, "out", 0);
            sleep_s(1.5 * LIMIT_S);
            send(&me, "out", 1);
            me.leave().unwrap();
        });
        receiver.reuse().unwrap();
        sleep_s(1.2 * LIMIT_S);
        assert_eq!(receive(&receiver, "in"), Some(0));
        assert_eq!(receive(&receiver, "in"), Some(1));
        receiver.leave().unwrap();
    });
    assert_eq!(proxy.connections.load(Ordering::Relaxed), 1, "it was made again");
}

#[test]
fn an_instance_whose_connection_to_the_coordinator_falls_silent_is_away_then_lost_and_one_that_is_idle_is_not() {
    shorten();
    let run = Run::listening(Model::new().submodel("a", "", 2).submodel("b", "", 2), Some("127.0.0.1:0"));
    let direct: CoordinatorAddress =
        run.coordinator.addresses().iter().find_map(|text| text.parse().ok().filter(is_tcp)).unwrap();
    let proxy = Proxy::new(|_, _| Fate::default());
    proxy.lead_to(&direct.address);
    let behind = CoordinatorAddress { address: proxy.address.clone(), ..direct.clone() };
    let join = |name: &str, address: &CoordinatorAddress| {
        Instance::join(JoinOptions { coordinator: Some(address.to_string()), ..run.options(name) }).unwrap()
    };
    let idle = join("b", &direct);
    let silent = join("a", &behind);
    let began = Instant::now();
    silent.reuse().unwrap();
    proxy.silence.store(true, Ordering::Relaxed);
    let event = run.event("a is away", |event| matches!(event, Event::Away { .. }));
    assert!(matches!(event, Event::Away { instance, .. } if instance == "a"));
    assert!(began.elapsed().as_secs_f64() > 0.5 * LIMIT_S);
    run.event("people are told why", |event| {
        matches!(event, Event::Warning { instance, text } if instance == "a" && text.starts_with("nothing was heard"))
    });
    let event = run.event("a is lost", |event| matches!(event, Event::Lost { .. }));
    assert!(matches!(event, Event::Lost { instance } if instance == "a"));
    assert!(!run.drain().iter().any(|event| matches!(event, Event::Away { .. } | Event::Lost { .. })));
    idle.reuse().unwrap();
    idle.leave().unwrap();
}

fn is_tcp(address: &CoordinatorAddress) -> bool {
    address.method == "tcp"
}

/// The process that is stopped: this program once more.
#[test]
#[ignore = "a role that another test starts"]
fn role() {
    if std::env::var_os("XMML_TEST_ROLE").is_none() {
        return;
    }
    let me =
        Instance::join(JoinOptions { coordinator: None, instance: None, secret_file: None, language: "rust" }).unwrap();
    me.reuse().unwrap();
    for value in 0..10 {
        send(&me, "out", value);
        sleep_s(0.2);
    }
    me.leave().unwrap();
    std::process::exit(0);
}

#[test]
fn a_process_that_is_stopped_for_less_than_the_limit_is_not_lost() {
    shorten();
    let run = Run::of(pair(10));
    let proxy = Proxy::new(|_, _| Fate::default());
    let receiver = proxy.join_behind(&run, "b");
    let options = run.options("a");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "role", "--nocapture"])
        .env("XMML_TEST_ROLE", "a")
        .env("XMML_INSTANCE", "a")
        .env("XMML_COORDINATOR", options.coordinator.unwrap())
        .env("XMML_SECRET_FILE", options.secret_file.unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    receiver.reuse().unwrap();
    assert_eq!(receive(&receiver, "in"), Some(0));
    let signal = |signal| {
        // SAFETY: the child is ours and was not waited for.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
    };
    let stopped = Instant::now();
    signal(libc::SIGSTOP);
    sleep_s(0.3 * LIMIT_S);
    signal(libc::SIGCONT);
    let stopped_s = stopped.elapsed().as_secs_f64();
    for value in 1..10 {
        assert_eq!(receive(&receiver, "in"), Some(value));
    }
    receiver.leave().unwrap();
    assert!(child.wait().unwrap().success());
    // A busy machine may have let it go on later.
    let is_made_again = proxy.connections.load(Ordering::Relaxed) > 1;
    assert!(!is_made_again || stopped_s > 0.8 * LIMIT_S, "it was made again although it stood for {stopped_s} s only");
}

/// Whoever sends learns it when the limit is over, with what was tried and how often.
#[test]
fn a_receiver_that_cannot_be_reached_is_given_up_at_the_limit() {
    shorten();
    let run = Run::of(pair(1000));
    let began = Instant::now();
    let proxy = Proxy::new(|_, _| Fate { cut_after: Some(0), ..Fate::default() });
    let _receiver = proxy.join_behind(&run, "b");
    let me = join_plainly(&run, "a");
    me.reuse().unwrap();
    let error = (0..1000).find_map(|value: i64| me.send("out", None, value.into(), Stamps::default()).err());
    let (error, took_s) = (error.expect("it gives up").to_string(), began.elapsed().as_secs_f64());
    assert!(error.contains("b cannot be reached") && error.contains("tried") && error.contains("tcp"), "{error}");
    // Not before, and not as late as usual.
    assert!((CONNECT_LIMIT_S - 1.0..30.0).contains(&took_s), "{took_s} s: {error}");
}
