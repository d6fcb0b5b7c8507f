//! The relay at work: one thread, one poller. Each part of it owns what it needs; this file takes their turns, and passes on what happens in
//! one part and concerns another.
//!
//! | part | owns |
//! |---|---|
//! | `Control` | requests of the owner, signals, the flag that stops the relay |
//! | `Reload` | where the configuration is read from again, and what of it cannot change |
//! | `Listeners` | the sockets at which connections are accepted |
//! | `AdmissionQueue` | connections whose peers have proved nothing yet |
//! | `Scrapes` | requests for figures by HTTP |
//! | `DataPlane` | what is carried: `Runs`, `Links` and `Streams` |
//! | `Runs` | the keys and leases of runs |
//! | `Links` | links to other relays, what is dialled for them, and routes |
//! | `Streams` | registered names, and streams that are asked for or open |
//!
//! Streams use links, and nothing else uses another part.

mod admission;
mod control;
mod control_client;
mod data_plane;
mod deadlines;
mod links;
mod listeners;
mod poller;
mod reload;
mod runs;
mod scrapes;
mod streams;
#[cfg(test)]
mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_path::Fingerprint;
use xmml_wire::methods::relay::address::site_problem;
use xmml_wire::relay_key::RelayKey;
use xmml_wire::resolver::LookUp;
use xmml_wire::wakeup::{EventFd, Ready};

use crate::config::Config;
use crate::control_protocol::{self, Answer, Request};
use crate::encryption::Encryption;
use crate::log::{Level, Log};
use crate::metrics;
use crate::registry::Token;
use crate::signals::{Signal, Signals};
use crate::status::Status;

use admission::AdmissionQueue;
use control::Control;
use control_client::ControlClient;
use data_plane::DataPlane;
use listeners::{Accepted, Listeners};
use poller::{Poller, SIGNALS, STOP};
use reload::Reload;
use scrapes::Scrapes;

pub use links::LinkTarget;
pub use reload::ReadAgain;
pub use streams::PASSING_MAX;

/// Connections that are accepted in one go; the next ones wait until everybody else has had a turn.
const ACCEPTED_IN_A_ROW: usize = 64;

/// The relay of a site. [`Relay::serve`] has it work, as long as nothing stops it.
pub struct Relay {
    site: String,
    began: Instant,
    log: Log,
    poller: Arc<Poller>,
    control: Control,
    reload: Reload,
    listeners: Listeners,
    admission: AdmissionQueue,
    scrapes: Scrapes,
    data_plane: DataPlane,
}

/// How a relay is set up.
impl Relay {
    /// Returns the relay of a site, with no listener and no run yet.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn new(site: &str, log: Log) -> io::Result<Relay> {
        let poller = Poller::new()?;
        Ok(Relay {
            site: site.to_owned(),
            began: Instant::now(),
            log,
            control: Control::new(&poller)?,
            reload: Reload::default(),
            listeners: Listeners::new(&poller),
            admission: AdmissionQueue::new(&poller),
            scrapes: Scrapes::new(&poller),
            data_plane: DataPlane::new(site, &poller)?,
            poller,
        })
    }

    /// Does what a configuration says; `read_again` reads it again later, from wherever it came.
    ///
    /// # Errors
    /// What cannot be done, and why.
    pub fn set_up(&mut self, config: &Config, read_again: Option<ReadAgain>) -> Result<(), String> {
        self.reload = Reload::new(config, read_again);
        self.data_plane.set_ends(config.ends);
        self.limit_memory_of_streams(config.stream_memory_b);
        for address in &config.listen {
            self.listen(address).map_err(|error| format!("cannot listen at {address}: {error}"))?;
        }
        if let Some(address) = &config.metrics {
            let listening = self.listen_for_scrapers(address);
            listening.map_err(|error| format!("cannot tell figures at {address}: {error}"))?;
        }
        self.listen_for_owner_of(config)?;
        self.encrypt(config.encryption(None).map_err(|problem| problem.to_string())?);
        self.link_to_all(reload::targets(config));
        self.data_plane.take_over_runs(&config.runs, &mut self.log)
    }

    /// Listens at the control socket; where somebody else has taken its name, the relay goes on without one.
    fn listen_for_owner_of(&mut self, config: &Config) -> Result<(), String> {
        let control = config.control();
        let Err(error) = self.listen_for_owner(&control) else { return Ok(()) };
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(format!("cannot listen on {control}: {error}"));
        }
        let Some(who) = control_protocol::held_by_others(&control) else {
            return Err(format!(
                "a relay of {} is running already (its socket {control} is taken); end it with mto stop --site {}",
                config.site, config.site
            ));
        };
        let facts =
            [("socket", &*control), ("why", &*who), ("then", "mto status and the like do not reach this relay")];
        self.log.event(Level::Warning, "the control socket is taken by somebody else", &facts);
        Ok(())
    }

    /// Listens at `address` (`HOST:PORT`, port 0: any free one), at each that the host has; returns the first.
    ///
    /// # Errors
    /// It cannot be listened there.
    pub fn listen(&mut self, address: &str) -> io::Result<SocketAddr> {
        self.listen_at_all(&address.to_socket_addrs()?.collect::<Vec<_>>())
    }

    /// Listens at each of these addresses of a host that is one of this machine, at the same port; returns the first.
    ///
    /// # Errors
    /// None is one of this machine, or one is taken.
    pub fn listen_at_all(&mut self, addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
        self.listeners.listen(addresses)
    }

    /// Listens at this loopback address for programs that read figures; returns the address.
    ///
    /// # Errors
    /// It cannot be listened there.
    pub fn listen_for_scrapers(&mut self, address: &str) -> io::Result<SocketAddr> {
        self.listeners.listen_for_scrapers(address)
    }

    /// Listens for the owner at a control socket of this name.
    ///
    /// # Errors
    /// There is one with this name already.
    pub fn listen_for_owner(&mut self, name: &str) -> io::Result<()> {
        self.listeners.listen_for_owner(name)
    }

    /// Returns the flag that ends [`Relay::serve`] when it is raised.
    pub fn stop_flag(&self) -> Arc<EventFd> {
        self.control.stop_flag()
    }

    /// From now on these signals end it and have it read its configuration.
    ///
    /// # Errors
    /// They cannot be watched.
    pub fn obey_signals(&mut self, signals: Signals) -> io::Result<()> {
        self.control.obey_signals(signals)
    }

    /// Takes requests from the standard input, and answers on the standard output. If `holds`, the relay ends with the input.
    ///
    /// # Errors
    /// The input cannot be watched (it is a file, say).
    pub fn obey_standard_input(&mut self, holds: bool) -> io::Result<()> {
        self.control.add(ControlClient::at_standard_streams(holds)?)
    }

    /// Takes requests from a connection, answers on it, and ends with it.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn obey(&mut self, connection: UnixStream) -> io::Result<()> {
        self.control.add(ControlClient::holding(connection))
    }

    /// Looks up the addresses of other relays in this way.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn look_up_with(&mut self, look_up: Arc<LookUp>) -> io::Result<()> {
        self.data_plane.look_up_with(look_up)
    }

    /// Links every run to these relays.
    pub fn link_to_all(&mut self, targets: Vec<LinkTarget>) {
        self.data_plane.link_to_all(targets, &mut self.log);
    }

    /// Protects links like this from now on. Those that are up are made anew; what they carry is carried again.
    pub fn encrypt(&mut self, encryption: Encryption) {
        self.data_plane.encrypt(encryption, &mut self.log);
    }

    /// Trusts only relays that show one of these certificates from now on. Links that are up remain; relays that were refused are dialled
    /// immediately. Returns false if the same were trusted already.
    pub fn trust(&mut self, trusted: &[Fingerprint], relays: BTreeMap<String, Fingerprint>) -> bool {
        self.data_plane.trust(trusted, relays)
    }

    /// Takes links in clear from the relays of these sites only, from now on. Links that are up remain. Returns false if it was so already.
    pub fn take_clear_from(&mut self, sites: BTreeSet<String>) -> bool {
        self.data_plane.take_clear_from(sites)
    }

    /// Sets what streams together may hold beyond what each of them and each link has in any case, in bytes.
    pub fn limit_memory_of_streams(&mut self, bytes: u64) {
        self.data_plane.limit_memory_of_streams(bytes);
    }

    /// Carries streams of this run from now on, until nobody of it has been connected for the time of its lease. Returns false if it did
    /// already, with this key (the lease is the new one).
    ///
    /// # Errors
    /// It does with another key.
    pub fn add_run(&mut self, run: &str, key: &RelayKey, lease: Option<Duration>) -> Result<bool, String> {
        self.data_plane.add_run(run, key, lease, &mut self.log)
    }

    /// Ends everything of a run. Returns false if there is none.
    pub fn remove_run(&mut self, run: &str) -> bool {
        self.data_plane.remove_run(run, &mut self.log)
    }

    /// Opens the file of the log again, then reads the configuration again. Runs and links come and go, and the log changes; for the
    /// rest the relay must be started again.
    fn reload(&mut self) -> Result<(), String> {
        self.log.reopen();
        let Some(config) = self.reload.read(&self.site)? else {
            let why = "it was started by options only: there is no configuration to read again";
            self.log.event(Level::Info, "the file of the log was opened again, nothing else", &[("reason", why)]);
            return Ok(());
        };
        let log = Log::configured(&config.log)?;
        let encryption =
            config.encryption(Some(self.data_plane.encryption())).map_err(|problem| problem.to_string())?;
        self.data_plane.take_over_runs(&config.runs, &mut self.log)?;
        self.data_plane.set_ends(config.ends);
        self.limit_memory_of_streams(config.stream_memory_b);
        if !self.log.is_in_memory() {
            self.log.go_on_as(log);
        }
        self.encrypt(encryption);
        self.link_to_all(reload::targets(&config));
        self.log.event(Level::Info, "configuration taken over", &[]);
        Ok(())
    }

    /// Reloads the configuration, and logs what is wrong with it.
    fn reload_and_log(&mut self) -> Result<(), String> {
        self.reload().inspect_err(|problem| {
            self.log.event(Level::Error, "the configuration was not taken over", &[("problem", problem)]);
        })
    }

    /// Returns the state of the relay.
    pub fn status(&self) -> Status {
        Status {
            site: self.site.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            listen: self.listeners.addresses().to_vec(),
            control: self.listeners.control().to_owned(),
            metrics: self.listeners.metrics_address(),
            arrivals: self.admission.len() as u64,
            refused: self.admission.refused(),
            log_lines_lost: self.log.lines_lost(),
            ..self.data_plane.status()
        }
    }
}

/// How a relay works.
impl Relay {
    /// Works until a client, a signal or the flag stops it.
    ///
    /// # Errors
    /// Descriptors cannot be watched any more.
    pub fn serve(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        self.data_plane.flush();
        while self.turn(&mut ready)? {}
        Ok(())
    }

    /// Waits until something happens, and sees to it. Returns false if the relay is to stop.
    fn turn(&mut self, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let until = match self.data_plane.has_due_links() {
            true => Some(Instant::now()),
            false => self.next_time(),
        };
        self.poller.wait(ready, until)?;
        let due = self.data_plane.take_due_links();
        for event in &*ready {
            if !self.serve_ready(*event) {
                return Ok(false);
            }
        }
        let is_served = |link: &Token| ready.iter().any(|event| event.token == *link);
        due.into_iter()
            .filter(|link| !is_served(link))
            .for_each(|link| self.data_plane.serve_link(link, &mut self.log));
        self.expire(Instant::now());
        self.data_plane.flush();
        Ok(!self.control.is_to_stop() && !self.data_plane.is_last_run_removed())
    }

    /// Returns when something is to be done, whatever happens before.
    fn next_time(&self) -> Option<Instant> {
        let times = [
            self.listeners.next_time(),
            self.admission.next_time(),
            self.control.next_time(),
            self.scrapes.next_time(),
            self.data_plane.next_time(),
        ];
        times.into_iter().flatten().min()
    }

    /// Does what is due.
    fn expire(&mut self, now: Instant) {
        self.listeners.resume_if_due(now);
        self.data_plane.expire(now, &mut self.log);
        self.admission.expire(now, &mut self.log);
        self.scrapes.expire(now);
        self.control.expire(now);
    }

    /// Serves what is ready. Returns false if the relay is to stop at this place.
    fn serve_ready(&mut self, event: Ready) -> bool {
        match event.token {
            STOP => return false,
            SIGNALS => return self.serve_signals(),
            _ if self.data_plane.serve(event, &mut self.log) => {}
            token if self.admission.owns(token) => self.advance_admission(token),
            token if self.listeners.owns(token) => self.accept(token),
            token if self.control.owns(token) => self.serve_control(event),
            token if self.scrapes.owns(token) => self.serve_scrape(token),
            _ => {} // it was closed in this turn
        }
        true
    }

    /// Obeys the signals that have come. Returns false if one stops the relay.
    fn serve_signals(&mut self) -> bool {
        while let Some(signal) = self.control.next_signal() {
            match signal {
                Signal::Stop => return false,
                Signal::Reload => drop(self.reload_and_log()),
            }
        }
        true
    }

    /// Accepts the connections that wait at a listener.
    fn accept(&mut self, listener: Token) {
        for _ in 0..ACCEPTED_IN_A_ROW {
            match self.listeners.accept(listener) {
                Ok(Accepted::Peer(wire)) => {
                    let encryption = self.data_plane.encryption().clone();
                    if let Some(token) = self.admission.add(wire, encryption, Instant::now(), &mut self.log) {
                        self.advance_admission(token);
                    }
                }
                Ok(Accepted::Owner(stream)) => self.control.add_accepted(ControlClient::at_socket(stream)),
                Ok(Accepted::Scraper(wire)) => self.scrapes.add(wire, Instant::now()),
                Ok(Accepted::Closed) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    // The descriptor of a connection that has proved nothing does for the next.
                    _ if self.admission.make_room(Instant::now(), &mut self.log) => {}
                    _ => return self.listeners.pause(&error, Instant::now(), &mut self.log),
                },
            }
        }
    }

    /// Continues the handshake of a connection; a peer that is admitted gets what it asks for.
    fn advance_admission(&mut self, token: Token) {
        let admitted = self.admission.advance(token, |run| self.data_plane.key_of(run), &mut self.log);
        if let Some(admitted) = admitted {
            self.data_plane.admit(token, admitted, &mut self.log);
        }
    }

    /// Answers a request for figures once it is complete.
    fn serve_scrape(&mut self, token: Token) {
        if let Some(request) = self.scrapes.advance(token) {
            self.scrapes.answer(token, metrics::answer(&request, &self.status()));
        }
    }

    /// Serves a client of the owner: requests have arrived, or there is room for answers.
    fn serve_control(&mut self, event: Ready) {
        let served = self
            .answer_requests(event.token)
            .and_then(|()| self.control.receive(event))
            .and_then(|()| self.answer_requests(event.token))
            .and_then(|()| self.control.settle(event.token, Instant::now()));
        if !served.unwrap_or(false) {
            self.control.remove(event.token);
        }
    }

    fn answer_requests(&mut self, client: Token) -> io::Result<()> {
        while let Some(request) = self.control.next_request(client)? {
            let answer = request.and_then(|request| self.carry_out(request));
            self.control.answer(client, &answer.unwrap_or_else(Answer::problem));
        }
        Ok(())
    }

    /// Does what the owner asks for.
    ///
    /// # Errors
    /// It cannot be done; returns why.
    fn carry_out(&mut self, request: Request) -> Result<Answer, String> {
        match request {
            Request::AddRun { run, relay_key, lease_s } => {
                let lease = control::lease_of(lease_s)?;
                self.add_run(&run, &relay_key, lease).map(Answer::done)
            }
            Request::RemoveRun { run } => Ok(Answer::done(self.remove_run(&run))),
            Request::Trust { fingerprints, relays } => {
                let (of_any, of_each) = control::trusted_of(&fingerprints, &relays)?;
                Ok(Answer::done(self.trust(&of_any, of_each)))
            }
            Request::TakeClearFrom { sites } => {
                if let Some(problem) = sites.iter().find_map(|site| site_problem(site)) {
                    return Err(format!("sites: {problem}"));
                }
                Ok(Answer::done(self.take_clear_from(sites)))
            }
            Request::Status => Ok(Answer { status: Some(self.status()), ..Answer::done(false) }),
            Request::Reload => self.reload_and_log().map(|()| Answer::done(true)),
            Request::Stop => {
                self.control.stop();
                Ok(Answer::done(true))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use xmml_path::{Identity, Lane, Path, Settings};
    use xmml_wire::methods::relay::protocol::RELAY;

    use super::testing::memory_log;
    use super::*;
    use crate::waiting::await_that;

    #[test]
    fn a_link_that_sends_nonsense_is_lost() {
        let mut relay = Relay::new("b", memory_log()).unwrap();
        relay.encrypt(Encryption::self_made("b").unwrap().taking_clear_from(["x"]));
        let address = relay.listen("127.0.0.1:0").unwrap().to_string();
        relay.add_run("canal", &RelayKey::of(b"the secret"), None).unwrap();
        let me = Identity::new(RelayKey::of(b"the secret").as_bytes(), "canal", "x");
        let other = Path::dial(&address, &me, RELAY, Settings::default()).unwrap();
        other.attend().unwrap();
        await_that("there is a link", || {
            relay.turn(&mut Vec::new()).unwrap();
            !relay.data_plane.has_due_links() && !relay.status().links.is_empty()
        });
        other.post(Lane::Control, vec![9; 16]).unwrap();
        await_that("the link is lost", || {
            relay.turn(&mut Vec::new()).unwrap();
            relay.status().links.is_empty()
        });
        assert!(relay.log.written().contains("reserved bytes"), "{}", relay.log.written());
    }

    #[test]
    fn a_run_whose_lease_expires_is_removed_and_ends_a_relay_that_is_there_for_it() {
        let mut relay = Relay::new("b", memory_log()).unwrap();
        relay.data_plane.set_ends(crate::config::Ends::WithLastRun);
        relay.add_run("canal", &RelayKey::of(b"the secret"), Some(Duration::from_millis(20))).unwrap();
        let mut ready = Vec::new();
        await_that("the relay stops", || !relay.turn(&mut ready).unwrap());
        assert!(relay.log.written().contains("lease of a run is over"), "{}", relay.log.written());
    }

    #[test]
    fn a_relay_stops_when_its_flag_is_raised() {
        let mut relay = Relay::new("b", memory_log()).unwrap();
        relay.stop_flag().raise();
        relay.serve().unwrap();
    }
}
