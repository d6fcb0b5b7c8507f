//! Links to other relays: one path per run and neighbour, so that runs never meet, not even between relays. A link that is lost is
//! dialled again by the side that dialled it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use xmml_path::{Fingerprint, Identity, Lane, LinkFigures, Listener, Path, Settings, State, Streams};
use xmml_wire::buffer::Buffer;
use xmml_wire::handshake;
use xmml_wire::methods::relay::address::site_problem;
use xmml_wire::methods::relay::protocol::RELAY;
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::Interest;

use super::{Flow, Relay};
use crate::encryption::Encryption;
use crate::link_frame::{LinkMessage, StreamId, LONGEST};
use crate::log::Level;
use crate::registry::Token;
use crate::window::Budget;

/// How often links are measured and dials looked at.
const TICK: Duration = Duration::from_secs(1);

/// First and longest pause before a link is dialled again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How long a link may be without a single stream before it is given up, and with it the streams that it carries.
const PATIENCE: Duration = Duration::from_secs(20);

/// Relays that are remembered because another relay of their site has come.
const REPLACED_MAX: usize = 64;

/// Frames below so many bytes wait for the end of the turn of the loop that put them on a link.
const SMALL: usize = 16 << 10;

/// Bytes of a lane that a link may keep for the other relay in any case; one frame may go beyond.
const KEPT_FREELY: u64 = 1 << 20;

/// What a link takes out of the budget at once.
const RESERVED_AT_ONCE: u64 = 1 << 20;

/// The time there and back on a link of which nothing is known.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// A relay that is to be dialled.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkTarget {
    /// Where: `HOST:PORT`.
    pub to: String,
    /// TCP streams of the link; `None`: as many as pay.
    pub streams: Option<u32>,
    /// Whether it is encrypted; `None`: as this relay does it with all.
    pub encrypt: Option<bool>,
    /// What is known of the way there beforehand.
    pub figures: Option<LinkFigures>,
}

impl LinkTarget {
    /// A relay there, of which nothing else was said.
    pub fn at(to: &str) -> LinkTarget {
        LinkTarget { to: to.to_owned(), streams: None, encrypt: None, figures: None }
    }
}

/// A relay that is dialled for a run.
pub(super) struct Dial {
    pub(super) run: String,
    pub(super) target: LinkTarget,
    pub(super) link: Option<Token>,
    /// The address of its host is being looked up.
    is_looked_up: bool,
    again_at: Instant,
    pause: Duration,
    /// Why there was no link the last time; empty since there is one.
    pub(super) why: String,
}

impl Dial {
    /// Whether it waits for its time.
    fn waits(&self) -> bool {
        self.link.is_none() && !self.is_looked_up
    }

    /// It is tried again later, and later each time.
    fn put_off(&mut self, now: Instant) {
        self.again_at = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }
}

/// The link of a run to another relay.
pub(super) struct Link {
    pub(super) run: String,
    pub(super) path: Path,
    /// The relay that was dialled; `None`: it dialled this one.
    pub(super) dialled: Option<String>,
    /// The site of the other relay, once it has said so.
    pub(super) site: Option<String>,
    /// The number that the process of the other relay has drawn.
    life: u64,
    /// Streams that wait for the link to take more.
    pub(super) starved: BTreeSet<(u64, usize)>,
    /// The time there and back.
    measured: Option<Duration>,
    /// What it is taken for before.
    expected: Duration,
    /// The number of what was asked last.
    ping: u64,
    /// When it was asked, until the answer is there. Nothing is asked meanwhile, or a way that takes longer than a tick would never be
    /// measured.
    asked: Option<Instant>,
    open: bool,
    /// Something was put on it that waits for the end of the turn.
    is_loaded: bool,
    /// What it has of the budget for frames that the other relay may not have yet, by lane.
    reserved: [u64; 2],
    /// What the other relay has done that none may: the link is given up.
    pub(super) wrong: Option<String>,
}

impl Link {
    /// Puts a frame on the link. Small ones leave together at the end of the turn: each write wakes the other relay.
    ///
    /// # Errors
    /// The link has failed.
    pub(super) fn put(&mut self, lane: Lane, frame: impl Into<Buffer>) -> io::Result<()> {
        let frame = frame.into();
        if frame.len() < SMALL {
            self.is_loaded = true;
            return self.path.queue(lane, frame).map(drop).map_err(io::Error::other);
        }
        self.is_loaded = false;
        self.path.post(lane, frame).map(drop).map_err(io::Error::other)
    }

    /// Puts data of a stream on the link; `is_protected`: from one end of the stream to the other, so that it need not be encrypted again.
    ///
    /// # Errors
    /// The link has failed.
    pub(super) fn put_data(&mut self, lane: Lane, frame: Buffer, is_protected: bool) -> io::Result<()> {
        if !is_protected || frame.len() < SMALL {
            return self.put(lane, frame);
        }
        self.is_loaded = false;
        self.path.post_protected(lane, frame).map(drop).map_err(io::Error::other)
    }

    /// Whether it takes a frame more. What the other relay may not have yet is kept here, and comes out of the budget beyond
    /// [`KEPT_FREELY`].
    pub(super) fn has_room(&mut self, lane: Lane, budget: &mut Budget) -> bool {
        if !self.path.has_room(lane) {
            return false;
        }
        let (kept, reserved) = (self.path.kept(lane), &mut self.reserved[lane as usize]);
        if kept >= KEPT_FREELY + *reserved {
            *reserved += budget.take(&self.run, RESERVED_AT_ONCE);
        }
        kept < KEPT_FREELY + *reserved
    }

    /// Gives back what it does not need of the budget.
    fn release(&mut self, budget: &mut Budget) {
        for lane in Lane::ALL {
            let needed = self.path.kept(lane).saturating_sub(KEPT_FREELY).next_multiple_of(RESERVED_AT_ONCE);
            let spare = self.reserved[lane as usize].saturating_sub(needed);
            self.reserved[lane as usize] -= spare;
            budget.give_back(&self.run, spare);
        }
    }

    /// Has leave what was put on it.
    fn flush(&mut self) {
        if std::mem::take(&mut self.is_loaded) {
            self.path.send_queued();
        }
    }

    /// The time there and back; before it was measured what was said of the link, or a guess.
    pub(super) fn round_trip(&self) -> Duration {
        self.measured.unwrap_or(self.expected)
    }

    /// The time there and back, once it was measured.
    pub(super) fn measured(&self) -> Option<Duration> {
        self.measured
    }

    /// Whether streams can be opened by it.
    pub(super) fn is_up(&self) -> bool {
        self.open && self.site.is_some()
    }
}

/// A number that nobody else has chosen.
pub(super) fn random_number() -> io::Result<u64> {
    let nonce = handshake::fresh_nonce().map_err(io::Error::other)?;
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&nonce[..8]);
    Ok(u64::from_le_bytes(bytes))
}

fn settings(streams: Option<u32>, link: Option<LinkFigures>) -> Settings {
    Settings {
        streams: streams.map_or(Streams::Auto, Streams::Fixed),
        link,
        max_message: LONGEST as u64,
        connect: PATIENCE,
        patience: PATIENCE,
        ..Settings::default()
    }
}

impl Relay {
    /// Has every run be linked to these relays.
    pub fn link_to_all(&mut self, targets: Vec<LinkTarget>) {
        self.targets = targets;
        let runs: Vec<String> = self.runs.keys().cloned().collect();
        let targets = self.targets.clone();
        let (kept, gone): (Vec<Dial>, Vec<Dial>) =
            std::mem::take(&mut self.dials).into_iter().partition(|dial| targets.contains(&dial.target));
        self.dials = kept;
        for link in gone.into_iter().filter_map(|dial| dial.link) {
            self.lose_link(link, "it is not wanted any more");
        }
        runs.iter().for_each(|run| self.dial_for(run));
    }

    /// Where relays come in that know this run.
    pub(super) fn open_gate(&mut self, run: &str, key: &[u8]) -> io::Result<(Listener, Token)> {
        let me = Identity::new(key, run, RELAY);
        let listener = Listener::without_door(&me, settings(None, None)).map_err(io::Error::other)?;
        let token = self.token();
        self.epoll.add(listener.fd(), token, Interest::READ)?;
        self.gates.insert(token, run.to_owned());
        Ok((listener, token))
    }

    /// A relay has proved that it knows a run, and brings a stream of a path.
    pub(super) fn path_stream(&mut self, stream: Box<dyn Stream>, run: &str, site: &str) {
        self.epoll.remove(stream.fd());
        let Some(known) = self.runs.get(run) else { return };
        if let Err(error) = known.listener.admit(stream, site, &[]) {
            let facts = [("run", run), ("site", site), ("reason", &error.to_string())];
            self.log.once(site, Level::Warning, "a stream of a link was not taken", &facts);
        }
        self.gate_opened(run);
    }

    pub(super) fn gate_ready(&mut self, token: Token) {
        let Some(run) = self.gates.get(&token).cloned() else { return };
        if let Some(known) = self.runs.get(&run) {
            known.listener.drive();
        }
        self.gate_opened(&run);
    }

    fn gate_opened(&mut self, run: &str) {
        while let Some(path) = self.runs.get(run).and_then(|known| known.listener.take()) {
            // One that cannot be watched is dropped, and the other side told.
            let _ = self.add_link(run, path, None);
        }
    }

    /// Takes a path as a link of the run; `dial` is which of the dials has led to it, if it was not the other relay that came.
    fn add_link(&mut self, run: &str, path: Path, dial: Option<usize>) -> io::Result<Token> {
        let token = self.token();
        self.epoll.add(path.fd(), token, Interest::READ)?;
        let expected = path.settings().link.map_or(ROUND_TRIP, |figures| figures.round_trip);
        let link = Link {
            run: run.to_owned(),
            path,
            dialled: dial.map(|at| self.dials[at].target.to.clone()),
            site: None,
            life: 0,
            starved: BTreeSet::new(),
            measured: None,
            expected,
            ping: 0,
            asked: None,
            open: false,
            is_loaded: false,
            reserved: [0; 2],
            wrong: None,
        };
        self.links.insert(token, link);
        // From now on the link may be lost, which is noted with its dial.
        if let Some(at) = dial {
            self.dials[at].link = Some(token);
        }
        self.tell(token, &LinkMessage::Hello { site: self.site.clone(), life: self.life });
        self.next_tick.get_or_insert(Instant::now() + TICK);
        self.link_ready(token);
        Ok(token)
    }

    /// Dials every wanted relay for a run that is not dialled yet.
    pub(super) fn dial_for(&mut self, run: &str) {
        for target in self.targets.clone() {
            if !self.dials.iter().any(|dial| dial.run == run && dial.target == target) {
                let again_at = Instant::now();
                let (run, why) = (run.to_owned(), String::new());
                self.dials.push(Dial { run, target, link: None, is_looked_up: false, again_at, pause: PAUSES.0, why });
            }
        }
    }

    /// When something is to be done about links.
    pub(super) fn next_link_time(&self) -> Option<Instant> {
        let dials = self.dials.iter().filter(|dial| dial.waits()).map(|dial| dial.again_at);
        dials.chain(self.next_tick).min()
    }

    pub(super) fn tend_links(&mut self, now: Instant) {
        for at in 0..self.dials.len() {
            if self.dials[at].waits() && self.dials[at].again_at <= now {
                self.look_up(at, now);
            }
        }
        if self.next_tick.is_some_and(|tick| tick <= now) {
            let links: Vec<Token> = self.links.keys().copied().collect();
            links.iter().for_each(|link| self.measure(*link, now));
            let runs: Vec<String> = self.runs.keys().cloned().collect();
            runs.iter().for_each(|run| self.correct(run, now));
            self.next_tick = (!links.is_empty()).then(|| now + TICK);
        }
    }

    /// Dials as soon as the address is known: at once where it is one, else when the name server has answered.
    fn look_up(&mut self, at: usize, now: Instant) {
        let to = self.dials[at].target.to.clone();
        if let Ok(address) = to.parse::<SocketAddr>() {
            return self.dial(at, &[address], now);
        }
        match self.resolver.ask(&to) {
            Ok(()) => {
                self.dials[at].is_looked_up = true;
                self.dials[at].why = format!("the name server has not said yet where {to} is");
            }
            Err(error) => {
                self.dials[at].put_off(now);
                self.not_dialled(at, &error.to_string());
            }
        }
    }

    /// Addresses of other relays are known now, or why they are not.
    pub(super) fn names_found(&mut self) {
        let now = Instant::now();
        for (to, found) in self.resolver.answers() {
            for at in 0..self.dials.len() {
                let dial = &mut self.dials[at];
                if !dial.is_looked_up || dial.target.to != to {
                    continue;
                }
                dial.is_looked_up = false;
                dial.why.clear();
                match &found {
                    Ok(addresses) => self.dial(at, addresses, now),
                    Err(problem) => {
                        dial.put_off(now);
                        self.not_dialled(at, problem);
                    }
                }
            }
        }
    }

    fn dial(&mut self, at: usize, addresses: &[SocketAddr], now: Instant) {
        let Dial { run, target, .. } = &self.dials[at];
        let (run, target) = (run.clone(), target.clone());
        let Some(known) = self.runs.get(&run) else { return };
        let mut me = Identity::new(&known.key, &run, &self.site);
        if target.encrypt.unwrap_or(self.encryption.is_default) {
            me = me.encrypted(self.encryption.tls.clone());
        }
        let dialled = Path::dial_any(addresses, &me, RELAY, settings(target.streams, target.figures));
        // Before the link is driven, which may find it lost already.
        self.dials[at].put_off(now);
        if let Err(error) = dialled.map_err(io::Error::other).and_then(|path| self.add_link(&run, path, Some(at))) {
            self.not_dialled(at, &error.to_string());
        }
    }

    fn not_dialled(&mut self, at: usize, why: &str) {
        let dial = &mut self.dials[at];
        why.clone_into(&mut dial.why);
        let facts = [("run", dial.run.as_str()), ("to", &dial.target.to)];
        self.log.once_for(&dial.target.to, why, Level::Warning, "a link cannot be dialled", &facts);
    }

    fn measure(&mut self, token: Token, now: Instant) {
        let Some(link) = self.links.get_mut(&token).filter(|link| link.open && link.asked.is_none()) else { return };
        link.ping += 1;
        link.asked = Some(now);
        let number = link.ping;
        self.tell(token, &LinkMessage::Ping { number });
    }

    pub(super) fn ponged(&mut self, token: Token, number: u64) {
        let Some(link) = self.links.get_mut(&token).filter(|link| link.ping == number) else { return };
        let Some(asked) = link.asked.take() else { return };
        let now = asked.elapsed();
        let is_fresh = link.measured.is_none();
        // The least counts for half: queues come and go, the way stays.
        link.measured = Some(link.measured.map_or(now, |before| (before.min(now) + (before + now) / 2) / 2));
        let run = link.run.clone();
        let (site, dialled) = (link.site.clone().unwrap_or_default(), link.dialled.clone());
        // The other relay has not only come, it takes the link.
        if is_fresh {
            let way = dialled.map_or_else(|| "it dialled".to_owned(), |to| format!("dialled at {to}"));
            self.log.event(Level::Info, "linked", &[("run", &run), ("site", &site), ("how", &way)]);
        }
        if let Some(dial) = self.dials.iter_mut().find(|dial| dial.link == Some(token)) {
            dial.pause = PAUSES.0;
            dial.why.clear();
        }
        self.review_neighbours(&run);
    }

    /// The other relay says whose it is.
    pub(super) fn greeted(&mut self, token: Token, site: &str, life: u64) -> Result<(), String> {
        if let Some(problem) = site_problem(site) {
            return Err(problem);
        }
        if site == self.site {
            return Err(format!("it is a relay of {site} too; two relays of one site cannot be linked"));
        }
        let Some(link) = self.links.get(&token) else { return Ok(()) };
        let run = link.run.clone();
        self.replace_former(token, &run, site, life)?;
        let Some(link) = self.links.get_mut(&token) else { return Ok(()) };
        link.site = Some(site.to_owned());
        link.life = life;
        self.tell_everything(token, &run);
        self.measure(token, Instant::now());
        Ok(())
    }

    /// A relay that was started again does not resume what it had before: the links of its former life are given up, or the streams on
    /// them would wait until patience ends. Should the former relay be alive, it must not do the same in turn: it is linked again when the
    /// other one is gone.
    fn replace_former(&mut self, token: Token, run: &str, site: &str, life: u64) -> Result<(), String> {
        let is_former = |link: &Link| link.run == run && link.site.as_deref() == Some(site) && link.life != life;
        let former: Vec<(Token, u64, bool)> = self
            .links
            .iter()
            .filter(|(_, link)| is_former(link))
            .map(|(at, link)| (*at, link.life, link.open))
            .collect();
        let Some(known) = self.runs.get_mut(run) else { return Ok(()) };
        let is_replaced = known.replaced.iter().any(|(other, before)| other == site && *before == life);
        if is_replaced && former.iter().any(|(_, _, open)| *open) {
            let reason = format!("there are two relays of {site}, and the other one, which came later, is linked");
            self.tell(token, &LinkMessage::Refused { stream: 0, reason: reason.clone() });
            return Err(reason);
        }
        known.replaced.retain(|(other, before)| other != site || *before != life);
        for (_, former, _) in &former {
            known.replaced.push_front((site.to_owned(), *former));
        }
        known.replaced.truncate(REPLACED_MAX);
        let came = format!("another relay of {site} has come");
        for (at, _, open) in former {
            match open {
                true => {
                    self.tell(at, &LinkMessage::Refused { stream: 0, reason: came.clone() });
                    self.lose_link(at, &came);
                }
                false => self.lose_link(at, "the other relay was started again"),
            }
        }
        Ok(())
    }

    /// Tells a relay all that is known of the others, for it may have missed any of it.
    fn tell_everything(&mut self, token: Token, run: &str) {
        let known: Vec<LinkMessage> = match self.runs.get(run) {
            Some(known) => known.topology.all().cloned().map(LinkMessage::Neighbours).collect(),
            None => Vec::new(),
        };
        known.iter().for_each(|told| self.tell(token, told));
    }

    /// Works out who the neighbours are now, and tells everybody if that is news.
    fn review_neighbours(&mut self, run: &str) {
        let mut neighbours: BTreeMap<String, u32> = BTreeMap::new();
        for link in self.links.values().filter(|link| link.run == run && link.is_up()) {
            let (Some(site), Some(measured)) = (&link.site, link.measured) else { continue };
            let micros = u32::try_from(measured.as_micros()).unwrap_or(u32::MAX);
            let least = neighbours.entry(site.clone()).or_insert(micros);
            *least = micros.min(*least);
        }
        let Some(known) = self.runs.get_mut(run) else { return };
        if known.topology.set_neighbours(neighbours) {
            let own = known.topology.own().clone();
            self.tell_all(run, &LinkMessage::Neighbours(own), None);
        }
    }

    /// The best link of a run to a neighbouring site.
    pub(super) fn link_to(&self, run: &str, site: &str) -> Option<Token> {
        let leads_there = |link: &Link| link.run == run && link.is_up() && link.site.as_deref() == Some(site);
        let links = self.links.iter().filter(|(_, link)| leads_there(link));
        links.min_by_key(|(token, link)| (link.round_trip(), **token)).map(|(token, _)| *token)
    }

    pub(super) fn link_ready(&mut self, token: Token) {
        let Some(link) = self.links.get_mut(&token) else { return };
        if let Some(wrong) = link.wrong.take() {
            return self.lose_link(token, &wrong);
        }
        let driven = link.path.drive();
        let open = matches!(link.path.state(), State::Open);
        let has_changed = link.open != open;
        link.open = open;
        if has_changed {
            // How long it was broken says nothing of the way.
            link.asked = None;
            let (run, is_back) = (link.run.clone(), open && link.site.is_some());
            self.review_neighbours(&run);
            if is_back {
                self.tell_everything(token, &run);
            }
        }
        if let Err(problem) = self.take_frames(token) {
            return self.lose_link(token, &problem);
        }
        if let Err(error) = driven {
            return self.lose_link(token, &error.to_string());
        }
        let Some(link) = self.links.get_mut(&token) else { return };
        if matches!(link.path.state(), State::Closed | State::Failed(_)) {
            return self.lose_link(token, "the other relay has ended it");
        }
        link.release(&mut self.window_budget);
        if Lane::ALL.into_iter().any(|lane| link.has_room(lane, &mut self.window_budget)) {
            for (pipe, side) in std::mem::take(&mut link.starved) {
                self.go_on(pipe, side);
            }
        }
    }

    /// A link is gone, and with it the streams that it carried.
    fn lose_link(&mut self, token: Token, reason: &str) {
        let Some(mut link) = self.links.remove(&token) else { return };
        link.flush();
        self.window_budget.give_back(&link.run, link.reserved.iter().sum());
        self.epoll.remove(link.path.fd());
        let streams: Vec<StreamId> =
            self.flows.keys().filter(|(other, _)| *other == token).map(|(_, stream)| *stream).collect();
        let site = link.site.clone().or(link.dialled.clone()).unwrap_or_else(|| "another relay".to_owned());
        for stream in &streams {
            self.reset(token, *stream, &format!("the link to {site} was lost"));
        }
        self.flows.retain(|(other, _), _: &mut Flow| *other != token);
        if let Some(dial) = self.dials.iter_mut().find(|dial| dial.link == Some(token)) {
            dial.link = None;
            dial.again_at = Instant::now() + dial.pause;
            reason.clone_into(&mut dial.why);
        }
        let facts = [("run", link.run.as_str()), ("to", &site)];
        // One that was never of use is told once: a relay that is refused comes again and again.
        match link.measured.is_some() {
            true => self.log.event(Level::Warning, "a link was lost", &[&facts[..], &[("reason", reason)]].concat()),
            // The first reason may be that the other relay was not there yet; another one says what is wrong.
            false => {
                self.log.once_for(&site, reason, Level::Warning, "no link yet; trying again and again", &facts);
            }
        }
        let run = link.run.clone();
        drop(link);
        self.review_neighbours(&run);
    }

    /// Has links be protected like this from now on. Those that stand are made anew; what they carry is carried again.
    pub fn encrypt(&mut self, encryption: Encryption) {
        if encryption == self.encryption {
            return;
        }
        self.encryption = encryption;
        let links: Vec<Token> = self.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.lose_link(link, "links are protected in another way now"));
    }

    /// Believes only relays that show one of these certificates from now on. Links that stand remain; who was refused is dialled at once.
    /// False: they were the ones that are believed already.
    pub fn trust(&mut self, trusted: &[Fingerprint]) -> bool {
        let now = Instant::now();
        self.dials.iter_mut().filter(|dial| dial.waits()).for_each(|dial| dial.again_at = now);
        self.encryption.trust(trusted)
    }

    /// The turn is over: what was put on links leaves.
    pub(super) fn flush_links(&mut self) {
        self.links.values_mut().for_each(Link::flush);
    }

    /// The run is over here.
    pub(super) fn drop_links_of(&mut self, run: &str) {
        self.dials.retain(|dial| dial.run != run);
        let links: Vec<Token> =
            self.links.iter().filter(|(_, link)| link.run == run).map(|(token, _)| *token).collect();
        links.into_iter().for_each(|link| self.lose_link(link, "the run is over here"));
    }
}
