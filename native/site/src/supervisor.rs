//! The supervisor: a small process between `xmml-run` and the instances, so that nothing outlives the run.
//!
//! * It is a child subreaper: a process that an instance leaves behind, also one that detached itself, becomes its child
//!   and stays findable.
//! * Each instance is the leader of a process group and gets SIGKILL when the supervisor dies.
//! * A program for a Python interpreter may be started by the fork server ([`crate::fork_server`]), which has one ready.
//!   Its processes are the supervisor's children like all others; if it is gone, they are started as others.
//! * Its standard input is a socket to `xmml-run`. When that closes, however it came about, everything ends: SIGTERM, a
//!   grace of [`STOP_GRACE`], then SIGKILL.
//!
//! On the socket, both ways, each message is one line of JSON ([`crate::protocol`]).
//!
//! A process may host instances: it tells by a pipe (`XMML_REPORTS` in its environment) what they write and how they end,
//! as lines of JSON that are passed on. When it ends, so have those that it said nothing about.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{json, Map, Value};
use xmml_wire::wakeup::{Epoll, Interest, Ready};

use crate::fork_server::{Ends, ForkRequest, ForkServer};
use crate::lines::{complete_lines, shortened};
use crate::memory_group::MemoryGroup;
use crate::processes::descendants;
use crate::program::{self, Common, Program, Streams};
use crate::protocol::{Order, Report, Start};
use crate::run_folder;
use crate::signals::{ignore, Signals};
use crate::system::{close, name_of_error, raise_limit_of_descriptors, strerror};

/// How long instances have to end by themselves after the run has gone.
pub const STOP_GRACE: Duration = Duration::from_secs(1);
/// How long killed processes may take to disappear (a process in the kernel cannot be hurried).
const REAP_LIMIT: Duration = Duration::from_secs(2);
/// While more than this waits to be told to `xmml-run`, instances' output stays in their pipes.
const BACKLOG_LIMIT: usize = 4 * 1024 * 1024;
/// Longer lines are passed on in pieces.
const LONGEST_LINE: usize = 64 * 1024;
/// A report of a hosted instance, or an order, that is longer is none.
const LONGEST_MESSAGE: usize = 64 * 1024 * 1024;
const READ: usize = 64 * 1024;
/// How long `xmml-run` may take to read the last reports.
const LAST_REPORTS_WITHIN: Duration = Duration::from_millis(500);

/// What the supervisor ignores: it ends when it is told to, or when `xmml-run` is gone, not with the keys of a terminal.
/// A log that may not grow any more is an error of writing.
const IGNORED: [i32; 6] = [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTTOU, libc::SIGPIPE, libc::SIGXFSZ];
/// What an instance gets back: these, and what the supervisor handles.
const RESTORED: [i32; 8] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGTTOU,
    libc::SIGPIPE,
    libc::SIGTERM,
    libc::SIGCHLD,
    libc::SIGXFSZ,
];

const CONTROL: u64 = 0;
const SIGNALS: u64 = 1;
const FORK_SERVER: u64 = 2;
/// The first token of what comes and goes.
const FIRST_FREE: u64 = 3;

/// Which stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stdout,
    Stderr,
    /// What a process tells about the instances in it; it has no log.
    Reports,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Stdout => "stdout",
            Kind::Stderr => "stderr",
            Kind::Reports => "reports",
        }
    }
}

/// A pipe from a process that is being started, and the log that it is written to.
struct Pipe {
    kind: Kind,
    read: File,
    write: OwnedFd,
    log: Option<File>,
}

/// The working folder and the pipes of a process that is being started; `error` is the one for the number of an error, of one that is
/// forked.
struct Pipes {
    folder: OwnedFd,
    streams: Vec<Pipe>,
    error: Option<(File, OwnedFd)>,
}

impl Pipes {
    fn write_end(&self, kind: Kind) -> Option<RawFd> {
        self.streams.iter().find(|pipe| pipe.kind == kind).map(|pipe| pipe.write.as_raw_fd())
    }
}

impl Ends for Pipes {
    fn of_process(&self) -> Vec<RawFd> {
        let error = self.error.as_ref().map(|(_, write)| write.as_raw_fd());
        let (stdout, stderr) = (self.write_end(Kind::Stdout), self.write_end(Kind::Stderr));
        let folder = Some(self.folder.as_raw_fd());
        [stdout, stderr, error, folder, self.write_end(Kind::Reports)].into_iter().flatten().collect()
    }
}

/// A captured stream of a process that was started: from a pipe to a log and, line by line, to `xmml-run`.
struct CapturedOutput {
    process: i32,
    instance: String,
    kind: Kind,
    pipe: File,
    log: Option<File>,
    path: String,
    rest: Vec<u8>,
}

/// A process that was started.
struct SupervisedProcess {
    name: String,
    /// A pipe that holds why its program did not start; `None`: it has.
    exec_error: Option<File>,
    /// The instances in it that have not ended.
    hosted: Vec<String>,
    streams: Vec<u64>,
}

/// How a process has ended.
struct End {
    status: Option<i32>,
    signal: Option<i32>,
    cpu_s: f64,
    memory_bytes: i64,
}

/// Starts, captures, signals, reaps.
pub struct Supervisor {
    control: UnixStream,
    signals: Signals,
    epoll: Epoll,
    memory: MemoryGroup,
    environ: BTreeMap<OsString, OsString>,
    open_files: libc::rlimit,
    incoming: Vec<u8>,
    outgoing: VecDeque<u8>,
    interest: Interest,
    processes: HashMap<i32, SupervisedProcess>,
    /// The process of each instance, and of each process by its own name.
    by_name: HashMap<String, i32>,
    streams: HashMap<u64, CapturedOutput>,
    /// Processes that have joined, below those of instances.
    joined: HashMap<u64, (String, OwnedFd)>,
    next_token: u64,
    remove: Vec<OsString>,
    is_paused: bool,
    is_quitting: bool,
    problem: Option<String>,
    fork_server: Option<ForkServer<Pipes>>,
    /// What has ended while the fork server had not told of all that it started.
    unclaimed: HashMap<i32, End>,
}

impl Supervisor {
    /// Makes this process a supervisor for the process at the other end of a socket.
    ///
    /// # Errors
    /// The system refuses what it needs.
    pub fn new(control: UnixStream) -> io::Result<Supervisor> {
        let signals = Signals::take_over(&[libc::SIGCHLD, libc::SIGTERM])?;
        ignore(&IGNORED);
        control.set_nonblocking(true)?;
        let epoll = Epoll::new()?;
        epoll.add(control.as_raw_fd(), CONTROL, Interest::READ)?;
        epoll.add(signals.as_raw_fd(), SIGNALS, Interest::READ)?;
        Ok(Supervisor {
            control,
            signals,
            epoll,
            memory: MemoryGroup::own(),
            environ: std::env::vars_os().collect(),
            // There are two pipes and two logs for each instance.
            open_files: raise_limit_of_descriptors()?,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            interest: Interest::READ,
            processes: HashMap::new(),
            by_name: HashMap::new(),
            streams: HashMap::new(),
            joined: HashMap::new(),
            next_token: FIRST_FREE,
            remove: Vec::new(),
            is_paused: false,
            is_quitting: false,
            problem: None,
            fork_server: None,
            unclaimed: HashMap::new(),
        })
    }

    /// Serves until told to quit, or until `xmml-run` is gone; then leaves no process behind.
    ///
    /// # Errors
    /// It was told something that is no order; the text says what.
    pub fn run(mut self) -> Result<(), String> {
        // SAFETY: it takes numbers alone.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
        let mut ready = Vec::new();
        while !self.is_quitting {
            if let Err(error) = self.epoll.wait(&mut ready, None) {
                self.problem = Some(format!("cannot wait for what happens: {error}"));
                break;
            }
            for each in &ready {
                self.on_ready(*each);
                self.regulate();
            }
        }
        self.end_everything();
        for path in &self.remove {
            remove(Path::new(path));
        }
        self.problem.map_or(Ok(()), Err)
    }

    fn on_ready(&mut self, ready: Ready) {
        match ready.token {
            CONTROL => self.on_control(ready),
            SIGNALS => self.on_signals(),
            FORK_SERVER => self.on_forked(),
            token if self.streams.contains_key(&token) => self.on_output(token),
            token => self.on_vanished(token),
        }
    }

    fn on_signals(&mut self) {
        while let Some(number) = self.signals.next() {
            self.is_quitting |= number == libc::SIGTERM;
        }
        self.reap();
    }

    fn on_control(&mut self, ready: Ready) {
        if ready.writable {
            self.flush();
        }
        if !ready.readable {
            return;
        }
        let mut chunk = [0; READ];
        let count = match self.control.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => 0,
            Ok(count) => count,
        };
        if count == 0 {
            if let Some(why) = self.memory.ran_out() {
                let _ = writeln!(io::stderr(), "xmml-run was killed: {why}");
            }
            self.is_quitting = true;
            return;
        }
        self.incoming.extend_from_slice(&chunk[..count]);
        for line in complete_lines(&mut self.incoming) {
            match Order::read(&line) {
                Ok(order) => self.obey(order),
                Err(problem) => self.fail(format!("an order from xmml-run is none: {problem}")),
            }
        }
        if self.incoming.len() > LONGEST_MESSAGE {
            self.fail(format!("an order from xmml-run does not end: {}", shortened(&self.incoming)));
        }
    }

    fn fail(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
        self.is_quitting = true;
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Start(start) => self.start(start),
            Order::Signal(signal) => {
                if let Some(pid) = self.by_name.get(&signal.name) {
                    signal_group(*pid, signal.signal);
                }
            }
            Order::Watch(watch) => self.watch_joined(watch.name, watch.pid),
            Order::Remove(remove) => self.remove.push(remove.path.0),
            Order::Quit => self.is_quitting = true,
        }
    }

    // --- starting ---------------------------------------------------------------------------------------------------

    /// Starts a process, captured or at the terminal, and reports it.
    fn start(&mut self, order: Box<Start>) {
        let folder = match run_folder::open_folder(Path::new(&order.folder.0)) {
            Err(error) => return self.tell_refused(&order, &error),
            Ok(folder) => folder,
        };
        match open_pipes(&order, folder) {
            Err((file, error)) => self.tell_unwritable(&order.name, &file, &error),
            Ok(pipes) if order.fork => self.fork(order, pipes),
            Ok(pipes) => self.start_directly(order, pipes),
        }
    }

    /// Starts a process without the fork server.
    fn start_directly(&mut self, order: Box<Start>, mut pipes: Pipes) {
        pipes.error = None;
        let mut environ = self.environ_of(&order);
        let kept = pipes.write_end(Kind::Reports);
        if let Some(kept) = kept {
            environ.retain(|(name, _)| name != "XMML_REPORTS");
            environ.push(("XMML_REPORTS".into(), kept.to_string().into()));
        }
        let command: Vec<&OsStr> = order.command.iter().map(|word| word.0.as_os_str()).collect();
        let streams = match &order.terminal {
            Some(path) => Streams::Terminal(&path.0),
            None => Streams::Captured {
                stdout: pipes.write_end(Kind::Stdout).unwrap_or(2),
                stderr: pipes.write_end(Kind::Stderr).unwrap_or(2),
            },
        };
        let program = Program {
            command: &command,
            environment: &environ,
            folder: Some(pipes.folder.as_raw_fd()),
            streams,
            kept,
            cpus: order.cpus.as_deref().filter(|cpus| !cpus.is_empty()),
        };
        match program::start(&program, self.common()) {
            Ok(pid) => self.take_up(&order, pid, pipes),
            Err(error) => self.tell_refused(&order, &error),
        }
    }

    fn tell_refused(&mut self, order: &Start, error: &io::Error) {
        let text = strerror(error);
        for name in order.hosted.iter().chain([&order.name]) {
            self.tell(&Report::Refused { name, error: &text, errno: name_of_error(error) });
        }
    }

    fn environ_of(&self, order: &Start) -> Vec<(OsString, OsString)> {
        let mut environ = self.environ.clone();
        environ.extend(order.env.iter().map(|(name, value)| (name.0.clone(), value.0.clone())));
        environ.into_iter().collect()
    }

    fn common(&self) -> Common<'static> {
        Common { defaults: &RESTORED, blocked: self.signals.blocked_before(), open_files: self.open_files }
    }

    /// Has the fork server start a process; starts it otherwise if it cannot.
    fn fork(&mut self, order: Box<Start>, mut pipes: Pipes) {
        let environ = self.environ_of(&order);
        if self.fork_server.is_none() {
            let started = ForkServer::start(&order, &environ, self.common());
            self.fork_server = started.ok().filter(|server| {
                let watched = |fd| self.epoll.add(fd, FORK_SERVER, Interest::READ);
                server.descriptor().is_some_and(|fd| watched(fd).is_ok())
            });
        }
        let Some(server) = self.fork_server.as_mut().filter(|server| server.descriptor().is_some()) else {
            return self.start_directly(order, pipes);
        };
        match pipe() {
            Ok(ends) => pipes.error = Some(ends),
            Err(_) => return self.start_directly(order, pipes),
        }
        match ForkRequest::new(order, pipes, &environ) {
            Ok(forking) => {
                server.waiting.push_back(forking);
                self.ask_fork_server();
            }
            Err((order, pipes)) => self.start_directly(order, pipes),
        }
    }

    /// Asks the fork server for what waits, and starts otherwise what it cannot be asked for.
    fn ask_fork_server(&mut self) {
        let refused = self.fork_server.as_mut().map(ForkServer::ask).unwrap_or_default();
        for each in refused {
            self.start_directly(each.order, each.ends);
        }
    }

    /// The fork server has started processes, or is gone.
    fn on_forked(&mut self) {
        while let Some(server) = &mut self.fork_server {
            let Some(answer) = server.answer() else { break };
            let Some(forked) = server.asked.remove(&answer.name) else { continue };
            self.ask_fork_server();
            self.take_up(&forked.order, answer.pid, forked.ends);
            if let Some(end) = self.unclaimed.remove(&answer.pid) {
                self.account(answer.pid, &end);
            }
        }
        let Some(server) = &mut self.fork_server else { return };
        if server.descriptor().is_none() {
            let left: Vec<_> = server.asked.drain().map(|(_, each)| each).chain(server.waiting.drain(..)).collect();
            for each in left {
                self.start_directly(each.order, each.ends);
            }
        }
        if self.fork_server.as_ref().is_none_or(|server| server.asked.is_empty()) {
            self.unclaimed.clear();
        }
    }

    /// From now on cares for a process that was started, and reports it.
    fn take_up(&mut self, order: &Start, pid: i32, pipes: Pipes) {
        let mut process = SupervisedProcess {
            name: order.name.clone(),
            exec_error: pipes.error.map(|(read, _)| read),
            hosted: order.hosted.clone(),
            streams: Vec::new(),
        };
        for pipe in pipes.streams {
            let path = match pipe.kind {
                Kind::Stdout => order.stdout.shown(),
                Kind::Stderr => order.stderr.shown(),
                Kind::Reports => "".into(),
            };
            let stream = CapturedOutput {
                process: pid,
                instance: order.name.clone(),
                kind: pipe.kind,
                pipe: pipe.read,
                log: pipe.log,
                path: path.into_owned(),
                rest: Vec::new(),
            };
            let token = self.token();
            if !self.is_paused {
                // It fails when the system has no memory: then the output stays in the pipe until the process has ended.
                let _ = self.epoll.add(stream.pipe.as_raw_fd(), token, Interest::READ);
            }
            process.streams.push(token);
            self.streams.insert(token, stream);
        }
        self.processes.insert(pid, process);
        self.by_name.insert(order.name.clone(), pid);
        self.by_name.extend(order.hosted.iter().map(|name| (name.clone(), pid)));
        self.tell(&Report::Started { name: &order.name, pid, process: None });
        for name in &order.hosted {
            self.tell(&Report::Started { name, pid, process: Some(&order.name) });
        }
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token - 1
    }

    // --- output -----------------------------------------------------------------------------------------------------

    /// A pipe holds something, or has ended.
    fn on_output(&mut self, token: u64) {
        let Some(mut stream) = self.streams.remove(&token) else { return };
        if self.copy_once(&mut stream, READ) {
            self.streams.insert(token, stream);
        } else {
            if let Some(process) = self.processes.get_mut(&stream.process) {
                process.streams.retain(|each| *each != token);
            }
            self.close_stream(stream);
        }
    }

    /// Moves what is in the pipe, up to a number of bytes; returns false at its end.
    fn copy_once(&mut self, stream: &mut CapturedOutput, most: usize) -> bool {
        let mut chunk = [0; READ];
        let count = match stream.pipe.read(&mut chunk[..most.min(READ)]) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        let chunk = &chunk[..count];
        self.write_log(stream, chunk);
        stream.rest.extend_from_slice(chunk);
        for line in complete_lines(&mut stream.rest) {
            if stream.kind == Kind::Reports {
                self.pass_on(stream, &line);
            } else {
                self.tell_line(stream, &line);
            }
        }
        let longest = if stream.kind == Kind::Reports { LONGEST_MESSAGE } else { LONGEST_LINE };
        if stream.rest.len() > longest {
            let rest = std::mem::take(&mut stream.rest);
            if stream.kind != Kind::Reports {
                self.tell_line(stream, &rest);
            }
        }
        true
    }

    /// Writes to the log; the first failure is reported, and the log given up.
    fn write_log(&mut self, stream: &mut CapturedOutput, chunk: &[u8]) {
        let Some(log) = &mut stream.log else { return };
        if let Err(error) = log.write_all(chunk) {
            stream.log = None;
            self.tell_unwritable(&stream.instance, &stream.path, &error);
        }
    }

    fn tell_unwritable(&mut self, name: &str, file: &str, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or_default();
        self.tell(&Report::Unwritable { name, file, error: &strerror(error), number });
    }

    fn tell_line(&mut self, stream: &CapturedOutput, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches('\r');
        self.tell(&Report::Output { name: &stream.instance, stream: stream.kind.name(), text });
    }

    /// Passes on what a process reports about an instance in it. What is no report comes from somebody else who has
    /// found the pipe.
    fn pass_on(&mut self, stream: &CapturedOutput, line: &[u8]) {
        let Ok(mut report) = serde_json::from_slice::<Map<String, Value>>(line) else { return };
        let (Some(name), Some(what)) = (text_of(&report, "name"), text_of(&report, "is")) else { return };
        let Some(process) = self.processes.get_mut(&stream.process) else { return };
        if name == process.name || self.by_name.get(&name) != Some(&stream.process) {
            return;
        }
        if what == "ended" {
            process.hosted.retain(|each| *each != name);
            self.by_name.remove(&name);
            let known = [
                ("signal", Value::Null),
                ("memory_bytes", json!(0)),
                ("process", json!(process.name)),
                ("with_process", json!(false)),
            ];
            report.extend(known.map(|(key, value)| (key.to_owned(), value)));
        }
        self.tell(&report);
    }

    /// Passes on an unfinished last line, and closes.
    fn close_stream(&mut self, stream: CapturedOutput) {
        if !stream.rest.is_empty() && stream.kind != Kind::Reports {
            self.tell_line(&stream, &stream.rest);
        }
        if let Some(Err(error)) = stream.log.map(close) {
            self.tell_unwritable(&stream.instance, &stream.path, &error);
        }
    }

    // --- processes below an instance's own --------------------------------------------------------------------------

    /// Tells when the process that has joined as an instance is gone, if it is not the instance's own, whose end is told
    /// anyway: it may be below a script that lives on.
    ///
    /// It is told by its number, which may be another's: in a container, or on another node. So it must be below the
    /// process of the instance; if it has ended, and nobody had waited for that before, that is told at once.
    fn watch_joined(&mut self, name: String, pid: i32) {
        let Some(own) = self.by_name.get(&name) else { return };
        if pid == *own || !descendants(*own, true).contains(&pid) {
            return;
        }
        // SAFETY: it takes numbers alone.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as RawFd;
        if fd < 0 {
            if io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
                self.tell(&Report::Vanished { name: &name });
            }
            return;
        }
        // SAFETY: the descriptor is new and nobody else's; the system closes it with its next program.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let token = self.token();
        if self.epoll.add(fd.as_raw_fd(), token, Interest::READ).is_ok() {
            self.joined.insert(token, (name, fd));
        }
    }

    /// A process that was watched has ended.
    fn on_vanished(&mut self, token: u64) {
        if let Some((name, _)) = self.joined.remove(&token) {
            self.tell(&Report::Vanished { name: &name });
        }
    }

    // --- ending -----------------------------------------------------------------------------------------------------

    /// Accounts for every process that has ended.
    fn reap(&mut self) {
        while let Some((pid, end)) = next_ended() {
            if self.processes.contains_key(&pid) {
                self.account(pid, &end);
            } else if self.fork_server.as_ref().is_some_and(|server| !server.asked.is_empty()) {
                self.unclaimed.insert(pid, end); // perhaps one that the fork server has not told of yet
            }
        }
    }

    /// Reports the end of a process, after everything it has written.
    fn account(&mut self, pid: i32, end: &End) {
        let streams = self.processes.get(&pid).map(|process| process.streams.clone()).unwrap_or_default();
        for token in streams {
            if let Some(stream) = self.streams.remove(&token) {
                self.drain(stream);
            }
        }
        let Some(process) = self.processes.remove(&pid) else { return };
        let failure = process.exec_error.map_or(0, read_number);
        let no_memory = lacking_memory(&mut self.memory, end);
        for name in process.hosted.iter().chain([&process.name]) {
            self.by_name.remove(name);
            let host = (*name != process.name).then_some(process.name.as_str());
            if failure != 0 {
                let error = io::Error::from_raw_os_error(failure);
                self.tell(&Report::Refused { name, error: &strerror(&error), errno: name_of_error(&error) });
                continue;
            }
            let (cpu_s, memory_bytes) = if host.is_some() { (0.0, 0) } else { (end.cpu_s, end.memory_bytes) };
            self.tell(&Report::Ended {
                name,
                status: end.status,
                signal: end.signal,
                cpu_s,
                memory_bytes,
                process: host,
                with_process: true,
                no_memory: no_memory.as_deref(),
            });
        }
    }

    /// Copies what an ended process has left in a pipe; a child of it that still holds it open is not waited for.
    fn drain(&mut self, mut stream: CapturedOutput) {
        let mut left = bytes_in(&stream.pipe);
        while left > 0 && self.copy_once(&mut stream, left) {
            left = left.saturating_sub(READ);
        }
        self.close_stream(stream);
    }

    /// Leaves no process behind: SIGTERM to the groups, a grace, SIGKILL to every descendant until there is none.
    fn end_everything(&mut self) {
        if let Some(server) = &mut self.fork_server {
            server.close();
        }
        for pid in self.processes.keys() {
            signal_group(*pid, libc::SIGTERM);
        }
        self.wait_for_children(STOP_GRACE, |this| this.processes.is_empty());
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let deadline = Instant::now() + REAP_LIMIT;
        while Instant::now() < deadline {
            let victims = descendants(own, false);
            if victims.is_empty() {
                break;
            }
            for pid in victims {
                // SAFETY: it takes numbers alone.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            self.wait_for_children(Duration::from_millis(100), |_| descendants(own, false).is_empty());
        }
        self.reap();
        let (front, back) = self.outgoing.as_slices();
        let last = [front, back].concat();
        let sent = self.control.set_nonblocking(false).and_then(|()| {
            self.control.set_write_timeout(Some(LAST_REPORTS_WITHIN))?;
            self.control.write_all(&last)
        });
        drop(sent); // nobody may read it
    }

    /// Reaps until something holds, at most for a time.
    fn wait_for_children(&mut self, limit: Duration, until: impl Fn(&Supervisor) -> bool) {
        let deadline = Instant::now() + limit;
        self.reap();
        while !until(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.signals.wait(left);
            self.reap();
        }
    }

    // --- telling ----------------------------------------------------------------------------------------------------

    /// Sends a report; what the socket does not take at once goes later.
    fn tell(&mut self, what: &impl serde::Serialize) {
        if let Ok(mut line) = serde_json::to_vec(what) {
            line.push(b'\n');
            self.outgoing.extend(line);
        }
        self.flush();
    }

    fn flush(&mut self) {
        while !self.outgoing.is_empty() {
            match self.control.write(self.outgoing.as_slices().0) {
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.outgoing.clear();
                    self.is_quitting = true;
                }
            }
        }
    }

    /// Waits for room in the socket as long as something is to be sent; slows down the instances while too much is: their
    /// output stays in their pipes, which makes them wait.
    fn regulate(&mut self) {
        if self.is_quitting {
            return;
        }
        let write = !self.outgoing.is_empty();
        if write != self.interest.write {
            self.interest.write = write;
            if let Err(error) = self.epoll.change(self.control.as_raw_fd(), CONTROL, self.interest) {
                self.fail(format!("cannot watch the socket to xmml-run: {error}"));
            }
        }
        let is_paused = self.outgoing.len() > BACKLOG_LIMIT;
        if is_paused != self.is_paused {
            self.is_paused = is_paused;
            for (token, stream) in &self.streams {
                if is_paused {
                    self.epoll.remove(stream.pipe.as_raw_fd());
                } else {
                    let _ = self.epoll.add(stream.pipe.as_raw_fd(), *token, Interest::READ);
                }
            }
        }
    }
}

fn text_of(report: &Map<String, Value>, key: &str) -> Option<String> {
    report.get(key)?.as_str().map(str::to_owned)
}

/// Opens what a process needs; tells which file it was if that fails.
fn open_pipes(order: &Start, folder: OwnedFd) -> Result<Pipes, (String, io::Error)> {
    let mut streams = Vec::new();
    let named = |kind| match kind {
        Kind::Stdout if order.terminal.is_none() => Some(&order.stdout),
        Kind::Stderr if order.terminal.is_none() => Some(&order.stderr),
        _ => None,
    };
    for kind in [Kind::Stdout, Kind::Stderr, Kind::Reports] {
        let log = match named(kind) {
            Some(path) => {
                let opened = run_folder::open(Path::new(&path.0), libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT);
                Some(opened.map(File::from).map_err(|error| (path.shown().into_owned(), error))?)
            }
            None if kind == Kind::Reports && !order.hosted.is_empty() => None,
            None => continue,
        };
        let (read, write) = pipe().map_err(|error| (order.folder.shown().into_owned(), error))?;
        // SAFETY: the descriptor is open.
        unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        streams.push(Pipe { kind, read, write, log });
    }
    Ok(Pipes { folder, streams, error: None })
}

fn pipe() -> io::Result<(File, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written to `ends`, which are ours then.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Returns the number that a process has left in a pipe; 0: none.
fn read_number(mut pipe: File) -> i32 {
    let mut text = [0; 16];
    let count = pipe.read(&mut text).unwrap_or_default();
    std::str::from_utf8(&text[..count]).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn bytes_in(pipe: &File) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the number outlives the call.
    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    usize::try_from(count).unwrap_or_default()
}

/// Returns the next process that has ended and nobody has waited for.
fn next_ended() -> Option<(i32, End)> {
    let mut status = 0;
    // SAFETY: a structure of numbers may be zero; both outlive the call.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    (pid > 0).then(|| {
        let end = End {
            status: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            cpu_s: ((seconds(usage.ru_utime) + seconds(usage.ru_stime)) * 1e6).round() / 1e6,
            memory_bytes: usage.ru_maxrss * 1024,
        };
        (pid, end)
    })
}

/// Returns for want of which memory a process was killed, or another one while it failed.
fn lacking_memory(memory: &mut MemoryGroup, end: &End) -> Option<String> {
    // A shell whose program was killed ends with 128 and the number of the signal.
    let was_killed = end.signal == Some(libc::SIGKILL) || end.status == Some(128 + libc::SIGKILL);
    if was_killed {
        memory.ran_out()
    } else if end.status == Some(0) {
        None
    } else {
        memory.ran_out_beside()
    }
}

/// Sends a signal to everything in the process group of a process, if it still runs.
fn signal_group(pid: i32, number: i32) {
    // SAFETY: it takes numbers alone.
    unsafe { libc::killpg(pid, number) };
}

/// Removes a file, or a folder with everything in it.
fn remove(path: &Path) {
    let gone = if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    drop(gone); // what cannot be removed stays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_killed_is_said_to_lack_memory() {
        let folder = std::env::temp_dir().join(format!("xmml-memory-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("listed"), "0::/\n").unwrap();
        let end = |status, signal| End { status, signal, cpu_s: 0.0, memory_bytes: 0 };
        let machine = "this machine had no memory left".to_owned();
        for (killed, is_certain) in [
            (end(None, Some(libc::SIGKILL)), true),
            (end(Some(128 + libc::SIGKILL), None), true),
            (end(Some(3), None), false),
        ] {
            fs::write(folder.join("memory.events"), "oom_kill 0\n").unwrap();
            let mut memory = MemoryGroup::find(&folder, &folder.join("listed"));
            fs::write(folder.join("memory.events"), "oom_kill 1\n").unwrap();
            let beside = lacking_memory(&mut memory, &end(Some(3), None)).unwrap();
            assert!(beside.starts_with("another process, perhaps a child of it, was killed meanwhile: "), "{beside}");
            assert_eq!(lacking_memory(&mut memory, &end(Some(0), None)), None);
            assert_eq!(lacking_memory(&mut memory, &killed), is_certain.then(|| machine.clone()));
            assert_eq!(lacking_memory(&mut memory, &end(Some(3), None)), None);
            let last = lacking_memory(&mut memory, &end(None, Some(libc::SIGKILL)));
            assert_eq!(last, (!is_certain).then(|| machine.clone()));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
