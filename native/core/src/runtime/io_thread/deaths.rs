//! Peers that have died, while the run goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::connection::Connection;

use crate::runtime::Read;

use super::{Command, IoThread, Timer};

/// The connections of a peer that has died end with its process. One whose machine has failed, or that lives although it counts as dead, is cut
/// off after this time.
const CUT_OFF_AFTER: Duration = Duration::from_secs(10);

impl IoThread {
    /// A peer has died: takes in what it has said last, and lets others have what it was given.
    pub(super) fn peer_died(&mut self, peer: &str) {
        let to_peer: Vec<Arc<Connection>> = {
            let state = self.runtime.state();
            state.connections.outbound().filter(|connection| connection.peer == peer).cloned().collect()
        };
        for connection in to_peer {
            while self.runtime.read(&connection) == Read::Something {}
        }
        let (cut, from_peer) = {
            let mut state = self.runtime.state();
            let cut = state.peer_died(peer);
            self.runtime.attract_attention(&state);
            (cut, state.connections.inbound_from(peer).to_vec())
        };
        cut.iter().for_each(|connection| self.runtime.connection_lost(connection, "its receiver has died"));
        for connection in from_peer {
            self.obey(Command::Read(connection));
        }
        self.dead.push_back(peer.to_owned());
        self.timers.push((Instant::now() + CUT_OFF_AFTER, Timer::CutOff));
    }

    /// Nothing more is awaited from a peer that has died.
    pub(super) fn cut_off_dead(&mut self) {
        let Some(peer) = self.dead.pop_front() else { return };
        let left = self.runtime.state().connections.inbound_from(&peer).to_vec();
        left.iter().for_each(|connection| self.runtime.connection_lost(connection, "its sender has died"));
    }
}
