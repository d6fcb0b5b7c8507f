//! `Message`: a payload and the model time it belongs to.

use pyo3::prelude::*;
use pyo3::types::PyType;
use xmml_wire::buffer::BufferPool;
use xmml_wire::data::Data;

use crate::array::Loan;
use crate::data::{from_data, lend_data, to_data};

/// What the message holds: as it arrived, or as the Python value that somebody has asked for or given.
enum Content {
    Arrived(Data),
    Value(Py<PyAny>),
}

/// What a message is made from.
type Parts<'py> = (Bound<'py, PyAny>, f64, Option<f64>);

/// A message as a submodel sends and receives it.
///
/// `data` is converted when it is first read: None, bool, int, float, complex, str, bytes, a numpy array over the
/// memory in which it arrived, or lists and dicts of these. A message that is only passed on is never converted.
#[pyclass(module = "xmml_native._native")]
pub struct Message {
    content: Content,
    /// Model time of the observation, in seconds.
    #[pyo3(get, set)]
    pub timestamp: f64,
    /// Model time of the next message on this conduit, in seconds; `None` if there is none or it is not known.
    #[pyo3(get, set)]
    pub next_timestamp: Option<f64>,
}

impl Message {
    /// A message that holds `value`, at `timestamp`.
    pub fn of_value(value: Py<PyAny>, timestamp: f64) -> Message {
        Message { content: Content::Value(value), timestamp, next_timestamp: None }
    }

    /// The payload to send.
    pub fn to_data(&self, py: Python<'_>, pool: &BufferPool) -> PyResult<Data> {
        match &self.content {
            Content::Arrived(data) => Ok(data.clone()),
            Content::Value(value) => to_data(value.bind(py), pool),
        }
    }

    /// The payload for one send; see [`lend_data`].
    pub fn lend_data(&self, py: Python<'_>, pool: &BufferPool) -> PyResult<(Data, Vec<Loan>)> {
        match &self.content {
            Content::Arrived(data) => Ok((data.clone(), Vec::new())),
            Content::Value(value) => lend_data(value.bind(py), pool),
        }
    }

    /// The message to send.
    pub fn to_core(&self, py: Python<'_>, pool: &BufferPool) -> PyResult<xmml_wire::message::Message> {
        Ok(xmml_wire::message::Message {
            timestamp: self.timestamp,
            next_timestamp: self.next_timestamp,
            data: self.to_data(py, pool)?,
        })
    }
}

impl From<xmml_wire::message::Message> for Message {
    fn from(message: xmml_wire::message::Message) -> Message {
        Message {
            content: Content::Arrived(message.data),
            timestamp: message.timestamp,
            next_timestamp: message.next_timestamp,
        }
    }
}

#[pymethods]
impl Message {
    #[new]
    #[pyo3(signature = (data, timestamp = 0.0, next_timestamp = None))]
    fn new(data: Py<PyAny>, timestamp: f64, next_timestamp: Option<f64>) -> Message {
        Message { content: Content::Value(data), timestamp, next_timestamp }
    }

    /// The payload: None, bool, int, float, complex, str, bytes, a numpy array, or lists and dicts of these.
    #[getter]
    pub fn data<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Content::Arrived(data) = &mut self.content {
            // Taken, not cloned, so that the array may find itself the only owner of its memory.
            let value = from_data(py, std::mem::take(data))?;
            self.content = Content::Value(value.unbind());
        }
        match &self.content {
            Content::Value(value) => Ok(value.bind(py).clone()),
            Content::Arrived(_) => unreachable!("converted above"),
        }
    }

    #[setter]
    fn set_data(&mut self, value: Py<PyAny>) {
        self.content = Content::Value(value);
    }

    /// For `copy`, `pickle` and `multiprocessing`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, Parts<'py>)> {
        let mut this = slf.borrow_mut();
        let data = this.data(slf.py())?;
        Ok((slf.get_type(), (data, this.timestamp, this.next_timestamp)))
    }

    fn __repr__(&mut self, py: Python<'_>) -> PyResult<String> {
        let next = self.next_timestamp.map_or("None".into(), |t| format!("{t:?}"));
        let (data, timestamp) = (self.data(py)?.repr()?, self.timestamp);
        Ok(format!("Message({data}, timestamp={timestamp:?}, next_timestamp={next})"))
    }
}
