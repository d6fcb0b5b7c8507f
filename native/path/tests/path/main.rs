//! Paths: what needs no process of its own, in one program, which takes a fraction of the time to make.

#[path = "../../../wire/tests/support/by_hand.rs"]
#[allow(dead_code)] // no test uses all of it
mod by_hand;
#[path = "../../../wire/tests/support/cutter.rs"]
mod cutter;
#[path = "../../../wire/tests/support/descriptors.rs"]
mod descriptors;
#[path = "../support/path.rs"]
mod support;

use support::waiting;

mod addresses;
mod asking;
mod basics;
mod cut;
mod dialling;
mod exchange;
mod farewell;
mod hostile;
mod relay;
mod session;
mod settings;
