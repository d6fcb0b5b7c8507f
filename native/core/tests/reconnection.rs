//! Methods that break: connections are cut, stalled, half closed, doubled, at random bytes of anything that travels, and every message
//! still arrives once and in order.
//!
//! `XMML_SOAK=1` cuts 1,000 times instead of 50.

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use support::proxy::{join_plainly, Fate, Proxy, Random};
use support::{Model, Run, LIMIT};
use xmml_core::instance::{Instance, NextStamp, Received, Stamps};
use xmml_wire::buffer::Buffer;
use xmml_wire::data::Data;
use xmml_wire::message::Message;

fn soak(small: u64, large: u64) -> u64 {
    if std::env::var_os("XMML_SOAK").is_some() {
        large
    } else {
        small
    }
}

/// `a` sends to `b` on so many conduits, without an order.
fn model(conduits: usize) -> Model {
    let ports = |direction: &str, operator: &str| {
        (0..conduits).map(|number| format!("{direction}{number}:{operator} ")).collect::<String>()
    };
    let mut model = Model::by("tcp").submodel("a", &ports("out", "Oi"), 0).submodel("b", &ports("in", "S"), 0);
    for number in 0..conduits {
        model = model.couple_with(&format!("a.out{number}"), &format!("b.in{number}"), |conduit| conduit.capacity = 64);
    }
    model.with("a", |spec| spec.check_order = false).with("b", |spec| spec.check_order = false)
}

/// Sends numbers with padding on each conduit until the proxy has struck so often, and at least so many; `b` checks all of them, and that
/// the last ones come, too.
fn every_message_arrives(conduits: usize, proxy: &Proxy, strikes: u64, least: i64, longest_padding: u64) {
    let run = Run::of(model(conduits));
    std::thread::scope(|scope| {
        let receiver = proxy.join_behind(&run, "b");
        let sending = scope.spawn(|| {
            let me = join_plainly(&run, "a");
            me.reuse().unwrap();
            let mut random = Random(42);
            let mut value = 0_i64;
            while proxy.strikes.load(Ordering::Relaxed) < strikes || value < least {
                for conduit in 0..conduits {
                    send_padded(&me, conduit, value, random.below(longest_padding) as usize);
                }
                value += 1;
                assert!(value < 2_000_000, "the proxy does not strike");
            }
            me.leave().unwrap();
            value
        });
        receiver.reuse().unwrap();
        let (mut came, mut goes_on) = (vec![0; conduits], true);
        while std::mem::take(&mut goes_on) {
            for (conduit, expected) in came.iter_mut().enumerate() {
                if let Some(value) = receive_padded(&receiver, conduit) {
                    assert_eq!(value, *expected, "MESSAGES WRONG: conduit {conduit}");
                    (*expected, goes_on) = (*expected + 1, true);
                }
            }
        }
        receiver.leave().unwrap();
        assert_eq!(came, vec![sending.join().unwrap(); conduits], "MESSAGES WRONG: what came is what was sent");
    });
}

fn send_padded(me: &Instance, conduit: usize, value: i64, padding: usize) {
    let padding = Data::Bytes(Buffer::from(vec![value as u8; padding]));
    me.send(
        &format!("out{conduit}"),
        None,
        vec![Data::Int(value), padding].into(),
        Stamps { timestamp: Some(0.0), next: NextStamp::Nothing },
    )
    .unwrap();
}

fn receive_padded(me: &Instance, conduit: usize) -> Option<i64> {
    match me.receive(&format!("in{conduit}"), None, Some(LIMIT)).unwrap() {
        Received::Message(Message { data: Data::List(items), .. }) => match &items[..] {
            [Data::Int(value), Data::Bytes(padding)] => {
                assert!(padding.iter().all(|byte| *byte == *value as u8), "MESSAGES WRONG: the padding of {value}");
                Some(*value)
            }
            other => panic!("MESSAGES WRONG: {} items", other.len()),
        },
        Received::Ended => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_message_arrives_once_although_connections_are_cut_at_random_bytes() {
    let cuts = soak(50, 1000);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let proxy = Proxy::new(move |_, strikes| Fate {
        cut_after: (strikes < cuts).then(|| 300 + random.below(60_000)),
        ..Fate::default()
    });
    every_message_arrives(1, &proxy, cuts, 500, 6_000);
}

#[test]
fn cuts_amid_the_handshake_and_the_resuming_lose_nothing() {
    // Hello 82 bytes, challenge, proof: 300 bytes and less are within the handshake; a little more, within what follows it.
    let cuts = soak(40, 600);
    let mut random = Random(7);
    let proxy = Proxy::new(move |number, strikes| Fate {
        // Every third one lives for a while, or the sender would rightly give up.
        cut_after: (strikes < cuts).then(|| if number % 3 == 2 { 5_000 } else { 1 + random.below(420) }),
        ..Fate::default()
    });
    every_message_arrives(1, &proxy, cuts, 200, 500);
}

#[test]
fn many_conduits_over_one_connection_all_go_on_where_they_were() {
    let cuts = soak(30, 600);
    let mut random = Random(11);
    let proxy = Proxy::new(move |_, strikes| Fate {
        cut_after: (strikes < cuts).then(|| 2_000 + random.below(100_000)),
        ..Fate::default()
    });
    every_message_arrives(20, &proxy, cuts, 40, 2_000);
}

#[test]
fn payloads_of_megabytes_survive_cuts_amid_them() {
    let cuts = soak(10, 200);
    let mut random = Random(13);
    let proxy = Proxy::new(move |_, strikes| Fate {
        cut_after: (strikes < cuts).then(|| 100_000 + random.below(12_000_000)),
        ..Fate::default()
    });
    every_message_arrives(1, &proxy, cuts, 8, 6_000_000);
}

#[test]
fn a_sender_that_is_back_before_its_old_connection_is_gone_delivers_nothing_twice() {
    let cuts = soak(20, 400);
    let mut random = Random(17);
    let proxy = Proxy::new(move |_, strikes| Fate {
        cut_after: (strikes < cuts).then(|| 1_000 + random.below(40_000)),
        linger: Duration::from_millis(20 + random.below(100)),
        ..Fate::default()
    });
    every_message_arrives(3, &proxy, cuts, 100, 3_000);
}

#[test]
fn a_direction_that_ends_alone_ends_the_connection_and_nothing_else() {
    let ends = soak(20, 400);
    let mut random = Random(19);
    let proxy = Proxy::new(move |_, strikes| Fate {
        half_close_after: (strikes < ends).then(|| 400 + random.below(40_000)),
        ..Fate::default()
    });
    every_message_arrives(2, &proxy, ends, 100, 3_000);
}

#[test]
fn stalls_delay_messages_and_no_more() {
    let stalls = soak(6, 100);
    let mut random = Random(23);
    let proxy = Proxy::new(move |_, strikes| Fate {
        stall: Some((400 + random.below(20_000), Duration::from_millis(50 + random.below(200)))),
        cut_after: (strikes < stalls).then(|| 30_000 + random.below(30_000)),
        ..Fate::default()
    });
    every_message_arrives(2, &proxy, stalls, 100, 3_000);
}

#[test]
fn both_directions_between_two_instances_survive_cuts() {
    let cuts = soak(30, 600);
    let fates = move |seed| {
        let mut random = Random(seed);
        Proxy::new(move |_, strikes| Fate {
            cut_after: (strikes < cuts / 2).then(|| 500 + random.below(20_000)),
            ..Fate::default()
        })
    };
    let (to_a, to_b) = (fates(29), fates(31));
    let run = Run::of(
        Model::by("tcp")
            .submodel("a", "out0:Oi in0:S", 0)
            .submodel("b", "out0:Oi in0:S", 0)
            .couple("a.out0", "b.in0")
            .couple("b.out0", "a.in0")
            .with("a", |spec| spec.check_order = false)
            .with("b", |spec| spec.check_order = false),
    );
    let (a, b) = (to_a.join_behind(&run, "a"), to_b.join_behind(&run, "b"));
    let struck = |proxy: &Proxy| proxy.strikes.load(Ordering::Relaxed) >= cuts / 2;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            b.reuse().unwrap();
            while let Some(value) = receive_padded(&b, 0) {
                send_padded(&b, 0, value, 900);
            }
            b.leave().unwrap();
        });
        a.reuse().unwrap();
        let mut value = 0;
        while !(struck(&to_a) && struck(&to_b)) || value < 100 {
            send_padded(&a, 0, value, 900);
            assert_eq!(receive_padded(&a, 0), Some(value));
            value += 1;
        }
        a.leave().unwrap();
    });
}
