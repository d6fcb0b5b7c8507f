//! Heartbeats: how a peer is found that is gone without a word, behind a cable that was pulled or a tunnel that swallows what it gets.
//!
//! Each side of a connection that can fall silent says that it is alive whenever it has sent nothing else for a while, and takes the
//! other one for lost when it has heard nothing at all for much longer. Both sides of a run must have the same limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A peer that has said nothing for so long is lost, unless `XMML_SILENCE_LIMIT_S` says otherwise. A process that is stopped (by a
/// debugger, say) is silent too: this, and then the time for connecting anew, is what it may take.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// So often within the limit a side that has nothing to say shows that it is alive.
const BEATS: u32 = 6;

/// The shortest limit that is accepted [s].
const SHORTEST_S: f64 = 0.5;

/// How long a peer may be silent.
pub fn silence_limit() -> Duration {
    let text = std::env::var("XMML_SILENCE_LIMIT_S").unwrap_or_default();
    let seconds = text.trim().parse::<f64>().ok().filter(|seconds| *seconds >= SHORTEST_S);
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(SILENCE_LIMIT)
}

/// How often silent connections are looked at.
pub fn beat(limit: Duration) -> Duration {
    limit / BEATS
}

/// When something was last heard on a connection.
#[derive(Debug)]
pub struct HeartbeatTimer {
    /// In milliseconds of [`clock`].
    heard: AtomicU64,
}

impl HeartbeatTimer {
    /// Something was just heard.
    pub fn begin() -> HeartbeatTimer {
        HeartbeatTimer { heard: AtomicU64::new(clock()) }
    }

    /// Something came.
    pub fn hear(&self) {
        self.heard.store(clock(), Ordering::Relaxed);
    }

    /// How long nothing came.
    pub fn silent_for(&self) -> Duration {
        Duration::from_millis(clock().saturating_sub(self.heard.load(Ordering::Relaxed)))
    }
}

/// Milliseconds since the first call.
fn clock() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// Why a connection was given up, for people.
pub fn silent(limit: Duration) -> String {
    format!("nothing was heard of it for {} s", limit.as_secs_f64())
}
