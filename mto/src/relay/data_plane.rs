//! The data plane of a relay: the runs that it serves, their links to other relays, and the streams on these.
//!
//! Streams use links. What a link brings, or that it is lost, comes to the streams from here.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_path::Fingerprint;
use xmml_wire::buffer::Buffer;
use xmml_wire::relay_key::RelayKey;
use xmml_wire::resolver::LookUp;
use xmml_wire::wakeup::Ready;

use crate::config::{Ends, RunConfig};
use crate::encryption::Encryption;
use crate::link_frame::{self, LinkFrame, LinkMessage};
use crate::log::{Level, Log};
use crate::registry::Token;
use crate::status::{RunStatus, Status};

use super::admission::Admitted;
use super::links::{LinkTarget, Links, ReadBudget};
use super::poller::{Poller, NAMES};
use super::runs::Runs;
use super::streams::{Parties, Streams};

/// Runs, links and streams; nothing else of a relay carries anything.
pub struct DataPlane {
    runs: Runs,
    links: Links,
    streams: Streams,
}

impl DataPlane {
    /// Returns the data plane of the relay of a site, with no run yet.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn new(site: &str, poller: &Arc<Poller>) -> io::Result<DataPlane> {
        Ok(DataPlane { runs: Runs::default(), links: Links::new(site, poller)?, streams: Streams::new(site, poller)? })
    }

    /// Looks up the addresses of other relays in this way.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn look_up_with(&mut self, look_up: Arc<LookUp>) -> io::Result<()> {
        self.links.look_up_with(look_up)
    }

    /// Links every run to these relays.
    pub fn link_to_all(&mut self, targets: Vec<LinkTarget>, log: &mut Log) {
        for link in self.links.set_targets(targets, Instant::now()) {
            self.lose_link(link, "it is not wanted any more", log);
        }
    }

    /// Returns how links are protected.
    pub fn encryption(&self) -> &Encryption {
        self.links.encryption()
    }

    /// Protects links like this from now on. Those that are up are made anew; what they carry is carried again.
    pub fn encrypt(&mut self, encryption: Encryption, log: &mut Log) {
        for link in self.links.encrypt(encryption) {
            self.lose_link(link, "links are protected in another way now", log);
        }
    }

    /// Trusts only relays that show one of these certificates from now on. Returns false if the same were trusted already.
    pub fn trust(&mut self, trusted: &[Fingerprint], relays: BTreeMap<String, Fingerprint>) -> bool {
        self.links.trust(trusted, relays, Instant::now())
    }

    /// Takes links in clear from the relays of these sites only, from now on. Returns false if it was so already.
    pub fn take_clear_from(&mut self, sites: BTreeSet<String>) -> bool {
        self.links.take_clear_from(sites)
    }

    /// Sets what streams together may hold beyond what each of them and each link has in any case, in bytes.
    pub fn limit_memory_of_streams(&mut self, bytes: u64) {
        self.links.table.budget.set_total(bytes);
    }

    /// Sets when the relay stops by itself.
    pub fn set_ends(&mut self, ends: Ends) {
        self.runs.set_ends(ends);
    }

    /// Returns whether the relay was there for runs of which none is left.
    pub fn is_last_run_removed(&self) -> bool {
        self.runs.is_last_removed()
    }

    /// Returns the key of a run.
    pub fn key_of(&self, run: &str) -> Option<RelayKey> {
        self.runs.key_of(run)
    }

    /// Adds a run, or gives a known run another lease. Returns false if the run was known.
    ///
    /// # Errors
    /// It is known with another key.
    pub fn add_run(
        &mut self,
        run: &str,
        key: &RelayKey,
        lease: Option<Duration>,
        log: &mut Log,
    ) -> Result<bool, String> {
        let now = Instant::now();
        let is_new = self.runs.check(run, key)?;
        if is_new {
            let added = self.links.add_run(run, key, now);
            added.map_err(|error| format!("the run cannot be added: {error}"))?;
            self.streams.add_run(run);
            log.event(Level::Info, "run added", &[("run", run)]);
        }
        self.runs.add(run, key.clone(), lease, now);
        Ok(is_new)
    }

    /// Ends everything of a run. Returns false if there is none.
    pub fn remove_run(&mut self, run: &str, log: &mut Log) -> bool {
        if !self.runs.remove(run) {
            return false;
        }
        self.streams.abort_run(run, &mut self.links);
        for link in self.links.remove_run(run) {
            self.lose_link(link, "the run is over here", log);
        }
        self.streams.remove_run(run);
        log.event(Level::Info, "run removed", &[("run", run)]);
        true
    }

    /// Takes over the runs of a configuration as a whole, or none of them.
    ///
    /// # Errors
    /// One of them cannot be taken over; returns why.
    pub fn take_over_runs(&mut self, runs: &[RunConfig], log: &mut Log) -> Result<(), String> {
        // All is checked before the first change.
        let mut keys = Vec::new();
        for run in runs {
            let key = run.relay_key().map_err(|problem| problem.to_string())?;
            self.runs.check(&run.name, &key)?;
            keys.push((run, key));
        }
        let wanted: BTreeSet<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        let removed = self.runs.no_longer_configured(&wanted);
        // There may be no descriptor for one that is new: none has been removed then, those that were added are removed, and those that
        // stay, whose lease may be another one, have not had their turn.
        keys.sort_by_key(|(run, _)| self.runs.contains(&run.name));
        let mut added = Vec::new();
        for (run, key) in &keys {
            match self.add_run(&run.name, key, run.lease(), log) {
                Ok(true) => added.push(&run.name),
                Ok(false) => {}
                Err(problem) => {
                    for run in added {
                        self.remove_run(run, log);
                    }
                    return Err(problem);
                }
            }
        }
        wanted.into_iter().for_each(|run| self.runs.set_configured(run));
        for run in removed {
            self.remove_run(&run, log);
        }
        Ok(())
    }

    /// Returns its part of the state of the relay.
    pub fn status(&self) -> Status {
        let run_status = |run: &str| RunStatus { sites: self.links.sites_in_reach(run), ..self.streams.status(run) };
        let budget = &self.links.table.budget;
        Status {
            certificate: self.links.encryption().tls.fingerprint().to_string(),
            runs: self.runs.names().map(|run| (run.to_owned(), run_status(run))).collect(),
            links: self.links.table.statuses(),
            not_linked: self.links.missing(),
            stream_memory_bytes: budget.total(),
            stream_memory_used_bytes: budget.spent(),
            ..Status::default()
        }
    }

    /// Sends what is queued on links.
    pub fn flush(&mut self) {
        self.links.table.flush();
    }

    /// Returns whether links have brought more than was taken from them in their last turn.
    pub fn has_due_links(&self) -> bool {
        self.links.table.is_any_due()
    }

    /// Takes the links that have brought more than was taken from them in their last turn.
    pub fn take_due_links(&mut self) -> BTreeSet<Token> {
        self.links.table.take_due()
    }

    /// Returns when something is to be done, whatever happens before.
    pub fn next_time(&self) -> Option<Instant> {
        [self.runs.next_time(), self.links.next_time(), self.streams.next_time()].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn expire(&mut self, now: Instant, log: &mut Log) {
        for run in self.runs.expired(now, || self.streams.runs_in_use()) {
            log.event(Level::Info, "lease of a run is over", &[("run", &run)]);
            self.remove_run(&run, log);
        }
        self.links.tick(now, log);
        self.streams.expire(now, &mut self.links, log);
    }

    /// Gives a peer that was admitted what it requests.
    pub fn admit(&mut self, token: Token, admitted: Admitted, log: &mut Log) {
        match admitted {
            Admitted::Process { wire, run, name, request } => {
                self.streams.request(token, wire, (run, name), request, &mut self.links, log);
            }
            Admitted::Relay { stream, run, site } => self.links.admit(stream, &run, &site, log),
        }
    }

    /// Serves what is ready. Returns false if it is nothing of the data plane.
    pub fn serve(&mut self, event: Ready, log: &mut Log) -> bool {
        match event.token {
            NAMES => self.links.names_found(Instant::now(), log),
            token if self.links.table.contains(token) => self.serve_link(token, log),
            token if self.streams.owns(token) => self.streams.serve(event, &mut self.links, log),
            token if self.links.owns_listener(token) => self.links.serve_listener(token),
            _ => return false,
        }
        true
    }

    /// Serves a link that is ready, or that brought more in its last turn than was taken from it.
    pub fn serve_link(&mut self, link: Token, log: &mut Log) {
        if let Err(problem) = self.take_from_link(link, log) {
            self.lose_link(link, &problem, log);
        }
    }

    /// Takes in what a link brings, and goes on with the streams that wait for it.
    ///
    /// # Errors
    /// The link must be closed; returns why.
    fn take_from_link(&mut self, link: Token, log: &mut Log) -> Result<(), String> {
        if self.links.table.is_unread(link) {
            return Err("it does not take what it is told".to_owned());
        }
        let driven = self.links.drive(link);
        let mut budget = ReadBudget::default();
        while let Some(frame) = self.links.table.next_frame(link, &mut budget) {
            self.on_frame(link, frame, log)?;
        }
        driven?;
        for end in self.links.table.take_unblocked(link)? {
            self.streams.resume(end, &mut self.links, log);
        }
        Ok(())
    }

    /// Takes in a frame of another relay.
    ///
    /// # Errors
    /// No honest relay sends this, or the other one wants no link; returns why the link must be closed.
    fn on_frame(&mut self, link: Token, frame: Buffer, log: &mut Log) -> Result<(), String> {
        let links = &mut self.links;
        match link_frame::read(frame)? {
            LinkFrame::Data(stream, message) => self.streams.on_data(link, stream, message, links, log),
            LinkFrame::Finish(stream) => self.streams.on_finish(link, stream, links, log),
            LinkFrame::Message(message) => match message {
                LinkMessage::Hello { site, life } => self.on_hello(link, &site, life, log)?,
                LinkMessage::Neighbours(said) => links.on_announcement(link, said, Instant::now(), log),
                LinkMessage::Open { stream, route, name: to, from_site, from, traffic } => {
                    let parties = Parties { to, from_site, from, traffic };
                    self.streams.on_open(link, stream, &route, parties, links, log)?;
                }
                LinkMessage::Opened { stream } => self.streams.on_opened(link, stream, links, log),
                // No stream has this number: it is the link.
                LinkMessage::Refused { stream: 0, reason } => return Err(reason),
                LinkMessage::Refused { stream, reason } => self.streams.on_refused(link, stream, reason, links),
                LinkMessage::Credit { stream, bytes } => self.streams.on_credit(link, stream, bytes, links, log),
                LinkMessage::Reset { stream } => {
                    self.streams.on_reset(link, stream, "the other site gave the stream up", links);
                }
                LinkMessage::Ping { number } => links.table.send(link, &LinkMessage::Pong { number }),
                LinkMessage::Pong { number } => links.on_pong(link, number, Instant::now(), log),
            },
        }
        Ok(())
    }

    /// The relay at the other end of a link says whose it is.
    fn on_hello(&mut self, link: Token, site: &str, life: u64, log: &mut Log) -> Result<(), String> {
        for (former, reason) in self.links.on_hello(link, site, life)? {
            self.lose_link(former, &reason, log);
        }
        self.links.welcome(link, site, life, Instant::now());
        Ok(())
    }

    /// Closes a link, and resets the streams that it carried.
    fn lose_link(&mut self, link: Token, reason: &str, log: &mut Log) {
        let Some((run, name)) = self.links.remove(link, reason, log) else { return };
        self.streams.link_lost(link, &name, &mut self.links);
        self.links.review_neighbours(&run);
    }
}

#[cfg(test)]
mod tests {
    use xmml_path::{Lane, Path};

    use super::*;
    use crate::relay::links::tests::link;
    use crate::relay::links::{BYTES_MAX, FRAMES_MAX};
    use crate::relay::testing::memory_log;
    use crate::waiting::await_that;

    /// The data plane of a relay of site b with the run `canal`, a link of that, and the path of the relay at its other end.
    fn linked() -> (DataPlane, Token, Path) {
        let mut plane = DataPlane::new("b", &Poller::new().unwrap()).unwrap();
        plane.add_run("canal", &RelayKey::of(b"the secret"), None, &mut memory_log()).unwrap();
        let (link, far) = link(&mut plane.links.table);
        (plane, link, far)
    }

    fn waiting(plane: &DataPlane, link: Token) -> usize {
        plane.links.table.get(link).unwrap().path().stats().waiting.iter().sum()
    }

    #[test]
    fn a_link_that_brings_more_than_a_turn_takes_leaves_it_to_the_next_and_loses_nothing() {
        for (count, bytes) in [(3 * FRAMES_MAX, 1), (3 * BYTES_MAX / (64 << 10), 64 << 10)] {
            let (mut plane, link, other) = linked();
            // From now on somebody else fills it, as its threads do.
            plane.links.table.get(link).unwrap().path().attend().unwrap();
            for number in 0..count {
                let frame = link_frame::data(number as u64 + 1, &vec![1; bytes]);
                other.post(Lane::Bulk, frame).unwrap();
            }
            await_that(&format!("all {count} have arrived"), || waiting(&plane, link) == count);
            let mut turns = 0;
            while waiting(&plane, link) > 0 {
                let before = waiting(&plane, link);
                plane.serve_link(link, &mut memory_log());
                let taken = before - waiting(&plane, link);
                assert!(taken <= FRAMES_MAX && taken * bytes <= BYTES_MAX + bytes, "{taken} of {bytes} bytes at once");
                // The next turn comes by itself.
                assert!(plane.has_due_links() || waiting(&plane, link) == 0);
                turns += 1;
            }
            assert!(turns >= 3, "{turns}");
            for link in plane.take_due_links() {
                plane.serve_link(link, &mut memory_log());
            }
            assert!(!plane.has_due_links());
        }
    }

    #[test]
    fn a_run_that_is_removed_takes_its_links_along() {
        let (mut plane, link, _other) = linked();
        assert!(plane.remove_run("canal", &mut memory_log()));
        assert!(!plane.links.table.contains(link));
        assert!(!plane.remove_run("canal", &mut memory_log()));
        assert!(plane.status().runs.is_empty());
    }
}
