//! Starting programs without a copy of the process that starts them.
//!
//! A fork copies what this process has mapped, and each of the two then copies every page that it writes to, before the
//! copy is thrown away by exec. Here the new process borrows our memory until it has begun with its own program
//! (`CLONE_VM`), and we stand still for so long (`CLONE_VFORK`), so that nothing is copied; and what went wrong on the
//! way is known when the call returns.

use std::ffi::{c_char, c_int, c_void, CString, OsStr, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

/// Bytes of the stack on which the new process runs until it has its own program. A few calls of the system need no
/// more.
const STACK: usize = 64 * 1024;

/// What a new process reads and writes.
#[derive(Clone, Copy, Debug)]
pub enum Streams<'a> {
    /// It reads from nowhere, and writes to these descriptors.
    Captured {
        /// Its standard output.
        stdout: RawFd,
        /// Its standard error.
        stderr: RawFd,
    },
    /// It gets the terminal at this path, as its foreground.
    Terminal(&'a OsStr),
}

/// A program to be started.
pub struct Program<'a> {
    /// Its path, and its arguments.
    pub command: &'a [&'a OsStr],
    /// All of its environment.
    pub environment: &'a [(OsString, OsString)],
    /// Its working folder; `None`: that of this process.
    pub folder: Option<RawFd>,
    /// What it reads and writes.
    pub streams: Streams<'a>,
    /// Another descriptor that it gets, under the same number.
    pub kept: Option<RawFd>,
    /// The CPUs that it may use; `None`: the same as this process.
    pub cpus: Option<&'a [usize]>,
}

/// What all programs that this process starts have in common.
#[derive(Clone, Copy)]
pub struct Common<'a> {
    /// Signals that they do not ignore, whatever this process does.
    pub defaults: &'a [c_int],
    /// Signals that they block.
    pub blocked: libc::sigset_t,
    /// How many descriptors they may have, and to how many they may raise that.
    pub open_files: libc::rlimit,
}

/// What the new process is told. It lives in the memory of the process that starts it, which waits meanwhile.
struct StartRequest {
    command: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    folder: Option<RawFd>,
    outputs: [RawFd; 2],
    terminal: Option<CString>,
    kept: Option<RawFd>,
    cpus: Option<Vec<libc::c_ulong>>,
    defaults: Vec<c_int>,
    open_files: libc::rlimit,
    parent: libc::pid_t,
    blocked: libc::sigset_t,
    /// Why it did not start; written by the new process.
    failure: c_int,
}

/// Starts a program as a child of this process, and returns its process id.
///
/// It leads a process group, and is killed when the thread that started it ends.
///
/// # Errors
/// It cannot be started: what the system said; `EINVAL`: a text contains a 0 byte, or the command has no words.
pub fn start(program: &Program, common: Common) -> io::Result<libc::pid_t> {
    let command = program.command.iter().map(|word| text(word.as_bytes())).collect::<io::Result<Vec<CString>>>()?;
    if command.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let variables = program.environment.iter();
    let environment = variables
        .map(|(name, value)| text(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect::<io::Result<Vec<CString>>>()?;
    let (outputs, terminal) = match program.streams {
        Streams::Captured { stdout, stderr } => ([stdout, stderr], None),
        Streams::Terminal(path) => ([-1, -1], Some(text(path.as_bytes())?)),
    };
    let mut order = StartRequest {
        command: pointers(&command),
        environment: pointers(&environment),
        folder: program.folder,
        outputs,
        terminal,
        kept: program.kept,
        cpus: program.cpus.map(mask),
        defaults: common.defaults.to_vec(),
        open_files: common.open_files,
        // SAFETY: getpid has no preconditions.
        parent: unsafe { libc::getpid() },
        blocked: common.blocked,
        failure: 0,
    };
    begin(&mut order).map_err(io::Error::from_raw_os_error)
}

fn text(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The array of texts that execve wants; the texts must outlive it.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The set of CPUs as the kernel wants it, however many there are.
fn mask(cpus: &[usize]) -> Vec<libc::c_ulong> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut mask = vec![0; cpus.iter().max().map_or(1, |most| most / BITS + 1)];
    for cpu in cpus {
        mask[cpu / BITS] |= 1 << (cpu % BITS);
    }
    mask
}

/// Returns the process id, or the number of the error.
fn begin(order: &mut StartRequest) -> Result<libc::pid_t, c_int> {
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    // SAFETY: the sets are written by sigfillset and pthread_sigmask before they are read. The new process runs on the
    // upper end of `stack`, of which the ABI wants an aligned one, and, as CLONE_VFORK keeps this thread from going on
    // until it has ended or has another program, `stack` and `order` outlive its use of them. No handler of ours can run
    // in it: all signals are blocked until it has reset them.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut own: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut own);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = stack.as_mut_ptr().add(stack.capacity()).cast::<c_void>();
        let pid = libc::clone(become_program, top, flags, (&raw mut *order).cast());
        let failure = if pid < 0 { *libc::__errno_location() } else { order.failure };
        if pid > 0 && failure != 0 {
            // Nobody shall hear of it as of a child that has ended.
            while libc::waitpid(pid, std::ptr::null_mut(), 0) < 0 && *libc::__errno_location() == libc::EINTR {}
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const own, std::ptr::null_mut());
        match failure {
            0 => Ok(pid),
            number => Err(number),
        }
    }
}

/// What the new process does. It shares our memory, so it must not allocate, lock, or come back.
extern "C" fn become_program(order: *mut c_void) -> c_int {
    // SAFETY: `begin` passes its order, and waits. Nothing below uses more than numbers, and texts that live in it.
    unsafe {
        let order = &mut *order.cast::<StartRequest>();
        order.failure = execute(order);
        libc::_exit(127)
    }
}

/// Becomes the program; returns only if that fails, with the number of the error.
///
/// # Safety
/// To be called in the new process alone.
unsafe fn execute(order: &StartRequest) -> c_int {
    // SAFETY: the descriptors are this process's own copies; the texts end with a zero byte, the arrays of them with a
    // null pointer; the set of CPUs is as long as is said.
    unsafe {
        let is_set = libc::setpgid(0, 0) == 0
            && attach(order)
            && order.kept.is_none_or(|kept| libc::fcntl(kept, libc::F_SETFD, 0) == 0)
            && order
                .cpus
                .as_ref()
                .is_none_or(|cpus| libc::sched_setaffinity(0, size_of_val(cpus.as_slice()), cpus.as_ptr().cast()) == 0)
            && libc::setrlimit(libc::RLIMIT_NOFILE, &raw const order.open_files) == 0
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
            && order.folder.is_none_or(|folder| libc::fchdir(folder) == 0);
        if is_set {
            if libc::getppid() != order.parent {
                libc::_exit(127);
            }
            for number in &order.defaults {
                libc::signal(*number, libc::SIG_DFL);
            }
            libc::sigprocmask(libc::SIG_SETMASK, &raw const order.blocked, std::ptr::null_mut());
            libc::execve(order.command[0], order.command.as_ptr(), order.environment.as_ptr());
        }
        *libc::__errno_location()
    }
}

/// Gives the new process its standard streams; returns whether that worked.
///
/// # Safety
/// As [`execute`].
unsafe fn attach(order: &StartRequest) -> bool {
    // SAFETY: as in `execute`.
    unsafe {
        if let Some(path) = &order.terminal {
            let terminal = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            // The foreground, so that a debugger gets the keys.
            return terminal >= 0
                && libc::tcsetpgrp(terminal, libc::getpgrp()) == 0
                && (0..3).all(|number| libc::dup2(terminal, number) == number);
        }
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        nothing >= 0
            && libc::dup2(nothing, 0) == 0
            && libc::dup2(order.outputs[0], 1) == 1
            && libc::dup2(order.outputs[1], 2) == 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_cpus_is_as_long_as_its_last_one_needs() {
        assert_eq!(mask(&[0, 3]), [0b1001]);
        assert_eq!(mask(&[64]), [0, 1]);
    }
}
