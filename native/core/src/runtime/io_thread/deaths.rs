//! Peers that have died, while the run goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::connection::Connection;

use crate::control::ToCoordinator;
use crate::runtime::Read;

use super::{Command, IoThread, Timer};

/// The connections of a peer that has died end with its process. Of one whose machine has failed, or that lives although it counts as dead,
/// what is on its way is awaited as long as something comes within this time.
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
        let from_peer = {
            let mut state = self.runtime.state();
            state.peer_died(peer);
            self.runtime.attract_attention(&state);
            state.connections.inbound_from(peer).to_vec()
        };
        for connection in from_peer {
            self.obey(Command::Read(connection));
        }
        self.cut_off_later(peer.to_owned(), Instant::now() + CUT_OFF_AFTER);
    }

    fn cut_off_later(&mut self, peer: String, when: Instant) {
        self.dead.push((when, peer));
        self.timers.push((when, Timer::CutOff));
    }

    /// Looks at the peers that have died whose time is over: nothing more is awaited from one that has been silent.
    pub(super) fn cut_off_dead(&mut self, now: Instant) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.dead).into_iter().partition(|(when, _)| *when <= now);
        self.dead = later;
        for (_, peer) in due {
            let left = self.runtime.state().connections.inbound_from(&peer).to_vec();
            let silence = |connection: &Arc<Connection>| match connection.can_fall_silent() {
                true => connection.silent_for(),
                false => CUT_OFF_AFTER,
            };
            match left.iter().map(silence).min() {
                None => {}
                Some(silence) if silence < CUT_OFF_AFTER => self.cut_off_later(peer, now + CUT_OFF_AFTER - silence),
                Some(_) => {
                    let text = format!(
                        "nothing has come from {peer} for {} s, which has died; what it had sent before and is still on its way is lost",
                        CUT_OFF_AFTER.as_secs()
                    );
                    self.runtime.tell(&ToCoordinator::Warning { text });
                    left.iter().for_each(|connection| self.runtime.connection_lost(connection, "its sender has died"));
                }
            }
        }
    }
}
