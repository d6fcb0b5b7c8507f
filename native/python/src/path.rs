//! `_native.Path` and `_native.PathListener`: what `xmml.path` offers, and `xmml cp` copies by. The interpreter is free while they wait, and
//! while they take a lock of the core: whoever has that may be about to release the memory of a Python object.

mod exchange;
pub mod memory;
pub mod waiting;

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use xmml_path::{
    self as core, Credentials, Fingerprint, Identity, Lane, LinkFigures, Received, Settings, State, Streams, Ticket,
    Tls, ZeroCopy,
};
use xmml_wire::error::{Error, Result as CoreResult};
use xmml_wire::lock::lock;

use crate::errors;
use memory::{lent, shown};
use waiting::detached;

pub use exchange::{cycle_paths, gather_from_paths, scatter_to_paths};

/// How long a wait may keep Ctrl-C waiting.
const SLICE: Duration = Duration::from_millis(100);

fn raised(py: Python<'_>) -> impl Fn(Error) -> PyErr + '_ {
    move |error| errors::raise(py, error)
}

fn usage(py: Python<'_>, problem: String) -> PyErr {
    errors::raise(py, Error::Usage { problem })
}

fn late(what: &str) -> PyErr {
    PyTimeoutError::new_err(what.to_owned())
}

/// When a wait of so many seconds is over; `None`: never.
fn until(py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let limit = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
    Ok(limit.and_then(|limit| Instant::now().checked_add(limit)))
}

/// Waits in slices, so that signals are heard; `None`: the time has passed.
fn wait<T: Send>(
    py: Python<'_>,
    until: Option<Instant>,
    mut step: impl FnMut(Duration) -> CoreResult<Option<T>> + Send,
) -> PyResult<Option<T>> {
    loop {
        let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()).min(SLICE));
        if let Some(found) = detached(py, || step(left)).map_err(raised(py))? {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if until.is_some_and(|until| until <= Instant::now()) {
            return Ok(None);
        }
    }
}

/// Something of the core whose end waits for a thread or a lock of a thread, which may be about to release the memory of a message and need
/// the interpreter for that.
struct Detached<T: Send>(ManuallyDrop<T>);

impl<T: Send> Detached<T> {
    fn new(core: T) -> Detached<T> {
        Detached(ManuallyDrop::new(core))
    }
}

impl<T: Send> Deref for Detached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> DerefMut for Detached<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        // SAFETY: it is taken once, and `self` is not used any more.
        let core = unsafe { ManuallyDrop::take(&mut self.0) };
        Python::attach(|py| detached(py, || drop(core)));
    }
}

fn lane(py: Python<'_>, name: &str) -> PyResult<Lane> {
    match name {
        "bulk" => Ok(Lane::Bulk),
        "control" => Ok(Lane::Control),
        _ => Err(usage(py, format!("there is no lane \"{name}\"; the lanes are bulk and control"))),
    }
}

fn seconds(py: Python<'_>, name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| usage(py, format!("{name}={value} is not a number of seconds from 0")))
}

/// Settings from keywords, over those that stand.
fn settings(py: Python<'_>, mut settings: Settings, given: Option<&Bound<'_, PyDict>>) -> PyResult<Settings> {
    for (key, value) in given.into_iter().flatten() {
        let key: String = key.extract()?;
        match &*key {
            "streams" => {
                settings.streams = match value.extract::<String>() {
                    Ok(text) if text == "auto" => Streams::Auto,
                    Ok(text) => return Err(usage(py, format!("streams is a number or \"auto\", not \"{text}\""))),
                    Err(_) => Streams::Fixed(value.extract()?),
                };
            }
            "chunk" => settings.chunk = value.extract()?,
            "window" => settings.window = value.extract()?,
            "queue" => settings.queue = value.extract()?,
            "max_message" => settings.max_message = value.extract()?,
            "socket_buffer" => settings.socket_buffer = value.extract()?,
            "pace" => settings.pace = value.extract()?,
            "congestion" => settings.congestion = value.extract()?,
            "workers" => settings.workers = value.extract()?,
            "relays" => settings.relays = value.extract()?,
            "zero_copy" => {
                let name: String = value.extract()?;
                settings.zero_copy = ZeroCopy::from_name(&name)
                    .ok_or_else(|| usage(py, format!("zero_copy is \"auto\", \"on\" or \"off\", not \"{name}\"")))?;
            }
            "patience" => settings.patience = seconds(py, "patience", value.extract()?)?,
            "silence" => settings.silence = seconds(py, "silence", value.extract()?)?,
            "link" => {
                settings.link = match value.extract::<Option<(f64, f64)>>()? {
                    Some((round_trip, bandwidth)) => {
                        Some(LinkFigures { round_trip: seconds(py, "link", round_trip)?, bandwidth })
                    }
                    None => None,
                };
            }
            _ => {
                let known = "streams, chunk, window, queue, max_message, socket_buffer, pace, congestion, patience, silence, workers, zero_copy, relays, link";
                return Err(usage(py, format!("a path has no setting \"{key}\"; it has {known}")));
            }
        }
    }
    Ok(settings)
}

fn identity(
    py: Python<'_>,
    secret: &[u8],
    run: &str,
    name: &str,
    credentials: Option<&str>,
    trusted: &[String],
) -> PyResult<Identity> {
    let me = Identity::new(secret, run, name);
    let Some(pem) = credentials else {
        if !trusted.is_empty() {
            return Err(usage(
                py,
                "certificates are trusted on encrypted paths only: give credentials, too".to_owned(),
            ));
        }
        return Ok(me);
    };
    let trusted: Vec<Fingerprint> =
        trusted.iter().map(|digits| digits.parse()).collect::<CoreResult<_>>().map_err(raised(py))?;
    let tls = Credentials::from_pem(pem).and_then(|mine| Tls::new(&mine, &trusted)).map_err(raised(py))?;
    Ok(me.encrypted(tls))
}

/// One end of a wide-area path, which `xmml.path` explains.
///
/// Time-outs are in seconds; None waits without end.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Path {
    core: Detached<Arc<core::Path>>,
}

/// The paths that stand.
static STANDING: Mutex<Vec<Weak<core::Path>>> = Mutex::new(Vec::new());

impl Path {
    fn attended(py: Python<'_>, core: core::Path) -> PyResult<Path> {
        core.attend().map_err(raised(py))?;
        let core = Arc::new(core);
        let mut standing = lock(&STANDING);
        standing.retain(|path| path.strong_count() > 0);
        standing.push(Arc::downgrade(&core));
        Ok(Path { core: Detached::new(core) })
    }

    fn message<'py>(&self, py: Python<'py>, received: Option<Received>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match received {
            Some(Received::Message(message)) => shown(py, message).map(Some),
            Some(Received::Ended) => Ok(None),
            None => Err(self.none_came()),
        }
    }

    fn none_came(&self) -> PyErr {
        late(&format!("no message came from {} in this time", self.core.peer()))
    }
}

#[pymethods]
impl Path {
    /// Open a path to the program called `peer`; `xmml.path.dial` explains the arguments.
    ///
    /// Raises:
    ///     TimeoutError: the path was not open within `timeout` seconds.
    #[staticmethod]
    #[pyo3(signature = (address, peer, *, secret, run, name, credentials = None, trusted = Vec::new(), timeout = 30.0, settings = None))]
    #[allow(clippy::too_many_arguments)]
    fn dial(
        py: Python<'_>,
        address: &str,
        peer: &str,
        secret: &[u8],
        run: &str,
        name: &str,
        credentials: Option<&str>,
        trusted: Vec<String>,
        timeout: Option<f64>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Path> {
        let me = identity(py, secret, run, name, credentials, &trusted)?;
        let until = until(py, timeout)?;
        let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
        let settings = self::settings(py, Settings::default(), settings)?.connecting_for(limit);
        let core = detached(py, || core::Path::dial(address, &me, peer, settings)).map_err(raised(py))?;
        let path = Path::attended(py, core)?;
        let opened = wait(py, until, |slice| Ok(path.core.wait_open(Some(slice))?.then_some(())))?;
        opened.ok_or_else(|| late(&format!("no path to {peer} at {address} was opened in this time")))?;
        Ok(path)
    }

    /// The name of the other end.
    #[getter]
    fn peer(&self) -> &str {
        self.core.peer()
    }

    /// One of "opening", "open", "broken", "closed" and "failed".
    #[getter]
    fn state(&self, py: Python<'_>) -> &'static str {
        match detached(py, || self.core.state()) {
            State::Opening => "opening",
            State::Open => "open",
            State::Broken(_) => "broken",
            State::Closed => "closed",
            State::Failed(_) => "failed",
        }
    }

    /// Send a message from any object with contiguous memory, which may change when this returns.
    ///
    /// Waits while too much is queued. `bytes` never change, and are sent without a copy.
    ///
    /// Raises:
    ///     TimeoutError: there was no room for the message within `timeout` seconds.
    #[pyo3(signature = (data, lane = "bulk", timeout = None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, lane: &str, timeout: Option<f64>) -> PyResult<()> {
        let (lane, until) = (self::lane(py, lane)?, until(py, timeout)?);
        exchange::send(py, &[&self.core], lane, vec![lent(data)?], until)
    }

    /// Send without waiting and without a copy; return a ticket for `arrived`.
    ///
    /// The object must not change until the ticket has arrived.
    #[pyo3(signature = (data, lane = "bulk"))]
    fn post(&self, py: Python<'_>, data: &Bound<'_, PyAny>, lane: &str) -> PyResult<u64> {
        let lane = self::lane(py, lane)?;
        let message = lent(data)?;
        let ticket = detached(py, || self.core.post(lane, message)).map_err(raised(py))?;
        Ok(ticket.position() << 1 | u64::from(lane == Lane::Bulk))
    }

    /// Return whether the other end has what was posted, waiting up to `timeout` seconds for it.
    ///
    /// If relays pass the path on, the other end is the last one. A path that has failed raises the reason, unless the
    /// message had arrived.
    #[pyo3(signature = (ticket, timeout = 0.0))]
    fn arrived(&self, py: Python<'_>, ticket: u64, timeout: Option<f64>) -> PyResult<bool> {
        let lane = if ticket & 1 == 1 { Lane::Bulk } else { Lane::Control };
        let ticket = Ticket::at(lane, ticket >> 1);
        Ok(wait(py, until(py, timeout)?, |slice| Ok(self.core.wait_arrived(ticket, Some(slice))?.then_some(())))?
            .is_some())
    }

    /// Wait until the other end has everything; return False if it has not within `timeout` seconds.
    ///
    /// If relays pass the path on, the other end is the last one.
    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        Ok(wait(py, until(py, timeout)?, |slice| Ok(self.core.flush(Some(slice))?.then_some(())))?.is_some())
    }

    /// Return the next message, of whatever size, as a memoryview; None once the other end has finished.
    ///
    /// Raises:
    ///     TimeoutError: no message came within `timeout` seconds.
    #[pyo3(signature = (lane = "bulk", timeout = None))]
    fn receive<'py>(&self, py: Python<'py>, lane: &str, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let lane = self::lane(py, lane)?;
        let received = wait(py, until(py, timeout)?, |slice| self.core.receive(lane, Some(slice)))?;
        self.message(py, received)
    }

    /// Wait for the next message without taking it; return its length, or None once the other end has finished.
    ///
    /// Raises:
    ///     TimeoutError: no message came within `timeout` seconds.
    #[pyo3(signature = (lane = "bulk", timeout = None))]
    fn wait_next(&self, py: Python<'_>, lane: &str, timeout: Option<f64>) -> PyResult<Option<usize>> {
        let lane = self::lane(py, lane)?;
        let next = wait(py, until(py, timeout)?, |slice| self.core.wait_next(lane, Some(slice)))?;
        next.ok_or_else(|| self.none_came())
    }

    /// Return the next message if it has come, else None.
    #[pyo3(signature = (lane = "bulk"))]
    fn take<'py>(&self, py: Python<'py>, lane: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let lane = self::lane(py, lane)?;
        detached(py, || self.core.take(lane)).map(|message| shown(py, message)).transpose()
    }

    /// Return whether the other end has finished and everything was received.
    #[pyo3(signature = (lane = "bulk"))]
    fn has_ended(&self, py: Python<'_>, lane: &str) -> PyResult<bool> {
        let lane = self::lane(py, lane)?;
        Ok(detached(py, || self.core.has_ended(lane)))
    }

    /// Send one message and return the next one received; both travel at once.
    ///
    /// `data` may change when this returns. Returns None once the other end has finished.
    #[pyo3(signature = (data, lane = "bulk", timeout = None))]
    fn send_receive<'py>(
        slf: &Bound<'py, Path>,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        lane: &str,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        cycle_paths(py, slf, slf, data, lane, timeout)
    }

    /// Wait until both ends have called this; return False if the other end has not within `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn barrier(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let mut number = None;
        let core = &self.core;
        Ok(wait(py, until(py, timeout)?, |slice| core.barrier_again(&mut number, Some(slice)))?.is_some())
    }

    /// Pass everything on between this path and another until both have ended.
    ///
    /// Returns how many messages went from this path to the other, and how many came back.
    fn relay(&self, py: Python<'_>, other: &Bound<'_, Path>) -> PyResult<(u64, u64)> {
        let other = other.get();
        detached(py, || core::relay(&self.core, &other.core)).map_err(raised(py))
    }

    /// Change the settings that are named; the streams in use go on.
    #[pyo3(signature = (**settings))]
    fn set(&self, py: Python<'_>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let standing = detached(py, || self.core.settings());
        let settings = self::settings(py, standing, settings)?;
        detached(py, || self.core.set(settings)).map_err(raised(py))
    }

    /// Return figures of the path; docs/wide-area.md explains the keys.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = detached(py, || self.core.stats());
        let dict = PyDict::new(py);
        dict.set_item("streams", stats.streams)?;
        dict.set_item("streams_lost", stats.streams_lost)?;
        dict.set_item("resumed", stats.resumed)?;
        dict.set_item("bytes_in", stats.bytes_in)?;
        dict.set_item("bytes_out", stats.bytes_out)?;
        dict.set_item("retransmitted", stats.retransmitted)?;
        dict.set_item("rate", stats.rate)?;
        dict.set_item("round_trip", stats.round_trip)?;
        dict.set_item("chunk", stats.chunk)?;
        dict.set_item("zero_copy_streams", stats.zero_copy_streams)?;
        dict.set_item("zero_copy_bytes", stats.zero_copy_bytes)?;
        dict.set_item("why_copied", stats.why_copied.map(|why| why.to_string()))?;
        Ok(dict)
    }

    /// Return a descriptor for event loops: readable when `drive` has something to do.
    ///
    /// A thread of the library may be faster, and leave nothing to do.
    fn fileno(&self) -> RawFd {
        self.core.fd()
    }

    /// Do what can be done now; never wait.
    fn drive(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.drive()).map_err(raised(py))
    }

    /// Declare that this end sends nothing more; messages still come.
    fn finish(&self, py: Python<'_>) {
        detached(py, || self.core.finish());
    }

    fn __enter__(slf: Bound<'_, Path>) -> Bound<'_, Path> {
        slf
    }

    /// Ends the path in order; after an exception it is left to be given up.
    #[pyo3(signature = (kind = None, *_rest))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        _rest: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        match kind.is_some() || self.close(py, Some(30.0))? {
            true => Ok(()),
            false => Err(late(&format!("{} has not ended the path within 30 s", self.core.peer()))),
        }
    }

    /// End the path in order; return False if the other end has not ended it within `timeout` seconds.
    ///
    /// Takes no messages: receive first what the other end has sent.
    #[pyo3(signature = (timeout = 30.0))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        Ok(wait(py, until(py, timeout)?, |slice| Ok(self.core.close(Some(slice))?.then_some(())))?.is_some())
    }
}

/// A listener that accepts paths.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct PathListener {
    core: Detached<core::Listener>,
}

#[pymethods]
impl PathListener {
    #[new]
    #[pyo3(signature = (address, *, secret, run, name, credentials = None, trusted = Vec::new(), settings = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        address: &str,
        secret: &[u8],
        run: &str,
        name: &str,
        credentials: Option<&str>,
        trusted: Vec<String>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PathListener> {
        let me = identity(py, secret, run, name, credentials, &trusted)?;
        let settings = self::settings(py, Settings::default(), settings)?;
        let core = detached(py, || core::Listener::bind(address, &me, settings)).map_err(raised(py))?;
        core.attend().map_err(raised(py))?;
        Ok(PathListener { core: Detached::new(core) })
    }

    /// Where it listens, "host:port".
    #[getter]
    fn address(&self) -> String {
        self.core.address()
    }

    /// Return a descriptor that is readable when somebody may have dialled.
    fn fileno(&self) -> RawFd {
        self.core.fd()
    }

    /// Return the next path.
    ///
    /// Raises:
    ///     TimeoutError: none was opened within `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Path> {
        let path = wait(py, until(py, timeout)?, |slice| self.core.accept(Some(slice)))?;
        match path {
            Some(path) => Path::attended(py, path),
            None => Err(match detached(py, || self.core.refusals()) {
                (refused, Some(reason)) => {
                    late(&format!("nobody was let in in this time; of {refused} refused the last: {reason}"))
                }
                _ => late("nobody dialled in this time"),
            }),
        }
    }

    /// How many connections were refused, and why the last one was.
    #[getter]
    fn refusals(&self, py: Python<'_>) -> (u64, Option<String>) {
        detached(py, || self.core.refusals())
    }
}

/// Leave all paths, before the interpreter ends.
///
/// A thread of a path that needs the interpreter to release the memory of a message would never get it, and whoever
/// drops the path would wait for that thread.
#[pyfunction]
pub fn leave_paths(py: Python<'_>) {
    waiting::leave(py, || {
        let standing = std::mem::take(&mut *lock(&STANDING));
        standing.iter().filter_map(Weak::upgrade).for_each(|path| path.abandon());
    });
}

/// Return a new key and certificate in PEM, valid for `seconds`, and the fingerprint for the other end.
#[pyfunction]
pub fn make_path_credentials(py: Python<'_>, name: &str, seconds: f64) -> PyResult<(String, String)> {
    let made = Credentials::make(name, self::seconds(py, "the time", seconds)?).map_err(raised(py))?;
    Ok((made.to_pem(), made.fingerprint().to_string()))
}
