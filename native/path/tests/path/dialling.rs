//! For how long a path is dialled.

use std::net::TcpListener;
use std::time::Duration;

use xmml_path::{Listener, Path, Settings};

use crate::support::{identity, streams, LIMIT};

#[test]
fn a_path_is_dialled_for_as_long_as_somebody_waits_for_it() {
    let connect = Duration::from_millis(20);
    let waiting = |limit| Settings { connect, ..streams(1) }.connecting_for(limit).connect;
    assert_eq!(waiting(Some(Duration::ZERO)), connect);
    assert_eq!(waiting(Some(Duration::from_secs(3))), Duration::from_secs(3));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for limit in [None, Some(Duration::MAX)] {
        let here =
            Path::dial(&free, &identity("here"), "there", Settings { connect, ..streams(1) }.connecting_for(limit))
                .unwrap();
        here.attend().unwrap();
        assert!(!here.wait_open(Some(connect * 10)).unwrap(), "it has not given up");
        let listener = Listener::bind(&free, &identity("there"), Settings::default()).unwrap();
        listener.attend().unwrap();
        assert!(here.wait_open(LIMIT).unwrap());
    }
}
