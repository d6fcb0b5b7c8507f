//! Which way streams take: over the nearest relays, as measured, and over others when those are gone.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::support::{await_that, in_the_middle, Site, RUN, SECRET};
use mto::encryption::Encryption;

#[test]
fn relays_in_a_ring_take_the_shortest_way_and_another_when_it_is_cut() {
    let a = Site::start("a", &[]);
    let b = Site::start("b", &[&a]);
    let c = Site::start("c", &[&a, &b]);
    for (from, to) in [(&a, "c"), (&a, "b"), (&b, "c"), (&c, "a")] {
        from.await_way_to(to);
    }
    let listener = c.listener("there");
    let (x, y) = a.pipe_to("c", "there", &*listener);
    x.send(b"one");
    assert_eq!(y.receive(3), b"one");
    b.kill();
    await_that("b is forgotten", || !a.status().runs[RUN].sites.contains(&"b".to_owned()));
    let (v, w) = a.pipe_to("c", "there", &*listener);
    v.send(b"two");
    assert_eq!(w.receive(3), b"two");
}

/// Reads to the end, or until nobody takes it.
fn read_on(mut from: TcpStream, mut take: impl FnMut(&[u8]) -> bool) {
    let mut piece = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        if !take(&piece[..count]) {
            break;
        }
    }
}

/// Passes bytes on unchanged; those that come back from `to` as long after they came.
fn far_away(to: &str, delay: Duration) -> String {
    in_the_middle(to, move |near, far| {
        let (mut there, mut back) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let (sender, under_way) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (due, bytes) in under_way {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    if back.write_all(&bytes).is_err() {
                        break;
                    }
                }
                let _ = back.shutdown(Shutdown::Both);
            });
            scope.spawn(move || read_on(far, |bytes| sender.send((Instant::now() + delay, bytes.to_vec())).is_ok()));
            read_on(near, |bytes| there.write_all(bytes).is_ok());
            let _ = there.shutdown(Shutdown::Both);
        });
    })
}

#[test]
fn a_link_that_takes_longer_than_a_tick_there_and_back_is_a_way() {
    let delay = Duration::from_millis(1300);
    // In clear, for the sake of time: TLS goes back and forth more often.
    let start = |name: &str, links: &[String]| {
        let clear = Encryption::self_made(name).unwrap().but(&[], false).unwrap().taking_clear_from(["a"]);
        Site::start_with(name, "127.0.0.1:0", links, &[(RUN, SECRET)], |relay| relay.encrypt(clear))
    };
    let b = start("b", &[]);
    let a = start("a", &[far_away(&b.address, delay)]);
    a.await_way_to("b");
    b.await_way_to("a");
    let time = a.status().links.iter().map(|link| link.round_trip_ms).fold(0.0, f64::max);
    assert!(time >= delay.as_secs_f64() * 1000.0, "{time} ms");
}

#[test]
fn a_stream_takes_the_way_that_was_measured_as_the_nearest_and_the_other_one_when_that_is_cut() {
    let delay = Duration::from_millis(1000); // much longer than the near way takes on a busy machine
    let c = Site::start("c", &[]);
    let b = Site::start("b", &[&c]);
    let a = Site::start_at("a", "127.0.0.1:0", &[b.address.clone(), far_away(&c.address, delay)], &[(RUN, SECRET)]);
    await_that("all know how far they are from each other", || {
        let links = a.status().links;
        let far = links.iter().any(|link| link.site == "c" && link.round_trip_ms >= delay.as_secs_f64() * 1000.0);
        far && links.iter().any(|link| link.site == "b" && link.round_trip_ms > 0.0)
    });
    b.await_way_to("c");
    let listener = c.listener("there");
    await_that("a stream passes b", || {
        let before = b.status().runs[RUN].opened;
        let (x, y) = a.pipe_to("c", "there", &*listener);
        x.send(b"near");
        assert_eq!(y.receive(4), b"near");
        b.status().runs[RUN].opened > before
    });
    let before = b.status().runs[RUN].opened;
    let (x, y) = a.pipe_to("c", "there", &*listener);
    x.send(b"near again");
    assert_eq!(y.receive(10), b"near again");
    assert!(b.status().runs[RUN].opened > before, "the nearest way stays the one that is taken");
    b.kill();
    await_that("b is forgotten", || !a.status().runs[RUN].sites.contains(&"b".to_owned()));
    let (v, w) = a.pipe_to("c", "there", &*listener);
    v.send(b"far");
    assert_eq!(w.receive(3), b"far");
}
