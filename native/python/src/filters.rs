//! What the planner asks about the built-in filters of the core.

use pyo3::prelude::*;
use pythonize::depythonize;
use xmml_core::filters;

use crate::errors;

/// Return how many messages the built-in filter of `spec` (name, factor, params) has emitted after `n` inputs.
#[pyfunction]
pub fn filter_outputs(py: Python<'_>, spec: &Bound<'_, PyAny>, n: u64) -> PyResult<u64> {
    filters::outputs(&depythonize(spec)?, n).map_err(|e| errors::raise(py, e))
}

/// Return the bytes out per byte in of the built-in filter of `spec`, roughly.
#[pyfunction]
pub fn filter_size_ratio(py: Python<'_>, spec: &Bound<'_, PyAny>) -> PyResult<f64> {
    filters::size_ratio(&depythonize(spec)?).map_err(|e| errors::raise(py, e))
}
