//! What the model declares about an instance, for programs to read.

use pyo3::prelude::*;
use xmml_core::spec::{Direction, Operator, PortSpec, ScaleKind, ScaleSpec};

/// A declared port.
#[pyclass(frozen, get_all, module = "xmml_native._native")]
pub struct Port {
    /// Id in the model.
    name: String,
    /// "in" or "out".
    direction: &'static str,
    /// "finit", "Oi", "S", "B" or "Of"; None on mappers and terminals.
    operator: Option<&'static str>,
    /// Whether it is coupled.
    connected: bool,
}

impl Port {
    /// For Python.
    pub fn new(port: &PortSpec, connected: bool) -> Port {
        let direction = match port.direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        let operator = port.operator.map(|operator| match operator {
            Operator::Finit => "finit",
            Operator::Oi => "Oi",
            Operator::S => "S",
            Operator::B => "B",
            Operator::Of => "Of",
        });
        Port { name: port.name.clone(), direction, operator, connected }
    }
}

#[pymethods]
impl Port {
    fn __repr__(&self) -> String {
        let operator = self.operator.map_or("None".to_owned(), |operator| format!("'{operator}'"));
        let connected = if self.connected { "True" } else { "False" };
        format!(
            "Port(name='{}', direction='{}', operator={operator}, connected={connected})",
            self.name, self.direction
        )
    }
}

/// A scale, in base units.
#[pyclass(frozen, get_all, module = "xmml_native._native")]
pub struct Scale {
    /// Id in the model.
    name: String,
    /// "time", "space" or "other".
    kind: &'static str,
    /// Step; 0 if the model gives none.
    delta: f64,
    /// Extent; 0 if the model gives none.
    total: f64,
    /// Steps that make the extent; 0 if the model gives not both.
    steps: u64,
}

impl From<&ScaleSpec> for Scale {
    fn from(scale: &ScaleSpec) -> Scale {
        let kind = match scale.kind {
            ScaleKind::Time => "time",
            ScaleKind::Space => "space",
            ScaleKind::Other => "other",
        };
        Scale { name: scale.name.clone(), kind, delta: scale.delta, total: scale.total, steps: scale.steps }
    }
}

#[pymethods]
impl Scale {
    fn __repr__(&self) -> String {
        let Scale { name, kind, delta, total, steps } = self;
        format!("Scale(name='{name}', kind='{kind}', delta={delta:?}, total={total:?}, steps={steps})")
    }
}
