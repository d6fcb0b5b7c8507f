//! `_native.CopySource` and `_native.CopyTarget`: the two ends of a copy. Python has the connection between them, and a thread that hears.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use xmml_transfer::listing::Origin;
use xmml_transfer::report::{Progress, Report};
use xmml_transfer::source::Source;
use xmml_transfer::target::Target;
use xmml_transfer::tree::Layout;
use xmml_transfer::{Failure, Peer, Stop};

use xmml_wire::lock::lock;

use crate::path::memory::lent;
use crate::path::waiting::detached;

/// How long a working end may keep Ctrl-C waiting.
const CHECK_EVERY: Duration = Duration::from_millis(50);

create_exception!(
    xmml_native._native,
    CopyFailure,
    PyException,
    "An end of a copy cannot go on: \"peer failed\", \"malformed\", \"no room\", \"too much\" or \"stopped\", and why."
);

/// The other end, to which a function of Python sends.
struct PythonPeer<'a> {
    send: &'a Py<PyAny>,
    /// What the function has raised, or a signal.
    raised: Mutex<Option<PyErr>>,
    checked: Mutex<Instant>,
}

impl PythonPeer<'_> {
    fn new(send: &Py<PyAny>) -> PythonPeer<'_> {
        PythonPeer { send, raised: Mutex::default(), checked: Mutex::new(Instant::now()) }
    }

    fn attached(&self, work: impl FnOnce(Python<'_>) -> PyResult<()>) -> Result<(), Stop> {
        match Python::try_attach(work) {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                *lock(&self.raised) = Some(error);
                Err(Stop)
            }
            None => Err(Stop), // the interpreter ends
        }
    }

    /// The exception for a failure.
    fn exception(self, failure: Failure) -> PyErr {
        let raised = self.raised.into_inner().unwrap_or_else(PoisonError::into_inner);
        let kind = match (&failure, raised) {
            (Failure::Stopped, Some(raised)) => return raised,
            (Failure::Stopped, None) => "stopped",
            (Failure::PeerFailed(_), _) => "peer failed",
            (Failure::Malformed(_), _) => "malformed",
            (Failure::NoRoom(_), _) => "no room",
            (Failure::TooMuch(_), _) => "too much",
        };
        CopyFailure::new_err((kind, failure.to_string()))
    }
}

impl Peer for PythonPeer<'_> {
    fn send(&self, message: &[&[u8]]) -> Result<(), Stop> {
        let length = message.iter().map(|part| part.len()).sum();
        self.attached(|py| {
            let bytes = PyBytes::new_with(py, length, |room| {
                let mut begin = 0;
                for part in message {
                    room[begin..begin + part.len()].copy_from_slice(part);
                    begin += part.len();
                }
                Ok(())
            })?;
            self.send.call1(py, (bytes,)).map(|_| ())
        })
    }

    fn check(&self) -> Result<(), Stop> {
        {
            let mut checked = lock(&self.checked);
            if checked.elapsed() < CHECK_EVERY {
                return Ok(());
            }
            *checked = Instant::now();
        }
        self.attached(|py| py.check_signals())
    }
}

/// How far an end is: files and bytes to copy, once that is known, bytes that stand at the target, and bytes that were read to be compared.
type HowFar = (Option<(u64, u64)>, u64, u64);

fn how_far(progress: &Progress) -> HowFar {
    (progress.total(), progress.standing(), progress.compared())
}

fn as_dict<'py>(py: Python<'py>, report: Report) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("files", report.files)?;
    dict.set_item("size_b", report.size)?;
    dict.set_item("sent_b", report.sent)?;
    dict.set_item("untouched", report.untouched)?;
    dict.set_item("failed", report.failed)?;
    Ok(dict)
}

/// The end of a copy that has the files: lists, reads, sends what the other end lacks.
///
/// Args:
///     paths: files and folders; the first part of the path of each copy is the name of one of them.
///     names: what these parts are instead, as many as paths.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct CopySource {
    source: Source,
}

#[pymethods]
impl CopySource {
    #[new]
    #[pyo3(signature = (paths, names = None))]
    fn new(paths: Vec<PathBuf>, names: Option<Vec<OsString>>) -> CopySource {
        let names = names.into_iter().flatten().map(Some).chain(std::iter::repeat(None));
        let sources = paths.into_iter().zip(names).map(|(file, name)| Origin { file, name });
        CopySource { source: Source::new(sources.collect()) }
    }

    /// Give everything away; return what came of it: the fields of a report.
    ///
    /// Another thread hears meanwhile.
    ///
    /// Args:
    ///     send: sends a message; an exception of it ends the copy.
    ///
    /// Raises:
    ///     CopyFailure: the copy cannot go on.
    fn run<'py>(&self, py: Python<'py>, send: Py<PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let peer = PythonPeer::new(&send);
        let done = detached(py, || self.source.run(&peer));
        as_dict(py, done.map_err(|failure| peer.exception(failure))?)
    }

    /// Take in what the target says; return whether it says more.
    fn hear(&self, message: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.source.hear(&lent(message)?))
    }

    /// Return why the target has stopped, if it has said so; for after a message could not be sent.
    ///
    /// Waits a little while the other thread still hears.
    fn last_word(&self, py: Python<'_>) -> Option<String> {
        detached(py, || self.source.last_word())
    }

    /// End the copy, as nothing will be heard any more.
    fn lose(&self) {
        self.source.lose();
    }

    /// Return how far it is: files and bytes to copy, once that is known, bytes that stand at the
    /// target, and bytes that were read here to be compared.
    fn how_far(&self) -> HowFar {
        how_far(&self.source.progress)
    }
}

/// The end of a copy that gets the files: compares with what is there, writes, checks every range.
///
/// Args:
///     folder: where they go.
///     name: what the first part of their paths becomes; None: what it is.
///     compare: compare files of the same size and time by their checksums, too.
///     only: the paths of the files to take; None: everything is taken.
///     trees: the names of the files and folders to take, and how many more there are whose names
///         the source alone knows; None: as `only` says.
///     listing_memory: how much memory the listing may take, with what fails of it [bytes]; None: as
///         much as there is.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct CopyTarget {
    target: Target,
}

#[pymethods]
impl CopyTarget {
    #[new]
    #[pyo3(signature = (folder, name = None, *, compare = false, only = None, trees = None, listing_memory = None))]
    fn new(
        folder: PathBuf,
        name: Option<OsString>,
        compare: bool,
        only: Option<Vec<OsString>>,
        trees: Option<(Vec<OsString>, usize)>,
        listing_memory: Option<usize>,
    ) -> PyResult<CopyTarget> {
        let target = Target::new(Layout { base: folder, name }, compare)?;
        let target = target.listing_within(listing_memory.unwrap_or(usize::MAX));
        Ok(CopyTarget {
            target: match (only, trees) {
                (_, Some((names, unnamed))) => target.trees(names.into_iter().collect(), unnamed),
                (Some(only), None) => target.only(only.into_iter().collect()),
                (None, None) => target,
            },
        })
    }

    /// Look at what is there already, and tell the source; return when there is nothing left to look at.
    ///
    /// This has a thread of its own.
    fn consider(&self, py: Python<'_>, send: Py<PyAny>) {
        let peer = PythonPeer::new(&send);
        detached(py, || self.target.consider(&peer));
    }

    /// Act on what the source says; return whether it says more.
    ///
    /// Args:
    ///     send: sends a message; an exception of it ends the copy.
    ///
    /// Raises:
    ///     CopyFailure: the copy cannot go on.
    fn hear(&self, py: Python<'_>, message: &Bound<'_, PyAny>, send: Py<PyAny>) -> PyResult<bool> {
        let (peer, message) = (PythonPeer::new(&send), lent(message)?);
        let done = detached(py, || self.target.hear(&message, &peer));
        done.map_err(|failure| peer.exception(failure))
    }

    /// End the considering, and close the files that are not complete.
    fn stop(&self, py: Python<'_>) {
        detached(py, || self.target.stop());
    }

    /// Return what came of the copy so far: the fields of a report. A later report lacks what has
    /// failed: that may take much memory, and is not kept here.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        as_dict(py, self.target.take_report())
    }

    /// Return how far it is: files and bytes to copy, once that is known, bytes that stand at the
    /// target, and bytes that were read here to be compared.
    fn how_far(&self) -> HowFar {
        how_far(&self.target.progress)
    }
}
