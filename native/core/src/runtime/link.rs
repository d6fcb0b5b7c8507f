//! A sender's way to one receiving process: which methods were considered, which one is in use, and what to do when it is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::connection::authentication::Protection;
use xmml_wire::connection::Connection;
use xmml_wire::methods::TrafficClass;
use xmml_wire::methods::{self, name_of, tcp, Choice, Place, Refusal, Table};

use xmml_wire::liveness::backoff::{limit_from_environment, random_part, Backoff};
use xmml_wire::liveness::fruitless::Fruitless;

/// How long attempts to connect go on before the receiver counts as unreachable, unless `XMML_CONNECT_LIMIT_S` says otherwise.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How long an address may take to answer before the next one is tried beside it. Whichever leads to the receiver first is taken.
pub const PATIENCE: Duration = Duration::from_millis(750);

/// How long after a connection broke that cannot break by itself (so the peer has ended) the coordinator may take to say why.
pub const VERDICT_LIMIT: Duration = Duration::from_secs(10);

/// First and longest pause before a link that has gone over to a slower method tries whether the faster one leads there again.
const RETURNS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How long attempts to connect go on.
pub fn connect_limit() -> Duration {
    limit_from_environment("XMML_CONNECT_LIMIT_S", CONNECT_LIMIT)
}

/// Where a link stands.
#[derive(Clone, Debug)]
pub enum Status {
    /// No conduit uses it.
    Resting,
    /// The receiver has not joined yet, as far as is known here.
    Unknown,
    /// A connection is being made (or will be tried again at some time).
    Connecting,
    /// There is a connection.
    Up,
    /// The peer has ended without a word; the coordinator will say why.
    PeerEnded {
        /// Since when.
        since: Instant,
        /// What the connection said.
        reason: String,
    },
    /// No method leads there.
    Unreachable {
        /// Why each was refused.
        reason: String,
    },
    /// The peer has left.
    Over,
}

/// An address to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// By this method.
    pub method: &'static str,
    /// There.
    pub address: String,
    /// How many bytes the kernel may hold for it, where that was asked for.
    pub buffer: Option<u32>,
}

/// One receiving process, and the conduits to it that may use the same methods.
pub struct Link {
    /// Name of the receiver.
    pub peer: String,
    /// Methods allowed, in order of preference; empty: all.
    pub allowed: Vec<String>,
    /// What its conduits are for; those of another class have another link.
    pub class: Option<TrafficClass>,
    /// Whether it is protected; conduits that want something else have another link.
    pub protection: Protection,
    /// Indices of the sending ends that use it.
    pub conduits: Vec<usize>,
    /// Where it stands.
    pub status: Status,
    /// The connection in use.
    pub connection: Option<Arc<Connection>>,
    /// The method last used.
    pub chosen: Option<&'static str>,
    /// Methods considered before that and refused.
    pub refused: Vec<Refusal>,
    table: Option<Table>,
    candidates: VecDeque<Candidate>,
    /// The receiver has answered on this connection: it has accepted the sender's proof.
    admitted: bool,
    attempts: Backoff,
    /// Connections in a row that broke before a message had arrived.
    fruitless: Fruitless,
    /// No method is left by which something would arrive.
    is_given_up: bool,
    /// Nothing is dialled before then.
    pub not_before: Option<Instant>,
    /// Methods by which the receiver has answered so far.
    answered: Vec<&'static str>,
    /// Only these are tried: conduits would go over to it from a slower one.
    trial: Option<Vec<&'static str>>,
    /// The pause before the next attempt to go back, and since when a faster method has been in use again.
    pause: Duration,
    back_since: Option<Instant>,
}

impl Link {
    /// Not connected.
    pub fn new(peer: String, allowed: Vec<String>, class: Option<TrafficClass>, protection: Protection) -> Link {
        Link {
            peer,
            allowed,
            class,
            protection,
            conduits: Vec::new(),
            status: Status::Unknown,
            connection: None,
            chosen: None,
            refused: Vec::new(),
            table: None,
            candidates: VecDeque::new(),
            admitted: false,
            attempts: Backoff::new(connect_limit()),
            fruitless: Fruitless::new(connect_limit()),
            is_given_up: false,
            not_before: None,
            answered: Vec::new(),
            trial: None,
            pause: RETURNS.0,
            back_since: None,
        }
    }

    /// Faster methods than the one in use by which the receiver has answered before: the link has gone over from them.
    pub fn lost_methods(&self, here: &Place) -> Vec<&'static str> {
        let (Some(table), Some(chosen)) = (&self.table, self.chosen) else { return Vec::new() };
        let (found, _) = candidates(table, here, &self.allowed);
        let faster = found.iter().map(|candidate| candidate.method).take_while(|method| *method != chosen);
        faster.filter(|method| self.answered.contains(method)).collect()
    }

    /// When to try to go back; the pauses grow, also where going back does not last.
    pub fn next_return(&mut self, now: Instant) -> Instant {
        if self.back_since.take().is_some_and(|since| now.duration_since(since) >= RETURNS.1) {
            self.pause = RETURNS.0;
        }
        let pause = self.pause.mul_f64(1.0 - 0.5 * random_part());
        self.pause = (self.pause * 2).min(RETURNS.1);
        now + pause
    }

    /// It is to try these methods only, on behalf of the conduits of another link to the same receiver.
    pub fn try_for(&mut self, other: &Link, methods: Vec<&'static str>) {
        self.answered.clone_from(&other.answered);
        self.pause = other.pause;
        self.trial = Some(methods);
    }

    /// Whether it only finds out if a faster method works again: no conduit uses it yet.
    pub fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Conduits use it: from now on it may take any method again.
    pub fn taken_up(&mut self) {
        if self.trial.take().is_some() {
            self.back_since = Some(Instant::now());
        }
    }

    /// The receiver has joined and can be reached so. True: begin to connect.
    pub fn learn(&mut self, table: &Table, here: &Place) -> bool {
        self.table = Some(table.clone());
        if !matches!(self.status, Status::Unknown) {
            return false;
        }
        self.begin(here);
        true
    }

    /// How the receiver can be reached, once that is known.
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// A conduit wants to use it from now on. True: begin to connect.
    pub fn wake(&mut self, table: Option<&Table>, here: &Place) -> bool {
        if let Some(table) = table {
            self.table = Some(table.clone());
        }
        if !matches!(self.status, Status::Resting | Status::Unreachable { .. }) {
            return false;
        }
        self.status = Status::Unknown;
        self.attempts = Backoff::new(connect_limit());
        if self.table.is_some() {
            self.begin(here);
        }
        self.table.is_some()
    }

    /// No conduit uses it any more; returns the connection, which is not needed.
    pub fn rest(&mut self) -> Option<Arc<Connection>> {
        if !matches!(self.status, Status::Over | Status::PeerEnded { .. }) {
            self.status = Status::Resting;
        }
        self.candidates.clear();
        self.chosen = None;
        self.connection.take()
    }

    /// Whether its conduits may use this method at all.
    pub fn allows(&self, method: &str) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|choice| name_of(choice) == method)
    }

    /// Whether `connection` is the one in use.
    pub fn is_on(&self, connection: &Arc<Connection>) -> bool {
        self.connection.as_ref().is_some_and(|own| Arc::ptr_eq(own, connection))
    }

    /// Whether its peer has ended, as far as is known here, while conduits lead to it.
    pub fn has_lost_peer(&self) -> bool {
        matches!(self.status, Status::PeerEnded { .. }) && !self.conduits.is_empty()
    }

    /// Whether the receiver has ever answered.
    pub fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Whether the connection in use is protected.
    pub fn is_protected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_protected())
    }

    /// Whether messages may go out by it: the receiver has answered.
    pub fn is_admitted(&self) -> bool {
        self.connection.is_some() && self.admitted
    }

    fn begin(&mut self, here: &Place) {
        self.status = Status::Connecting;
        if let Some(table) = &self.table {
            (self.candidates, self.refused) = candidates(table, here, &self.allowed);
            if let Some(only) = &self.trial {
                self.candidates.retain(|candidate| only.contains(&candidate.method));
            }
        }
        self.attempts.begin(Instant::now());
    }

    /// Methods that were not tried, since a faster one was taken.
    pub fn untried(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for candidate in self.candidates.iter().filter(|candidate| Some(candidate.method) != self.chosen) {
            if !names.iter().any(|name| name == candidate.method) {
                names.push(candidate.method.to_owned());
            }
        }
        names
    }

    /// How long an address of this method may take to answer before the next one is tried beside it; `None`: all were tried. Where the
    /// receiver has only answered by another method so far, that is not made to wait.
    pub fn patience_with(&self, method: &str) -> Option<Duration> {
        let has_answered = |method: &str| self.answered.contains(&method);
        let is_better_known = |candidate: &Candidate| !has_answered(method) && has_answered(candidate.method);
        match self.candidates.iter().any(is_better_known) {
            true => Some(Duration::ZERO),
            false => (!self.candidates.is_empty()).then_some(PATIENCE),
        }
    }

    /// The next address to try; `None`: all were tried.
    pub fn next_candidate(&mut self) -> Option<Candidate> {
        self.candidates.pop_front()
    }

    /// An address could not be used.
    pub fn refuse(&mut self, method: &str, reason: String) {
        self.refused.retain(|refusal| refusal.method != method);
        self.refused.push(Refusal { method: method.to_owned(), reason });
    }

    /// All addresses were tried, and of these, `pending`, it is not known yet whether they lead there: when to try the others again beside
    /// them; `None`: there is no other, or there was time enough. (One that is silent may be so until its handshake has timed out; a relay
    /// that has refused may be back long before.)
    pub fn retry_beside(&mut self, pending: &[Candidate], here: &Place) -> Option<Instant> {
        if self.conduits.is_empty() || self.is_given_up {
            return None;
        }
        let refused = std::mem::take(&mut self.refused);
        self.begin(here);
        self.refused = refused;
        self.candidates.retain(|candidate| !pending.contains(candidate));
        let again = (!self.candidates.is_empty()).then(|| self.attempts.failed(Instant::now())).flatten();
        if again.is_none() {
            self.candidates.clear();
        }
        again
    }

    /// All addresses were tried in vain: when to try again; `None`: never, it is unreachable.
    pub fn exhausted(&mut self, here: &Place) -> Option<Instant> {
        if std::mem::take(&mut self.is_given_up) {
            self.status = Status::Unreachable { reason: self.why_unreachable(false) };
            return None;
        }
        let again = self.attempts.failed(Instant::now());
        let refused = std::mem::take(&mut self.refused);
        self.begin(here);
        let worth_trying = !self.candidates.is_empty();
        self.refused = refused;
        // While no conduit depends on it there is no need to insist.
        let gives_up = self.conduits.is_empty();
        if gives_up || !worth_trying || again.is_none() {
            self.status = Status::Unreachable { reason: self.why_unreachable(worth_trying) };
            return None;
        }
        again
    }

    /// A connection was made. Whether the receiver lets this side in shows with its first frame.
    pub fn connected(&mut self, connection: Arc<Connection>) {
        self.status = Status::Up;
        self.chosen = Some(connection.method);
        self.refused.retain(|refusal| refusal.method != connection.method);
        self.connection = Some(connection);
        self.admitted = false;
    }

    /// The receiver has answered.
    pub fn on_first_resume(&mut self) {
        self.admitted = true;
        if let Some(method) = self.chosen.filter(|method| !self.answered.contains(method)) {
            self.answered.push(method);
        }
        self.attempts.succeeded();
    }

    /// The connection was lost; so many messages of its conduits have arrived, and `waits` says whether more are to. True: begin to
    /// connect again.
    pub fn lost(&mut self, can_break: bool, reason: &str, (arrived, waits): (u64, bool), here: &Place) -> bool {
        let lost = self.connection.take();
        if matches!(self.status, Status::Over) {
            return false;
        }
        if !self.admitted {
            // Nothing has crossed: this method does not lead there, whatever its probe said.
            self.status = Status::Connecting;
            if let Some(connection) = lost {
                self.chosen = None;
                self.refuse(connection.method, format!("the receiver did not take it up: {reason}"));
            }
            true
        } else if can_break {
            self.begin(here);
            self.not_before = self.fruitless.lost(arrived, waits, Instant::now());
            if let (None, Some(method)) = (self.not_before, self.chosen) {
                let limit = connect_limit().as_secs_f64();
                let problem = format!("for {limit} s every connection broke before a message had arrived: {reason}");
                self.refuse(method, problem);
                self.candidates.retain(|candidate| candidate.method != method);
                self.fruitless = Fruitless::new(connect_limit());
                self.is_given_up = self.candidates.is_empty();
            }
            true
        } else {
            self.status = Status::PeerEnded { since: Instant::now(), reason: reason.to_owned() };
            false
        }
    }

    fn why_unreachable(&self, was_tried: bool) -> String {
        let reasons: Vec<String> =
            self.refused.iter().map(|refusal| format!("{} ({})", refusal.method, refusal.reason)).collect();
        let reasons = if reasons.is_empty() { "it offers no method at all".to_owned() } else { reasons.join("; ") };
        let tried = if was_tried { format!(" ({})", self.attempts.tried(Instant::now())) } else { String::new() };
        format!("{} cannot be reached{tried}: {reasons}", self.peer)
    }
}

/// What to try, in order, and what was refused before trying.
fn candidates(table: &Table, here: &Place, allowed: &[String]) -> (VecDeque<Candidate>, Vec<Refusal>) {
    let mut candidates = VecDeque::new();
    let mut refused = Vec::new();
    let mut refuse = |method: &str, reason: String| refused.push(Refusal { method: method.to_owned(), reason });
    let offered: Vec<&str> = table.entries.iter().map(|entry| entry.method.as_str()).collect();
    let wanted: Vec<&str> = if allowed.is_empty() {
        offered.clone()
    } else {
        for method in offered.iter().filter(|method| !allowed.iter().any(|choice| name_of(choice) == **method)) {
            refuse(method, format!("this conduit may only use {}", allowed.join(", ")));
        }
        allowed.iter().map(String::as_str).collect()
    };
    for choice in wanted {
        let (name, buffer) = (name_of(choice), Choice::read(choice).ok().and_then(|choice| choice.buffer));
        let Some(method) = methods::by_name(name) else {
            refuse(name, "this release of xmml does not know it".to_owned());
            continue;
        };
        let Some(entry) = table.entries.iter().find(|entry| entry.method == name) else {
            refuse(name, "the receiver does not offer it".to_owned());
            continue;
        };
        if let Err(reason) = method.probe(entry, &table.place, here) {
            refuse(name, reason);
            continue;
        }
        let addresses: Vec<&String> = match name {
            "tcp" => tcp::reachable(&entry.addresses, &table.place, here),
            _ => entry.addresses.iter().collect(),
        };
        candidates.extend(addresses.into_iter().map(|address| Candidate {
            method: method.name(),
            address: address.clone(),
            buffer,
        }));
    }
    (candidates, refused)
}

#[cfg(test)]
mod tests {
    use xmml_wire::methods::Descriptor;

    use super::*;

    #[test]
    fn the_pauses_before_going_back_grow_to_a_minute_and_begin_anew_once_it_has_lasted() {
        let mut link = Link::new("far".into(), vec![], None, Protection::BeyondHost);
        let now = Instant::now();
        for planned in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = link.next_return(now) - now;
            assert!(
                pause <= Duration::from_secs(planned) && pause.as_secs_f64() >= 0.499 * planned as f64,
                "{pause:?}"
            );
        }
        let mut again = Link::new("far".into(), vec![], None, Protection::BeyondHost);
        again.try_for(&link, vec!["tcp"]);
        again.taken_up();
        let soon = Instant::now();
        assert!(again.next_return(soon) - soon >= Duration::from_secs(29), "it did not last");
        again.try_for(&link, vec!["tcp"]);
        again.taken_up();
        let later = Instant::now() + 2 * RETURNS.1;
        assert!(again.next_return(later) - later <= RETURNS.0);
    }

    fn table(place: &Place) -> Table {
        let entry = |method: &str, address: &str| Descriptor { method: method.into(), addresses: vec![address.into()] };
        Table {
            place: place.clone(),
            entries: vec![entry("unix", "@x"), entry("tcp", "127.0.0.1:1"), entry("warp", "?")],
        }
    }

    fn order(candidates: &VecDeque<Candidate>) -> Vec<&str> {
        candidates.iter().map(|candidate| candidate.method).collect()
    }

    #[test]
    fn the_fastest_method_that_passes_its_probe_comes_first() {
        let here = Place::here();
        let (found, refused) = candidates(&table(&here), &here, &[]);
        assert_eq!(order(&found), ["unix", "tcp"]);
        assert!(refused.iter().any(|refusal| refusal.method == "warp" && refusal.reason.contains("does not know")));
    }

    #[test]
    fn the_model_may_reorder_and_remove_methods() {
        let here = Place::here();
        assert_eq!(order(&candidates(&table(&here), &here, &["tcp".into(), "unix".into()]).0), ["tcp", "unix"]);
        let (found, refused) = candidates(&table(&here), &here, &["tcp".into()]);
        assert_eq!(order(&found), ["tcp"]);
        assert!(refused.iter().any(|refusal| refusal.method == "unix" && refusal.reason.contains("may only use tcp")));
    }

    #[test]
    fn what_is_left_to_try_follows_from_where_the_two_are() {
        let here = Place::here();
        let entry = |method: &str, address: &str| Descriptor { method: method.into(), addresses: vec![address.into()] };
        let table = |place: &Place, tcp: &str| Table {
            place: place.clone(),
            entries: vec![entry("inproc", "?"), entry("shm", "@s"), entry("unix", "@u"), entry("tcp", tcp)],
        };
        let elsewhere = |place: Place| (place, "192.0.2.1:1");
        let user = Place { user: here.user + 1, ..here.clone() };
        let network = Place { network: "net:[1]".into(), ..here.clone() };
        let boot = Place { boot_id: "another".into(), ..here.clone() };
        for ((place, tcp), expected) in [
            ((here.clone(), "127.0.0.1:1"), vec!["shm", "unix", "tcp"]),
            ((user, "127.0.0.1:1"), vec!["tcp"]),
            ((network.clone(), "127.0.0.1:1"), vec![]),
            (elsewhere(network), vec!["tcp"]),
            ((boot.clone(), "127.0.0.1:1"), vec![]),
            (elsewhere(boot), vec!["tcp"]),
        ] {
            let (found, refused) = candidates(&table(&place, tcp), &here, &[]);
            assert_eq!(order(&found), expected, "{place:?}");
            assert_eq!(found.len() + refused.len(), 4, "each is tried or refused with a reason");
        }
    }

    /// A link with a conduit to a receiver in another network, with two addresses, both of which are tried.
    fn tried() -> (Link, [Candidate; 2], Place) {
        let here = Place::here();
        let place = Place { network: "net:[1]".into(), ..here.clone() };
        let addresses = ["192.0.2.1:1", "192.0.2.2:1"].map(str::to_owned).to_vec();
        let entries = vec![Descriptor { method: "tcp".into(), addresses }];
        let mut link = Link::new("far".into(), vec![], None, Protection::BeyondHost);
        link.conduits.push(0);
        link.learn(&Table { place, entries }, &here);
        let both = [link.next_candidate().unwrap(), link.next_candidate().unwrap()];
        (link, both, here)
    }

    #[test]
    fn an_address_that_has_refused_is_tried_again_while_another_has_not_answered() {
        let (mut link, [silent, refused], here) = tried();
        let again = link.retry_beside(std::slice::from_ref(&silent), &here).unwrap();
        let pause = again.saturating_duration_since(Instant::now());
        assert!(pause < Duration::from_secs(1), "long before the other one times out");
        assert_eq!(link.next_candidate(), Some(refused));
        assert_eq!(link.next_candidate(), None);
    }

    #[test]
    fn an_address_that_has_not_answered_yet_is_not_tried_beside_itself() {
        let (mut link, both, here) = tried();
        assert_eq!(link.retry_beside(&both, &here), None);
        assert_eq!(link.next_candidate(), None);
        assert!(matches!(link.status, Status::Connecting), "one of them may answer");
    }

    #[test]
    fn a_method_by_which_the_receiver_has_answered_does_not_wait_for_one_by_which_it_never_has() {
        let here = Place::here();
        let mut link = Link::new("near".into(), vec![], None, Protection::BeyondHost);
        link.learn(&table(&here), &here);
        let first = link.next_candidate().unwrap();
        for (answered, patience) in [(vec![], PATIENCE), (vec!["tcp"], Duration::ZERO), (vec!["unix", "tcp"], PATIENCE)]
        {
            link.answered = answered;
            assert_eq!(link.patience_with(first.method), Some(patience), "{:?}", link.answered);
        }
        let last = link.next_candidate().unwrap();
        assert_eq!(link.patience_with(last.method), None);
    }

    #[test]
    fn another_user_falls_back_to_tcp_and_learns_why() {
        let here = Place::here();
        let there = Place { user: here.user + 1, ..here.clone() };
        let (found, refused) = candidates(&table(&there), &here, &[]);
        assert_eq!(order(&found), ["tcp"]);
        assert!(refused.iter().any(|refusal| refusal.method == "unix" && refusal.reason.contains("user")));
    }

    #[test]
    fn a_receiver_that_no_method_reaches_is_unreachable_and_says_why() {
        let here = Place::here();
        let there = Place { boot_id: "elsewhere".into(), ..here.clone() };
        let mut link = Link::new("far".into(), vec![], None, Protection::BeyondHost);
        assert!(link.learn(&table(&there), &here));
        assert!(link.next_candidate().is_none());
        assert!(link.exhausted(&here).is_none());
        let Status::Unreachable { reason } = &link.status else { panic!("{:?}", link.status) };
        assert!(
            reason.contains("far") && reason.contains("different hosts") && reason.contains("loopback"),
            "{reason}"
        );
    }
}
