//! `_native.Path` and company: one end of a path between two programs.

use std::time::{Duration, Instant};

use pyo3::exceptions::{PyEOFError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use xmml_core::buffer::Buffer;
use xmml_core::error::{Error, Result};
use xmml_core::path::{self as core, Credentials, Fingerprint, Identity, Lane, Received, Settings, Streams, Tls};

use crate::errors;
use crate::payload::Payload;

/// How often a call that waits looks whether the user has pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// A certificate and its key, made for one end of encrypted paths.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct PathCredentials {
    core: Credentials,
}

#[pymethods]
impl PathCredentials {
    /// Makes them for the end called `name`; they are good for so many seconds from now on.
    #[new]
    fn new(py: Python<'_>, name: &str, good_for: f64) -> PyResult<PathCredentials> {
        let good_for = seconds(py, "good_for", good_for)?;
        let core = py.detach(|| Credentials::make(name, good_for)).map_err(|e| errors::raise(py, e))?;
        Ok(PathCredentials { core })
    }

    /// What the other end must know of them: 64 hexadecimal digits.
    #[getter]
    fn fingerprint(&self) -> String {
        self.core.fingerprint().to_string()
    }
}

/// Who an end is, what it proves that with, and how it does its work.
struct End {
    identity: Identity,
    settings: Settings,
}

/// What both ways of opening a path have in common; the order of the Python signatures.
type Common<'py> = (String, String, Vec<u8>, Option<u32>, Option<f64>, Option<u64>, Option<Encryption<'py>>);
type Encryption<'py> = (PyRef<'py, PathCredentials>, Vec<String>);

fn end(py: Python<'_>, (run, name, secret, streams, patience, window, encryption): Common<'_>) -> PyResult<End> {
    let mut settings = Settings { streams: streams.map_or(Streams::Auto, Streams::Fixed), ..Settings::default() };
    if let Some(patience) = patience {
        settings.patience = seconds(py, "patience", patience)?;
        settings.connect = settings.patience;
    }
    if let Some(window) = window {
        settings.window = window;
        settings.queue = window;
    }
    let mut identity = Identity::new(&secret, &run, &name);
    if let Some((mine, trusted)) = encryption {
        identity = identity.encrypted(tls(&mine.core, &trusted).map_err(|e| errors::raise(py, e))?);
    }
    Ok(End { identity, settings })
}

fn tls(mine: &Credentials, trusted: &[String]) -> Result<Tls> {
    let read = |text: &String| text.parse::<Fingerprint>();
    Tls::new(mine, &trusted.iter().map(read).collect::<Result<Vec<_>>>()?)
}

/// Several TCP streams that behave as one channel for messages in both directions, with two lanes: control messages never wait
/// behind bulk. Nothing is lost, doubled or reordered, also when connections break.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Path {
    core: core::Path,
}

#[pymethods]
impl Path {
    /// Begins to open a path to the end called `peer` that listens at `address` (host:port); does not wait.
    #[staticmethod]
    #[pyo3(signature = (address, peer, *, run, name, secret, streams = None, patience = None, window = None, encryption = None))]
    #[allow(clippy::too_many_arguments)]
    fn dial(
        py: Python<'_>,
        address: &str,
        peer: &str,
        run: String,
        name: String,
        secret: Vec<u8>,
        streams: Option<u32>,
        patience: Option<f64>,
        window: Option<u64>,
        encryption: Option<Encryption<'_>>,
    ) -> PyResult<Path> {
        let end = end(py, (run, name, secret, streams, patience, window, encryption))?;
        let opened = py.detach(|| {
            let core = core::Path::dial(address, &end.identity, peer, end.settings)?;
            core.attend()?;
            Ok(core)
        });
        Ok(Path { core: opened.map_err(|e| errors::raise(py, e))? })
    }

    /// The name of the other end.
    #[getter]
    fn peer(&self) -> &str {
        self.core.peer()
    }

    /// Waits until the path is open; False: not within `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn wait_open(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let opened = patiently(py, timeout, |limit| self.core.wait_open(limit).map(|open| open.then_some(())))?;
        Ok(opened.is_some())
    }

    /// Sends a message; waits while too much is queued. `TimeoutError`: there was no room within `timeout` seconds.
    #[pyo3(signature = (data, *, control = false, timeout = None))]
    fn send(&self, py: Python<'_>, data: PyBackedBytes, control: bool, timeout: Option<f64>) -> PyResult<()> {
        let message = Buffer::from_owner(data);
        let sent = patiently(py, timeout, |limit| {
            self.core.send(lane(control), message.clone(), limit).map(|sent| sent.then_some(()))
        })?;
        sent.ok_or_else(|| PyTimeoutError::new_err("there was no room for the message"))
    }

    /// Waits for the next message of a lane. `EOFError`: the other end has finished; `TimeoutError`: none came in time.
    #[pyo3(signature = (*, control = false, timeout = None))]
    fn receive(&self, py: Python<'_>, control: bool, timeout: Option<f64>) -> PyResult<Payload> {
        match patiently(py, timeout, |limit| self.core.receive(lane(control), limit))? {
            Some(Received::Message(message)) => Ok(Payload::of(message)),
            Some(Received::Ended) => Err(PyEOFError::new_err("the other end of the path has finished")),
            None => Err(PyTimeoutError::new_err("no message came")),
        }
    }

    /// Waits until the other end has everything that was sent; False: not within `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        Ok(patiently(py, timeout, |limit| self.core.flush(limit).map(|done| done.then_some(())))?.is_some())
    }

    /// Says that nothing more will be sent, and waits until the other end has said so too and both have everything; False: not
    /// within `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        Ok(patiently(py, timeout, |limit| self.core.close(limit).map(|done| done.then_some(())))?.is_some())
    }

    /// How it is doing: streams, streams_lost, resumed, bytes_in, bytes_out.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.core.stats());
        let dict = PyDict::new(py);
        dict.set_item("streams", stats.streams)?;
        dict.set_item("streams_lost", stats.streams_lost)?;
        dict.set_item("resumed", stats.resumed)?;
        dict.set_item("bytes_in", stats.bytes_in)?;
        dict.set_item("bytes_out", stats.bytes_out)?;
        Ok(dict)
    }
}

/// Where paths come in.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct PathListener {
    core: core::Listener,
}

#[pymethods]
impl PathListener {
    /// Listens at `address`, host:port; port 0: any free one.
    #[new]
    #[pyo3(signature = (address, *, run, name, secret, streams = None, patience = None, window = None, encryption = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        address: &str,
        run: String,
        name: String,
        secret: Vec<u8>,
        streams: Option<u32>,
        patience: Option<f64>,
        window: Option<u64>,
        encryption: Option<Encryption<'_>>,
    ) -> PyResult<PathListener> {
        let end = end(py, (run, name, secret, streams, patience, window, encryption))?;
        let core = py.detach(|| core::Listener::bind(address, &end.identity, end.settings));
        Ok(PathListener { core: core.map_err(|e| errors::raise(py, e))? })
    }

    /// Where it listens, host:port.
    #[getter]
    fn address(&self) -> String {
        self.core.address()
    }

    /// Waits for the next path. `TimeoutError`: nobody has dialled within `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Path> {
        let accepted = patiently(py, timeout, |limit| {
            let path = self.core.accept(limit)?;
            path.as_ref().map_or(Ok(()), core::Path::attend)?;
            Ok(path)
        })?;
        match accepted {
            Some(core) => Ok(Path { core }),
            None => Err(PyTimeoutError::new_err(match self.core.refusals() {
                (refused, Some(reason)) => format!("nobody was let in; of {refused} refused the last: {reason}"),
                _ => "nobody has dialled".to_owned(),
            })),
        }
    }
}

fn lane(control: bool) -> Lane {
    match control {
        true => Lane::Control,
        false => Lane::Bulk,
    }
}

fn seconds(py: Python<'_>, what: &str, value: f64) -> PyResult<Duration> {
    let problem = format!("{what}={value} is not a number of seconds from 0");
    Duration::try_from_secs_f64(value).map_err(|_| errors::raise(py, Error::Usage { problem }))
}

/// Repeats a call that waits, in pieces between which the user may press Ctrl-C; `None`: it did not come about in time.
fn patiently<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    call: impl Fn(Option<Duration>) -> Result<Option<T>> + Sync,
) -> PyResult<Option<T>> {
    let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()).min(LOOK));
        if let Some(done) = py.detach(|| call(Some(left))).map_err(|e| errors::raise(py, e))? {
            return Ok(Some(done));
        }
        py.check_signals()?;
        if end.is_some_and(|end| end <= Instant::now()) {
            return Ok(None);
        }
    }
}
