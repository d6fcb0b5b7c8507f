//! Thousands of connections at the doors of an instance and of a coordinator: memory stays bounded, and the run goes on.
//!
//! `XMML_SOAK=1` opens 10,000 at each door instead of 500.

mod support;

use std::io::Write;
use std::net::TcpStream;

use support::{receive, send, Model, Run};
use xmml_core::coordinator::{CoordinatorAddress, Event};

/// Handshakes under way are bounded, and so is what each may send.
const GROWTH_MAX: u64 = 48 << 20;

/// So many are open at one time; the descriptors of both ends are in this process.
const AT_ONCE: usize = 300;

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Opens so many connections; some say nothing, some say nonsense, some say a little and stop.
fn flood(address: &str, count: usize) {
    let mut open = std::collections::VecDeque::new();
    for number in 0..count {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _ = match number % 4 {
            0 => Ok(()),
            1 => stream.write_all(&[0xff; 900]),
            2 => stream.write_all(&[7]),
            _ => stream.write_all(b"GET / HTTP/1.1\r\n\r\n"),
        };
        open.push_back(stream);
        if open.len() > AT_ONCE {
            open.pop_front();
        }
    }
}

#[test]
fn floods_at_both_doors_take_little_memory_and_do_not_disturb_the_run() {
    let count = if std::env::var_os("XMML_SOAK").is_some() { 10_000 } else { 500 };
    let model = Model::by("tcp").submodel("a", "out:Oi", 50).submodel("b", "in:S", 50).couple("a.out", "b.in");
    let run = Run::listening(model, Some("127.0.0.1:0"));
    let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    std::env::set_var("XMML_LISTEN", &door); // this is the only test of its program
    let b = run.join("b");
    std::env::remove_var("XMML_LISTEN");
    let a = run.join("a");
    let addresses = run.coordinator.addresses();
    let of_coordinator: CoordinatorAddress = addresses
        .iter()
        .filter_map(|text| text.parse().ok())
        .find(|address: &CoordinatorAddress| address.method == "tcp")
        .unwrap();
    a.reuse().unwrap();
    b.reuse().unwrap();
    send(&a, "out", 0);
    assert_eq!(receive(&b, "in"), Some(0));
    let before = resident_bytes();
    std::thread::scope(|scope| {
        let floods = [scope.spawn(|| flood(&door, count)), scope.spawn(|| flood(&of_coordinator.address, count))];
        for value in 1..50 {
            send(&a, "out", value);
            assert_eq!(receive(&b, "in"), Some(value));
        }
        floods.into_iter().for_each(|flood| flood.join().unwrap());
    });
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more than before");
    run.event("somebody is told", |event| matches!(event, Event::Refused { .. }));
    std::thread::scope(|scope| {
        scope.spawn(|| a.leave().unwrap()); // until b has read the end
        assert!(!b.reuse().unwrap());
        b.leave().unwrap();
    });
}
