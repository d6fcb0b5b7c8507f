//! `_native.Coordinator`: the protocol side of a run's coordinator; what to do about its events is Python's.

use std::os::fd::RawFd;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pythonize::{depythonize, pythonize};
use serde::Deserialize;
use xmml_core::coordinator::{self as core, ConduitTotals, CoordinatorOptions, Event, Wait, WaitKind};
use xmml_core::spec::{wired, ConduitSpec, InstanceSpec};
use xmml_wire::methods::MethodReport;

use crate::{errors, methods};

/// The listener to which the instances of a run connect.
///
/// It tells each instance who it is, and turns what instances report into events.
///
/// Args:
///     run_id: the name of the run.
///     secret: the key of the run.
///     listen: host and port at which to listen for TCP as well ("127.0.0.1:0").
///     relay: host and port of a relay and its site ("login:40001/alpha") through which to be reached.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Coordinator {
    core: core::Coordinator,
}

#[pymethods]
impl Coordinator {
    #[new]
    #[pyo3(signature = (run_id, secret, listen = None, relay = None))]
    fn new(
        py: Python<'_>,
        run_id: String,
        secret: Vec<u8>,
        listen: Option<String>,
        relay: Option<String>,
    ) -> PyResult<Coordinator> {
        let options = CoordinatorOptions { run_id, secret, listen, relay };
        let core = py.detach(|| core::Coordinator::start(options)).map_err(|e| errors::raise(py, e))?;
        Ok(Coordinator { core })
    }

    /// Where instances can reach it, for XMML_COORDINATOR.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.core.addresses()
    }

    /// Return a descriptor that is readable while events wait.
    fn fileno(&self) -> RawFd {
        self.core.event_fd()
    }

    /// Return the events since the last call, as dictionaries with the key "event"; never wait.
    fn take_events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        events(py, self.core.take_events())
    }

    /// Return the events as `take_events` does, but wait up to `timeout` seconds for the first one.
    fn wait_events<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyList>> {
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or_default();
        let waited = py.detach(|| self.core.wait_events(timeout));
        py.check_signals()?;
        events(py, waited)
    }

    /// Make an instance known; `spec` has the fields of the plan.
    fn define(&self, py: Python<'_>, spec: &Bound<'_, PyAny>) -> PyResult<()> {
        let spec = depythonize(spec)?;
        py.detach(|| self.core.define(spec));
        Ok(())
    }

    /// Make all instances of a plan known, which is given as the text of its `plan.json`.
    fn define_plan(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        py.detach(|| {
            let plan: PlanText = serde_json::from_str(text)?;
            self.core.define_all(wired(plan.instances, plan.conduits));
            Ok(())
        })
        .map_err(|error: serde_json::Error| PyValueError::new_err(format!("the plan cannot be read: {error}")))
    }

    /// Make a tap known, which may join from now on: an instance of which the model knows nothing.
    ///
    /// `spec` has the fields of an instance of the plan, and its conduits, which begin at out ports of other
    /// instances and are pools with `is_tap`. When it has joined, there is an event "opened" for each.
    fn add_tap(&self, py: Python<'_>, spec: &Bound<'_, PyAny>) -> PyResult<()> {
        let spec = depythonize(spec)?;
        py.detach(|| self.core.add_tap(spec));
        Ok(())
    }

    /// Tell every instance that the run is over, and why.
    fn abort(&self, py: Python<'_>, reason: &str) {
        py.detach(|| self.core.abort(reason));
    }

    /// Tell the partners of an instance that it has died while the run goes on, and let it in no more.
    fn go_on_without(&self, py: Python<'_>, instance: &str) {
        py.detach(|| self.core.go_on_without(instance));
    }

    /// Give a conduit more capacity.
    fn grow(&self, py: Python<'_>, conduit: u32, capacity: u32) {
        py.detach(|| self.core.grow(conduit, capacity));
    }

    /// Ask an instance whether it still waits as it reported with `epoch`; the answer is the event "confirmed".
    fn confirm(&self, py: Python<'_>, instance: &str, epoch: u64) {
        py.detach(|| self.core.confirm(instance, epoch));
    }

    /// Ask every instance how its conduits travel; each answer is an event "figures" with this number.
    fn enquire(&self, py: Python<'_>, number: u64) {
        py.detach(|| self.core.enquire(number));
    }

    /// Allow other methods on a conduit, in this order (none: all); return the number of the change.
    ///
    /// The event "changed" with this number says what became of it.
    fn change(&self, py: Python<'_>, conduit: u32, methods: Vec<String>) -> PyResult<u64> {
        py.detach(|| self.core.change(conduit, &methods)).map_err(|e| errors::raise(py, e))
    }

    /// Stop listening and close every connection.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.core.close());
    }
}

/// What a plan tells the coordinator; the rest is about how programs are started.
#[derive(Deserialize)]
struct PlanText {
    instances: Vec<InstanceSpec>,
    conduits: Vec<ConduitSpec>,
}

fn events(py: Python<'_>, events: Vec<Event>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for event in events {
        list.append(to_dict(py, event)?)?;
    }
    Ok(list)
}

/// A dictionary with the named entries.
macro_rules! dict {
    ($py:expr, $($key:literal: $value:expr),+ $(,)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item($key, $value)?;)+
        dict
    }};
}

fn to_dict(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyDict>> {
    Ok(match event {
        Event::Joined { instance, pid, host, language, version } => dict!(py,
            "event": "joined", "instance": instance, "pid": pid, "host": host, "language": language, "version": version,
        ),
        Event::Progress {
            instance,
            run,
            iteration,
            time,
            messages_sent,
            bytes_sent,
            messages_received,
            bytes_received,
        } => dict!(py,
            "event": "progress", "instance": instance, "run": run, "iteration": iteration, "time": time,
            "messages_sent": messages_sent, "bytes_sent": bytes_sent,
            "messages_received": messages_received, "bytes_received": bytes_received,
        ),
        Event::Waiting { instance, epoch, waits, is_any, is_timed, sent, received } => {
            let waits = waits.into_iter().map(|w| wait(py, w)).collect::<PyResult<Vec<_>>>()?;
            dict!(py,
                "event": "waiting", "instance": instance, "epoch": epoch, "waits": waits, "is_any": is_any, "is_timed": is_timed, "sent": sent, "received": received,
            )
        }
        Event::Resumed { instance, epoch } => {
            dict!(py, "event": "resumed", "instance": instance, "epoch": epoch)
        }
        Event::Confirmed { instance, epoch, still } => dict!(py,
            "event": "confirmed", "instance": instance, "epoch": epoch, "still": still,
        ),
        Event::Warning { instance, text } => {
            dict!(py, "event": "warning", "instance": instance, "text": text)
        }
        Event::Failed { instance, text } => {
            dict!(py, "event": "failed", "instance": instance, "text": text)
        }
        Event::Left { instance, runs, conduits, waited_s } => {
            let conduits = conduits.into_iter().map(|c| totals(py, c)).collect::<PyResult<Vec<_>>>()?;
            dict!(py, "event": "left", "instance": instance, "runs": runs, "conduits": conduits, "waited_s": waited_s)
        }
        Event::Away { instance, limit_s } => dict!(py, "event": "away", "instance": instance, "limit_s": limit_s),
        Event::Back { instance } => dict!(py, "event": "back", "instance": instance),
        Event::Lost { instance } => dict!(py, "event": "lost", "instance": instance),
        Event::Refused { peer, reason } => {
            dict!(py, "event": "refused", "peer": peer, "reason": reason)
        }
        Event::Conduits { instance, conduits, method, protected, refused } => dict!(py,
            "event": "conduits", "instance": instance, "conduits": conduits, "method": method, "protected": protected, "refused": methods::reasons(py, refused)?,
        ),
        Event::Figures { instance, number, sending, receiving } => dict!(py,
            "event": "figures", "instance": instance, "number": number,
            "sending": reports(py, sending)?, "receiving": reports(py, receiving)?,
        ),
        Event::Changed { instance, change, conduit, method, problem } => dict!(py,
            "event": "changed", "instance": instance, "change": change, "conduit": conduit, "method": method, "problem": problem,
        ),
        Event::GivenAgain { instance, conduit, objects, deadly } => dict!(py,
            "event": "given_again", "instance": instance, "conduit": conduit, "objects": objects, "deadly": deadly,
        ),
        Event::Opened { instance, conduit } => dict!(py,
            "event": "opened", "instance": instance, "conduit": pythonize(py, &*conduit)?,
        ),
    })
}

fn reports(py: Python<'_>, reports: Vec<MethodReport>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    reports.into_iter().map(|report| methods::report(py, report)).collect()
}

fn wait(py: Python<'_>, wait: Wait) -> PyResult<Bound<'_, PyDict>> {
    let kind = match wait.kind {
        WaitKind::Receive => "receive",
        WaitKind::Send => "send",
        WaitKind::Holders => "holders",
        WaitKind::Settled => "settled",
    };
    Ok(dict!(py, "conduit": wait.conduit, "kind": kind))
}

fn totals(py: Python<'_>, totals: ConduitTotals) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py,
        "conduit": totals.conduit, "sent": totals.sent, "received": totals.received,
        "bytes": totals.bytes, "dropped": totals.dropped, "replaced": totals.replaced,
    ))
}
