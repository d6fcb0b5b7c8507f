//! Links to other relays: one path per run and neighbour, so that runs never meet, not even between relays. A link that is lost is
//! dialled again by the side that dialled it.

mod dials;
mod former_relays;
mod link;
mod read_budget;
mod round_trip;
mod routing;
mod table;
#[cfg(test)]
pub mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_path::{Fingerprint, Identity, LinkFigures, Listener, Path, Settings, Streams};
use xmml_wire::handshake;
use xmml_wire::methods::relay::address::site_problem;
use xmml_wire::methods::relay::protocol::RELAY;
use xmml_wire::methods::Stream;
use xmml_wire::relay_key::RelayKey;
use xmml_wire::resolver::LookUp;

use super::poller::Poller;
use crate::encryption::Encryption;
use crate::link_frame::{LinkMessage, LONGEST};
use crate::log::{Level, Log};
use crate::registry::Token;
use crate::routes::{Announcement, AnnouncementEffect};
use crate::status::NotLinked;

use dials::{Attempt, Dials};
use former_relays::FormerRelays;
use round_trip::RoundTrip;
use routing::{Correction, Routing};

pub use dials::LinkTarget;
pub use link::{EndId, Link};
pub use read_budget::ReadBudget;
#[cfg(test)]
pub use read_budget::{BYTES_MAX, FRAMES_MAX};
pub use table::LinkTable;

/// How often links are measured.
const TICK: Duration = Duration::from_secs(1);

/// How long a link may be without a single stream before it is closed, and with it the streams that it carries.
const TIME_OUT: Duration = Duration::from_secs(20);

/// The round trip of a link of which nothing is known.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Announcements of a run that are kept although they are not believed.
const DOUBTED_MAX: usize = 16;

/// What links of a run need.
struct RunLinks {
    /// This relay, as it dials others.
    identity: Identity,
    /// Takes the paths of other relays that know the run.
    listener: Listener,
    token: Token,
    routing: Routing,
    former: FormerRelays,
    /// The last announcements that were not believed. A relay that was started again may be heard before its new certificate is told.
    doubted: VecDeque<Announcement>,
}

impl RunLinks {
    /// Keeps an announcement until other certificates are told; of each relay the last one.
    fn doubt(&mut self, announcement: Announcement) {
        self.doubted.retain(|doubted| doubted.site != announcement.site);
        self.doubted.truncate(DOUBTED_MAX - 1);
        self.doubted.push_front(announcement);
    }
}

/// All links of a relay, the relays that it dials, and the routes of its runs.
pub struct Links {
    poller: Arc<Poller>,
    site: String,
    /// Tells this process from the one that was the relay of the site before.
    life: u64,
    /// How links are protected.
    encryption: Encryption,
    /// The links that there are.
    pub table: LinkTable,
    dials: Dials,
    runs: BTreeMap<String, RunLinks>,
    /// Of which run a listener for relays is.
    listeners: HashMap<Token, String>,
    next_tick: Option<Instant>,
}

impl Links {
    /// Returns the links of a relay of this site, none yet.
    ///
    /// # Errors
    /// The system gives no descriptor, or no random bytes.
    pub fn new(site: &str, poller: &Arc<Poller>) -> io::Result<Links> {
        Ok(Links {
            poller: poller.clone(),
            site: site.to_owned(),
            life: random_number()?,
            encryption: Encryption::self_made(site).map_err(io::Error::other)?,
            table: LinkTable::new(poller),
            dials: Dials::new(poller)?,
            runs: BTreeMap::new(),
            listeners: HashMap::new(),
            next_tick: None,
        })
    }

    /// Looks up the addresses of other relays in this way from now on.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn look_up_with(&mut self, look_up: Arc<LookUp>) -> io::Result<()> {
        self.dials.look_up_with(look_up)
    }

    /// Returns how links are protected.
    pub fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    /// Protects links like this from now on. Returns the links that must be made anew for that.
    pub fn encrypt(&mut self, encryption: Encryption) -> Vec<Token> {
        if encryption == self.encryption {
            return Vec::new();
        }
        self.encryption = encryption;
        self.table.iter().map(|(token, _)| token).collect()
    }

    /// Trusts only relays that show one of these certificates from now on, and knows those of `relays` by their sites: nobody else may
    /// announce anything of such a site, or be linked as its relay. Links that are up remain; relays that were refused are dialled
    /// immediately. Returns false if the same were trusted already.
    pub fn trust(&mut self, trusted: &[Fingerprint], relays: BTreeMap<String, Fingerprint>, now: Instant) -> bool {
        self.dials.retry(now);
        let before = self.encryption.relays().clone();
        let is_new = self.encryption.trust(trusted, relays);
        let after = self.encryption.relays();
        // A relay that was started again has another certificate, and counts its announcements anew.
        let is_same =
            |site: &str| after.is_empty() || (after.contains_key(site) && after.get(site) == before.get(site));
        for (name, run) in &mut self.runs {
            run.routing.forget_all_but(is_same);
            for doubted in std::mem::take(&mut run.doubted) {
                let (text, signature) = (doubted.signed_text(name), doubted.signature.as_ref());
                let is_proven = self.encryption.check_signed(&doubted.site, &text, signature).is_ok();
                if is_proven && run.routing.on_announcement(doubted.clone()) == Ok(AnnouncementEffect::News) {
                    self.table.send_to_all(name, &LinkMessage::Neighbours(doubted), None);
                }
            }
        }
        is_new
    }

    /// Takes links in clear from the relays of these sites only, from now on. Links that are up remain. Returns false if it was so already.
    pub fn take_clear_from(&mut self, sites: BTreeSet<String>) -> bool {
        self.encryption.take_clear_from(sites)
    }

    /// Links every run to these relays from now on. Returns the links to others, which are to be closed.
    pub fn set_targets(&mut self, targets: Vec<LinkTarget>, now: Instant) -> Vec<Token> {
        let unwanted = self.dials.set_targets(targets);
        self.runs.keys().for_each(|run| self.dials.add_run(run, now));
        unwanted
    }

    /// Links a run to other relays: dials those that are wanted, and takes the links of those that know its key.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn add_run(&mut self, run: &str, key: &RelayKey, now: Instant) -> io::Result<()> {
        let me = Identity::new(key.as_bytes(), run, RELAY);
        let listener = Listener::without_door(&me, settings(None, None)).map_err(io::Error::other)?;
        let token = self.poller.watch(listener.fd())?;
        self.listeners.insert(token, run.to_owned());
        let identity = Identity::new(key.as_bytes(), run, &self.site);
        let (routing, former, doubted) = (Routing::new(&self.site), FormerRelays::default(), VecDeque::new());
        self.runs.insert(run.to_owned(), RunLinks { identity, listener, token, routing, former, doubted });
        self.dials.add_run(run, now);
        Ok(())
    }

    /// Links a run no more. Returns its links, which are to be closed.
    pub fn remove_run(&mut self, run: &str) -> Vec<Token> {
        if let Some(removed) = self.runs.remove(run) {
            self.poller.remove(removed.listener.fd());
            self.listeners.remove(&removed.token);
        }
        self.dials.remove_run(run);
        self.table.of_run(run)
    }

    /// Returns whether the token is that of a listener for relays.
    pub fn owns_listener(&self, token: Token) -> bool {
        self.listeners.contains_key(&token)
    }

    /// Takes a connection of a relay that has proved that it knows a run: a stream of a path.
    pub fn admit(&mut self, stream: Box<dyn Stream>, run: &str, site: &str, log: &mut Log) {
        let Some(known) = self.runs.get(run) else { return };
        if let Err(error) = known.listener.admit(stream, site, &[]) {
            let facts = [("run", run), ("site", site), ("reason", &error.to_string())];
            log.once(site, Level::Warning, "a stream of a link was not taken", &facts);
        }
        self.accept(run);
    }

    /// Takes the paths that have become complete at a listener.
    pub fn serve_listener(&mut self, token: Token) {
        let Some(run) = self.listeners.get(&token).cloned() else { return };
        if let Some(known) = self.runs.get(&run) {
            known.listener.drive();
        }
        self.accept(&run);
    }

    fn accept(&mut self, run: &str) {
        while let Some(path) = self.runs.get(run).and_then(|known| known.listener.take()) {
            // One that cannot be watched is dropped, by which the other side is notified.
            let _ = self.add(run, path, None);
        }
    }

    fn add(&mut self, run: &str, path: Path, dialled: Option<String>) -> io::Result<Token> {
        let expected = path.settings().link.map_or(ROUND_TRIP, |figures| figures.round_trip);
        let token = self.table.add(Link::new(run, path, dialled, RoundTrip::new(expected)))?;
        self.table.send(token, &LinkMessage::Hello { site: self.site.clone(), life: self.life });
        self.next_tick.get_or_insert(Instant::now() + TICK);
        Ok(token)
    }

    /// Removes a link that is lost; the streams that it carried must be reset. Returns its run, and what the other end is called.
    pub fn remove(&mut self, token: Token, reason: &str, log: &mut Log) -> Option<(String, String)> {
        let link = self.table.remove(token)?;
        self.dials.lost(token, reason, Instant::now());
        let facts = [("run", link.run()), ("to", link.name())];
        match link.round_trip.measured().is_some() {
            true => log.event(Level::Warning, "a link was lost", &[&facts[..], &[("reason", reason)]].concat()),
            // One that was never of use is logged once: a relay that is refused comes again and again. The first reason may be that the
            // other relay was not there yet; another one says what is wrong.
            false => log.once_for(link.name(), reason, Level::Warning, "no link yet; trying again and again", &facts),
        }
        Some((link.run().to_owned(), link.name().to_owned()))
    }

    /// Dials relays whose addresses have been found.
    pub fn names_found(&mut self, now: Instant, log: &mut Log) {
        let attempts = self.dials.found(now, log);
        attempts.into_iter().for_each(|attempt| self.dial(attempt, log));
    }

    /// Does what is due: dials relays, measures links, corrects what others have been sent about this relay.
    pub fn tick(&mut self, now: Instant, log: &mut Log) {
        let attempts = self.dials.due(now, log);
        attempts.into_iter().for_each(|attempt| self.dial(attempt, log));
        if self.next_tick.is_none_or(|tick| tick > now) {
            return;
        }
        let links: Vec<Token> = self.table.iter().map(|(token, _)| token).collect();
        links.iter().for_each(|link| self.table.ping(*link, now));
        let runs: Vec<String> = self.runs.keys().cloned().collect();
        runs.iter().for_each(|run| self.correct(run, now, log));
        self.next_tick = (!links.is_empty()).then(|| now + TICK);
    }

    /// Returns when something is due.
    pub fn next_time(&self) -> Option<Instant> {
        self.dials.next_time().into_iter().chain(self.next_tick).min()
    }

    fn dial(&mut self, attempt: Attempt, log: &mut Log) {
        let Some(known) = self.runs.get(&attempt.run) else { return };
        let target = &attempt.target;
        let mut me = known.identity.clone();
        if target.encrypt.unwrap_or(self.encryption.is_default) {
            me = me.encrypted(self.encryption.tls.clone());
        }
        let dialled = Path::dial_any(&attempt.addresses, &me, RELAY, settings(target.streams, target.figures));
        let to = target.to.clone();
        match dialled.map_err(io::Error::other).and_then(|path| self.add(&attempt.run, path, Some(to))) {
            Ok(link) => self.dials.linked(&attempt, link),
            Err(error) => self.dials.failed(&attempt, &error.to_string(), log),
        }
    }

    /// Drives the path of a link. Whether it opens or breaks decides who the neighbours are.
    ///
    /// # Errors
    /// The link has failed.
    pub fn drive(&mut self, token: Token) -> Result<(), String> {
        let Some(link) = self.table.get_mut(token) else { return Ok(()) };
        let (has_changed, driven) = link.drive();
        if has_changed {
            let (run, is_back) = (link.run().to_owned(), link.is_up());
            self.review_neighbours(&run);
            if is_back {
                self.send_everything(token, &run);
            }
        }
        driven.map_err(|error| error.to_string())
    }

    /// The relay at the other end of a link says whose it is. A relay that was started again does not resume what it had before: the links
    /// of its former life are closed, or the streams on them would wait until the time-out. Returns these, and why; then the other relay is
    /// to be [welcomed](Links::welcome).
    ///
    /// # Errors
    /// The link is to be closed; returns why.
    pub fn on_hello(&mut self, token: Token, site: &str, life: u64) -> Result<Vec<(Token, String)>, String> {
        if let Some(problem) = site_problem(site) {
            return Err(problem);
        }
        if site == self.site {
            return Err(format!("it is a relay of {site} too; two relays of one site cannot be linked"));
        }
        self.check_site(token, site)?;
        let run = self.run_of(token);
        let Some(known) = self.runs.get_mut(&run) else { return Ok(Vec::new()) };
        let is_former = |link: &Link| link.run() == run && link.site() == Some(site) && link.life() != life;
        let former: Vec<(Token, &Link)> = self.table.iter().filter(|(_, link)| is_former(link)).collect();
        let lives: Vec<(u64, bool)> = former.iter().map(|(_, link)| (link.life(), link.is_open())).collect();
        let former: Vec<(Token, bool)> = former.into_iter().map(|(token, link)| (token, link.is_open())).collect();
        if !known.former.admit(site, life, &lives) {
            let reason = format!("there are two relays of {site}, and the other one, which came later, is linked");
            self.table.send(token, &LinkMessage::Refused { stream: 0, reason: reason.clone() });
            return Err(reason);
        }
        let came = format!("another relay of {site} has come");
        let close = |(former, is_open): (Token, bool)| match is_open {
            true => {
                self.table.send(former, &LinkMessage::Refused { stream: 0, reason: came.clone() });
                (former, came.clone())
            }
            false => (former, "the other relay was started again".to_owned()),
        };
        Ok(former.into_iter().map(close).collect())
    }

    /// Checks that the relay at the other end of a link is that of a site, where it is known whose certificates are whose. Who dials in clear
    /// shows none: it may be of the sites that do so.
    fn check_site(&self, token: Token, site: &str) -> Result<(), String> {
        let Some(link) = self.table.get(token) else { return Ok(()) };
        let is_known = !self.encryption.relays().is_empty();
        match link.path().is_encrypted() {
            true => self.encryption.check_shown(site, &link.path().shown_certificates()),
            false if is_known && link.dialled().is_none() && !self.encryption.takes_clear_from(site) => {
                Err(format!("no link in clear is taken from {site}"))
            }
            false => Ok(()),
        }
    }

    /// Accepts the relay at the other end of a link as that of this site: sends it all that is known, and measures the link.
    pub fn welcome(&mut self, token: Token, site: &str, life: u64, now: Instant) {
        let Some(link) = self.table.get_mut(token) else { return };
        link.introduce(site, life);
        let run = link.run().to_owned();
        self.send_everything(token, &run);
        self.table.ping(token, now);
    }

    /// Takes in what a relay has announced of itself or of others.
    pub fn on_announcement(&mut self, token: Token, announcement: Announcement, now: Instant, log: &mut Log) {
        let run = self.run_of(token);
        let Some(known) = self.runs.get_mut(&run) else { return };
        if known.routing.topology().knows(&announcement) {
            return; // mostly, so that its signature is not worth a look
        }
        let (text, signature) = (announcement.signed_text(&run), announcement.signature.as_ref());
        if let Err(problem) = self.encryption.check_signed(&announcement.site, &text, signature) {
            let from = self.table.get(token).map(Link::name).unwrap_or_default();
            let facts = [("run", run.as_str()), ("from", from), ("problem", &problem)];
            log.once(&run, Level::Warning, "an announcement was not believed", &facts);
            known.doubt(announcement);
            return;
        }
        match known.routing.on_announcement(announcement.clone()) {
            Ok(AnnouncementEffect::Known) => {}
            Ok(AnnouncementEffect::News) => {
                self.table.send_to_all(&run, &LinkMessage::Neighbours(announcement), Some(token));
            }
            Ok(AnnouncementEffect::Outdated) => self.correct(&run, now, log),
            Err(problem) => {
                let facts = [("run", run.as_str()), ("problem", &problem)];
                log.once(&run, Level::Warning, "an impossible announcement", &facts);
            }
        }
    }

    /// Takes in the answer to a ping.
    pub fn on_pong(&mut self, token: Token, number: u64, now: Instant, log: &mut Log) {
        let Some(link) = self.table.get_mut(token) else { return };
        let Some(is_first) = link.round_trip.pong(number, now) else { return };
        let run = link.run().to_owned();
        // The other relay has not only come, it takes the link.
        if is_first {
            let how = link.dialled().map_or_else(|| "it dialled".to_owned(), |to| format!("dialled at {to}"));
            let site = link.site().unwrap_or_default();
            log.event(Level::Info, "linked", &[("run", &run), ("site", site), ("how", &how)]);
        }
        self.dials.taken(token);
        self.review_neighbours(&run);
    }

    fn correct(&mut self, run: &str, now: Instant, log: &mut Log) {
        let Some(known) = self.runs.get_mut(run) else { return };
        let Some(Correction { own, is_contradicted }) = known.routing.correction(now) else { return };
        if is_contradicted {
            let facts = [("run", run), ("site", &own.site)];
            log.once(run, Level::Warning, "another relay of this site seems to be alive", &facts);
        }
        let own = self.signed(run, own);
        self.table.send_to_all(run, &LinkMessage::Neighbours(own), None);
    }

    /// Works out who the neighbours are now, and sends that to all if it is news.
    pub fn review_neighbours(&mut self, run: &str) {
        let mut neighbours: BTreeMap<String, u32> = BTreeMap::new();
        for (_, link) in self.table.iter().filter(|(_, link)| link.run() == run && link.is_up()) {
            let (Some(site), Some(measured)) = (link.site(), link.round_trip.measured()) else { continue };
            let micros = u32::try_from(measured.as_micros()).unwrap_or(u32::MAX);
            let least = neighbours.entry(site.to_owned()).or_insert(micros);
            *least = micros.min(*least);
        }
        let Some(known) = self.runs.get_mut(run) else { return };
        if let Some(own) = known.routing.set_neighbours(neighbours) {
            let own = self.signed(run, own);
            self.table.send_to_all(run, &LinkMessage::Neighbours(own), None);
        }
    }

    /// Sends a relay all that is known of the others, for it may have missed any of it.
    fn send_everything(&mut self, token: Token, run: &str) {
        let Some(known) = self.runs.get(run) else { return };
        for announcement in known.routing.topology().all() {
            let announcement = match announcement.site == self.site {
                true => self.signed(run, announcement.clone()),
                false => announcement.clone(),
            };
            self.table.send(token, &LinkMessage::Neighbours(announcement));
        }
    }

    /// Signs what this relay announces of itself.
    fn signed(&self, run: &str, own: Announcement) -> Announcement {
        let signature = self.encryption.sign(&own.signed_text(run));
        Announcement { signature, ..own }
    }

    /// Returns the run of a link; empty if there is no such link.
    pub fn run_of(&self, token: Token) -> String {
        self.table.get(token).map(|link| link.run().to_owned()).unwrap_or_default()
    }

    /// Returns the route of a run to a site, and the link where it begins.
    ///
    /// # Errors
    /// There is none now; returns why.
    pub fn route(&self, run: &str, site: &str) -> Result<(Token, Vec<String>), String> {
        let topology = self.runs.get(run).ok_or("the run has ended here")?.routing.topology();
        let route = topology.route(site).ok_or_else(|| {
            let others = topology.distances().into_keys().filter(|other| *other != self.site);
            let known: Vec<String> = others.collect();
            let known = if known.is_empty() { "no other relay is linked now".to_owned() } else { known.join(", ") };
            format!("there is no way from {} to {site} now; in reach for this run: {known}", self.site)
        })?;
        Ok((self.link_to(run, &route[0])?, route))
    }

    /// Returns the best link of a run to a neighbouring site.
    ///
    /// # Errors
    /// There is none now; returns that.
    pub fn link_to(&self, run: &str, site: &str) -> Result<Token, String> {
        let link = self.table.best(run, site);
        link.ok_or_else(|| format!("the link from {} to {site} is down", self.site))
    }

    /// Returns the sites in reach for a run, this one included.
    pub fn sites_in_reach(&self, run: &str) -> Vec<String> {
        let known = self.runs.get(run);
        known.map(|known| known.routing.topology().distances().into_keys().collect()).unwrap_or_default()
    }

    /// Returns the relays that are dialled without success, and why.
    pub fn missing(&self) -> Vec<NotLinked> {
        self.dials.missing(|link| self.table.get(link)?.path().why_not_open())
    }
}

fn settings(streams: Option<u32>, link: Option<LinkFigures>) -> Settings {
    Settings {
        streams: streams.map_or(Streams::Auto, Streams::Fixed),
        link,
        max_message: LONGEST as u64,
        connect: TIME_OUT,
        patience: TIME_OUT,
        ..Settings::default()
    }
}

/// Returns a number that nobody else has chosen.
///
/// # Errors
/// The system gives no random bytes.
pub fn random_number() -> io::Result<u64> {
    let nonce = handshake::fresh_nonce().map_err(io::Error::other)?;
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&nonce[..8]);
    Ok(u64::from_le_bytes(bytes))
}
