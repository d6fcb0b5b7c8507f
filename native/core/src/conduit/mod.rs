//! The two ends of a conduit, without a socket: what is sent, what is on its way, what is received, what is acknowledged.

pub mod backlog;
pub mod inlet;
pub mod meter;
pub mod receiving;
pub mod sending;
pub mod tap_gate;

pub use inlet::Inlet;
pub use receiving::{Arrival, ReceivingEnd};
pub use sending::{Room, SendingEnd};

/// How many messages a receiver takes before it tells the sender, of a conduit with this room.
fn receipt_every(capacity: u32) -> u64 {
    32.min(u64::from(capacity) / 2).max(1)
}

/// How many bytes a receiver takes before it tells the sender.
const RECEIPT_BYTES: u64 = 1 << 20;
