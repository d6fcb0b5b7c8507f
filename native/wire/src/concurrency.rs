//! The atomics and locks of those parts that are checked in every interleaving of threads: `native/wire/interleavings` compiles the
//! same files with those of a model checker in this module's place.

pub use std::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};
pub use std::sync::{Mutex, MutexGuard};
