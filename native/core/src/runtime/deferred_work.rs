//! What the holder of the state leaves to be done once it is released, since it takes time or another lock.

use std::sync::Arc;

use smallvec::SmallVec;

use xmml_wire::connection::{Connection, Outgoing};

use crate::control::ToCoordinator;

use super::control_channel::ControlChannel;

/// Work for after the release of the state.
#[derive(Default)]
pub struct DeferredWork {
    /// Connections with queued frames to be written; seldom more than one.
    pub(super) to_flush: SmallVec<[Arc<Connection>; 2]>,
    /// Connections that the I/O thread must read from now on.
    pub(super) to_read: Vec<Arc<Connection>>,
    /// Peers that may have ended, and why it seems so.
    pub(super) suspected: Vec<(String, String)>,
    /// Messages to the coordinator.
    pub(super) news: Vec<ToCoordinator>,
    /// Connections that nobody needs any more.
    pub(super) lost: Vec<Arc<Connection>>,
}

impl DeferredWork {
    /// Queues a frame on a connection, and has it written.
    pub fn queue(&mut self, connection: &Arc<Connection>, frame: Outgoing) {
        connection.writer().push(frame);
        self.flush(connection);
    }

    /// Has the frames that are queued on a connection written.
    pub fn flush(&mut self, connection: &Arc<Connection>) {
        if !self.to_flush.iter().any(|other| Arc::ptr_eq(other, connection)) {
            self.to_flush.push(connection.clone());
        }
    }

    /// Queues a message to the coordinator, in order with what else is said to it.
    pub fn say(&mut self, control: &ControlChannel, message: &ToCoordinator) {
        if let Some(connection) = control.say(message) {
            self.flush(&connection);
        }
    }

    /// Has the I/O thread read a connection.
    pub fn read_on_io_thread(&mut self, connection: Arc<Connection>) {
        self.to_read.push(connection);
    }

    /// Has the I/O thread look in a moment whether a peer is still missed whose connection has ended for this reason.
    pub fn suspect(&mut self, peer: &str, reason: &str) {
        self.suspected.push((peer.to_owned(), reason.to_owned()));
    }

    /// Has the coordinator told something.
    pub fn tell(&mut self, news: ToCoordinator) {
        self.news.push(news);
    }

    /// Takes all of it; `None`: there is nothing to do, as after most calls.
    pub fn take(&mut self) -> Option<DeferredWork> {
        let is_empty = self.to_flush.is_empty() && self.to_read.is_empty() && self.news.is_empty();
        let is_empty = is_empty && self.suspected.is_empty() && self.lost.is_empty();
        (!is_empty).then(|| std::mem::take(self))
    }
}
