//! A host has several addresses, and does not answer at all of them.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use xmml_path::{Listener, Path, Settings};

use crate::support::{identity, streams, LIMIT};

/// Takes connections at another address of this host, and closes them when so many are there, again and again: those who dial hear of it
/// together, when all of them have dialled.
fn closes_together(count: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || loop {
        let taken: Vec<_> = (0..count).map_while(|_| listener.accept().ok()).collect();
        drop(taken);
    });
    address
}

#[test]
fn streams_that_fail_together_go_to_the_next_address_together() {
    for others in [1, 3] {
        let listener = Listener::bind("127.0.0.1:0", &identity("there"), streams(4)).unwrap();
        listener.attend().unwrap();
        let mut addresses: Vec<SocketAddr> = (0..others).map(|_| closes_together(4)).collect();
        addresses.push(listener.address().parse().unwrap());
        // Those that go on one by one would meet at no address.
        let settings = Settings { connect: Duration::from_secs(20), ..streams(4) };
        let here = Path::dial_any(&addresses, &identity("here"), "there", settings).unwrap();
        here.attend().unwrap();
        assert!(here.wait_open(LIMIT).unwrap());
        let until = Instant::now() + LIMIT.unwrap();
        while here.stats().streams < 4 {
            assert!(Instant::now() < until, "{:?}", here.stats());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
