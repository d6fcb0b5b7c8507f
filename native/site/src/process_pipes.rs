//! The pipes, logs and working folder of a process that is being started.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use crate::fork_server::Ends;
use crate::protocol::Start;
use crate::run_folder;

/// What a process writes to a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeKind {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
    /// Reports of the instances that it hosts. They have no log.
    Reports,
}

impl PipeKind {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            PipeKind::Stdout => "stdout",
            PipeKind::Stderr => "stderr",
            PipeKind::Reports => "reports",
        }
    }
}

/// The supervisor's end of a pipe from a process.
pub struct ReadEnd {
    /// What the process writes to the pipe.
    pub kind: PipeKind,
    /// The descriptor, which does not block.
    pub pipe: File,
    /// The log that the content of the pipe is written to; `None`: it has none.
    pub log: Option<File>,
}

/// The supervisor's end of the pipe by which a forked process says why its program did not start.
pub struct ErrorPipe(File);

impl ErrorPipe {
    /// Returns the error that the process has left in the pipe; `None`: its program has started.
    pub fn error(mut self) -> Option<io::Error> {
        let mut text = [0; 16];
        let count = self.0.read(&mut text).unwrap_or_default();
        let number = std::str::from_utf8(&text[..count]).ok()?.parse().ok()?;
        (number != 0).then(|| io::Error::from_raw_os_error(number))
    }
}

/// The working folder and the pipes of a process that is being started.
pub struct ProcessPipes {
    folder: OwnedFd,
    /// Each pipe, with the end of the process.
    streams: Vec<(ReadEnd, OwnedFd)>,
    /// The pipe for the number of an error, of a process that is forked.
    error: Option<(ErrorPipe, OwnedFd)>,
}

impl ProcessPipes {
    /// Opens what a process needs, besides its working folder.
    ///
    /// # Errors
    /// Returns the file that cannot be opened.
    pub fn open(order: &Start, folder: OwnedFd) -> Result<ProcessPipes, (String, io::Error)> {
        let mut streams = Vec::new();
        let named = |kind| match kind {
            PipeKind::Stdout if order.terminal.is_none() => Some(&order.stdout),
            PipeKind::Stderr if order.terminal.is_none() => Some(&order.stderr),
            _ => None,
        };
        for kind in [PipeKind::Stdout, PipeKind::Stderr, PipeKind::Reports] {
            let log = match named(kind) {
                Some(path) => {
                    let opened = run_folder::open(Path::new(&path.0), libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT);
                    Some(opened.map(File::from).map_err(|error| (path.shown().into_owned(), error))?)
                }
                None if kind == PipeKind::Reports && !order.hosted.is_empty() => None,
                None => continue,
            };
            let (pipe, write) = pipe().map_err(|error| (order.folder.shown().into_owned(), error))?;
            // SAFETY: the descriptor is open.
            unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
            streams.push((ReadEnd { kind, pipe, log }, write));
        }
        Ok(ProcessPipes { folder, streams, error: None })
    }

    /// Opens the pipe for the number of an error.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn open_error_pipe(&mut self) -> io::Result<()> {
        let (read, write) = pipe()?;
        self.error = Some((ErrorPipe(read), write));
        Ok(())
    }

    /// Closes the pipe for the number of an error.
    pub fn close_error_pipe(&mut self) {
        self.error = None;
    }

    /// Returns the working folder of the process.
    pub fn folder(&self) -> RawFd {
        self.folder.as_raw_fd()
    }

    /// Returns the end of a pipe that the process gets.
    pub fn write_end(&self, kind: PipeKind) -> Option<RawFd> {
        self.streams.iter().find(|(end, _)| end.kind == kind).map(|(_, write)| write.as_raw_fd())
    }

    /// Closes the ends of the process, which has started; returns those of the supervisor.
    pub fn into_read_ends(self) -> (Vec<ReadEnd>, Option<ErrorPipe>) {
        let streams = self.streams.into_iter().map(|(end, _)| end).collect();
        (streams, self.error.map(|(read, _)| read))
    }
}

impl Ends for ProcessPipes {
    fn of_process(&self) -> Vec<RawFd> {
        let error = self.error.as_ref().map(|(_, write)| write.as_raw_fd());
        let (stdout, stderr) = (self.write_end(PipeKind::Stdout), self.write_end(PipeKind::Stderr));
        let folder = Some(self.folder.as_raw_fd());
        [stdout, stderr, error, folder, self.write_end(PipeKind::Reports)].into_iter().flatten().collect()
    }
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
