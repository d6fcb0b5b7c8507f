//! Waits without the interpreter, from which a thread does not come back while the interpreter ends.
//!
//! CPython ends a daemon thread that asks for the interpreter when that is ending: it unwinds the thread's stack, also through frames of
//! Rust, which abort the process. So a thread that comes back after `leave` stays where it is; it ends with the process.

use std::sync::atomic::{fence, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::Python;

/// The thread that ends the interpreter, once it does.
static ENDING: OnceLock<ThreadId> = OnceLock::new();
/// How many threads are about to have the interpreter again.
static COMING_BACK: AtomicUsize = AtomicUsize::new(0);
/// How long `leave` waits for them: each needs the interpreter for a moment only.
const COMING_BACK_MAX: Duration = Duration::from_secs(5);

/// Calls `work` while other threads have the interpreter, and returns its result.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let result = py.detach(|| {
        let result = work();
        come_back();
        result
    });
    COMING_BACK.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Counts this thread as coming back, or keeps it if the interpreter is ending.
fn come_back() {
    // Counted before it looks, so that either `leave` sees the thread or the thread sees that the interpreter is ending.
    COMING_BACK.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if ENDING.get().is_some_and(|ending| *ending != thread::current().id()) {
        COMING_BACK.fetch_sub(1, Ordering::SeqCst);
        loop {
            thread::park();
        }
    }
}

/// Calls `work` before the interpreter ends; from now on other threads do not come back from waits.
pub fn leave(py: Python<'_>, work: impl FnOnce() + Send) {
    let _ = ENDING.set(thread::current().id());
    fence(Ordering::SeqCst);
    py.detach(|| {
        work();
        let until = Instant::now() + COMING_BACK_MAX;
        while COMING_BACK.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    });
}
