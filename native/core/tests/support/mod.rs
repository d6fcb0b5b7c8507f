//! A small run for tests: a coordinator, a secret, specifications made from one-line couplings, and instances that join.

#![allow(dead_code)] // every test program uses another part

pub mod by_hand;
#[path = "../../../wire/tests/support/descriptors.rs"]
pub mod descriptors;
pub mod farms;
#[path = "../../../wire/tests/support/not_run.rs"]
pub mod not_run;
pub mod proxy;
pub mod taps;
#[path = "../../../wire/tests/support/waiting.rs"]
pub mod waiting;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use xmml_core::coordinator::{Coordinator, CoordinatorOptions, Event};
use xmml_core::instance::{Instance, JoinOptions, Received, Stamps};
use xmml_core::spec::{wired, ConduitSpec, FilterSpec, InstanceSpec, Kind};
use xmml_wire::data::Data;
use xmml_wire::message::Message;

#[allow(unused_imports)] // no test uses all of it
pub use not_run::not_run;
#[allow(unused_imports)] // as above
pub use waiting::{await_some, await_that, await_while_moving, LIMIT};

/// A run with its coordinator.
pub struct Run {
    pub coordinator: Coordinator,
    pub events: Mutex<Vec<Event>>,
    secret_file: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.secret_file);
    }
}

pub const SECRET: [u8; 32] = [7; 32];

/// Whether runs have names of their own, because they meet somewhere.
pub static NUMBERED: AtomicBool = AtomicBool::new(false);

/// How many runs with names of their own there have been.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Writes a secret to a file that others cannot read.
pub fn write_secret(file: &Path, secret: &[u8]) {
    std::fs::write(file, secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>()).unwrap();
    std::fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

impl Run {
    pub fn of(model: Model) -> Run {
        Run::listening(model, None)
    }

    pub fn listening(model: Model, listen: Option<&str>) -> Run {
        Run::reachable(model, listen, None)
    }

    /// By TCP, and through a relay, if so wanted.
    pub fn reachable(model: Model, listen: Option<&str>, relay: Option<&str>) -> Run {
        let options = CoordinatorOptions {
            run_id: match NUMBERED.load(Ordering::Relaxed) {
                true => format!("test run {}", RUNS.fetch_add(1, Ordering::Relaxed)),
                false => "test run".into(),
            },
            secret: SECRET.to_vec(),
            listen: listen.map(str::to_owned),
            relay: relay.map(str::to_owned),
        };
        let coordinator = Coordinator::start(options).unwrap();
        for spec in model.specs() {
            coordinator.define(spec);
        }
        let unique = format!("xmml-test-{}-{:?}", std::process::id(), std::thread::current().id());
        let secret_file = std::env::temp_dir().join(unique.replace(['(', ')'], "-"));
        write_secret(&secret_file, &SECRET);
        Run { coordinator, events: Mutex::default(), secret_file }
    }

    pub fn join(&self, name: &str) -> Instance {
        self.try_join(name).unwrap()
    }

    pub fn options(&self, name: &str) -> JoinOptions {
        JoinOptions {
            coordinator: Some(self.coordinator.addresses().join(",")),
            instance: Some(name.into()),
            secret_file: Some(self.secret_file.clone()),
            language: "rust",
        }
    }

    /// Joins as an instance that knows no other way to the coordinator than by this method.
    pub fn join_by(&self, method: &str, name: &str) -> Instance {
        Instance::join(self.options_by(method, name)).unwrap()
    }

    /// Those of an instance that knows no other way to the coordinator than by this method.
    pub fn options_by(&self, method: &str, name: &str) -> JoinOptions {
        let addresses = self.coordinator.addresses();
        let is_by = |address: &&String| address.split(':').next() == Some(method);
        let by: Vec<&str> = addresses.iter().filter(is_by).map(String::as_str).collect();
        assert!(!by.is_empty(), "the coordinator is at {addresses:?} only");
        JoinOptions { coordinator: Some(by.join(",")), ..self.options(name) }
    }

    pub fn try_join(&self, name: &str) -> xmml_wire::error::Result<Instance> {
        Instance::join(self.options(name))
    }

    /// Waits for an event that fits; events that came before count too, each once.
    pub fn event(&self, what: &str, fits: impl Fn(&Event) -> bool) -> Event {
        let mut until = Instant::now() + LIMIT;
        loop {
            let mut events = self.events.lock().unwrap();
            if let Some(found) = events.iter().position(&fits) {
                return events.remove(found);
            }
            assert!(Instant::now() < until, "the event did not come: {what}; came: {events:?}");
            let more = self.coordinator.wait_events(Duration::from_millis(200));
            if !more.is_empty() {
                until = Instant::now() + LIMIT;
            }
            events.extend(more);
        }
    }

    /// All events so far that were not waited for.
    pub fn drain(&self) -> Vec<Event> {
        let mut events = self.events.lock().unwrap();
        events.extend(self.coordinator.take_events());
        std::mem::take(&mut *events)
    }
}

/// A model made of instances and couplings.
pub struct Model {
    instances: BTreeMap<String, InstanceSpec>,
    conduits: Vec<ConduitSpec>,
    pub methods: Vec<String>,
    pub protect: Option<bool>,
    /// Messages bear checksums, and none takes the short way.
    is_checked: bool,
}

impl Model {
    pub fn new() -> Model {
        Model {
            instances: BTreeMap::new(),
            conduits: Vec::new(),
            methods: Vec::new(),
            protect: None,
            is_checked: false,
        }
    }

    /// Only by this method; "protected tcp": encrypted and authenticated although it stays on this host; "checked shm": with checksums, so
    /// that no message takes the short way.
    pub fn by(method: &str) -> Model {
        let (kind, method) = method.split_once(' ').unwrap_or(("", method));
        let protect = (kind == "protected").then_some(true);
        Model { methods: vec![method.to_owned()], protect, is_checked: kind == "checked", ..Model::new() }
    }

    /// A submodel with ports like `"out:Oi in:S"` (`in:S!`: open to handles); `steps` iterations of one second.
    pub fn submodel(self, name: &str, ports: &str, steps: u64) -> Model {
        self.instance(name, Kind::Submodel, ports, steps)
    }

    pub fn mapper(self, name: &str, ports: &str) -> Model {
        self.instance(name, Kind::Mapper, ports, 1)
    }

    fn instance(mut self, name: &str, kind: Kind, ports: &str, steps: u64) -> Model {
        let mut spec = InstanceSpec::new(name);
        for port in ports.split_whitespace() {
            let (port, place) = port.split_once(':').unwrap();
            spec.add_port(port, place.trim_end_matches('!')).unwrap();
            spec.ports.last_mut().unwrap().open = place.ends_with('!');
        }
        spec.set_steps(steps, 1.0).unwrap();
        spec.kind = kind;
        self.instances.insert(name.into(), spec);
        self
    }

    /// Changes the specification of an instance.
    pub fn with(mut self, name: &str, change: impl FnOnce(&mut InstanceSpec)) -> Model {
        change(self.instances.get_mut(name).unwrap());
        self
    }

    /// Couples `"a.out"` to `"b.in"`.
    pub fn couple(self, from: &str, to: &str) -> Model {
        self.couple_with(from, to, |_| {})
    }

    pub fn couple_with(mut self, from: &str, to: &str, change: impl FnOnce(&mut ConduitSpec)) -> Model {
        let (sender, sender_port) = from.split_once('.').unwrap();
        let (receiver, receiver_port) = to.split_once('.').unwrap();
        let copy_of = |name: &str| name.split_once('[').and_then(|(_, rest)| rest.trim_end_matches(']').parse().ok());
        let id = self.conduits.len() as u32 + 1;
        let mut conduit = ConduitSpec {
            sender_copy: copy_of(sender),
            receiver_copy: copy_of(receiver),
            capacity: 8,
            byte_budget: 64 << 20,
            methods: self.methods.clone(),
            protect: self.protect,
            ..ConduitSpec::new(id, (sender, sender_port), (receiver, receiver_port))
        };
        if self.is_checked {
            conduit.sender_filters.push(FilterSpec { name: "checksum".into(), factor: None, params: BTreeMap::new() });
        }
        change(&mut conduit);
        self.conduits.push(conduit);
        self
    }

    /// The specification of an instance without couplings.
    pub fn alone(mut self, name: &str) -> InstanceSpec {
        self.instances.remove(name).unwrap()
    }

    fn specs(self) -> Vec<InstanceSpec> {
        wired(self.instances.into_values().collect(), self.conduits)
    }
}

pub fn filter(name: &str, factor: f64) -> FilterSpec {
    FilterSpec { name: name.into(), factor: Some(factor), params: BTreeMap::new() }
}

/// Sends a number with the default time stamps.
pub fn send(me: &Instance, port: &str, value: i64) -> xmml_core::instance::Sent {
    me.send(port, None, Data::Int(value), Stamps::default()).unwrap()
}

/// Receives a number, or `None` at the end.
pub fn receive(me: &Instance, port: &str) -> Option<i64> {
    match me.receive(port, None, None).unwrap() {
        Received::Message(message) => match message.data {
            Data::Int(value) => Some(value),
            other => panic!("not a number: {other:?}"),
        },
        Received::Ended => None,
        other => panic!("neither a message nor the end: {other:?}"),
    }
}

/// Receives a message; `None` at the end.
pub fn receive_any(me: &Instance, port: &str) -> Option<Message> {
    match me.receive(port, None, None).unwrap() {
        Received::Message(message) => Some(message),
        Received::Ended => None,
        other => panic!("{other:?}"),
    }
}

/// `a.out` (in the loop) to `b.in` (in the loop), with a small capacity.
pub fn narrow(steps: u64, capacity: u32) -> Model {
    Model::new().submodel("a", "out:Oi", steps).submodel("b", "in:S", steps).couple_with("a.out", "b.in", |conduit| {
        conduit.capacity = capacity;
    })
}
