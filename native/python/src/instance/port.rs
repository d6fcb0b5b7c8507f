//! `_native.OutPort` and `_native.InPort`: ports that were looked up once.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{Fallback, Next};
use crate::message::Message;
use crate::object::Object;

use super::objects::{Group, Objects};
use super::Instance;

/// A port of an instance, looked up once: what `out` and `in_` of an instance return.
///
/// Its calls are those of the instance, without the name of the port.
#[pyclass(subclass, frozen, module = "xmml_native._native")]
pub struct BoundPort {
    instance: Py<Instance>,
    number: usize,
}

impl BoundPort {
    fn instance(&self) -> &Instance {
        self.instance.get()
    }

    /// Its name as the instance keeps it.
    fn bound(&self) -> &str {
        self.instance().core.port_names().get(self.number)
    }
}

#[pymethods]
impl BoundPort {
    /// Id in the model.
    #[getter]
    fn name(&self) -> &str {
        self.bound()
    }

    /// Return whether the port is coupled in this model.
    ///
    /// One that brings the state of the previous pass is not, during the first.
    fn connected(&self, py: Python<'_>) -> PyResult<bool> {
        self.instance().connected(py, self.bound())
    }

    /// Return how many copies are at the other end; 0 if it is not a multiplied instance.
    fn copies(&self, py: Python<'_>) -> PyResult<u32> {
        self.instance().copies(py, self.bound())
    }

    /// Return how each conduit of the port travels, and what has passed, as `Instance.methods` does.
    fn methods<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.instance().methods(py, self.bound())
    }

    /// Allow these methods on every conduit of the port from now on, as `Instance.set_methods` does.
    fn set_methods(&self, py: Python<'_>, methods: Vec<String>) -> PyResult<()> {
        self.instance().set_methods(py, self.bound(), methods)
    }

    /// Return the part of the array on the port that this rank holds, as `Instance.block` does.
    #[pyo3(signature = (shape = None))]
    fn block<'py>(&self, py: Python<'py>, shape: Option<Vec<u64>>) -> PyResult<Bound<'py, PyAny>> {
        self.instance.bind(py).call_method1("block", (self.bound(), shape))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.instance)
    }
}

impl BoundPort {
    fn of(instance: Py<Instance>, name: &str) -> BoundPort {
        let number = instance.get().core.port_number(name).unwrap_or(usize::MAX);
        BoundPort { instance, number }
    }

    fn described(&self, class: &str) -> String {
        format!("<{class} {}.{}>", self.instance().core.model_name(), self.bound())
    }
}

/// An out port that was looked up once: what `Instance.out` returns.
#[pyclass(extends = BoundPort, frozen, module = "xmml_native._native")]
pub struct OutPort;

impl OutPort {
    /// The port of an instance that is known to be one.
    pub fn of(instance: Py<Instance>, name: &str) -> PyClassInitializer<OutPort> {
        PyClassInitializer::from(BoundPort::of(instance, name)).add_subclass(OutPort)
    }
}

#[pymethods]
impl OutPort {
    /// Send `data` on the port; return False if the receiver has left. `Instance.send` explains the arguments.
    #[pyo3(
        signature = (data = None, timestamp = None, next_timestamp = Next::default(), *, to = None, shape = None),
        text_signature = "($self, data=None, timestamp=None, next_timestamp=..., *, to=None, shape=None)"
    )]
    fn send(
        slf: &Bound<'_, OutPort>,
        data: Option<&Bound<'_, PyAny>>,
        timestamp: Option<f64>,
        next_timestamp: Next,
        to: Option<u32>,
        shape: Option<Vec<u64>>,
    ) -> PyResult<bool> {
        let port = slf.as_super().get();
        port.instance().send(slf.py(), port.bound(), data, timestamp, next_timestamp, to, shape)
    }

    /// Offer an object on the port, whose couplings are pools; return how many readers choose it.
    ///
    /// `Instance.put` explains it.
    #[pyo3(signature = (data = None, /, **attributes))]
    fn put(
        slf: &Bound<'_, OutPort>,
        data: Option<&Bound<'_, PyAny>>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let port = slf.as_super().get();
        port.instance().put(slf.py(), port.bound(), data, attributes)
    }

    /// Put an object of which `data` is the block of this rank. `Instance.put_block` explains it.
    #[pyo3(signature = (data, shape, /, **attributes))]
    fn put_block(
        slf: &Bound<'_, OutPort>,
        data: Option<&Bound<'_, PyAny>>,
        shape: Option<Vec<u64>>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let port = slf.as_super().get();
        port.instance().put_block(slf.py(), port.bound(), data, shape, attributes)
    }

    /// Return how many readers would choose an object with these attributes. `Instance.wanted` explains it.
    #[pyo3(signature = (**attributes))]
    fn wanted(slf: &Bound<'_, OutPort>, attributes: Option<&Bound<'_, PyDict>>) -> PyResult<u64> {
        let port = slf.as_super().get();
        port.instance().wanted(slf.py(), port.bound(), attributes)
    }

    /// Return a context in which objects are put that become visible together, as `Instance.group` does.
    #[pyo3(signature = (**attributes))]
    fn group(slf: &Bound<'_, OutPort>, attributes: Option<&Bound<'_, PyDict>>) -> PyResult<Group> {
        let port = slf.as_super().get();
        Instance::group(port.instance.clone_ref(slf.py()), port.bound().to_owned(), attributes)
    }

    /// Say that nothing more is put here. `Instance.end` explains it.
    fn end(slf: &Bound<'_, OutPort>) -> PyResult<()> {
        let port = slf.as_super().get();
        port.instance().end(slf.py(), port.bound())
    }

    /// Put the blocks of all ranks together on rank 0, which sends the array, as `Instance.send_gathered` does.
    #[pyo3(
        signature = (block, decomposition, timestamp = None, next_timestamp = Next::default(), *, to = None),
        text_signature = "($self, block, decomposition, timestamp=None, next_timestamp=..., *, to=None)"
    )]
    fn send_gathered(
        slf: &Bound<'_, OutPort>,
        block: &Bound<'_, PyAny>,
        decomposition: &str,
        timestamp: Option<f64>,
        next_timestamp: Next,
        to: Option<u32>,
    ) -> PyResult<bool> {
        let port = slf.as_super().get();
        let instance = port.instance();
        instance.send_gathered(slf.py(), port.bound(), block, decomposition, timestamp, next_timestamp, to)
    }

    /// Declare that nothing is sent on the port in this iteration (O_i) or pass (O_f).
    fn skip(slf: &Bound<'_, OutPort>) -> PyResult<()> {
        let port = slf.as_super().get();
        port.instance().skip(slf.py(), port.bound())
    }

    /// Send to the port that `handle` stands for what is sent on this open port, as `Instance.open` does.
    fn open(slf: &Bound<'_, OutPort>, handle: &[u8]) -> PyResult<u32> {
        let port = slf.as_super().get();
        port.instance().open(slf.py(), port.bound(), handle)
    }

    /// End what `open` began: that with this number, or all that are open at the port.
    #[pyo3(signature = (number = None))]
    fn close(slf: &Bound<'_, OutPort>, number: Option<u32>) -> PyResult<()> {
        let port = slf.as_super().get();
        port.instance().close(slf.py(), port.bound(), number)
    }

    fn __repr__(slf: &Bound<'_, OutPort>) -> String {
        slf.as_super().get().described("OutPort")
    }
}

/// An in port that was looked up once: what `Instance.in_` returns.
#[pyclass(extends = BoundPort, frozen, module = "xmml_native._native")]
pub struct InPort;

impl InPort {
    /// The port of an instance that is known to be one.
    pub fn of(instance: Py<Instance>, name: &str) -> PyClassInitializer<InPort> {
        PyClassInitializer::from(BoundPort::of(instance, name)).add_subclass(InPort)
    }
}

#[pymethods]
impl InPort {
    /// Wait for the next message and return it. The arguments and errors are those of `Instance.receive`.
    #[pyo3(
        signature = (*, of = None, default = Fallback::Missing, timeout = None),
        text_signature = "($self, *, of=None, default=..., timeout=None)"
    )]
    fn receive<'py>(
        slf: &Bound<'py, InPort>,
        of: Option<u32>,
        default: Fallback,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, Message>> {
        let port = slf.as_super().get();
        port.instance().receive(slf.py(), port.bound(), of, default, timeout)
    }

    /// Wait for the next message and return it, or None when its sender has ended.
    #[pyo3(signature = (of = None))]
    fn receive_or_end<'py>(slf: &Bound<'py, InPort>, of: Option<u32>) -> PyResult<Option<Bound<'py, Message>>> {
        let port = slf.as_super().get();
        port.instance().receive_or_end(slf.py(), port.bound(), of)
    }

    /// Wait for the next object that the selector chooses and return it; None when all writers have ended.
    ///
    /// The errors are those of `Instance.take`.
    #[pyo3(signature = (timeout = None))]
    fn take<'py>(slf: &Bound<'py, InPort>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, Object>>> {
        let port = slf.as_super().get();
        port.instance().take(slf.py(), port.bound(), timeout)
    }

    /// Iterate over the objects until all writers have ended: `for field in port.objects()`.
    #[pyo3(signature = (timeout = None))]
    fn objects(slf: &Bound<'_, InPort>, timeout: Option<f64>) -> Objects {
        let port = slf.as_super().get();
        Instance::objects(port.instance.clone_ref(slf.py()), port.bound().to_owned(), timeout)
    }

    /// Receive one message from every copy at the other end.
    ///
    /// Returns a list with one message if it is not a multiplied instance.
    fn receive_all<'py>(slf: &Bound<'py, InPort>) -> PyResult<Vec<Bound<'py, Message>>> {
        let port = slf.as_super().get();
        port.instance().receive_all(slf.py(), port.bound())
    }

    /// Iterate over the messages until the sender has ended: `for message in port.messages()`.
    #[pyo3(signature = (*, of = None))]
    fn messages(slf: Py<InPort>, of: Option<u32>) -> Messages {
        Messages { port: slf, of }
    }

    /// Return whether a message waits, so that `receive` would return at once.
    #[pyo3(signature = (of = None))]
    fn has_message(slf: &Bound<'_, InPort>, of: Option<u32>) -> PyResult<bool> {
        let port = slf.as_super().get();
        port.instance().has_message(slf.py(), port.bound(), of)
    }

    /// Have `callback` called with every message; None: no longer. `Instance.on_message` says when it is called.
    #[pyo3(signature = (callback))]
    fn on_message(slf: &Bound<'_, InPort>, callback: Option<Py<PyAny>>) -> PyResult<()> {
        let port = slf.as_super().get();
        port.instance().on_message(slf.py(), port.bound(), callback)
    }

    /// Return a handle of this open port, as `Instance.handle` does.
    #[pyo3(signature = (*, holders = 1, methods = Vec::new()), text_signature = "($self, *, holders=1, methods=())")]
    fn handle<'py>(slf: &Bound<'py, InPort>, holders: u32, methods: Vec<String>) -> PyResult<Bound<'py, PyAny>> {
        let port = slf.as_super().get();
        let options = PyDict::new(slf.py());
        options.set_item("holders", holders)?;
        options.set_item("methods", methods)?;
        port.instance.bind(slf.py()).call_method("handle", (port.bound(),), Some(&options))
    }

    fn __repr__(slf: &Bound<'_, InPort>) -> String {
        slf.as_super().get().described("InPort")
    }
}

/// The messages on a port until its sender has ended.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Messages {
    port: Py<InPort>,
    of: Option<u32>,
}

#[pymethods]
impl Messages {
    fn __iter__(slf: Py<Messages>) -> Py<Messages> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Message>>> {
        InPort::receive_or_end(self.port.bind(py), self.of)
    }
}
