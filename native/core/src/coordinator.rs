//! The protocol side of the one coordinator of a run: it listens, authenticates, registers instances, hands out descriptor tables, and
//! turns frames into events. It decides nothing; policy is with whoever holds it.

use std::os::fd::RawFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::spec::InstanceSpec;

/// How to start a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorOptions {
    /// Names the run; part of what peers prove.
    pub run_id: String,
    /// The run's secret.
    pub secret: Vec<u8>,
    /// Also listen on this TCP `host:port` (port 0: any). `None`: only on an abstract Unix socket.
    pub listen: Option<String>,
}

/// What an instance waits for on a conduit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitKind {
    /// A message.
    Receive,
    /// Room for a message.
    Send,
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
}

/// What happened in the run.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Event {
    /// An instance has registered.
    Joined { instance: String, pid: u32, host: String, language: String, version: String },
    /// How far an instance is; at most four times a second, and only when something changed.
    Progress {
        instance: String,
        run: u64,
        iteration: u64,
        time: f64,
        messages_sent: u64,
        bytes_sent: u64,
        messages_received: u64,
        bytes_received: u64,
    },
    /// An instance has been waiting for longer than 100 ms; with its messages sent and received per conduit (id, count).
    Waiting { instance: String, epoch: u64, waits: Vec<Wait>, sent: Vec<(u32, u64)>, received: Vec<(u32, u64)> },
    /// It goes on.
    Resumed { instance: String, epoch: u64 },
    /// The answer to [`Coordinator::confirm`].
    Confirmed { instance: String, epoch: u64, still: bool },
    /// An instance has something to tell people.
    Warning { instance: String, text: String },
    /// An instance says that it failed.
    Failed { instance: String, text: String },
    /// An instance ended normally.
    Left { instance: String, runs: u64, conduits: Vec<ConduitTotals> },
    /// The connection of an instance closed without its leaving.
    Lost { instance: String },
    /// A peer was turned away (reported once per source).
    Refused { peer: String, reason: String },
    /// A sender has chosen the method of a conduit.
    Conduit { instance: String, conduit: u32, method: String },
}

/// A running coordinator; it has one thread. Dropping it closes it.
pub struct Coordinator {}

impl Coordinator {
    /// Starts listening.
    pub fn start(_options: CoordinatorOptions) -> Result<Coordinator> {
        unimplemented!()
    }

    /// Where instances find it, for `XMML_COORDINATOR`: `unix:@...` (abstract socket), `tcp:127.0.0.1:4711`.
    pub fn addresses(&self) -> Vec<String> {
        unimplemented!()
    }

    /// A descriptor that is readable while events wait; it stays owned by the coordinator.
    pub fn event_fd(&self) -> RawFd {
        unimplemented!()
    }

    /// The events since the last call; does not wait.
    pub fn take_events(&self) -> Vec<Event> {
        unimplemented!()
    }

    /// As [`Coordinator::take_events`], waiting up to `timeout` for the first.
    pub fn wait_events(&self, _timeout: Duration) -> Vec<Event> {
        unimplemented!()
    }

    /// Makes an instance known; it may join from now on. (One that asks earlier is kept waiting.)
    pub fn define(&self, _spec: InstanceSpec) {
        unimplemented!()
    }

    /// Tells every instance that the run is over: whatever it waits for ends with an error.
    pub fn abort(&self, _reason: &str) {
        unimplemented!()
    }

    /// Enlarges a conduit (ends a deadlock that contains a send on a full conduit).
    pub fn grow(&self, _conduit: u32, _capacity: u32) {
        unimplemented!()
    }

    /// Asks an instance whether it is still in the wait it reported with this epoch.
    pub fn confirm(&self, _instance: &str, _epoch: u64) {
        unimplemented!()
    }

    /// Stops listening and closes every connection.
    pub fn close(&self) {
        unimplemented!()
    }
}
