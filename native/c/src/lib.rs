//! The C API of xMML over `xmml_core`.
