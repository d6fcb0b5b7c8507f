//! What an instance without a run is given, and what it has sent.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use xmml_core::instance as core;
use xmml_core::spec::InstanceSpec;
use xmml_wire::buffer::BufferPool;
use xmml_wire::error::Error;

use crate::errors;
use crate::message::Message;
use crate::object::Object;

/// The messages that in ports deliver: of a list of `Message`, or of `Object` where the port takes objects.
pub fn inputs(
    py: Python<'_>,
    spec: &InstanceSpec,
    given: BTreeMap<String, Bound<'_, PyList>>,
    pool: &BufferPool,
) -> PyResult<BTreeMap<String, Vec<xmml_wire::message::Message>>> {
    let mut queues = BTreeMap::new();
    for (port, items) in given {
        let declared = spec.ports.iter().find(|declared| declared.name == port);
        let messages = match declared.and_then(|declared| declared.attributes.as_deref()) {
            None => {
                let messages = items.extract::<Vec<Py<Message>>>()?;
                messages.iter().map(|message| message.borrow(py).to_core(py, pool)).collect::<PyResult<_>>()?
            }
            Some(attributes) => {
                let objects = items.extract::<Vec<Py<Object>>>()?;
                let objects = objects.iter().map(|object| object.borrow(py).to_core(py, pool));
                core::as_messages(attributes, objects.collect::<PyResult<Vec<_>>>()?).map_err(|problem| {
                    let problem = format!("inputs of {port}: {problem}");
                    errors::raise(py, Error::Usage { problem })
                })?
            }
        };
        queues.insert(port, messages);
    }
    Ok(queues)
}

/// What was sent so far, and put, by port.
pub fn outputs<'py>(py: Python<'py>, me: &core::Instance) -> PyResult<Bound<'py, PyDict>> {
    let outputs = PyDict::new(py);
    for (port, messages) in me.outputs() {
        let messages: PyResult<Vec<_>> = messages.into_iter().map(|each| Bound::new(py, Message::from(each))).collect();
        outputs.set_item(port, messages?)?;
    }
    for (port, objects) in me.put_so_far() {
        let objects: PyResult<Vec<_>> = objects.into_iter().map(|each| Bound::new(py, Object::from(each))).collect();
        outputs.set_item(port, objects?)?;
    }
    Ok(outputs)
}
