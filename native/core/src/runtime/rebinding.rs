//! Changing the method of a conduit while messages pass.
//!
//! The conduit goes on by its connection until one by another method stands and the receiver has answered on it; then, between two
//! messages, it goes over. What was given to a connection that cannot break arrives there: the sender says on both connections up to
//! which number ([`Frame::Leaves`], [`Frame::Continues`]), and the receiver puts together what comes by the two. What a connection that
//! can break had not delivered for certain is sent again by the new one. A connection that no conduit uses any more is closed by the
//! receiver, behind everything that came on it ([`Frame::Closes`]).
//!
//! [`Frame::Leaves`]: xmml_wire::frame::Frame::Leaves
//! [`Frame::Continues`]: xmml_wire::frame::Frame::Continues
//! [`Frame::Closes`]: xmml_wire::frame::Frame::Closes

use std::sync::Arc;

use xmml_wire::connection::Connection;
use xmml_wire::frame;
use xmml_wire::methods::Place;

use crate::conduit::ReceivingEnd;
use crate::control::ToCoordinator;

use super::link::{Link, Status};
use super::state::State;

impl State {
    /// From now on a sending end may use these methods, in this order (none: all). Of a change that has not come about yet nobody needs to
    /// know more than that it was overtaken. Returns the link to be dialled, if there is one.
    pub fn allow(&mut self, end: usize, change: u64, methods: &[String], here: &Place) -> Option<usize> {
        if self.sending[end].change.is_some() {
            self.report(end, Some("another change came before this one had come about".to_owned()));
        }
        let overtaken = self.sending[end].next_link.take();
        self.sending[end].change = Some(change);
        let dial = self.begin_change(end, methods, here);
        overtaken.into_iter().for_each(|link| self.rest_if_unused(link));
        dial
    }

    fn begin_change(&mut self, end: usize, methods: &[String], here: &Place) -> Option<usize> {
        let current = self.sending[end].link;
        let Link { peer, class, protection, .. } = &self.links[current];
        let (peer, class, protection) = (peer.clone(), *class, *protection);
        let next = self.link_to(&peer, methods, class, protection);
        Arc::make_mut(&mut self.sending[end].spec).methods = methods.to_vec();
        if matches!(self.links[current].status, Status::Over) || self.sending[end].is_gone() {
            self.report(end, Some(format!("{peer} has left")));
            return None;
        }
        if next == current {
            if self.links[current].is_admitted() || self.links[current].table().is_none() {
                self.report(end, None);
            }
            // Else it is reported when the connection that is being made stands.
            let is_made_again = self.sending[end].change.is_some() && self.links[current].wake(None, here);
            return is_made_again.then_some(current);
        }
        let table = self.links[current].table().cloned();
        let is_new = self.links[next].conduits.is_empty() && matches!(self.links[next].status, Status::Unknown);
        if is_new {
            self.links[next].status = Status::Resting;
        }
        let dial = self.links[next].wake(table.as_ref(), here);
        self.sending[end].next_link = Some(next);
        if !self.links[current].is_admitted() {
            // Nothing is under way by the link before: there is nothing to wait for.
            self.change_link(end, next);
            if self.links[next].table().is_none() {
                self.report(end, None);
            } else if self.links[next].is_admitted() {
                if let Some(connection) = self.links[next].connection.clone() {
                    // As below; nothing of this conduit has crossed yet.
                    let _ = self.flow_on(end, 0, &connection);
                }
            }
        } else if self.links[next].is_admitted() {
            if let Some(connection) = self.links[next].connection.clone() {
                // The receiver has said long ago what it had: it sorts out what comes twice.
                let _ = self.go_over(end, next, 0, &connection);
            }
        }
        dial.then_some(next)
    }

    /// Has the conduits of a link that has gone over to a slower method find out whether a faster one leads to the receiver again; they
    /// go on as they do until it has answered. Returns the link to be dialled; `None`: there is nothing to find out now.
    pub fn try_to_return(&mut self, link: usize, here: &Place) -> Option<usize> {
        let methods = self.links[link].lost_methods(here);
        let rests = |end: &usize| self.sending[*end].next_link.is_none() && self.sending[*end].change.is_none();
        let ends: Vec<usize> = self.links[link].conduits.iter().copied().filter(rests).collect();
        if methods.is_empty() || ends.is_empty() || !self.links[link].is_admitted() {
            return None;
        }
        let table = self.links[link].table().cloned();
        let trial = self.spare_link(link);
        let (other, own) = match link < trial {
            true => {
                let (before, behind) = self.links.split_at_mut(trial);
                (&before[link], &mut behind[0])
            }
            false => {
                let (before, behind) = self.links.split_at_mut(link);
                (&behind[0], &mut before[trial])
            }
        };
        own.try_for(other, methods);
        if !own.wake(table.as_ref(), here) {
            return None;
        }
        ends.into_iter().for_each(|end| self.sending[end].next_link = Some(trial));
        Some(trial)
    }

    /// A link to the same receiver that nobody uses.
    fn spare_link(&mut self, link: usize) -> usize {
        let like = &self.links[link];
        let is_spare = |other: usize| {
            let own = &self.links[other];
            let is_alike = own.peer == like.peer && own.allowed == like.allowed;
            let is_alike = is_alike && own.class == like.class && own.protection == like.protection;
            is_alike && own.conduits.is_empty() && !self.is_wanted(other) && matches!(own.status, Status::Resting)
        };
        if let Some(found) = (0..self.links.len()).find(|other| *other != link && is_spare(*other)) {
            return found;
        }
        let mut fresh = Link::new(like.peer.clone(), like.allowed.clone(), like.class, like.protection);
        fresh.status = Status::Resting;
        self.links.push(fresh);
        self.links.len() - 1
    }

    /// Whether a conduit waits to use this link.
    pub fn is_wanted(&self, link: usize) -> bool {
        self.sending.iter().any(|end| end.next_link == Some(link))
    }

    /// The receiver says what it has of a conduit.
    pub(super) fn resume(&mut self, connection: &Arc<Connection>, end: usize, sequence: u64) -> Result<(), String> {
        // Also a connection that no conduit waits for any more: one may want it later, and the receiver does not answer again.
        if let Some(link) = self.links.iter().position(|link| link.is_on(connection)) {
            self.links[link].admitted();
        }
        if let Some(next) = self.sending[end].next_link.filter(|next| self.links[*next].is_on(connection)) {
            return self.go_over(end, next, sequence, connection);
        }
        let link = self.sending[end].link;
        if self.links[link].is_on(connection) {
            self.flow_on(end, sequence, connection)?;
            self.begin_opened(link, connection)?;
        }
        Ok(())
    }

    /// What waits goes out by the connection of the end's link, whose receiver has everything up to `sequence`.
    fn flow_on(&mut self, end: usize, sequence: u64, connection: &Arc<Connection>) -> Result<(), String> {
        for frame in self.sending[end].flow_from(sequence, connection.breaks)? {
            self.queue(connection, frame);
        }
        if self.sending[end].change.is_some() && self.sending[end].next_link.is_none() {
            self.report(end, None);
        }
        Ok(())
    }

    fn go_over(&mut self, end: usize, next: usize, sequence: u64, connection: &Arc<Connection>) -> Result<(), String> {
        let before = self.sending[end].link;
        if let Some(old) = self.links[before].connection.clone() {
            self.queue(&old, frame::encode_leaves(self.sending[end].spec.id).to_vec().into());
        }
        for frame in self.sending[end].go_over(sequence, connection.breaks)? {
            self.queue(connection, frame);
        }
        self.change_link(end, next);
        self.report(end, None);
        self.waiters.wake(None);
        Ok(())
    }

    fn change_link(&mut self, end: usize, next: usize) {
        let before = std::mem::replace(&mut self.sending[end].link, next);
        self.sending[end].next_link = None;
        self.links[before].conduits.retain(|other| *other != end);
        self.links[next].conduits.push(end);
        self.links[next].taken_up();
        self.rest_if_unused(before);
    }

    /// A connection that no conduit uses or wants is not kept.
    fn rest_if_unused(&mut self, link: usize) {
        if !self.links[link].conduits.is_empty() || self.is_wanted(link) {
            return;
        }
        if let Some(old) = self.links[link].rest() {
            self.queue(&old, frame::encode_closes().to_vec().into());
            self.retired.push(old.clone());
            self.left.watch(old);
        }
    }

    /// A link that conduits wanted to go over to leads nowhere: they go on as before. False: conduits depend on it.
    pub fn stay(&mut self, link: usize, reason: &str) -> bool {
        for end in 0..self.sending.len() {
            let waits_for_it = self.sending[end].next_link.is_none() && self.sending[end].change.is_some();
            if waits_for_it && self.sending[end].link == link {
                self.report(end, Some(reason.to_owned()));
            }
            if self.sending[end].next_link == Some(link) {
                self.sending[end].next_link = None;
                let allowed = self.links[self.sending[end].link].allowed.clone();
                Arc::make_mut(&mut self.sending[end].spec).methods = allowed;
                self.report(end, Some(reason.to_owned()));
            }
        }
        if !self.links[link].conduits.is_empty() {
            return false;
        }
        self.links[link].rest();
        true
    }

    /// The receiver has left.
    pub(super) fn give_up_changes_to(&mut self, peer: &str) {
        for end in 0..self.sending.len() {
            if self.sending[end].spec.receiver == peer && self.sending[end].change.is_some() {
                self.sending[end].next_link = None;
                self.report(end, Some(format!("{peer} has left")));
            }
        }
    }

    /// Tells the coordinator how a conduit travels after a change was asked for.
    fn report(&mut self, end: usize, problem: Option<String>) {
        let change = self.sending[end].change.take();
        let link = &self.links[self.sending[end].link];
        let conduit = self.sending[end].spec.id;
        let (method, refused) = (link.chosen.map(str::to_owned), link.refused.clone());
        let protected = link.is_protected();
        if let (Some(method), None) = (&method, &problem) {
            let conduits = vec![conduit];
            self.left.tell(ToCoordinator::Conduits { conduits, method: method.clone(), protected, refused });
        }
        if let Some(change) = change {
            self.left.tell(ToCoordinator::Changed { change, conduit, method, problem });
        }
    }

    /// The sender uses this connection no more, and everything that came on it has been read.
    pub(super) fn let_go(&mut self, connection: &Arc<Connection>) {
        let list = self.inbound.entry(connection.peer.clone()).or_default();
        list.retain(|other| !Arc::ptr_eq(other, connection));
        connection.close();
        // What was written on it may not have been read: it is said once more.
        for end in 0..self.receiving.len() {
            if self.receiving[end].spec.sender != connection.peer {
                continue;
            }
            self.receiving[end].comes_by_no_more(connection);
            if let Some(other) = self.answers_by(end) {
                if let Some(receipt) = self.receiving[end].receipt_again() {
                    self.queue(&other, receipt.into());
                }
            }
        }
    }

    /// Whether messages of a receiving end may come by this connection. One that brings what is for something else never does.
    pub fn may_come_by(&self, end: usize, connection: &Connection) -> bool {
        let end = &self.receiving[end];
        let is_foreign =
            |other: &ReceivingEnd| other.comes_by(connection) && other.spec.traffic_class != end.spec.traffic_class;
        end.comes_by(connection) || !self.receiving.iter().any(is_foreign)
    }

    /// A message has come by this connection.
    pub(super) fn came_by(&mut self, end: usize, connection: &Arc<Connection>) {
        let end = &mut self.receiving[end];
        if end.comes_by(connection) {
            return;
        }
        end.method = Some(connection.method);
        end.is_protected = connection.is_protected();
        end.via = (!end.is_coming_by_two()).then(|| connection.clone());
    }
}
