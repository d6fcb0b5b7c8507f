//! What a process and the relay of its site say to each other, once the handshake (role `relay`, keyed by
//! [`crate::relay_key::RelayKey`]) is done. Every variant is one frame of kind Control whose body is MessagePack, as in
//! [`crate::control`]. Behind `Opened` the connection is a pipe: the bytes of the two ends pass unchanged, and an end that is closed for
//! writing is closed at the other side at once.

use serde::{Deserialize, Serialize};

use crate::methods::TrafficKind;

/// The name of a relay in handshakes.
pub const RELAY: &str = "relay";

/// Longest body of a frame here, in bytes.
pub const LIMIT: u64 = 4096;

/// To the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ToRelay {
    /// The name that was proved in the handshake can be reached here; answered by `Registered` or `Refused`. The connection stays, both
    /// sides show that they are alive, and each stream that somebody opens to the name is announced by `Incoming`. `silence_ms`: after
    /// so long without a word this side takes the other for lost, and may be taken for lost.
    Register { site: String, silence_ms: u64 },
    /// Opens a stream to a name; answered by `Opened`, once it has been taken, or by `Refused`.
    Open {
        site: String,
        name: String,
        #[serde(default)]
        traffic: TrafficKind,
    },
    /// Takes a stream of which `Incoming` told; answered by `Opened` or `Refused`.
    Take { ticket: u64 },
}

/// From the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum FromRelay {
    /// The name can be reached from now on.
    Registered {},
    /// Somebody opens a stream to the name: take it on a connection of its own.
    Incoming { ticket: u64, site: String, name: String },
    /// From here on the connection is a pipe.
    Opened {},
    /// It cannot be done, and why, for people.
    Refused { reason: String },
}
