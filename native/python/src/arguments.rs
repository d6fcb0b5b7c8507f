//! Arguments that need not be given, where `None` is a value like any other.

use pyo3::prelude::*;

/// What `next_timestamp` is in a call of `send`.
pub enum Next {
    /// Not given: derived from the loop.
    Derived,
    /// A time, or `None`: there is no next message.
    Given(Option<f64>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Next {
    type Error = PyErr;
    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Next> {
        value.extract().map(Next::Given)
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
