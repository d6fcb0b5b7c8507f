//! The coordinator seen from outside: who may join, what joiners are told, and what strangers can do to it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use xmml_core::control::{ToCoordinator, ToInstance};
use xmml_core::coordinator::{ConduitTotals, Coordinator, CoordinatorOptions, Event};
use xmml_core::spec::{ConduitSpec, InstanceSpec, Kind};
use xmml_wire::methods::{Place, Table};

use crate::support::await_some;
use crate::support::by_hand::{connect, control_address, Client};

const SECRET: &[u8] = b"the secret of the run";

fn coordinator() -> Coordinator {
    Coordinator::start(CoordinatorOptions { run_id: "run".into(), secret: SECRET.to_vec(), listen: None, relay: None })
        .unwrap()
}

fn spec(name: &str) -> InstanceSpec {
    let conduit = ConduitSpec { capacity: 2, ..ConduitSpec::new(7, ("a", "o"), ("b", "i")) };
    InstanceSpec { kind: Kind::Submodel, conduits: vec![conduit.into()], ..InstanceSpec::new(name) }
}

fn table() -> Table {
    Table { place: Place::here(), entries: vec![] }
}

fn dial(coordinator: &Coordinator) -> UnixStream {
    connect(&control_address(coordinator).address)
}

fn join(coordinator: &Coordinator, name: &str) -> Client {
    let mut client = Client::to_coordinator(coordinator, SECRET, name).unwrap();
    client.ask_to_join(std::process::id());
    client
}

/// Collects events until one fits.
fn wait_for(coordinator: &Coordinator, fits: impl Fn(&Event) -> bool) -> Event {
    await_some("the event comes", || {
        coordinator.wait_events(Duration::from_millis(100)).into_iter().find(|event| fits(event))
    })
}

#[test]
fn an_instance_that_joins_is_welcomed_with_its_spec() {
    let coordinator = coordinator();
    coordinator.define(spec("a"));
    let mut client = join(&coordinator, "a");
    assert!(matches!(client.hear(), ToInstance::Welcome { spec, .. } if spec.name == "a"));
    wait_for(&coordinator, |event| matches!(event, Event::Joined { instance, .. } if instance == "a"));
}

#[test]
fn an_instance_that_asks_before_it_is_defined_is_kept_waiting() {
    let coordinator = coordinator();
    let mut client = join(&coordinator, "a");
    coordinator.define(spec("a"));
    assert!(matches!(client.hear(), ToInstance::Welcome { .. }));
}

#[test]
fn a_sender_hears_how_its_receiver_can_be_reached_whoever_comes_first() {
    for sender_first in [true, false] {
        let coordinator = coordinator();
        coordinator.define(spec("a"));
        coordinator.define(spec("b"));
        let mut early = sender_first.then(|| join(&coordinator, "a"));
        if let Some(sender) = &mut early {
            assert!(matches!(sender.hear(), ToInstance::Welcome { .. }));
        }
        let mut receiver = join(&coordinator, "b");
        assert!(matches!(receiver.hear(), ToInstance::Welcome { .. }));
        receiver.say(&ToCoordinator::Reachable { table: table() });
        receiver.say(&ToCoordinator::Warning { text: "said".into() });
        wait_for(&coordinator, |event| matches!(event, Event::Warning { .. }));
        let mut sender = early.unwrap_or_else(|| {
            let mut sender = join(&coordinator, "a");
            assert!(matches!(sender.hear(), ToInstance::Welcome { .. }));
            sender
        });
        assert!(matches!(sender.hear(), ToInstance::Peer { instance, .. } if instance == "b"));
    }
}

#[test]
fn neighbours_hear_what_an_instance_sent_before_it_left() {
    let coordinator = coordinator();
    coordinator.define(spec("a"));
    coordinator.define(spec("b"));
    let mut receiver = join(&coordinator, "b");
    assert!(matches!(receiver.hear(), ToInstance::Welcome { .. }));
    let mut sender = join(&coordinator, "a");
    assert!(matches!(sender.hear(), ToInstance::Welcome { .. }));
    let totals = ConduitTotals { conduit: 7, sent: 3, received: 0, bytes: 24, dropped: 0, replaced: 0 };
    sender.say(&ToCoordinator::Leaving { runs: 1, conduits: vec![totals], waited_s: 0.0 });
    assert!(matches!(sender.hear(), ToInstance::Goodbye));
    assert!(matches!(receiver.hear(), ToInstance::PeerLeft { sent, .. } if sent == [(7, 3)]));
    drop(sender);
    wait_for(&coordinator, |event| matches!(event, Event::Left { runs: 1, .. }));
}

#[test]
fn a_connection_that_closes_without_leaving_is_reported_lost() {
    let coordinator = coordinator();
    coordinator.define(spec("a"));
    let mut client = join(&coordinator, "a");
    client.hear();
    drop(client);
    wait_for(&coordinator, |event| matches!(event, Event::Lost { instance } if instance == "a"));
}

#[test]
fn everyone_hears_an_abort_also_who_comes_later() {
    let coordinator = coordinator();
    coordinator.define(spec("a"));
    coordinator.define(spec("b"));
    let mut early = join(&coordinator, "a");
    early.hear();
    coordinator.abort("b failed");
    assert!(matches!(early.hear(), ToInstance::Abort { reason } if reason == "b failed"));
    let mut late = join(&coordinator, "b");
    late.hear();
    assert!(matches!(late.hear(), ToInstance::Abort { .. }));
}

#[test]
fn both_ends_hear_that_a_conduit_grows() {
    let coordinator = coordinator();
    coordinator.define(spec("a"));
    coordinator.define(spec("b"));
    let mut sender = join(&coordinator, "a");
    sender.hear();
    coordinator.grow(7, 5);
    assert!(matches!(sender.hear(), ToInstance::Grow { conduit: 7, capacity: 5 }));
    let mut receiver = join(&coordinator, "b");
    assert!(matches!(receiver.hear(), ToInstance::Welcome { spec, .. } if spec.conduits[0].capacity == 5));
}

#[test]
fn a_second_process_cannot_join_under_the_same_name() {
    let coordinator = coordinator();
    coordinator.define(spec("a"));
    let mut first = join(&coordinator, "a");
    first.hear();
    let mut second = Client::to_coordinator(&coordinator, SECRET, "a").unwrap();
    second.ask_to_join(std::process::id() + 1);
    assert!(matches!(second.hear(), ToInstance::Abort { reason } if reason.contains("has joined already")));
}

#[test]
fn a_wrong_secret_is_refused_and_reported() {
    let coordinator = coordinator();
    assert!(Client::to_coordinator(&coordinator, b"another secret", "a").is_err());
    wait_for(&coordinator, |event| matches!(event, Event::Refused { .. }));
}

#[test]
fn garbage_and_half_open_connections_do_not_disturb_a_run() {
    let coordinator = coordinator();
    coordinator.define(spec("a"));
    let silent: Vec<UnixStream> = (0..200).map(|_| dial(&coordinator)).collect();
    for kind in 0..4_u8 {
        let mut stream = dial(&coordinator);
        let bytes = match kind {
            0 => vec![0; 4096],
            1 => vec![0xff; 64],
            2 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            _ => u64::MAX.to_le_bytes().repeat(16),
        };
        // The coordinator may close before it has read everything.
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    let mut client = join(&coordinator, "a");
    assert!(matches!(client.hear(), ToInstance::Welcome { .. }));
    drop(silent);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let options = CoordinatorOptions {
        run_id: "run".into(),
        secret: SECRET.to_vec(),
        listen: Some(address.clone()),
        relay: None,
    };
    let text = Coordinator::start(options).err().unwrap().to_string();
    assert!(text.starts_with(&format!("cannot listen on {address}: ")), "{text}");
}
