//! The connections of an instance: those on which it sends, one for each link, and those on which it receives.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use xmml_wire::connection::authentication::Protection;
use xmml_wire::connection::Connection;
use xmml_wire::methods::TrafficClass;

use crate::conduit::ReceivingEnd;

use super::link::Link;

/// All connections to and from other instances.
#[derive(Default)]
pub struct Connections {
    /// Ways to receivers. A link keeps its index as long as the instance lives.
    pub links: Vec<Link>,
    /// Connections from senders, by their names.
    inbound: FxHashMap<String, Vec<Arc<Connection>>>,
    /// Connections that no conduit uses any more: the receiver closes them when it has read everything.
    pub retired: Vec<Arc<Connection>>,
}

impl Connections {
    /// The link that conduits to `peer` share if they allow the same methods and are for the same.
    pub fn link_to(
        &mut self,
        peer: &str,
        allowed: &[String],
        class: Option<TrafficClass>,
        protection: Protection,
    ) -> usize {
        let fits = |link: &Link| {
            let is_for_same = link.class == class && link.protection == protection;
            link.peer == peer && link.allowed == allowed && is_for_same && !link.is_trial()
        };
        // Of two, one rests since its conduits went over to the other.
        let found = self.links.iter().position(|link| fits(link) && !link.conduits.is_empty());
        found
            .or_else(|| self.links.iter().position(fits))
            .unwrap_or_else(|| self.add(Link::new(peer.to_owned(), allowed.to_vec(), class, protection)))
    }

    /// Adds a link; returns its index.
    pub fn add(&mut self, link: Link) -> usize {
        self.links.push(link);
        self.links.len() - 1
    }

    /// The link that has this connection.
    pub fn link_on(&self, connection: &Arc<Connection>) -> Option<usize> {
        self.links.iter().position(|link| link.is_on(connection))
    }

    /// Two links at once, the first to be changed.
    pub fn link_beside(&mut self, changed: usize, other: usize) -> (&mut Link, &Link) {
        match other < changed {
            true => {
                let (before, behind) = self.links.split_at_mut(changed);
                (&mut behind[0], &before[other])
            }
            false => {
                let (before, behind) = self.links.split_at_mut(other);
                (&mut before[changed], &behind[0])
            }
        }
    }

    /// Adds a connection from a sender.
    pub fn add_inbound(&mut self, connection: &Arc<Connection>) {
        self.inbound.entry(connection.peer.clone()).or_default().push(connection.clone());
    }

    /// Removes a connection from a sender; false if it was not there.
    pub fn remove_inbound(&mut self, connection: &Arc<Connection>) -> bool {
        let Some(list) = self.inbound.get_mut(&connection.peer) else { return false };
        let before = list.len();
        list.retain(|other| !Arc::ptr_eq(other, connection));
        list.len() < before
    }

    /// Connections from a sender, the latest last.
    pub fn inbound_from(&self, sender: &str) -> &[Arc<Connection>] {
        self.inbound.get(sender).map_or(&[], Vec::as_slice)
    }

    /// All connections from senders.
    pub fn all_inbound(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.inbound.values().flatten()
    }

    /// The connection by which a receiving end answers: the one it comes by, or another from the same sender.
    pub fn answers_by(&self, end: &ReceivingEnd) -> Option<&Arc<Connection>> {
        let list = self.inbound_from(&end.spec.sender);
        list.iter().find(|connection| end.comes_by(connection)).or(list.last())
    }

    /// Connections to receivers.
    pub fn outbound(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.links.iter().filter_map(|link| link.connection.as_ref())
    }

    /// Closes all of them.
    pub fn close(&self) {
        self.all_inbound().chain(self.outbound()).chain(&self.retired).for_each(|connection| connection.close());
    }

    /// Whether the kernel has every frame that was handed to a connection to a receiver.
    pub fn are_flushed(&self) -> bool {
        self.outbound().chain(&self.retired).all(|connection| connection.writer().is_empty())
    }

    /// The same of those to one receiver.
    pub fn are_flushed_to(&self, receiver: &str) -> bool {
        let mut to_receiver = self.outbound().chain(&self.retired).filter(|connection| connection.peer == receiver);
        to_receiver.all(|connection| connection.writer().is_empty())
    }
}
