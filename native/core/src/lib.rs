//! The core of xMML at run time: what a message is, how it travels along a conduit, and what an instance may do.
//!
//! Everything a language API offers is implemented here once; the bindings convert types and errors and add nothing.
//! Two copies of this crate (libxmml and the Python extension) may meet in one process, and know nothing of each other: what is shared by
//! the instances of a process is shared by those of one copy.

pub mod buffer;
mod concurrency;
pub mod conduit;
pub mod connection;
pub mod control;
pub mod coordinator;
pub mod data;
pub mod error;
pub mod filters;
pub mod frame;
pub mod handle;
pub mod handshake;
pub mod instance;
pub mod internet_address;
pub mod liveness;
pub mod message;
pub mod message_pack;
pub mod methods;
pub mod parallel;
pub mod param;
pub mod path;
mod per_process;
mod percent;
pub mod private_file;
pub mod runtime;
pub mod sequence;
pub mod shared_memory;
pub mod spec;
pub mod spelling;
pub mod team;
pub mod units;
pub mod wakeup;

#[cfg(test)]
#[path = "../tests/support/waiting.rs"]
mod waiting;
