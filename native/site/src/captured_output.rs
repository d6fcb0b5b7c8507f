//! The output of a process that was started: from a pipe to its log and, line by line, to `xmml-run`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

use crate::lines::complete_lines;
use crate::process_pipes::{PipeKind, ReadEnd};
use crate::protocol::Start;
use crate::system::close;

/// Longer lines are passed on in pieces.
const LONGEST_LINE: usize = 64 * 1024;
/// A report of a hosted instance that is longer is none.
const LONGEST_REPORT: usize = 64 * 1024 * 1024;
const READ: usize = 64 * 1024;

/// A captured stream of a process that was started.
pub struct CapturedOutput {
    /// The process.
    pub pid: i32,
    /// The name of its instance, or its own.
    pub name: String,
    /// Which stream it is.
    pub kind: PipeKind,
    /// The path of the log, for messages.
    pub path: String,
    pipe: File,
    log: Option<File>,
    rest: Vec<u8>,
}

/// What is to be reported of a stream.
#[derive(Debug)]
pub enum Captured {
    /// A line, or a piece of a long one.
    Line(Vec<u8>),
    /// The log cannot be written any more.
    Unwritable(io::Error),
}

impl CapturedOutput {
    /// Captures what the process of an order writes to a pipe.
    pub fn new(order: &Start, pid: i32, end: ReadEnd) -> CapturedOutput {
        let path = match end.kind {
            PipeKind::Stdout => order.stdout.shown(),
            PipeKind::Stderr => order.stderr.shown(),
            PipeKind::Reports => "".into(),
        };
        CapturedOutput {
            pid,
            name: order.name.clone(),
            kind: end.kind,
            path: path.into_owned(),
            pipe: end.pipe,
            log: end.log,
            rest: Vec::new(),
        }
    }

    /// Moves a part of what is in the pipe; returns what is to be reported, or nothing at the end of the pipe.
    pub fn read(&mut self) -> Option<Vec<Captured>> {
        self.read_up_to(READ)
    }

    /// Moves up to a number of bytes.
    fn read_up_to(&mut self, most: usize) -> Option<Vec<Captured>> {
        let mut chunk = [0; READ];
        let count = match self.pipe.read(&mut chunk[..most.min(READ)]) {
            Ok(0) => return None,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Some(Vec::new());
            }
            Err(_) => return None,
        };
        let mut captured = Vec::new();
        captured.extend(self.write_log(&chunk[..count]).map(Captured::Unwritable));
        self.rest.extend_from_slice(&chunk[..count]);
        captured.extend(complete_lines(&mut self.rest).into_iter().map(Captured::Line));
        let longest = if self.kind == PipeKind::Reports { LONGEST_REPORT } else { LONGEST_LINE };
        if self.rest.len() > longest {
            captured.extend(self.take_rest());
        }
        Some(captured)
    }

    /// Writes to the log, which is abandoned at the first failure; returns that.
    fn write_log(&mut self, chunk: &[u8]) -> Option<io::Error> {
        let failure = self.log.as_mut()?.write_all(chunk).err();
        if failure.is_some() {
            self.log = None;
        }
        failure
    }

    /// Takes an unfinished line, which is passed on unless it is of a report.
    fn take_rest(&mut self) -> Option<Captured> {
        let rest = std::mem::take(&mut self.rest);
        (self.kind != PipeKind::Reports && !rest.is_empty()).then_some(Captured::Line(rest))
    }

    /// Moves what an ended process has left in the pipe; a child of it that still holds the pipe open is not waited for.
    pub fn drain(&mut self) -> Vec<Captured> {
        let mut captured = Vec::new();
        let mut left = bytes_in(&self.pipe);
        while left > 0 {
            let Some(more) = self.read_up_to(left) else { break };
            captured.extend(more);
            left = left.saturating_sub(READ);
        }
        captured
    }

    /// Takes an unfinished last line, and closes the log.
    pub fn finish(&mut self) -> Vec<Captured> {
        let line = self.take_rest();
        let failure = self.log.take().and_then(|log| close(log).err());
        line.into_iter().chain(failure.map(Captured::Unwritable)).collect()
    }
}

impl AsRawFd for CapturedOutput {
    fn as_raw_fd(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }
}

fn bytes_in(pipe: &File) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the number outlives the call.
    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    usize::try_from(count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_pipes::ProcessPipes;

    /// The captured streams of a process whose logs are at these paths, and where it writes to them.
    fn captured(stdout: &str, stderr: &str) -> (Vec<CapturedOutput>, Vec<File>) {
        let line = format!(
            r#"{{"name": "a", "command": ["a"], "env": {{}}, "folder": "/", "stdout": "{stdout}", "stderr": "{stderr}",
                "terminal": null, "hosted": [], "fork": false}}"#
        );
        let order: Start = serde_json::from_str(&line).unwrap();
        let folder = File::open("/").unwrap().into();
        let pipes = ProcessPipes::open(&order, folder).unwrap();
        let kinds = [PipeKind::Stdout, PipeKind::Stderr];
        let writers = kinds.map(|kind| {
            File::options().write(true).open(format!("/proc/self/fd/{}", pipes.write_end(kind).unwrap())).unwrap()
        });
        let (ends, _) = pipes.into_read_ends();
        (ends.into_iter().map(|end| CapturedOutput::new(&order, 7, end)).collect(), writers.into())
    }

    fn lines(captured: Vec<Captured>) -> Vec<String> {
        let shown = |each| match each {
            Captured::Line(line) => String::from_utf8(line).unwrap(),
            Captured::Unwritable(error) => error.to_string(),
        };
        captured.into_iter().map(shown).collect()
    }

    #[test]
    fn output_is_passed_on_by_lines_and_an_unfinished_one_at_the_end() {
        let (mut outputs, mut writers) = captured("/dev/null", "/dev/null");
        writers[0].write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(lines(outputs[0].read().unwrap()), ["one", "two"]);
        assert!(outputs[0].read().unwrap().is_empty(), "the process still holds the pipe");
        writers[0].write_all(b"ee\nfour").unwrap();
        assert_eq!(lines(outputs[0].drain()), ["three"]);
        drop(writers);
        assert!(outputs[0].read().is_none());
        assert_eq!(lines(outputs[0].finish()), ["four"]);
    }

    #[test]
    fn a_long_line_is_passed_on_in_pieces() {
        let (mut outputs, mut writers) = captured("/dev/null", "/dev/null");
        let mut pieces = Vec::new();
        for _ in 0..3 {
            writers[1].write_all(&[b'x'; LONGEST_LINE / 2 + 1]).unwrap();
            pieces.extend(lines(outputs[1].read().unwrap()));
        }
        assert_eq!(pieces.iter().map(String::len).collect::<Vec<_>>(), [LONGEST_LINE + 2]);
        assert_eq!(lines(outputs[1].finish())[0].len(), LONGEST_LINE / 2 + 1);
    }

    #[test]
    fn that_a_log_cannot_be_written_is_reported_once_and_the_output_is_passed_on() {
        let (mut outputs, mut writers) = captured("/dev/full", "/dev/null");
        for number in 0..2 {
            writers[0].write_all(b"one\n").unwrap();
            let captured = outputs[0].read().unwrap();
            let is_told =
                matches!(&captured[0], Captured::Unwritable(error) if error.raw_os_error() == Some(libc::ENOSPC));
            assert_eq!(is_told, number == 0);
            assert!(matches!(captured.last(), Some(Captured::Line(line)) if line == b"one"));
        }
        assert!(outputs[0].finish().is_empty());
    }
}
