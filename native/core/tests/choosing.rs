//! Which method is taken: the fastest that leads to the receiver, whatever its table promises.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use support::by_hand::Client;
use support::{await_some, receive, send, Model, Run, SECRET};
use xmml_core::control::ToCoordinator;
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, Received, Stamps};
use xmml_wire::data::Data;
use xmml_wire::frame;
use xmml_wire::handshake::{fresh_nonce, Listener, Party, Role, Step, VERSIONS};
use xmml_wire::methods::TrafficClass;
use xmml_wire::methods::{Descriptor, Place, Table};

fn model() -> Model {
    Model::new().submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in")
}

/// A name for an abstract socket that no other test has.
fn unique(what: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("xmml-test-{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn listen_at(name: &str) -> UnixListener {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
}

fn entry(method: &str, address: String) -> Descriptor {
    Descriptor { method: method.into(), addresses: vec![address] }
}

/// Joins as `b` by hand and says that it can be reached so.
fn publish(run: &Run, place: Place, entries: Vec<Descriptor>) -> Client {
    let mut b = Client::to_coordinator(&run.coordinator, &SECRET, "b").unwrap();
    b.ask_to_join(1);
    b.say(&ToCoordinator::Reachable { table: Table { place, entries } });
    b
}

/// Answers one sender as `b` does: the handshake, then what it has of conduit 1, which is nothing.
fn answer(mut stream: TcpStream) -> TcpStream {
    let me = Party {
        secret: SECRET.to_vec(),
        run: "test run".into(),
        name: "b".into(),
        versions: VERSIONS,
        nonce: fresh_nonce().unwrap(),
        private_key: fresh_nonce().unwrap(),
    };
    let mut listener = Listener::new(me, &[Role::Data]).unwrap();
    let mut bytes = [0; 1024];
    loop {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the sender went away");
        match listener.feed(&bytes[..count]) {
            Step::More => {}
            Step::Send(send) => stream.write_all(&send).unwrap(),
            Step::Done { send, .. } => {
                stream.write_all(&send).unwrap();
                stream.write_all(&frame::encode_resume(1, 0)).unwrap();
                return stream;
            }
            Step::Refused { reason, .. } => panic!("{reason:?}"),
        }
    }
}

/// Waits until a has chosen a method, and returns that.
fn chosen(a: &Instance) -> String {
    await_some("a method is chosen", || a.methods("out").unwrap()[0].chosen.clone())
}

fn reason(a: &Instance, method: &str) -> String {
    let report = a.methods("out").unwrap().remove(0);
    let refused = report.refused.iter().find(|refusal| refusal.method == method);
    refused.unwrap_or_else(|| panic!("{method} was not refused: {report:?}")).reason.clone()
}

#[test]
fn a_method_whose_listener_is_gone_is_passed_over_for_the_next_and_says_why() {
    let run = Run::of(model());
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let entries = vec![
        entry("inproc", "nowhere/1".into()),
        entry("shm", format!("@{}", unique("gone"))),
        entry("unix", format!("@{}", unique("gone"))),
        entry("tcp", tcp.local_addr().unwrap().to_string()),
    ];
    let _b = publish(&run, Place::here(), entries);
    let a = run.join("a");
    let _data = answer(tcp.accept().unwrap().0);
    assert_eq!(chosen(&a), "tcp");
    assert!(reason(&a, "inproc").contains("different processes"));
    assert!(reason(&a, "shm").contains("refused"), "{}", reason(&a, "shm"));
    assert!(reason(&a, "unix").contains("refused"));
}

/// As in another container of the same user and boot: the names lead to somebody else, who closes, or never says a word.
#[test]
fn strangers_behind_addresses_that_pass_their_probes_are_passed_over_before_they_are_given_up() {
    let run = Run::of(model());
    let (closes, silent) = (unique("closes"), unique("silent"));
    let (closing, silence) = (listen_at(&closes), listen_at(&silent));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let entries = vec![
        entry("shm", format!("@{closes}")),
        entry("unix", format!("@{silent}")),
        entry("tcp", tcp.local_addr().unwrap().to_string()),
    ];
    let _b = publish(&run, Place::here(), entries);
    let a = run.join("a");
    drop(closing.accept().unwrap());
    let (mut silent, _) = silence.accept().unwrap();
    let (stream, _) = tcp.accept().unwrap();
    // The next address is tried beside the silent one, to which the instance still holds on: it has greeted and not hung up.
    silent.set_nonblocking(true).unwrap();
    let error = silent.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "the silent one was given up first");
    let _data = answer(stream);
    assert_eq!(chosen(&a), "tcp");
    let why = reason(&a, "shm");
    assert!(why.contains("closed") || why.contains("reset"), "{why}");
}

#[test]
fn a_connection_that_ends_before_the_receiver_has_taken_it_up_counts_as_refused() {
    let run = Run::of(model());
    let (first, second) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let entries = vec![Descriptor {
        method: "tcp".into(),
        addresses: vec![first.local_addr().unwrap().to_string(), second.local_addr().unwrap().to_string()],
    }];
    let _b = publish(&run, Place::here(), entries);
    let a = run.join("a");
    drop(first.accept().unwrap());
    let mut data = answer(second.accept().unwrap().0);
    assert_eq!(chosen(&a), "tcp");
    a.reuse().unwrap();
    send(&a, "out", 7);
    let mut head = [0; 24];
    data.read_exact(&mut head).unwrap();
    assert_eq!(head[8], 1, "a message comes by the second address");
}

#[test]
fn conduits_between_the_same_two_share_a_connection_unless_they_are_for_something_else() {
    let class = |class| move |conduit: &mut xmml_core::spec::ConduitSpec| conduit.traffic_class = class;
    let mut model = Model::new();
    let ports = |kind: &str| (0..20).map(|port| format!("p{port}:{kind}")).collect::<Vec<_>>().join(" ");
    model = model.submodel("a", &ports("Oi"), 1).submodel("b", &ports("S"), 1);
    for port in 0..20 {
        let what = match port {
            0..8 => None,
            8..14 => Some(TrafficClass::Control),
            _ => Some(TrafficClass::Bulk),
        };
        model = model.couple_with(&format!("a.p{port}"), &format!("b.p{port}"), class(what));
    }
    let run = Run::of(model);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let _b = publish(&run, Place::here(), vec![entry("tcp", tcp.local_addr().unwrap().to_string())]);
    let _a = run.join("a");
    let accepted: Vec<TcpStream> = (0..3).map(|_| tcp.accept().unwrap().0).collect();
    // Whoever dials answers this later: all connections have been made.
    run.coordinator.confirm("a", 7);
    run.event("a answers", |event| matches!(event, Event::Confirmed { instance, .. } if instance == "a"));
    tcp.set_nonblocking(true).unwrap();
    assert!(tcp.accept().is_err(), "more than {} connections", accepted.len());
}

#[test]
fn a_control_message_does_not_wait_behind_bulk() {
    for (method, bulk_bytes) in [("tcp", 32 << 20), ("unix", 4 << 20), ("shm", 4 << 20), ("inproc", 4 << 20)] {
        pass_control_messages_by_bulk(method, bulk_bytes);
    }
}

fn pass_control_messages_by_bulk(method: &str, bulk_bytes: usize) {
    let model = Model::by(method)
        .submodel("a", "big:Oi small:Oi", 1)
        .submodel("b", "big:S small:S", 1)
        .with("a", |spec| spec.check_order = false)
        .with("b", |spec| spec.check_order = false)
        .couple_with("a.big", "b.big", |conduit| {
            (conduit.traffic_class, conduit.capacity) = (Some(TrafficClass::Bulk), 100);
            conduit.byte_budget = 1 << 30;
        })
        .couple_with("a.small", "b.small", |conduit| conduit.traffic_class = Some(TrafficClass::Control));
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    send(&a, "small", 0);
    assert_eq!(receive(&b, "small"), Some(0));
    let bulk = |value: u8| Data::Bytes(xmml_wire::buffer::Buffer::from(vec![value; bulk_bytes]));
    a.send("big", None, bulk(0), Stamps::default()).unwrap();
    assert!(matches!(b.receive("big", None, None).unwrap(), Received::Message(_)));
    for value in 0..6 {
        a.send("big", None, bulk(value), Stamps::default()).unwrap();
    }
    for value in 1..50 {
        send(&a, "small", value);
        assert_eq!(receive(&b, "small"), Some(value), "{method}");
    }
    assert_eq!(b.methods("big").unwrap()[0].traffic.messages, 1, "{method}: the bulk still waits");
    for value in 0..6 {
        let Received::Message(message) = b.receive("big", None, None).unwrap() else { panic!("no message") };
        let Data::Bytes(bytes) = message.data else { panic!("not bytes") };
        assert_eq!((bytes.len(), bytes[0]), (bulk_bytes, value), "{method}");
    }
}

#[test]
fn the_messages_of_eight_senders_into_one_port_keep_their_order_per_sender() {
    let (senders, messages) = (8, 200);
    let mut model = Model::new().mapper("m", &format!("i:in*{senders}")).with("m", |spec| spec.check_order = false);
    for copy in 0..senders {
        let name = format!("a[{copy}]");
        model = model.submodel(&name, "o:Oi", messages).couple_with(&format!("{name}.o"), "m.i", |conduit| {
            // By all methods at once.
            conduit.methods = vec![["inproc", "shm", "unix", "tcp"][copy as usize % 4].into()];
        });
    }
    let run = Run::of(model);
    std::thread::scope(|scope| {
        for copy in 0..senders {
            let a = run.join(&format!("a[{copy}]"));
            scope.spawn(move || {
                a.reuse().unwrap();
                while let Some(t) = a.next_step().unwrap() {
                    send(&a, "o", t as i64 * 100 + i64::from(copy));
                }
                a.leave().unwrap();
            });
        }
        let m = run.join("m");
        for number in 0..messages as i64 {
            assert!(m.reuse().unwrap());
            for copy in 0..senders {
                let Received::Message(message) = m.receive("i", Some(copy), None).unwrap() else {
                    panic!("no message")
                };
                assert_eq!(message.data, Data::Int(number * 100 + i64::from(copy)));
            }
        }
        assert!(!m.reuse().unwrap());
        m.leave().unwrap();
    });
}

#[test]
fn a_message_to_several_receivers_reaches_each_once_by_its_own_method() {
    let methods = ["inproc", "shm", "unix", "tcp"];
    let mut model = Model::new().submodel("a", "out:Oi", 20);
    for method in methods {
        model = model.submodel(method, "in:S", 20).couple_with("a.out", &format!("{method}.in"), |conduit| {
            conduit.methods = vec![method.into()];
        });
    }
    let run = Run::of(model);
    std::thread::scope(|scope| {
        for method in methods {
            let me = run.join(method);
            scope.spawn(move || {
                me.reuse().unwrap();
                for number in 0..20 {
                    assert_eq!(receive(&me, "in"), Some(number), "{method}");
                    if number == 0 {
                        assert_eq!(me.methods("in").unwrap()[0].chosen.as_deref(), Some(method));
                    }
                }
                me.leave().unwrap();
            });
        }
        let a = run.join("a");
        a.reuse().unwrap();
        (0..20).for_each(|number| assert_eq!(send(&a, "out", number), xmml_core::instance::Sent::Queued));
        a.leave().unwrap();
    });
}

#[test]
fn two_runs_of_the_same_model_on_one_host_never_meet() {
    // The secret is the same here, as if it had leaked; the name of the run alone keeps them apart.
    let run = Run::of(model());
    let _b = run.join("b");
    let mut spy = Client::to_coordinator(&run.coordinator, &SECRET, "a").unwrap();
    spy.ask_to_join(2);
    let table = spy.table_of("b");
    let other = Party {
        secret: SECRET.to_vec(),
        run: "another run".into(),
        name: "a".into(),
        versions: VERSIONS,
        nonce: fresh_nonce().unwrap(),
        private_key: fresh_nonce().unwrap(),
    };
    let address = table.entries.iter().find(|entry| entry.method == "tcp").unwrap().addresses[0].clone();
    let refused = Client::dial(TcpStream::connect(address).unwrap(), &other.run, &SECRET, "a", Role::Data, "b");
    assert!(refused.err().unwrap().contains("another run"));
}

#[test]
fn figures_of_a_conduit_count_messages_and_bytes() {
    let run = Run::of(model());
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    send(&a, "out", 1);
    assert_eq!(receive(&b, "in"), Some(1));
    std::thread::scope(|scope| {
        scope.spawn(|| b.leave().unwrap());
        a.leave().unwrap();
    });
    let report = a.methods("out").unwrap().remove(0);
    assert_eq!(report.traffic.messages, 1);
    assert!(report.traffic.bytes > 24, "{report:?}");
}

/// Sockets of this process for which the kernel holds so many bytes (it reserves as much again for itself).
fn sockets_that_hold(bytes: i32) -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let descriptors = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let held = |fd: i32| {
        let mut value = 0i32;
        let mut length = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the pointers describe `value` and `length`, which outlive the call.
        let status = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw mut value).cast(), &raw mut length)
        };
        (status == 0).then_some(value)
    };
    descriptors.filter(|fd| held(*fd) == Some(2 * bytes)).count()
}

#[test]
fn the_buffer_of_a_socket_is_the_same_asked_for_in_the_model_or_by_a_call() {
    let run = Run::of(
        Model::by("tcp:buffer=77777").submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in"),
    );
    let (a, b) = (run.join("a"), run.join("b"));
    assert_eq!(chosen(&a), "tcp");
    assert_eq!(sockets_that_hold(77_777), 1, "as the model says");
    for (method, bytes) in [("unix", 66_666), ("tcp", 88_888)] {
        b.set_methods("in", &[format!("{method}:buffer={bytes}")]).unwrap();
        assert_eq!(chosen(&a), method);
        assert_eq!(sockets_that_hold(bytes), 1, "as {method} was asked for");
    }
    let problem = a.set_methods("out", &["tcp:buffer=lots".to_owned()]).unwrap_err().to_string();
    assert!(problem.contains("tcp:buffer=lots"), "{problem}");
}
