//! Whoever comes without the secret of a run gets nowhere, is mentioned once, and harms nobody: messages that pass meanwhile are counted.

#[path = "../../native/wire/tests/support/descriptors.rs"]
mod descriptors;
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use support::flow::Flow;
use support::{await_that, party, party_of, Pipe, Site, RUN};
use xmml_wire::handshake::{Dialler, Party, Role, Step};
use xmml_wire::methods::relay::Relay as Method;
use xmml_wire::methods::{Method as _, TrafficKind};
use xmml_wire::relay_key::RelayKey;

/// So many may be in the middle of a handshake at once; more come.
const ARRIVALS_MAX: u64 = 1024;
const MANY: u64 = 1200;

/// What passed meanwhile has arrived, and new streams can be opened at this relay.
fn is_unharmed(site: &Site, flow: Flow) {
    flow.counted();
    let listener = site.listener("somebody");
    let (x, y) = site.pipe_to(&site.name, "somebody", &*listener);
    x.send(b"well");
    assert_eq!(y.receive(4), b"well");
}

/// Strangers from here were mentioned once for each reason, however many they were; returns the reasons.
fn are_mentioned_once(site: &Site) -> Vec<String> {
    let reasons = || -> Vec<String> {
        let logged = site.logged();
        logged.lines().filter_map(|line| Some(line.split_once(": turned away ")?.1.to_owned())).collect()
    };
    await_that("they are mentioned", || !reasons().is_empty());
    let (all, mut distinct) = (reasons(), reasons());
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(all.len(), distinct.len(), "once per source and reason: {all:?}");
    assert!(all.len() < 10, "{all:?}");
    all
}

fn dial(site: &Site) -> TcpStream {
    let stream = TcpStream::connect(&site.address).unwrap();
    stream.set_read_timeout(Some(support::LIMIT)).unwrap();
    stream
}

/// Reads until the relay ends the connection; what it said.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        bytes.extend_from_slice(&piece[..count]);
    }
    bytes
}

#[test]
fn another_secret_and_another_run_are_refused_with_the_reason() {
    let site = Site::start("a", &[]);
    let flow = Flow::at(&site);
    let why = |run: &str, secret: &[u8]| {
        let address = format!("{}/a/x", site.address);
        let dialled = Pipe(Method.connect(&address, &party_of(run, secret, "x"), TrafficKind::default()).unwrap());
        dialled.opened().unwrap_err().to_string()
    };
    assert!(why(RUN, b"another secret").contains("proof is wrong"));
    assert!(why("unknown", b"another secret").contains("does not know the run \"unknown\""));
    await_that("both are counted", || site.status().refused == 2);
    is_unharmed(&site, flow);
    are_mentioned_once(&site);
}

#[test]
fn a_scan_of_ports_does_not_silence_a_wrong_secret_from_the_same_host() {
    let site = Site::start("a", &[]);
    drop(dial(&site));
    await_that("the scan is counted", || site.status().refused == 1);
    let address = format!("{}/a/x", site.address);
    for _ in 0..2 {
        let dialled =
            Pipe(Method.connect(&address, &party_of(RUN, b"another secret", "x"), TrafficKind::default()).unwrap());
        assert!(dialled.opened().is_err());
    }
    await_that("all are counted", || site.status().refused == 3);
    let reasons = are_mentioned_once(&site);
    assert!(reasons.len() == 2 && reasons[1].contains("another secret"), "{reasons:?}");
}

#[test]
fn garbage_and_a_scan_of_ports_end_in_nothing() {
    let site = Site::start("a", &[]);
    let flow = Flow::at(&site);
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 3000], &[0; 3000], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
    {
        let mut stream = dial(&site);
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write); // it may have been thrown out already
        assert!(rest(stream).len() < 600, "nobody is told much");
    }
    for _ in 0..50 {
        drop(dial(&site));
    }
    is_unharmed(&site, flow);
    await_that("everybody is gone", || site.status().arrivals == 0);
    are_mentioned_once(&site);
}

#[test]
fn a_handshake_that_was_recorded_is_worth_nothing_later() {
    let site = Site::start("a", &[]);
    let flow = Flow::at(&site);
    let me = Party { secret: RelayKey::of(support::SECRET).as_bytes().to_vec(), ..party("x") };
    let (mut dialler, hello) = Dialler::new(me, Role::Relay, "relay", false).unwrap();
    let mut first = dial(&site);
    first.write_all(&hello).unwrap();
    let mut challenge = vec![0; 4096];
    let count = first.read(&mut challenge).unwrap();
    let Step::Done { send: proof, .. } = dialler.feed(&challenge[..count]) else {
        panic!("the relay does not prove itself")
    };
    first.write_all(&proof).unwrap();
    let mut again = dial(&site);
    again.write_all(&hello).unwrap();
    let count = again.read(&mut challenge).unwrap();
    assert!(count > 0);
    again.write_all(&proof).unwrap();
    let answer = String::from_utf8_lossy(&rest(again)).into_owned();
    assert!(answer.contains("the proof is wrong"), "{answer}");
    are_mentioned_once(&site);
    is_unharmed(&site, flow);
}

#[test]
fn connections_that_say_nothing_are_many_and_keep_nobody_out() {
    let site = Site::start("a", &[]);
    let flow = Flow::at(&site);
    // Those that are turned away were there, too.
    let have_come = || site.status().arrivals + site.status().refused;
    descriptors::allow_descriptors(4 * MANY);
    let half_open: Vec<TcpStream> = (0..MANY).map(|_| dial(&site)).collect();
    await_that("they are there", || {
        let arrivals = site.status().arrivals;
        assert!(arrivals <= ARRIVALS_MAX, "{arrivals} at once");
        have_come() >= MANY
    });
    assert!(site.logged().contains("while others came"), "the oldest gave way, not only those whose time was over");
    is_unharmed(&site, flow);
    await_that("they are turned away", || site.status().arrivals == 0);
    are_mentioned_once(&site);
    drop(half_open);
}

#[test]
fn a_false_relay_cannot_link_itself() {
    let site = Site::start("a", &[]);
    let flow = Flow::at(&site);
    let other = Site::start_at("b", "127.0.0.1:0", std::slice::from_ref(&site.address), &[(RUN, b"another secret")]);
    await_that("it was refused", || site.status().refused > 0);
    assert!(site.status().links.is_empty());
    assert_eq!(other.status().runs[RUN].sites, ["b"]);
    is_unharmed(&site, flow);
}

#[test]
fn two_relays_of_one_site_do_not_pass_for_each_other() {
    let site = Site::start("a", &[]);
    let flow = Flow::at(&site);
    let double = Site::start("a", &[&site]);
    await_that("it is said", || {
        site.logged().contains("two relays of one site") || double.logged().contains("two relays of one site")
    });
    is_unharmed(&site, flow);
}

#[test]
fn of_two_relays_of_one_site_at_one_relay_the_one_that_came_later_stands() {
    let b = Site::start("b", &[]);
    let older = Site::start("a", &[&b]);
    b.await_way_to("a");
    let later = Site::start("a", &[&b]);
    await_that("b says so", || b.logged().contains("another relay of a has come"));
    await_that("the older one comes again", || b.logged().contains("there are two relays of a"));
    later.await_way_to("b");
    let c = Site::start("c", &[&b]);
    c.await_way_to("a");
    let flow = Flow::along(&c, &later);
    // However often the older one comes meanwhile.
    let refused = || b.logged().matches("there are two relays of a").count();
    flow.goes_on();
    assert_eq!(refused(), 1, "{}", b.logged());
    flow.counted();
    assert_eq!(b.logged().matches("another relay of a has come").count(), 1, "{}", b.logged());
    drop(later);
    older.await_way_to("c");
}

#[test]
fn who_asks_for_figures_slowly_never_or_twenty_times_at_once_disturbs_nobody() {
    let site = Site::start_with("a", "127.0.0.1:0", &[], &[(RUN, support::SECRET)], |relay| {
        relay.listen_for_scrapers("127.0.0.1:0").unwrap();
    });
    let flow = Flow::at(&site);
    let figures = site.status().metrics;
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(&figures).unwrap();
        stream.set_read_timeout(Some(support::LIMIT)).unwrap();
        let _ = stream.write_all(request); // of too many, some are thrown out at once
        stream
    };
    let silent = ask(b"");
    let many: Vec<TcpStream> = (0..20).map(|_| ask(b"GET /metrics HTTP/1.1\r\n\r\n")).collect();
    flow.goes_on();
    let answers = many.into_iter().map(rest).filter(|answer| answer.starts_with(b"HTTP/1.1 200 OK"));
    assert!(answers.count() >= 10);
    let slow = ask(b"GET /met");
    site.status(); // it has looked at all of its connections
    (&slow).write_all(b"rics HTTP/1.1\r\n\r\n").unwrap();
    assert!(String::from_utf8_lossy(&rest(slow)).contains("mto_streams{run=\"canal\"} 1"));
    flow.counted();
    drop(silent);
}
