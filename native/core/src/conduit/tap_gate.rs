//! Whether a tap is shown what passes. Programs look at it without a lock, so that a tap that takes nothing costs them next to nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Shared by the backlog of a tap and by who puts objects there.
#[derive(Clone, Debug, Default)]
pub struct TapGate(Arc<Gate>);

#[derive(Debug, Default)]
struct Gate {
    is_shut: AtomicBool,
    is_gone: AtomicBool,
    missed: AtomicU64,
}

impl TapGate {
    /// Whether the tap is shown what passes now.
    pub fn is_open(&self) -> bool {
        !self.0.is_shut.load(Ordering::Relaxed)
    }

    /// An object has passed that the tap is not shown; if it has not left, it has missed it.
    pub fn note_missed(&self) {
        if !self.is_gone() {
            self.0.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The tap is behind: nothing is shown to it until it has taken some of what waits.
    pub fn shut(&self) {
        self.0.is_shut.store(true, Ordering::Relaxed);
    }

    /// The tap has taken some.
    pub fn open(&self) {
        self.0.is_shut.store(self.is_gone(), Ordering::Relaxed);
    }

    /// The tap has left.
    pub fn close_for_good(&self) {
        self.0.is_gone.store(true, Ordering::Relaxed);
        self.shut();
    }

    /// Whether it has left.
    pub fn is_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::Relaxed)
    }

    /// How many objects it has missed.
    pub fn missed(&self) -> u64 {
        self.0.missed.load(Ordering::Relaxed)
    }
}
