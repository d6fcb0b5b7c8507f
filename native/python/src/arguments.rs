//! Arguments that need not be given, where `None` is a value like any other.

use pyo3::prelude::*;
use xmml_core::instance::NextStamp;

/// What `next_timestamp` is in a call of `send`: a time, `None` (there is no next message), or not given.
#[derive(Default)]
pub struct Next(pub NextStamp);

impl<'a, 'py> FromPyObject<'a, 'py> for Next {
    type Error = PyErr;
    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Next> {
        value.extract().map(|next: Option<f64>| Next(next.into()))
    }
}

/// What `default` is in a call of `receive` or `param`: any value, also `None`, or not given.
pub enum Fallback {
    /// Not given.
    Missing,
    /// Given.
    Given(Py<PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Fallback {
    type Error = PyErr;
    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Fallback> {
        Ok(Fallback::Given(value.to_owned().unbind()))
    }
}
