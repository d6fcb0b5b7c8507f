//! What the model declares about an instance, for programs to read.

use pyo3::prelude::*;
use xmml_core::spec::{Direction, Operator, PortSpec, ScaleKind, ScaleSpec};

/// A port that the model declares.
#[pyclass(frozen, get_all, module = "xmml_native._native")]
pub struct Port {
    /// Id in the model.
    name: String,
    /// Either "in" or "out".
    direction: &'static str,
    /// One of "finit", "Oi", "S", "B" and "Of"; None on mappers and terminals.
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

/// How finely an instance resolves one dimension and how much of it it covers, in base units (s, m, ...).
#[pyclass(frozen, get_all, module = "xmml_native._native")]
pub struct Scale {
    /// Id in the model.
    name: String,
    /// One of "time", "space" and "other".
    kind: &'static str,
    /// The step; 0 if the model gives none.
    delta: f64,
    /// The extent; 0 if the model gives none.
    total: f64,
    /// How many steps make the extent; 0 if the model lacks one of the two.
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
