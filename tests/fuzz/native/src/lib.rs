//! Everything that reads what another process wrote, fed with arbitrary bytes.

pub mod seeds;
pub mod targets;
