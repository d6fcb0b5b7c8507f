//! What an instance tells the coordinator while it lives.

use std::collections::BTreeSet;

use xmml_wire::connection::Outgoing;
use xmml_wire::frame;

use crate::control::ToCoordinator;
use crate::coordinator::Wait;

use super::control_channel::ControlChannel;
use super::state::State;
use super::Runtime;

/// The frame that carries a message to the coordinator.
pub fn control_frame(message: &ToCoordinator) -> Outgoing {
    frame::encode_control(&message.encode()).into()
}

/// Waits that the coordinator was told of, by the numbers under which it knows them.
#[derive(Default)]
pub struct ReportedWaits {
    last: u64,
    lasting: BTreeSet<u64>,
    /// People know that waits of several threads are not reported.
    is_held_back_told: bool,
}

impl ReportedWaits {
    /// Begins a reported wait, and returns its number.
    pub fn begin(&mut self) -> u64 {
        self.last += 1;
        self.lasting.insert(self.last);
        self.last
    }

    /// A reported wait is over.
    pub fn end(&mut self, number: u64) {
        self.lasting.remove(&number);
    }

    /// Whether a reported wait goes on.
    pub fn lasts(&self, number: u64) -> bool {
        self.lasting.contains(&number)
    }

    /// Whether people have yet to be told that waits of several threads are not reported; from now on they have not.
    pub fn must_tell_of_threads(&mut self) -> bool {
        !std::mem::replace(&mut self.is_held_back_told, true)
    }
}

impl Runtime {
    /// Tells the coordinator something. If the connection to it is lost, it hears that when there is another one; if there will be none,
    /// nobody does.
    pub fn tell(&self, message: &ToCoordinator) {
        if let Some(connection) = self.control.say(message) {
            self.flush(&connection);
        }
    }

    /// Reports a wait, and returns the number by which it is known from then on.
    pub fn report_waiting(&self, state: &mut State, waits: &[Wait], is_any: bool) -> u64 {
        let epoch = state.reported.begin();
        let (sent, received) = state.counts();
        let waits = waits.iter().filter(|wait| is_any || !state.is_met(wait)).copied().collect();
        state.queue_control(&self.control, &ToCoordinator::Waiting { epoch, waits, is_any, sent, received });
        epoch
    }

    /// Reports that a wait is over.
    pub fn report_resumed(&self, epoch: u64) {
        self.queue_resumed(&mut self.state(), epoch);
    }

    /// As [`Runtime::report_resumed`], for who holds the state.
    pub fn queue_resumed(&self, state: &mut State, epoch: u64) {
        state.reported.end(epoch);
        state.queue_control(&self.control, &ToCoordinator::Resumed { epoch });
    }

    /// How far the instance is.
    pub fn progress(&self) -> ToCoordinator {
        let counters = self.state().counters(self.position());
        ToCoordinator::Progress {
            run: counters.position.run,
            iteration: counters.position.iteration,
            time: counters.position.time,
            messages_sent: counters.messages_sent,
            bytes_sent: counters.bytes_sent,
            messages_received: counters.messages_received,
            bytes_received: counters.bytes_received,
        }
    }
}

impl State {
    /// Queues a message to the coordinator; it is written when the lock is released.
    pub fn queue_control(&mut self, control: &ControlChannel, message: &ToCoordinator) {
        if let Some(connection) = control.say(message) {
            self.left.flush(&connection);
        }
    }
}
