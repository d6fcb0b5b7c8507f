//! `_native.Instance`: what `xmml_native.Instance` inherits its calls from.

mod alone;
pub mod objects;
pub mod port;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};
use pythonize::{depythonize, pythonize};
use xmml_core::instance::{self as core, JoinOptions, Received, Sent, Stamps};
use xmml_core::spec::InstanceSpec;
use xmml_wire::buffer::BufferPool;
use xmml_wire::data::{Data, Order};
use xmml_wire::error::{Error, Result};
use xmml_wire::lock::lock;

use crate::arguments::{Fallback, Next};
use crate::array::Loan;
use crate::data::lend_data;
use crate::declared::{Port, Scale};
use crate::errors;
use crate::message::Message;
use crate::methods;
use crate::object::Object;
use crate::params;
use crate::payload;
use crate::pool;
use crate::team::Ranks;

use self::objects::{Group, Objects};
use self::port::{InPort, OutPort};

/// What a signal's handler raised during a wait, e.g. KeyboardInterrupt.
type Raised = Arc<Mutex<Option<PyErr>>>;

/// An instance of the model, joined to its run (or alone).
#[pyclass(subclass, frozen, module = "xmml_native._native")]
pub struct Instance {
    core: core::Instance,
    raised: Raised,
    /// Memory of what is sent.
    pool: BufferPool,
}

impl Instance {
    fn over(core: core::Instance) -> Instance {
        Instance { core, raised: Raised::default(), pool: BufferPool::new() }
    }

    /// For a program whose calls may come from the main thread, where signal handlers run: a signal then ends a wait.
    fn interruptible(self) -> Instance {
        let slot = self.raised.clone();
        self.core.set_interrupt(Box::new(move || {
            Python::attach(|py| match py.check_signals() {
                Ok(()) => false,
                Err(e) => {
                    *lock(&slot) = Some(e);
                    true
                }
            })
        }));
        self
    }

    fn raise(&self, py: Python<'_>, error: Error) -> PyErr {
        let take = || lock(&self.raised).take();
        let raised = match &error {
            Error::Interrupted => take(),
            Error::Callback { instance, port, .. } => take().inspect(|raised| {
                // An exception that takes no notes is told all the same.
                let _ = raised.value(py).call_method1("add_note", (format!("in the callback of {instance}.{port}"),));
            }),
            _ => None,
        };
        raised.unwrap_or_else(|| errors::raise(py, error))
    }

    /// Runs a call that may wait, while other Python threads go on.
    fn waiting<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&core::Instance) -> Result<T> + Send) -> PyResult<T> {
        py.detach(|| call(&self.core)).map_err(|e| self.raise(py, e))
    }

    fn duration(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Duration>> {
        timeout.map(Duration::try_from_secs_f64).transpose().map_err(|_| {
            let problem = format!("timeout={} is not a number of seconds from 0", timeout.unwrap_or_default());
            errors::raise(py, Error::Usage { problem })
        })
    }

    fn receive_any(&self, py: Python<'_>, port: &str, of: Option<u32>, timeout: Option<f64>) -> PyResult<Received> {
        let timeout = self.duration(py, timeout)?;
        self.waiting(py, |core| core.receive(port, of, timeout))
    }

    fn timed_out(&self, py: Python<'_>, port: &str, timeout: Option<f64>) -> PyErr {
        let (instance, seconds) = (self.core.name().into(), timeout.unwrap_or_default());
        self.raise(py, Error::TimedOut { instance, port: port.into(), seconds })
    }

    /// Runs a call that may hand a loan over: the array that the caller has of it can then be read only.
    fn handing_over<T: Send>(
        &self,
        py: Python<'_>,
        given: Option<&Bound<'_, PyAny>>,
        (data, loans): (Data, Vec<Loan>),
        call: impl FnOnce(&core::Instance, Data) -> Result<T> + Send,
    ) -> PyResult<T> {
        let on_loan = match &data {
            Data::Array(array) if self.core.is_loan(array.data.as_ptr()) => Some(array.data.as_ptr() as usize),
            _ => None,
        };
        let done = self.waiting(py, |core| call(core, data));
        drop(loans); // the core has copied what it could not write
        let done = done?;
        if let (Some(start), Some(given)) = (on_loan, given) {
            if !self.core.is_loan(start as *const u8) {
                // It belongs to the receiver now.
                given.call_method("setflags", (false,), None)?;
            }
        }
        Ok(done)
    }

    fn bad_param(&self, py: Python<'_>, name: &str, problem: String) -> PyErr {
        errors::raise(py, Error::Parameter { instance: self.core.name().into(), name: name.into(), problem })
    }

    /// The message that stands for one on a port without a coupling.
    fn default_message<'py>(&self, py: Python<'py>, value: Py<PyAny>) -> PyResult<Bound<'py, Message>> {
        match value.into_bound(py).cast_into::<Message>() {
            Ok(message) => Ok(message),
            Err(other) => Bound::new(py, Message::of_value(other.into_inner().unbind(), self.core.time())),
        }
    }
}

#[pymethods]
impl Instance {
    /// Joins the run this process was started for (`hosted_as`: as this one of several instances that it hosts); with a specification,
    /// an instance that is alone. With `team`, all ranks that it reaches join together.
    #[new]
    #[pyo3(signature = (spec = None, inputs = None, *, hosted_as = None, team = None))]
    fn new(
        py: Python<'_>,
        spec: Option<&Bound<'_, PyAny>>,
        inputs: Option<BTreeMap<String, Bound<'_, PyList>>>,
        hosted_as: Option<String>,
        team: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Instance> {
        let is_hosted = hosted_as.is_some();
        let joined = match spec {
            None => {
                let options =
                    JoinOptions { coordinator: None, instance: hosted_as, secret_file: None, language: "python" };
                match team.map(Ranks::new).transpose()? {
                    None => py.detach(|| core::Instance::join(options)),
                    Some(ranks) => py.detach(|| core::Instance::join_team(options, Box::new(ranks))),
                }
            }
            Some(spec) => {
                let spec: InstanceSpec = depythonize(spec)?;
                let pool = BufferPool::new();
                let queues = alone::inputs(py, &spec, inputs.unwrap_or_default(), &pool)?;
                core::Instance::alone(spec, queues)
            }
        };
        let instance = joined.map(Instance::over).map_err(|e| errors::raise(py, e))?;
        Ok(if is_hosted { instance } else { instance.interruptible() })
    }

    /// What the model says about this instance, as a dictionary.
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize(py, self.core.spec())?)
    }

    /// Every parameter, as text.
    #[getter]
    fn params(&self) -> BTreeMap<String, String> {
        self.core.spec().params.clone()
    }

    /// Return the parameter `name`, converted to `type` (str, float, int or bool), in `unit` if one is given.
    ///
    /// Without a unit, a value that has one comes in base units (s, m, byte, kg, ...). `default` is returned as it is
    /// when the model has no such parameter.
    #[pyo3(
        signature = (name, r#type = None, unit = None, default = Fallback::Missing),
        text_signature = "($self, name, type=str, unit=None, default=...)"
    )]
    fn param<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        r#type: Option<&Bound<'py, PyType>>,
        unit: Option<&str>,
        default: Fallback,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(text) = self.core.spec().params.get(name) else {
            return match default {
                Fallback::Given(value) => Ok(value.into_bound(py)),
                Fallback::Missing => Err(self.bad_param(py, name, params::missing(self.core.spec()))),
            };
        };
        params::converted(py, text, r#type, unit).map_err(|problem| self.bad_param(py, name, problem))
    }

    /// Name in the model; copies are called `c[0]`, `c[1]`, ...
    #[getter]
    fn name(&self) -> &str {
        self.core.model_name()
    }

    /// Which rank of an MPI program this is, from 0; 0 if it has not joined with others.
    #[getter]
    fn rank(&self) -> u32 {
        self.core.rank()
    }

    /// How many ranks have joined together; 1 if it has not joined with others.
    #[getter]
    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    /// Return the part of the array on `port` that this rank holds: its start, its extent, and the whole extents.
    #[pyo3(signature = (port, shape = None))]
    fn _block(&self, py: Python<'_>, port: &str, shape: Option<Vec<u64>>) -> PyResult<(Vec<u64>, Vec<u64>, Vec<u64>)> {
        let (block, whole) = self.core.block(port, shape.as_deref()).map_err(|e| self.raise(py, e))?;
        Ok((block.start, block.extent, whole))
    }

    /// Choose whether received parts of arrays are put together with the first index fastest.
    fn _prefer_column_major(&self, yes: bool) {
        self.core.prefer_order(if yes { Order::ColumnMajor } else { Order::RowMajor });
    }

    /// Put the blocks of all ranks together on rank 0, which sends the whole array on `port`.
    ///
    /// Returns False if the receiver has left. `decomposition` says how the ranks lie to each other, as `run:decomp`
    /// does: "block(x:2,y:2)". The blocks need not be of equal size, but must make a grid.
    #[pyo3(
        signature = (port, block, decomposition, timestamp = None, next_timestamp = Next::default(), *, to = None),
        text_signature = "($self, port, block, decomposition, timestamp=None, next_timestamp=..., *, to=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn send_gathered(
        &self,
        py: Python<'_>,
        port: &str,
        block: &Bound<'_, PyAny>,
        decomposition: &str,
        timestamp: Option<f64>,
        next_timestamp: Next,
        to: Option<u32>,
    ) -> PyResult<bool> {
        let stamps = Stamps { timestamp, next: next_timestamp.0 };
        let decomposition = self.core.decomposition(decomposition).map_err(|e| self.raise(py, e))?;
        let (data, loans) = lend_data(block, &self.pool)?;
        let Data::Array(array) = data else {
            let problem = format!("a block is an array, and this is {}", data.describe());
            return Err(errors::raise(py, Error::Usage { problem }));
        };
        let sent = self.waiting(py, |core| core.send_gathered(port, to, array, &decomposition, stamps));
        drop(loans); // the core has copied what it could not write
        Ok(!matches!(sent?, Sent::ReceiverGone))
    }

    /// Which copy this is, from 0.
    #[getter]
    fn index(&self) -> u32 {
        self.core.spec().index
    }

    /// How many copies there are.
    #[getter]
    fn count(&self) -> u32 {
        self.core.spec().count
    }

    /// Time step in seconds; 0 if the model gives none.
    #[getter]
    fn delta(&self) -> f64 {
        self.core.spec().delta_s
    }

    /// Total time of one run in seconds; 0 if the model gives none.
    #[getter]
    fn total(&self) -> f64 {
        self.core.spec().total_s
    }

    /// Return the scale `name` of the model, in base units; figures that the model does not give are 0.
    fn scale(&self, py: Python<'_>, name: &str) -> PyResult<Scale> {
        self.core.scale(name).map(Scale::from).map_err(|e| self.raise(py, e))
    }

    /// The ports that the model declares, by name, in its order.
    #[getter]
    fn ports<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ports = PyDict::new(py);
        for port in &self.core.spec().ports {
            ports.set_item(&port.name, Port::new(port, self.connected(py, &port.name)?).into_pyobject(py)?)?;
        }
        Ok(ports)
    }

    /// Model time in seconds.
    #[getter]
    fn time(&self) -> f64 {
        self.core.time()
    }

    /// Model time at which this pass began, in seconds.
    #[getter]
    fn origin(&self) -> f64 {
        self.core.origin()
    }

    /// Wait for the next pass and return True, or return False when no more will come.
    ///
    /// An instance without coupled f_init ports makes one pass. Otherwise a pass begins when each of these ports has a
    /// message, which `receive` then returns, and no more come when their senders have ended.
    fn reuse(&self, py: Python<'_>) -> PyResult<bool> {
        self.waiting(py, core::Instance::reuse)
    }

    /// Iterate over the model times of this pass's iterations, in seconds.
    fn steps(slf: Py<Instance>) -> Steps {
        Steps { instance: slf }
    }

    /// Return an array to be filled and then sent: receivers on this host get its memory without a copy.
    ///
    /// Its contents are unspecified. After a send it belongs to the receiver, and is read-only here; ask for another
    /// one then: memory that receivers are done with is used again.
    #[pyo3(
        signature = (shape, dtype = None, order = "C"),
        text_signature = "($self, shape, dtype=float, order='C')"
    )]
    fn empty<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
        order: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let extents = shape.extract::<u64>().map(|extent| vec![extent]).or_else(|_| shape.extract::<Vec<u64>>());
        let Ok(shape) = extents else {
            let problem = format!("shape={shape}: the shape of an array is a whole number from 0, or several");
            return Err(errors::raise(py, Error::Usage { problem }));
        };
        let order = match order {
            "C" => Order::RowMajor,
            "F" => Order::ColumnMajor,
            other => {
                let problem = format!("order={other:?}: an array has order \"C\" (rows) or \"F\" (columns)");
                return Err(errors::raise(py, Error::Usage { problem }));
            }
        };
        payload::empty(py, &self.core, shape, dtype, order)
    }

    /// Look the out port `port` up once: a name that is misspelt, or that of an in port, is a `PortError` here.
    ///
    /// The port that is returned has the calls that an out port is for, without its name: `port.send(data)`.
    fn out(slf: Py<Instance>, py: Python<'_>, port: &str) -> PyResult<Py<OutPort>> {
        slf.get().core.bind_out(port).map_err(|e| slf.get().raise(py, e))?;
        Py::new(py, OutPort::of(slf, port))
    }

    /// Look the in port `port` up once, as `out` does with an out port.
    fn in_(slf: Py<Instance>, py: Python<'_>, port: &str) -> PyResult<Py<InPort>> {
        slf.get().core.bind_in(port).map_err(|e| slf.get().raise(py, e))?;
        Py::new(py, InPort::of(slf, port))
    }

    /// Send `data` on `port`; return False if the receiver has left.
    ///
    /// The time stamps follow from the loop unless given. A `Message` as data is passed on with its own time stamps.
    /// `to` addresses one copy of a multiplied receiver; without it every copy gets the message. On a parallel port
    /// each rank sends its block; `shape` are the extents of the whole array if the model does not give them.
    #[pyo3(
        signature = (port, data = None, timestamp = None, next_timestamp = Next::default(), *, to = None, shape = None),
        text_signature = "($self, port, data=None, timestamp=None, next_timestamp=..., *, to=None, shape=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn send(
        &self,
        py: Python<'_>,
        port: &str,
        data: Option<&Bound<'_, PyAny>>,
        timestamp: Option<f64>,
        next_timestamp: Next,
        to: Option<u32>,
        shape: Option<Vec<u64>>,
    ) -> PyResult<bool> {
        let mut stamps = Stamps { timestamp, next: next_timestamp.0 };
        let given = data;
        let (data, loans) = match data {
            None => (Data::Nothing, Vec::new()),
            Some(value) => match value.cast::<Message>() {
                Ok(message) => {
                    let message = message.borrow();
                    let (timestamp, next) = stamps.or((message.timestamp, message.next_timestamp));
                    stamps = Stamps { timestamp: Some(timestamp), next: next.into() };
                    message.lend_data(py, &self.pool)?
                }
                Err(_) => lend_data(value, &self.pool)?,
            },
        };
        let send = |core: &core::Instance, data| core.send_block(port, to, data, shape.as_deref(), stamps);
        let sent = self.handing_over(py, given, (data, loans), send)?;
        Ok(!matches!(sent, Sent::ReceiverGone))
    }

    /// Offer an object on `port`, whose couplings are pools; return how many readers choose it and have not left.
    ///
    /// Attributes are given by name and checked against the datatype of the port; one that is None is left out. It may
    /// be called at any time, any number of times. It waits while a reader that chooses the object holds as much as its
    /// limit (`run:limit`) allows; what nobody chooses is not sent. `data` may be changed when it returns, except for
    /// an array from `empty`, which belongs to the readers then.
    ///
    /// >>> me.put("fields", array, step=3, param=130, levtype="pl")
    ///
    /// Raises:
    ///     Error: an attribute does not exist, is not allowed or is missing, or the port carries messages.
    #[pyo3(signature = (port, data = None, /, **attributes))]
    fn put(
        &self,
        py: Python<'_>,
        port: &str,
        data: Option<&Bound<'_, PyAny>>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        self.put_block(py, port, data, None, attributes)
    }

    /// Put an object whose array this rank has a block of, `data`; return how many readers choose it.
    ///
    /// `shape` are the extents of the whole array; where the model gives them, `put` does the same. All ranks call
    /// this, with the same attributes.
    ///
    /// >>> me.put_block("fields", block, (720, 1440), step=3, param="t")
    ///
    /// Raises:
    ///     Error: as `put`, or this is not the block that this rank holds (`block` says which that is).
    #[pyo3(signature = (port, data, shape, /, **attributes))]
    fn put_block(
        &self,
        py: Python<'_>,
        port: &str,
        data: Option<&Bound<'_, PyAny>>,
        shape: Option<Vec<u64>>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let set = pool::attributes_of(attributes)?;
        let content = data.map_or(Ok((Data::Nothing, Vec::new())), |value| lend_data(value, &self.pool))?;
        self.handing_over(py, data, content, |core, data| {
            let set: Vec<_> = set.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            core.put_block(port, data, shape.as_deref(), &set)
        })
    }

    /// Return how many readers would choose an object on `port` with these attributes, and have not left.
    ///
    /// Where nobody would, the object need not be computed. Nothing is put. Selectors that ask for the payload
    /// (`sys.size`, `sys.type`, `sys.shape`) see none.
    ///
    /// >>> if me.wanted("fields", step=3, param="t"):
    /// ...     me.put("fields", interpolated(temperature), step=3, param="t")
    ///
    /// Raises:
    ///     Error: as `put`.
    #[pyo3(signature = (port, /, **attributes))]
    fn wanted(&self, py: Python<'_>, port: &str, attributes: Option<&Bound<'_, PyDict>>) -> PyResult<u64> {
        let set = pool::attributes_of(attributes)?;
        self.waiting(py, |core| {
            let set: Vec<_> = set.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            core.wanted(port, &set)
        })
    }

    /// Return a context in which objects are put on `port` that become visible together, when it ends.
    ///
    /// `attributes` are those that all of them have, unless a `put` says otherwise. Every object of a group has
    /// `sys.group`, its number, and `sys.follow`, how many of the group follow it at this reader. A group that is
    /// larger than the limit of a reader waits until that holds nothing.
    ///
    /// >>> with me.group("fields", step=3) as record:
    /// ...     record.put(temperature, param="t")
    ///
    /// Raises:
    ///     Error: when the block begins: an attribute does not exist or is not allowed, the port carries messages, or
    ///         another group was begun there; when it ends: as `put`.
    #[pyo3(signature = (port, /, **attributes))]
    pub fn group(slf: Py<Instance>, port: String, attributes: Option<&Bound<'_, PyDict>>) -> PyResult<Group> {
        let common = pool::attributes_of(attributes)?;
        Ok(Group { instance: slf, port, common, is_open: AtomicBool::new(false) })
    }

    /// Say that nothing more is put on `port`, for a program that goes on, for example to take answers.
    ///
    /// A reader sees the end when all its writers have said so, or have left. This does not wait; what waits for
    /// readers is still given to them. A worker of a queue sees the end when all objects there are settled.
    ///
    /// >>> for task in tasks:
    /// ...     me.put("tasks", task)
    /// >>> me.end("tasks")
    /// >>> results = [result.data for result in me.objects("results")]
    ///
    /// Raises:
    ///     Error: a group has begun and not ended, or the port carries messages.
    fn end(&self, py: Python<'_>, port: &str) -> PyResult<()> {
        self.waiting(py, |core| core.end(port))
    }

    /// Wait for the next object on `port` that its selector chooses and return it; None when all writers have ended.
    ///
    /// It may be called at any time, any number of times.
    ///
    /// Raises:
    ///     ReceiveTimeoutError: none came within `timeout` seconds.
    ///     PortError: the port is not coupled.
    ///     Error: the port carries messages.
    #[pyo3(signature = (port, timeout = None))]
    fn take<'py>(&self, py: Python<'py>, port: &str, timeout: Option<f64>) -> PyResult<Option<Bound<'py, Object>>> {
        let limit = self.duration(py, timeout)?;
        match self.waiting(py, |core| core.take(port, limit))? {
            core::Taken::Object(object) => Bound::new(py, Object::from(*object)).map(Some),
            core::Taken::Ended => Ok(None),
            core::Taken::TimedOut => Err(self.timed_out(py, port, timeout)),
            core::Taken::NotConnected => Err(self.raise(py, self.core.no_message_error(port))),
        }
    }

    /// Iterate over the objects on `port` until all writers have ended: `for field in me.objects("fields")`.
    ///
    /// With a time-out, `ReceiveTimeoutError` is raised when none comes for so many seconds.
    #[pyo3(signature = (port, timeout = None))]
    pub fn objects(slf: Py<Instance>, port: String, timeout: Option<f64>) -> Objects {
        Objects { instance: slf, port, timeout }
    }

    /// Wait for the next message on `port` and return it.
    ///
    /// `default` is the data returned when the port is not coupled, or brings the state of the previous pass and this
    /// is the first.
    ///
    /// Raises:
    ///     EndedError: the sender has ended.
    ///     ReceiveTimeoutError: no message came within `timeout` seconds.
    #[pyo3(
        signature = (port, *, of = None, default = Fallback::Missing, timeout = None),
        text_signature = "($self, port, *, of=None, default=..., timeout=None)"
    )]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        port: &str,
        of: Option<u32>,
        default: Fallback,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, Message>> {
        match self.receive_any(py, port, of, timeout)? {
            Received::Message(message) => Bound::new(py, Message::from(message)),
            Received::Ended => Err(self.raise(py, self.core.ended_error(port, of))),
            Received::NotConnected | Received::NoStateYet => match default {
                Fallback::Given(value) => self.default_message(py, value),
                Fallback::Missing => Err(self.raise(py, self.core.no_message_error(port))),
            },
            Received::TimedOut => Err(self.timed_out(py, port, timeout)),
        }
    }

    /// Wait for the next message on `port` and return it, or None when its sender has ended.
    #[pyo3(signature = (port, of = None))]
    fn receive_or_end<'py>(
        &self,
        py: Python<'py>,
        port: &str,
        of: Option<u32>,
    ) -> PyResult<Option<Bound<'py, Message>>> {
        match self.receive_any(py, port, of, None)? {
            Received::Message(message) => Bound::new(py, Message::from(message)).map(Some),
            Received::NotConnected | Received::NoStateYet => Err(self.raise(py, self.core.no_message_error(port))),
            Received::Ended | Received::TimedOut => Ok(None),
        }
    }

    /// Receive one message from every copy at the other end of `port`.
    ///
    /// Returns a list with one message if it is not a multiplied instance.
    fn receive_all<'py>(&self, py: Python<'py>, port: &str) -> PyResult<Vec<Bound<'py, Message>>> {
        let copies = self.copies(py, port)?;
        let of: Vec<Option<u32>> = if copies == 0 { vec![None] } else { (0..copies).map(Some).collect() };
        of.into_iter().map(|of| self.receive(py, port, of, Fallback::Missing, None)).collect()
    }

    /// Return whether a message waits on `port`, so that `receive` would return at once.
    #[pyo3(signature = (port, of = None))]
    fn has_message(&self, py: Python<'_>, port: &str, of: Option<u32>) -> PyResult<bool> {
        self.waiting(py, |core| core.has_message(port, of))
    }

    /// Declare that nothing is sent on `port` in this iteration (O_i) or pass (O_f).
    fn skip(&self, py: Python<'_>, port: &str) -> PyResult<()> {
        self.waiting(py, |core| core.skip(port))
    }

    /// Return whether `port` is coupled in this model.
    ///
    /// One that brings the state of the previous pass is not, during the first.
    fn connected(&self, py: Python<'_>, port: &str) -> PyResult<bool> {
        self.core.connected(port).map_err(|e| self.raise(py, e))
    }

    /// Return how many copies are at the other end of `port`; 0 if it is not a multiplied instance.
    fn copies(&self, py: Python<'_>, port: &str) -> PyResult<u32> {
        self.core.copies(port).map_err(|e| self.raise(py, e))
    }

    /// Return how each conduit of `port` travels, and what has passed.
    ///
    /// `conduit` and `name` say which; `chosen` is the method in use (None while that is not known), `refused` says why
    /// methods before it were not taken, `slower` which would have been the next. `messages` and `bytes` were sent (at
    /// an in port: taken), `messages_per_s` and `bytes_per_s` are the rates since the previous call, and `latency_s` is
    /// how long a message took lately until the receiver had taken it and this was known here (None at an in port).
    fn methods<'py>(&self, py: Python<'py>, port: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let reports = self.core.methods(port).map_err(|e| self.raise(py, e))?;
        reports.into_iter().map(|report| methods::report(py, report)).collect()
    }

    /// Allow these methods on every conduit of `port` from now on, in this order (none: all, fastest first).
    ///
    /// Also while messages pass: none is lost, doubled or reordered. May be called at either end. Returns when the
    /// conduits travel by what is allowed now. If none of the methods leads to the receiver, the conduit goes on as
    /// before, and an `Error` says why.
    fn set_methods(&self, py: Python<'_>, port: &str, methods: Vec<String>) -> PyResult<()> {
        self.waiting(py, |core| core.set_methods(port, &methods))
    }

    /// Have `callback` called with every message of the in port `port`; None: no longer.
    ///
    /// It is called by the thread that waits in a call of this instance (`receive`, `reuse`, a `send` on a full
    /// conduit, `serve`), as soon as the message is there and the order of operators allows its receipt, which the call
    /// is. Never two callbacks at once, never one within another. An exception in it fails the run, and comes out of
    /// the call that waited.
    #[pyo3(signature = (port, callback))]
    fn on_message(&self, py: Python<'_>, port: &str, callback: Option<Py<PyAny>>) -> PyResult<()> {
        let raised = self.raised.clone();
        let callback = callback.map(|callback| {
            Box::new(move |message| {
                Python::attach(|py| {
                    let message = Bound::new(py, Message::from(message));
                    message.and_then(|message| callback.call1(py, (message,))).map(|_| ()).map_err(|error| {
                        let text = error.to_string();
                        *lock(&raised) = Some(error);
                        text
                    })
                })
            }) as core::Callback
        });
        self.waiting(py, |core| core.on_message(port, callback))
    }

    /// Wait until at least one callback was called; return False if nothing more will come on any port that has one.
    ///
    /// Raises:
    ///     ReceiveTimeoutError: no callback was called within `timeout` seconds (0: only for what is there).
    #[pyo3(signature = (timeout = None))]
    fn serve(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = self.duration(py, timeout)?;
        match self.waiting(py, |core| core.serve(limit))? {
            core::Served::Called => Ok(true),
            core::Served::Ended => Ok(false),
            core::Served::TimedOut => Err(self.timed_out(py, "any port with a callback", timeout)),
        }
    }

    /// Return a handle of the open in port `port`, as bytes (see `xmml.Instance.handle`).
    fn _handle(&self, py: Python<'_>, port: &str, holders: u32, methods: Vec<String>) -> PyResult<Vec<u8>> {
        self.waiting(py, |core| core.handle(port, holders, &methods))
    }

    /// Send to the port that `handle` stands for what is sent on the open out port `port`, from now on.
    ///
    /// Returns a number by which `send` can address it alone (`to`); without, a send goes to every handle that is open
    /// at the port. Each opening makes a conduit of its own, which ends when it is closed or this instance leaves.
    fn open(&self, py: Python<'_>, port: &str, handle: &[u8]) -> PyResult<u32> {
        self.waiting(py, |core| core.open(port, handle))
    }

    /// End what `open` began: that with this number, or all that are open at `port`.
    ///
    /// What was sent before arrives.
    #[pyo3(signature = (port, number = None))]
    fn close(&self, py: Python<'_>, port: &str, number: Option<u32>) -> PyResult<()> {
        self.waiting(py, |core| core.close(port, number))
    }

    /// Let nobody open this handle of an own port any more; conduits that it has made go on.
    fn revoke(&self, py: Python<'_>, handle: &[u8]) -> PyResult<()> {
        self.waiting(py, |core| core.revoke(handle))
    }

    /// Tell people something through the run's log.
    fn warn(&self, py: Python<'_>, text: &str) {
        py.detach(|| self.core.warn(text));
    }

    /// Tell the run that this instance failed, and why; does not end the program.
    fn fail(&self, py: Python<'_>, text: &str) {
        py.detach(|| self.core.fail(text));
    }

    /// End normally: what is queued is still delivered, then every receiver is told that no more comes.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.waiting(py, core::Instance::leave)
    }

    /// End without leaving, as a program that ends does. After `leave` nothing happens.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| self.core.abandon());
    }

    /// What was sent so far, by port (only of an instance that is alone).
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        alone::outputs(py, &self.core)
    }
}

/// The iterations of a pass.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Steps {
    instance: Py<Instance>,
}

#[pymethods]
impl Steps {
    fn __iter__(slf: Py<Steps>) -> Py<Steps> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let instance = self.instance.get();
        instance.core.next_step().map_err(|e| instance.raise(py, e))
    }
}
