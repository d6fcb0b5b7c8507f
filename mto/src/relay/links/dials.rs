//! The relays that this one dials: which, for which runs, and when again.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_path::LinkFigures;
use xmml_wire::resolver::{LookUp, Resolver};
use xmml_wire::wakeup::Interest;

use crate::log::{Level, Log};
use crate::registry::Token;
use crate::relay::poller::{Poller, NAMES};
use crate::status::NotLinked;

/// First and longest pause before a link is dialled again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A relay that is to be dialled.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkTarget {
    /// Where: `HOST:PORT`.
    pub to: String,
    /// TCP streams of the link; `None`: as many as pay.
    pub streams: Option<u32>,
    /// Whether it is encrypted; `None`: as this relay does it with all.
    pub encrypt: Option<bool>,
    /// What is known of the network link beforehand.
    pub figures: Option<LinkFigures>,
}

impl LinkTarget {
    /// A relay there, of which nothing else was said.
    pub fn at(to: &str) -> LinkTarget {
        LinkTarget { to: to.to_owned(), streams: None, encrypt: None, figures: None }
    }
}

/// A relay that is dialled for a run.
struct Dial {
    run: String,
    target: LinkTarget,
    /// The link that it has led to.
    link: Option<Token>,
    /// The address of its host is being looked up.
    is_looked_up: bool,
    again_at: Instant,
    pause: Duration,
    /// Why there was no link the last time; empty since there is one.
    why: String,
}

impl Dial {
    /// Returns whether it waits for its time.
    fn waits(&self) -> bool {
        self.link.is_none() && !self.is_looked_up
    }

    /// Tries it again later, and later each time.
    fn put_off(&mut self, now: Instant) {
        self.again_at = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    fn fail(&mut self, why: &str, log: &mut Log) {
        why.clone_into(&mut self.why);
        let facts = [("run", self.run.as_str()), ("to", &self.target.to)];
        log.once_for(&self.target.to, why, Level::Warning, "a link cannot be dialled", &facts);
    }
}

/// A link to be made now. It ends with [`Dials::linked`] or [`Dials::failed`], before anything else happens to the dials.
#[derive(Debug, PartialEq)]
pub struct Attempt {
    /// Which of the dials it is.
    at: usize,
    /// The run.
    pub run: String,
    /// The relay.
    pub target: LinkTarget,
    /// Its addresses.
    pub addresses: Vec<SocketAddr>,
}

/// The relays to be dialled, one dial for each of them and each run.
pub struct Dials {
    poller: Arc<Poller>,
    /// Relays that are dialled for every run.
    targets: Vec<LinkTarget>,
    dials: Vec<Dial>,
    resolver: Resolver,
}

impl Dials {
    /// Returns the dials of a relay that dials no other yet.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new(poller: &Arc<Poller>) -> io::Result<Dials> {
        let resolver = Resolver::new()?;
        poller.add(resolver.as_raw_fd(), NAMES, Interest::READ)?;
        Ok(Dials { poller: poller.clone(), targets: Vec::new(), dials: Vec::new(), resolver })
    }

    /// Looks up the addresses of other relays in this way from now on.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn look_up_with(&mut self, look_up: Arc<LookUp>) -> io::Result<()> {
        let resolver = Resolver::with(look_up)?;
        self.poller.remove(self.resolver.as_raw_fd());
        self.poller.add(resolver.as_raw_fd(), NAMES, Interest::READ)?;
        self.resolver = resolver;
        Ok(())
    }

    /// Dials these relays for every run from now on; returns the links to others, which are not wanted any more. Runs that there are
    /// already need [`Dials::add_run`] again.
    pub fn set_targets(&mut self, targets: Vec<LinkTarget>) -> Vec<Token> {
        self.targets = targets;
        let (wanted, unwanted): (Vec<Dial>, Vec<Dial>) =
            std::mem::take(&mut self.dials).into_iter().partition(|dial| self.targets.contains(&dial.target));
        self.dials = wanted;
        unwanted.into_iter().filter_map(|dial| dial.link).collect()
    }

    /// Dials every wanted relay for a run that is not dialled for it yet.
    pub fn add_run(&mut self, run: &str, now: Instant) {
        for target in &self.targets {
            if !self.dials.iter().any(|dial| dial.run == run && dial.target == *target) {
                self.dials.push(Dial {
                    run: run.to_owned(),
                    target: target.clone(),
                    link: None,
                    is_looked_up: false,
                    again_at: now,
                    pause: PAUSES.0,
                    why: String::new(),
                });
            }
        }
    }

    /// Dials no relay for a run any more.
    pub fn remove_run(&mut self, run: &str) {
        self.dials.retain(|dial| dial.run != run);
    }

    /// Dials those that wait again immediately.
    pub fn retry(&mut self, now: Instant) {
        self.dials.iter_mut().filter(|dial| dial.waits()).for_each(|dial| dial.again_at = now);
    }

    /// Returns when the next relay is to be dialled.
    pub fn next_time(&self) -> Option<Instant> {
        self.dials.iter().filter(|dial| dial.waits()).map(|dial| dial.again_at).min()
    }

    /// Returns the links that are to be made now. Where an address must be looked up first, it is, and [`Dials::found`] returns the link.
    pub fn due(&mut self, now: Instant, log: &mut Log) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        for (at, dial) in self.dials.iter_mut().enumerate() {
            if !dial.waits() || dial.again_at > now {
                continue;
            }
            if let Ok(address) = dial.target.to.parse::<SocketAddr>() {
                attempts.push(attempt(at, dial, vec![address], now));
                continue;
            }
            match self.resolver.ask(&dial.target.to) {
                Ok(()) => {
                    dial.is_looked_up = true;
                    dial.why = format!("the name server has not said yet where {} is", dial.target.to);
                }
                Err(error) => {
                    dial.put_off(now);
                    dial.fail(&error.to_string(), log);
                }
            }
        }
        attempts
    }

    /// Returns the links whose addresses have been found.
    pub fn found(&mut self, now: Instant, log: &mut Log) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        for (to, found) in self.resolver.answers() {
            let waiting = |(_, dial): &(usize, &mut Dial)| dial.is_looked_up && dial.target.to == to;
            for (at, dial) in self.dials.iter_mut().enumerate().filter(waiting) {
                dial.is_looked_up = false;
                dial.why.clear();
                match &found {
                    Ok(addresses) => attempts.push(attempt(at, dial, addresses.clone(), now)),
                    Err(problem) => {
                        dial.put_off(now);
                        dial.fail(problem, log);
                    }
                }
            }
        }
        attempts
    }

    /// Notes the link that an attempt has led to.
    pub fn linked(&mut self, attempt: &Attempt, link: Token) {
        self.dials[attempt.at].link = Some(link);
    }

    /// Notes that an attempt has failed, and why.
    pub fn failed(&mut self, attempt: &Attempt, why: &str, log: &mut Log) {
        self.dials[attempt.at].fail(why, log);
    }

    /// Notes that the relay at the other end of a link has taken it.
    pub fn taken(&mut self, link: Token) {
        if let Some(dial) = self.of_link(link) {
            dial.pause = PAUSES.0;
            dial.why.clear();
        }
    }

    /// Notes that a link was lost, and why: it is dialled again after a pause.
    pub fn lost(&mut self, link: Token, why: &str, now: Instant) {
        if let Some(dial) = self.of_link(link) {
            dial.link = None;
            dial.again_at = now + dial.pause;
            why.clone_into(&mut dial.why);
        }
    }

    fn of_link(&mut self, link: Token) -> Option<&mut Dial> {
        self.dials.iter_mut().find(|dial| dial.link == Some(link))
    }

    /// Returns why there is no link where one is wanted, as far as that is known: it is dialled again, or the attempt under way has failed
    /// so far, as `under_way` says of its link.
    pub fn missing(&self, under_way: impl Fn(Token) -> Option<String>) -> Vec<NotLinked> {
        let missing = self.dials.iter().map(|dial| NotLinked {
            run: dial.run.clone(),
            to: dial.target.to.clone(),
            reason: dial.link.and_then(&under_way).unwrap_or_else(|| dial.why.clone()),
        });
        missing.filter(|link| !link.reason.is_empty()).collect()
    }
}

fn attempt(at: usize, dial: &mut Dial, addresses: Vec<SocketAddr>, now: Instant) -> Attempt {
    // Before the link is driven, which may find it lost already.
    dial.put_off(now);
    Attempt { at, run: dial.run.clone(), target: dial.target.clone(), addresses }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::testing::{await_ready, memory_log};

    const LINK: Token = 77;

    struct Dialler {
        dials: Dials,
        log: Log,
        begin: Instant,
    }

    impl Dialler {
        /// A dialler of these relays for the run `canal`.
        fn of(targets: &[&str]) -> Dialler {
            let mut dials = Dials::new(&Poller::new().unwrap()).unwrap();
            let begin = Instant::now();
            dials.set_targets(targets.iter().map(|to| LinkTarget::at(to)).collect());
            dials.add_run("canal", begin);
            Dialler { dials, log: memory_log(), begin }
        }

        fn due(&mut self, after: Duration) -> Vec<Attempt> {
            self.dials.due(self.begin + after, &mut self.log)
        }

        fn reasons(&self) -> Vec<String> {
            self.dials.missing(|_| None).into_iter().map(|link| link.reason).collect()
        }
    }

    #[test]
    fn a_relay_with_an_address_is_dialled_immediately_and_again_after_growing_pauses() {
        let mut dialler = Dialler::of(&["127.0.0.1:9"]);
        let mut after = Duration::ZERO;
        for pause in [100, 200, 400, 800, 1600, 2000, 2000] {
            assert_eq!(dialler.due(after).len(), 1);
            let pause = Duration::from_millis(pause);
            assert!(dialler.due(after + pause / 2).is_empty());
            after += pause;
            assert_eq!(dialler.dials.next_time(), Some(dialler.begin + after));
        }
    }

    #[test]
    fn a_link_is_not_dialled_while_it_is_there_and_again_when_it_is_lost() {
        let mut dialler = Dialler::of(&["127.0.0.1:9"]);
        let attempt = dialler.due(Duration::ZERO).remove(0);
        dialler.dials.linked(&attempt, LINK);
        assert_eq!(dialler.dials.next_time(), None);
        dialler.dials.taken(LINK);
        dialler.dials.lost(LINK, "it broke", dialler.begin);
        assert_eq!(dialler.reasons(), ["it broke"]);
        assert!(dialler.due(Duration::ZERO).is_empty());
        assert_eq!(dialler.due(PAUSES.0).len(), 1);
    }

    #[test]
    fn a_failed_attempt_says_why() {
        let mut dialler = Dialler::of(&["127.0.0.1:9"]);
        let attempt = dialler.due(Duration::ZERO).remove(0);
        dialler.dials.failed(&attempt, "nobody is there", &mut dialler.log);
        assert_eq!(dialler.reasons(), ["nobody is there"]);
        assert!(dialler.log.written().contains("a link cannot be dialled"), "{}", dialler.log.written());
    }

    #[test]
    fn an_attempt_under_way_says_what_has_failed_so_far() {
        let mut dialler = Dialler::of(&["127.0.0.1:9"]);
        let attempt = dialler.due(Duration::ZERO).remove(0);
        dialler.dials.linked(&attempt, LINK);
        let missing = dialler.dials.missing(|link| (link == LINK).then(|| "refused so far".to_owned()));
        assert_eq!(missing[0].reason, "refused so far");
    }

    #[test]
    fn a_name_is_looked_up_before_it_is_dialled() {
        let mut dialler = Dialler::of(&["login.example:9"]);
        let found: SocketAddr = "127.0.0.1:9".parse().unwrap();
        dialler.dials.look_up_with(Arc::new(move |_: &str| Ok(vec![found]))).unwrap();
        assert!(dialler.due(Duration::ZERO).is_empty());
        assert!(dialler.reasons()[0].contains("login.example:9"));
        assert_eq!(dialler.dials.next_time(), None);
        await_ready(&dialler.dials.poller);
        let attempts = dialler.dials.found(dialler.begin, &mut dialler.log);
        assert_eq!(attempts[0].addresses, [found]);
        assert!(dialler.reasons().is_empty());
    }

    #[test]
    fn a_name_that_is_not_found_is_looked_up_again_later() {
        let mut dialler = Dialler::of(&["login.example:9"]);
        dialler.dials.look_up_with(Arc::new(|_: &str| Err("no such host".to_owned()))).unwrap();
        dialler.due(Duration::ZERO);
        await_ready(&dialler.dials.poller);
        assert!(dialler.dials.found(dialler.begin, &mut dialler.log).is_empty());
        assert_eq!(dialler.reasons(), ["no such host"]);
        assert_eq!(dialler.dials.next_time(), Some(dialler.begin + PAUSES.0));
    }

    #[test]
    fn every_run_is_dialled_for_itself_and_only_once() {
        let mut dialler = Dialler::of(&["127.0.0.1:9"]);
        dialler.dials.add_run("river", dialler.begin);
        dialler.dials.add_run("canal", dialler.begin);
        let runs: Vec<String> = dialler.due(Duration::ZERO).into_iter().map(|attempt| attempt.run).collect();
        assert_eq!(runs, ["canal", "river"]);
        dialler.dials.remove_run("canal");
        let runs: Vec<String> = dialler.due(PAUSES.0).into_iter().map(|attempt| attempt.run).collect();
        assert_eq!(runs, ["river"]);
    }

    #[test]
    fn a_target_that_is_not_wanted_any_more_gives_up_its_link() {
        let mut dialler = Dialler::of(&["127.0.0.1:9", "127.0.0.1:10"]);
        let attempt = dialler.due(Duration::ZERO).remove(0);
        dialler.dials.linked(&attempt, LINK);
        assert_eq!(dialler.dials.set_targets(vec![LinkTarget::at("127.0.0.1:10")]), [LINK]);
        assert_eq!(dialler.due(PAUSES.0).len(), 1);
    }

    #[test]
    fn those_that_wait_are_dialled_immediately_when_that_is_asked_for() {
        let mut dialler = Dialler::of(&["127.0.0.1:9"]);
        dialler.due(Duration::ZERO);
        assert!(dialler.due(Duration::ZERO).is_empty());
        dialler.dials.retry(dialler.begin);
        assert_eq!(dialler.due(Duration::ZERO).len(), 1);
    }
}
