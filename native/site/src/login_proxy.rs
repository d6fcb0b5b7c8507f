//! On the login node: between the launcher's connection and the files of the jobs.
//!
//! It serves all runs of a launcher at its site: where a job of another run is meant, its name is a path.
//!
//! Each line of its input is a [`Request`]; it ends when that does. Answers and reports are lines of JSON on its output. A run whose
//! folder cannot be written holds up no other one, nor does a name server that does not answer.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{json, Value};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use xmml_wire::resolver::Resolver;

use crate::agent::NEWS;
use crate::agent_handshake::{AgentHandshake, HandshakeProgress, SECRET};
use crate::lines::{append, complete_lines, shortened, Tail};
use crate::polling::{renew_lease, Pauses, Polling};
use crate::protocol::Text;
use crate::system::{host_name, poll, strerror, For};

const READ: usize = 256 * 1024;
/// Time without traffic on a connection to an agent, after which the kernel of its node is probed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(1);
/// Time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Probes without an answer after which the node is taken for dead.
const KEEPALIVE_PROBES: u32 = 4;
/// Limit of an attempt to connect to an agent.
const RECONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// An agent whose connection has ended, and which does not prove itself on another one for so long, is gone, whoever accepts at its port.
const PROOF_TIMEOUT: Duration = Duration::from_secs(20);
/// Connections in a row without a proof, after which no more are made to an agent that has never proved itself.
const MOST_UNPROVEN: u32 = 10;
/// Pause before the second of them; each is twice as long as the one before. (The first comes at once: mostly the agent has ended, and it
/// is refused.)
const UNPROVEN_PAUSE: Duration = Duration::from_millis(50);
/// Why an agent is known to be gone whose port somebody else has.
const IMPOSTOR: &str = "its agent has ended without a word, and something else answers at its port";
/// How long writing an order is tried again that its file does not take, before its job is lost.
const WRITES_WITHIN: Duration = Duration::from_secs(60);

/// What the launcher says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    /// From now on tell what is in the reports of these jobs from there on.
    #[serde(default)]
    listen: BTreeMap<String, u64>,
    /// Tell nothing of these jobs any more.
    #[serde(default)]
    forget: Vec<String>,
    /// The job that an order is for; answered by [`Answer::Taken`] when it is in the file, by [`Answer::Lost`] if the folder
    /// of that is gone, and with a reason if it could not be written for a minute.
    to: Option<String>,
    #[serde(borrow)]
    order: Option<&'a RawValue>,
    /// The launcher of these runs lives (without `runs`: of this one): its number; answered by [`Answer::Alive`].
    lease: Option<Value>,
    /// Silence for so many seconds ends what runs.
    s: Option<Value>,
    runs: Option<Vec<Text>>,
    /// From now on tell when the agent of a job, at a host and port, or its node, is gone.
    #[serde(default)]
    watch: BTreeMap<String, (String, u16)>,
}

#[derive(Deserialize)]
struct Numbered {
    n: u64,
}

/// What it says itself; the lease that a request had is told as it came. The launcher has the same words
/// (`gateway_protocol.py`).
#[derive(Serialize)]
#[serde(tag = "is", rename_all = "lowercase")]
enum Answer<'a> {
    /// It has begun.
    Talking { host: String },
    /// An order is in the file of its agent.
    Taken { agent: &'a str, order: u64 },
    /// The leases are renewed.
    Alive {
        lease: &'a Value,
        /// The runs whose leases could not be renewed, and why.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        unwritten: BTreeMap<Text, String>,
    },
    /// An agent has exited without a word, or its node does not answer.
    Gone { agent: &'a str, why: &'a str },
    /// An order could not be written; without a reason: the folder of the agent is gone.
    Lost {
        agent: &'a str,
        file: Text,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// An agent has reported something; the next report begins there.
    Told { agent: &'a str, next: u64, report: &'a RawValue },
}

/// Orders of a job that are not in its file yet, with their numbers.
#[derive(Default)]
struct Unwritten {
    orders: VecDeque<(u64, Vec<u8>)>,
    fails_since: Option<Instant>,
}

/// Carries lines between the launcher and the files of the jobs.
pub struct LoginProxy {
    run: PathBuf,
    pauses: Pauses,
    tails: BTreeMap<String, Tail>,
    monitors: BTreeMap<String, AgentMonitor>,
    unwritten: BTreeMap<String, Unwritten>,
    resolver: Resolver,
    /// Agents that are gone, why, and up to where the reports of each are read before that is told.
    gone: BTreeMap<String, (&'static str, u64)>,
    polling: Polling,
    incoming: Vec<u8>,
    input: File,
    output: BufWriter<File>,
}

impl LoginProxy {
    /// One for the jobs of a run.
    pub fn new(run: PathBuf, input: File, output: File, pauses: Pauses, resolver: Resolver) -> LoginProxy {
        LoginProxy {
            run,
            pauses,
            tails: BTreeMap::new(),
            monitors: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            resolver,
            gone: BTreeMap::new(),
            polling: Polling::new(pauses),
            incoming: Vec::new(),
            input,
            output: BufWriter::new(output),
        }
    }

    /// Carries lines until the input ends, or nobody reads the output.
    ///
    /// # Errors
    /// It was told something that it does not know; the text says what.
    pub fn run(mut self) -> Result<(), String> {
        match self.carry() {
            Err(Problem::NobodyListens) => Ok(()),
            Err(Problem::Told(problem)) => Err(problem),
            Ok(()) => Ok(()),
        }
    }

    fn carry(&mut self) -> Result<(), Problem> {
        self.say(&Answer::Talking { host: host_name() })?;
        let mut chunk = vec![0; READ];
        loop {
            if self.await_something()? {
                let count = self.input.read(&mut chunk).map_err(|error| Problem::Told(strerror(&error)))?;
                if count == 0 {
                    return Ok(());
                }
                self.incoming.extend_from_slice(&chunk[..count]);
                for line in complete_lines(&mut self.incoming) {
                    self.handle(&line)?;
                }
            }
            self.check_agents();
            let now = Instant::now();
            if self.polling.due_in(now).is_zero() {
                self.write_all_orders()?;
                let found = self.pass_on()?;
                self.polling.polled(now, found);
                self.polling.has_news |= !self.gone.is_empty();
            }
        }
    }

    /// Waits until the launcher or an agent says something, or files are to be polled; returns whether the launcher does.
    fn await_something(&mut self) -> Result<bool, Problem> {
        let now = Instant::now();
        let mut limit = self.polling.due_in(now);
        let mut watched = vec![For::Reading(self.input.as_raw_fd()), For::Reading(self.resolver.as_raw_fd())];
        for monitor in self.monitors.values() {
            match &monitor.state {
                State::Up(connection) => watched.push(For::Reading(connection.as_raw_fd())),
                State::Greeting(handshake) => watched.push(For::Reading(handshake.as_raw_fd())),
                State::Connecting(attempt) => watched.push(For::Writing(attempt.as_raw_fd())),
                State::LookedUp | State::Pausing => {}
                State::Failed(_) => limit = Duration::ZERO,
            }
            limit = limit.min(monitor.due_in(now));
        }
        let ready = poll(&watched, limit).map_err(|error| Problem::Told(strerror(&error)))?;
        if ready[1] {
            self.connect_to_found();
        }
        Ok(ready[0])
    }

    /// Connects to the agents whose addresses are known now.
    fn connect_to_found(&mut self) {
        for (host, found) in self.resolver.answers() {
            let address = found.ok().and_then(|found| found.into_iter().next());
            for monitor in self.monitors.values_mut().filter(|monitor| monitor.is_looked_up(&host)) {
                monitor.address = address;
                monitor.connect(Instant::now());
            }
        }
    }

    fn say(&mut self, what: &Answer) -> Result<(), Problem> {
        self.put(what)?;
        self.output.flush()?;
        Ok(())
    }

    fn put(&mut self, what: &Answer) -> Result<(), Problem> {
        let mut line = serde_json::to_vec(what).map_err(|error| Problem::Told(error.to_string()))?;
        line.push(b'\n');
        self.output.write_all(&line)?;
        Ok(())
    }

    fn handle(&mut self, line: &[u8]) -> Result<(), Problem> {
        let told = |error: serde_json::Error| {
            Problem::Told(format!("what the launcher says is not understood: {error}: {}", shortened(line)))
        };
        let request: Request = serde_json::from_slice(line).map_err(told)?;
        for (job, offset) in request.listen {
            let reports = self.run.join("jobs").join(&job).join("reports");
            self.tails.insert(job, Tail::new(reports, offset));
            self.polling = Polling::new(self.pauses);
        }
        for job in &request.forget {
            self.tails.remove(job);
            self.monitors.remove(job);
            self.gone.remove(job);
            self.unwritten.remove(job);
        }
        if let (Some(job), Some(order)) = (&request.to, request.order) {
            let numbered: Numbered = serde_json::from_str(order.get()).map_err(told)?;
            let line = [order.get().as_bytes(), b"\n"].concat();
            self.unwritten.entry(job.clone()).or_default().orders.push_back((numbered.n, line));
            self.write_orders(job)?;
        }
        if let Some(lease) = &request.lease {
            let text = format!("{} {}\n", plain(lease), plain(&request.s.unwrap_or(json!(0))));
            let mut unwritten = BTreeMap::new();
            for run in request.runs.unwrap_or_else(|| vec![Text(self.run.clone().into())]) {
                match renew_lease(Path::new(&run.0), &text) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        let file = Path::new(&run.0).join("lease");
                        unwritten.insert(run, format!("cannot write {}: {}", file.display(), strerror(&error)));
                    }
                    _ => {} // written, or its run is over
                }
            }
            self.say(&Answer::Alive { lease, unwritten })?;
        }
        for (job, (host, port)) in request.watch {
            self.gone.remove(&job);
            // Without one, anybody who answers could prove that they know it; the files are polled.
            let secret = fs::read(self.run.join("jobs").join(&job).join(SECRET)).unwrap_or_default();
            if secret.is_empty() {
                self.monitors.remove(&job);
                continue;
            }
            let monitor = match host.parse::<IpAddr>() {
                Ok(address) => AgentMonitor::at(SocketAddr::new(address, port), secret),
                Err(_) => AgentMonitor::looked_up(format!("{host}:{port}"), secret),
            };
            // Where there is no thread for that, the agent is one that was never reached.
            if monitor.host.is_empty() || self.resolver.ask(&monitor.host).is_ok() {
                self.monitors.insert(job, monitor);
            } else {
                self.monitors.remove(&job);
            }
        }
        Ok(())
    }

    fn write_all_orders(&mut self) -> Result<(), Problem> {
        let jobs: Vec<String> = self.unwritten.keys().cloned().collect();
        jobs.iter().try_for_each(|job| self.write_orders(job))
    }

    /// Writes the orders of a job, as far as its file takes them; the rest is tried again.
    fn write_orders(&mut self, job: &str) -> Result<(), Problem> {
        let Some(mut unwritten) = self.unwritten.remove(job) else { return Ok(()) };
        let file = self.run.join("jobs").join(job).join("orders");
        while let Some((number, line)) = unwritten.orders.front() {
            let error = match append(&file, line) {
                Ok(()) => {
                    if let Some(monitor) = self.monitors.get_mut(job) {
                        monitor.say();
                    }
                    self.say(&Answer::Taken { agent: job, order: *number })?;
                    unwritten.orders.pop_front();
                    unwritten.fails_since = None;
                    continue;
                }
                Err(error) => error,
            };
            let fails_since = *unwritten.fails_since.get_or_insert_with(Instant::now);
            let is_removed = error.kind() == io::ErrorKind::NotFound;
            if is_removed || fails_since.elapsed() > WRITES_WITHIN {
                let why = (!is_removed).then(|| strerror(&error));
                return self.say(&Answer::Lost { agent: job, file: Text(file.into()), why });
            }
            self.unwritten.insert(job.to_owned(), unwritten);
            return Ok(());
        }
        Ok(())
    }

    /// Takes note of agents that are gone; `pass_on` tells it.
    fn check_agents(&mut self) {
        let jobs: Vec<String> = self.monitors.keys().cloned().collect();
        for job in jobs {
            let Some(monitor) = self.monitors.get_mut(&job) else { continue };
            let health = monitor.check(Instant::now());
            self.polling.has_news |= std::mem::take(&mut monitor.has_news);
            if health == Health::Lives {
                continue;
            }
            self.monitors.remove(&job);
            if let Health::Gone(why) = health {
                let size = self.tails.get(&job).map_or(0, Tail::size);
                self.gone.insert(job, (why, size));
                self.polling.has_news = true;
            }
        }
    }

    /// Tells a part of what the jobs have reported, and which agents are gone that have reported nothing more; returns
    /// whether there was a report. Orders and leases are served between the parts.
    fn pass_on(&mut self) -> Result<bool, Problem> {
        let mut found = Vec::new();
        for (job, tail) in &mut self.tails {
            // A file system that is slow or fails at the moment may answer later.
            let lines = tail.lines().unwrap_or_default();
            found.extend(lines.into_iter().map(|(next, line)| (job.clone(), next, line)));
        }
        for (from, next, line) in &found {
            // A line that is no report is one of somebody who has found the file.
            let Ok(report) = serde_json::from_slice::<&RawValue>(line) else { continue };
            self.put(&Answer::Told { agent: from, next: *next, report })?;
        }
        let is_over = |job: &str, size: u64| {
            let is_read = self.tails.get(job).is_none_or(|tail| tail.offset() >= size);
            is_read || !found.iter().any(|(from, _, _)| from == job) // half a line, for one, is read by nobody
        };
        let over: Vec<String> =
            self.gone.iter().filter(|(job, (_, size))| is_over(job, *size)).map(|(job, _)| job.clone()).collect();
        for job in over {
            if let Some((why, _)) = self.gone.remove(&job) {
                self.put(&Answer::Gone { agent: &job, why })?;
            }
        }
        self.output.flush()?;
        Ok(!found.is_empty())
    }
}

/// Why a proxy ends.
enum Problem {
    NobodyListens,
    Told(String),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Problem::NobodyListens,
            _ => Problem::Told(format!("cannot answer: {}", strerror(&error))),
        }
    }
}

/// A number or text without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether an agent lives.
#[derive(Debug, PartialEq, Eq)]
enum Health {
    Lives,
    /// Why it is known to be gone.
    Gone(&'static str),
    /// It was never reached, or somebody else answers in its place, so the connection says nothing.
    Unknown,
}

enum State {
    /// Its address is being looked up.
    LookedUp,
    Connecting(Socket),
    /// Both ends prove that they know the secret. Anybody could have accepted: this says nothing of the agent.
    Greeting(Box<AgentHandshake>),
    /// The agent has proved itself, and its kernel keeps the connection.
    Up(TcpStream),
    /// Who has accepted has brought no proof; there is another attempt later.
    Pausing,
    Failed(io::ErrorKind),
}

/// The connection from the login node to an agent. By it both say that there is something new in a file; that it stands, once the agent has
/// proved itself, says that the agent lives, and its node.
///
/// Files cannot tell that. One that does not change may lie on a file system that is slow at the moment; who does not
/// answer is gone.
struct AgentMonitor {
    /// Host and port, if the address has to be looked up.
    host: String,
    address: Option<SocketAddr>,
    /// Proves to the agent that we are no stranger, and to us that it is the agent.
    secret: Vec<u8>,
    /// Somebody has accepted a connection: when one is refused later, what has listened there has ended.
    was_accepted: bool,
    has_news: bool,
    /// Connections since the last one with a proof.
    unproven: u32,
    /// When the agent is gone unless it has proved itself again: a connection on which it had done so has ended.
    proof_due: Option<Instant>,
    until: Instant,
    state: State,
}

impl AgentMonitor {
    /// Of an agent at an address, to which it begins to connect.
    fn at(address: SocketAddr, secret: Vec<u8>) -> AgentMonitor {
        let mut monitor = AgentMonitor { address: Some(address), ..AgentMonitor::looked_up(String::new(), secret) };
        monitor.connect(Instant::now());
        monitor
    }

    /// Of an agent at a host and port, whose address is still to be found.
    fn looked_up(host: String, secret: Vec<u8>) -> AgentMonitor {
        AgentMonitor {
            host,
            address: None,
            secret,
            was_accepted: false,
            has_news: false,
            unproven: 0,
            proof_due: None,
            until: Instant::now(),
            state: State::LookedUp,
        }
    }

    fn is_looked_up(&self, host: &str) -> bool {
        self.host == host && matches!(self.state, State::LookedUp)
    }

    /// Returns how long nothing happens by itself.
    fn due_in(&self, now: Instant) -> Duration {
        let until = match self.state {
            State::Connecting(_) | State::Pausing => Some(self.until),
            State::LookedUp | State::Greeting(_) | State::Up(_) | State::Failed(_) => None,
        };
        let next = until.into_iter().chain(self.proof_due).min();
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }

    /// Begins to connect.
    fn connect(&mut self, now: Instant) {
        self.until = now + RECONNECT_TIMEOUT;
        let attempt = self.address.ok_or(io::ErrorKind::NotFound.into()).and_then(attempt);
        self.state = attempt.map_or_else(|error| State::Failed(error.kind()), State::Connecting);
    }

    /// Says that there are orders.
    fn say(&mut self) {
        if let State::Up(connection) = &mut self.state {
            let _ = connection.write(NEWS); // one that is gone shows when it is read
        }
    }

    fn check(&mut self, now: Instant) -> Health {
        if let State::Up(connection) = &mut self.state {
            let has_ended = match connection.read(&mut [0; 4096]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Health::Lives,
                Ok(count) => count == 0,
                Err(_) => true,
            };
            self.has_news = true;
            if !has_ended {
                return Health::Lives;
            }
            self.proof_due = Some(now + PROOF_TIMEOUT);
            self.connect(now);
        }
        match std::mem::replace(&mut self.state, State::LookedUp) {
            State::Greeting(handshake) => match handshake.advance() {
                HandshakeProgress::Waits(handshake) => self.state = State::Greeting(handshake),
                HandshakeProgress::Proven(connection) => {
                    (self.unproven, self.proof_due) = (0, None);
                    self.state = State::Up(connection);
                }
                HandshakeProgress::Stranger => return self.without_proof(),
                HandshakeProgress::Ended => {
                    self.unproven += 1;
                    match self.unproven {
                        1 => self.connect(now),
                        2..MOST_UNPROVEN => {
                            self.until = now + UNPROVEN_PAUSE * (1 << (self.unproven - 2));
                            self.state = State::Pausing;
                        }
                        _ => return self.without_proof(),
                    }
                }
            },
            State::Pausing if now < self.until => self.state = State::Pausing,
            State::Pausing => self.connect(now),
            other => self.state = other,
        }
        let may_follow = !matches!(self.state, State::Up(_) | State::Failed(_));
        if may_follow && self.proof_due.is_some_and(|due| now >= due) {
            return self.without_proof();
        }
        let failed = match &self.state {
            State::LookedUp | State::Pausing | State::Greeting(_) | State::Up(_) => return Health::Lives,
            State::Failed(kind) => *kind,
            State::Connecting(attempt) => {
                let is_decided = poll(&[For::Writing(attempt.as_raw_fd())], Duration::ZERO).is_ok_and(|ready| ready[0]);
                if !is_decided && now < self.until {
                    return Health::Lives;
                }
                let error = if is_decided { attempt.take_error() } else { Ok(Some(io::ErrorKind::TimedOut.into())) };
                match error.unwrap_or_else(Some) {
                    Some(error) => error.kind(),
                    None => {
                        self.greet();
                        return Health::Lives;
                    }
                }
            }
        };
        match (self.was_accepted, failed) {
            (false, _) => Health::Unknown,
            (true, io::ErrorKind::ConnectionRefused) => Health::Gone("its agent has ended without a word"),
            (true, _) => Health::Gone("its node does not answer"),
        }
    }

    /// What it means that somebody accepts at the agent's port who does not prove to be the agent. As long as that lives it has its port, so
    /// where it has proved itself before, it does not. Else the address may be wrong.
    fn without_proof(&self) -> Health {
        match self.proof_due {
            Some(_) => Health::Gone(IMPOSTOR),
            None => Health::Unknown,
        }
    }

    /// Somebody has accepted: proves to the agent who we are, which then looks for orders.
    fn greet(&mut self) {
        let State::Connecting(attempt) = std::mem::replace(&mut self.state, State::LookedUp) else { return };
        let Ok(handshake) = AgentHandshake::of_login_proxy(attempt.into(), &self.secret) else {
            // Without random bytes there is no proof; the files are polled.
            self.state = State::Failed(io::ErrorKind::Other);
            return;
        };
        self.state = State::Greeting(Box::new(handshake));
        self.was_accepted = true;
        self.has_news = true; // what was reported before
    }
}

fn attempt(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    // Nothing is probed while a byte is on its way that nobody acknowledges; retransmissions take a quarter of an hour.
    socket.set_tcp_user_timeout(Some(KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES))?;
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_agent_whose_host_refuses_a_connection_at_once_has_ended() {
        let mut monitor = AgentMonitor::looked_up("node:1".to_owned(), vec![]);
        monitor.state = State::Failed(io::ErrorKind::ConnectionRefused);
        assert_eq!(monitor.check(Instant::now()), Health::Unknown, "it has never accepted");
        monitor.was_accepted = true;
        assert_eq!(monitor.check(Instant::now()), Health::Gone("its agent has ended without a word"));
    }

    const SECRET: &[u8] = b"the secret of this agent";
    const SHORT: Duration = Duration::from_millis(1);

    /// Checks the agent again and again until that is so; returns what the last check said.
    fn check_until(monitor: &mut AgentMonitor, is_it: impl Fn(&AgentMonitor, &Health) -> bool) -> Health {
        loop {
            let health = monitor.check(Instant::now());
            if is_it(monitor, &health) {
                return health;
            }
            std::thread::sleep(SHORT);
        }
    }

    /// Takes the next connection of the monitor, which has begun to prove itself on it.
    fn accept(listener: &TcpListener, monitor: &mut AgentMonitor) -> TcpStream {
        let (connection, _) = listener.accept().unwrap();
        check_until(monitor, |monitor, _| matches!(monitor.state, State::Greeting(_)));
        connection
    }

    /// Takes the next connection of the monitor as the agent, and proves it.
    fn prove(listener: &TcpListener, monitor: &mut AgentMonitor) -> TcpStream {
        let mut agent = AgentHandshake::of_agent(accept(listener, monitor), SECRET).unwrap();
        loop {
            monitor.check(Instant::now());
            match agent.advance() {
                HandshakeProgress::Waits(waits) => agent = *waits,
                HandshakeProgress::Proven(connection) => return connection,
                _ => panic!("the login proxy does not prove itself"),
            }
        }
    }

    /// An agent that has proved itself and was killed, and the socket of who has its port now.
    fn killed_agent() -> (TcpListener, AgentMonitor) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut monitor = AgentMonitor::at(listener.local_addr().unwrap(), SECRET.to_vec());
        let agent = prove(&listener, &mut monitor);
        assert!(matches!(monitor.state, State::Up(_)));
        drop(agent);
        (listener, monitor)
    }

    #[test]
    fn who_takes_the_port_of_a_killed_agent_and_says_nothing_is_no_agent() {
        let (impostor, mut monitor) = killed_agent();
        let before = Instant::now();
        check_until(&mut monitor, |monitor, _| !matches!(monitor.state, State::Up(_)));
        let _silent = accept(&impostor, &mut monitor);
        assert_eq!(monitor.check(before + PROOF_TIMEOUT - SHORT), Health::Lives);
        assert!(monitor.due_in(Instant::now()) <= PROOF_TIMEOUT, "nothing wakes the login proxy");
        assert_eq!(monitor.check(Instant::now() + PROOF_TIMEOUT), Health::Gone(IMPOSTOR));
    }

    #[test]
    fn who_takes_the_port_of_a_killed_agent_and_says_nonsense_is_no_agent() {
        let (impostor, mut monitor) = killed_agent();
        check_until(&mut monitor, |monitor, _| !matches!(monitor.state, State::Up(_)));
        let mut connection = accept(&impostor, &mut monitor);
        connection.write_all(b"no handshake, but longer than the head of one").unwrap();
        assert_eq!(check_until(&mut monitor, |_, health| *health != Health::Lives), Health::Gone(IMPOSTOR));
    }

    #[test]
    fn who_takes_the_port_of_a_killed_agent_and_hangs_up_is_no_agent() {
        let (impostor, mut monitor) = killed_agent();
        let (mut now, mut health) = (Instant::now(), Health::Lives);
        for _ in 0..MOST_UNPROVEN {
            check_until(&mut monitor, |monitor, _| !matches!(monitor.state, State::Up(_)));
            drop(accept(&impostor, &mut monitor));
            let unproven = monitor.unproven;
            health = check_until(&mut monitor, |monitor, _| monitor.unproven > unproven);
            if matches!(monitor.state, State::Pausing) {
                now = now.max(monitor.until);
                monitor.check(now);
            }
        }
        assert_eq!(health, Health::Gone(IMPOSTOR));
    }

    #[test]
    fn an_agent_that_has_lost_its_connection_and_proves_itself_again_lives() {
        let (listener, mut monitor) = killed_agent();
        check_until(&mut monitor, |monitor, _| !matches!(monitor.state, State::Up(_)));
        let _agent = prove(&listener, &mut monitor);
        assert_eq!(monitor.check(Instant::now() + 2 * PROOF_TIMEOUT), Health::Lives);
    }

    #[test]
    fn who_accepts_in_the_place_of_an_agent_that_never_proved_itself_says_nothing_of_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut monitor = AgentMonitor::at(listener.local_addr().unwrap(), SECRET.to_vec());
        let mut connection = accept(&listener, &mut monitor);
        assert_eq!(monitor.check(Instant::now() + 2 * PROOF_TIMEOUT), Health::Lives, "it may be busy");
        connection.write_all(b"no handshake, but longer than the head of one").unwrap();
        assert_eq!(check_until(&mut monitor, |_, health| *health != Health::Lives), Health::Unknown);
    }
}
