//! Values as bytes and back, as the filters `serialize` and `deserialize` make them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use xmml_wire::buffer::BufferPool;
use xmml_wire::frame::descriptor;

use crate::data::{from_data, lend_data};
use crate::errors;
use crate::path::memory::lent;
use crate::payload::Payload;

/// Return what a message can carry as bytes: first the length of what describes it (8 bytes, little-endian).
///
/// Raises:
///     DataTypeError: a value that no message can carry.
#[pyfunction]
pub fn serialize(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Payload> {
    let pool = BufferPool::new();
    let (data, loans) = lend_data(value, &pool)?;
    let bytes = descriptor::to_bytes(&data, &pool).map_err(|error| errors::raise(py, error));
    drop(loans);
    Ok(Payload::new(bytes?, false))
}

/// Return the value that `serialize` has made bytes of. Arrays are shown where they lie, for reading.
///
/// Raises:
///     ValueError: they are no such bytes.
#[pyfunction]
pub fn deserialize<'py>(py: Python<'py>, bytes: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let data = descriptor::from_bytes(&lent(bytes)?.read_only());
    from_data(py, data.map_err(|error| PyValueError::new_err(error.to_string()))?)
}
