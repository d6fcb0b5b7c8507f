//! What passes between relays is encrypted, and nobody in the middle, with another certificate or with an old one gets between them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::support::flow::Flow;
use crate::support::{await_that, in_the_middle, Site, LIMIT, RUN, SECRET};
use mto::control_protocol::{ask, Request};
use mto::encryption::Encryption;
use xmml_path::{Credentials, Fingerprint, Tls, TlsWire};
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::poll_readable;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A relay that protects links like this.
fn site(name: &str, links: &[String], encryption: Encryption) -> Site {
    Site::start_with(name, "127.0.0.1:0", links, &[(RUN, SECRET)], |relay| relay.encrypt(encryption))
}

fn default_of(name: &str, is_default: bool) -> Encryption {
    Encryption::self_made(name).unwrap().but(&[], is_default).unwrap()
}

fn made() -> Credentials {
    Credentials::make("relay", DAY).unwrap()
}

/// Whether a link stands at a site, and whether it is encrypted.
fn linked(site: &Site) -> Option<bool> {
    site.status().links.iter().find(|link| link.state == "up" && !link.site.is_empty()).map(|link| link.encrypted)
}

/// How often a relay wrote something.
fn lines(site: &Site, what: &str) -> usize {
    site.logged().lines().filter(|line| line.contains(what)).count()
}

/// Passes bytes on unchanged, and keeps them.
fn listen_in(to: &str) -> (String, Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = heard.clone();
    let address = in_the_middle(to, move |near, far| {
        let one_way = |mut from: TcpStream, mut to: TcpStream| {
            let mut piece = [0; 65536];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                kept.lock().unwrap().extend_from_slice(&piece[..count]);
                if to.write_all(&piece[..count]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Write);
        };
        std::thread::scope(|scope| {
            let (back_from, back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            scope.spawn(|| one_way(back_from, back_to));
            one_way(near, far);
        });
    });
    (address, heard)
}

fn holds(heard: &Mutex<Vec<u8>>, needle: &[u8]) -> bool {
    heard.lock().unwrap().windows(needle.len()).any(|window| window == needle)
}

#[test]
fn whoever_listens_in_between_two_relays_learns_nothing_unless_they_do_not_encrypt() {
    let needle = b"what the canal says to the river";
    for encrypted in [true, false] {
        let b = site("b", &[], default_of("b", true).taking_clear_from((!encrypted).then_some("a")));
        let (between, heard) = listen_in(&b.address);
        let a = site("a", &[between], default_of("a", encrypted));
        a.await_way_to("b");
        b.await_way_to("a");
        let listener = b.listener("river");
        let (x, y) = a.pipe_to("b", "river", &*listener);
        x.send(needle);
        assert_eq!(y.receive(needle.len()), needle);
        y.send(needle);
        assert_eq!(x.receive(needle.len()), needle);
        assert_eq!((linked(&a), linked(&b)), (Some(encrypted), Some(encrypted)));
        for secret in [&needle[..], RUN.as_bytes(), b"river"] {
            assert_eq!(holds(&heard, secret), !encrypted, "{}", String::from_utf8_lossy(secret));
        }
    }
}

/// A connection of whoever stands in the middle.
struct Tapped(TcpStream);

impl Stream for Tapped {
    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn peer(&self) -> &str {
        "a relay"
    }

    fn read(&self, into: &mut [u8]) -> std::io::Result<usize> {
        (&self.0).read(into)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> std::io::Result<usize> {
        (&self.0).write_vectored(parts)
    }

    fn shut(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// Passes what comes in one TLS on in another, until one of them ends.
fn open_and_seal(near: TcpStream, far: TcpStream, tls: &Tls, heard: &Mutex<Vec<u8>>) {
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let near = TlsWire::server(Box::new(Tapped(near)), tls, &[]).unwrap();
    let far = TlsWire::client(Box::new(Tapped(far)), tls).unwrap();
    let until = Instant::now() + LIMIT;
    let _ = far.write(&[]);
    while Instant::now() < until {
        let mut piece = [0; 4096];
        for (from, to) in [(&near, &far), (&far, &near)] {
            match from.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    heard.lock().unwrap().extend_from_slice(&piece[..count]);
                    if to.write(&[IoSlice::new(&piece[..count])]).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
            let _ = to.flush();
        }
        poll_readable(&[near.fd(), far.fd()], Some(Instant::now() + Duration::from_millis(50))).unwrap();
    }
}

#[test]
fn whoever_stands_in_the_middle_with_certificates_of_his_own_does_not_pass() {
    let b = site("b", &[], default_of("b", true));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (tls, kept) = (Tls::proven_inside(&made()).unwrap(), heard.clone());
    let between = in_the_middle(&b.address, move |near, far| open_and_seal(near, far, &tls, &kept));
    let a = site("a", &[between], default_of("a", true));
    // He sees the handshake: what protects is that the proofs in it hold on another channel only.
    await_that("the handshake passes him", || holds(&heard, RUN.as_bytes()));
    await_that("it is told", || lines(&a, "its proof is wrong") > 0);
    assert_eq!((linked(&a), linked(&b)), (None, None));
    assert_eq!(a.status().runs[RUN].sites, ["a"]);
}

#[test]
fn a_certificate_that_is_not_trusted_is_refused_and_mentioned_once() {
    let (mine, theirs, foreign) = (made(), made(), made());
    let trusting = |mine: &Credentials, trusted: Fingerprint| Encryption::with(mine, &[trusted], true).unwrap();
    let b = site("b", &[], trusting(&theirs, mine.fingerprint()));
    let to_b = std::slice::from_ref(&b.address);
    let a = site("a", to_b, trusting(&mine, theirs.fingerprint()));
    a.await_way_to("b");
    let flow = Flow::along(&a, &b);
    let stranger = site("stranger", to_b, trusting(&foreign, theirs.fingerprint()));
    await_that("it came several times", || b.status().refused > 2);
    assert_eq!(lines(&b, "its certificate is not one of those that are trusted"), 1, "{}", b.logged());
    assert_eq!(linked(&stranger), None);
    drop(stranger);
    let suspicious = site("suspicious", to_b, trusting(&mine, foreign.fingerprint()));
    await_that("it is told", || lines(&suspicious, "its certificate is not one of those that are trusted") > 0);
    assert_eq!(linked(&suspicious), None);
    flow.counted();
    assert_eq!(b.status().runs[RUN].sites, ["a", "b"]);
    assert_eq!((linked(&a), linked(&b)), (Some(true), Some(true)));
}

#[test]
fn whom_a_relay_trusts_can_be_told_it_at_work() {
    let trust = |site: &Site, whom: &[&Site]| {
        let fingerprints = whom.iter().map(|site| site.status().certificate).collect();
        assert!(ask(&site.control, &Request::Trust { fingerprints, relays: BTreeMap::new() }).unwrap().ok);
    };
    let fresh = |name: &str, at: &str, links: &[String]| {
        Site::start_with(name, at, links, &[(RUN, SECRET)], |relay| relay.encrypt(default_of(name, true)))
    };
    let b = fresh("b", "127.0.0.1:0", &[]);
    let (address, to_b) = (b.address.clone(), std::slice::from_ref(&b.address));
    let a = fresh("a", "127.0.0.1:0", to_b);
    a.await_way_to("b");
    trust(&a, &[&a, &b]);
    trust(&b, &[&a, &b]);
    // The link that stands remains. A stranger knows the run's secret, but nobody trusts its certificate.
    assert_eq!((linked(&a), linked(&b)), (Some(true), Some(true)));
    let stranger = fresh("stranger", "127.0.0.1:0", to_b);
    await_that("it came several times", || b.status().refused > 2);
    let not_trusted = "its certificate is not one of those that are trusted";
    assert_eq!(lines(&b, not_trusted), 1, "{}", b.logged());
    assert_eq!((linked(&stranger), linked(&a), linked(&b)), (None, Some(true), Some(true)));
    // A relay that was started again has a new certificate: it is refused until it is told of, and no longer.
    stranger.kill(); // the next relay believes anybody until it is told whom
    b.kill();
    let b = fresh("b", &address, &[]);
    await_that("the new one is refused", || lines(&a, not_trusted) > 0);
    assert_eq!(linked(&b), None);
    trust(&b, &[&a, &b]);
    trust(&a, &[&a, &b]);
    a.await_way_to("b");
    for wrong in [vec![], vec!["00ff".to_owned()]] {
        let answer = ask(&a.control, &Request::Trust { fingerprints: wrong, relays: BTreeMap::new() }).unwrap();
        assert!(answer.problem.is_some_and(|problem| problem.contains("fingerprints")), "it says what is wrong");
    }
}

#[test]
fn each_reason_why_there_is_no_link_is_written_and_the_status_tells_the_last() {
    let why = |site: &Site| site.status().not_linked.first().map(|dial| dial.reason.clone()).unwrap_or_default();
    let b = Site::start_at("b", "127.0.0.1:0", &[], &[(RUN, b"another secret")]);
    let address = b.address.clone();
    let a = site("a", std::slice::from_ref(&address), default_of("a", true));
    await_that("it knows why", || !why(&a).is_empty());
    assert_eq!(a.status().not_linked[0].to, address);
    assert_ne!(lines(&a, "no link yet"), 0, "{}", a.logged());
    b.kill();
    let trusting = Encryption::with(&made(), &[made().fingerprint()], true).unwrap();
    let b = Site::start_with("b", &address, &[], &[(RUN, SECRET)], |relay| relay.encrypt(trusting));
    let not_trusted = "is not one of those that are trusted";
    await_that("it knows that something else is wrong now", || why(&a).contains(not_trusted));
    assert_ne!(lines(&a, not_trusted), 0, "{}", a.logged());
    b.kill();
    await_that("it knows that nobody is there any more", || why(&a).contains("refused"));
    let b = Site::start_with("b", &address, &[], &[(RUN, SECRET)], |relay| relay.encrypt(default_of("b", true)));
    a.await_way_to("b");
    assert_eq!(a.status().not_linked, []);
    assert_eq!(linked(&b), Some(true));
}

#[test]
fn a_certificate_that_has_expired_is_refused_whichever_relay_has_it() {
    let now = SystemTime::now();
    let old = Credentials::make_valid("old", now - 2 * DAY, now - DAY).unwrap();
    let expired = || Encryption::with(&old, &[], true).unwrap();
    let b = site("b", &[], default_of("b", true));
    let e = site("e", std::slice::from_ref(&b.address), default_of("e", true));
    e.await_way_to("b");
    let flow = Flow::along(&e, &b);
    let a = site("a", std::slice::from_ref(&b.address), expired());
    await_that("it came several times", || b.status().refused > 2);
    assert_eq!(lines(&b, "its certificate has expired"), 1, "{}", b.logged());
    await_that("it knows why", || lines(&a, "which has expired there") > 0);
    flow.counted();
    assert_eq!(linked(&a), None);
    assert_eq!(b.status().runs[RUN].sites, ["b", "e"]);
    let d = site("d", &[], expired());
    let c = site("c", std::slice::from_ref(&d.address), default_of("c", true));
    await_that("it is told", || lines(&c, "its certificate has expired") > 0);
    assert_eq!((linked(&c), linked(&d)), (None, None));
}

#[test]
fn a_link_in_clear_is_taken_from_the_relays_that_are_named_and_refused_to_others_once() {
    let b = site("b", &[], default_of("b", true).taking_clear_from(["named"]));
    let to_b = std::slice::from_ref(&b.address);
    let named = site("named", to_b, default_of("named", false));
    named.await_way_to("b");
    let flow = Flow::along(&named, &b);
    let other = site("other", to_b, default_of("other", false));
    let refusal = "no link in clear is taken from the relay of other";
    await_that("it is told", || lines(&other, refusal) > 0);
    await_that("it came several times", || b.status().refused > 2);
    assert_eq!(lines(&b, refusal), 1, "{}", b.logged());
    assert_eq!(linked(&other), None);
    flow.counted();
    assert_eq!(
        (linked(&named), b.status().runs[RUN].sites.clone()),
        (Some(false), vec!["b".to_owned(), "named".to_owned()])
    );
}

#[test]
fn who_takes_the_name_of_a_relay_that_may_come_in_clear_needs_the_key_of_the_run() {
    let b = site("b", &[], default_of("b", true).taking_clear_from(["a"]));
    let a =
        Site::start_with("a", "127.0.0.1:0", std::slice::from_ref(&b.address), &[(RUN, b"another secret")], |relay| {
            relay.encrypt(default_of("a", false));
        });
    await_that("it is told", || lines(&a, "its proof is wrong") > 0);
    assert_eq!((linked(&a), linked(&b)), (None, None));
}

#[test]
fn a_relay_that_dials_in_clear_takes_no_link_in_clear_for_that() {
    let clear = site("clear", &[], default_of("clear", false));
    let other = site("other", std::slice::from_ref(&clear.address), default_of("other", false));
    await_that("it is told", || lines(&other, "no link in clear is taken from the relay of other") > 0);
    let safe = site("safe", std::slice::from_ref(&clear.address), default_of("safe", true));
    safe.await_way_to("clear");
    assert_eq!((linked(&other), linked(&safe)), (None, Some(true)));
}

#[test]
fn from_whom_a_relay_takes_links_in_clear_can_be_told_it_at_work() {
    let b = site("b", &[], default_of("b", true));
    let a = site("a", std::slice::from_ref(&b.address), default_of("a", false));
    await_that("it is refused", || lines(&a, "no link in clear is taken") > 0);
    let from = |sites: &[&str]| Request::TakeClearFrom { sites: sites.iter().map(|site| (*site).to_owned()).collect() };
    let wrong = ask(&b.control, &from(&["no site"])).unwrap();
    assert!(wrong.problem.is_some_and(|problem| problem.starts_with("sites: ")), "it says what is wrong");
    assert_eq!(ask(&b.control, &from(&["a"])).unwrap().changed, Some(true));
    a.await_way_to("b");
    // The link that stands remains.
    assert_eq!(ask(&b.control, &from(&[])).unwrap().changed, Some(true));
    assert_eq!((linked(&a), linked(&b)), (Some(false), Some(false)));
}

#[test]
fn a_stranger_who_speaks_tls_has_no_more_room_and_time_than_others() {
    let b = site("b", &[], default_of("b", true));
    // A record that never ends, of a handshake that never ends.
    let mut endless = TcpStream::connect(&b.address).unwrap();
    endless.set_read_timeout(Some(LIMIT)).unwrap();
    let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff];
    record.resize(5 + 0x4000, 0);
    for _ in 0..8 {
        let _ = endless.write_all(&record); // it may have been thrown out already
    }
    assert!(!matches!(endless.read(&mut [0; 64]), Err(error) if error.kind() == ErrorKind::WouldBlock));
    // One who comes to terms and says nothing more.
    let quiet = TcpStream::connect(&b.address).unwrap();
    quiet.set_nonblocking(true).unwrap();
    let quiet = TlsWire::client(Box::new(Tapped(quiet)), &Tls::proven_inside(&made()).unwrap()).unwrap();
    let _ = quiet.write(&[]);
    await_that("there is TLS", || {
        let _ = quiet.read(&mut [0; 16]);
        quiet.channel().is_ok()
    });
    assert_eq!(b.status().arrivals, 1);
    await_that("both were turned away", || b.status().refused == 2 && b.status().arrivals == 0);
}
