//! What filters of the wire do to messages between two instances, by every method.

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;

use support::by_hand::{connect, Client, Until};
use support::proxy::{join_plainly, Fate, Proxy};
use support::{receive_any, Model, Run, SECRET};
use xmml_core::coordinator::Event;
use xmml_core::instance::Stamps;
use xmml_core::spec::{ConduitSpec, FilterSpec};
use xmml_wire::data::{Array, Data, Order};
use xmml_wire::frame::check::Algorithm;
use xmml_wire::frame::encode_message;
use xmml_wire::handshake::Role;
use xmml_wire::message::Message;

const METHODS: [&str; 4] = ["inproc", "shm", "unix", "tcp"];

fn plain(name: &str) -> FilterSpec {
    FilterSpec { name: name.into(), factor: None, params: BTreeMap::new() }
}

/// Has these filters work at the sender, and the others at the receiver.
fn filters(conduit: &mut ConduitSpec, sender: &[FilterSpec], receiver: &[&str]) {
    conduit.sender_filters = sender.to_vec();
    conduit.receiver_filters = receiver.iter().map(|name| plain(name)).collect();
}

/// Nested data with a large array in column order, whose numbers have few bits.
fn nested(seed: u64) -> Data {
    let numbers: Vec<f64> = (0..60_000).map(|at| ((at + seed) % 100) as f64 / 4.0).collect();
    let columns = Array { order: Order::ColumnMajor, ..Array::from_slice(&[300, 200], &numbers).unwrap() };
    let whole = Array::from_slice(&[2, 1], &[1_i16, -2]).unwrap();
    Data::Map(vec![
        ("field".into(), columns.into()),
        ("list".into(), vec![whole.into(), Data::Int(seed as i64), Data::Nothing, "text".into()].into()),
    ])
}

fn tcp_with_checksum() -> Model {
    Model::by("tcp").submodel("a", "out:Oi", 20).submodel("b", "in:S", 20).couple_with("a.out", "b.in", |conduit| {
        filters(conduit, &[plain("checksum")], &["checksum"]);
    })
}

#[test]
fn messages_come_out_as_they_went_in_by_every_method_and_filter() {
    let to = |form: &str| FilterSpec { params: [("to".into(), form.into())].into(), ..plain("precision") };
    let chains: [(&[FilterSpec], &[&str]); 5] = [
        (&[plain("zstd")], &["unzstd"]),
        (&[plain("lz4")], &["unlz4"]),
        (&[to("float16")], &["restore"]),
        (&[plain("checksum")], &["checksum"]),
        (&[to("float32"), plain("zstd"), plain("checksum")], &["checksum", "unzstd", "restore"]),
    ];
    for method in METHODS {
        for (sender, receiver) in chains {
            let model = Model::by(method).submodel("a", "out:Oi", 4).submodel("b", "in:S", 4);
            let run = Run::of(model.couple_with("a.out", "b.in", |conduit| filters(conduit, sender, receiver)));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let me = join_plainly(&run, "a");
                    me.reuse().unwrap();
                    for seed in 0..4 {
                        me.send("out", None, nested(seed), Stamps::default()).unwrap();
                    }
                    me.leave().unwrap();
                });
                let me = join_plainly(&run, "b");
                me.reuse().unwrap();
                for seed in 0..4 {
                    assert!(receive_any(&me, "in").unwrap().data == nested(seed), "{method}, {sender:?}");
                }
                me.leave().unwrap();
            });
        }
    }
}

#[test]
fn a_message_that_is_damaged_on_a_connection_that_can_break_is_sent_again_and_people_are_told() {
    let run = Run::of(tcp_with_checksum());
    // In the payload of the second message of the first connection.
    let proxy = Proxy::new(|number, _| Fate { flip: (number == 0).then_some(8 * 700_000 + 3), ..Fate::default() });
    std::thread::scope(|scope| {
        let receiver = proxy.join_behind(&run, "b");
        scope.spawn(|| {
            let me = join_plainly(&run, "a");
            me.reuse().unwrap();
            for seed in 0..20 {
                me.send("out", None, nested(seed), Stamps::default()).unwrap();
            }
            me.leave().unwrap();
        });
        receiver.reuse().unwrap();
        for seed in 0..20 {
            assert!(receive_any(&receiver, "in").unwrap().data == nested(seed), "message {seed}");
        }
        receiver.leave().unwrap();
    });
    assert_eq!(proxy.strikes.load(Ordering::Relaxed), 1);
    run.event("people are told", |event| {
        matches!(event, Event::Warning { instance, text } if instance == "b" && text.contains(
            "a.out -> b.in: message 2 was changed on its way: its checksum does not fit; it is sent again",
        ))
    });
}

#[test]
fn a_damaged_message_on_a_connection_that_cannot_break_ends_the_wait_with_conduit_and_number() {
    let model = Model::by("unix").submodel("a", "out:Oi", 9).submodel("b", "in:S", 9);
    let run =
        Run::of(model.couple_with("a.out", "b.in", |conduit| filters(conduit, &[plain("checksum")], &["checksum"])));
    let mut control = Client::to_coordinator(&run.coordinator, &SECRET, "a").unwrap();
    control.ask_to_join(std::process::id());
    let b = join_plainly(&run, "b");
    let table = control.table_of("b");
    let address = &table.entries.iter().find(|entry| entry.method == "unix").unwrap().addresses[0];
    let mut data = Client::dial(connect(address), "test run", &SECRET, "a", Role::Data, "b").unwrap();
    data.frame();
    b.reuse().unwrap();
    let message = Message { data: nested(1), ..Message::default() };
    let frame = encode_message(1, 1, None, &message).unwrap().checked(Algorithm::Crc32c);
    let mut bytes = frame.slices().collect::<Vec<_>>().concat();
    let first = bytes.len();
    bytes.extend(frame.numbered(2).slices().collect::<Vec<_>>().concat());
    bytes[first + 70_000] ^= 0x10;
    let mut stream = data.stream.try_clone().unwrap();
    std::thread::spawn(move || stream.write_all(&bytes));
    assert!(receive_any(&b, "in").unwrap().data == nested(1));
    let error = b.receive("in", None, None).unwrap_err().to_string();
    assert!(error.contains("a.out -> b.in: message 2 was changed on its way"), "{error}");
}

#[test]
fn a_message_without_the_checksum_that_its_conduit_has_is_refused() {
    let run = Run::of(tcp_with_checksum().with("a", |_| ()));
    let mut control = Client::to_coordinator(&run.coordinator, &SECRET, "a").unwrap();
    control.ask_to_join(std::process::id());
    let b = join_plainly(&run, "b");
    let address = control.table_of("b").entries[0].addresses[0].clone();
    b.reuse().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.receive("in", None, None).unwrap_err().to_string());
        while !waiting.is_finished() {
            let stream = Until::over(&address, || waiting.is_finished());
            let Ok(mut data) = Client::dial(stream, "test run", &SECRET, "a", Role::Data, "b") else { continue };
            let Ok(_) = data.next_frame() else { continue };
            let frame = encode_message(1, 1, None, &Message::default()).unwrap();
            let _ = data.stream.write_all(&frame.slices().collect::<Vec<_>>().concat());
            let _ = std::io::Read::read(&mut data.stream, &mut [0; 64]); // until b has noticed
        }
        let error = waiting.join().unwrap();
        assert!(error.contains("message 1 has lost its checksum"), "{error}");
    });
}
