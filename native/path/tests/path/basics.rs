//! Paths over real sockets: what passes, in which order, and how they end.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use xmml_path::{Identity, Lane, LinkFigures, Listener, Path, Received, Settings, Streams, Ticket};
use xmml_wire::internet_address::resolve;

use crate::support::{await_that, await_while_moving, identity, not_run, pair, pair_at, payload, streams, LIMIT};

/// Long enough for what takes no time.
const SHORT: Duration = Duration::from_millis(300);

fn message(received: Option<Received>) -> xmml_wire::buffer::Buffer {
    match received {
        Some(Received::Message(message)) => message,
        other => panic!("a message was expected, not {other:?}"),
    }
}

#[test]
fn messages_of_every_size_pass_both_ways_at_once_over_any_number_of_streams() {
    let sizes = [0, 1, 63, 4095, 4096, 4097, 65_535, 300_000, 1 << 20, (8 << 20) + 13];
    for count in [1, 2, 8, 64] {
        let (here, there) = pair(streams(count), Settings::default());
        let talk = |me: &Path, mine: u64, theirs: u64| {
            for (number, &size) in sizes.iter().enumerate() {
                assert!(me.send(Lane::Bulk, payload(mine + number as u64, size), LIMIT).unwrap());
            }
            for (number, &size) in sizes.iter().enumerate() {
                let got = message(me.receive(Lane::Bulk, LIMIT).unwrap());
                assert!(got == payload(theirs + number as u64, size), "message {number} over {count} streams");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| talk(&here, 100, 200));
            scope.spawn(|| talk(&there, 200, 100));
        });
    }
}

#[test]
fn a_message_of_64_mib_passes() {
    let (here, there) = pair(streams(8), Settings::default());
    here.post(Lane::Bulk, payload(1, 64 << 20)).unwrap();
    assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(1, 64 << 20));
}

#[test]
fn lanes_are_apart() {
    let (here, there) = pair(streams(2), Settings::default());
    for number in 0..20 {
        here.post(Lane::Bulk, payload(number, 1 << 20)).unwrap();
    }
    here.post(Lane::Control, b"urgent".to_vec()).unwrap();
    assert_eq!(&message(there.receive(Lane::Control, LIMIT).unwrap())[..], b"urgent");
    for number in 0..20 {
        assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(number, 1 << 20));
    }
}

#[test]
fn control_messages_pass_bulk_that_nobody_takes() {
    let small = Settings { window: 1 << 20, ..streams(1) };
    let (here, there) = pair(small.clone(), small);
    let bulk: Vec<Ticket> = (0..20).map(|number| here.post(Lane::Bulk, payload(number, 1 << 20)).unwrap()).collect();
    for number in 0..50 {
        here.post(Lane::Control, payload(number, 64)).unwrap();
        assert!(message(there.receive(Lane::Control, LIMIT).unwrap()) == payload(number, 64));
    }
    assert!(!here.has_arrived(bulk[19]), "the bulk still waits");
    for number in 0..20 {
        assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(number, 1 << 20));
    }
    assert!(here.wait_arrived(bulk[19], LIMIT).unwrap());
}

/// Sends messages until pieces are so long.
fn pieces_become(path: &Path, is_so: impl Fn(u64) -> bool) {
    await_that("the length of pieces", || {
        assert!(path.send(Lane::Bulk, payload(1, 256 << 10), LIMIT).unwrap());
        is_so(path.stats().chunk)
    });
}

#[test]
fn pieces_are_as_long_as_a_stream_carries_in_a_moment_unless_their_length_is_set() {
    let (here, there) = pair(streams(2), Settings::default());
    std::thread::scope(|scope| {
        scope.spawn(|| while let Some(Received::Message(_)) = there.receive(Lane::Bulk, LIMIT).unwrap() {});
        pieces_become(&here, |bytes| bytes > 256 << 10);
        let slow = Settings { pace: Some(20_000_000), ..streams(2) };
        here.set(slow.clone()).unwrap();
        pieces_become(&here, |bytes| bytes == 16 << 10);
        here.set(Settings { chunk: Some(48 << 10), ..slow }).unwrap();
        let passed = here.stats().bytes_out;
        while here.stats().bytes_out < passed + (4 << 20) {
            here.send(Lane::Bulk, payload(1, 256 << 10), LIMIT).unwrap();
            assert_eq!(here.stats().chunk, 48 << 10);
        }
        here.finish();
    });
}

/// Waits for an answer to every message.
#[test]
fn pieces_are_no_shorter_because_a_program_waits_for_answers() {
    let (here, there) = pair(streams(4), streams(4));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(Received::Message(message)) = there.receive(Lane::Bulk, LIMIT).unwrap() {
                there.send(Lane::Bulk, message, LIMIT).unwrap();
                // Longer than it takes to pass: on the average little passes.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            here.send(Lane::Bulk, payload(1, 20_000), LIMIT).unwrap();
            message(here.receive(Lane::Bulk, LIMIT).unwrap());
        }
        assert!(here.stats().chunk > 20_000, "{}", here.stats().chunk);
        here.finish();
    });
}

#[test]
fn a_path_ends_in_order_at_both_ends() {
    let (here, there) = pair(streams(4), Settings::default());
    here.post(Lane::Bulk, payload(1, 100_000)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(here.close(LIMIT).unwrap()));
        assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(1, 100_000));
        assert_eq!(there.receive(Lane::Bulk, LIMIT).unwrap(), Some(Received::Ended));
        assert!(there.close(LIMIT).unwrap());
    });
    assert!(here.post(Lane::Bulk, Vec::new()).is_err(), "nothing can be sent on a path that has finished");
}

#[test]
fn another_secret_is_told_to_who_dials() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    let stranger = Identity::new(b"another secret", "run", "here");
    let path = Path::dial(&listener.address(), &stranger, "there", Settings::default()).unwrap();
    path.attend().unwrap();
    listener.attend().unwrap();
    // It would go on dialling until its time is over, and say that then.
    let error = path.wait_open(LIMIT).unwrap_err().to_string();
    assert!(error.contains("secret"), "{error}");
    assert!(listener.take().is_none());
}

#[test]
fn a_path_to_nobody_is_given_up_after_its_time() {
    let settings = Settings { connect: Duration::from_millis(200), ..Settings::default() };
    // Bound and not listening: nobody else gets this port.
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = Path::dial(&taken.local_addr().unwrap().to_string(), &identity("here"), "there", settings).unwrap();
    let error = path.wait_open(LIMIT).unwrap_err().to_string();
    assert!(error.contains("within 0.2 s"), "{error}");
}

#[test]
fn who_listens_at_the_address_of_everywhere_is_reached_over_both_kinds_of_internet() {
    let Ok(ipv6) = std::net::TcpListener::bind("[::1]:0") else {
        return not_run("this machine has no loopback address of IPv6: sudo sysctl net.ipv6.conf.lo.disable_ipv6=0");
    };
    drop(ipv6);
    let listener = Listener::bind("[::]:0", &identity("there"), streams(2)).unwrap();
    let (_, port) = listener.address().rsplit_once(':').map(|(host, port)| (host.to_owned(), port.to_owned())).unwrap();
    for host in ["[::1]", "127.0.0.1"] {
        let (here, there) = pair_at(&listener, &format!("{host}:{port}"), streams(2));
        here.post(Lane::Bulk, payload(1, 100_000)).unwrap();
        assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(1, 100_000));
    }
}

#[test]
fn an_address_of_ipv6_may_have_its_zone_by_name() {
    let found = resolve("[fe80::1%lo]:7").unwrap();
    assert!(matches!(found[..], [SocketAddr::V6(at)] if at.scope_id() != 0 && at.port() == 7), "{found:?}");
    assert_eq!(resolve("[::1]:7").unwrap(), ["[::1]:7".parse().unwrap()]);
}

#[test]
fn the_listener_may_start_later() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    let address = listener.address();
    drop(listener);
    let path = Path::dial(&address, &identity("here"), "there", streams(2)).unwrap();
    path.attend().unwrap();
    let listener = Listener::bind(&address, &identity("there"), Settings::default()).unwrap();
    assert!(listener.accept(LIMIT).unwrap().is_some());
}

#[test]
fn an_attended_listener_lets_who_dials_in_without_waiting_for_an_accept() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    listener.attend().unwrap();
    let here = Path::dial(&listener.address(), &identity("here"), "there", streams(2)).unwrap();
    assert!(here.wait_open(LIMIT).unwrap());
    let there = listener.accept(LIMIT).unwrap().unwrap();
    here.post(Lane::Bulk, payload(1, 100_000)).unwrap();
    drop(listener);
    here.attend().unwrap();
    assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(1, 100_000));
}

#[test]
fn a_peer_that_gives_up_is_told_of() {
    let (here, there) = pair(streams(2), Settings::default());
    drop(there);
    let error = here.receive(Lane::Bulk, LIMIT).unwrap_err().to_string();
    assert!(error.contains("ended it"), "{error}");
}

#[test]
fn a_peer_that_does_not_take_costs_bounded_memory_at_both_ends() {
    let small = Settings { window: 1 << 20, queue: 1 << 20, ..streams(2) };
    let (here, there) = pair(small.clone(), small);
    let mut sent = 0;
    // At least ten are taken in, however busy the machine is.
    while here.send(Lane::Bulk, payload(sent, 100_000), if sent < 10 { LIMIT } else { Some(SHORT) }).unwrap() {
        sent += 1;
        assert!(sent * 100_000 <= 3 << 20, "{sent} messages were taken in");
    }
    assert!(sent >= 10, "{sent} messages were taken in");
    for number in 0..sent {
        assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(number, 100_000));
    }
}

#[test]
fn an_event_loop_drives_both_ends_in_one_thread() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    let here = Path::dial(&listener.address(), &identity("here"), "there", streams(3)).unwrap();
    here.post(Lane::Bulk, payload(7, 5 << 20)).unwrap();
    let mut there = None;
    let until = Instant::now() + LIMIT.unwrap();
    loop {
        let mut fds = vec![here.fd(), listener.fd()];
        fds.extend(there.as_ref().map(Path::fd));
        xmml_wire::wakeup::poll_readable(&fds, Some(until)).unwrap();
        assert!(Instant::now() < until, "it does not come");
        here.drive().unwrap();
        listener.drive();
        there = there.or_else(|| listener.take());
        if let Some(path) = &there {
            path.drive().unwrap();
            if let Some(got) = path.take(Lane::Bulk) {
                assert!(got == payload(7, 5 << 20));
                return;
            }
        }
    }
}

#[test]
fn memory_of_the_caller_may_change_when_a_send_from_it_returns() {
    let (here, there) = pair(streams(3), Settings::default());
    let mut bytes = payload(1, 12 << 20).to_vec();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(here.send_from(Lane::Bulk, &bytes, LIMIT).unwrap());
            bytes.fill(0xff);
            assert!(here.send_from(Lane::Bulk, &bytes[..10], LIMIT).unwrap());
        });
        assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(1, 12 << 20));
        assert_eq!(message(there.receive(Lane::Bulk, LIMIT).unwrap())[..], [0xff; 10]);
    });
}

#[test]
fn a_barrier_waits_for_the_other_end_and_for_what_was_sent_before() {
    let (here, there) = pair(streams(2), Settings::default());
    assert!(!here.barrier(Some(Duration::from_millis(30))).unwrap(), "nobody else has come to it");
    there.post(Lane::Bulk, payload(5, 1 << 20)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(there.barrier(LIMIT).unwrap()));
        scope.spawn(|| assert!(there.barrier(LIMIT).unwrap()));
        assert!(here.barrier(LIMIT).unwrap());
    });
    assert!(here.take(Lane::Bulk).is_some(), "what was sent before the barrier has come");
}

/// Both would wait for ever: one for the other to come to the barrier, the other for this one to end.
#[test]
fn a_barrier_to_which_the_other_end_can_not_come_any_more_is_an_error() {
    let (here, there) = pair(streams(2), Settings::default());
    assert!(!there.barrier(Some(Duration::ZERO)).unwrap());
    there.post(Lane::Bulk, payload(1, 1 << 20)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(there.close(LIMIT).unwrap()));
        assert!(here.barrier(LIMIT).unwrap(), "to this one it has come before its end");
        let error = here.barrier(LIMIT).unwrap_err().to_string();
        assert!(error.contains("has finished") && error.contains("barrier"), "{error}");
        assert!(message(here.receive(Lane::Bulk, LIMIT).unwrap()) == payload(1, 1 << 20));
        let error = here.barrier(LIMIT).unwrap_err().to_string();
        assert!(error.contains("has finished"), "{error}");
        assert!(here.close(LIMIT).unwrap());
    });
}

#[test]
fn paths_can_be_chained_scattered_to_and_gathered_from() {
    use xmml_path::{cycle, gather, relay, scatter};
    let ((a, near), (far, b)) = (pair(streams(2), Settings::default()), pair(streams(1), Settings::default()));
    std::thread::scope(|scope| {
        let relayed = scope.spawn(|| relay(&near, &far).unwrap());
        a.post(Lane::Bulk, payload(1, 70_000)).unwrap();
        a.post(Lane::Control, payload(2, 10)).unwrap();
        assert!(message(b.receive(Lane::Bulk, LIMIT).unwrap()) == payload(1, 70_000));
        assert!(message(b.receive(Lane::Control, LIMIT).unwrap()) == payload(2, 10));
        scope.spawn(|| {
            let got = b.send_receive(Lane::Bulk, payload(3, 100), LIMIT).unwrap();
            assert!(got == Received::Message(payload(4, 2000)));
            b.finish();
        });
        let got = cycle(&a, &a, Lane::Bulk, payload(4, 2000), LIMIT).unwrap();
        assert!(got == Received::Message(payload(3, 100)));
        a.finish();
        assert_eq!(relayed.join().unwrap(), (3, 1));
    });
    let (one, other) = (pair(streams(1), Settings::default()), pair(streams(1), Settings::default()));
    scatter(&[&one.0, &other.0], Lane::Bulk, vec![payload(1, 10), payload(2, 20_000)], LIMIT).unwrap();
    let parts = gather(&[&one.1, &other.1], Lane::Bulk, LIMIT).unwrap();
    assert!(parts == [payload(1, 10), payload(2, 20_000)]);
    assert!(scatter(&[&one.0], Lane::Bulk, Vec::new(), LIMIT).is_err());
}

#[test]
fn a_gather_that_is_late_takes_nothing() {
    use xmml_path::gather;
    let (one, other) = (pair(streams(1), Settings::default()), pair(streams(1), Settings::default()));
    one.0.post(Lane::Bulk, payload(1, 10)).unwrap();
    assert!(one.1.wait_next(Lane::Bulk, LIMIT).unwrap().is_some());
    let late = gather(&[&one.1, &other.1], Lane::Bulk, Some(Duration::from_millis(20))).unwrap_err().to_string();
    assert!(late.contains("sent no message within 0.02 s"), "{late}");
    other.0.post(Lane::Bulk, payload(2, 20)).unwrap();
    assert!(gather(&[&one.1, &other.1], Lane::Bulk, LIMIT).unwrap() == [payload(1, 10), payload(2, 20)]);
    one.0.post(Lane::Bulk, payload(3, 30)).unwrap();
    other.0.finish();
    let ended = gather(&[&one.1, &other.1], Lane::Bulk, LIMIT).unwrap_err().to_string();
    assert!(ended.contains("has ended"), "{ended}");
    assert!(message(one.1.receive(Lane::Bulk, LIMIT).unwrap()) == payload(3, 30));
}

/// Whichever end gives its path up, and whether the relay has dialled that path or taken it in.
#[test]
fn a_relay_between_paths_passes_failures_on() {
    for dialler_fails in [true, false] {
        let ((a, near), (far, b)) = (pair(streams(2), Settings::default()), pair(streams(2), Settings::default()));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(xmml_path::relay(&near, &far)));
        a.post(Lane::Bulk, payload(1, 70_000)).unwrap();
        assert!(message(b.receive(Lane::Bulk, LIMIT).unwrap()) == payload(1, 70_000));
        let (fails, stays) = if dialler_fails { (a, b) } else { (b, a) };
        drop(fails);
        for lane in Lane::ALL {
            let error = stays.receive(lane, LIMIT).unwrap_err().to_string();
            assert!(error.contains("has lost a path") && error.contains("has ended it"), "{lane:?}: {error}");
        }
        let error = told.recv_timeout(LIMIT.unwrap()).expect("the relay ends").unwrap_err().to_string();
        assert!(error.contains("has ended it"), "{error}");
    }
}

/// What cannot be passed on ends the relay although nothing comes on the other lane, and the other end is silent.
#[test]
fn a_relay_ends_when_it_can_only_not_send() {
    let ((a, near), (far, b)) = (pair(streams(2), Settings::default()), pair(streams(2), Settings::default()));
    far.finish();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(xmml_path::relay(&near, &far)));
    a.post(Lane::Bulk, payload(1, 70_000)).unwrap();
    let error = told.recv_timeout(LIMIT.unwrap()).expect("the relay ends").unwrap_err().to_string();
    assert!(error.contains("has finished"), "{error}");
    let error = a.receive(Lane::Control, LIMIT).unwrap_err().to_string();
    assert!(error.contains("has lost a path"), "{error}");
    drop(b);
}

/// Sends bulk until the number of streams is as wanted.
fn with_bulk_until(here: &Path, there: &Path, is_wanted: impl Fn(usize) -> bool) {
    let streams = || here.stats().streams;
    await_while_moving("the number of streams", streams, || {
        here.post(Lane::Bulk, payload(1, 4 << 20)).unwrap();
        assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()).len() == 4 << 20);
        is_wanted(streams()).then_some(())
    });
}

#[test]
fn automatic_streams_become_more_where_windows_hold_them_up() {
    let small = Settings { streams: Streams::Auto, socket_buffer: Some(64 << 10), ..Settings::default() };
    let (here, there) = pair(small.clone(), small);
    with_bulk_until(&here, &there, |count| count >= 8);
}

#[test]
fn automatic_streams_begin_as_the_figures_of_the_link_ask_for_and_become_fewer_where_few_do() {
    let round_the_world = LinkFigures { round_trip: Duration::from_millis(273), bandwidth: 125e6 };
    let told = Settings { streams: Streams::Auto, link: Some(round_the_world), ..Settings::default() };
    let (here, there) = pair(told, Settings { streams: Streams::Auto, ..Settings::default() });
    with_bulk_until(&here, &there, |count| count > 10);
    with_bulk_until(&here, &there, |count| count <= 10);
}

/// Whichever end it is.
#[test]
fn automatic_streams_go_on_when_something_else_is_set() {
    let small = Settings { streams: Streams::Auto, socket_buffer: Some(64 << 10), ..Settings::default() };
    let (here, there) = pair(small.clone(), small);
    with_bulk_until(&here, &there, |count| count >= 8);
    for end in [&here, &there] {
        let count = here.stats().streams;
        end.set(Settings { pace: Some(1 << 30), ..end.settings() }).unwrap();
        // Small messages decide nothing. Streams that are not wanted any more are taken out of use within a few of them.
        for number in 0..500 {
            here.post(Lane::Bulk, payload(number, 100)).unwrap();
            assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(number, 100));
            there.post(Lane::Bulk, payload(number, 100)).unwrap();
            assert!(message(here.receive(Lane::Bulk, LIMIT).unwrap()) == payload(number, 100));
            assert!(here.stats().streams >= count, "{} of {count} streams are left", here.stats().streams);
        }
    }
}

#[test]
fn settings_change_while_messages_pass_and_nothing_is_sent_twice_for_it() {
    let (here, there) = pair(streams(2), Settings::default());
    let reached = |here: &Path, there: &Path, count: usize| {
        let counts = || [here, there].map(|path| path.stats().streams);
        await_while_moving(&format!("{count} streams"), counts, || (counts() == [count; 2]).then_some(()));
    };
    let mut number = 0;
    let mut pass = |from: &Path, to: &Path| {
        for _ in 0..20 {
            from.post(Lane::Bulk, payload(number, 200_000)).unwrap();
            assert!(message(to.receive(Lane::Bulk, LIMIT).unwrap()) == payload(number, 200_000));
            number += 1;
        }
    };
    for (end, count) in [(&here, 9), (&here, 3), (&there, 6), (&there, 1)] {
        let quick = Settings { chunk: Some(16 * 1024), pace: Some(1 << 30), ..streams(count) };
        end.set(Settings { congestion: Some("reno".to_owned()), ..quick }).unwrap();
        pass(&here, &there);
        pass(&there, &here);
        reached(&here, &there, count as usize);
    }
    let stats = here.stats();
    assert_eq!(stats.streams_lost, 0, "{stats:?}");
    assert!(stats.bytes_out < 100 * 220_000, "much was sent twice: {stats:?}");
    assert!(here.set(Settings { congestion: Some("none".to_owned()), ..streams(1) }).is_err());
    assert!(here.set(streams(129)).is_err() && here.set(streams(0)).is_err());
}

/// Ends what others do also when a test fails, which would hang otherwise.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whichever end it is: what the other one measures does not change it.
#[test]
fn a_number_that_a_program_has_asked_for_holds_while_the_other_end_measures() {
    let pairs = [pair(streams(2), Settings::default()), pair(Settings::default(), streams(2))];
    let flowing = Duration::from_millis(1500); // measurements are acted upon twice within this
    for (here, there) in &pairs {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (from, to) in [(here, there), (there, here)] {
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        assert!(from.send(Lane::Bulk, payload(1, 1 << 20), LIMIT).unwrap());
                    }
                    from.finish();
                });
                scope.spawn(move || while let Some(Received::Message(_)) = to.receive(Lane::Bulk, LIMIT).unwrap() {});
            }
            let _ending = Ending(&is_over);
            // An end that measures begins with more, and takes them out of use when it hears what is asked for.
            let mut settled = 0;
            await_that("two streams are left", || {
                settled = if here.stats().streams == 2 { settled + 1 } else { 0 };
                settled == 50
            });
            let until = Instant::now() + flowing;
            while Instant::now() < until {
                assert_eq!(here.stats().streams, 2);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    }
}

#[test]
fn a_slow_pace_is_kept() {
    let slow = Settings { pace: Some(4 << 20), ..streams(2) };
    let (here, there) = pair(slow, Settings::default());
    let begun = Instant::now();
    here.post(Lane::Bulk, payload(0, 4 << 20)).unwrap();
    assert!(message(there.receive(Lane::Bulk, LIMIT).unwrap()) == payload(0, 4 << 20));
    assert!(begun.elapsed() > Duration::from_millis(250), "4 MiB over 2 streams of 4 MiB/s took {:?}", begun.elapsed());
}
