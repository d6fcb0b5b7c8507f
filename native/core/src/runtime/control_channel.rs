//! What an instance says to its coordinator, over one connection after the other.

use std::sync::{Arc, Mutex, MutexGuard};

use xmml_wire::connection::{Connection, Outgoing};
use xmml_wire::frame::encode_control;
use xmml_wire::lock::lock;

use crate::control::conversation::Conversation;
use crate::control::ToCoordinator;

/// See the module. Its lock is taken after that of the state, and before that of a writer.
pub struct ControlChannel {
    inner: Mutex<Inner>,
}

struct Inner {
    connection: Arc<Connection>,
    /// What is said goes out; if not, it is only kept.
    stands: bool,
    /// `None`: the coordinator takes nobody back.
    conversation: Option<Conversation>,
}

impl Inner {
    fn push(&self, frame: Outgoing) -> Option<Arc<Connection>> {
        if !self.stands || self.connection.is_closed() {
            return None;
        }
        self.connection.writer().push(frame);
        Some(self.connection.clone())
    }
}

impl ControlChannel {
    /// Over the connection on which the instance was welcomed. `is_kept`: what is said will be said again on the next one.
    pub fn new(connection: Arc<Connection>, is_kept: bool) -> ControlChannel {
        let conversation = is_kept.then(Conversation::default);
        ControlChannel { inner: Mutex::new(Inner { connection, stands: true, conversation }) }
    }

    /// The connection of now; it may be closed.
    pub fn connection(&self) -> Arc<Connection> {
        self.lock().connection.clone()
    }

    /// Says something. `Some`: this connection must be flushed. `None`: there is none; it is said later, or nobody hears it.
    pub fn say(&self, message: &ToCoordinator) -> Option<Arc<Connection>> {
        let frame = control_frame(message);
        let mut inner = self.lock();
        if inner.conversation.as_mut().is_some_and(|conversation| !conversation.say(&frame)) {
            inner.conversation = None;
        }
        inner.push(frame)
    }

    /// A message of the coordinator has come. `Some`: the connection must be flushed.
    pub fn hear(&self) -> Option<Arc<Connection>> {
        let mut inner = self.lock();
        let count = inner.conversation.as_mut()?.hear()?;
        inner.push(control_frame(&ToCoordinator::Heard { count }))
    }

    /// The coordinator has so many messages.
    pub fn has(&self, count: u64) -> Result<(), String> {
        self.lock().conversation.as_mut().map_or(Ok(()), |conversation| conversation.has(count))
    }

    /// Whether another connection may follow when this one breaks.
    pub fn is_kept(&self) -> bool {
        self.lock().conversation.is_some()
    }

    /// The connection is no good any more. If another one may follow it: how far the conversation has come ([`Conversation::progress`]),
    /// and whether the coordinator may lack something.
    pub fn lose(&self) -> Option<(u64, bool)> {
        let mut inner = self.lock();
        inner.stands = false;
        inner.connection.close();
        inner.connection.writer().clear();
        inner.conversation.as_ref().map(|conversation| (conversation.progress(), conversation.waits()))
    }

    /// There is another connection; the first thing said on it is who comes back. False: nobody does.
    pub fn come_back_by(&self, connection: &Arc<Connection>, token: &[u8]) -> bool {
        let mut inner = self.lock();
        let Some(heard) = inner.conversation.as_mut().map(Conversation::tell) else { return false };
        let rejoin = ToCoordinator::Rejoin { token: token.to_vec(), heard };
        connection.writer().push(control_frame(&rejoin));
        inner.connection = connection.clone();
        true
    }

    /// The coordinator has taken the instance back and has so many of its messages: says the others again. The connection must be flushed.
    pub fn go_on(&self, count: u64) -> Result<Arc<Connection>, String> {
        let mut inner = self.lock();
        let Some(conversation) = &mut inner.conversation else {
            return Err("there is nothing to go on with".to_owned());
        };
        conversation.has(count)?;
        let rest: Vec<Outgoing> = conversation.rest().collect();
        let mut writer = inner.connection.writer();
        rest.into_iter().for_each(|frame| writer.push(frame));
        drop(writer);
        inner.stands = true;
        Ok(inner.connection.clone())
    }

    /// Ends it: nothing is said any more.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.stands = false;
        inner.conversation = None;
        inner.connection.close();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// The frame that carries a message to the coordinator.
pub fn control_frame(message: &ToCoordinator) -> Outgoing {
    encode_control(&message.encode()).into()
}
