//! On the login node: between the launcher's connection and the files of the jobs.
//!
//! It serves all runs of a launcher at its site: where a job of another run is meant, its name is a path.
//!
//! Each line of its input is a [`Request`]; it ends when that does. Answers and reports are lines of JSON on its output. A run whose
//! folder cannot be written holds up no other one, nor does a name server that does not answer.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{json, Value};
use xmml_wire::resolver::Resolver;

use crate::agent_handshake::SECRET;
use crate::agent_monitor::{AgentMonitor, Health};
use crate::gateway_protocol::{Answer, Numbered, Request};
use crate::lines::{append, complete_lines, json_line, shortened, Tail};
use crate::polling::{renew_lease, Pauses, Polling};
use crate::protocol::Text;
use crate::system::{host_name, poll, strerror, For};

const READ: usize = 256 * 1024;
/// How long writing an order is tried again that its file does not take, before its job is lost.
const WRITES_WITHIN: Duration = Duration::from_secs(60);

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
            watched.extend(monitor.awaited());
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
            for monitor in self.monitors.values_mut() {
                monitor.on_address(&host, address, Instant::now());
            }
        }
    }

    fn say(&mut self, what: &Answer) -> Result<(), Problem> {
        self.put(what)?;
        self.output.flush()?;
        Ok(())
    }

    fn put(&mut self, what: &Answer) -> Result<(), Problem> {
        let line = json_line(what).map_err(|error| Problem::Told(error.to_string()))?;
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
            let monitor = AgentMonitor::new(&host, port, secret);
            // Where there is no thread for that, the agent is one that was never reached.
            if monitor.unknown_host().is_none_or(|host| self.resolver.ask(host).is_ok()) {
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
            self.polling.has_news |= monitor.take_news();
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
