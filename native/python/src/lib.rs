//! The extension module `xmml_native._native`: conversions between Python and `xmml_core`, nothing else.

use pyo3::prelude::*;

mod array;
mod coordinator;
mod data;
mod errors;
mod instance;
mod message;
mod payload;

/// The native half of `xmml_native`.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::coordinator::Coordinator;
    #[pymodule_export]
    use crate::instance::Instance;
    #[pymodule_export]
    use crate::message::Message;
    #[pymodule_export]
    use crate::payload::Payload;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
