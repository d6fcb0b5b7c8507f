//! The core of xMML at run time: what travels along a conduit, and what an instance may do.
//!
//! Everything a language API offers is implemented here once; the bindings convert types and errors and add nothing.
//! Two copies of this crate (libxmml and the Python extension) may meet in one process, and know nothing of each other: what is shared by
//! the instances of a process is shared by those of one copy.

pub mod conduit;
pub mod control;
pub mod coordinator;
pub mod filters;
pub mod handle;
pub mod instance;
pub mod parallel;
pub mod param;
pub mod runtime;
pub mod sequence;
pub mod spec;
pub mod team;
pub mod units;

#[cfg(test)]
#[path = "../../wire/tests/support/waiting.rs"]
mod waiting;
