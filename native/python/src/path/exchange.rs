//! Messages from memory of the program to one path or several, and from one or several.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use xmml_path::{self as core, gather_again, Cycle, InTime, Lane, Sending};
use xmml_wire::buffer::Buffer;
use xmml_wire::error::Result as CoreResult;

use super::memory::{lent, shown};
use super::{late, raised, until, wait, Detached, Path};

/// As [`wait`]; that the time has passed is an error, which says whose doing it was.
fn in_time<'a, T: Send>(
    py: Python<'_>,
    until: Option<Instant>,
    mut step: impl FnMut(Option<Duration>) -> CoreResult<InTime<'a, T>> + Send,
) -> PyResult<T> {
    let mut why = String::new();
    let found = wait(py, until, |slice| Ok(step(Some(slice))?.map_err(|late| why = late.to_string()).ok()))?;
    found.ok_or_else(|| late(&why))
}

/// Sends each path a message from memory that may change when this returns; what has not left in time is copied.
pub(super) fn send(
    py: Python<'_>,
    paths: &[&core::Path],
    lane: Lane,
    messages: Vec<Buffer>,
    until: Option<Instant>,
) -> PyResult<()> {
    let mut sending = Detached::new(Sending::lent(paths, lane, messages).map_err(raised(py))?);
    in_time(py, until, |slice| sending.begin(slice))?;
    wait(py, until, |slice| Ok(sending.wait_left(Some(slice))?.then_some(()))).map(|_| ())
}

/// Send on one path and receive from another; return None once that one has ended.
#[pyfunction]
#[pyo3(signature = (to, source, data, lane = "bulk", timeout = None))]
pub fn cycle_paths<'py>(
    py: Python<'py>,
    to: &Bound<'py, Path>,
    source: &Bound<'py, Path>,
    data: &Bound<'py, PyAny>,
    lane: &str,
    timeout: Option<f64>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (lane, until) = (super::lane(py, lane)?, until(py, timeout)?);
    let (to, from) = (to.get(), source.get());
    let sending = Sending::lent(&[&to.core], lane, vec![lent(data)?]).map_err(raised(py))?;
    let mut cycle = Detached::new(Cycle::new(sending, &from.core));
    let received = in_time(py, until, |slice| cycle.wait(slice))?;
    from.message(py, Some(received))
}

/// Send each path its part, on all of them at once.
#[pyfunction]
#[pyo3(signature = (paths, parts, lane = "bulk", timeout = None))]
pub fn scatter_to_paths(
    py: Python<'_>,
    paths: Vec<Bound<'_, Path>>,
    parts: Vec<Bound<'_, PyAny>>,
    lane: &str,
    timeout: Option<f64>,
) -> PyResult<()> {
    let (lane, until) = (super::lane(py, lane)?, until(py, timeout)?);
    let parts = parts.iter().map(lent).collect::<PyResult<_>>()?;
    send(py, &cores(&paths), lane, parts, until)
}

/// Receive one message of each path, in their order; none is taken before all have come.
#[pyfunction]
#[pyo3(signature = (paths, lane = "bulk", timeout = None))]
pub fn gather_from_paths<'py>(
    py: Python<'py>,
    paths: Vec<Bound<'py, Path>>,
    lane: &str,
    timeout: Option<f64>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let (lane, until) = (super::lane(py, lane)?, until(py, timeout)?);
    let paths = cores(&paths);
    let parts = in_time(py, until, |slice| gather_again(&paths, lane, slice))?;
    parts.into_iter().map(|part| shown(py, part)).collect()
}

fn cores<'a>(paths: &'a [Bound<'_, Path>]) -> Vec<&'a core::Path> {
    paths.iter().map(|path| &**path.get().core).collect()
}
