//! Streams that have ended while the kernel may still send of their memory.
//!
//! A socket that is closed goes on: what it has taken is sent, and sent again until the other end has acknowledged it or the kernel gives
//! up. It holds on to the pages itself, so that they may be freed, but if they came to be used for something else, that would be sent, with
//! checksums that fit. So the socket is shut but kept, and with it the memory, until the kernel has let go. If that takes long, the connection is
//! broken off: the kernel then forgets what it has not sent. When the process ends the pages are nobody else's, and stay as they are.

use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use xmml_wire::lock::lock;
use xmml_wire::per_process::PerProcess;

use super::pending::Pending;

/// The other end may have so long to acknowledge what is on its way, a farewell for instance.
const GRACE: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(2) };

/// How often it is looked whether the kernel has let go; a closed connection does not say so to who polls.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Partings {
    /// Those that are not over, and since when.
    open: Vec<(Pending, Instant)>,
    /// A thread looks at them.
    is_watched: bool,
}

impl Partings {
    /// Lets go of what the kernel has let go of.
    fn look(&mut self) {
        self.open.retain_mut(|(pending, since)| {
            while pending.hear().is_some() {}
            if pending.is_open() && since.elapsed() > GRACE {
                pending.break_off();
                while pending.hear().is_some() {}
            }
            // What a network card still reads is not over even then.
            pending.is_open()
        });
    }
}

static PARTINGS: PerProcess<Mutex<Partings>> = PerProcess::new();

fn partings() -> MutexGuard<'static, Partings> {
    lock(PARTINGS.get(Mutex::default))
}

/// Keeps what the kernel may still read until it has let go of it.
pub fn see_off(mut pending: Pending) {
    while pending.hear().is_some() {}
    if !pending.is_open() {
        return;
    }
    pending.shut();
    let mut partings = partings();
    partings.open.push((pending, Instant::now()));
    if !partings.is_watched {
        let watch = thread::Builder::new().name("xmml-path-parting".into()).spawn(watch);
        // Without a thread the next one that parts tries again; until then the memory is kept.
        partings.is_watched = watch.is_ok();
    }
}

fn watch() {
    loop {
        thread::sleep(LOOK);
        let mut partings = partings();
        partings.look();
        if partings.open.is_empty() {
            partings.is_watched = false;
            return;
        }
    }
}
