//! `_native.Objects` and `_native.Group`: the loop of a reader of a pool, and what a writer puts together.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use xmml_pool::value::Value;
use xmml_wire::error::Error;

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

/// Objects that become visible together: what `Instance.group` returns.
///
/// >>> with me.group("fields", step=3) as record:
/// ...     record.put(temperature, param="t")
/// ...     record.put(pressure, param="p")
///
/// When the block ends, each reader gets those that it chooses, all at once. An exception in the block forgets them.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Group {
    pub(super) instance: Py<Instance>,
    pub(super) port: String,
    pub(super) common: Vec<(String, Value)>,
    /// It was begun and has not ended.
    pub(super) is_open: AtomicBool,
}

#[pymethods]
impl Group {
    fn __enter__(slf: Bound<'_, Group>) -> PyResult<Bound<'_, Group>> {
        let group = slf.get();
        let common: Vec<_> = group.common.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        group.instance.get().waiting(slf.py(), |core| core.begin_group(&group.port, &common))?;
        group.is_open.store(true, Ordering::Relaxed);
        Ok(slf)
    }

    /// Add an object to the group; return how many readers choose it.
    ///
    /// Its attributes are those of the group, unless others are given. It waits for nobody; `data` may be changed when
    /// it returns. `Instance.put` explains the errors.
    #[pyo3(signature = (data = None, /, **attributes))]
    fn put(
        &self,
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        self.put_block(py, data, None, attributes)
    }

    /// Add an object of which `data` is the block of this rank, as `Instance.put_block` explains.
    #[pyo3(signature = (data, shape, /, **attributes))]
    fn put_block(
        &self,
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        shape: Option<Vec<u64>>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let instance = self.instance.get();
        if !self.is_open.load(Ordering::Relaxed) {
            let problem = format!("{}.{}: this group has not begun, or has ended", instance.core.name(), self.port);
            return Err(instance.raise(py, Error::Usage { problem }));
        }
        instance.put_block(py, &self.port, data, shape, attributes)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.is_open.store(false, Ordering::Relaxed);
        let is_whole = exception.is_none();
        self.instance.get().waiting(py, |core| match is_whole {
            true => core.end_group(&self.port).map(drop),
            false => core.abandon_group(&self.port),
        })
    }
}
