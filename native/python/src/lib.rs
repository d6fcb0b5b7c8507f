//! The extension module `xmml_native._native`: conversions between Python and `xmml_core`, nothing else.

use pyo3::prelude::*;

/// The native half of `xmml_native`.
#[pymodule]
mod _native {}
