//! `Object`: what was taken from a pool.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use xmml_core::instance as core;
use xmml_pool::object::Attributes;
use xmml_pool::value::Value;
use xmml_wire::buffer::BufferPool;
use xmml_wire::data::Data;
use xmml_wire::message::Message as CoreMessage;

use crate::message::Message;
use crate::pool::{attributes_of, to_python};

/// An object of a pool, as a reader takes it: a payload with typed attributes.
///
/// `object["step"]` is the value of an attribute: bool, int, float, str, bytes, a list of numbers, or a
/// `datetime.datetime` in UTC. Every object has the attributes `sys.t`, `sys.seq`, `sys.instance`, `sys.port`,
/// `sys.size`, `sys.type`, `sys.shape` and others.
#[pyclass(module = "xmml_native._native")]
pub struct Object {
    content: Message,
    attributes: Known,
}

/// What is known of an object.
enum Known {
    Taken(Box<Attributes>),
    /// As a program gives it to an instance without a run.
    Given(Vec<(String, Value)>),
}

impl Known {
    fn get(&self, name: &str) -> Result<Option<Value>, String> {
        match self {
            Known::Taken(attributes) => attributes.get(name),
            Known::Given(set) => Ok(set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())),
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = (&str, Value)> + '_> {
        match self {
            Known::Taken(attributes) => Box::new(attributes.iter()),
            Known::Given(set) => Box::new(set.iter().map(|(name, value)| (name.as_str(), value.clone()))),
        }
    }
}

impl From<core::Object> for Object {
    fn from(object: core::Object) -> Object {
        let message = CoreMessage { data: object.data, ..CoreMessage::default() };
        Object { content: Message::from(message), attributes: Known::Taken(Box::new(object.attributes)) }
    }
}

impl Object {
    /// The payload and the attributes, to be given to an instance without a run.
    pub fn to_core(&self, py: Python<'_>, pool: &BufferPool) -> PyResult<(Data, Vec<(String, Value)>)> {
        let own = self.attributes.iter().filter(|(name, _)| !name.starts_with("sys."));
        Ok((self.content.to_data(py, pool)?, own.map(|(name, value)| (name.to_owned(), value)).collect()))
    }

    fn found<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.attributes.get(name).map_err(PyKeyError::new_err)?;
        value.map(|value| to_python(py, &value)).transpose()
    }
}

#[pymethods]
impl Object {
    /// An object for the in port of an instance without a run (`Instance.alone`).
    #[new]
    #[pyo3(signature = (data = None, /, **attributes))]
    fn new(py: Python<'_>, data: Option<Py<PyAny>>, attributes: Option<&Bound<'_, PyDict>>) -> PyResult<Object> {
        let content = Message::of_value(data.unwrap_or_else(|| py.None()), 0.0);
        Ok(Object { content, attributes: Known::Given(attributes_of(attributes)?) })
    }

    /// The payload: None, bool, int, float, complex, str, bytes, a numpy array, or lists and dicts of these.
    #[getter]
    fn data<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.content.data(py)
    }

    /// The attributes that it has, by name: those of its datatype, then `sys.*`.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let attributes = PyDict::new(py);
        for (name, value) in self.attributes.iter() {
            attributes.set_item(name, to_python(py, &value)?)?;
        }
        Ok(attributes)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.found(py, name)?.ok_or_else(|| PyKeyError::new_err(format!("this object has no {name}")))
    }

    /// Return the value of an attribute, or `default` if the object does not have it.
    ///
    /// Raises:
    ///     KeyError: its datatype has no such attribute.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.found(py, name)?.or(default))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.attributes(py)?.call_method0("__iter__")
    }

    fn __contains__(&self, name: &str) -> bool {
        matches!(self.attributes.get(name), Ok(Some(_)))
    }

    fn __repr__(&mut self, py: Python<'_>) -> PyResult<String> {
        let mut own = Vec::new();
        for (name, value) in self.attributes.iter().filter(|(name, _)| !name.starts_with("sys.")) {
            own.push(format!("{name}={}", to_python(py, &value)?.repr()?));
        }
        let data = self.data(py)?.repr()?;
        Ok(format!("Object({})", [vec![data.to_string()], own].concat().join(", ")))
    }
}
