//! Errors of the core as Python exceptions. The classes live in `xmml_native/errors.py`; the text is the core's.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use xmml_wire::error::Error;

/// The exception classes by cause.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `Error` itself.
    Other,
    /// `NotInARunError`.
    NotInARun,
    /// `PortError`.
    Port,
    /// `OrderError`.
    Order,
    /// `EndedError`.
    Ended,
    /// `ReceiveTimeoutError`.
    TimedOut,
    /// `DataTypeError`.
    Type,
    /// `ParameterError`.
    Parameter,
    /// `RunAborted`.
    Aborted,
}

impl Kind {
    fn class_name(self) -> &'static str {
        match self {
            Kind::Other => "Error",
            Kind::NotInARun => "NotInARunError",
            Kind::Port => "PortError",
            Kind::Order => "OrderError",
            Kind::Ended => "EndedError",
            Kind::TimedOut => "ReceiveTimeoutError",
            Kind::Type => "DataTypeError",
            Kind::Parameter => "ParameterError",
            Kind::Aborted => "RunAborted",
        }
    }

    /// Whether the text should say which call of the user's program is meant.
    fn names_the_call(self) -> bool {
        matches!(self, Kind::Port | Kind::Order | Kind::Ended | Kind::TimedOut | Kind::Type | Kind::Parameter)
    }
}

static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

fn module<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyModule>> {
    let module = MODULE.get_or_try_init(py, || py.import("xmml_native.errors").map(Bound::unbind))?;
    Ok(module.bind(py))
}

/// An exception of this kind with `text`, followed by the place of the user's call where that helps.
pub fn new(py: Python<'_>, kind: Kind, text: String) -> PyErr {
    build(py, kind, text).unwrap_or_else(|e| e)
}

fn build(py: Python<'_>, kind: Kind, mut text: String) -> PyResult<PyErr> {
    let module = module(py)?;
    if kind.names_the_call() {
        let place: Option<String> = module.getattr(intern!(py, "call_site"))?.call0()?.extract()?;
        if let Some(place) = place {
            text = format!("{text} (called at {place})");
        }
    }
    let class = module.getattr(kind.class_name())?.cast_into::<PyType>()?;
    Ok(PyErr::from_type(class, (text,)))
}

/// The Python exception for an error of the core.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    let kind = match &error {
        Error::NotInARun { .. } => Kind::NotInARun,
        Error::PortUnknown { .. }
        | Error::PortDirection { .. }
        | Error::NotConnected { .. }
        | Error::NoStateYet { .. } => Kind::Port,
        Error::OperatorOrder { .. } => Kind::Order,
        Error::Ended { .. } => Kind::Ended,
        Error::TimedOut { .. } => Kind::TimedOut,
        Error::Type { .. } => Kind::Type,
        Error::Parameter { .. } => Kind::Parameter,
        Error::Aborted { .. } => Kind::Aborted,
        _ => Kind::Other,
    };
    new(py, kind, error.to_string())
}
