//! The lock-free parts of `xmml-wire`, tried in every order in which threads can meet: the ring of shared memory with its sleeping and
//! waking, the return of what was lent, and the queue between instances of one process. The tests are in `tests/`.
//!
//! The files are those of the crate itself, compiled over the atomics, locks and memory of the model checker
//! [loom](https://docs.rs/loom), which also takes every value that a load may return by the rules of the C++20 memory model, tells of
//! plain memory that two threads touch at once, and of threads that all wait.

// The files bring tests of their own, which are for the memory of the system and atomics.
#![cfg(not(test))]

/// Stands in for the module of the crate with the same name.
pub mod concurrency {
    pub use loom::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub use loom::sync::{Mutex, MutexGuard};
}

/// Stands in for the module of the crate with the same name: a flag that a thread can wait for.
pub mod wakeup;

#[path = "../../src/methods/inproc/pipe.rs"]
pub mod pipe;

/// The ring and the books of loans.
pub mod shm {
    pub mod bytes;
    #[path = "../../../src/methods/shm/returns.rs"]
    pub mod returns;
    #[path = "../../../src/methods/shm/ring.rs"]
    pub mod ring;
}

/// Tries `what` in every interleaving with up to `preemptions` preemptions; with `XMML_SOAK` set, in those with two more.
pub fn in_every_interleaving(preemptions: usize, what: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    let more = if std::env::var_os("XMML_SOAK").is_some() { 2 } else { 0 };
    model.preemption_bound = Some(preemptions + more);
    model.max_branches = 100_000;
    model.check(what);
}
