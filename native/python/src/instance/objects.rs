//! `_native.Objects`: the loop of a reader of a pool.

use pyo3::prelude::*;

use crate::object::Object;

use super::Instance;

/// The objects on a port until all writers have ended.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Objects {
    pub(super) instance: Py<Instance>,
    pub(super) port: String,
    pub(super) timeout: Option<f64>,
}

#[pymethods]
impl Objects {
    fn __iter__(slf: Py<Objects>) -> Py<Objects> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Object>>> {
        self.instance.get().take(py, &self.port, self.timeout)
    }
}
