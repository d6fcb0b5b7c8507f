//! How long a wait may last.

use std::time::{Duration, Instant};

/// The end of a wait that begins now; `None`: it has none.
pub(crate) fn until(limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| Instant::now().checked_add(limit))
}

/// How much is left of a time that begins now; `None`: it has no end.
pub(crate) fn left(limit: Option<Duration>) -> impl Fn() -> Option<Duration> {
    let until = until(limit);
    move || until.map(|until| until.saturating_duration_since(Instant::now()))
}
