//! What the coordinator says.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

use xmml_wire::connection::Looked;
use xmml_wire::error::Error;
use xmml_wire::frame::{Frame, FrameError};
use xmml_wire::wakeup::{Interest, Ready};

use crate::control::{ToCoordinator, ToInstance};
use crate::runtime::method_changes::Changed;
use crate::runtime::routing::Routing;
use crate::runtime::state::State;
use crate::runtime::traffic::method_reports;

use super::{IoThread, CONTROL};

impl IoThread {
    pub(super) fn watch_control(&mut self, write: bool) {
        let wanted = Interest { write, ..Interest::READ };
        let fd = self.runtime.control.connection().fd();
        if wanted != self.control_interest && self.epoll.change(fd, CONTROL, wanted).is_ok() {
            self.control_interest = wanted;
        }
    }

    pub(super) fn control_ready(&mut self, event: Ready) {
        if self.control_interest.write && event.writable {
            match self.runtime.control.connection().flush_watched() {
                Ok(true) => self.watch_control(false),
                Ok(false) => {}
                Err(error) => return self.coordinator_lost(&error.to_string()),
            }
        }
        if event.readable {
            self.control();
        }
    }

    pub(super) fn control(&mut self) {
        let control = self.runtime.control.connection();
        while !control.is_closed() {
            let mut frames = Vec::new();
            let looked = control.read_frames(&mut control.reader(), &mut frames);
            self.hear(frames);
            match looked {
                Looked::Frames => {}
                Looked::Nothing | Looked::Part => return,
                Looked::Closed(reason) => return self.coordinator_lost(&reason),
                Looked::Fault(FrameError::Stream { problem }) => return self.coordinator_changed_on_its_way(&problem),
                // What was not understood would come again on every connection.
                Looked::Fault(_) => return self.coordinator_lost_for_good(),
            }
        }
    }

    pub(super) fn hear(&mut self, frames: Vec<Frame>) {
        for frame in frames {
            match frame {
                Frame::Control(body) => match ToInstance::decode(&body, "the coordinator") {
                    Ok(message) => self.told(message),
                    Err(_) => return self.coordinator_lost_for_good(),
                },
                Frame::Alive => {}
                _ => return self.coordinator_lost_for_good(),
            }
        }
    }

    /// Some messages are about the conversation with the coordinator; the others belong to it.
    fn told_of_conversation(&mut self, message: &ToInstance) -> bool {
        let done = match message {
            ToInstance::WelcomeBack { heard } => self.taken_back(*heard),
            ToInstance::Heard { count } => self.runtime.control.has(*count),
            _ => return false,
        };
        if done.is_err() {
            self.coordinator_lost_for_good();
        }
        true
    }

    pub(super) fn told(&mut self, message: ToInstance) {
        if self.told_of_conversation(&message) {
            return;
        }
        if let Some(connection) = self.runtime.control.hear() {
            self.runtime.flush(&connection);
        }
        let mut dial = Vec::new();
        let mut doors = None;
        let is_last_word = matches!(message, ToInstance::Abort { .. });
        let mut state = self.runtime.state();
        match message {
            ToInstance::Welcome { .. } | ToInstance::WelcomeBack { .. } | ToInstance::Heard { .. } => {}
            ToInstance::Peer { instance, table } => {
                let here = self.runtime.here.clone();
                for link in 0..state.connections.links.len() {
                    if state.connections.links[link].peer == instance
                        && state.connections.links[link].learn(&table, &here)
                    {
                        dial.push(link);
                    }
                }
            }
            ToInstance::PeerLeft { instance, sent, received } => {
                state.peer_left(&instance, &sent, &received);
            }
            ToInstance::PeerDied { instance } => {
                drop(state);
                return self.peer_died(&instance);
            }
            ToInstance::Abort { reason } => {
                state.standing.over.get_or_insert(Error::Aborted { reason });
            }
            ToInstance::Grow { conduit, capacity } => {
                if let Some(end) = state.conduits.sending_end(conduit) {
                    state.conduits.sending[end].grow(capacity);
                    state.backlogs.grow(end);
                }
                if let Some(end) = state.conduits.receiving_end(conduit) {
                    state.conduits.receiving[end].grow(capacity);
                }
            }
            ToInstance::Allow { change, conduit, methods } => {
                if let Some(end) = state.conduits.receiving_end(conduit) {
                    state.conduits.receiving[end].is_changing = true;
                    doors = Some((change, conduit, methods.clone()));
                }
                // An instance that is coupled to itself hears of it once, and is both.
                if let Some(end) = state.conduits.sending_end(conduit) {
                    let here = self.runtime.here.clone();
                    dial.extend(state.routing().allow(end, change, &methods, &here));
                    let (backlogs, mut routing) = state.backlogs_and_routing();
                    backlogs.on_change(&mut routing);
                }
            }
            ToInstance::Changed { request, method, problem } => {
                state.changes.settle(request, Changed { method, problem });
            }
            ToInstance::Confirm { epoch } => {
                let still = state.reported.lasts(epoch);
                state.deferred.say(&self.runtime.control, &ToCoordinator::Confirmed { epoch, still });
            }
            ToInstance::Enquire { number } => {
                let (sending, receiving) = method_reports(&mut state, Instant::now());
                state.deferred.say(&self.runtime.control, &ToCoordinator::Figures { number, sending, receiving });
            }
            ToInstance::Admit { number, conduit } => {
                let id = conduit.id;
                let State { open, conduits, connections, .. } = &mut *state;
                let problem =
                    open.admit_holder(&self.runtime.identity.name, number, conduit, conduits, connections).err();
                state.deferred.say(&self.runtime.control, &ToCoordinator::Admitted { conduit: id, problem });
            }
            ToInstance::Opened { request, conduit, table, is_gone, problem } => {
                let here = self.runtime.here.clone();
                let opened = match (conduit, problem) {
                    (Some(conduit), None) => Ok((conduit, is_gone)),
                    (_, problem) => Err(problem.unwrap_or_else(|| "nobody says why".to_owned())),
                };
                let State { open, conduits, connections, deferred, .. } = &mut *state;
                let routing = Routing { conduits, connections, deferred };
                dial.extend(open.opened(request, opened, table.as_ref(), &here, routing));
            }
            ToInstance::NobodyElse => state.open.nobody_else(),
            ToInstance::Tap { conduit } => {
                state.add_tap(Arc::new(conduit));
                self.runtime.has_new_taps.store(true, Ordering::Relaxed);
            }
            ToInstance::Goodbye => state.standing.farewell = true,
        }
        self.runtime.attract_attention(&state);
        drop(state);
        if let Some((change, conduit, methods)) = doors {
            self.open_doors(&methods);
            self.runtime.tell(&ToCoordinator::Prepared { change, conduit, methods });
        }
        if is_last_word {
            // The program may not say anything more: how far it came is worth knowing.
            self.runtime.tell(&self.runtime.progress_report());
        }
        dial.into_iter().for_each(|link| self.dial(link));
    }
}
