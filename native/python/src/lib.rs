//! The extension module `xmml_native._native`: conversions between Python and `xmml_core`, nothing else.

use pyo3::prelude::*;

mod arguments;
mod array;
mod coordinator;
mod data;
mod declared;
mod errors;
mod filters;
mod instance;
mod message;
mod methods;
mod object;
mod params;
mod path;
mod payload;
mod pool;
mod processes;
mod refused;
mod serialized;
mod team;
mod transfer;

/// The compiled half of `xmml_native`.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::coordinator::Coordinator;
    #[pymodule_export]
    use crate::declared::{Port, Scale};
    #[pymodule_export]
    use crate::filters::{filter_outputs, filter_size_ratio};
    #[pymodule_export]
    use crate::instance::objects::Group;
    #[pymodule_export]
    use crate::instance::port::{BoundPort, InPort, OutPort};
    #[pymodule_export]
    use crate::instance::Instance;
    #[pymodule_export]
    use crate::message::Message;
    #[pymodule_export]
    use crate::object::Object;
    #[pymodule_export]
    use crate::path::{
        cycle_paths, gather_from_paths, leave_paths, make_path_credentials, scatter_to_paths, Path, PathListener,
    };
    #[pymodule_export]
    use crate::payload::Payload;
    #[pymodule_export]
    use crate::pool::{selector_variables, AttributeSchema, Attributes, PySelector};
    #[pymodule_export]
    use crate::processes::{
        descendants, die_with_parent, enter_folder_alone, start_of, threads_can_have_folders, MemoryGroup,
    };
    #[pymodule_export]
    use crate::serialized::{deserialize, serialize};
    #[pymodule_export]
    use crate::team::rank_pairs;
    #[pymodule_export]
    use crate::transfer::{CopySource, CopyTarget};

    /// Return what a handle of a port says: its text, the instance, the port, and its methods.
    ///
    /// Without methods, whoever opens it gets them from the coordinator.
    #[pyfunction]
    fn read_handle(py: Python<'_>, handle: &[u8]) -> PyResult<(String, String, String, Vec<String>)> {
        let handle = xmml_core::handle::Handle::read(handle).map_err(|e| crate::errors::raise(py, e))?;
        let methods = handle.table.iter().flat_map(|table| &table.entries).map(|entry| entry.method.clone()).collect();
        Ok((handle.to_string(), handle.instance, handle.port, methods))
    }

    /// Return the value of a JSON text: `json.loads` without the milliseconds that importing `json` takes.
    #[pyfunction]
    fn parse_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
        Ok(pythonize::pythonize(py, &value)?)
    }

    /// Return the relay key of the run with this secret: what relays are given instead of the secret.
    #[pyfunction]
    fn relay_key(secret: &[u8]) -> String {
        xmml_wire::relay_key::RelayKey::of(secret).to_text()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // An exception is no class of pyo3, and has no export of its own.
        module.add("CopyFailure", module.py().get_type::<crate::transfer::CopyFailure>())?;
        module.add("COPY_VERSION", xmml_transfer::message::VERSION)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
