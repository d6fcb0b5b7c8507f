//! How tests wait: for something to be so, never for a time to pass.
#![allow(dead_code)] // no test uses all of it

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Without progress for so long a wait has failed, on the busiest machine too.
pub const LIMIT: Duration = Duration::from_secs(120);

/// How often a wait looks at what has no descriptor.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until something is so.
///
/// # Panics
/// Names `what` when it was not so within the limit.
#[track_caller]
pub fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    await_while_moving(what, || (), || is_so().then_some(()));
}

/// Waits until there is something, and returns it.
///
/// # Panics
/// Names `what` when it was not there within the limit.
#[track_caller]
pub fn await_some<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    await_while_moving(what, || (), look)
}

/// Waits until there is something, as long as `progress` goes on changing, and returns it.
///
/// # Panics
/// Names `what` when `progress` has stayed the same for the limit.
#[track_caller]
pub fn await_while_moving<T, P: PartialEq + Debug>(
    what: &str,
    mut progress: impl FnMut() -> P,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let mut last = progress();
    let mut until = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        let now = progress();
        if now != last {
            (last, until) = (now, Instant::now() + LIMIT);
        }
        assert!(Instant::now() < until, "it did not come to be: {what}; at {last:?} for {LIMIT:?}");
        std::thread::sleep(LOOK_EVERY);
    }
}
