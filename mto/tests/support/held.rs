//! The program `mto` as a process that is held by its standard input, and what is done to it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

use super::Site;

pub fn mto() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mto"))
}

/// Relay keys of runs, of whose secrets nobody knows.
pub const KEY: &str = "relay-key:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
pub const OTHER: &str = "relay-key:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A folder of this test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("mto-program-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A relay that obeys its standard input.
pub struct Held {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub stdout: BufReader<ChildStdout>,
    pub started: Value,
}

impl Held {
    pub fn start(command: &mut Command) -> Held {
        Held::start_with(command, Stdio::null())
    }

    /// One whose standard error is this.
    pub fn start_with(command: &mut Command, stderr: Stdio) -> Held {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut held = Held { child, stdin, stdout, started: Value::Null };
        held.started = held.line();
        held
    }

    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a line of JSON: {line:?}"))
    }

    pub fn ask(&mut self, request: &Value) -> Value {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{request}").unwrap();
        self.line()
    }

    pub fn control(&self) -> String {
        self.started["control"].as_str().unwrap().to_owned()
    }

    /// It as a relay that listens, and logs to this file: streams can be opened there.
    pub fn site(&self, log: &Path) -> Site {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Site::of_program(text(&self.started["site"]), text(&self.started["listen"][0]), self.control(), log.to_owned())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn unique(name: &str) -> String {
    format!("t{}-{name}", std::process::id())
}

/// How long a process has worked [ticks of the clock].
pub fn worked(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Lets a process open so many descriptors more; it keeps those that it has, of which some may have high numbers.
pub fn leave_descriptors(process: u32, more: usize) {
    let number =
        |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
    let open: BTreeSet<u64> = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().map(number).collect();
    // The limit is not how many there are, it is above the numbers that are given.
    let last = (0..).filter(|number| !open.contains(number)).nth(more).unwrap();
    limit_descriptors(process, last);
}

/// Lets a process open as many descriptors as are usual.
pub fn leave_usual_descriptors(process: u32) {
    limit_descriptors(process, 1024);
}

fn limit_descriptors(process: u32, numbers: u64) {
    let limit = libc::rlimit { rlim_cur: numbers, rlim_max: 1024 };
    // SAFETY: the limit outlives the call; the one before is not asked for.
    let status =
        unsafe { libc::prlimit(process as libc::pid_t, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(status, 0);
}
