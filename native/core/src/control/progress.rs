//! What an instance says of its conduits: what it waits for, and what has passed when it leaves.

use serde::{Deserialize, Serialize};

/// What an instance waits for on a conduit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitKind {
    /// A message.
    Receive,
    /// Room for a message.
    Send,
    /// The end of what the receiver does with the objects that it was given of a queue.
    Settled,
    /// A message from any of those who have a handle of one of its ports; it is on no conduit in particular (0).
    Holders,
}

/// One conduit that an instance waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The conduit.
    pub conduit: u32,
    /// A message, or room for one.
    pub kind: WaitKind,
}

/// What passed one conduit at one of its ends, when the instance left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConduitTotals {
    /// The conduit.
    pub conduit: u32,
    /// Messages sent (0 at the receiving end).
    pub sent: u64,
    /// Messages received (0 at the sending end).
    pub received: u64,
    /// Payload bytes of these.
    pub bytes: u64,
    /// Messages dropped because the receiver had left.
    pub dropped: u64,
    /// Messages replaced at this end by newer ones, of a conduit that shows the newest only.
    #[serde(default)]
    pub replaced: u64,
}
