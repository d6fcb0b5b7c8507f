//! Which connection each conduit goes by, also while its method changes and messages pass.
//!
//! A conduit whose method changes goes on by its connection until one by another method stands and the receiver has answered on it; then, between two
//! messages, it goes over. What was given to a connection that cannot break arrives there: the sender says on both connections up to
//! which number ([`Frame::Leaves`], [`Frame::Continues`]), and the receiver puts together what comes by the two. What a connection that
//! can break had not delivered for certain is sent again by the new one. A connection that no conduit uses any more is closed by the
//! receiver, behind everything that came on it ([`Frame::Closes`]).
//!
//! [`Frame::Leaves`]: xmml_wire::frame::Frame::Leaves
//! [`Frame::Continues`]: xmml_wire::frame::Frame::Continues
//! [`Frame::Closes`]: xmml_wire::frame::Frame::Closes

use std::sync::Arc;

use xmml_wire::connection::{Connection, Outgoing};
use xmml_wire::frame::{self, EncodedMessage};
use xmml_wire::methods::Place;

use crate::control::ToCoordinator;

use super::conduits::Conduits;
use super::connections::Connections;
use super::deferred_work::DeferredWork;
use super::link::{Link, Status};

/// The conduits and connections of an instance, while it is settled which goes by which.
pub struct Routing<'a> {
    /// Its conduits.
    pub conduits: &'a mut Conduits,
    /// Its connections.
    pub connections: &'a mut Connections,
    /// What is to be done once the state is released.
    pub deferred: &'a mut DeferredWork,
}

impl Routing<'_> {
    /// From now on a sending end may use these methods, in this order (none: all). Of a change that has not come about yet nobody needs to
    /// know more than that it was overtaken. Returns the link to be dialled, if there is one.
    pub fn allow(&mut self, end: usize, change: u64, methods: &[String], here: &Place) -> Option<usize> {
        if self.conduits.sending[end].change.is_some() {
            self.report(end, Some("another change came before this one had come about".to_owned()));
        }
        let overtaken = self.conduits.sending[end].next_link.take();
        self.conduits.sending[end].change = Some(change);
        let dial = self.begin_change(end, methods, here);
        overtaken.into_iter().for_each(|link| self.rest_if_unused(link));
        dial
    }

    fn begin_change(&mut self, end: usize, methods: &[String], here: &Place) -> Option<usize> {
        let current = self.conduits.sending[end].link;
        let Link { peer, class, protection, .. } = &self.connections.links[current];
        let (peer, class, protection) = (peer.clone(), *class, *protection);
        let next = self.connections.link_to(&peer, methods, class, protection);
        Arc::make_mut(&mut self.conduits.sending[end].spec).methods = methods.to_vec();
        if matches!(self.connections.links[current].status, Status::Over) || self.conduits.sending[end].is_gone() {
            self.report(end, Some(format!("{peer} has left")));
            return None;
        }
        if next == current {
            if self.connections.links[current].is_admitted() || self.connections.links[current].table().is_none() {
                self.report(end, None);
            }
            // Else it is reported when the connection that is being made stands.
            let is_made_again =
                self.conduits.sending[end].change.is_some() && self.connections.links[current].wake(None, here);
            return is_made_again.then_some(current);
        }
        let table = self.connections.links[current].table().cloned();
        let is_new = self.connections.links[next].conduits.is_empty()
            && matches!(self.connections.links[next].status, Status::Unknown);
        if is_new {
            self.connections.links[next].status = Status::Resting;
        }
        let dial = self.connections.links[next].wake(table.as_ref(), here);
        self.conduits.sending[end].next_link = Some(next);
        if !self.connections.links[current].is_admitted() {
            // Nothing is under way by the link before: there is nothing to wait for.
            self.change_link(end, next);
            if self.connections.links[next].table().is_none() {
                self.report(end, None);
            } else if self.connections.links[next].is_admitted() {
                if let Some(connection) = self.connections.links[next].connection.clone() {
                    // As below; nothing of this conduit has crossed yet.
                    let _ = self.flow_on(end, 0, &connection);
                }
            }
        } else if self.connections.links[next].is_admitted() {
            if let Some(connection) = self.connections.links[next].connection.clone() {
                // The receiver has said long ago what it had: it sorts out what comes twice.
                let _ = self.go_over(end, next, 0, &connection);
            }
        }
        dial.then_some(next)
    }

    /// Has the conduits of a link that has gone over to a slower method find out whether a faster one leads to the receiver again; they
    /// go on as they do until it has answered. Returns the link to be dialled; `None`: there is nothing to find out now.
    pub fn try_to_return(&mut self, link: usize, here: &Place) -> Option<usize> {
        let methods = self.connections.links[link].lost_methods(here);
        let rests = |end: &usize| {
            self.conduits.sending[*end].next_link.is_none() && self.conduits.sending[*end].change.is_none()
        };
        let ends: Vec<usize> = self.connections.links[link].conduits.iter().copied().filter(rests).collect();
        if methods.is_empty() || ends.is_empty() || !self.connections.links[link].is_admitted() {
            return None;
        }
        let table = self.connections.links[link].table().cloned();
        let trial = self.spare_link(link);
        let (own, other) = self.connections.link_beside(trial, link);
        own.try_for(other, methods);
        if !own.wake(table.as_ref(), here) {
            return None;
        }
        ends.into_iter().for_each(|end| self.conduits.sending[end].next_link = Some(trial));
        Some(trial)
    }

    /// A link to the same receiver that nobody uses.
    fn spare_link(&mut self, link: usize) -> usize {
        let like = &self.connections.links[link];
        let is_spare = |other: usize| {
            let own = &self.connections.links[other];
            let is_alike = own.peer == like.peer && own.allowed == like.allowed;
            let is_alike = is_alike && own.class == like.class && own.protection == like.protection;
            is_alike && own.conduits.is_empty() && !self.conduits.want(other) && matches!(own.status, Status::Resting)
        };
        if let Some(found) = (0..self.connections.links.len()).find(|other| *other != link && is_spare(*other)) {
            return found;
        }
        let mut fresh = Link::new(like.peer.clone(), like.allowed.clone(), like.class, like.protection);
        fresh.status = Status::Resting;
        self.connections.add(fresh)
    }

    /// The receiver says what it has of a conduit.
    pub fn on_resume(&mut self, connection: &Arc<Connection>, end: usize, sequence: u64) -> Result<(), String> {
        // Also a connection that no conduit waits for any more: one may want it later, and the receiver does not answer again.
        if let Some(link) = self.connections.link_on(connection) {
            self.connections.links[link].on_first_resume();
        }
        if let Some(next) =
            self.conduits.sending[end].next_link.filter(|next| self.connections.links[*next].is_on(connection))
        {
            return self.go_over(end, next, sequence, connection);
        }
        let link = self.conduits.sending[end].link;
        if self.connections.links[link].is_on(connection) {
            self.flow_on(end, sequence, connection)?;
            self.begin_fresh(link, connection)?;
        }
        Ok(())
    }

    /// What waits goes out by the connection of the end's link, whose receiver has everything up to `sequence`.
    fn flow_on(&mut self, end: usize, sequence: u64, connection: &Arc<Connection>) -> Result<(), String> {
        for frame in self.conduits.sending[end].resend_from(sequence, connection.can_break)? {
            self.deferred.queue(connection, frame);
        }
        if self.conduits.sending[end].change.is_some() && self.conduits.sending[end].next_link.is_none() {
            self.report(end, None);
        }
        Ok(())
    }

    /// The receiver takes what comes by this connection: conduits that were made by handles begin. It has nothing of them.
    pub fn begin_fresh(&mut self, link: usize, connection: &Arc<Connection>) -> Result<(), String> {
        let fresh: Vec<usize> = self.connections.links[link]
            .conduits
            .iter()
            .copied()
            .filter(|end| self.conduits.sending[*end].is_fresh)
            .collect();
        for end in fresh {
            for frame in self.conduits.sending[end].resend_from(0, connection.can_break)? {
                self.deferred.queue(connection, frame);
            }
        }
        Ok(())
    }

    /// Ends the conduit of a sending end, behind all its messages.
    pub fn end(&mut self, end: usize) {
        if let Some(frame) = self.conduits.sending[end].end() {
            self.queue_on_link(end, frame);
        }
    }

    /// Queues a frame on the connection of a sending end (which handed the frame out, so there is one).
    pub fn queue_on_link(&mut self, end: usize, frame: Outgoing) {
        if let Some(connection) = &self.connections.links[self.conduits.sending[end].link].connection {
            self.deferred.queue(connection, frame);
        }
    }

    /// Writes a message (with its number) of a sending end that has room for it past all queues, and counts it; false: it must be
    /// queued.
    pub fn write_at_once(&mut self, sending: usize, message: &EncodedMessage) -> bool {
        let end = &mut self.conduits.sending[sending];
        let Some(connection) = self.connections.links[end.link].connection.as_ref() else { return false };
        let payload: &[u8] = match &message.payload[..] {
            [] => &[],
            [only] if only.len() < connection.lends_from() => only,
            _ => return false,
        };
        let may_be = connection.is_memory() && !end.keeps();
        let is_written = may_be && connection.write_at_once(&message.head, payload);
        if is_written {
            end.count(message.frame_len());
        }
        is_written
    }

    fn go_over(&mut self, end: usize, next: usize, sequence: u64, connection: &Arc<Connection>) -> Result<(), String> {
        let before = self.conduits.sending[end].link;
        if let Some(old) = self.connections.links[before].connection.clone() {
            self.deferred.queue(&old, frame::encode_leaves(self.conduits.sending[end].spec.id).to_vec().into());
        }
        for frame in self.conduits.sending[end].go_over(sequence, connection.can_break)? {
            self.deferred.queue(connection, frame);
        }
        self.change_link(end, next);
        self.report(end, None);
        Ok(())
    }

    fn change_link(&mut self, end: usize, next: usize) {
        let before = std::mem::replace(&mut self.conduits.sending[end].link, next);
        self.conduits.sending[end].next_link = None;
        self.connections.links[before].conduits.retain(|other| *other != end);
        self.connections.links[next].conduits.push(end);
        self.connections.links[next].taken_up();
        self.rest_if_unused(before);
    }

    /// A connection that no conduit uses or wants is not kept.
    fn rest_if_unused(&mut self, link: usize) {
        if !self.connections.links[link].conduits.is_empty() || self.conduits.want(link) {
            return;
        }
        if let Some(old) = self.connections.links[link].rest() {
            self.deferred.queue(&old, frame::encode_closes().to_vec().into());
            self.connections.retired.push(old.clone());
            self.deferred.read_on_io_thread(old);
        }
    }

    /// A link that conduits wanted to go over to leads nowhere: they go on as before. False: conduits depend on it.
    pub fn stay(&mut self, link: usize, reason: &str) -> bool {
        for end in 0..self.conduits.sending.len() {
            let waits_for_it =
                self.conduits.sending[end].next_link.is_none() && self.conduits.sending[end].change.is_some();
            if waits_for_it && self.conduits.sending[end].link == link {
                self.report(end, Some(reason.to_owned()));
            }
            if self.conduits.sending[end].next_link == Some(link) {
                self.conduits.sending[end].next_link = None;
                let allowed = self.connections.links[self.conduits.sending[end].link].allowed.clone();
                Arc::make_mut(&mut self.conduits.sending[end].spec).methods = allowed;
                self.report(end, Some(reason.to_owned()));
            }
        }
        if !self.connections.links[link].conduits.is_empty() {
            return false;
        }
        self.connections.links[link].rest();
        true
    }

    /// The receiver has left.
    pub fn give_up_changes_to(&mut self, peer: &str) {
        for end in 0..self.conduits.sending.len() {
            if self.conduits.sending[end].spec.receiver == peer && self.conduits.sending[end].change.is_some() {
                self.conduits.sending[end].next_link = None;
                self.report(end, Some(format!("{peer} has left")));
            }
        }
    }

    /// Tells the coordinator how a conduit travels after a change was asked for.
    fn report(&mut self, end: usize, problem: Option<String>) {
        let change = self.conduits.sending[end].change.take();
        let link = &self.connections.links[self.conduits.sending[end].link];
        let conduit = self.conduits.sending[end].spec.id;
        let (method, refused) = (link.chosen.map(str::to_owned), link.refused.clone());
        let protected = link.is_protected();
        if let (Some(method), None) = (&method, &problem) {
            let conduits = vec![conduit];
            self.deferred.tell(ToCoordinator::Conduits { conduits, method: method.clone(), protected, refused });
        }
        if let Some(change) = change {
            self.deferred.tell(ToCoordinator::Changed { change, conduit, method, problem });
        }
    }

    /// The sender uses this connection no more, and everything that came on it has been read.
    pub fn let_go(&mut self, connection: &Arc<Connection>) {
        self.connections.remove_inbound(connection);
        connection.close();
        // What was written on it may not have been read: it is said once more.
        for end in 0..self.conduits.receiving.len() {
            if self.conduits.receiving[end].spec.sender != connection.peer {
                continue;
            }
            self.conduits.receiving[end].comes_by_no_more(connection);
            let Some(other) = self.connections.answers_by(&self.conduits.receiving[end]) else { continue };
            if let Some(receipt) = self.conduits.receiving[end].encode_receipt_again() {
                self.deferred.queue(other, receipt.into());
            }
        }
    }
}
