//! Signs of life on control connections that can fall silent, and the end of those whose instance gives none.

use std::time::Instant;

use xmml_wire::liveness::heartbeat::{beat, silent};

use super::Server;
use crate::coordinator::Event;

impl Server {
    /// Begins to look after a connection, if it needs that.
    pub(super) fn look_after(&mut self, can_fall_silent: bool) {
        if can_fall_silent {
            self.next_beat.get_or_insert_with(|| Instant::now() + beat(self.silence_limit));
        }
    }

    /// Says that the coordinator lives where it has said nothing else, and gives up instances of which nothing was heard for too long.
    pub(super) fn beat(&mut self, now: Instant) {
        let mut any = false;
        let tokens: Vec<u64> = self.controls.keys().copied().collect();
        for token in tokens {
            let Some(control) = self.controls.get(&token) else { continue };
            if !control.connection.can_fall_silent() {
                continue;
            }
            if control.connection.silent_for() >= self.silence_limit {
                let instance = control.name.clone();
                let text = format!("{}; its connection is given up", silent(self.silence_limit));
                self.shared.event(Event::Warning { instance, text });
                self.part_from(token, &silent(self.silence_limit));
                continue;
            }
            any = true;
            if control.connection.beat() {
                self.write_on(token);
            }
        }
        self.next_beat = any.then(|| now + beat(self.silence_limit));
    }
}
