//! What streams do, through one relay and through several.

use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{FromRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::flow::Flow;
use crate::support::{accept, await_that, in_the_middle, open_both, party_of, Pipe, Site, RUN, SECRET};
use mto::window::{FIRST, MOST};
use xmml_wire::methods::relay::Relay as Method;
use xmml_wire::methods::{Listener, Method as _};
use xmml_wire::methods::{TrafficClass, TrafficKind};

/// Chains of relays of which only one listens for the others; the stream goes from the first to the last.
fn chains() -> Vec<(&'static str, Vec<Site>)> {
    let one = vec![Site::start("a", &[])];
    let b = Site::start("b", &[]);
    let two = vec![Site::start("a", &[&b]), b];
    let b = Site::start("b", &[]);
    let three = vec![Site::start("a", &[&b]), Site::start("c", &[&b]), b];
    vec![("one", one), ("two", two), ("three, the middle one listens", three)]
}

/// Somebody at the last relay of a chain.
fn at_the_end(chain: &[Site]) -> Box<dyn Listener> {
    let (first, last) = (&chain[0], &chain[1.min(chain.len() - 1)]);
    first.await_way_to(&last.name);
    last.await_way_to(&first.name);
    last.listener("there")
}

/// A stream along a chain to somebody at its end.
fn to_the_end(chain: &[Site], listener: &dyn Listener) -> (Pipe, Pipe) {
    chain[0].pipe_to(&chain[1.min(chain.len() - 1)].name, "there", listener)
}

/// A stream along a chain.
fn along(chain: &[Site]) -> (Pipe, Pipe) {
    to_the_end(chain, &*at_the_end(chain))
}

/// After so long a relay looks by itself whether something is to be done.
const TICK: Duration = Duration::from_secs(1);

/// Does something with one stream along a chain after the other, and fails if relays take for most of them as long as if they waited for
/// their ticks. (From one tick on the next one takes all of that time.)
fn without_waiting_for_ticks(chain: &[Site], takes: impl Fn(Pipe, Pipe) -> Duration) {
    const STREAMS: usize = 20;
    let listener = at_the_end(chain);
    let one = |_| {
        let (a, b) = to_the_end(chain, &*listener);
        takes(a, b)
    };
    let mut times: Vec<Duration> = (0..STREAMS).map(one).collect();
    times.sort_unstable();
    assert!(times[STREAMS / 2] < TICK / 2, "{STREAMS} streams through {} relays took {times:?}", chain.len());
}

/// What waits in a relay, and in its links.
fn held_at(site: &Site) -> u64 {
    let status = site.status();
    status.runs[RUN].held_bytes + status.links.iter().map(|link| link.kept_bytes).sum::<u64>()
}

/// Sends on all of these streams until nothing more is taken anywhere along the chain; how much was.
fn fill(chain: &[Site], streams: &[&Pipe]) -> usize {
    let piece = vec![7; 1 << 20];
    let (mut sent, mut quiet, mut held) = (0, 0, 0);
    while quiet < 30 {
        let count: usize = streams.iter().map(|stream| stream.send_some(&piece)).sum();
        // Each relay looks at all of its connections before it answers.
        let now_held: u64 = chain.iter().map(held_at).sum();
        sent += count;
        quiet = if count == 0 && now_held == held { quiet + 1 } else { 0 };
        held = now_held;
        std::thread::sleep(Duration::from_millis(5));
    }
    sent
}

/// Bytes that come before the end of a stream on which only sevens come.
fn until_the_end(stream: &Pipe) -> usize {
    let mut came = 0;
    loop {
        let bytes = stream.receive(1 << 20);
        assert!(bytes.iter().all(|byte| *byte == 7));
        came += bytes.len();
        if bytes.len() < 1 << 20 {
            return came;
        }
    }
}

#[test]
fn bytes_pass_unchanged_and_in_order_both_ways_at_once() {
    for (name, chain) in chains() {
        let (a, b) = along(&chain);
        let bytes: Vec<u8> = (0..12_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| a.send(&bytes));
            scope.spawn(|| b.send(&bytes));
            scope.spawn(|| assert!(b.receive(bytes.len()) == bytes, "{name}"));
            assert!(a.receive(bytes.len()) == bytes, "{name}");
        });
    }
}

#[test]
fn the_end_of_one_direction_is_seen_and_the_other_goes_on() {
    for (name, chain) in chains() {
        without_waiting_for_ticks(&chain, |a, b| {
            a.send(b"question");
            let asked = Instant::now();
            a.finish();
            assert_eq!(b.receive(100), b"question", "{name}");
            let after = asked.elapsed();
            b.send(b"answer");
            b.finish();
            assert_eq!(a.receive(100), b"answer", "{name}");
            after
        });
        await_that("the streams are forgotten", || chain.iter().all(|site| site.status().runs[RUN].streams == 0));
    }
}

/// What the kernel says of a socket.
fn tcp_info(stream: &Pipe) -> libc::tcp_info {
    // SAFETY: a zeroed tcp_info is valid, and getsockopt writes at most its size.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
        let into = (&raw mut info).cast();
        assert_eq!(libc::getsockopt(stream.0.fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut size), 0);
        info
    }
}

/// What a relay has read from the only sender of its run. (It reads all that it has room for before it answers.)
fn taken_from_its_sender(site: &Site) -> usize {
    let run = &site.status().runs[RUN];
    (run.bytes + run.held_bytes) as usize
}

/// Sends until the first relay of a chain has no room for what the kernel holds ready for it; returns how much was sent.
fn fill_the_relays(chain: &[Site], stream: &Pipe) -> usize {
    let piece = vec![7; 64 << 10];
    let mut sent = 0;
    loop {
        stream.send(&piece);
        sent += piece.len();
        await_that("the kernel of the relay has the piece", || {
            let info = tcp_info(stream);
            info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0
        });
        let (mut taken, mut looks_without_progress) = (0, 0);
        while taken < sent {
            let now_taken = taken_from_its_sender(&chain[0]);
            looks_without_progress = if now_taken == taken { looks_without_progress + 1 } else { 0 };
            if looks_without_progress == 30 {
                return sent;
            }
            taken = now_taken;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The kernel of the relay has everything from the sender, the end included, while the relay has no room for it.
#[test]
fn nothing_is_lost_behind_the_end_of_the_other_direction_however_slow_the_receiver_is() {
    const TCP_CLOSE: u8 = 7;
    for (name, chain) in chains() {
        let (a, b) = along(&chain);
        b.finish();
        assert!(a.receive(1).is_empty(), "{name}");
        let sent = fill_the_relays(&chain, &a);
        a.finish();
        await_that("both directions of the sender's socket have ended", || tcp_info(&a).tcpi_state == TCP_CLOSE);
        drop(a);
        assert!(taken_from_its_sender(&chain[0]) < sent, "{name}");
        assert_eq!(chain[0].status().runs[RUN].streams, 1, "{name}");
        assert_eq!(until_the_end(&b), sent, "{name}");
        await_that("the stream is forgotten", || chain.iter().all(|site| site.status().runs[RUN].streams == 0));
    }
}

#[test]
fn a_receiver_that_stops_reading_holds_up_its_own_sender_and_nobody_else() {
    for (name, chain) in chains() {
        let (a, b) = along(&chain);
        let sent = fill(&chain, &[&a]);
        let held: u64 = chain.iter().map(held_at).sum();
        assert!(held <= (MOST + (1 << 20)) * chain.len() as u64, "{name}: {held} bytes held");
        let piece = vec![7; 1 << 20];
        // Another stream on the same way, with as much to carry.
        let last = &chain[1.min(chain.len() - 1)];
        let listener = last.listener("other");
        let (c, d) = chain[0].pipe_to(&last.name, "other", &*listener);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..8).for_each(|_| c.send(&piece)));
            assert_eq!(d.receive(8 << 20).len(), 8 << 20, "{name}");
        });
        // What was held up comes when it is read at last.
        a.finish();
        let came = until_the_end(&b);
        assert_eq!(came, sent, "{name}");
    }
}

/// Each of them may hold what it begins with, and all together what the relay is told.
#[test]
fn many_receivers_that_stop_reading_hold_no_more_memory_than_relays_are_given() {
    const STREAMS: u64 = 40;
    const MEMORY: u64 = 4 << 20;
    let start = |name: &str, links: &[String]| {
        Site::start_with(name, "127.0.0.1:0", links, &[(RUN, SECRET)], |relay| relay.limit_memory_of_streams(MEMORY))
    };
    let b = start("b", &[]);
    let chain = [start("a", std::slice::from_ref(&b.address)), start("c", std::slice::from_ref(&b.address)), b];
    let listener = at_the_end(&chain);
    let streams: Vec<(Pipe, Pipe)> = (0..STREAMS).map(|_| to_the_end(&chain, &*listener)).collect();
    let sent = fill(&chain, &streams.iter().map(|(from, _)| from).collect::<Vec<_>>());
    assert!(sent as u64 > STREAMS * 2 * FIRST);
    for site in &chain {
        let held = held_at(site);
        assert!(held <= STREAMS * (FIRST + 1024) + MEMORY, "{held} bytes held at {}", site.name);
    }
    // Whoever reads gets on, with the little that is left.
    let (from, to) = to_the_end(&chain, &*listener);
    std::thread::scope(|scope| {
        scope.spawn(|| from.send(&vec![3; 8 << 20]));
        assert!(to.receive(8 << 20) == vec![3; 8 << 20]);
    });
    // And what was held up comes.
    let came = std::thread::scope(|scope| {
        let counts: Vec<_> = streams
            .iter()
            .map(|(from, to)| {
                from.finish();
                scope.spawn(|| until_the_end(to))
            })
            .collect();
        counts.into_iter().map(|count| count.join().unwrap()).sum::<usize>()
    });
    assert_eq!(came, sent);
}

/// What the other relay may not have yet counts as well.
#[test]
fn what_waits_before_a_slow_link_is_no_more_than_relays_are_given() {
    const MEMORY: u64 = 4 << 20;
    let b = Site::start("b", &[]);
    let (slow_b, _) = slowly(&b.address, 1e6);
    let a = Site::start_with("a", "127.0.0.1:0", &[slow_b], &[(RUN, SECRET)], |relay| {
        relay.limit_memory_of_streams(MEMORY);
    });
    a.await_way_to("b");
    let bulk = b.listener("bulk");
    let streams: Vec<(Pipe, Pipe)> = (0..12).map(|_| a.pipe_to("b", "bulk", &*bulk)).collect();
    await_that("b grants what is usual", || {
        streams.iter().for_each(|(from, _)| while from.send_some(&[1; 64 << 10]) > 0 {});
        a.status().links[0].kept_bytes >= 5 << 18
    });
    let piece = vec![1; 1 << 20];
    for _ in 0..50 {
        streams.iter().for_each(|(from, _)| while from.send_some(&piece) > 0 {});
        let kept = a.status().links[0].kept_bytes;
        // Half of it, for the run is alone, and what a link may keep in any case, with a frame more.
        assert!(kept <= MEMORY / 2 + (1 << 20) + (512 << 10), "{kept} bytes are kept");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Those of one run fill what streams may have; another one that comes then must get some, or it had 64 KiB for each round trip.
#[test]
fn receivers_of_one_run_that_stop_reading_leave_memory_to_another_run() {
    const OTHER: (&str, &[u8]) = ("other", b"the secret of the other run");
    let runs = [(RUN, SECRET), OTHER];
    let start = |name: &str, links: &[String]| {
        Site::start_with(name, "127.0.0.1:0", links, &runs, |relay| relay.limit_memory_of_streams(16 << 20))
    };
    let b = start("b", &[]);
    let a = start("a", std::slice::from_ref(&b.address));
    a.await_way_to("b");
    await_that("the other run is linked", || a.status().runs[OTHER.0].sites.len() == 2);
    let listener = b.listener("there");
    let streams: Vec<(Pipe, Pipe)> = (0..40).map(|_| a.pipe_to("b", "there", &*listener)).collect();
    let chain = [a, b];
    fill(&chain, &streams.iter().map(|(from, _)| from).collect::<Vec<_>>());
    let [a, b] = chain;
    let others = b.listener_of(OTHER, "there");
    let (from, _to) = a.pipe_of(OTHER, "b", "there", &*others);
    let piece = vec![7; 1 << 20];
    await_that("what one that is alone may have without asking is held for it", || {
        from.send_some(&piece);
        // A quarter of what it may send may have been passed on, into buffers of the system, and not be granted anew.
        b.status().runs[OTHER.0].held_bytes >= 3 << 18
    });
}

#[test]
fn a_stream_that_breaks_at_one_end_breaks_at_the_other() {
    for (_, chain) in chains() {
        without_waiting_for_ticks(&chain, |a, b| {
            a.send(b"x");
            assert_eq!(b.receive(1), b"x");
            b.0.shut();
            drop(b);
            let broken = Instant::now();
            // Who had ended in order would learn of it by what comes behind the end. (It may be broken here already.)
            let _ = a.0.write(&[IoSlice::new(&[1; 100])]);
            a.ends();
            broken.elapsed()
        });
    }
}

#[test]
fn who_opens_a_stream_to_nobody_is_told_why() {
    let (b, far) = (Site::start("b", &[]), Site::start("far", &[]));
    let a = Site::start("a", &[&b]);
    a.await_way_to("b");
    let why = |site: &str, name: &str| a.dial("x", site, name, None).opened().unwrap_err().to_string();
    assert!(why("a", "ghost").contains("ghost is not registered at a"), "{}", why("a", "ghost"));
    assert!(why("b", "ghost").contains("ghost is not registered at b"), "{}", why("b", "ghost"));
    let reason = why("far", "ghost");
    assert!(reason.contains("no way from a to far now; in reach for this run: b"), "{reason}");
    drop(far);
}

#[test]
fn a_stream_that_nobody_takes_is_given_up_and_leaves_nothing() {
    let b = Site::start("b", &[]);
    let a = Site::start("a", &[&b]);
    a.await_way_to("b");
    let _sleeper = b.listener("sleeper");
    let reason = a.dial("x", "b", "sleeper", None).opened().unwrap_err().to_string();
    assert!(reason.contains("sleeper did not take the stream within 4 s"), "{reason}");
    await_that("nothing waits", || b.status().runs[RUN].waiting == 0);
}

/// Passes bytes on at this rate at most [bytes/s], each way; where, and how many have passed.
fn slowly(to: &str, rate: f64) -> (String, Arc<AtomicU64>) {
    let passed = Arc::new(AtomicU64::new(0));
    let count_passed = passed.clone();
    let address = in_the_middle(to, move |near, far| {
        let one_way = |mut from: TcpStream, mut to: TcpStream| {
            let (mut piece, mut free_at) = ([0; 8192], Instant::now());
            while let Ok(count @ 1..) = from.read(&mut piece) {
                std::thread::sleep(free_at.saturating_duration_since(Instant::now()));
                free_at = free_at.max(Instant::now()) + Duration::from_secs_f64(count as f64 / rate);
                if to.write_all(&piece[..count]).is_err() {
                    break;
                }
                count_passed.fetch_add(count as u64, Ordering::Relaxed);
            }
            let _ = to.shutdown(Shutdown::Write);
        };
        std::thread::scope(|scope| {
            let (back_from, back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            scope.spawn(|| one_way(back_from, back_to));
            one_way(near, far);
        });
    });
    (address, passed)
}

/// On a slow link much bulk waits; what is urgent waits for what is with the kernel only.
#[test]
fn streams_of_control_do_not_wait_for_what_waits_before_a_slow_link() {
    const RATE: f64 = 5e5; // of each of the two streams of the link
    let b = Site::start("b", &[]);
    let (slow_b, passed) = slowly(&b.address, RATE);
    let a = Site::start_at("a", "127.0.0.1:0", &[slow_b], &[(RUN, SECRET)]);
    a.await_way_to("b");
    let (bulk, small) = (b.listener("bulk"), b.listener("small"));
    let streams: Vec<(Pipe, Pipe)> = (0..8).map(|_| a.pipe_to("b", "bulk", &*bulk)).collect();
    let control = a.dial("x", "b", "small", Some(TrafficClass::Control));
    let there = accept(&*small, &control);
    open_both(&control, &there);
    let piece = vec![1; 1 << 20];
    streams.iter().for_each(|(from, _)| while from.send_some(&piece) > 0 {});
    let waits = a.status().runs[RUN].held_bytes + a.status().links[0].kept_bytes;
    assert!(waits > 4 << 20, "only {waits} bytes wait");
    let before = passed.load(Ordering::Relaxed);
    control.send(&[2; 64]);
    assert_eq!(there.receive(64), [2; 64]);
    let ahead = passed.load(Ordering::Relaxed) - before;
    assert!(ahead < waits / 2, "{ahead} of {waits} bytes that waited went first");
}

/// Whether a socket of this process belongs to a relay: it listens there, was accepted there, or is connected to there.
fn is_of(fd: RawFd, relays: &[SocketAddr]) -> bool {
    // SAFETY: the descriptor may be closed by another test meanwhile; then the calls fail.
    let socket = std::mem::ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
    let ends = [socket.local_addr(), socket.peer_addr()];
    ends[1].is_ok() && ends.iter().flatten().any(|end| relays.contains(end))
}

/// Nagle's algorithm would hold a second small piece back until the first is acknowledged, which takes 40 ms where nothing goes back.
#[test]
fn no_socket_of_a_relay_waits_for_acknowledgements() {
    for (name, chain) in chains() {
        let (a, b) = along(&chain);
        for (from, to) in [(&a, &b), (&b, &a)] {
            from.send(b"one");
            from.send(b"two");
            assert_eq!(to.receive(6), b"onetwo");
        }
        let relays: Vec<SocketAddr> = chain.iter().map(|site| site.address.parse().unwrap()).collect();
        let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let descriptors = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
        let sockets: Vec<RawFd> = descriptors.filter(|fd| is_of(*fd, &relays)).collect();
        // Both ends of the stream's connections; of each link between relays two streams.
        assert!(sockets.len() >= 4 + 4 * (chain.len() - 1), "{name}: {} sockets", sockets.len());
        for fd in sockets {
            // SAFETY: as above.
            let socket = std::mem::ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
            assert!(socket.nodelay().unwrap(), "{name}: {:?} to {:?}", socket.local_addr(), socket.peer_addr());
        }
    }
}

#[test]
fn a_relay_that_was_killed_is_linked_again_and_names_register_again() {
    let middle = Site::start("b", &[]);
    let address = middle.address.clone();
    let (a, c) = (Site::start("a", &[&middle]), Site::start("c", &[&middle]));
    a.await_way_to("c");
    let listener = c.listener("there");
    for _ in 0..2 {
        let (x, _y) = a.pipe_to("c", "there", &*listener);
        x.send(b"x");
    }
    middle.kill();
    let middle = Site::start_at("b", &address, &[], &[(RUN, SECRET)]);
    await_that("a sees b again", || middle.status().links.iter().filter(|link| link.state == "up").count() == 2);
    a.await_way_to("c");
    c.await_way_to("a");
    let (x, y) = a.pipe_to("c", "there", &*listener);
    x.send(b"again");
    assert_eq!(y.receive(5), b"again");
    // The relay where the name is registered.
    let place = c.address.clone();
    let target = middle.address.clone();
    c.kill();
    let c = Site::start_at("c", &place, &[target], &[(RUN, SECRET)]);
    await_that("the name is registered again", || {
        assert!(listener.accept().unwrap().is_none());
        c.status().runs[RUN].names == ["there"]
    });
}

#[test]
fn runs_are_strictly_apart() {
    let runs: [(&str, &[u8]); 2] = [(RUN, SECRET), ("other", b"another secret")];
    let b = Site::start_at("b", "127.0.0.1:0", &[], &runs);
    let a = Site::start_at("a", "127.0.0.1:0", std::slice::from_ref(&b.address), &runs);
    a.await_way_to("b");
    let flow = Flow::along(&a, &b);
    let _there = b.listener("there");
    for (own, site) in [(&a, "b"), (&b, "b")] {
        let address = format!("{}/{site}/there", own.address);
        // A member of the other run asks for a name of this one: it knows only its own.
        let dialled =
            Pipe(Method.connect(&address, &party_of("other", b"another secret", "x"), TrafficKind::default()).unwrap());
        await_that("the other run is linked", || own.status().runs["other"].sites.len() == 2);
        let reason = dialled.opened().unwrap_err().to_string();
        assert!(reason.contains("there is not registered at b") || reason.contains("no way"), "{reason}");
        // It says that it belongs to this one, with its own secret.
        let dialled =
            Pipe(Method.connect(&address, &party_of(RUN, b"another secret", "x"), TrafficKind::default()).unwrap());
        let reason = dialled.opened().unwrap_err().to_string();
        assert!(reason.contains("proof is wrong"), "{reason}");
    }
    for own in [&a, &b] {
        let lines = || own.logged().lines().filter(|line| line.contains("turned away")).count();
        await_that("it is mentioned", || lines() > 0);
        assert_eq!(lines(), 1, "once: {}", own.logged());
    }
    flow.counted();
}

/// Registers a name in a run at a relay.
fn registered(site: &Site, run: &str, secret: &[u8], name: &str) -> Box<dyn Listener> {
    let listener =
        Method.listen(Some(&format!("{}/{}", site.address, site.name)), &party_of(run, secret, name)).unwrap();
    await_that("it is registered", || {
        assert!(listener.accept().unwrap().is_none());
        site.status().runs[run].names.iter().any(|other| other == name)
    });
    listener
}

#[test]
fn one_name_in_two_runs_is_two_receivers() {
    let runs: [(&str, &[u8]); 2] = [(RUN, SECRET), ("river", b"the secret of river")];
    let site = Site::start_at("a", "127.0.0.1:0", &[], &runs);
    let listeners = runs.map(|(run, secret)| registered(&site, run, secret, "same"));
    let streams: Vec<(Pipe, Pipe)> = std::iter::zip(&runs, &listeners)
        .map(|((run, secret), listener)| {
            let address = format!("{}/a/same", site.address);
            let here =
                Pipe(Method.connect(&address, &party_of(run, secret, "dialler"), TrafficKind::default()).unwrap());
            let there = accept(&**listener, &here);
            open_both(&here, &there);
            (here, there)
        })
        .collect();
    let piece = |run: usize, number: u32| vec![run as u8 * 100 + (number % 100) as u8; 1000 + run];
    for number in 0..500 {
        for (run, (here, there)) in streams.iter().enumerate() {
            here.send(&piece(run, number));
            assert!(there.receive(1000 + run) == piece(run, number), "run {run}, message {number}");
        }
    }
    let status = site.status();
    for (index, (run, _)) in runs.iter().enumerate() {
        let counted = &status.runs[*run];
        assert_eq!((counted.opened, counted.streams, counted.bytes), (1, 1, 500 * (1000 + index as u64)), "{run}");
        assert_eq!(counted.names, ["same"], "{run}");
    }
}
