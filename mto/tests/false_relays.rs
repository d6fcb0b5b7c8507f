//! A relay of the run that says what no honest relay says: played by hand, over a path of its own.

mod support;

use std::time::{Duration, Instant};

use mto::encryption::Encryption;
use mto::link_frame::{self, LinkFrame, Told};
use mto::routes::HOPS_MAX;
use support::{await_that, Site, RUN, SECRET, SOON};
use xmml_core::handshake::relay_key;
use xmml_core::methods::relay::protocol::RELAY;
use xmml_core::path::{Identity, Lane, Path, Received, Settings, Streams};

/// A link to a relay, from one of site `x` that is played by hand.
struct ByHand(Path);

impl ByHand {
    fn linked_to(site: &Site) -> ByHand {
        let me = Identity::new(&relay_key(SECRET), RUN, "x");
        let settings = Settings { streams: Streams::Fixed(1), ..Settings::default() };
        let path = Path::dial(&site.address, &me, RELAY, settings).unwrap();
        path.attend().unwrap();
        assert!(path.wait_open(Some(SOON)).unwrap());
        let link = ByHand(path);
        link.tell(&Told::Hello { site: "x".into(), life: 7 });
        await_that("the link stands", || site.status().links.iter().any(|link| link.site == "x" && link.state == "up"));
        link
    }

    fn tell(&self, told: &Told) {
        self.0.post(Lane::Control, link_frame::told(told)).unwrap();
    }

    fn open(&self, stream: u64, route: &[&str]) {
        let route = route.iter().map(|site| (*site).to_owned()).collect();
        let (name, from_site, from) = ("there".into(), "x".into(), "somebody".into());
        self.tell(&Told::Open { stream, route, name, from_site, from, class: None });
    }

    /// Why the relay refuses a stream; a failure if it gives the link up.
    fn refusal(&self, stream: u64) -> String {
        loop {
            let frame = match self.0.receive(Lane::Control, Some(SOON)).unwrap() {
                Some(Received::Message(frame)) => link_frame::read(frame).unwrap(),
                other => panic!("no answer: {other:?}"),
            };
            match frame {
                LinkFrame::Told(Told::Refused { stream: refused, reason }) if refused == stream => return reason,
                LinkFrame::Told(Told::Opened { stream: opened }) if opened == stream => panic!("it is open"),
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
    Site::start_with(name, "127.0.0.1:0", links, &[(RUN, SECRET)], |relay| {
        relay.encrypt(Encryption::self_made(name).unwrap().but(&[], false).unwrap());
    })
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
    let until = Instant::now() + SOON;
    let mut said = 0;
    while !doubles.iter().any(|a| a.logged().contains("another relay of this site seems to be alive")) {
        assert!(Instant::now() < until, "nobody says it");
        match x.0.receive(Lane::Control, Some(Duration::from_millis(10))).unwrap() {
            Some(Received::Message(frame)) => {
                let frame = link_frame::read(frame).unwrap();
                said += usize::from(matches!(frame, LinkFrame::Told(Told::Neighbours(news)) if news.site == "a"));
            }
            _ => continue,
        }
        assert!(said < 100, "one announcement for each round trip");
    }
}
