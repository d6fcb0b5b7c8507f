//! How conduits travel, as dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use xmml_wire::methods::{MethodReport, Refusal};

/// One conduit.
pub fn report(py: Python<'_>, report: MethodReport) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("conduit", report.conduit)?;
    dict.set_item("name", report.name)?;
    dict.set_item("chosen", report.chosen)?;
    dict.set_item("protected", report.protected)?;
    dict.set_item("refused", reasons(py, report.refused)?)?;
    dict.set_item("slower", report.slower)?;
    dict.set_item("messages", report.traffic.messages)?;
    dict.set_item("bytes", report.traffic.bytes)?;
    dict.set_item("messages_per_s", report.traffic.messages_per_s)?;
    dict.set_item("bytes_per_s", report.traffic.bytes_per_s)?;
    dict.set_item("latency_s", report.traffic.latency_s)?;
    dict.set_item("replaced", report.traffic.replaced)?;
    dict.set_item("dropped", report.traffic.dropped)?;
    dict.set_item("waiting", report.traffic.waiting)?;
    dict.set_item("held_bytes", report.traffic.held_bytes)?;
    Ok(dict)
}

/// Why methods were refused, by their names.
pub fn reasons(py: Python<'_>, refused: Vec<Refusal>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for refusal in refused {
        dict.set_item(refusal.method, refusal.reason)?;
    }
    Ok(dict)
}
