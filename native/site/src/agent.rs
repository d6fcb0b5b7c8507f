//! The agent of a job, one on each node on which programs are started: it says that it is ready, waits for a word, then
//! stands between the supervisor and the files of the run.
//!
//! Launcher and agents speak through files in the run's folder, because that works wherever a job and a login node see
//! the same files, and because nothing is lost when the launcher's connection is: what was not read is still there. The
//! login proxy ([`crate::login_proxy`]) holds a connection to each agent, over which both say, with a byte, that there is
//! something new in a file. So files on the network are polled when something is in them; where the connection does not
//! stand, less and less often ([`crate::polling`]).
//!
//! In the agent's folder each line of `orders` and `reports` is one JSON object. Orders are numbered from 1; one that comes
//! a second time (after a connection broke) is not obeyed again. What is no [`Order`] goes to the supervisor unchanged.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xmml_transfer::report::Progress;

use crate::agent_handshake::{AgentHandshake, HandshakeProgress, NEWS, SECRET};
use crate::files::{copy_into, with_path, FileError};
use crate::lines::{append, shortened, Tail};
use crate::patterns::matches;
use crate::polling::{Lease, Pauses, Polling, LEASE_EVERY};
use crate::processes::start_of;
use crate::protocol::{self, Report, Start, Text};
use crate::signals::{ignore, Signals};
use crate::system::{host_name, own_cpus, poll, random_hex, strerror, write_file, For};

/// When the reports of a job have grown so large, output is not passed on any more; the logs at the site have all of it.
const MOST_REPORTED: usize = 512 * 1024 * 1024;
/// How the supervisor's reports of output begin.
const OUTPUT: &[u8] = br#"{"is":"output""#;
/// An agent keeps the newest 8 connections of login proxies and closes older ones, and so for strangers, who have not proved yet that they
/// know the [`SECRET`]. So no stranger takes the place of a login proxy.
const MOST_WATCHERS: usize = 8;
const READ: usize = 256 * 1024;

/// What Slurm says of the CPUs and memory of this step. Steps that are started from here would take it for what they are
/// to do, and fail.
const ABOUT_OWN_STEP: [&str; 3] = ["SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_TRES_PER_TASK"];
/// What tells threads to stay on the cores of their process.
const BOUND: [(&str, &str); 2] = [("OMP_PLACES", "cores"), ("OMP_PROC_BIND", "close")];
/// What tells programs which GPUs they may use.
const GPU_VARIABLES: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Exit status of an agent that has ended otherwise than with its supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It cannot write in the folder of the run.
    Unwritable = 74,
    /// It was told to end.
    Aborted = 75,
    /// Nobody said anything until its patience was over.
    GaveUp = 76,
    /// The launcher was not heard of for as long as its lease lasts.
    LeaseExpired = 77,
    /// The batch system, or somebody, ended it.
    Killed = 143,
}

/// What an agent does itself.
enum Order {
    /// Wait for so many seconds more, as long as the launcher lives.
    Hold(f64),
    /// Start the supervisor; every later order is passed on to it.
    Go,
    /// End.
    Abort,
    /// Make a working folder and copy the model's files into it.
    Prepare(Prepare),
    /// As the supervisor is told, with what must be there before.
    Start(Box<Start>, Prepare, Devices),
    /// For the supervisor.
    Other(Vec<u8>),
}

/// What a process finds when it starts.
#[derive(Deserialize)]
struct Prepare {
    #[serde(default)]
    name: String,
    /// Its working folder.
    folder: Text,
    stdout: Option<Text>,
    stderr: Option<Text>,
    /// Texts of files, by their paths.
    #[serde(default)]
    files: BTreeMap<Text, String>,
    /// Patterns of files of the model that are copied into its working folder.
    #[serde(default)]
    stage_in: Vec<Text>,
}

/// Indices into this process's CPU list and GPU list. `cores` holds only if the CPU list has `of_cores` entries.
#[derive(Default, Deserialize)]
struct Devices {
    cores: Option<Vec<usize>>,
    of_cores: Option<usize>,
    gpus: Option<Vec<usize>>,
}

#[derive(Deserialize)]
struct Head<'a> {
    n: u64,
    #[serde(rename = "do", borrow)]
    what: Cow<'a, str>,
    s: Option<f64>,
}

impl Order {
    /// Reads an order and its number.
    fn read(line: &[u8]) -> Result<(u64, Order), String> {
        let told = |error: serde_json::Error| format!("{error}: {}", shortened(line));
        let head: Head = serde_json::from_slice(line).map_err(told)?;
        let order = match head.what.as_ref() {
            "hold" => Order::Hold(head.s.ok_or_else(|| format!("missing field `s`: {}", shortened(line)))?),
            "go" => Order::Go,
            "abort" => Order::Abort,
            "prepare" => Order::Prepare(serde_json::from_slice(line).map_err(told)?),
            "start" => Order::Start(
                serde_json::from_slice(line).map_err(told)?,
                serde_json::from_slice(line).map_err(told)?,
                serde_json::from_slice(line).map_err(told)?,
            ),
            _ => {
                protocol::Order::read(line)?;
                Order::Other([line, b"\n"].concat())
            }
        };
        Ok((head.n, order))
    }
}

/// What an agent reports of itself.
#[derive(Serialize)]
#[serde(tag = "is", rename_all = "lowercase")]
enum Own<'a> {
    /// It waits for a word.
    Ready {
        host: &'a str,
        /// Where the login proxy connects to it.
        port: u16,
        pid: u32,
        job: String,
        /// The Python that submodels run in, with its path if it was found.
        python: Text,
        path: Text,
        /// The names of the job's nodes.
        nodes: Vec<String>,
        /// The job's number in a heterogeneous job.
        part: String,
    },
    /// The batch system, or somebody, ends the job.
    Killed,
    /// Nobody said anything until its patience was over.
    #[serde(rename = "given up")]
    GivenUp,
    /// The launcher has not been heard of for too long.
    #[serde(rename = "lease over")]
    LeaseOver,
    /// Everything has ended.
    Over,
}

/// Where an agent is, and how long it waits.
pub struct Place {
    /// The folder of the run.
    pub run: PathBuf,
    /// The folder of the job and, in that, of the node, below `jobs/`.
    pub job: PathBuf,
    /// How long it waits if nobody says anything.
    pub patience: Duration,
    /// The Python of the site.
    pub python: OsString,
}

/// In a job: waits for a word, then stands between the supervisor and the files.
pub struct Agent {
    place: Place,
    folder: PathBuf,
    orders: Tail,
    reports: PathBuf,
    lease: Lease,
    obeyed: u64,
    pending: VecDeque<Order>,
    reported: usize,
    is_killed: bool,
    cannot_write: bool,
    polling: Polling,
    signals: Signals,
    /// An open connection proves that this node is up, because its kernel answers keepalive probes. A closed one proves that the agent
    /// has exited.
    listener: TcpListener,
    secret: String,
    watchers: Vec<TcpStream>,
    /// Who has connected and not proved yet that it knows the secret.
    strangers: Vec<AgentHandshake>,
}

impl Agent {
    /// Makes this process an agent.
    ///
    /// # Errors
    /// The system refuses what it needs.
    pub fn new(place: Place, pauses: Pauses) -> io::Result<Agent> {
        let folder = place.run.join("jobs").join(&place.job);
        let signals = Signals::take_over(&[libc::SIGTERM])?;
        ignore(&[libc::SIGINT, libc::SIGHUP]);
        let listener = TcpListener::bind(("0.0.0.0", 0))?;
        listener.set_nonblocking(true)?;
        Ok(Agent {
            orders: Tail::new(folder.join("orders"), 0),
            reports: folder.join("reports"),
            lease: Lease::new(place.run.join("lease"), Instant::now()),
            obeyed: 0,
            pending: VecDeque::new(),
            reported: 0,
            is_killed: false,
            cannot_write: false,
            polling: Polling::new(pauses),
            signals,
            listener,
            secret: random_hex()?,
            watchers: Vec::new(),
            strangers: Vec::new(),
            folder,
            place,
        })
    }

    /// Serves until everything has ended; returns why, if it has ended otherwise than with the supervisor.
    ///
    /// # Errors
    /// It cannot begin, or was told something that is no order; the text says what.
    pub fn run(mut self) -> Result<Option<Status>, String> {
        let host = host_name();
        let pid = std::process::id();
        let started = i32::try_from(pid).ok().and_then(start_of).unwrap_or_default();
        let secret = self.folder.join(SECRET);
        let _ = fs::remove_file(&secret); // of a job that has begun once more
        let written = append(&secret, self.secret.as_bytes());
        let written =
            written.and(write_file(&self.folder.join("agent"), format!("{pid} {started} {host}\n").as_bytes()));
        self.cannot_write = written.is_err();
        let variable = |name| std::env::var(name).unwrap_or_default();
        let nodes = std::env::var("XMML_NODES").unwrap_or_else(|_| host.clone());
        let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        self.tell(&Own::Ready {
            host: &host,
            port: self.listener.local_addr().map_err(|error| strerror(&error))?.port(),
            pid,
            job: [variable("SLURM_JOB_ID"), variable("PBS_JOBID")]
                .into_iter()
                .find(|id| !id.is_empty())
                .unwrap_or_default(),
            python: Text(found_on(&self.place.python, &path).unwrap_or_else(|| self.place.python.clone())),
            path: Text(path),
            nodes: nodes.split_whitespace().map(str::to_owned).collect(),
            part: variable("XMML_HET_GROUP"),
        });
        let status = if self.cannot_write { Some(Status::Unwritable) } else { self.wait()? };
        if status.is_none() {
            return self.carry_out();
        }
        self.tell(&Own::Over);
        Ok(status)
    }

    /// Reports something of its own.
    fn tell(&mut self, what: &impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(what) {
            line.push(b'\n');
            self.report(&line);
        }
    }

    /// Adds to the reports. If that cannot be done (the disk is full), nothing more is reported, and the job ends.
    fn report(&mut self, lines: &[u8]) {
        if self.cannot_write {
            return;
        }
        self.cannot_write = append(&self.reports, lines).is_err();
        for watcher in &mut self.watchers {
            let _ = watcher.write(NEWS); // one that is gone shows when it is read
        }
    }

    /// Waits until there may be orders, a signal has come, a moment is there, or the supervisor says something; returns
    /// whether that was so.
    fn await_something(&mut self, supervisor: Option<&UnixStream>, until: Option<Instant>) -> Result<bool, String> {
        let now = Instant::now();
        let left = until.map_or(LEASE_EVERY, |until| until.saturating_duration_since(now));
        let limit = self.polling.due_in(now).min(left).min(LEASE_EVERY);
        let mut watched = vec![For::Reading(self.signals.as_raw_fd()), For::Reading(self.listener.as_raw_fd())];
        watched.extend(self.watchers.iter().map(|watcher| For::Reading(watcher.as_raw_fd())));
        watched.extend(self.strangers.iter().map(|stranger| For::Reading(stranger.as_raw_fd())));
        watched.extend(supervisor.map(|supervisor| For::Reading(supervisor.as_raw_fd())));
        let ready = poll(&watched, limit).map_err(|error| format!("cannot wait for orders: {}", strerror(&error)))?;
        while let Some(number) = self.signals.next() {
            self.is_killed |= number == libc::SIGTERM;
        }
        let mut heard = ready[2..].iter();
        let polling = &mut self.polling;
        self.watchers.retain_mut(|watcher| !heard.next().unwrap_or(&false) || stands(watcher, polling));
        if ready[1] {
            self.accept();
        }
        self.admit();
        Ok(supervisor.is_some() && ready.last() == Some(&true))
    }

    fn accept(&mut self) {
        if let Ok((stranger, _)) = self.listener.accept() {
            if stranger.set_nonblocking(true).is_ok() {
                self.strangers.extend(AgentHandshake::of_agent(stranger, self.secret.as_bytes()));
            }
        }
        keep_newest(&mut self.strangers);
    }

    /// Makes strangers who have proved that they know the secret watchers.
    fn admit(&mut self) {
        for stranger in std::mem::take(&mut self.strangers) {
            match stranger.advance() {
                HandshakeProgress::Waits(stranger) => self.strangers.push(*stranger),
                HandshakeProgress::Proven(mut watcher) => {
                    let _ = watcher.write(NEWS); // of what was reported before
                    self.watchers.push(watcher);
                    self.polling.has_news = true; // it may have had something to say before
                }
                HandshakeProgress::Stranger | HandshakeProgress::Ended => {}
            }
        }
        keep_newest(&mut self.watchers);
    }

    /// Returns the next order that has not been obeyed yet.
    fn next_order(&mut self) -> Result<Option<Order>, String> {
        let now = Instant::now();
        if self.pending.is_empty() && self.polling.due_in(now).is_zero() {
            // A file system that is slow or fails at the moment may answer later.
            let lines = self.orders.lines().unwrap_or_default();
            self.polling.polled(now, !lines.is_empty());
            for (_, line) in lines {
                let (number, order) =
                    Order::read(&line).map_err(|problem| format!("an order of the launcher is none: {problem}"))?;
                if number > self.obeyed {
                    self.obeyed = number;
                    self.pending.push_back(order);
                }
            }
        }
        Ok(self.pending.pop_front())
    }

    /// Waits for a word; returns nothing for go, else how to end.
    fn wait(&mut self) -> Result<Option<Status>, String> {
        let mut until = Instant::now() + self.place.patience;
        let mut is_held = false;
        while !self.is_killed {
            while let Some(order) = self.next_order()? {
                match order {
                    Order::Go => return Ok(None),
                    Order::Abort => return Ok(Some(Status::Aborted)),
                    Order::Hold(seconds) => {
                        let longer = Duration::try_from_secs_f64(seconds).map_err(|error| format!("hold: {error}"))?;
                        (until, is_held) = (Instant::now() + longer, true);
                    }
                    _ => {} // nobody is there to do it
                }
            }
            let now = Instant::now();
            if is_held && self.lease.has_expired(now) {
                self.tell(&Own::LeaseOver); // who held us will not come back in time
                return Ok(Some(Status::LeaseExpired));
            }
            if now >= until {
                self.tell(&Own::GivenUp);
                return Ok(Some(Status::GaveUp));
            }
            self.await_something(None, Some(until))?;
        }
        self.tell(&Own::Killed);
        Ok(Some(Status::Killed))
    }

    /// Starts the supervisor and passes on what it is told and tells, until it has ended.
    fn carry_out(&mut self) -> Result<Option<Status>, String> {
        let failed = |error: io::Error| format!("the supervisor cannot be started: {}", strerror(&error));
        let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
        let program = self.place.run.join("mto");
        let mut supervisor = Command::new(&program)
            .arg("supervise")
            .current_dir(&self.place.run)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {}", program.display(), failed(error)))?;
        let mut ends = None;
        let mut rest = Vec::new();
        let mut buffer = vec![0; READ];
        loop {
            let has_reports = self.await_something(Some(&ours), None)?;
            if self.is_killed && ends.is_none() {
                self.tell(&Own::Killed); // before the news of those who were killed with us
            }
            if has_reports {
                let count = ours.read(&mut buffer).unwrap_or_default();
                if count == 0 {
                    break;
                }
                rest.extend_from_slice(&buffer[..count]);
                self.pass_on(&mut rest);
            }
            while let Some(order) = self.next_order()? {
                match order {
                    Order::Abort => quit(&mut ours, &mut ends, Status::Aborted),
                    Order::Prepare(prepare) => drop(self.prepare(&prepare)),
                    Order::Start(start, prepare, devices) => self.start(*start, &prepare, &devices, &mut ours),
                    Order::Other(line) => pass(&mut ours, &line),
                    Order::Hold(_) | Order::Go => {}
                }
            }
            if ends.is_some() {
                continue;
            }
            if self.is_killed {
                quit(&mut ours, &mut ends, Status::Killed);
            } else if self.lease.has_expired(Instant::now()) {
                self.tell(&Own::LeaseOver);
                quit(&mut ours, &mut ends, Status::LeaseExpired);
            } else if self.cannot_write {
                quit(&mut ours, &mut ends, Status::Unwritable);
            }
        }
        let _ = supervisor.wait(); // that it cannot be waited for means that it is gone
        self.tell(&Own::Over);
        Ok(ends)
    }

    /// Writes the supervisor's complete lines to the file.
    fn pass_on(&mut self, reports: &mut Vec<u8>) {
        let Some(end) = reports.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = reports.split_off(end + 1);
        let mut complete = std::mem::replace(reports, rest);
        if self.reported > MOST_REPORTED {
            let lines = complete.split_inclusive(|byte| *byte == b'\n');
            complete = lines.filter(|line| !line.starts_with(OUTPUT)).flatten().copied().collect();
        }
        if !complete.is_empty() {
            self.report(&complete);
            self.reported += complete.len();
        }
    }

    /// Makes what a process finds when it starts; says, and returns, whether that worked.
    fn prepare(&mut self, prepare: &Prepare) -> bool {
        let Err((path, error)) = self.prepared(prepare) else { return true };
        let (file, text) = (path.to_string_lossy().into_owned(), strerror(&error));
        let number = error.raw_os_error().unwrap_or_default();
        self.tell(&Report::Unwritable { name: &prepare.name, file: &file, error: &text, number });
        false
    }

    fn prepared(&self, prepare: &Prepare) -> Result<(), FileError> {
        let folder = Path::new(&prepare.folder.0);
        with_path(folder, fs::create_dir_all(folder))?;
        for log in [&prepare.stdout, &prepare.stderr].into_iter().flatten() {
            if let Some(parent) = Path::new(&log.0).parent() {
                with_path(parent, fs::create_dir_all(parent))?;
            }
        }
        for (path, text) in &prepare.files {
            let path = Path::new(&path.0);
            with_path(path, write_file(path, text.as_bytes()))?;
        }
        for pattern in &prepare.stage_in {
            for source in matches(&self.place.run.join("model"), &pattern.0, &Progress::default()) {
                copy_into(&source, folder)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, mut order: Start, prepare: &Prepare, devices: &Devices, supervisor: &mut UnixStream) {
        if !self.prepare(prepare) {
            return;
        }
        bind(&mut order, devices, &own_cpus(), |name| std::env::var(name).ok());
        if let Some(program) = order.command.first_mut() {
            let path = order.env.get(&Text("PATH".into())).map(|path| path.0.clone()).or(std::env::var_os("PATH"));
            if let Some(found) = found_on(&program.0, &path.unwrap_or_default()) {
                program.0 = without_links(&found);
            }
        }
        if let Ok(line) = serde_json::to_vec(&protocol::Told::Start(&order)) {
            pass(supervisor, &[line.as_slice(), b"\n"].concat());
        }
    }
}

/// Where programs are looked for if nobody says.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Tells the supervisor something. If it is gone, its end of the socket says so.
fn pass(supervisor: &mut UnixStream, line: &[u8]) {
    let _ = supervisor.write_all(line);
}

/// Has the supervisor end everything.
fn quit(supervisor: &mut UnixStream, ends: &mut Option<Status>, why: Status) {
    pass(supervisor, b"{\"do\": \"quit\"}\n");
    ends.get_or_insert(why);
}

fn keep_newest<T>(connections: &mut Vec<T>) {
    connections.drain(..connections.len().saturating_sub(MOST_WATCHERS));
}

/// Takes note that there are orders; returns whether the connection still stands.
fn stands(watcher: &mut TcpStream, polling: &mut Polling) -> bool {
    match watcher.read(&mut [0; 4096]) {
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        Ok(count) => {
            polling.has_news = true;
            count > 0
        }
    }
}

/// Returns the path of a program: that of its name in the first folder of a search path that has it.
fn found_on(program: &OsStr, path: &OsStr) -> Option<OsString> {
    use std::os::unix::fs::PermissionsExt;
    if Path::new(program).components().count() != 1 {
        return None;
    }
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|folder| folder.join(program)).find(is_program).map(PathBuf::into_os_string)
}

/// Returns a program with the links in its folder resolved: mpirun takes the folder above that of `/bin/mpirun` for where
/// it is installed.
fn without_links(program: &OsStr) -> OsString {
    let path = Path::new(program);
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let resolved = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name).into_os_string());
    resolved.unwrap_or_else(|| program.to_owned())
}

/// Turns the places of a process in our lists of CPUs and GPUs into what it is started with. If the CPUs are not those
/// that we should have, the kernel chooses.
fn bind(order: &mut Start, devices: &Devices, own: &[usize], variable: impl Fn(&str) -> Option<String>) {
    let text = |word: &str| Text(word.into());
    if let Some(places) = devices.cores.as_ref().filter(|places| !places.is_empty()) {
        let cpus: Option<Vec<usize>> = places.iter().map(|place| own.get(*place).copied()).collect();
        if devices.of_cores == Some(own.len()) {
            order.cpus = cpus.or_else(|| order.cpus.take());
            for (name, value) in BOUND.iter().filter(|(name, _)| variable(name).is_none()) {
                order.env.entry(text(name)).or_insert_with(|| text(value));
            }
        }
    }
    let Some(gpus) = &devices.gpus else { return };
    let named: Vec<&str> = GPU_VARIABLES.into_iter().filter(|name| variable(name).is_some()).collect();
    for name in if named.is_empty() { GPU_VARIABLES.to_vec() } else { named } {
        let value = variable(name).unwrap_or_default();
        let own: Vec<&str> = value.split(',').filter(|device| !device.is_empty()).collect();
        let chosen =
            gpus.iter().map(|place| own.get(*place).map_or_else(|| place.to_string(), |gpu| (*gpu).to_owned()));
        let chosen = chosen.collect::<Vec<_>>().join(",");
        order.env.entry(text(name)).or_insert_with(|| text(&chosen));
    }
}

/// Removes from the environment what Slurm says of the step of this process alone. To be called before there are threads.
pub fn forget_own_step() {
    let about_step = |name: &OsStr| {
        let name = name.to_string_lossy();
        ABOUT_OWN_STEP.iter().any(|beginning| name.starts_with(beginning))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| about_step(name)) {
        std::env::remove_var(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Start {
        let line = r#"{"name": "a", "command": ["a"], "env": {}, "folder": "/", "terminal": null, "hosted": [],
            "fork": false}"#;
        serde_json::from_str(line).unwrap()
    }

    fn env(order: &Start) -> Vec<(String, String)> {
        order.env.iter().map(|(name, value)| (name.shown().into_owned(), value.shown().into_owned())).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn threads_are_bound_as_the_site_says_if_it_does() {
        let mut started = order();
        let devices = Devices { cores: Some(vec![1]), of_cores: Some(2), gpus: None };
        bind(&mut started, &devices, &[4, 6], |name| (name == "OMP_PROC_BIND").then(|| "spread".to_owned()));
        assert_eq!(env(&started), [pair("OMP_PLACES", "cores")]);
        assert_eq!(started.cpus, Some(vec![6]));
    }

    #[test]
    fn the_kernel_chooses_where_the_cpus_are_not_those_of_the_job() {
        let mut started = order();
        let devices = Devices { cores: Some(vec![1]), of_cores: Some(8), gpus: None };
        bind(&mut started, &devices, &[4, 6], |_| None);
        assert_eq!((env(&started), started.cpus), (vec![], None));
    }

    #[test]
    fn gpus_are_named_as_the_batch_system_names_them() {
        let mut started = order();
        let devices = Devices { gpus: Some(vec![1, 2]), ..Devices::default() };
        bind(&mut started, &devices, &[0], |name| (name == "CUDA_VISIBLE_DEVICES").then(|| "GPU-a,GPU-b".to_owned()));
        assert_eq!(env(&started), [pair("CUDA_VISIBLE_DEVICES", "GPU-b,2")]);
        let mut started = order();
        bind(&mut started, &devices, &[0], |_| None);
        assert_eq!(env(&started), [pair("CUDA_VISIBLE_DEVICES", "1,2"), pair("ROCR_VISIBLE_DEVICES", "1,2")]);
    }

    #[test]
    fn an_order_of_which_nothing_is_known_is_an_error_that_shows_it() {
        let Err(problem) = Order::read(br#"{"n": 1, "do": "dance"}"#) else { panic!("it was understood") };
        assert!(problem.starts_with("\"do\" is \"dance\", expected "), "{problem}");
    }
}
