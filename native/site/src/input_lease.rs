//! The life of a program that serves a launcher over its standard input: it ends with that input, and with its lease.
//!
//! The end of the input alone is not enough: a network that is cut tells nobody, and sshd may keep the connection, with
//! the ports that it forwards, for hours. So the launcher sends something now and then, an empty line if it has nothing
//! else to say. A thread takes the input and passes it on, so that neither a file system nor an output that nobody reads
//! keeps the program from hearing it. Where much comes, the program reads its input itself ([`LeasedInput`]): a thread
//! would have to keep what the program has no room for.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::system::{poll, For};

/// How long the program may take to end when its input does. The launcher waits a second longer before it kills it
/// (`PROGRAM_ENDS_WITHIN_S`).
const ENDS_WITHIN: Duration = Duration::from_secs(3);
/// How many times in a lease the clock is looked at.
const LOOKS: u32 = 8;
const READ: usize = 64 * 1024;

/// What ends a program besides the end of its input.
#[derive(Clone, Copy, Debug)]
pub struct InputLease {
    /// IdleTimer for so long does.
    pub lasts: Duration,
    /// PID of the sshd that carries the connection. When the lease expires, it is terminated too; otherwise sshd keeps
    /// its forwarded ports open.
    pub connection: Option<i32>,
}

impl InputLease {
    /// Begins the lease; what comes over the standard input is read from its descriptor as before.
    ///
    /// Returns false if the standard input has already ended: the launcher no longer needs the program.
    ///
    /// # Errors
    /// The system gives no descriptors, or no thread.
    pub fn begin(self) -> io::Result<bool> {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (taken, output) = UnixStream::pair()?;
        let mut passage = Passage::new(input, output, self.lasts)?;
        if !passage.take_what_is_there()? {
            return Ok(false);
        }
        // SAFETY: both descriptors are open, and nobody reads from the first one at this time.
        if unsafe { libc::dup2(taken.as_raw_fd(), 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        thread::Builder::new().name("input".to_owned()).spawn(move || {
            block_signals();
            if passage.pass_on_until_the_end() == End::Lease {
                self.connection.into_iter().for_each(end_connection);
            }
            passage.finish(Instant::now() + ENDS_WITHIN);
            // SAFETY: it takes a number; whatever holds the program up is left where it is.
            unsafe { libc::_exit(1) };
        })?;
        Ok(true)
    }
}

/// A standard input that fails when nothing comes over it for a lease while somebody waits for that.
pub struct LeasedInput {
    input: File,
    idle: IdleTimer,
}

impl LeasedInput {
    /// An input that may be silent for so long.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new(lasts: Duration) -> io::Result<LeasedInput> {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(LeasedInput { input, idle: IdleTimer::new(lasts, Instant::now()) })
    }
}

impl Read for LeasedInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.idle.restart(Instant::now()); // whoever did not read has heard nothing either
        while !poll(&[For::Reading(self.input.as_raw_fd())], self.idle.look_every())?[0] {
            if self.idle.is_over(Instant::now()) {
                let text = format!("nothing has come from the launcher for {:?}", self.idle.lasts);
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
        self.input.read(into)
    }
}

/// Why nothing more is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Input,
    Lease,
}

/// From the input to the program.
struct Passage {
    input: File,
    output: Option<UnixStream>,
    pending: Vec<u8>,
    idle: IdleTimer,
}

impl Passage {
    fn new(input: File, output: UnixStream, lasts: Duration) -> io::Result<Passage> {
        output.set_nonblocking(true)?;
        let idle = IdleTimer::new(lasts, Instant::now());
        Ok(Passage { input, output: Some(output), pending: Vec::new(), idle })
    }

    /// Takes what has come by now; returns whether the input goes on.
    fn take_what_is_there(&mut self) -> io::Result<bool> {
        while poll(&[For::Reading(self.input.as_raw_fd())], Duration::ZERO)?[0] {
            if !self.take() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn pass_on_until_the_end(&mut self) -> End {
        loop {
            let mut watched = vec![For::Reading(self.input.as_raw_fd())];
            if let (Some(output), false) = (&self.output, self.pending.is_empty()) {
                watched.push(For::Writing(output.as_raw_fd()));
            }
            let has_come = poll(&watched, self.idle.look_every()).is_ok_and(|ready| ready[0]);
            if has_come && !self.take() {
                return End::Input;
            }
            if self.idle.is_over(Instant::now()) {
                return End::Lease;
            }
            self.give();
        }
    }

    /// Takes something; returns whether the input goes on.
    fn take(&mut self) -> bool {
        let mut chunk = [0; READ];
        match self.input.read(&mut chunk) {
            Ok(0) => return false,
            Ok(count) => self.pending.extend_from_slice(&chunk[..count]),
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        }
        self.idle.restart(Instant::now());
        true
    }

    /// Gives the program what it has room for.
    fn give(&mut self) {
        while let (Some(output), false) = (&mut self.output, self.pending.is_empty()) {
            match output.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pending.clear(), // it reads no more
            }
        }
    }

    /// Gives the program the rest and the end of its input, and waits that long for it to end.
    fn finish(&mut self, until: Instant) {
        let left = || until.saturating_duration_since(Instant::now());
        self.give();
        while let (Some(output), false, false) = (&self.output, self.pending.is_empty(), left().is_zero()) {
            let _ = poll(&[For::Writing(output.as_raw_fd())], left());
            self.give();
        }
        self.output = None;
        thread::sleep(left());
    }
}

/// Measures the time without input. Time in which this process was suspended does not count, because input may be waiting.
struct IdleTimer {
    lasts: Duration,
    began: Instant,
    looked_at: Instant,
}

impl IdleTimer {
    fn new(lasts: Duration, now: Instant) -> IdleTimer {
        IdleTimer { lasts, began: now, looked_at: now }
    }

    fn look_every(&self) -> Duration {
        self.lasts / LOOKS
    }

    /// Something has come: it begins anew.
    fn restart(&mut self, now: Instant) {
        (self.began, self.looked_at) = (now, now);
    }

    fn is_over(&mut self, now: Instant) -> bool {
        let unseen = now.saturating_duration_since(self.looked_at);
        if unseen > 2 * self.look_every() {
            self.began += unseen;
        }
        self.looked_at = now;
        now.saturating_duration_since(self.began) >= self.lasts
    }
}

/// The signals of the program are for its other threads.
fn block_signals() {
    // SAFETY: the set is initialised by sigfillset, and outlives the calls.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

/// Ends an sshd that is still the parent: until it notices that nobody is there, it keeps the ports that it forwards.
fn end_connection(parent: i32) {
    // SAFETY: it takes nothing.
    let is_parent = unsafe { libc::getppid() } == parent;
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    if is_parent && name.starts_with("sshd") {
        // SAFETY: it takes numbers alone.
        unsafe { libc::kill(parent, libc::SIGTERM) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::channel;

    const LASTS: Duration = Duration::from_secs(8);

    /// What the launcher writes into, the passage, and what the program reads from.
    fn passage(lasts: Duration) -> (UnixStream, Passage, UnixStream) {
        let (launcher, input) = UnixStream::pair().unwrap();
        let (program, output) = UnixStream::pair().unwrap();
        (launcher, Passage::new(File::from(OwnedFd::from(input)), output, lasts).unwrap(), program)
    }

    #[test]
    fn all_that_comes_is_passed_on_before_the_end() {
        let (mut launcher, mut passage, mut program) = passage(Duration::from_secs(3600));
        let sent = vec![b'x'; 4 << 20];
        let sends = sent.clone();
        let writing = thread::spawn(move || launcher.write_all(&sends).unwrap());
        // The program reads nothing yet, and its launcher is heard all the same.
        let (ended, end) = channel();
        // Behind the end it waits for the program, which here has none.
        thread::spawn(move || {
            ended.send(passage.pass_on_until_the_end()).unwrap();
            passage.finish(Instant::now() + Duration::from_secs(600));
        });
        writing.join().unwrap();
        let mut came = Vec::new();
        program.read_to_end(&mut came).unwrap();
        assert!(came == sent);
        assert_eq!(end.recv().unwrap(), End::Input);
    }

    #[test]
    fn silence_for_the_time_of_a_lease_is_the_end() {
        let (_launcher, mut passage, _program) = passage(Duration::from_millis(50));
        assert_eq!(passage.pass_on_until_the_end(), End::Lease);
    }

    #[test]
    fn an_input_that_has_ended_before_is_known_at_once() {
        let (launcher, mut passage, _program) = passage(LASTS);
        assert!(passage.take_what_is_there().unwrap());
        launcher.shutdown(Shutdown::Write).unwrap();
        assert!(!passage.take_what_is_there().unwrap());
    }

    #[test]
    fn a_program_that_does_not_read_is_waited_for_only_so_long() {
        let (mut launcher, mut passage, _program) = passage(LASTS);
        launcher.write_all(b"an order").unwrap();
        passage.pending = vec![0; 4 << 20];
        passage.finish(Instant::now() + Duration::from_millis(50));
        assert!(passage.output.is_none());
    }

    #[test]
    fn every_sign_begins_the_lease_anew() {
        let began = Instant::now();
        let mut idle = IdleTimer::new(LASTS, began);
        let mut over = Vec::new();
        for second in 1..40 {
            let now = began + Duration::from_secs(second);
            if idle.is_over(now) {
                over.push(second);
            }
            if second <= 28 && second % 7 == 0 {
                idle.restart(now);
            }
        }
        assert_eq!(over, [36, 37, 38, 39]);
    }

    #[test]
    fn time_in_which_the_program_did_not_run_is_no_silence() {
        let began = Instant::now();
        let mut idle = IdleTimer::new(LASTS, began);
        let stopped = began + Duration::from_secs(2);
        assert!(!idle.is_over(stopped));
        let goes_on = stopped + Duration::from_secs(1000);
        assert!(!idle.is_over(goes_on));
        let mut over = (1..=8).map(|second| idle.is_over(goes_on + Duration::from_secs(second)));
        assert_eq!(over.position(|is_over| is_over), Some(5));
    }
}
