//! Handles of ports: given away, sent on, opened by whoever has them.

use xmml_core::coordinator::Event;
use xmml_core::handle::Handle;
use xmml_core::instance::{Instance, Received, Sent, Stamps};
use xmml_wire::data::Data;

use crate::support::{await_that, receive, receive_any, send, Model, Run, SECRET};

const METHODS: [&str; 4] = ["inproc", "shm", "unix", "tcp"];

/// `giver` has an open in port and tells `teller`, who tells `user`.
fn three() -> Model {
    Model::new()
        .submodel("giver", "news:Oi answers:S!", 1)
        .submodel("teller", "from:S news:Oi", 1)
        .submodel("user", "from:S answers:Oi!", 1)
        .couple("giver.news", "teller.from")
        .couple("teller.news", "user.from")
        .with("giver", |spec| spec.check_order = false)
        .with("teller", |spec| spec.check_order = false)
        .with("user", |spec| spec.check_order = false)
}

/// One instance with an open in port `in`, and some with an open out port `out`.
fn around(senders: &[&str]) -> Run {
    let mut model = Model::new().submodel("giver", "in:S!", 1).with("giver", |spec| spec.check_order = false);
    for name in senders {
        model = model.submodel(name, "out:Oi!", 1).with(name, |spec| spec.check_order = false);
    }
    Run::of(model)
}

fn sent_along(me: &Instance, port: &str, handle: Vec<u8>) {
    // Somewhere within nested data, as any other value.
    let nested = Data::Map(vec![("handles".to_owned(), Data::List(vec![Data::Bytes(handle.into())]))]);
    me.send(port, None, nested, Stamps::default()).unwrap();
}

fn taken_from(me: &Instance, port: &str) -> Vec<u8> {
    let Data::Map(map) = receive_any(me, port).unwrap().data else { panic!("no map") };
    let [(_, Data::List(list))] = &map[..] else { panic!("no list in {map:?}") };
    let Data::Bytes(bytes) = &list[0] else { panic!("no bytes in {list:?}") };
    bytes.to_vec()
}

#[test]
fn a_handle_goes_through_two_conduits_and_its_receiver_sends_to_the_port_directly() {
    for method in METHODS {
        let run = Run::of(three());
        let (giver, teller, user) = (run.join("giver"), run.join("teller"), run.join("user"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(giver.reuse().unwrap());
                let handle = giver.handle("answers", 1, &[method.to_owned()]).unwrap();
                assert!(handle.len() <= 512, "{}", handle.len());
                sent_along(&giver, "news", handle);
                for number in 0..200 {
                    assert_eq!(receive(&giver, "answers"), Some(number), "{method}");
                }
                assert_eq!(receive(&giver, "answers"), None, "ended once its only holder has closed it");
                giver.leave().unwrap();
            });
            scope.spawn(|| {
                assert!(teller.reuse().unwrap());
                sent_along(&teller, "news", taken_from(&teller, "from"));
                teller.leave().unwrap();
            });
            assert!(user.reuse().unwrap());
            assert!(!user.connected("answers").unwrap());
            assert_eq!(user.open("answers", &taken_from(&user, "from")).unwrap(), 0);
            assert!(user.connected("answers").unwrap());
            for number in 0..200 {
                assert_eq!(send(&user, "answers", number), Sent::Queued);
            }
            user.close("answers", None).unwrap();
            user.leave().unwrap();
        });
        let opened = run.event("opened", |event| matches!(event, Event::Opened { .. }));
        let Event::Opened { instance, conduit } = opened else { unreachable!() };
        assert_eq!((&*instance, &*conduit.name), ("user", "user.answers -> giver.answers"));
        let chosen = |event: &Event| matches!(event, Event::Conduits { conduits, .. } if *conduits == [conduit.id]);
        let Event::Conduits { method: by, .. } = run.event("its method", chosen) else { unreachable!() };
        assert_eq!(by, method);
    }
}

#[test]
fn without_methods_of_its_own_a_handle_has_at_most_64_bytes_and_goes_the_fastest_way() {
    let run = around(&["user"]);
    let (giver, user) = (run.join("giver"), run.join("user"));
    let handle = giver.handle("in", 1, &[]).unwrap();
    assert!(handle.len() <= 64, "{}", handle.len());
    let text = Handle::read(&handle).unwrap().to_string();
    assert!(text.contains("handle 0 of giver.in") && text.contains("as the coordinator knows"), "{text}");
    user.open("out", &handle).unwrap();
    send(&user, "out", 1);
    assert_eq!(receive(&giver, "in"), Some(1));
    assert_eq!(user.methods("out").unwrap()[0].chosen.as_deref(), Some("inproc"));
    assert_eq!(giver.methods("in").unwrap()[0].name, "user.out -> giver.in");
}

#[test]
fn eight_holders_of_one_handle_keep_their_order_and_the_port_ends_with_the_last_of_them() {
    const COUNT: i64 = 300;
    let names: Vec<String> = (0..8).map(|number| format!("user{number}")).collect();
    let run = around(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let giver = run.join("giver");
    let handle = giver.handle("in", 8, &[]).unwrap();
    std::thread::scope(|scope| {
        for (number, name) in names.iter().enumerate() {
            let user = run.join(name);
            let handle = &handle;
            scope.spawn(move || {
                user.open("out", handle).unwrap();
                for count in 0..COUNT {
                    send(&user, "out", number as i64 * COUNT + count);
                }
                user.leave().unwrap(); // which closes it
            });
        }
        let mut next = [0; 8];
        while let Some(value) = receive(&giver, "in") {
            let (sender, count) = ((value / COUNT) as usize, value % COUNT);
            assert_eq!(count, next[sender], "from user{sender}");
            next[sender] += 1;
        }
        assert_eq!(next, [COUNT; 8]);
    });
}

#[test]
fn several_handles_open_at_one_port_are_addressed_by_their_numbers_or_all_together() {
    let run = Run::of(
        Model::new()
            .submodel("one", "in:S!", 1)
            .submodel("two", "in:S!", 1)
            .submodel("user", "out:Oi!", 1)
            .with("one", |spec| spec.check_order = false)
            .with("two", |spec| spec.check_order = false)
            .with("user", |spec| spec.check_order = false),
    );
    let (one, two, user) = (run.join("one"), run.join("two"), run.join("user"));
    let handles = [&one, &two].map(|giver| giver.handle("in", 1, &[]).unwrap());
    assert_eq!(handles.map(|handle| user.open("out", &handle).unwrap()), [0, 1]);
    user.send("out", Some(1), Data::Int(5), Stamps::default()).unwrap();
    send(&user, "out", 6);
    user.close("out", Some(0)).unwrap();
    send(&user, "out", 7);
    assert_eq!((receive(&one, "in"), receive(&one, "in")), (Some(6), None));
    assert_eq!([0; 3].map(|_| receive(&two, "in")), [Some(5), Some(6), Some(7)]);
    let closed = user.send("out", Some(0), Data::Int(1), Stamps::default()).unwrap_err().to_string();
    assert!(closed.contains("nothing is open with the number 0"), "{closed}");
}

#[test]
fn a_handle_is_opened_as_often_as_it_was_made_for_and_not_after_it_was_revoked() {
    let run = around(&["user"]);
    let (giver, user) = (run.join("giver"), run.join("user"));
    let handle = giver.handle("in", 1, &[]).unwrap();
    user.open("out", &handle).unwrap();
    let again = user.open("out", &handle).unwrap_err().to_string();
    assert!(again.contains("handle 0 of giver.in was made to be opened once, and has been"), "{again}");
    let other = giver.handle("in", 0, &[]).unwrap();
    giver.revoke(&other).unwrap();
    let revoked = user.open("out", &other).unwrap_err().to_string();
    assert!(revoked.contains("handle 1 of giver.in was revoked"), "{revoked}");
    let not_mine = user.revoke(&other).unwrap_err().to_string();
    assert!(not_mine.contains("only revoke its own"), "{not_mine}");
    user.close("out", None).unwrap();
    assert_eq!(receive(&giver, "in"), None);
}

#[test]
fn a_forged_handle_one_of_another_run_and_plain_bytes_are_refused() {
    let run = around(&["user"]);
    let (giver, user) = (run.join("giver"), run.join("user"));
    let handle = giver.handle("in", 1, &[]).unwrap();
    let refusal = |bytes: &[u8]| user.open("out", bytes).unwrap_err().to_string();
    let mut forged = handle.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert!(refusal(&forged).contains("forged"));
    let foreign = Handle::new("another run", "giver", "in", 0, None).sealed("another run", &SECRET).unwrap();
    assert!(refusal(&foreign).contains("of another run"));
    assert!(refusal(b"hello").contains("this is no handle of a port"));
    let elsewhere = Handle::new("test run", "giver", "elsewhere", 0, None).sealed("test run", &SECRET).unwrap();
    assert!(refusal(&elsewhere).contains("giver.elsewhere is not an open in port"));
    let unmade = Handle::new("test run", "giver", "in", 9, None).sealed("test run", &SECRET).unwrap();
    assert!(refusal(&unmade).contains("giver.in has not made a handle with number 9"));
}

#[test]
fn ports_that_are_not_open_neither_give_nor_take_handles() {
    let run = Run::of(three());
    let (giver, user) = (run.join("giver"), run.join("user"));
    let handle = giver.handle("answers", 1, &[]).unwrap();
    let coupled = giver.handle("news", 1, &[]).unwrap_err().to_string();
    assert!(coupled.contains("news"), "{coupled}");
    let input = user.handle("from", 1, &[]).unwrap_err().to_string();
    assert!(input.contains("run:open=\"yes\"") && input.contains("\"from\" of user"), "{input}");
    let wrong_way = user.open("from", &handle).unwrap_err().to_string();
    assert!(wrong_way.contains("from"), "{wrong_way}");
    let unknown = giver.handle("answers", 1, &["shn".to_owned()]).unwrap_err().to_string();
    assert!(unknown.contains("did you mean shm?"), "{unknown}");
}

#[test]
fn to_send_before_a_handle_is_open_or_to_receive_before_one_was_made_is_an_error() {
    let run = around(&["user"]);
    let (giver, user) = (run.join("giver"), run.join("user"));
    let nowhere = user.send("out", None, Data::Int(1), Stamps::default()).unwrap_err().to_string();
    assert!(nowhere.contains("user.out leads nowhere: open a handle"), "{nowhere}");
    let nobody = giver.receive("in", None, None).unwrap_err().to_string();
    assert!(nobody.contains("no handle of it has been made"), "{nobody}");
}

#[test]
fn a_handle_that_nobody_is_left_to_open_does_not_keep_its_port_waiting() {
    let run = around(&["one", "two"]);
    let giver = run.join("giver");
    giver.handle("in", 2, &[]).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receive(&giver, "in"));
        for name in ["one", "two"] {
            run.join(name).leave().unwrap();
        }
        assert_eq!(waiting.join().unwrap(), None);
    });
}

#[test]
fn to_a_giver_that_has_left_a_handle_leads_to_nobody() {
    let run = around(&["user"]);
    let (giver, user) = (run.join("giver"), run.join("user"));
    let (handle, late) = (giver.handle("in", 1, &[]).unwrap(), giver.handle("in", 1, &[]).unwrap());
    user.open("out", &handle).unwrap();
    giver.leave().unwrap();
    run.event("left", |event| matches!(event, Event::Left { .. }));
    user.open("out", &late).unwrap();
    await_that("somebody says that the receiver is gone", || send(&user, "out", 1) == Sent::ReceiverGone);
    user.leave().unwrap();
}

#[test]
fn a_conduit_by_a_handle_is_full_at_its_capacity_and_can_grow() {
    let run = around(&["user"]);
    let giver = run.join("giver");
    let handle = giver.handle("in", 1, &[]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let user = run.join("user");
            user.open("out", &handle).unwrap();
            (0..40).for_each(|number| assert_eq!(send(&user, "out", number), Sent::Queued));
            user.leave().unwrap();
        });
        let waits = |event: &Event| matches!(event, Event::Waiting { instance, .. } if instance == "user");
        let Event::Waiting { waits, .. } = run.event("full", waits) else { unreachable!() };
        run.coordinator.grow(waits[0].conduit, 64);
        run.event("it goes on", |event| matches!(event, Event::Resumed { instance, .. } if instance == "user"));
        assert!((0..40).all(|number| receive(&giver, "in") == Some(number)));
    });
}

#[test]
fn the_method_of_a_conduit_by_a_handle_changes_while_messages_pass() {
    let run = around(&["user"]);
    let (giver, user) = (run.join("giver"), run.join("user"));
    user.open("out", &giver.handle("in", 1, &[]).unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..2000).for_each(|number| assert_eq!(send(&user, "out", number), Sent::Queued)));
        for number in 0..2000 {
            assert_eq!(receive(&giver, "in"), Some(number));
            if number % 500 == 100 {
                giver.set_methods("in", &[METHODS[number as usize / 500].to_owned()]).unwrap();
            }
        }
    });
    assert_eq!(user.methods("out").unwrap()[0].chosen.as_deref(), Some("tcp"));
}

#[test]
fn an_instance_that_is_alone_makes_handles_and_opens_them() {
    let spec = Model::new().submodel("me", "in:S! out:Oi!", 1).alone("me");
    let me = Instance::alone(spec, Default::default()).unwrap();
    assert!(me.reuse().unwrap());
    let handle = me.handle("in", 1, &[]).unwrap();
    assert_eq!(me.open("out", &handle).unwrap(), 0);
    me.send("out", None, Data::Int(3), Stamps::default()).unwrap();
    assert_eq!(me.outputs()["out"].len(), 1);
    assert!(matches!(me.receive("in", None, None).unwrap(), Received::NotConnected));
}
