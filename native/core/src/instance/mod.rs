//! What a program of the model holds: its ports, its place in the submodel execution loop, and its conduits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::data::Data;
use crate::error::{Error, Result};
use crate::message::Message;
use crate::methods::MethodReport;
use crate::spec::InstanceSpec;

/// How an instance finds its run. `None` means: as the environment says.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// Addresses of the coordinator, comma-separated, tried in order (`XMML_COORDINATOR`).
    pub coordinator: Option<String>,
    /// Name of this instance in the model (`XMML_INSTANCE`).
    pub instance: Option<String>,
    /// File that holds the run's secret (`XMML_SECRET_FILE`).
    pub secret_file: Option<PathBuf>,
    /// The language of the program, for reports.
    pub language: &'static str,
}

/// What became of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// On its way (to every receiver that still takes messages).
    Queued,
    /// Every receiver has left; the message was dropped and counted.
    ReceiverGone,
    /// The port is not coupled: nothing happened.
    NotConnected,
}

/// What a receive found.
#[derive(Clone, Debug)]
pub enum Received {
    /// The next message.
    Message(Message),
    /// The sender has ended and everything it sent has been received.
    Ended,
    /// The time-out passed; nothing was taken.
    TimedOut,
    /// The port is not coupled.
    NotConnected,
}

/// A program's membership of a run. All methods take `&self`; one instance may be shared between threads, but must not be used in a
/// child after `fork`. Dropping it without [`Instance::leave`] is a failure of the instance.
pub struct Instance {
    spec: InstanceSpec,
}

impl Instance {
    /// Joins the run: finds the coordinator, proves knowledge of the secret, and learns ports, conduits and parameters.
    pub fn join(_options: JoinOptions) -> Result<Instance> {
        unimplemented!()
    }

    /// An instance without a run, for tests: its in ports deliver `inputs` (key `port`, or `port[3]` for a copy), then end.
    pub fn alone(_spec: InstanceSpec, _inputs: BTreeMap<String, Vec<Message>>) -> Result<Instance> {
        unimplemented!()
    }

    /// Sets what a waiting call asks when a signal interrupts its poll(2), and at least every 100 ms: true ends the wait with
    /// [`Error::Interrupted`]. Bindings need it where signal handlers run in the interpreter (Ctrl-C in Python).
    pub fn set_interrupt(&self, _check: Box<dyn Fn() -> bool + Send + Sync>) {
        unimplemented!()
    }

    /// What an instance made by [`Instance::alone`] has sent, by port (`port[3]` for a copy); empty for a joined one.
    pub fn outputs(&self) -> BTreeMap<String, Vec<Message>> {
        unimplemented!()
    }

    /// What the model says about this instance.
    pub fn spec(&self) -> &InstanceSpec {
        &self.spec
    }

    /// Its name in the model.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether there is another run to do; waits until every coupled f_init port has a message or has ended.
    pub fn reuse(&self) -> Result<bool> {
        unimplemented!()
    }

    /// Begins the next iteration and returns its model time; `None` after the last.
    pub fn next_step(&self) -> Result<Option<f64>> {
        unimplemented!()
    }

    /// Model time at which this run began, in seconds.
    pub fn origin(&self) -> f64 {
        unimplemented!()
    }

    /// Model time of the current iteration, in seconds.
    pub fn time(&self) -> f64 {
        unimplemented!()
    }

    /// Sends `data`. `None` for a time stamp (and the outer `None` for the next one) takes the defaults of the loop.
    /// Waits while the conduit is full; the wait ends with a receipt, a larger capacity, the receiver's leaving, or the end of the run.
    pub fn send(
        &self,
        _port: &str,
        _to: Option<u32>,
        _data: Data,
        _timestamp: Option<f64>,
        _next_timestamp: Option<Option<f64>>,
    ) -> Result<Sent> {
        unimplemented!()
    }

    /// Takes the next message; never insists on one (see [`Received`]). Without a time-out it waits until a message or the end of the
    /// conduit comes, or the run ends: how long a partner computes is not ours to bound.
    pub fn receive(&self, _port: &str, _of: Option<u32>, _timeout: Option<Duration>) -> Result<Received> {
        unimplemented!()
    }

    /// The error for a receive that insists on a message after the end of the conduit.
    pub fn ended_error(&self, _port: &str, _of: Option<u32>) -> Error {
        unimplemented!()
    }

    /// Whether a receive would return a message at once.
    pub fn has_message(&self, _port: &str, _of: Option<u32>) -> Result<bool> {
        unimplemented!()
    }

    /// Declares that nothing will be sent on an out port in this iteration (O_i) or run (O_f).
    pub fn skip(&self, _port: &str) -> Result<()> {
        unimplemented!()
    }

    /// Whether the port is coupled to anything.
    pub fn connected(&self, _port: &str) -> Result<bool> {
        unimplemented!()
    }

    /// How many copies are at the other end of the port; 0 if it is not a multiplied instance.
    pub fn copies(&self, _port: &str) -> Result<u32> {
        unimplemented!()
    }

    /// By which method each conduit of the port travels, and why the others were refused.
    pub fn methods(&self, _port: &str) -> Result<Vec<MethodReport>> {
        unimplemented!()
    }

    /// Tells people something, through the coordinator.
    pub fn warn(&self, _text: &str) {
        unimplemented!()
    }

    /// Tells the coordinator that this instance failed, and why; does not end the program.
    pub fn fail(&self, _text: &str) {
        unimplemented!()
    }

    /// Ends normally: flushes filters and messages, ends every out conduit, tells the coordinator. May be called again.
    pub fn leave(&self) -> Result<()> {
        unimplemented!()
    }
}
