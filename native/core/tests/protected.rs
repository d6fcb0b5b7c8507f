//! Connections that are protected, with somebody in the middle through whose hands their bytes pass.

mod support;

use support::proxy::{join_plainly, Fate, Proxy};
use support::{receive, send, Model, Run};
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, Received, Stamps};
use xmml_wire::data::Data;
use xmml_wire::error::Result;

const MESSAGES: u8 = 20;
const BYTES: usize = 100_000;

/// A bit of the first message on a connection, and one of the third.
const FIRST: u64 = 8 * 50_000 + 3;
const THIRD: u64 = 8 * 250_000 + 3;

fn pair(method: &str) -> Model {
    let model = Model::by(method).submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in");
    model.with("a", |spec| spec.check_order = false).with("b", |spec| spec.check_order = false)
}

fn messages() -> impl Iterator<Item = Data> {
    (0..MESSAGES).map(|value| Data::Bytes(vec![value; BYTES].into()))
}

fn send_all(me: &Instance) -> Result<()> {
    me.reuse()?;
    for message in messages() {
        me.send("out", None, message, Stamps::default())?;
    }
    me.leave()
}

fn receive_all(me: &Instance) -> Result<Vec<Data>> {
    me.reuse()?;
    let mut received = Vec::new();
    while let Received::Message(message) = me.receive("in", None, None)? {
        received.push(message.data);
        if received.len() == usize::from(MESSAGES) {
            break;
        }
    }
    me.leave()?;
    Ok(received)
}

/// What `b` receives of `a` through a proxy that changes a bit of each connection, if any.
fn changed_on_its_way(method: &str, which: fn(u64) -> Option<u64>) -> (Run, Result<Vec<Data>>) {
    let run = Run::of(pair(method));
    let proxy = Proxy::new(move |number, _| Fate { flip: which(number), ..Fate::default() });
    let received = std::thread::scope(|scope| {
        let receiver = proxy.join_behind(&run, "b");
        // Where the receiver fails, so does the sender, if it has not left before.
        let _sender = scope.spawn(|| send_all(&join_plainly(&run, "a")));
        let received = receive_all(&receiver);
        if received.is_err() {
            run.coordinator.abort("the receiver has failed");
        }
        received
    });
    (run, received)
}

#[test]
fn a_value_that_is_changed_on_its_way_is_taken_for_the_truth_where_nothing_is_protected() {
    let (_, received) = changed_on_its_way("tcp", |number| (number == 0).then_some(THIRD));
    let wrong = received.unwrap().into_iter().zip(messages()).filter(|(received, sent)| received != sent).count();
    assert_eq!(wrong, 1);
}

#[test]
fn a_value_that_is_changed_on_its_way_is_sent_again_and_people_are_told() {
    let (run, received) = changed_on_its_way("protected tcp", |number| (number == 0).then_some(THIRD));
    assert!(received.unwrap().into_iter().eq(messages()));
    run.event("people are told", |event| {
        matches!(event, Event::Warning { instance, text } if instance == "b"
            && text.starts_with("a: what came was changed, left out or put in on its way")
            && text.ends_with("it is sent again over a new connection"))
    });
}

#[test]
fn a_run_whose_values_are_changed_again_and_again_fails_and_says_why() {
    let (_, received) = changed_on_its_way("protected tcp", |_| Some(FIRST));
    let error = received.unwrap_err().to_string();
    assert!(error.contains("what came was changed, left out or put in on its way"), "{error}");
}

#[test]
fn both_ends_and_the_run_know_whether_a_conduit_is_protected() {
    for (method, protected) in [("protected tcp", true), ("tcp", false)] {
        let run = Run::of(pair(method));
        let (a, b) = (join_plainly(&run, "a"), join_plainly(&run, "b"));
        assert!(a.reuse().unwrap() && b.reuse().unwrap());
        send(&a, "out", 7);
        assert_eq!(receive(&b, "in"), Some(7));
        assert_eq!(a.methods("out").unwrap()[0].protected, protected);
        assert_eq!(b.methods("in").unwrap()[0].protected, protected);
        run.event(
            "the run is told",
            |event| matches!(event, Event::Conduits { protected: told, .. } if *told == protected),
        );
    }
}
