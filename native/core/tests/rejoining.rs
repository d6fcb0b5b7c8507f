//! Connections to the coordinator that break while a run goes on: they are made again, and nothing that was said on them is lost or heard
//! twice.
//!
//! `XMML_SOAK=1` cuts 100 times instead of 5.

mod support;

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use support::by_hand::Client;
use support::proxy::{Fate, Proxy, Random};
use support::{receive, send, write_secret, Model, Run, LIMIT, SECRET};
use xmml_core::control::{Again, ToCoordinator, ToInstance};
use xmml_core::coordinator::{CoordinatorAddress, Event};
use xmml_core::instance::{Instance, JoinOptions};
use xmml_wire::error::Result;
use xmml_wire::handshake::Role;

/// Nobody is away for so long, however busy the machine is.
const LONG_S: f64 = 60.0;

/// As a rule a thread waits after so long; if one does not yet, the test passes as well.
const A_MOMENT: Duration = Duration::from_millis(50);

/// The environment is of the process: one run at a time is told how long its instances may be away.
static STARTING: Mutex<()> = Mutex::new(());

/// A run that is reached by TCP, and whose instances may be away for so long.
fn run_of(model: Model, away_limit_s: f64) -> Run {
    let _alone = STARTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    std::env::set_var("XMML_AWAY_LIMIT_S", away_limit_s.to_string());
    Run::listening(model, Some("127.0.0.1:0"))
}

fn by_tcp(run: &Run) -> CoordinatorAddress {
    let addresses = run.coordinator.addresses();
    addresses.iter().map(|text| text.parse::<CoordinatorAddress>().unwrap()).find(|each| each.method == "tcp").unwrap()
}

/// Joins as an instance that reaches the coordinator through the proxy only.
fn join_through(proxy: &Proxy, run: &Run, name: &str) -> Instance {
    try_join_through(proxy, run, name).unwrap()
}

fn try_join_through(proxy: &Proxy, run: &Run, name: &str) -> Result<Instance> {
    let direct = by_tcp(run);
    proxy.lead_to(&direct.address);
    let behind = CoordinatorAddress { address: proxy.address.clone(), ..direct };
    Instance::join(JoinOptions { coordinator: Some(behind.to_string()), ..run.options(name) })
}

/// A coordinator is nowhere any more, for those behind the proxy.
fn lead_nowhere(proxy: &Proxy) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    proxy.lead_to(&free.to_string());
    proxy.cut();
}

fn is_about(event: &Event, name: &str) -> Option<&'static str> {
    let (instance, what) = match event {
        Event::Away { instance, .. } => (instance, "away"),
        Event::Back { instance } => (instance, "back"),
        Event::Lost { instance } => (instance, "lost"),
        Event::Left { instance, .. } => (instance, "left"),
        _ => return None,
    };
    (instance == name).then_some(what)
}

fn wait_for(run: &Run, name: &str, what: &str) {
    run.event(&format!("{name} is {what}"), |event| is_about(event, name) == Some(what));
}

fn pair() -> Model {
    Model::new()
        .submodel("a", "ask:Oi answer:S", 0)
        .submodel("b", "ask:S answer:Oi", 0)
        .couple("a.ask", "b.ask")
        .couple("b.answer", "a.answer")
        .with("a", |spec| spec.check_order = false)
        .with("b", |spec| spec.check_order = false)
}

#[test]
fn cut_at_random_bytes_every_word_is_heard_once_and_in_order() {
    let strikes = if std::env::var_os("XMML_SOAK").is_some() { 100 } else { 5 };
    let mut random = Random(4711);
    let proxy = Proxy::new(move |_, struck| Fate {
        cut_after: (struck < strikes).then(|| 900 + random.below(12_000)),
        linger: Duration::from_millis(random.below(3) * 40),
        ..Fate::default()
    });
    let run = run_of(pair(), LONG_S);
    let (a, b) = (join_through(&proxy, &run, "a"), join_through(&proxy, &run, "b"));
    let steps = std::thread::scope(|scope| {
        scope.spawn(|| {
            b.reuse().unwrap();
            let mut heard = 0;
            while let Some(value) = receive(&b, "ask") {
                assert_eq!(value, heard);
                b.warn(&format!("{heard}"));
                // Now and then so long that the other one reports its wait.
                std::thread::sleep(Duration::from_millis(if heard % 40 == 39 { 150 } else { 1 }));
                send(&b, "answer", value);
                heard += 1;
            }
            b.leave().unwrap();
        });
        a.reuse().unwrap();
        let mut step = 0;
        while proxy.strikes.load(Ordering::Relaxed) < strikes || step < 100 {
            a.warn(&format!("{step}"));
            send(&a, "ask", step);
            assert_eq!(receive(&a, "answer"), Some(step));
            step += 1;
            assert!(step < 200_000, "the proxy does not strike");
        }
        a.leave().unwrap();
        step
    });
    for name in ["a", "b"] {
        wait_for(&run, name, "left");
    }
    let events = run.drain();
    for name in ["a", "b"] {
        let told: Vec<i64> = events
            .iter()
            .filter_map(|event| match event {
                Event::Warning { instance, text } if instance == name => text.parse().ok(),
                _ => None,
            })
            .collect();
        assert!(told.iter().copied().eq(0..steps), "{name} was heard to say {told:?}");
        assert!(!events.iter().any(|event| is_about(event, name) == Some("lost")), "{events:?}");
    }
    let count =
        |what| events.iter().filter(|event| ["a", "b"].iter().any(|name| is_about(event, name) == what)).count();
    assert!(count(Some("away")) > 0 && count(Some("away")) >= count(Some("back")), "{events:?}");
}

/// Where a thousand come at once, the coordinator may not get round to each of them in the time that a handshake has.
#[test]
fn an_instance_that_is_not_answered_in_time_tries_again_until_it_is() {
    let proxy = Proxy::new(|number, _| Fate { silent_after: (number == 0).then_some(0), ..Fate::default() });
    let run = run_of(Model::new().submodel("a", "", 1), LONG_S);
    let a = join_through(&proxy, &run, "a");
    assert!(proxy.connections.load(Ordering::Relaxed) > 1, "the first connection carries nothing");
    a.reuse().unwrap();
    a.leave().unwrap();
}

/// A bit in the nonce of the first frame of either end: behind its head, and the versions.
const IN_NONCE: u64 = 8 * 40;
/// One of the kind of that frame, and one of the lowest version that is spoken.
const IN_KIND: u64 = 8 * 8;
const IN_VERSIONS: u64 = 8 * 24 + 1;

#[test]
fn an_instance_whose_handshake_was_changed_on_its_way_joins_over_another_connection_and_people_are_told() {
    for bit in [IN_NONCE, IN_KIND, IN_VERSIONS] {
        for is_answer in [false, true] {
            let proxy = Proxy::new(move |number, _| {
                let bit = (number == 0).then_some(bit);
                let [flip, flip_answer] = if is_answer { [None, bit] } else { [bit, None] };
                Fate { flip, flip_answer, ..Fate::default() }
            });
            let run = run_of(Model::new().submodel("a", "", 1), LONG_S);
            let a = join_through(&proxy, &run, "a");
            assert_eq!(proxy.strikes.load(Ordering::Relaxed), 1);
            run.event("people are told", |event| {
                matches!(event, Event::Warning { instance, text } if instance == "a"
                    && text.starts_with("the coordinator: tcp:") && text.ends_with("; joined over a new connection"))
            });
            a.reuse().unwrap();
            a.leave().unwrap();
        }
    }
}

#[test]
fn an_instance_each_of_whose_handshakes_was_changed_on_its_way_fails_and_says_why() {
    let proxy = Proxy::new(|_, _| Fate { flip_answer: Some(IN_NONCE), ..Fate::default() });
    let run = run_of(Model::new().submodel("a", "", 1), LONG_S);
    let error = try_join_through(&proxy, &run, "a").err().unwrap().to_string();
    assert!(error.contains("a cannot join the run (tried 8 times in"), "{error}");
    assert!(error.contains("its proof is wrong") && error.contains("was changed on its way"), "{error}");
    assert_eq!(proxy.connections.load(Ordering::Relaxed), 8);
}

/// By a socket of the same host nobody can have changed anything.
#[test]
fn an_instance_with_the_secret_of_another_run_tries_once_where_nobody_is_on_the_way() {
    let run = Run::listening(Model::new().submodel("a", "", 1), Some("127.0.0.1:0"));
    let secret_file = std::env::temp_dir().join(format!("xmml-test-stranger-{}", std::process::id()));
    write_secret(&secret_file, &[8; 32]);
    for (method, tried) in [("unix", "tried once in"), ("tcp", "tried 8 times in")] {
        let stranger = JoinOptions { secret_file: Some(secret_file.clone()), ..run.options_by(method, "a") };
        let error = Instance::join(stranger).err().unwrap().to_string();
        assert!(error.contains(tried) && error.contains("it does not know the secret of this run"), "{error}");
    }
    std::fs::remove_file(secret_file).unwrap();
}

/// Each pause is at least half as long as planned, and the planned ones double from 10 ms on.
#[test]
fn connections_that_break_again_and_again_are_made_again_ever_more_slowly() {
    let proxy = Proxy::new(|_, _| Fate::default());
    let run = run_of(Model::new().submodel("a", "", 1), LONG_S);
    let a = join_through(&proxy, &run, "a");
    a.reuse().unwrap();
    let began = Instant::now();
    for number in 0..7 {
        proxy.cut();
        a.warn(&format!("{number}"));
        // It is said on the next connection, when the coordinator has taken the instance back.
        run.event("it is heard", |event| matches!(event, Event::Warning { text, .. } if *text == format!("{number}")));
    }
    let least = Duration::from_millis((10 + 20 + 40 + 80 + 160 + 320) / 2);
    assert!(began.elapsed() > least, "seven times within {:?}", began.elapsed());
    a.leave().unwrap();
}

/// A run in which `a` has just lost its only way to the coordinator, and `b` has not.
fn a_is_away() -> (Proxy, Run, Instance, Instance) {
    let proxy = Proxy::new(|_, _| Fate::default());
    let run = run_of(pair(), LONG_S);
    let (a, b) = (join_through(&proxy, &run, "a"), run.join("b"));
    a.reuse().unwrap();
    lead_nowhere(&proxy);
    wait_for(&run, "a", "away");
    (proxy, run, a, b)
}

#[test]
fn what_is_asked_while_the_coordinator_cannot_be_reached_is_answered_when_it_can() {
    let (proxy, run, a, _b) = a_is_away();
    let is_answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            a.set_methods("ask", &["unix".to_owned()]).unwrap();
            is_answered.store(true, Ordering::Relaxed);
        });
        std::thread::sleep(A_MOMENT);
        assert!(!is_answered.load(Ordering::Relaxed));
        proxy.lead_to(&by_tcp(&run).address);
    });
    wait_for(&run, "a", "back");
    assert_eq!(a.methods("ask").unwrap()[0].chosen.as_deref(), Some("unix"));
}

#[test]
fn an_instance_may_leave_while_the_coordinator_cannot_be_reached() {
    let proxy = Proxy::new(|_, _| Fate::default());
    let run = run_of(Model::new().submodel("a", "", 1), LONG_S);
    let a = join_through(&proxy, &run, "a");
    a.reuse().unwrap();
    lead_nowhere(&proxy);
    wait_for(&run, "a", "away");
    std::thread::scope(|scope| {
        scope.spawn(|| a.leave().unwrap());
        std::thread::sleep(A_MOMENT);
        proxy.lead_to(&by_tcp(&run).address);
    });
    wait_for(&run, "a", "left");
    assert!(!run.drain().iter().any(|event| is_about(event, "a") == Some("lost")));
}

#[test]
fn who_is_away_for_too_long_is_lost_and_is_told_so_by_its_waits() {
    let proxy = Proxy::new(|_, _| Fate::default());
    let run = run_of(pair(), 1.0);
    let (a, _b) = (join_through(&proxy, &run, "a"), run.join("b"));
    a.reuse().unwrap();
    let began = Instant::now();
    lead_nowhere(&proxy);
    let error = a.receive("answer", None, None).unwrap_err().to_string();
    assert!(began.elapsed() >= Duration::from_secs(1));
    let broke = error.strip_prefix("the coordinator: the connection to it broke ");
    assert!(broke.is_some_and(|when| when.contains(" s ago and could not be made again")), "{error}");
    assert!(error.contains("tried ") && error.contains(&proxy.address), "{error}");
    wait_for(&run, "a", "lost");
    run.event(
        "people are told",
        |event| matches!(event, Event::Warning { instance, text } if instance == "a" && text.contains("within 1 s")),
    );
}

#[test]
fn who_was_away_hears_of_the_end_of_the_run() {
    let (proxy, run, a, _b) = a_is_away();
    run.coordinator.abort("b failed");
    proxy.lead_to(&by_tcp(&run).address);
    let error = a.receive("answer", None, None).unwrap_err().to_string();
    assert!(error.contains("b failed"), "{error}");
}

#[test]
fn who_ends_without_leaving_is_lost_at_once() {
    let proxy = Proxy::new(|_, _| Fate::default());
    let run = run_of(pair(), LONG_S);
    let a = join_through(&proxy, &run, "a");
    a.reuse().unwrap();
    drop(a);
    wait_for(&run, "a", "lost");
    assert!(!run.drain().iter().any(|event| is_about(event, "a") == Some("away")));
}

fn client(run: &Run, name: &str) -> Client<TcpStream> {
    let address = by_tcp(run);
    let stream = TcpStream::connect(&address.address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    Client::dial(stream, &address.run, &SECRET, name, Role::Control, "coordinator").unwrap()
}

fn enter(run: &Run, name: &str) -> (Client<TcpStream>, Again) {
    let mut client = client(run, name);
    client.ask_to_join(1);
    match client.hear() {
        ToInstance::Welcome { again: Some(again), .. } => (client, again),
        other => panic!("no welcome that lets one come back: {other:?}"),
    }
}

#[test]
fn nobody_takes_the_place_of_another_who_is_here_or_away() {
    let run = run_of(pair(), LONG_S);
    let (mut first, again) = enter(&run, "a");
    first.say(&ToCoordinator::Warning { text: "one".into() });
    run.event("a speaks", |event| matches!(event, Event::Warning { text, .. } if text == "one"));
    let tries =
        [ToCoordinator::Rejoin { token: vec![1; 32], heard: 0 }, ToCoordinator::Rejoin { token: vec![], heard: 0 }];
    let refused = |run: &Run| {
        for message in &tries {
            let mut other = client(run, "a");
            other.say(message);
            assert!(matches!(other.hear(), ToInstance::Abort { reason } if reason.contains("another process is a")));
            run.event(
                "people are told",
                |event| matches!(event, Event::Warning { text, .. } if text.contains("tried to come back as a")),
            );
        }
        let mut other = client(run, "a");
        other.ask_to_join(2);
        assert!(matches!(other.hear(), ToInstance::Abort { reason } if reason.contains("has joined already")));
    };
    refused(&run);
    first.say(&ToCoordinator::Warning { text: "two".into() });
    run.event("a still speaks", |event| matches!(event, Event::Warning { text, .. } if text == "two"));
    drop(first);
    wait_for(&run, "a", "away");
    refused(&run);
    run.coordinator.grow(1, 9);
    let mut back = client(&run, "a");
    back.say(&ToCoordinator::Rejoin { token: again.token, heard: 0 });
    assert!(matches!(back.hear(), ToInstance::WelcomeBack { heard: 2 }));
    assert!(matches!(back.hear(), ToInstance::Grow { conduit: 1, capacity: 9 }));
    wait_for(&run, "a", "back");
}

#[test]
fn who_was_welcomed_and_has_spoken_cannot_join_once_more() {
    let run = run_of(pair(), LONG_S);
    // Its welcome may have been lost with its connection.
    let (_silent, _) = enter(&run, "a");
    let (mut second, _) = enter(&run, "a");
    second.say(&ToCoordinator::Warning { text: "here".into() });
    run.event("it is heard", |event| matches!(event, Event::Warning { text, .. } if text == "here"));
    let refused = || {
        let mut other = client(&run, "a");
        other.ask_to_join(1);
        assert!(matches!(other.hear(), ToInstance::Abort { reason } if reason.contains("has joined already")));
    };
    refused();
    drop(second);
    wait_for(&run, "a", "away");
    refused();
}

#[test]
fn who_comes_back_before_its_connection_is_known_to_be_broken_takes_its_own_place() {
    let run = run_of(pair(), LONG_S);
    let (_silent, again) = enter(&run, "a");
    let mut back = client(&run, "a");
    back.say(&ToCoordinator::Rejoin { token: again.token, heard: 0 });
    assert!(matches!(back.hear(), ToInstance::WelcomeBack { heard: 0 }));
    back.say(&ToCoordinator::Warning { text: "here".into() });
    run.event("it is heard", |event| matches!(event, Event::Warning { text, .. } if text == "here"));
}

#[test]
fn who_says_that_it_has_what_was_never_said_fails_by_name() {
    let run = run_of(pair(), LONG_S);
    let (first, again) = enter(&run, "a");
    drop(first);
    wait_for(&run, "a", "away");
    let mut back = client(&run, "a");
    back.say(&ToCoordinator::Rejoin { token: again.token, heard: 5 });
    run.event(
        "people are told",
        |event| matches!(event, Event::Failed { instance, text } if instance == "a" && text.contains("there were 0")),
    );
    run.event("nobody waits for it", |event| matches!(event, Event::Lost { instance } if instance == "a"));
}
