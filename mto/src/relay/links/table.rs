//! The links that there are, and the memory that they share with streams.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_path::{Lane, State};
use xmml_wire::buffer::Buffer;

use super::link::{EndId, Link};
use super::read_budget::ReadBudget;
use crate::link_frame::LinkMessage;
use crate::registry::Token;
use crate::relay::poller::Poller;
use crate::status::LinkStatus;
use crate::window::{self, Budget};

/// All links of a relay, by token.
pub struct LinkTable {
    poller: Arc<Poller>,
    links: HashMap<Token, Link>,
    /// Links that are served in the next turn, whatever the poller says: nothing wakes the relay for frames that have arrived already.
    due: BTreeSet<Token>,
    /// What streams and links together may hold beyond what each of them has in any case.
    pub budget: Budget,
}

impl LinkTable {
    /// Returns a table without links.
    pub fn new(poller: &Arc<Poller>) -> LinkTable {
        LinkTable {
            poller: poller.clone(),
            links: HashMap::new(),
            due: BTreeSet::new(),
            budget: Budget::new(window::GROWTH),
        }
    }

    /// Adds a link, which is served in the next turn.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn add(&mut self, link: Link) -> io::Result<Token> {
        let token = self.poller.watch(link.path().fd())?;
        self.links.insert(token, link);
        self.due.insert(token);
        Ok(token)
    }

    /// Removes a link after everything that was put on it has left.
    pub fn remove(&mut self, token: Token) -> Option<Link> {
        let mut link = self.links.remove(&token)?;
        link.flush();
        link.release_all(&mut self.budget);
        self.poller.remove(link.path().fd());
        Some(link)
    }

    /// Returns whether there is this link.
    pub fn contains(&self, token: Token) -> bool {
        self.links.contains_key(&token)
    }

    /// Returns a link.
    pub fn get(&self, token: Token) -> Option<&Link> {
        self.links.get(&token)
    }

    /// Returns a link.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut Link> {
        self.links.get_mut(&token)
    }

    /// Returns all links.
    pub fn iter(&self) -> impl Iterator<Item = (Token, &Link)> {
        self.links.iter().map(|(token, link)| (*token, link))
    }

    /// Returns the links of a run.
    pub fn of_run(&self, run: &str) -> Vec<Token> {
        self.iter().filter(|(_, link)| link.run() == run).map(|(token, _)| token).collect()
    }

    /// Returns the best link of a run to a neighbouring site.
    pub fn best(&self, run: &str, site: &str) -> Option<Token> {
        let links = self.iter().filter(|(_, link)| link.leads_to(run, site));
        links.min_by_key(|(token, link)| (link.round_trip.estimate(), *token)).map(|(token, _)| token)
    }

    /// Sends a message to the relay at the other end of a link, if there is that link.
    pub fn send(&mut self, token: Token, message: &LinkMessage) {
        if let Some(link) = self.links.get_mut(&token) {
            link.send(message);
            if link.is_unread() {
                // Whoever sends it something is in the middle of other things: it is closed when it has its turn.
                self.due.insert(token);
            }
        }
    }

    /// Sends a message to every relay that is linked for a run, except one.
    pub fn send_to_all(&mut self, run: &str, message: &LinkMessage, except: Option<Token>) {
        let is_receiver = |(token, link): &(Token, &Link)| link.run() == run && link.is_up() && Some(*token) != except;
        let links: Vec<Token> = self.iter().filter(is_receiver).map(|(token, _)| token).collect();
        links.into_iter().for_each(|link| self.send(link, message));
    }

    /// Returns whether the relay at the other end of a link does not take its messages.
    pub fn is_unread(&self, token: Token) -> bool {
        self.links.get(&token).is_some_and(Link::is_unread)
    }

    /// Measures the round trip of a link, unless that is under way.
    pub fn ping(&mut self, token: Token, now: Instant) {
        let link = self.links.get_mut(&token).filter(|link| link.is_open());
        if let Some(number) = link.and_then(|link| link.round_trip.ping(now)) {
            self.send(token, &LinkMessage::Ping { number });
        }
    }

    /// Returns the round trip of a link.
    pub fn round_trip(&self, token: Token) -> Duration {
        self.links.get(&token).map(|link| link.round_trip.estimate()).unwrap_or_default()
    }

    /// Returns whether a link takes a frame more.
    pub fn has_room(&mut self, token: Token, lane: Lane) -> bool {
        self.links.get_mut(&token).is_some_and(|link| link.has_room(lane, &mut self.budget))
    }

    /// Takes the next frame that has arrived by a link. What is too much for this turn is taken in the next.
    pub fn next_frame(&mut self, token: Token, budget: &mut ReadBudget) -> Option<Buffer> {
        let path = self.links.get(&token)?.path();
        let frame = budget.next(|lane| path.take(lane));
        if budget.is_spent() {
            self.due.insert(token);
        }
        frame
    }

    /// Releases memory that a link needs no more, and takes the ends of streams that wait for the link if it takes more now.
    ///
    /// # Errors
    /// The link is closed.
    pub fn take_unblocked(&mut self, token: Token) -> Result<BTreeSet<EndId>, String> {
        let Some(link) = self.links.get_mut(&token) else { return Ok(BTreeSet::new()) };
        if matches!(link.path().state(), State::Closed | State::Failed(_)) {
            return Err("the other relay has ended it".to_owned());
        }
        link.release(&mut self.budget);
        match Lane::ALL.into_iter().any(|lane| link.has_room(lane, &mut self.budget)) {
            true => Ok(link.take_blocked()),
            false => Ok(BTreeSet::new()),
        }
    }

    /// Takes the links that are to be served in this turn in any case.
    pub fn take_due(&mut self) -> BTreeSet<Token> {
        std::mem::take(&mut self.due)
    }

    /// Returns whether a link is to be served without waiting.
    pub fn is_any_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Flushes the queued frames of all links.
    pub fn flush(&mut self) {
        self.links.values_mut().for_each(Link::flush);
    }

    /// Returns the state of all links, the oldest first.
    pub fn statuses(&self) -> Vec<LinkStatus> {
        let mut links: Vec<_> = self.iter().collect();
        links.sort_unstable_by_key(|(token, _)| *token);
        links.into_iter().map(|(_, link)| link.status()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::links::tests::link;
    use crate::relay::testing::next_message;
    use crate::waiting::await_that;

    const NUMBERED: LinkMessage = LinkMessage::Ping { number: 77 };

    fn table() -> LinkTable {
        LinkTable::new(&Poller::new().unwrap())
    }

    #[test]
    fn a_link_is_served_in_the_turn_after_it_was_added() {
        let mut table = table();
        assert!(!table.is_any_due());
        let (token, _far) = link(&mut table);
        assert_eq!(table.take_due(), BTreeSet::from([token]));
        assert!(!table.is_any_due());
    }

    #[test]
    fn a_message_to_all_reaches_the_relays_that_have_introduced_themselves_except_one() {
        let mut table = table();
        let [first, second, third] = [(); 3].map(|()| link(&mut table));
        for (token, site) in [(first.0, "a"), (second.0, "c")] {
            table.get_mut(token).unwrap().introduce(site, 1);
        }
        table.send_to_all("river", &LinkMessage::Pong { number: 1 }, None);
        table.send_to_all("canal", &NUMBERED, Some(first.0));
        table.flush();
        assert_eq!(next_message(&second.1), NUMBERED);
        assert!(first.1.take(Lane::Control).is_none() && third.1.take(Lane::Control).is_none());
    }

    #[test]
    fn an_end_that_waits_for_a_link_is_resumed_once() {
        let mut table = table();
        let (token, _far) = link(&mut table);
        let [first, second] = [0, 1].map(|side| EndId { stream: 5, side });
        let link = table.get_mut(token).unwrap();
        [first, second].into_iter().for_each(|end| link.block(end));
        link.unblock(second);
        assert_eq!(table.take_unblocked(token), Ok(BTreeSet::from([first])));
        assert_eq!(table.take_unblocked(token), Ok(BTreeSet::new()));
    }

    #[test]
    fn a_link_that_the_other_relay_closes_is_closed_here() {
        let mut table = table();
        let (token, far) = link(&mut table);
        drop(far);
        await_that("the link is closed", || table.take_unblocked(token).is_err());
    }

    #[test]
    fn a_link_that_is_removed_sends_what_was_put_on_it_and_releases_its_memory() {
        let mut table = table();
        let (token, far) = link(&mut table);
        table.send(token, &NUMBERED);
        let removed = table.remove(token);
        assert_eq!(next_message(&far), NUMBERED);
        assert_eq!((removed.map(|link| link.run().to_owned()).as_deref(), table.budget.spent()), (Some("canal"), 0));
        assert!(!table.contains(token) && table.of_run("canal").is_empty());
    }
}
