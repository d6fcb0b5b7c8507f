//! A relay of the run that says what no honest relay says: played by hand, over a path of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::flow::Flow;
use crate::support::{await_that, Site, LIMIT, RUN, SECRET};
use mto::encryption::Encryption;
use mto::link_frame::{self, LinkFrame, LinkMessage};
use mto::relay::PASSING_MAX;
use mto::routes::{Announcement, HOPS_MAX};
use xmml_path::{Credentials, Identity, Lane, Path, Received, Settings, Streams, Tls};
use xmml_wire::methods::relay::protocol::RELAY;
use xmml_wire::methods::TrafficKind;
use xmml_wire::relay_key::RelayKey;

/// A link to a relay, from one of site `x` that is played by hand.
struct ByHand(Path);

impl ByHand {
    fn linked_to(site: &Site) -> ByHand {
        ByHand::of("x", site)
    }

    fn of(name: &str, site: &Site) -> ByHand {
        let link = ByHand::silent(Identity::new(RelayKey::of(SECRET).as_bytes(), RUN, name), site);
        link.introduced_as(name, site);
        link
    }

    /// One that has not said yet whose it is.
    fn silent(me: Identity, site: &Site) -> ByHand {
        let settings = Settings { streams: Streams::Fixed(1), ..Settings::default() };
        let path = Path::dial(&site.address, &me, RELAY, settings).unwrap();
        path.attend().unwrap();
        assert!(path.wait_open(Some(LIMIT)).unwrap());
        ByHand(path)
    }

    fn introduced_as(&self, name: &str, site: &Site) {
        self.tell(&LinkMessage::Hello { site: name.into(), life: 7 });
        let is_up = || site.status().links.iter().any(|link| link.site == name && link.state == "up");
        await_that("the link stands", is_up);
    }

    /// Waits until the relay has taken in everything that it was told.
    fn is_heard(&self) {
        self.tell(&LinkMessage::Ping { number: 77 });
        await_that("it answers", || match self.0.receive(Lane::Control, Some(LIMIT)).unwrap() {
            Some(Received::Message(frame)) => {
                link_frame::read(frame) == Ok(LinkFrame::Message(LinkMessage::Pong { number: 77 }))
            }
            other => panic!("no answer: {other:?}"),
        });
    }

    fn tell(&self, told: &LinkMessage) {
        self.0.post(Lane::Control, link_frame::message(told)).unwrap();
    }

    fn open(&self, stream: u64, route: &[&str]) {
        let route = route.iter().map(|site| (*site).to_owned()).collect();
        let (name, from_site, from) = ("there".into(), "x".into(), "somebody".into());
        self.tell(&LinkMessage::Open { stream, route, name, from_site, from, traffic: TrafficKind::default() });
    }

    /// Why the relay refuses a stream; a failure if it gives the link up.
    fn refusal(&self, stream: u64) -> String {
        loop {
            let frame = match self.0.receive(Lane::Control, Some(LIMIT)).unwrap() {
                Some(Received::Message(frame)) => link_frame::read(frame).unwrap(),
                other => panic!("no answer: {other:?}"),
            };
            match frame {
                LinkFrame::Message(LinkMessage::Refused { stream: refused, reason }) if refused == stream => {
                    return reason
                }
                LinkFrame::Message(LinkMessage::Opened { stream: opened }) if opened == stream => panic!("it is open"),
                _ => {}
            }
        }
    }

    /// Waits until the relay gives the link up.
    fn ends(&self) {
        let is_over = || self.0.receive(Lane::Control, Some(Duration::from_millis(10))).is_err();
        await_that("the link is given up", is_over);
    }
}

fn relay(name: &str, links: &[String]) -> Site {
    relay_of(name, links, &[(RUN, SECRET)])
}

fn relay_of(name: &str, links: &[String], runs: &[(&str, &[u8])]) -> Site {
    Site::start_with(name, "127.0.0.1:0", links, runs, |relay| {
        relay.encrypt(Encryption::self_made(name).unwrap().taking_clear_from(["x", "y"]));
    })
}

/// Relays a and b, linked, which know whose the certificates of a, b and x are, if that is so; and x, to be played by hand.
fn relays_of_known_certificates(are_known: bool) -> (Site, Site, Credentials) {
    let [a, b, x] = ["a", "b", "x"].map(|name| Credentials::make(name, Duration::from_secs(3600)).unwrap());
    let certificates = [("a", &a), ("b", &b), ("x", &x)].map(|(name, its)| (name.to_owned(), its.fingerprint()));
    let relay = |name: &str, mine: &Credentials, links: &[String]| {
        Site::start_with(name, "127.0.0.1:0", links, &[(RUN, SECRET)], |relay| {
            relay.encrypt(Encryption::with(mine, &[], true).unwrap());
            if are_known {
                relay.trust(&[], certificates.clone().into());
            }
        })
    };
    let b = relay("b", &b, &[]);
    let a = relay("a", &a, std::slice::from_ref(&b.address));
    a.await_way_to("b");
    (a, b, x)
}

/// The relay x with its own certificate.
fn known_x(mine: &Credentials) -> Identity {
    let me = Identity::new(RelayKey::of(SECRET).as_bytes(), RUN, "x");
    me.encrypted(Tls::proven_inside(mine).unwrap())
}

/// What x may say to put b out of the reach of a: that b, or a itself, has no link but one to nowhere. Neither can outdo that.
fn lies(mine: &Credentials) -> Vec<Announcement> {
    let lies = ["b", "a"].map(|site| Announcement::new(site, u64::MAX, BTreeMap::from([("z".to_owned(), 1)])));
    let signed = lies.clone().map(|lie| {
        let signature = mine.sign(&lie.signed_text(RUN)).ok();
        Announcement { signature, ..lie }
    });
    lies.into_iter().chain(signed).collect()
}

#[test]
fn what_a_relay_says_in_the_name_of_another_is_not_believed() {
    let (a, b, mine) = relays_of_known_certificates(true);
    let flow = Flow::along(&a, &b);
    let x = ByHand::silent(known_x(&mine), &a);
    x.introduced_as("x", &a);
    lies(&mine).into_iter().for_each(|lie| x.tell(&LinkMessage::Neighbours(lie)));
    x.is_heard();
    assert!(a.logged().contains("an announcement was not believed"), "{}", a.logged());
    assert_eq!(
        (&a.status().runs[RUN].sites[..], &b.status().runs[RUN].sites[..]),
        (&["a", "b"].map(String::from)[..], &["a", "b"].map(String::from)[..])
    );
    flow.counted();
    let listener = b.listener("somebody");
    let (from, to) = a.pipe_to("b", "somebody", &*listener);
    from.send(b"well");
    assert_eq!(to.receive(4), b"well");
}

#[test]
fn where_nobody_knows_whose_the_certificates_are_such_a_lie_puts_a_relay_out_of_reach() {
    let (a, _b, mine) = relays_of_known_certificates(false);
    let x = ByHand::silent(known_x(&mine), &a);
    x.introduced_as("x", &a);
    x.tell(&LinkMessage::Neighbours(lies(&mine).swap_remove(0)));
    x.is_heard();
    assert_eq!(a.status().runs[RUN].sites, ["a"]);
}

#[test]
fn who_takes_the_name_of_another_relay_is_not_linked_in_its_place() {
    let (a, b, mine) = relays_of_known_certificates(true);
    let flow = Flow::along(&a, &b);
    let x = ByHand::silent(known_x(&mine), &a);
    x.tell(&LinkMessage::Hello { site: "b".into(), life: 99 });
    x.ends();
    assert!(a.logged().contains("its certificate is not that of the relay of b"), "{}", a.logged());
    assert_eq!(a.status().runs[RUN].sites, ["a", "b"]);
    flow.counted();
}

#[test]
fn what_a_relay_has_signed_is_believed_from_whoever_passes_it_on() {
    let (a, _b, mine) = relays_of_known_certificates(true);
    let x = ByHand::silent(known_x(&mine), &a);
    x.introduced_as("x", &a);
    let news = Announcement::new("x", 3, BTreeMap::from([("a".to_owned(), 10)]));
    let signature = mine.sign(&news.signed_text(RUN)).ok();
    x.tell(&LinkMessage::Neighbours(Announcement { signature, ..news }));
    await_that("x is in reach", || {
        if let Some(Received::Message(frame)) = x.0.receive(Lane::Control, Some(Duration::from_millis(10))).unwrap() {
            if let Ok(LinkFrame::Message(LinkMessage::Ping { number })) = link_frame::read(frame) {
                x.tell(&LinkMessage::Pong { number });
            }
        }
        a.status().runs[RUN].sites == ["a", "b", "x"]
    });
}

/// A run of which the false relay does not know the secret.
const OTHER: (&str, &[u8]) = ("other", b"the secret of the other run");

/// A relay of both runs, and messages of the other one that pass it.
fn relay_with_flow_of_other() -> (Site, Flow) {
    let b = relay_of("b", &[], &[(RUN, SECRET), OTHER]);
    let flow = Flow::of(OTHER, &b, &b);
    (b, flow)
}

#[test]
fn a_stream_whose_way_leads_back_is_refused_and_others_still_pass() {
    let b = relay("b", &[]);
    let x = ByHand::linked_to(&b);
    x.open(1, &["b", "x"]);
    assert_eq!(x.refusal(1), "it would come back to b");
    x.open(2, &["b", "nowhere"]);
    assert!(x.refusal(2).contains("the link from b to nowhere is down"));
    assert_eq!(b.status().runs[RUN].streams, 0);
}

#[test]
fn a_stream_that_comes_again_by_another_link_is_refused() {
    let c = relay("c", &[]);
    let b = relay("b", std::slice::from_ref(&c.address));
    b.await_way_to("c");
    let (at_b, at_c) = (ByHand::linked_to(&b), ByHand::linked_to(&c));
    let there = c.listener("there");
    at_b.open(5, &["b", "c"]);
    await_that("it waits for whom it leads to", || b.status().runs[RUN].streams == 1);
    await_that("it has come to c", || there.accept().unwrap().is_some());
    // c would send it to b by the link on which the same stream has come.
    at_c.open(5, &["c", "b"]);
    assert_eq!(at_c.refusal(5), "it would come back to c");
}

#[test]
fn a_way_that_is_too_long_or_begins_elsewhere_ends_the_link() {
    let long: Vec<&str> = std::iter::once("b").chain(std::iter::repeat_n("c", HOPS_MAX)).collect();
    for route in [&long[..], &["c", "b"], &[]] {
        let b = relay("b", &[]);
        let x = ByHand::linked_to(&b);
        x.open(1, route);
        x.ends();
        assert!(b.logged().contains("impossible route"), "{}", b.logged());
    }
}

#[test]
fn two_relays_of_one_site_at_different_relays_do_not_fill_links_with_contradictions() {
    let b = relay("b", &[]);
    let c = relay("c", std::slice::from_ref(&b.address));
    c.await_way_to("b");
    let x = ByHand::linked_to(&b);
    let doubles = [relay("a", std::slice::from_ref(&b.address)), relay("a", std::slice::from_ref(&c.address))];
    let mut said = 0;
    await_that("one of them says it", || {
        while let Some(Received::Message(frame)) = x.0.receive(Lane::Control, Some(Duration::ZERO)).unwrap() {
            let frame = link_frame::read(frame).unwrap();
            said += usize::from(matches!(frame, LinkFrame::Message(LinkMessage::Neighbours(news)) if news.site == "a"));
        }
        assert!(said < 100, "one announcement for each round trip");
        doubles.iter().any(|a| a.logged().contains("another relay of this site seems to be alive"))
    });
}

#[test]
fn streams_without_end_that_pass_a_relay_are_refused_and_other_runs_go_on() {
    let (b, flow) = relay_with_flow_of_other();
    let (x, y) = (ByHand::linked_to(&b), ByHand::of("y", &b));
    for stream in 1..=PASSING_MAX as u64 + 1 {
        x.open(stream, &["b", "y"]);
        // It neither takes nor refuses them.
        while y.0.take(Lane::Control).is_some() {}
    }
    let reason = x.refusal(PASSING_MAX as u64 + 1);
    assert_eq!(reason, format!("{PASSING_MAX} streams of this run pass b already"));
    assert!(b.logged().contains("a stream of another relay was refused"));
    flow.counted();
    // When one is over there is room for another.
    x.tell(&LinkMessage::Reset { stream: 1 });
    x.open(1, &["b", "y"]);
    await_that("it passes", || b.status().runs[RUN].opened == PASSING_MAX as u64 + 1);
}

#[test]
fn a_relay_that_asks_and_does_not_read_the_answers_loses_its_link() {
    let (b, flow) = relay_with_flow_of_other();
    let x = ByHand::linked_to(&b);
    await_that("the link is given up", || {
        for number in 0..50_000 {
            let asked = x.0.queue(Lane::Control, link_frame::message(&LinkMessage::Ping { number: number | 1 << 40 }));
            if asked.is_err() {
                break;
            }
            if number % 100 == 0 {
                x.0.send_queued();
                let _ = x.0.wait_room(Lane::Control, Some(LIMIT));
            }
        }
        b.logged().contains("it does not take what it is told")
    });
    await_that("the link is gone", || b.status().links.is_empty());
    flow.counted();
}

#[test]
fn data_of_no_byte_ends_the_link() {
    let (b, flow) = relay_with_flow_of_other();
    let x = ByHand::linked_to(&b);
    x.0.post(Lane::Bulk, link_frame::data(9, &[])).unwrap();
    x.ends();
    assert!(b.logged().contains("data of no byte"), "{}", b.logged());
    flow.counted();
}
