//! Starting programs without a copy of the process that starts them.
//!
//! A fork copies what the interpreter has mapped, and each of the two then copies every page that it writes to, before the copy is thrown
//! away by exec. Here the new process borrows our memory until it has begun with its own program (`CLONE_VM`), and we stand still for so
//! long (`CLONE_VFORK`), so that nothing is copied; and what went wrong on the way is known when the call returns.

use std::ffi::{c_char, c_int, c_void, CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Bytes of the stack on which the new process runs until it has its own program. A few calls of the system need no more.
const STACK: usize = 64 * 1024;

/// What the new process is told. It lives in the memory of the process that starts it, which waits meanwhile.
struct Order {
    command: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    folder: CString,
    outputs: (c_int, c_int),
    kept: Option<c_int>,
    defaults: Vec<c_int>,
    open_files: libc::rlimit,
    parent: libc::pid_t,
    signals: libc::sigset_t,
    /// Why it did not start; written by the new process.
    failure: c_int,
}

/// Start a program as a child of this process, and return its process id.
///
/// It leads a process group, reads from nowhere, and is killed when the thread that started it ends. Unlike fork, this
/// copies nothing of the calling process, which stands still until the program has begun.
///
/// Args:
///     command: the path of the program, and its arguments.
///     environment: all of it.
///     folder: its working folder.
///     outputs: descriptors of its standard output and standard error.
///     kept: another descriptor that it gets, under the same number.
///     defaults: numbers of signals that it does not ignore, whatever this process does.
///     open_files: how many descriptors it may have, and to how many it may raise that.
///
/// Raises:
///     OSError: it cannot be started; `errno` says why.
///     ValueError: a text contains a 0 byte, or the command has no words.
#[pyfunction]
pub fn start_program(
    command: Vec<OsString>,
    environment: &Bound<'_, PyDict>,
    folder: OsString,
    outputs: (c_int, c_int),
    kept: Option<c_int>,
    defaults: Vec<c_int>,
    open_files: (u64, u64),
) -> PyResult<libc::pid_t> {
    let command = command.iter().map(|word| text(word.as_bytes())).collect::<PyResult<Vec<CString>>>()?;
    if command.is_empty() {
        return Err(PyValueError::new_err("the command has no words"));
    }
    let environment = environment
        .iter()
        .map(|(name, value)| {
            let (name, value) = (name.extract::<OsString>()?, value.extract::<OsString>()?);
            text(&[name.as_bytes(), b"=", value.as_bytes()].concat())
        })
        .collect::<PyResult<Vec<CString>>>()?;
    let mut order = Order {
        command: pointers(&command),
        environment: pointers(&environment),
        folder: text(folder.as_bytes())?,
        outputs,
        kept,
        defaults,
        open_files: libc::rlimit { rlim_cur: open_files.0, rlim_max: open_files.1 },
        // SAFETY: getpid has no preconditions.
        parent: unsafe { libc::getpid() },
        // SAFETY: a set of signals is numbers.
        signals: unsafe { std::mem::zeroed() },
        failure: 0,
    };
    start(&mut order).map_err(|number| {
        // SAFETY: strerror returns a text that stays until it is called again, for which others need the interpreter that we hold.
        let reason = unsafe { CStr::from_ptr(libc::strerror(number)) };
        PyOSError::new_err((number, reason.to_string_lossy().into_owned()))
    })
}

fn text(bytes: &[u8]) -> PyResult<CString> {
    CString::new(bytes).map_err(|_| PyValueError::new_err("embedded null byte"))
}

/// The array of texts that execve wants; the texts must outlive it.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Returns the process id, or the number of the error.
fn start(order: &mut Order) -> Result<libc::pid_t, c_int> {
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    // SAFETY: the set is written by sigfillset before it is read. The new process runs on the upper end of
    // `stack`, of which the ABI wants an aligned one, and, as CLONE_VFORK keeps this thread from going on until it has ended or has
    // another program, `stack` and `order` outlive its use of them. No handler of ours can run in it: all signals are blocked until it has
    // reset them.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut order.signals);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = stack.as_mut_ptr().add(stack.capacity()).cast::<c_void>();
        let pid = libc::clone(begin, top, flags, (&raw mut *order).cast());
        let failure = if pid < 0 { *libc::__errno_location() } else { order.failure };
        if pid > 0 && failure != 0 {
            // Nobody shall hear of it as of a child that has ended.
            while libc::waitpid(pid, std::ptr::null_mut(), 0) < 0 && *libc::__errno_location() == libc::EINTR {}
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const order.signals, std::ptr::null_mut());
        match failure {
            0 => Ok(pid),
            number => Err(number),
        }
    }
}

/// What the new process does. It shares our memory, so it must not allocate, lock, or come back.
extern "C" fn begin(order: *mut c_void) -> c_int {
    // SAFETY: `start` passes its order, and waits. Nothing below uses more than numbers, and texts that live in it.
    unsafe {
        let order = &mut *order.cast::<Order>();
        order.failure = become_program(order);
        libc::_exit(127)
    }
}

/// Becomes the program; returns only if that fails, with the number of the error.
///
/// # Safety
/// To be called in the new process alone.
unsafe fn become_program(order: &Order) -> c_int {
    // SAFETY: the descriptors are this process's own copies; the texts end with a zero byte, the arrays of them with a null pointer.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let is_set = nothing >= 0
            && libc::setpgid(0, 0) == 0
            && libc::dup2(nothing, 0) == 0
            && libc::dup2(order.outputs.0, 1) == 1
            && libc::dup2(order.outputs.1, 2) == 2
            && order.kept.is_none_or(|kept| libc::fcntl(kept, libc::F_SETFD, 0) == 0)
            && libc::setrlimit(libc::RLIMIT_NOFILE, &raw const order.open_files) == 0
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
            && libc::chdir(order.folder.as_ptr()) == 0;
        if is_set {
            if libc::getppid() != order.parent {
                libc::_exit(127);
            }
            for number in &order.defaults {
                libc::signal(*number, libc::SIG_DFL);
            }
            libc::sigprocmask(libc::SIG_SETMASK, &raw const order.signals, std::ptr::null_mut());
            libc::execve(order.command[0], order.command.as_ptr(), order.environment.as_ptr());
        }
        *libc::__errno_location()
    }
}
