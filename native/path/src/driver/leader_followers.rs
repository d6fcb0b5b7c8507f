//! Waiting on a path: one of the waiting threads drives it, the others are told when something has changed; a thread in the background
//! drives it while nobody waits.

use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use xmml_wire::error::{Error, Result};
use xmml_wire::lock::lock;
use xmml_wire::wakeup::{poll_readable, EventFd};

use super::{Shared, State};

/// For so long after a caller has driven the path the background thread leaves it to callers: being woken for nothing would cost them.
const GRACE: Duration = Duration::from_millis(3);

#[derive(Default)]
struct DriverState {
    /// Somebody polls the path's descriptor.
    is_driven: bool,
    /// Callers that wait.
    callers: usize,
    /// When the last of them left.
    left_at: Option<Instant>,
    /// Counts what may have changed.
    news: u64,
}

/// Who drives, and who waits for whoever drives.
pub(crate) struct LeaderFollowers {
    turn: Mutex<DriverState>,
    changed: Condvar,
    /// Raised for the background thread while it polls, so that it makes way.
    nudge: EventFd,
}

impl LeaderFollowers {
    pub fn new() -> std::io::Result<LeaderFollowers> {
        Ok(LeaderFollowers { turn: Mutex::default(), changed: Condvar::new(), nudge: EventFd::new()? })
    }

    fn turn(&self) -> MutexGuard<'_, DriverState> {
        lock(&self.turn)
    }

    /// Whether somebody waits.
    pub fn has_callers(&self) -> bool {
        self.turn().callers > 0
    }

    /// Something may have changed that somebody waits for.
    pub fn tell(&self) {
        let mut turn = self.turn();
        turn.news += 1;
        if turn.callers > 0 {
            self.changed.notify_all();
        }
    }
}

/// Counts a caller while it waits.
struct Caller<'a>(&'a LeaderFollowers);

impl<'a> Caller<'a> {
    fn new(turns: &'a LeaderFollowers) -> Caller<'a> {
        turns.turn().callers += 1;
        Caller(turns)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let mut turn = self.0.turn();
        turn.callers -= 1;
        turn.left_at = Some(Instant::now());
    }
}

impl Shared {
    /// Drives the path until `check` finds something, or `until`: then `None`.
    ///
    /// # Errors
    /// What `check` finds wrong, and why the path has failed.
    pub fn wait<T>(&self, until: Option<Instant>, mut check: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
        let turns = &self.turns;
        if let Some(found) = check()? {
            return Ok(Some(found));
        }
        // Who only asks does not drive, and so must not be one for whom the background thread makes way.
        if until.is_some_and(|until| until <= Instant::now()) {
            return match self.state() {
                State::Failed(error) => Err(error),
                _ => Ok(None),
            };
        }
        let _caller = Caller::new(turns);
        loop {
            let seen = turns.turn().news;
            if let Some(found) = check()? {
                return Ok(Some(found));
            }
            if let State::Failed(error) = self.state() {
                return Err(error);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(None);
            }
            let mut turn = turns.turn();
            if turn.is_driven {
                turns.nudge.raise();
                while turn.is_driven && turn.news == seen {
                    let left = until
                        .map_or(Duration::from_secs(3600), |until| until.saturating_duration_since(Instant::now()));
                    let (again, late) = turns.changed.wait_timeout(turn, left).unwrap_or_else(PoisonError::into_inner);
                    turn = again;
                    if late.timed_out() {
                        break;
                    }
                }
                continue;
            }
            // Who has driven since may have brought what is looked for, and a path that is over is never ready again.
            if turn.news != seen {
                continue;
            }
            turn.is_driven = true;
            drop(turn);
            let status = self.poll_and_drive(&[self.epoll.as_raw_fd()], until);
            let mut turn = turns.turn();
            turn.is_driven = false;
            turn.news += 1;
            turns.changed.notify_all();
            drop(turn);
            // A failed path may still hold what `check` looks for.
            if let Err(error) = status {
                return match check()? {
                    Some(found) => Ok(Some(found)),
                    None => Err(error),
                };
            }
        }
    }

    fn poll_and_drive(&self, fds: &[i32], until: Option<Instant>) -> Result<()> {
        poll_readable(fds, until).map_err(|error| Error::io("wait for a path", &error))?;
        self.drive()
    }
}

/// A thread that drives a path while no caller does.
pub(crate) struct BackgroundDriver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<EventFd>,
}

impl BackgroundDriver {
    pub fn start(shared: &Arc<Shared>) -> Result<BackgroundDriver> {
        let stop = Arc::new(EventFd::new().map_err(|error| Error::io("make a wake-up", &error))?);
        let (path, stopped) = (shared.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("xmml-path".into()).spawn(move || attend(&path, &stopped));
        let thread = thread.map_err(|error| Error::io("start the thread of a path", &error))?;
        Ok(BackgroundDriver { shared: shared.clone(), thread: Some(thread), stop })
    }
}

impl Drop for BackgroundDriver {
    fn drop(&mut self) {
        self.stop.raise();
        self.shared.turns.tell();
        self.shared.turns.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in it has been reported by the thread itself
        }
    }
}

fn attend(shared: &Shared, stop: &EventFd) {
    let turns = &shared.turns;
    loop {
        if poll_readable(&[stop.as_raw_fd()], Some(Instant::now()))
            .is_ok_and(|polled| polled == xmml_wire::wakeup::Polled::Ready)
        {
            return;
        }
        let mut turn = turns.turn();
        let lately = turn.left_at.is_some_and(|at| at.elapsed() < GRACE);
        if turn.is_driven || turn.callers > 0 || lately {
            drop(turns.changed.wait_timeout(turn, GRACE).unwrap_or_else(PoisonError::into_inner));
            continue;
        }
        turn.is_driven = true;
        turns.nudge.lower();
        drop(turn);
        let fds = [shared.epoll.as_raw_fd(), stop.as_raw_fd(), turns.nudge.as_raw_fd()];
        let status = shared.poll_and_drive(&fds, None);
        let mut turn = turns.turn();
        turn.is_driven = false;
        turn.news += 1;
        turns.changed.notify_all();
        drop(turn);
        if status.is_err() || matches!(shared.state(), State::Closed) {
            return; // whoever calls learns why
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::driver::measurement::ROUND;
    use crate::waiting::LIMIT;
    use crate::{Identity, Lane, Listener, Path, Received, Settings, Streams, Ticket};
    use std::time::{Duration, Instant};

    /// Were it only the timer of the path that wakes whoever waits, every wait would take until it goes off again.
    #[test]
    fn who_waits_hears_of_what_a_thread_has_carried_without_the_timer_of_the_path() {
        const WAITS: usize = 8;
        let limit = Some(LIMIT);
        let identity = |name| Identity::new(b"a secret", "run", name);
        let small = Settings {
            streams: Streams::Fixed(2),
            socket_buffer: Some(64 << 10),
            queue: 1 << 20,
            ..Settings::default()
        };
        let listener = Listener::bind("127.0.0.1:0", &identity("there"), small.clone()).unwrap();
        let dialling = Settings { workers: Some(1), ..small };
        let here = Path::dial(&listener.address(), &identity("here"), "there", dialling).unwrap();
        here.attend().unwrap();
        let there = listener.accept(limit).unwrap().expect("a path comes in");
        there.attend().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| while let Some(Received::Message(_)) = there.receive(Lane::Bulk, limit).unwrap() {});
            let send = || {
                assert!(here.wait_room(Lane::Bulk, limit).unwrap());
                here.post(Lane::Bulk, vec![1; 2 << 20]).unwrap()
            };
            // What most of them take: a machine may be busy now and then.
            let takes = |wait: &dyn Fn(Ticket) -> bool| -> Duration {
                let one = |_| {
                    let (begun, ticket) = (Instant::now(), send());
                    assert!(wait(ticket));
                    begun.elapsed()
                };
                let mut times: Vec<Duration> = (0..WAITS).map(one).collect();
                times.sort_unstable();
                times[WAITS / 2]
            };
            assert!(here.wait_arrived(send(), limit).unwrap(), "the thread has begun");
            let left = takes(&|ticket| here.wait_left(ticket, limit).unwrap());
            let arrived = takes(&|ticket| here.wait_arrived(ticket, limit).unwrap());
            let room = takes(&|_| here.wait_room(Lane::Bulk, limit).unwrap());
            here.finish();
            for (what, took) in [("that messages have left", left), ("that they have arrived", arrived), ("room", room)]
            {
                assert!(took < ROUND / 2, "{what} was heard of after {took:?}");
            }
        });
    }
}
