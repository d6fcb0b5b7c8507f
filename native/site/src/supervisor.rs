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

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{json, Map, Value};
use xmml_wire::wakeup::{Epoll, Interest, Ready};

use crate::captured_output::{Captured, CapturedOutput};
use crate::fork_server::{ForkRequest, ForkServer};
use crate::memory_group::MemoryGroup;
use crate::process_end::ProcessEnd;
use crate::process_pipes::{ErrorPipe, PipeKind, ProcessPipes};
use crate::processes::descendants;
use crate::program::{self, Common, Program, Streams};
use crate::protocol::{Order, Report, Start};
use crate::run_folder;
use crate::run_socket::RunSocket;
use crate::signals::{ignore, Signals};
use crate::supervised_processes::SupervisedProcesses;
use crate::system::{name_of_error, raise_limit_of_descriptors, strerror};

/// How long instances have to end by themselves after the run has gone.
pub const STOP_GRACE: Duration = Duration::from_secs(1);
/// How long killed processes may take to disappear (a process in the kernel cannot be hurried).
const REAP_LIMIT: Duration = Duration::from_secs(2);
/// While more than this waits to be told to `xmml-run`, instances' output stays in their pipes.
const BACKLOG_LIMIT: usize = 4 * 1024 * 1024;

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

/// Starts, captures, signals, reaps.
pub struct Supervisor {
    socket: RunSocket,
    signals: Signals,
    epoll: Epoll,
    memory: MemoryGroup,
    environ: BTreeMap<OsString, OsString>,
    open_files: libc::rlimit,
    processes: SupervisedProcesses,
    streams: HashMap<u64, CapturedOutput>,
    /// Processes that have joined, below those of instances.
    joined: HashMap<u64, (String, OwnedFd)>,
    next_token: u64,
    remove: Vec<OsString>,
    is_paused: bool,
    is_quitting: bool,
    problem: Option<String>,
    fork_server: Option<ForkServer<ProcessPipes>>,
    /// What has ended while the fork server had not told of all that it started.
    unclaimed: HashMap<i32, ProcessEnd>,
}

impl Supervisor {
    /// Makes this process a supervisor for the process at the other end of a socket.
    ///
    /// # Errors
    /// The system refuses what it needs.
    pub fn new(control: UnixStream) -> io::Result<Supervisor> {
        let signals = Signals::take_over(&[libc::SIGCHLD, libc::SIGTERM])?;
        ignore(&IGNORED);
        let epoll = Epoll::new()?;
        let socket = RunSocket::new(control, &epoll, CONTROL)?;
        epoll.add(signals.as_raw_fd(), SIGNALS, Interest::READ)?;
        Ok(Supervisor {
            socket,
            signals,
            epoll,
            memory: MemoryGroup::own(),
            environ: std::env::vars_os().collect(),
            // There are two pipes and two logs for each instance.
            open_files: raise_limit_of_descriptors()?,
            processes: SupervisedProcesses::default(),
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
        while !self.is_ending() {
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

    /// Returns whether to end: by order, by signal, or because `xmml-run` is gone.
    fn is_ending(&self) -> bool {
        self.is_quitting || self.socket.is_broken()
    }

    fn on_control(&mut self, ready: Ready) {
        if ready.writable {
            self.socket.flush();
        }
        if !ready.readable {
            return;
        }
        if !self.socket.receive() {
            if let Some(why) = self.memory.ran_out() {
                let _ = writeln!(io::stderr(), "xmml-run was killed: {why}");
            }
            self.is_quitting = true;
            return;
        }
        for order in self.socket.take_orders() {
            match order {
                Ok(order) => self.obey(order),
                Err(problem) => self.fail(problem),
            }
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
                if let Some(pid) = self.processes.pid_of(&signal.name) {
                    signal_group(pid, signal.signal);
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
        match ProcessPipes::open(&order, folder) {
            Err((file, error)) => self.tell_unwritable(&order.name, &file, &error),
            Ok(pipes) if order.fork => self.fork(order, pipes),
            Ok(pipes) => self.start_directly(order, pipes),
        }
    }

    /// Starts a process without the fork server.
    fn start_directly(&mut self, order: Box<Start>, mut pipes: ProcessPipes) {
        pipes.close_error_pipe();
        let mut environ = self.environ_of(&order);
        let kept = pipes.write_end(PipeKind::Reports);
        if let Some(kept) = kept {
            environ.retain(|(name, _)| name != "XMML_REPORTS");
            environ.push(("XMML_REPORTS".into(), kept.to_string().into()));
        }
        let command: Vec<&OsStr> = order.command.iter().map(|word| word.0.as_os_str()).collect();
        let streams = match &order.terminal {
            Some(path) => Streams::Terminal(&path.0),
            None => Streams::Captured {
                stdout: pipes.write_end(PipeKind::Stdout).unwrap_or(2),
                stderr: pipes.write_end(PipeKind::Stderr).unwrap_or(2),
            },
        };
        let program = Program {
            command: &command,
            environment: &environ,
            folder: Some(pipes.folder()),
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
            self.socket.send(&Report::Refused { name, error: &text, errno: name_of_error(error) });
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
    fn fork(&mut self, order: Box<Start>, mut pipes: ProcessPipes) {
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
        if pipes.open_error_pipe().is_err() {
            return self.start_directly(order, pipes);
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
    fn take_up(&mut self, order: &Start, pid: i32, pipes: ProcessPipes) {
        let (ends, exec_error) = pipes.into_read_ends();
        let mut streams = Vec::new();
        for end in ends {
            let stream = CapturedOutput::new(order, pid, end);
            let token = self.token();
            if !self.is_paused {
                // It fails when the system has no memory: then the output stays in the pipe until the process has ended.
                let _ = self.epoll.add(stream.as_raw_fd(), token, Interest::READ);
            }
            streams.push(token);
            self.streams.insert(token, stream);
        }
        self.processes.add(order, pid, exec_error, streams);
        self.socket.send(&Report::Started { name: &order.name, pid, process: None });
        for name in &order.hosted {
            self.socket.send(&Report::Started { name, pid, process: Some(&order.name) });
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
        if let Some(captured) = stream.read() {
            self.tell_captured(&stream, captured);
            self.streams.insert(token, stream);
        } else {
            self.processes.end_stream(token, stream.pid);
            self.close_stream(stream);
        }
    }

    fn tell_captured(&mut self, stream: &CapturedOutput, captured: Vec<Captured>) {
        for each in captured {
            match each {
                Captured::Line(line) if stream.kind == PipeKind::Reports => self.pass_on(stream, &line),
                Captured::Line(line) => {
                    let text = String::from_utf8_lossy(&line);
                    let (stream_name, text) = (stream.kind.name(), text.trim_end_matches('\r'));
                    self.socket.send(&Report::Output { name: &stream.name, stream: stream_name, text });
                }
                Captured::Unwritable(error) => self.tell_unwritable(&stream.name, &stream.path, &error),
            }
        }
    }

    fn tell_unwritable(&mut self, name: &str, file: &str, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or_default();
        self.socket.send(&Report::Unwritable { name, file, error: &strerror(error), number });
    }

    /// Passes on what a process reports about an instance in it. What is no report comes from somebody else who has
    /// found the pipe.
    fn pass_on(&mut self, stream: &CapturedOutput, line: &[u8]) {
        let Ok(mut report) = serde_json::from_slice::<Map<String, Value>>(line) else { return };
        let (Some(name), Some(what)) = (text_of(&report, "name"), text_of(&report, "is")) else { return };
        let Some(host) = self.processes.host_of(&name, stream.pid) else { return };
        if what == "ended" {
            let known = [
                ("signal", Value::Null),
                ("memory_bytes", json!(0)),
                ("process", json!(host)),
                ("with_process", json!(false)),
            ];
            report.extend(known.map(|(key, value)| (key.to_owned(), value)));
            self.processes.end_hosted(&name, stream.pid);
        }
        self.socket.send(&report);
    }

    /// Passes on an unfinished last line, and closes the log.
    fn close_stream(&mut self, mut stream: CapturedOutput) {
        let last = stream.finish();
        self.tell_captured(&stream, last);
    }

    // --- processes below an instance's own --------------------------------------------------------------------------

    /// Tells when the process that has joined as an instance is gone, if it is not the instance's own, whose end is told
    /// anyway: it may be below a script that lives on.
    ///
    /// It is told by its number, which may be another's: in a container, or on another node. So it must be below the
    /// process of the instance; if it has ended, and nobody had waited for that before, that is told at once.
    fn watch_joined(&mut self, name: String, pid: i32) {
        let Some(own) = self.processes.pid_of(&name) else { return };
        if pid == own || !descendants(own, true).contains(&pid) {
            return;
        }
        // SAFETY: it takes numbers alone.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as RawFd;
        if fd < 0 {
            if io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
                self.socket.send(&Report::Vanished { name: &name });
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
            self.socket.send(&Report::Vanished { name: &name });
        }
    }

    // --- ending -----------------------------------------------------------------------------------------------------

    /// Accounts for every process that has ended.
    fn reap(&mut self) {
        while let Some((pid, end)) = ProcessEnd::next() {
            if self.processes.contains(pid) {
                self.account(pid, &end);
            } else if self.fork_server.as_ref().is_some_and(|server| !server.asked.is_empty()) {
                self.unclaimed.insert(pid, end); // perhaps one that the fork server has not told of yet
            }
        }
    }

    /// Reports the end of a process, after everything it has written.
    fn account(&mut self, pid: i32, end: &ProcessEnd) {
        for token in self.processes.streams_of(pid) {
            if let Some(mut stream) = self.streams.remove(&token) {
                let left = stream.drain();
                self.tell_captured(&stream, left);
                self.close_stream(stream);
            }
        }
        let Some(process) = self.processes.remove(pid) else { return };
        let failure = process.exec_error.and_then(ErrorPipe::error);
        let no_memory = end.lacking_memory(&mut self.memory);
        for name in process.hosted.iter().chain([&process.name]) {
            let host = (*name != process.name).then_some(process.name.as_str());
            if let Some(error) = &failure {
                self.socket.send(&Report::Refused { name, error: &strerror(error), errno: name_of_error(error) });
                continue;
            }
            let (cpu_s, memory_bytes) = if host.is_some() { (0.0, 0) } else { (end.cpu_s, end.memory_bytes) };
            self.socket.send(&Report::Ended {
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

    /// Leaves no process behind: SIGTERM to the groups, a grace, SIGKILL to every descendant until there is none.
    fn end_everything(&mut self) {
        if let Some(server) = &mut self.fork_server {
            server.close();
        }
        for pid in self.processes.pids() {
            signal_group(pid, libc::SIGTERM);
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
        self.socket.send_last();
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

    // --- back-pressure ----------------------------------------------------------------------------------------------

    /// Waits for room in the socket as long as something is to be sent; slows down the instances while too much is: their
    /// output stays in their pipes, which makes them wait.
    fn regulate(&mut self) {
        if self.is_ending() {
            return;
        }
        if let Err(error) = self.socket.regulate(&self.epoll) {
            self.fail(format!("cannot watch the socket to xmml-run: {error}"));
        }
        let is_paused = self.socket.backlog() > BACKLOG_LIMIT;
        if is_paused != self.is_paused {
            self.is_paused = is_paused;
            for (token, stream) in &self.streams {
                if is_paused {
                    self.epoll.remove(stream.as_raw_fd());
                } else {
                    let _ = self.epoll.add(stream.as_raw_fd(), *token, Interest::READ);
                }
            }
        }
    }
}

fn text_of(report: &Map<String, Value>, key: &str) -> Option<String> {
    report.get(key)?.as_str().map(str::to_owned)
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
