//! Relays that send a stream in a circle, or on a way without end: it is refused where that shows.

mod support;

use mto::encryption::Encryption;
use mto::link_frame::{self, LinkFrame, StreamId, Told};
use mto::routes::HOPS_MAX;
use support::{await_that, Site, RUN, SECRET, SOON};
use xmml_core::handshake::relay_key;
use xmml_core::methods::relay::protocol::RELAY;
use xmml_core::path::{Identity, Lane, Path, Received, Settings, Streams};

/// A relay that takes links in clear.
fn honest() -> Site {
    let clear = Encryption::self_made("a").unwrap().but(&[], false).unwrap();
    Site::start_with("a", "127.0.0.1:0", &[], &[(RUN, SECRET)], |relay| relay.encrypt(clear))
}

/// Another site of the run, played by hand.
struct ByHand(Path);

impl ByHand {
    fn link(site: &str, to: &Site) -> ByHand {
        let me = Identity::new(&relay_key(SECRET), RUN, site);
        let settings = Settings { streams: Streams::Fixed(1), ..Settings::default() };
        let path = Path::dial(&to.address, &me, RELAY, settings).unwrap();
        path.attend().unwrap();
        assert!(path.wait_open(Some(SOON)).unwrap());
        let other = ByHand(path);
        other.tell(&Told::Hello { site: site.to_owned(), life: 1 });
        await_link(to, site);
        other
    }

    fn tell(&self, told: &Told) {
        assert!(self.0.send(Lane::Control, link_frame::told(told), Some(SOON)).unwrap());
    }

    /// Opens a stream to `x` at the end of a way.
    fn open(&self, stream: StreamId, route: &[&str]) {
        let route = route.iter().map(|site| (*site).to_owned()).collect();
        let (name, from_site, from) = ("x".to_owned(), "far".to_owned(), "y".to_owned());
        self.tell(&Told::Open { stream, route, name, from_site, from, class: None });
    }

    /// The next that is told of a stream.
    fn told(&self) -> Told {
        loop {
            let Ok(Some(Received::Message(frame))) = self.0.receive(Lane::Control, Some(SOON)) else {
                panic!("nothing is told of a stream")
            };
            match link_frame::read(frame).unwrap() {
                LinkFrame::Told(Told::Hello { .. } | Told::Neighbours(_) | Told::Ping { .. }) => {}
                LinkFrame::Told(told) => return told,
                other => panic!("{other:?}"),
            }
        }
    }

    fn is_refused(&self, expected: StreamId, why: &str) {
        match self.told() {
            Told::Refused { stream, reason } => assert!(stream == expected && reason.contains(why), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

fn await_link(at: &Site, site: &str) {
    await_that("the link stands", || at.status().links.iter().any(|link| link.site == site && link.state == "up"));
}

#[test]
fn a_stream_that_would_go_back_where_it_comes_from_is_refused() {
    let a = honest();
    let b = ByHand::link("b", &a);
    b.open(7, &["a", "b"]);
    b.is_refused(7, "it would come back to a");
    b.open(8, &["a", "a"]);
    b.is_refused(8, "the link from a to a is down");
    assert_eq!(a.status().runs[RUN].streams, 0);
}

#[test]
fn a_stream_that_comes_round_to_where_it_was_is_refused_and_the_first_time_stays() {
    let a = honest();
    let (b, c) = (ByHand::link("b", &a), ByHand::link("c", &a));
    b.open(7, &["a", "c", "b", "a", "c"]);
    match c.told() {
        Told::Open { stream: 7, route, .. } => assert_eq!(route, ["c", "b", "a", "c"]),
        other => panic!("{other:?}"),
    }
    // It has gone by c to b, which sends it on.
    b.open(7, &["a", "c"]);
    b.is_refused(7, "there is a stream with this number");
    // And the other way round, by a link that it has not come by before.
    let d = ByHand::link("d", &a);
    d.open(7, &["a", "c"]);
    d.is_refused(7, "it would come back to a");
    assert_eq!(a.status().runs[RUN].streams, 1);
}

#[test]
fn who_opens_a_stream_on_an_impossible_way_is_no_relay_to_be_linked_with() {
    let a = honest();
    let longest: Vec<&str> = ["a", "b"].into_iter().cycle().take(HOPS_MAX + 1).collect();
    for (number, route) in [&longest[..], &["c", "a"], &[]].into_iter().enumerate() {
        let b = ByHand::link("b", &a);
        b.open(7, route);
        await_that("the link is given up", || a.status().links.is_empty());
        let said = a.logged().lines().filter(|line| line.contains("an impossible route")).count();
        assert_eq!(said, number + 1, "{}", a.logged());
        assert_eq!(a.status().runs[RUN].streams, 0);
    }
    // The longest possible one is.
    let b = ByHand::link("b", &a);
    b.open(7, &longest[..HOPS_MAX]);
    b.is_refused(7, "it would come back to a");
    await_link(&a, "b");
    drop(b);
    await_that("nothing is left", || a.status().links.iter().all(|link| link.state != "up"));
}
