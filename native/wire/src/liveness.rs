//! Whether a peer lives: heartbeats on connections that can fall silent, and pauses between attempts to connect.

pub mod backoff;
pub mod fruitless;
pub mod heartbeat;
