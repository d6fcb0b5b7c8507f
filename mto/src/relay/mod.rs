//! The relay at work: one thread, one epoll over its doors, those who have come, and the two ends of every stream.

mod clients;
mod doors;
mod far;
mod forwarding;
mod leases;
mod links;
mod owner;
mod reloading;
mod reporting;
mod scrapes;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_path::Listener;
use xmml_wire::handshake::{relay_key, MAX_NAME};
use xmml_wire::methods::relay::asking::Inbox;
use xmml_wire::methods::{self, TrafficKind};
use xmml_wire::resolver::{LookUp, Resolver};
use xmml_wire::wakeup::{Epoll, EventFd, Interest, Ready};

use crate::config::Ends;
use crate::encryption::Encryption;
use crate::link_frame::StreamId;
use crate::log::{Level, Log};
use crate::nonblocking_tcp::NonblockingTcp;
use crate::pending_connection::PendingConnection;
use crate::read_buffer::ReadBuffer;
use crate::registry::{Registry, Token};
use crate::routes::Topology;
use crate::signals::{Signal, Signals};
use crate::window::{self, Budget};

use forwarding::Pipe;
use links::{Dial, Link};

pub use far::PASSING_MAX;
pub use links::LinkTarget;
use owner::Owner;
use reloading::Lasting;
pub use reloading::ReadAgain;
use scrapes::Scrape;

/// Token of the flag that ends the relay.
const STOP: Token = 0;

/// Token of the signals.
const SIGNALS: Token = 1;

/// Token of the addresses of hosts that were looked up.
const NAMES: Token = 2;

/// A run of which the relay carries streams.
struct Run {
    /// Made from its secret.
    key: Vec<u8>,
    registry: Registry<Opener>,
    /// Where relays come in that know it.
    listener: Listener,
    gate: Token,
    topology: Topology,
    /// Others have heard something of this relay that it did not say.
    is_outdated: bool,
    /// When this was corrected last, and how often.
    corrected: Option<Instant>,
    corrections: u32,
    /// Relays whose link was given up for that of another relay of their site, by the numbers that they have drawn; the last ones.
    replaced: VecDeque<(String, u64)>,
    /// Streams between two other relays.
    passing: usize,
    /// Streams opened so far.
    opened: u64,
    /// Bytes of streams that are over.
    passed: u64,
    /// It is forgotten when nobody of it has been connected for so long.
    lease: Option<Duration>,
    /// Since when nobody of it is connected, as far as somebody has looked.
    idle_since: Option<Instant>,
    /// The configuration names it.
    is_configured: bool,
}

/// Who waits for a stream to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opener {
    /// A connection of this relay.
    Here(Token),
    /// Somebody at another relay ([`Connection::Incoming`]).
    Far(Token),
}

/// What whoever opened a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// That it is taken here, with this ticket.
    Taker(u64),
    /// That it is opened at another relay.
    Far { link: Token, stream: StreamId, traffic: TrafficKind },
}

/// What a stream of a link belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// It is open (or, between two links, on its way to be).
    Pipe { pipe: u64, side: usize },
    /// A process here waits for it to be opened.
    Opening(Token),
    /// It waits to be taken by a process here.
    Incoming(Token),
}

/// What a connection is for.
enum Connection {
    /// It has not asked yet.
    Pending(Box<PendingConnection>),
    /// Streams for a name are announced by it.
    Registered(Registered),
    /// It waits for its stream to be taken.
    Opening { wire: NonblockingTcp, run: String, awaited: Awaited },
    /// A stream that came by a link waits to be taken. (There is no connection of its own.)
    Incoming { run: String, ticket: u64, link: Token, stream: StreamId, traffic: TrafficKind },
    /// An end of a stream.
    End { pipe: u64, side: usize },
    /// The owner.
    Owner(Owner),
    /// Somebody who asks for figures.
    Scrape(Scrape),
}

struct Registered {
    wire: NonblockingTcp,
    run: String,
    name: String,
    inbox: Inbox,
    out: Vec<u8>,
    /// It counts as lost after so long without a word.
    silence: Duration,
    interest: Interest,
}

/// See the module.
pub struct Relay {
    site: String,
    log: Log,
    epoll: Epoll,
    stop: Arc<EventFd>,
    signals: Option<Signals>,
    /// Reads its configuration again, if it has one.
    read_again: Option<ReadAgain>,
    /// What it said when the relay began of that which stays as it is.
    lasting: Lasting,
    ends: Ends,
    has_had_runs: bool,
    /// An owner has said so, or the one that holds it is gone.
    is_to_end: bool,
    began: Instant,
    control: String,
    listen_at: Vec<String>,
    owner_door: Option<(Token, Box<dyn methods::Listener>)>,
    figures_door: Option<(Token, TcpListener)>,
    /// When it is looked which leases are over.
    next_lease_check: Option<Instant>,
    doors: HashMap<Token, TcpListener>,
    /// Doors that are closed for a moment, because the system gives no more descriptors.
    doors_rest_until: Option<Instant>,
    runs: BTreeMap<String, Run>,
    connections: HashMap<Token, Connection>,
    /// Arrivals, the oldest first.
    arrivals: BTreeSet<Token>,
    pipes: HashMap<u64, Pipe>,
    /// Of which run a door for relays is.
    gates: HashMap<Token, String>,
    links: HashMap<Token, Link>,
    /// Links that have brought more than was taken from them in this turn.
    unfinished: BTreeSet<Token>,
    flows: HashMap<(Token, StreamId), Flow>,
    /// Relays that are to be dialled for every run.
    targets: Vec<LinkTarget>,
    /// How links are protected.
    encryption: Encryption,
    dials: Vec<Dial>,
    resolver: Resolver,
    next_tick: Option<Instant>,
    /// Tells this process from the one that was the relay of the site before.
    life: u64,
    last_stream: StreamId,
    /// What streams together may hold beyond what each of them and each link has in any case.
    window_budget: Budget,
    deadlines: BTreeSet<(Instant, Token)>,
    deadline_of: HashMap<Token, Instant>,
    intake: ReadBuffer,
    next_token: Token,
    refused: u64,
}

impl Relay {
    /// A relay of a site, with no door and no run yet.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn new(site: &str, log: Log) -> io::Result<Relay> {
        let epoll = Epoll::new()?;
        let stop = Arc::new(EventFd::new()?);
        epoll.add(stop.as_raw_fd(), STOP, Interest::READ)?;
        let resolver = Resolver::new()?;
        epoll.add(resolver.as_raw_fd(), NAMES, Interest::READ)?;
        Ok(Relay {
            site: site.to_owned(),
            log,
            epoll,
            stop,
            signals: None,
            read_again: None,
            lasting: Lasting::default(),
            ends: Ends::Never,
            has_had_runs: false,
            is_to_end: false,
            began: Instant::now(),
            control: String::new(),
            listen_at: Vec::new(),
            owner_door: None,
            figures_door: None,
            next_lease_check: None,
            doors: HashMap::new(),
            doors_rest_until: None,
            runs: BTreeMap::new(),
            connections: HashMap::new(),
            arrivals: BTreeSet::new(),
            pipes: HashMap::new(),
            gates: HashMap::new(),
            links: HashMap::new(),
            unfinished: BTreeSet::new(),
            flows: HashMap::new(),
            targets: Vec::new(),
            encryption: Encryption::self_made(site).map_err(io::Error::other)?,
            dials: Vec::new(),
            resolver,
            next_tick: None,
            last_stream: links::random_number()?,
            life: links::random_number()?,
            window_budget: Budget::new(window::GROWTH),
            deadlines: BTreeSet::new(),
            deadline_of: HashMap::new(),
            intake: ReadBuffer::default(),
            next_token: NAMES + 1,
            refused: 0,
        })
    }

    /// Raised, it ends [`Relay::serve`].
    pub fn stop_flag(&self) -> Arc<EventFd> {
        self.stop.clone()
    }

    /// Looks up the addresses of other relays in this way.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn look_up_with(&mut self, look_up: Arc<LookUp>) -> io::Result<()> {
        let resolver = Resolver::with(look_up)?;
        self.epoll.remove(self.resolver.as_raw_fd());
        self.epoll.add(resolver.as_raw_fd(), NAMES, Interest::READ)?;
        self.resolver = resolver;
        Ok(())
    }

    /// From now on these signals end it and have it read its configuration.
    ///
    /// # Errors
    /// They cannot be watched.
    pub fn obey_signals(&mut self, signals: Signals) -> io::Result<()> {
        self.epoll.add(signals.as_raw_fd(), SIGNALS, Interest::READ)?;
        self.signals = Some(signals);
        Ok(())
    }

    /// Carries streams of this run from now on, until nobody of it has been connected for the time of its lease. False: it did already,
    /// with this secret (the lease is the new one).
    ///
    /// # Errors
    /// It does with another secret.
    pub fn add_run(&mut self, run: &str, secret: &[u8], lease: Option<Duration>) -> Result<bool, String> {
        let key = relay_key(secret);
        self.check_run(run, &key)?;
        if let Some(known) = self.runs.get_mut(run) {
            known.lease = lease;
            self.begin_lease(lease);
            return Ok(false);
        }
        let (listener, gate) =
            self.open_gate(run, &key).map_err(|error| format!("the run cannot be added: {error}"))?;
        let fresh = Run {
            key,
            listener,
            gate,
            topology: Topology::new(&self.site),
            is_outdated: false,
            corrected: None,
            corrections: 0,
            replaced: VecDeque::new(),
            registry: Registry::default(),
            passing: 0,
            opened: 0,
            passed: 0,
            lease,
            idle_since: None,
            is_configured: false,
        };
        self.runs.insert(run.to_owned(), fresh);
        self.has_had_runs = true;
        self.begin_lease(lease);
        self.dial_for(run);
        self.log.event(Level::Info, "run added", &[("run", run)]);
        Ok(true)
    }

    /// Whether a run can be added, as far as can be said beforehand.
    fn check_run(&self, run: &str, key: &[u8]) -> Result<(), String> {
        if run.is_empty() || run.len() > MAX_NAME {
            return Err(format!("the name of a run has 1 to {MAX_NAME} bytes"));
        }
        match self.runs.get(run) {
            Some(known) if known.key != key => {
                Err(format!("the run \"{run}\" is known here with another secret; remove it first"))
            }
            _ => Ok(()),
        }
    }

    /// Ends everything of a run. False: there is none.
    pub fn remove_run(&mut self, run: &str) -> bool {
        let Some(removed) = self.runs.remove(run) else { return false };
        self.epoll.remove(removed.listener.fd());
        self.gates.remove(&removed.gate);
        let pipes: Vec<u64> = self.pipes.iter().filter(|(_, pipe)| pipe.run == run).map(|(id, _)| *id).collect();
        pipes.into_iter().for_each(|pipe| self.break_pipe(pipe, None));
        let is_its = |connection: &Connection| match connection {
            Connection::Registered(registered) => registered.run == run,
            Connection::Opening { run: other, .. } | Connection::Incoming { run: other, .. } => other == run,
            _ => false,
        };
        self.drop_links_of(run);
        let tokens: Vec<Token> = self.connections.iter().filter(|(_, c)| is_its(c)).map(|(token, _)| *token).collect();
        tokens.into_iter().for_each(|token| drop(self.remove(token)));
        self.log.event(Level::Info, "run removed", &[("run", run)]);
        true
    }

    /// Works until it is told to stop.
    ///
    /// # Errors
    /// Descriptors cannot be watched any more.
    pub fn serve(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        self.flush_links();
        while !self.turn(&mut ready)? {}
        Ok(())
    }

    /// Waits until something happens, and sees to it. True: it is to end.
    fn turn(&mut self, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let until = match self.unfinished.is_empty() {
            true => self.next_time(),
            false => Some(Instant::now()),
        };
        self.epoll.wait(ready, until)?;
        let unfinished = std::mem::take(&mut self.unfinished);
        for event in &*ready {
            if self.happened(*event) {
                return Ok(true);
            }
        }
        let is_served = |link: &Token| ready.iter().any(|event| event.token == *link);
        unfinished.into_iter().filter(|link| !is_served(link)).for_each(|link| self.link_ready(link));
        self.expire(Instant::now());
        self.flush_links();
        Ok(self.is_at_its_end())
    }

    /// When something is to be done, whatever happens before.
    fn next_time(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(when, _)| *when);
        let times = [deadline, self.doors_rest_until, self.next_lease_check, self.next_link_time()];
        times.into_iter().flatten().min()
    }

    /// True: it is to end.
    fn happened(&mut self, event: Ready) -> bool {
        match self.connections.get(&event.token) {
            None if event.token == STOP => return true,
            None if event.token == SIGNALS => return self.signalled(),
            None if event.token == NAMES => self.names_found(),
            None if self.links.contains_key(&event.token) => self.link_ready(event.token),
            None if self.gates.contains_key(&event.token) => self.gate_ready(event.token),
            None if self.doors.contains_key(&event.token) => self.accept(event.token),
            None if self.owner_door.as_ref().is_some_and(|(token, _)| *token == event.token) => self.accept_owner(),
            None if self.figures_door.as_ref().is_some_and(|(token, _)| *token == event.token) => self.accept_scrapes(),
            None => {}
            Some(Connection::Scrape(_)) => self.scrape_ready(event.token),
            Some(Connection::Owner(_)) => self.owner_ready(event),
            Some(Connection::Pending(_)) => self.arrival_ready(event.token),
            Some(Connection::Registered(_)) => self.registered_ready(event.token),
            Some(Connection::Opening { .. }) => self.opener_spoke(event.token),
            Some(Connection::Incoming { .. }) => {}
            Some(Connection::End { pipe, side }) => self.end_ready(*pipe, *side, event),
        }
        false
    }

    /// True: it is to end.
    fn signalled(&mut self) -> bool {
        while let Some(signal) = self.signals.as_ref().and_then(Signals::next) {
            match signal {
                Signal::Stop => return true,
                Signal::Reload => {
                    if let Err(problem) = self.reload() {
                        self.log.event(Level::Error, "the configuration was not taken over", &[("problem", &problem)]);
                    }
                }
            }
        }
        false
    }

    fn expire(&mut self, now: Instant) {
        if self.doors_rest_until.is_some_and(|until| until <= now) {
            self.reopen_doors();
        }
        self.check_leases(now);
        self.tend_links(now);
        while let Some((when, token)) = self.deadlines.first().copied().filter(|(when, _)| *when <= now) {
            self.deadlines.remove(&(when, token));
            self.deadline_of.remove(&token);
            match self.connections.get(&token) {
                Some(Connection::Pending(_)) => {
                    self.turn_away(token, "it did not prove who it is and ask for something in time");
                }
                Some(Connection::Registered(_)) => self.lose_registered(token, "it has fallen silent"),
                Some(Connection::Opening { .. } | Connection::Incoming { .. }) => self.not_taken(token),
                Some(Connection::Scrape(_)) => drop(self.remove(token)),
                Some(Connection::Owner(_)) => self.lose_owner(token),
                Some(Connection::End { .. }) | None => {}
            }
        }
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        self.next_token
    }

    /// Sets (or, with `None`, forgets) when something must have happened on a connection.
    fn set_deadline(&mut self, token: Token, when: Option<Instant>) {
        if let Some(before) = self.deadline_of.remove(&token) {
            self.deadlines.remove(&(before, token));
        }
        if let Some(when) = when {
            self.deadlines.insert((when, token));
            self.deadline_of.insert(token, when);
        }
    }

    /// Forgets a connection; it closes when what is returned is dropped.
    fn remove(&mut self, token: Token) -> Option<Connection> {
        self.set_deadline(token, None);
        self.arrivals.remove(&token);
        self.connections.remove(&token)
    }
}
