//! The ranks of a parallel program, which join a run together.
//!
//! Rank 0 leads: it talks to the run, and the others learn from it what came of a call. This crate knows nothing of MPI: a binding
//! says how ranks reach each other ([`Team`]).

mod sharing;

pub use sharing::{agree, collect_value, deliver_value, share, share_message, take_message, Announced};

/// How one rank reaches the others. Calls with the same meaning are made by all ranks in the same order; the text of an error says
/// what the library below had to say.
pub trait Team: Send + Sync {
    /// Which rank this is, from 0.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn size(&self) -> u32;

    /// Rank 0: gives bytes to all others, which [`Team::take`] as many.
    fn give(&self, bytes: &[u8]) -> Result<(), String>;

    /// The others: take the bytes that rank 0 gives.
    fn take(&self, bytes: &mut [u8]) -> Result<(), String>;

    /// The others: bytes for rank 0 alone, which [`Team::collect`]s as many.
    fn deliver(&self, bytes: &[u8]) -> Result<(), String>;

    /// Rank 0: takes the bytes that a rank delivers.
    fn collect(&self, from: u32, bytes: &mut [u8]) -> Result<(), String>;
}
