//! Parameters of the model as values of Python.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyType};
use xmml_core::param;
use xmml_core::spec::InstanceSpec;

/// The text of a parameter as a value of `type` (none: as it is), in `unit` if one is given.
///
/// # Errors
/// What is wrong with it, for people.
pub fn converted<'py>(
    py: Python<'py>,
    text: &str,
    r#type: Option<&Bound<'py, PyType>>,
    unit: Option<&str>,
) -> Result<Bound<'py, PyAny>, String> {
    match r#type {
        None => Ok(PyString::new(py, text).into_any()),
        Some(t) if t.is(py.get_type::<PyString>()) => Ok(PyString::new(py, text).into_any()),
        Some(t) if t.is(py.get_type::<PyFloat>()) => {
            param::as_float(text, unit).map(|v| PyFloat::new(py, v).into_any())
        }
        Some(t) if t.is(py.get_type::<PyInt>()) => param::as_int(text, unit).map(|v| PyInt::new(py, v).into_any()),
        Some(t) if t.is(py.get_type::<PyBool>()) => {
            param::as_bool(text).map(|v| PyBool::new(py, v).to_owned().into_any())
        }
        Some(t) => Err(format!("{t} is not a type of parameters; use str, float, int or bool")),
    }
}

/// What is wrong where a parameter that the model does not give is asked for without a default.
pub fn missing(spec: &InstanceSpec) -> String {
    let known: Vec<&str> = spec.params.keys().map(String::as_str).collect();
    match known.is_empty() {
        true => "not given in the model, which gives none; add it there, or a default here".into(),
        false => {
            format!("not given in the model, which gives {}; add it there, or a default here", known.join(", "))
        }
    }
}
