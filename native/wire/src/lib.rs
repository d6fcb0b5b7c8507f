//! Messages between two processes: the memory and the frames that hold them, the handshake that opens a connection, and the streams
//! that carry it.

pub mod buffer;
mod concurrency;
pub mod connection;
pub mod data;
pub mod entrants;
pub mod error;
pub mod frame;
pub mod handshake;
pub mod internet_address;
pub mod liveness;
pub mod lock;
pub mod message;
pub mod message_pack;
pub mod methods;
pub mod per_process;
pub mod percent;
pub mod private_file;
pub mod protection;
pub mod relay_key;
pub mod resolver;
pub mod shared_memory;
pub mod spelling;
pub mod wakeup;

#[cfg(test)]
#[path = "../tests/support/waiting.rs"]
mod waiting;
