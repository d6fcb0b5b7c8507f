//! Signs of life on connections that can fall silent, and the end of those whose peer gives none ([`xmml_wire::liveness::heartbeat`]).

use std::sync::Arc;
use std::time::Instant;

use xmml_wire::connection::Connection;
use xmml_wire::liveness::heartbeat::{beat, silent};

use crate::runtime::Read;

use super::{IoThread, Timer, CONTROL};

impl IoThread {
    /// Begins to look after a connection, if it needs that.
    pub(super) fn look_after(&mut self, connection: &Connection) {
        if connection.can_fall_silent() && !self.beats {
            self.beats = true;
            self.timers.push((Instant::now() + beat(self.silence_limit), Timer::Beat));
        }
    }

    /// Says that this side lives where nothing else was said, and gives up those of whom nothing was heard for too long.
    pub(super) fn beat(&mut self, now: Instant) {
        self.beats = false;
        for connection in self.heartbeat_connections() {
            if connection.token != CONTROL {
                // The program may be computing: what has come meanwhile are signs of life too.
                while self.runtime.read(&connection) == Read::Something {}
            }
            if connection.is_closed() {
                continue;
            }
            if connection.silent_for() >= self.silence_limit {
                self.fell_silent(&connection);
                continue;
            }
            if connection.beat() {
                self.runtime.flush(&connection);
            }
            if !self.beats {
                self.beats = true;
                self.timers.push((now + beat(self.silence_limit), Timer::Beat));
            }
        }
    }

    fn fell_silent(&mut self, connection: &Arc<Connection>) {
        if connection.token == CONTROL {
            self.coordinator_lost(&silent(self.silence_limit));
        } else {
            self.runtime.connection_lost(connection, &silent(self.silence_limit));
        }
    }

    fn heartbeat_connections(&self) -> Vec<Arc<Connection>> {
        let state = self.runtime.state();
        let connections = state.connections.outbound().chain(state.connections.all_inbound());
        let all = connections.cloned().chain([self.runtime.control.connection()]);
        all.filter(|connection| connection.can_fall_silent() && !connection.is_closed()).collect()
    }
}
