//! Processes of the site that can be reached under a name, and the streams that are offered to them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::frame::{encode_alive, Kind};
use xmml_wire::methods::relay::asking::{write_out, Inbox};
use xmml_wire::methods::relay::protocol::FromRelay;
use xmml_wire::methods::Stream;
use xmml_wire::wakeup::Interest;

use super::{frame, refuse, Parties};
use crate::log::{Level, Log};
use crate::nonblocking_tcp::NonblockingTcp;
use crate::registry::{Registry, Token};
use crate::relay::deadlines::Deadlines;
use crate::relay::poller::Poller;
use crate::status::RunStatus;

/// Whatever heartbeat time-out a process asks for, it is not shorter and not longer than these.
const TIME_OUT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// Bytes that may wait for a process that does not read what it is sent.
const UNREAD_MAX: usize = 256 << 10;

/// Heartbeats that are read in a row; then everybody else has a turn.
const HEARTBEATS_IN_A_ROW: usize = 16;

/// A process that has registered a name.
struct Registration {
    wire: NonblockingTcp,
    run: String,
    name: String,
    inbox: Inbox,
    out: Vec<u8>,
    /// It counts as lost after so long without a heartbeat.
    time_out: Duration,
    interest: Interest,
}

/// All registered processes of a site, and what is offered to them.
pub struct Registrations {
    poller: Arc<Poller>,
    site: String,
    /// The names of each run, and the streams that wait to be taken by the token of who has opened them.
    runs: BTreeMap<String, Registry<Token>>,
    processes: HashMap<Token, Registration>,
    deadlines: Deadlines,
}

impl Registrations {
    /// Returns the registrations at a site, none yet.
    pub fn new(site: &str, poller: &Arc<Poller>) -> Registrations {
        Registrations {
            poller: poller.clone(),
            site: site.to_owned(),
            runs: BTreeMap::new(),
            processes: HashMap::new(),
            deadlines: Deadlines::default(),
        }
    }

    /// Takes registrations of a run from now on.
    pub fn add_run(&mut self, run: &str) {
        self.runs.entry(run.to_owned()).or_default();
    }

    /// Closes the connections of all processes of a run.
    pub fn remove_run(&mut self, run: &str) {
        self.runs.remove(run);
        let of_run = self.processes.iter().filter(|(_, process)| process.run == run);
        let tokens: Vec<Token> = of_run.map(|(token, _)| *token).collect();
        tokens.into_iter().for_each(|token| drop(self.remove(token)));
    }

    /// Returns whether the token is that of a registered process.
    pub fn owns(&self, token: Token) -> bool {
        self.processes.contains_key(&token)
    }

    /// Registers a name of a run, which was given as that of a process of `site` with this heartbeat time-out; refuses it where that is not
    /// possible.
    pub fn register(
        &mut self,
        token: Token,
        wire: NonblockingTcp,
        (run, name, site): (String, String, &str),
        time_out: Duration,
        log: &mut Log,
    ) {
        if site != self.site {
            let reason = format!("it is the relay of {}, not of {site}; correct XMML_RELAY=HOST:PORT/SITE", self.site);
            let facts = [("run", run.as_str()), ("name", &name), ("site", site)];
            log.once(wire.source(), Level::Warning, "wrong site", &facts);
            return refuse(&wire, reason);
        }
        let Some(registry) = self.runs.get_mut(&run) else { return };
        match registry.register(&name, token) {
            Ok(before) => before.into_iter().for_each(|before| drop(self.remove(before))),
            Err(reason) => return refuse(&wire, reason),
        }
        log.event(Level::Info, "registered", &[("run", &run), ("name", &name), ("from", wire.source())]);
        let time_out = time_out.clamp(TIME_OUT.0, TIME_OUT.1);
        let (inbox, out, interest) = (Inbox::default(), frame(&FromRelay::Registered {}), Interest::READ);
        self.poller.change(wire.fd(), token, interest);
        self.processes.insert(token, Registration { wire, run, name, inbox, out, time_out, interest });
        self.deadlines.set(token, Instant::now() + time_out);
        self.write(token, log);
    }

    /// Reads the heartbeats of a process, and answers them.
    pub fn serve(&mut self, token: Token, log: &mut Log) {
        for _ in 0..HEARTBEATS_IN_A_ROW {
            let Some(process) = self.processes.get_mut(&token) else { return };
            match process.inbox.next(&process.wire) {
                Ok(Some((Kind::Alive, _))) => {
                    process.out.extend_from_slice(&encode_alive());
                    self.deadlines.set(token, Instant::now() + process.time_out);
                }
                Ok(Some(_)) => return self.withdraw(token, "it spoke where there was nothing to say", log),
                Ok(None) => break,
                Err(error) => return self.withdraw(token, &error.to_string(), log),
            }
        }
        self.write(token, log);
    }

    fn write(&mut self, token: Token, log: &mut Log) {
        let Some(process) = self.processes.get_mut(&token) else { return };
        match write_out(&mut process.out, &process.wire) {
            Ok(is_done) => {
                let wanted = Interest { write: !is_done, ..Interest::READ };
                if wanted != process.interest {
                    process.interest = wanted;
                    self.poller.change(process.wire.fd(), token, wanted);
                }
                if process.out.len() > UNREAD_MAX {
                    self.withdraw(token, "it does not read what it is told", log);
                }
            }
            Err(error) => self.withdraw(token, &error.to_string(), log),
        }
    }

    /// Closes the connections of processes whose heartbeats have timed out.
    pub fn expire(&mut self, now: Instant, log: &mut Log) {
        while let Some(token) = self.deadlines.take_expired(now) {
            self.withdraw(token, "it has fallen silent", log);
        }
    }

    /// Returns when the next heartbeat times out.
    pub fn next_time(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Closes the connection of a process, which cannot be reached any more.
    fn withdraw(&mut self, token: Token, reason: &str, log: &mut Log) {
        let Some(process) = self.remove(token) else { return };
        if let Some(registry) = self.runs.get_mut(&process.run) {
            registry.withdraw(&process.name, token);
        }
        let facts = [("run", process.run.as_str()), ("name", &process.name), ("reason", reason)];
        log.event(Level::Info, "no longer registered", &facts);
    }

    fn remove(&mut self, token: Token) -> Option<Registration> {
        self.deadlines.cancel(token);
        self.processes.remove(&token)
    }

    /// Offers a stream to a registered process; returns the ticket with which it can be taken. `opener` is the token of the request.
    ///
    /// # Errors
    /// It cannot be offered; returns why.
    pub fn offer(&mut self, run: &str, parties: &Parties, opener: Token, log: &mut Log) -> Result<u64, String> {
        let registry = self.runs.get_mut(run).ok_or_else(|| "the run has ended here".to_owned())?;
        let to = &parties.to;
        let token = registry.find(to).ok_or_else(|| format!("{to} is not registered at {}", self.site))?;
        let ticket = registry.open(to, opener)?;
        if let Some(process) = self.processes.get_mut(&token) {
            let (site, name) = (parties.from_site.clone(), parties.from.clone());
            process.out.extend_from_slice(&frame(&FromRelay::Incoming { ticket, site, name }));
        }
        self.write(token, log);
        Ok(ticket)
    }

    /// Takes a stream that was offered to this name; returns the token of the request.
    ///
    /// # Errors
    /// There is none with this ticket for this name (any more).
    pub fn take(&mut self, run: &str, name: &str, ticket: u64) -> Result<Token, String> {
        let registry = self.runs.get_mut(run).ok_or_else(|| "the run has ended here".to_owned())?;
        registry.take(name, ticket)
    }

    /// Offers a stream no longer; returns the name to which it was offered.
    pub fn cancel_offer(&mut self, run: &str, ticket: u64) -> Option<String> {
        self.runs.get_mut(run)?.give_up(ticket).map(|waiting| waiting.name)
    }

    /// Returns the runs of registered processes.
    pub fn runs_in_use(&self) -> impl Iterator<Item = &str> {
        self.processes.values().map(|process| process.run.as_str())
    }

    /// Adds the figures of a run to its state.
    pub fn report(&self, run: &str, status: &mut RunStatus) {
        if let Some(registry) = self.runs.get(run) {
            status.names = registry.names().map(str::to_owned).collect();
            status.waiting = registry.waiting() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

    use xmml_wire::methods::TrafficKind;

    use super::*;
    use crate::relay::testing::{await_ready, memory_log, next_answer, tcp};

    /// The registrations at site b, for the run `canal`.
    struct Site {
        registrations: Registrations,
        log: Log,
    }

    impl Site {
        fn new() -> Site {
            let mut registrations = Registrations::new("b", &Poller::new().unwrap());
            registrations.add_run("canal");
            Site { registrations, log: memory_log() }
        }

        /// Registers a name for a process of a site; returns its token, and the process's end.
        fn register(&mut self, name: &str, site: &str) -> (Token, TcpStream) {
            let (wire, peer) = tcp();
            let token = self.registrations.poller.watch(wire.fd()).unwrap();
            let who = ("canal".to_owned(), name.to_owned(), site);
            self.registrations.register(token, wire, who, Duration::from_secs(5), &mut self.log);
            (token, peer)
        }

        fn offer(&mut self, to: &str) -> Result<u64, String> {
            let parties =
                Parties { to: to.into(), from_site: "a".into(), from: "m".into(), traffic: TrafficKind::default() };
            self.registrations.offer("canal", &parties, 99, &mut self.log)
        }

        fn names(&self) -> Vec<String> {
            let mut status = RunStatus::default();
            self.registrations.report("canal", &mut status);
            status.names
        }
    }

    #[test]
    fn a_process_registers_a_name_and_is_offered_streams_to_it() {
        let mut site = Site::new();
        let (_, process) = site.register("sub", "b");
        assert_eq!(next_answer(&process), FromRelay::Registered {});
        let ticket = site.offer("sub").unwrap();
        assert_eq!(next_answer(&process), FromRelay::Incoming { ticket, site: "a".into(), name: "m".into() });
        assert_eq!(site.registrations.take("canal", "sub", ticket), Ok(99));
    }

    #[test]
    fn a_stream_to_a_name_that_is_not_registered_is_refused() {
        let mut site = Site::new();
        assert_eq!(site.offer("sub"), Err("sub is not registered at b".to_owned()));
    }

    #[test]
    fn a_process_of_another_site_is_refused() {
        let mut site = Site::new();
        let (token, process) = site.register("sub", "c");
        assert!(matches!(next_answer(&process), FromRelay::Refused { reason } if reason.contains("not of c")));
        assert!(!site.registrations.owns(token));
    }

    #[test]
    fn a_name_that_is_registered_again_belongs_to_the_newer_process() {
        let mut site = Site::new();
        let (first, _old) = site.register("sub", "b");
        let (second, _new) = site.register("sub", "b");
        assert!(!site.registrations.owns(first) && site.registrations.owns(second));
        assert_eq!(site.names(), ["sub"]);
    }

    #[test]
    fn a_process_whose_heartbeats_time_out_is_not_registered_any_more() {
        let mut site = Site::new();
        let (token, _process) = site.register("sub", "b");
        let due = site.registrations.next_time().unwrap();
        site.registrations.expire(due, &mut site.log);
        assert!(!site.registrations.owns(token) && site.names().is_empty());
        assert!(site.log.written().contains("it has fallen silent"), "{}", site.log.written());
    }

    #[test]
    fn a_heartbeat_is_answered_and_extends_the_time() {
        let mut site = Site::new();
        let (token, mut process) = site.register("sub", "b");
        next_answer(&process);
        let before = site.registrations.next_time().unwrap();
        process.write_all(&encode_alive()).unwrap();
        await_ready(&site.registrations.poller);
        site.registrations.serve(token, &mut site.log);
        assert!(site.registrations.next_time().unwrap() > before);
        let mut answer = vec![0; encode_alive().len()];
        process.read_exact(&mut answer).unwrap();
        assert_eq!(answer, encode_alive());
    }

    #[test]
    fn a_process_that_leaves_is_not_registered_any_more() {
        let mut site = Site::new();
        let (token, process) = site.register("sub", "b");
        process.shutdown(Shutdown::Both).unwrap();
        await_ready(&site.registrations.poller);
        site.registrations.serve(token, &mut site.log);
        assert!(!site.registrations.owns(token) && site.names().is_empty());
    }

    #[test]
    fn the_processes_of_a_run_leave_with_it() {
        let mut site = Site::new();
        let (token, _process) = site.register("sub", "b");
        assert_eq!(site.registrations.runs_in_use().collect::<Vec<_>>(), ["canal"]);
        site.registrations.remove_run("canal");
        assert!(!site.registrations.owns(token));
        assert_eq!(site.offer("sub"), Err("the run has ended here".to_owned()));
    }
}
