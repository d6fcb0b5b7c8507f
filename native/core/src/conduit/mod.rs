//! The two ends of a conduit, without a socket: what is sent, what is on its way, what is received, what is acknowledged.

pub mod inlet;
pub mod meter;
pub mod receiving;
pub mod sending;

pub use inlet::Inlet;
pub use receiving::{Arrival, ReceivingEnd};
pub use sending::{Room, SendingEnd};

/// How many messages a receiver takes before it tells the sender (at most; see [`ReceivingEnd::receipt_due`]).
const RECEIPT_EVERY: u64 = 32;

/// How many bytes a receiver takes before it tells the sender.
const RECEIPT_BYTES: u64 = 1 << 20;
