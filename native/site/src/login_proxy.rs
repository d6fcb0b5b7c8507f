//! On the login node: between the launcher's connection and the files of the jobs.
//!
//! It serves all runs of a launcher at its site: where a job of another run is meant, its name is a path.
//!
//! Each line of the standard input is a [`Word`], or empty: a sign of life. It ends when that does. It answers, and passes reports on, as lines of
//! JSON on the standard output.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{json, Value};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::agent::NEWS;
use crate::lines::{append, complete_lines, shortened, Tail};
use crate::polling::{renew_lease, Pauses, Polling};
use crate::protocol::Text;
use crate::system::{host_name, poll, strerror, For};

const READ: usize = 256 * 1024;
/// A node whose kernel has not answered for so long is taken for dead: idle time until the first question, pause between
/// questions, and how many there are; then how long a last attempt to connect may take.
const NODE_IDLE: Duration = Duration::from_secs(1);
const NODE_ASK_EVERY: Duration = Duration::from_secs(1);
const NODE_QUESTIONS: u32 = 4;
const NODE_LAST_ATTEMPT: Duration = Duration::from_millis(1500);

/// What the launcher says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word<'a> {
    /// From now on tell what is in the reports of these jobs from there on.
    #[serde(default)]
    listen: BTreeMap<String, u64>,
    /// Tell nothing of these jobs any more.
    #[serde(default)]
    forget: Vec<String>,
    /// The job that an order is for; answered by `{"taken": N, "by": JOB}` when it is in the file, by `{"lost": JOB, "file"}`
    /// if the folder of that is gone.
    to: Option<String>,
    #[serde(borrow)]
    order: Option<&'a RawValue>,
    /// The launcher of these runs lives (without `runs`: of this one): its number; answered by `{"alive": NUMBER}`.
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

/// What it says itself; the number that a word had is told as it came.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Talking { is: &'a str, host: String },
    Taken { taken: u64, by: &'a str },
    Alive { alive: &'a Value },
    Gone { gone: &'a str, why: &'a str },
    Lost { lost: &'a str, file: Text },
    Report { from: &'a str, next: u64, report: &'a RawValue },
}

/// Carries lines between the standard streams and the files of the jobs.
pub struct LoginProxy {
    run: PathBuf,
    pauses: Pauses,
    tails: BTreeMap<String, Tail>,
    monitors: BTreeMap<String, AgentMonitor>,
    /// Agents that are gone, why, and up to where the reports of each are read before that is told.
    gone: BTreeMap<String, (&'static str, u64)>,
    polling: Polling,
    incoming: Vec<u8>,
    input: File,
    output: BufWriter<File>,
}

impl LoginProxy {
    /// One for the jobs of a run.
    pub fn new(run: PathBuf, input: File, output: File, pauses: Pauses) -> LoginProxy {
        LoginProxy {
            run,
            pauses,
            tails: BTreeMap::new(),
            monitors: BTreeMap::new(),
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
    /// It was told something that it does not know, or a file cannot be written; the text says what.
    pub fn run(mut self) -> Result<(), String> {
        match self.carry() {
            Err(Problem::NobodyListens) => Ok(()),
            Err(Problem::Told(problem)) => Err(problem),
            Ok(()) => Ok(()),
        }
    }

    fn carry(&mut self) -> Result<(), Problem> {
        self.say(&Answer::Talking { is: "talking", host: host_name() })?;
        let mut chunk = vec![0; READ];
        loop {
            if self.await_something()? {
                let count = self.input.read(&mut chunk).map_err(|error| Problem::Told(strerror(&error)))?;
                if count == 0 {
                    return Ok(());
                }
                self.incoming.extend_from_slice(&chunk[..count]);
                for line in complete_lines(&mut self.incoming).iter().filter(|line| !line.is_empty()) {
                    self.obey(line)?;
                }
            }
            self.check_agents();
            let now = Instant::now();
            if self.polling.due_in(now).is_zero() {
                let found = self.pass_on()?;
                self.polling.polled(now, found);
                self.polling.has_news |= !self.gone.is_empty();
            }
        }
    }

    /// Waits until the launcher or an agent says something, or files are to be polled; returns whether the launcher does.
    fn await_something(&self) -> Result<bool, Problem> {
        let now = Instant::now();
        let mut limit = self.polling.due_in(now);
        let mut watched = vec![For::Reading(self.input.as_raw_fd())];
        for monitor in self.monitors.values() {
            match &monitor.state {
                State::Up(connection) => watched.push(For::Reading(connection.as_raw_fd())),
                State::Connecting(attempt) => {
                    watched.push(For::Writing(attempt.as_raw_fd()));
                    limit = limit.min(monitor.until.saturating_duration_since(now));
                }
                State::Down => limit = Duration::ZERO,
            }
        }
        let ready = poll(&watched, limit).map_err(|error| Problem::Told(strerror(&error)))?;
        Ok(ready[0])
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

    fn obey(&mut self, line: &[u8]) -> Result<(), Problem> {
        let told = |error: serde_json::Error| {
            Problem::Told(format!("what the launcher says is not understood: {error}: {}", shortened(line)))
        };
        let word: Word = serde_json::from_slice(line).map_err(told)?;
        for (job, offset) in word.listen {
            let reports = self.run.join("jobs").join(&job).join("reports");
            self.tails.insert(job, Tail::new(reports, offset));
            self.polling = Polling::new(self.pauses);
        }
        for job in &word.forget {
            self.tails.remove(job);
            self.monitors.remove(job);
            self.gone.remove(job);
        }
        if let (Some(job), Some(order)) = (&word.to, word.order) {
            let numbered: Numbered = serde_json::from_str(order.get()).map_err(told)?;
            let file = self.run.join("jobs").join(job).join("orders");
            match append(&file, &[order.get().as_bytes(), b"\n"].concat()) {
                Ok(()) => {
                    if let Some(monitor) = self.monitors.get_mut(job) {
                        monitor.say();
                    }
                    self.say(&Answer::Taken { taken: numbered.n, by: job })?;
                }
                // The folder of the job is gone, which is no reason to leave those of other runs.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.say(&Answer::Lost { lost: job, file: Text(file.into()) })?;
                }
                Err(error) => return Err(cannot_write(&file, &error)),
            }
        }
        if let Some(lease) = &word.lease {
            let text = format!("{} {}\n", plain(lease), plain(&word.s.unwrap_or(json!(0))));
            let runs = word.runs.map(|runs| runs.into_iter().map(|run| PathBuf::from(run.0)).collect());
            for run in runs.unwrap_or_else(|| vec![self.run.clone()]) {
                match renew_lease(&run, &text) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(cannot_write(&run.join("lease"), &error));
                    }
                    _ => {} // written, or its run is over
                }
            }
            self.say(&Answer::Alive { alive: lease })?;
        }
        for (job, (host, port)) in word.watch {
            self.gone.remove(&job);
            self.monitors.insert(job, AgentMonitor::new(&host, port));
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
            self.put(&Answer::Report { from, next: *next, report })?;
        }
        let is_over = |job: &str, size: u64| {
            let is_read = self.tails.get(job).is_none_or(|tail| tail.offset() >= size);
            is_read || !found.iter().any(|(from, _, _)| from == job) // half a line, for one, is read by nobody
        };
        let over: Vec<String> =
            self.gone.iter().filter(|(job, (_, size))| is_over(job, *size)).map(|(job, _)| job.clone()).collect();
        for job in over {
            if let Some((why, _)) = self.gone.remove(&job) {
                self.put(&Answer::Gone { gone: &job, why })?;
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

fn cannot_write(file: &Path, error: &io::Error) -> Problem {
    Problem::Told(format!("cannot write {}: {}", file.display(), strerror(error)))
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
    /// It was never reached, so its connection says nothing.
    Unknown,
}

enum State {
    Connecting(Socket),
    Up(TcpStream),
    Down,
}

/// The connection from the login node to an agent. By it both say that there is something new in a file; that it stands
/// says that the agent lives, and its node.
///
/// Files cannot tell that. One that does not change may lie on a file system that is slow at the moment; who does not
/// answer is gone.
struct AgentMonitor {
    address: Option<SocketAddr>,
    was_up: bool,
    has_news: bool,
    until: Instant,
    state: State,
}

impl AgentMonitor {
    fn new(host: &str, port: u16) -> AgentMonitor {
        let address = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
        let now = Instant::now();
        let mut monitor = AgentMonitor { address, was_up: false, has_news: false, until: now, state: State::Down };
        monitor.connect(now);
        monitor
    }

    /// Begins to connect.
    fn connect(&mut self, now: Instant) {
        self.until = now + NODE_LAST_ATTEMPT;
        let attempt = self.address.and_then(|address| attempt(address).ok());
        self.state = attempt.map_or(State::Down, State::Connecting);
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
            self.connect(now);
        }
        let mut why = "its node does not answer";
        if let State::Connecting(attempt) = &self.state {
            let is_decided = poll(&[For::Writing(attempt.as_raw_fd())], Duration::ZERO).is_ok_and(|ready| ready[0]);
            if !is_decided && now < self.until {
                return Health::Lives;
            }
            let error = if is_decided { attempt.take_error() } else { Ok(Some(io::ErrorKind::TimedOut.into())) };
            let failed = error.unwrap_or_else(Some);
            let State::Connecting(attempt) = std::mem::replace(&mut self.state, State::Down) else {
                return Health::Unknown;
            };
            match failed {
                None => {
                    self.state = State::Up(attempt.into());
                    self.was_up = true;
                    self.has_news = true; // what was reported before
                    self.say();
                    return Health::Lives;
                }
                Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    why = "its agent has ended without a word";
                }
                Some(_) => {}
            }
        }
        if self.was_up {
            Health::Gone(why)
        } else {
            Health::Unknown
        }
    }
}

fn attempt(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    let keepalive = TcpKeepalive::new().with_time(NODE_IDLE).with_interval(NODE_ASK_EVERY).with_retries(NODE_QUESTIONS);
    socket.set_tcp_keepalive(&keepalive)?;
    // No question is asked while a byte is on its way that nobody acknowledges; retransmissions take a quarter of an hour.
    socket.set_tcp_user_timeout(Some(NODE_IDLE + NODE_ASK_EVERY * NODE_QUESTIONS))?;
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => match error.kind() {
            // Decided at once: the next look tells it, as of one that was decided later.
            io::ErrorKind::ConnectionRefused => Ok(socket),
            _ => Err(error),
        },
        _ => Ok(socket),
    }
}
