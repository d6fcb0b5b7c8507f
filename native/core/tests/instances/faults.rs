//! A partner that lives, but sends what cannot be taken in.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use xmml_core::coordinator::Event;
use xmml_core::instance::Instance;
use xmml_core::runtime::link::VERDICT_LIMIT;
use xmml_wire::frame;
use xmml_wire::handshake::Role;

use crate::support::by_hand::{connect, Client, Until};
use crate::support::{not_run, Model, Run, SECRET};

/// `b` is a real instance; its partner `a` is spoken by hand, with a connection of data between the two.
fn pair(run: &Run) -> (Client, Client, Instance) {
    let mut control = Client::to_coordinator(&run.coordinator, &SECRET, "a").unwrap();
    control.ask_to_join(std::process::id());
    let b = run.join("b");
    let table = control.table_of("b");
    let address = &table.entries.iter().find(|entry| entry.method == "unix").unwrap().addresses[0];
    let mut data = Client::dial(connect(address), "test run", &SECRET, "a", Role::Data, "b").unwrap();
    data.frame(); // b says where to begin
    (control, data, b)
}

fn model() -> Model {
    Model::by("unix").submodel("a", "out:Oi", 9).submodel("b", "in:S", 9).couple("a.out", "b.in")
}

/// A head that announces a frame of a kind that there is not.
fn nonsense() -> Vec<u8> {
    [vec![0; 8], vec![99, 1, 0, 0, 1, 0, 0, 0], vec![0; 8]].concat()
}

#[test]
fn a_wait_for_one_who_sends_nonsense_ends_with_the_reason_before_the_run_does() {
    for (sent, reason) in [
        (nonsense(), "unknown kind 99"),
        (frame::encode_end(99, 1).to_vec(), "conduit 99, which does not lead from it to here"),
        (frame::encode_end(1, 77).to_vec(), "messages were lost"),
    ] {
        let run = Run::of(model());
        let (_control, mut data, b) = pair(&run);
        b.reuse().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| b.receive("in", None, None).unwrap_err().to_string());
            run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
            let begin = Instant::now();
            data.stream.write_all(&sent).unwrap();
            let error = waiting.join().unwrap();
            // As for one that has ended without a word.
            assert!(begin.elapsed() < VERDICT_LIMIT, "{reason}: {:?}", begin.elapsed());
            assert!(error.starts_with("a: what it sent cannot be taken in: ") && error.contains(reason), "{error}");
        });
        run.event(
            "the run is told",
            |event| matches!(event, Event::Failed { instance, text } if instance == "b" && text.contains(reason)),
        );
    }
}

/// `b` joins a run by tcp; `a`, by hand, learns at which addresses it listens.
fn by_tcp() -> (Run, Client, Instance, Vec<String>) {
    let run = Run::of(Model::by("tcp").submodel("a", "out:Oi", 9).submodel("b", "in:S", 9).couple("a.out", "b.in"));
    let mut control = Client::to_coordinator(&run.coordinator, &SECRET, "a").unwrap();
    control.ask_to_join(std::process::id());
    let b = run.join("b");
    let addresses = control.table_of("b").entries[0].addresses.clone();
    (run, control, b, addresses)
}

#[test]
fn who_breaks_the_protocol_by_tcp_fails_at_once_where_nobody_can_have_changed_what_it_sent() {
    let (run, _control, b, addresses) = by_tcp();
    let near = addresses.iter().find(|address| address.starts_with("127.")).unwrap();
    b.reuse().unwrap();
    let mut data = Client::dial(TcpStream::connect(near).unwrap(), "test run", &SECRET, "a", Role::Data, "b").unwrap();
    data.stream.write_all(&nonsense()).unwrap();
    let error = b.receive("in", None, None).unwrap_err().to_string();
    assert!(error.starts_with("a: what it sent cannot be taken in: ") && error.contains("unknown kind 99"), "{error}");
    run.event(
        "the run is told",
        |event| matches!(event, Event::Failed { text, .. } if text.contains("unknown kind 99")),
    );
}

/// Gives the loopback device of a network of its own two addresses, and carries out what follows: what goes from one to the other
/// passes a network, as far as programs can tell.
const IN_A_NETWORK: &str = "ip link set lo up && ip addr add 192.0.2.1/32 dev lo && ip addr add 192.0.2.2/32 dev lo &&
    ip route replace local 192.0.2.1 dev lo table local src 192.0.2.2 && exec \"$0\" \"$@\"";

#[test]
fn a_connection_that_can_break_is_made_again_after_nonsense_but_not_for_ever() {
    let program = std::env::current_exe().unwrap();
    let in_a_network = |words: &[&OsStr]| {
        let mut command = Command::new("unshare");
        command.args(["--net", "--map-root-user", "sh", "-c", IN_A_NETWORK]).args(words);
        command.env("XMML_LISTEN", "192.0.2.1:0").output()
    };
    if !in_a_network(&["true".as_ref()]).is_ok_and(|done| done.status.success()) {
        return not_run("needs network namespaces and ip: apt-get install iproute2");
    }
    let role = ["--ignored", "--exact", "faults::nonsense_over_a_network", "--nocapture"].map(OsStr::new);
    let done = in_a_network(&[&[program.as_os_str()], &role[..]].concat()).unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
#[ignore = "another test starts it in a network of its own"]
fn nonsense_over_a_network() {
    let (_run, _control, b, addresses) = by_tcp();
    // In clear, over an address by which others might come between.
    let address = addresses.into_iter().find(|address| address.starts_with("192.0.2.1:")).unwrap();
    b.reuse().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.receive("in", None, None).unwrap_err().to_string());
        let mut connections = 0;
        while !waiting.is_finished() {
            let stream = Until::over(&address, || waiting.is_finished()); // after the last one nobody reads
            let Ok(mut data) = Client::dial(stream, "test run", &SECRET, "a", Role::Data, "b") else { continue };
            let Ok(_) = data.next_frame() else { continue };
            let _ = data.stream.write_all(&nonsense());
            let _ = data.stream.read(&mut [0; 64]); // until b has noticed
            connections += 1;
        }
        assert!((4..=9).contains(&connections), "{connections}");
        assert!(waiting.join().unwrap().contains("unknown kind 99"));
    });
}
