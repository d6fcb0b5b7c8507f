//! Values that no message can carry.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use xmml_wire::buffer::OutOfMemory;

use crate::errors::{self, Kind};

/// A value that no message can carry: where it stands in the data, and why.
pub struct Refused {
    path: Vec<String>,
    problem: String,
    no_memory: bool,
}

impl Refused {
    /// Refuses the value at hand; the callers add where it stands.
    pub fn new(problem: String) -> Refused {
        Refused { path: Vec::new(), problem, no_memory: false }
    }

    /// The value stands in this part of another.
    pub fn within(mut self, step: String) -> Refused {
        self.path.push(step);
        self
    }

    /// The Python exception.
    pub fn into_py(self, py: Python<'_>) -> PyErr {
        let place: String = self.path.into_iter().rev().collect();
        let text = if place.is_empty() { self.problem } else { format!("data{place}: {}", self.problem) };
        match self.no_memory {
            true => PyMemoryError::new_err(text),
            false => errors::new(py, Kind::Type, text),
        }
    }
}

impl From<OutOfMemory> for Refused {
    fn from(error: OutOfMemory) -> Refused {
        Refused { path: Vec::new(), problem: error.to_string(), no_memory: true }
    }
}

/// The name of the type of `value`, with its module unless it is built in.
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "object".into(), |name| name.to_string())
}
