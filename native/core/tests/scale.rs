//! Many instances, and many conduits between two.

mod support;

use std::sync::Mutex;
use std::time::Instant;

use support::by_hand::{self, Client};
use support::{receive, send, Model, Run};
use xmml_core::control::ToInstance;
use xmml_wire::handshake::Role;

/// One at a time: descriptors are counted per process.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_ring_of_a_hundred_instances_turns() {
    let _turn = TURN.lock();
    const COUNT: i64 = 100;
    let mut model = Model::new();
    for number in 0..COUNT {
        model = model.submodel(&format!("i{number}"), "out:Oi in:S", 20);
    }
    for number in 0..COUNT {
        model = model.couple(&format!("i{number}.out"), &format!("i{}.in", (number + 1) % COUNT));
    }
    let run = Run::of(model);
    std::thread::scope(|scope| {
        for number in 0..COUNT {
            let run = &run;
            scope.spawn(move || {
                let me = run.join(&format!("i{number}"));
                let mut value = number;
                while me.reuse().unwrap() {
                    while me.next_step().unwrap().is_some() {
                        send(&me, "out", value);
                        value = receive(&me, "in").unwrap();
                    }
                }
                assert_eq!(value, (number - 20).rem_euclid(COUNT));
                me.leave().unwrap();
            });
        }
    });
}

#[test]
fn a_thousand_conduits_between_two_instances_share_one_connection() {
    let _turn = TURN.lock();
    const COUNT: usize = 1000;
    let ports = |place: &str| (0..COUNT).map(|number| format!("p{number}:{place} ")).collect::<String>();
    let mut model = Model::new().submodel("a", &ports("Oi"), 3).submodel("b", &ports("S"), 3);
    for number in 0..COUNT {
        model = model.couple(&format!("a.p{number}"), &format!("b.p{number}"));
    }
    let run = Run::of(model);
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let me = run.join("a");
            me.reuse().unwrap();
            while let Some(time) = me.next_step().unwrap() {
                (0..COUNT).for_each(|number| {
                    assert!(send(&me, &format!("p{number}"), time as i64) == xmml_core::instance::Sent::Queued)
                });
            }
            me.leave().unwrap();
        });
        let me = run.join("b");
        let before = descriptors();
        let begin = Instant::now();
        me.reuse().unwrap();
        while let Some(time) = me.next_step().unwrap() {
            // Against the order of sending, so that everything passes through the queues.
            (0..COUNT).rev().for_each(|number| assert_eq!(receive(&me, &format!("p{number}")), Some(time as i64)));
        }
        println!("{} messages in {:?}", 3 * COUNT, begin.elapsed());
        assert!(descriptors() < before + 50, "nothing per conduit");
        me.leave().unwrap();
    });
}

#[test]
fn everybody_is_let_in_where_more_than_a_thousand_come_at_once_and_are_slow_to_prove_themselves() {
    let _turn = TURN.lock();
    const COUNT: usize = 1100;
    support::descriptors::allow_descriptors(4 * COUNT as u64);
    let name = |number: usize| format!("i{number}");
    let run = Run::of((0..COUNT).fold(Model::new(), |model, number| model.submodel(&name(number), "out:Oi", 1)));
    let address = by_hand::control_address(&run.coordinator);
    let waiting: Vec<_> = (0..COUNT).map(|_| by_hand::connect(&address.address)).collect();
    let joined: Vec<_> = waiting
        .into_iter()
        .enumerate()
        .map(|(number, stream)| {
            let (run, name) = (&address.run, name(number));
            let mut client = Client::dial(stream, run, &support::SECRET, &name, Role::Control, "coordinator").unwrap();
            client.ask_to_join(std::process::id());
            client
        })
        .collect();
    for (number, mut client) in joined.into_iter().enumerate() {
        assert!(matches!(client.hear(), ToInstance::Welcome { spec, .. } if spec.name == name(number)));
    }
}
