//! Two ends of a path in one process, over the loopback interface.
#![allow(dead_code)] // no test uses all of it

#[path = "../../../wire/tests/support/not_run.rs"]
pub mod not_run;
#[path = "../../../wire/tests/support/waiting.rs"]
pub mod waiting;

use std::time::Duration;

use xmml_path::{Identity, Listener, Path, Settings, Streams};
use xmml_wire::buffer::Buffer;

#[allow(unused_imports)] // as above
pub use not_run::not_run;
#[allow(unused_imports)] // as above
pub use waiting::{await_some, await_that, await_while_moving};

pub const SECRET: [u8; 32] = [0x5e; 32];

/// What waits take as their limit.
pub const LIMIT: Option<Duration> = Some(waiting::LIMIT);

pub fn identity(name: &str) -> Identity {
    Identity::new(&SECRET, "run", name)
}

pub fn streams(count: u32) -> Settings {
    Settings { streams: Streams::Fixed(count), ..Settings::default() }
}

/// A message that tells its number and is different at each byte.
pub fn payload(number: u64, length: usize) -> Buffer {
    let word = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|at| word(at).to_le_bytes()).collect();
    bytes.truncate(length);
    bytes.into()
}

/// The dialling and the listening end of a path, each with a thread of its own.
pub fn pair(dialling: Settings, listening: Settings) -> (Path, Path) {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), listening).unwrap();
    pair_at(&listener, &listener.address(), dialling)
}

/// The same at a listener that stands, which is reached at this address.
pub fn pair_at(listener: &Listener, address: &str, dialling: Settings) -> (Path, Path) {
    let here = Path::dial(address, &identity("here"), "there", dialling).unwrap();
    here.attend().unwrap();
    let there = listener.accept(LIMIT).unwrap().expect("a path comes in");
    there.attend().unwrap();
    assert!(here.wait_open(LIMIT).unwrap());
    (here, there)
}
