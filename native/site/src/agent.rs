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
//! a second time (after a connection broke) is not obeyed again. What is no [`AgentOrder`] goes to the supervisor unchanged.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::agent_handshake::SECRET;
use crate::agent_listener::AgentListener;
use crate::agent_protocol::{AgentOrder, AgentReport};
use crate::binding::{Devices, OwnDevices};
use crate::cpu_leases::CpuLeases;
use crate::lines::{append, json_line, Tail};
use crate::noted_process::NotedProcess;
use crate::polling::{Lease, Pauses, Polling, LEASE_EVERY};
use crate::protocol::{Report, Start, Text, Told};
use crate::search_path::{found_on, without_links, DEFAULT_PATH};
use crate::signals::{ignore, Signals};
use crate::system::{host_name, poll, strerror, For};
use crate::working_folder::WorkingFolder;

/// When the reports of a job have grown so large, output is not passed on any more; the logs at the site have all of it.
const MOST_REPORTED: usize = 512 * 1024 * 1024;
/// How the supervisor's reports of output begin.
const OUTPUT: &[u8] = br#"{"is":"output""#;
const READ: usize = 256 * 1024;

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
    pending: VecDeque<AgentOrder>,
    reported: usize,
    is_killed: bool,
    cannot_write: bool,
    polling: Polling,
    signals: Signals,
    listener: AgentListener,
    leases: CpuLeases,
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
            listener: AgentListener::new()?,
            leases: CpuLeases::of_this_machine(),
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
        let secret = self.folder.join(SECRET);
        let _ = fs::remove_file(&secret); // of a job that has begun once more
        let written = append(&secret, self.listener.secret().as_bytes());
        let written = written.and(NotedProcess::note_own(&self.folder.join("agent")));
        self.cannot_write = written.is_err();
        let variable = |name| std::env::var(name).unwrap_or_default();
        let nodes = std::env::var("XMML_NODES").unwrap_or_else(|_| host.clone());
        let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        self.tell(&AgentReport::Ready {
            host: &host,
            port: self.listener.port().map_err(|error| strerror(&error))?,
            pid: std::process::id(),
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
        self.tell(&AgentReport::Over);
        Ok(status)
    }

    /// Reports something of its own.
    fn tell(&mut self, what: &impl Serialize) {
        if let Ok(line) = json_line(what) {
            self.report(&line);
        }
    }

    /// Adds to the reports. If that cannot be done (the disk is full), nothing more is reported, and the job ends.
    fn report(&mut self, lines: &[u8]) {
        if self.cannot_write {
            return;
        }
        self.cannot_write = append(&self.reports, lines).is_err();
        self.listener.notify();
    }

    /// Waits until there may be orders, a signal has come, a moment is there, or the supervisor says something; returns
    /// whether that was so.
    fn await_something(&mut self, supervisor: Option<&UnixStream>, until: Option<Instant>) -> Result<bool, String> {
        let now = Instant::now();
        let left = until.map_or(LEASE_EVERY, |until| until.saturating_duration_since(now));
        let limit = self.polling.due_in(now).min(left).min(LEASE_EVERY);
        let mut watched = vec![For::Reading(self.signals.as_raw_fd())];
        watched.extend(self.listener.awaited());
        watched.extend(supervisor.map(|supervisor| For::Reading(supervisor.as_raw_fd())));
        let ready = poll(&watched, limit).map_err(|error| format!("cannot wait for orders: {}", strerror(&error)))?;
        while let Some(number) = self.signals.next() {
            self.is_killed |= number == libc::SIGTERM;
        }
        self.polling.has_news |= self.listener.serve(&ready[1..]);
        Ok(supervisor.is_some() && ready.last() == Some(&true))
    }

    /// Returns the next order that has not been obeyed yet.
    fn next_order(&mut self) -> Result<Option<AgentOrder>, String> {
        let now = Instant::now();
        if self.pending.is_empty() && self.polling.due_in(now).is_zero() {
            // A file system that is slow or fails at the moment may answer later.
            let lines = self.orders.lines().unwrap_or_default();
            self.polling.polled(now, !lines.is_empty());
            for (_, line) in lines {
                let (number, order) = AgentOrder::read(&line)
                    .map_err(|problem| format!("an order of the launcher is none: {problem}"))?;
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
                    AgentOrder::Go => return Ok(None),
                    AgentOrder::Abort => return Ok(Some(Status::Aborted)),
                    AgentOrder::Hold(seconds) => {
                        let longer = Duration::try_from_secs_f64(seconds).map_err(|error| format!("hold: {error}"))?;
                        let longer = Instant::now().checked_add(longer);
                        (until, is_held) = (longer.ok_or_else(|| format!("hold: {seconds} s are too many"))?, true);
                    }
                    _ => {} // nobody is there to do it
                }
            }
            let now = Instant::now();
            if is_held && self.lease.has_expired(now) {
                self.tell(&AgentReport::LeaseOver); // who held us will not come back in time
                return Ok(Some(Status::LeaseExpired));
            }
            if now >= until {
                self.tell(&AgentReport::GivenUp);
                return Ok(Some(Status::GaveUp));
            }
            self.await_something(None, Some(until))?;
        }
        self.tell(&AgentReport::Killed);
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
                self.tell(&AgentReport::Killed); // before the news of those who were killed with us
            }
            if has_reports {
                match ours.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => {
                        rest.extend_from_slice(&buffer[..count]);
                        self.pass_on(&mut rest);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break, // it is gone
                }
            }
            while let Some(order) = self.next_order()? {
                match order {
                    AgentOrder::Abort => quit(&mut ours, &mut ends, Status::Aborted),
                    AgentOrder::Prepare(folder) => drop(self.prepare(&folder)),
                    AgentOrder::Start(start, folder, devices) => self.start(*start, &folder, &devices, &mut ours),
                    AgentOrder::Other(line) => pass(&mut ours, &line),
                    AgentOrder::Hold(_) | AgentOrder::Go => {}
                }
            }
            if ends.is_some() {
                continue;
            }
            if self.is_killed {
                quit(&mut ours, &mut ends, Status::Killed);
            } else if self.lease.has_expired(Instant::now()) {
                self.tell(&AgentReport::LeaseOver);
                quit(&mut ours, &mut ends, Status::LeaseExpired);
            } else if self.cannot_write {
                quit(&mut ours, &mut ends, Status::Unwritable);
            }
        }
        let _ = supervisor.wait(); // that it cannot be waited for means that it is gone
        self.tell(&AgentReport::Over);
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
    fn prepare(&mut self, folder: &WorkingFolder) -> bool {
        let Err((path, error)) = folder.make(&self.place.run.join("model")) else { return true };
        let (file, text) = (path.to_string_lossy().into_owned(), strerror(&error));
        let number = error.raw_os_error().unwrap_or_default();
        self.tell(&Report::Unwritable { name: &folder.name, file: &file, error: &text, number });
        false
    }

    fn start(&mut self, mut order: Start, folder: &WorkingFolder, devices: &Devices, supervisor: &mut UnixStream) {
        if !self.prepare(folder) {
            return;
        }
        if let Some(binding) = OwnDevices::of_this_process().bind(&mut order, devices, &mut self.leases) {
            let (cpus, reason) = match &binding {
                Ok(cpus) => (cpus.as_slice(), ""),
                Err(reason) => (&[][..], reason.as_str()),
            };
            self.tell(&AgentReport::Bound { name: &order.name, cpus, reason });
        }
        if let Some(program) = order.command.first_mut() {
            let path = order.env.get(&Text("PATH".into())).map(|path| path.0.clone()).or(std::env::var_os("PATH"));
            if let Some(found) = found_on(&program.0, &path.unwrap_or_default()) {
                program.0 = without_links(&found);
            }
        }
        if let Ok(line) = json_line(&Told::Start(&order)) {
            pass(supervisor, &line);
        }
    }
}

/// Tells the supervisor something. If it is gone, its end of the socket says so.
fn pass(supervisor: &mut UnixStream, line: &[u8]) {
    let _ = supervisor.write_all(line);
}

/// Has the supervisor end everything.
fn quit(supervisor: &mut UnixStream, ends: &mut Option<Status>, why: Status) {
    pass(supervisor, b"{\"do\": \"quit\"}\n");
    ends.get_or_insert(why);
}
