//! What instances and the coordinator say to each other once the handshake is done. Every variant is one frame of kind Control whose
//! body is MessagePack: a map with one entry, the variant's name, holding its fields by name. Unknown fields are ignored, so that
//! fields can be added; an unknown variant is a protocol error.

pub mod conversation;
mod progress;

pub use progress::{ConduitTotals, Wait, WaitKind};

use serde::{Deserialize, Serialize};

use xmml_wire::error::Result;
use xmml_wire::message_pack;
use xmml_wire::methods::{MethodReport, Refusal, Table};

use crate::spec::{ConduitSpec, InstanceSpec};

/// From an instance to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ToCoordinator {
    /// Registers; answered by `Welcome`, once the instance is defined.
    Join { pid: u32, host: String, language: String, version: String },
    /// Joins again over another connection, as the one who was given this token, and has heard so many messages since it was welcomed;
    /// answered by `WelcomeBack`, or by `Abort`.
    Rejoin { token: Vec<u8>, heard: u64 },
    /// It has heard so many messages since it was welcomed: they need not be kept for it.
    Heard { count: u64 },
    /// It ends without leaving, and does not come back.
    Quits,
    /// How this instance can be reached; sent before anything that could make a peer want to reach it.
    Reachable { table: Table },
    /// How far it is.
    Progress {
        run: u64,
        iteration: u64,
        time: f64,
        messages_sent: u64,
        bytes_sent: u64,
        messages_received: u64,
        bytes_received: u64,
    },
    /// It has been waiting for 100 ms, for all of `waits`, or (`is_any`) for any one of them, for ever or (`is_timed`) for some time; `sent`
    /// and `received` count messages per conduit.
    Waiting {
        epoch: u64,
        waits: Vec<Wait>,
        #[serde(default)]
        is_any: bool,
        #[serde(default)]
        is_timed: bool,
        sent: Vec<(u32, u64)>,
        received: Vec<(u32, u64)>,
    },
    /// It goes on.
    Resumed { epoch: u64 },
    /// Answers `Confirm`.
    Confirmed { epoch: u64, still: bool },
    /// People should know.
    Warning { text: String },
    /// It failed, and says why; the process may live on.
    Failed { text: String },
    /// It ended normally; answered by `Goodbye`. `waited_s` is how long its calls waited for others, all together.
    Leaving {
        runs: u64,
        conduits: Vec<ConduitTotals>,
        #[serde(default)]
        waited_s: f64,
    },
    /// It chose the method of conduits that it sends on.
    Conduits {
        conduits: Vec<u32>,
        method: String,
        #[serde(default)]
        protected: bool,
        #[serde(default)]
        refused: Vec<Refusal>,
    },
    /// Asks for other methods on a conduit that begins or ends at it (none: all); answered by `Changed` with the same request.
    Change { request: u64, conduit: u32, methods: Vec<String> },
    /// It listens by the methods of `Allow`; a new table has been sent if that was needed.
    Prepared { change: u64, conduit: u32, methods: Vec<String> },
    /// What became of `Allow`: the method in use now, and why it is not another.
    Changed { change: u64, conduit: u32, method: Option<String>, problem: Option<String> },
    /// Answers `Enquire`: how the conduits that begin and end at it travel, and what has passed.
    Figures { number: u64, sending: Vec<MethodReport>, receiving: Vec<MethodReport> },
    /// A connection that ends only with the process at its other end has ended before its conduits had.
    PeerEnded { peer: String, reason: String },
    /// It turned somebody away from its door.
    Refused { peer: String, reason: String },
    /// So many objects that a reader was given who has died go to others; `deadly`: the number (`sys.seq`) of one that too many have died with.
    GivenAgain { conduit: u32, objects: u64, deadly: Option<u64> },
    /// It has given handles of its ports away, and wants to know when nobody is left who could open one.
    HandsOut,
    /// Wants to send by this handle from one of its ports; answered by `Opened` with the same number.
    Open { request: u32, port: String, handle: Vec<u8> },
    /// Answers `Admit`; `problem`: why not.
    Admitted { conduit: u32, problem: Option<String> },
}

/// What an instance needs to join again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// Nobody else has it.
    pub token: Vec<u8>,
    /// For so long after its connection broke it is taken back.
    pub limit_ms: u64,
}

/// From the coordinator to an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ToInstance {
    /// Answers `Join`. `again`: how to join again if the connection breaks (nothing: nobody is taken back).
    Welcome {
        spec: InstanceSpec,
        #[serde(default)]
        again: Option<Again>,
    },
    /// Answers `Rejoin`: so many messages have come here since the welcome; those after them are said again, from both sides.
    WelcomeBack { heard: u64 },
    /// So many messages have come here since the welcome: they need not be kept.
    Heard { count: u64 },
    /// How a receiver of this instance can be reached.
    Peer { instance: String, table: Table },
    /// A peer ended normally: how many messages it sent on each conduit to this instance, and took on each from this instance.
    PeerLeft { instance: String, sent: Vec<(u32, u64)>, received: Vec<(u32, u64)> },
    /// A peer has died, and the run goes on without it: nothing more comes from it, and what it has not acknowledged goes to others.
    PeerDied { instance: String },
    /// The run is over.
    Abort { reason: String },
    /// These methods are allowed on a conduit from now on, in this order (none: all). A receiver answers `Prepared`, a sender `Changed`, with
    /// the number of this change.
    Allow { change: u64, conduit: u32, methods: Vec<String> },
    /// Answers `Change`.
    Changed { request: u64, method: Option<String>, problem: Option<String> },
    /// The conduit holds more from now on.
    Grow { conduit: u32, capacity: u32 },
    /// Is the instance still in the wait that it reported with this epoch?
    Confirm { epoch: u64 },
    /// How do the conduits travel? Answered by `Figures` with the same number.
    Enquire { number: u64 },
    /// Somebody opens the handle with this number: this conduit leads to here from now on. Answered by `Admitted`.
    Admit { number: u32, conduit: ConduitSpec },
    /// Answers `Open`: the conduit that begins here from now on, and how its receiver is reached; or the problem. If the receiver has left
    /// (`is_gone`), nobody takes what is sent.
    Opened { request: u32, conduit: Option<ConduitSpec>, table: Option<Table>, is_gone: bool, problem: Option<String> },
    /// Every other instance has left: nobody will open the handles that were given away.
    NobodyElse,
    /// A tap has joined: this conduit shows it what passes an out port from now on.
    Tap { conduit: ConduitSpec },
    /// Answers `Leaving`: the coordinator has it; the connection may close.
    Goodbye,
}

/// Compiles the coding of messages here, once: it is long, and generic functions are compiled anew by each crate that calls them.
macro_rules! coded_here {
    ($($message:ty),*) => {$(
        impl $message {
            /// The body of a control frame.
            pub fn encode(&self) -> Vec<u8> {
                message_pack::encode(self)
            }

            /// Reads the body of a control frame that came from `peer`.
            ///
            /// # Errors
            /// If it is no such message.
            pub fn decode(body: &[u8], peer: &str) -> Result<Self> {
                message_pack::decode_from(body, peer)
            }
        }
    )*};
}

coded_here!(ToCoordinator, ToInstance);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_message_survives_the_wire() {
        let (waits, sent, received) = (vec![], vec![(1, 2)], vec![]);
        let message = ToCoordinator::Waiting { epoch: 3, waits, is_any: false, is_timed: true, sent, received };
        assert_eq!(ToCoordinator::decode(&message.encode(), "test").unwrap(), message);
    }

    #[test]
    fn garbage_is_an_error_that_names_the_peer() {
        let error = ToInstance::decode(&[0xc1, 0, 1], "somebody").unwrap_err();
        assert!(error.to_string().starts_with("somebody: a control message cannot be read"));
    }
}
