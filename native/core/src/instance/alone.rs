//! An instance without a run: messages come from lists and go into lists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use xmml_wire::error::{Error, Result};
use xmml_wire::lock::lock;
use xmml_wire::message::Message;

use crate::runtime::state::State;
use crate::spec::{ConduitSpec, Direction, InstanceSpec, PoolSpec};

/// See the module.
pub struct Alone {
    state: Mutex<State>,
    /// For each sending end the key under which its messages are recorded.
    keys: Vec<String>,
    outputs: Mutex<BTreeMap<String, Vec<Message>>>,
}

impl Alone {
    /// Puts a conduit on every out port and on every in port that has inputs; returns the specification with them.
    pub fn new(mut spec: InstanceSpec, inputs: BTreeMap<String, Vec<Message>>) -> Result<(InstanceSpec, Alone)> {
        let mut conduits: Vec<Arc<ConduitSpec>> = Vec::new();
        let mut keys = Vec::new();
        let mut lists = Vec::new();
        let mut inputs = inputs;
        for port in &spec.ports {
            let copies: Vec<Option<u32>> =
                if port.copies == 0 { vec![None] } else { (0..port.copies).map(Some).collect() };
            for copy in copies {
                let key = copy.map_or_else(|| port.name.clone(), |copy| format!("{}[{copy}]", port.name));
                let id = conduits.len() as u32 + 1;
                let pool =
                    port.attributes.clone().map(|attributes| Box::new(PoolSpec { attributes, ..PoolSpec::default() }));
                match port.direction {
                    Direction::Out => {
                        let conduit = ConduitSpec::new(id, (&spec.name, &port.name), ("outputs", &key));
                        conduits.push(ConduitSpec { receiver_copy: copy, pool, ..conduit }.into());
                        keys.push(key);
                    }
                    Direction::In => {
                        if let Some(list) = inputs.remove(&key) {
                            let conduit = ConduitSpec::new(id, ("inputs", &key), (&spec.name, &port.name));
                            conduits.push(ConduitSpec { sender_copy: copy, pool, ..conduit }.into());
                            lists.push(list);
                        }
                    }
                }
            }
        }
        if let Some(stray) = inputs.keys().next() {
            let known = spec.ports.iter().filter(|port| port.direction == Direction::In);
            let known: Vec<&str> = known.map(|port| port.name.as_str()).collect();
            let problem = format!(
                "{}: there are inputs for \"{stray}\", but its in ports are {} (write port[3] for a copy)",
                spec.name,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
            return Err(Error::Usage { problem });
        }
        spec.conduits = conduits;
        let mut state = State::new(&spec, &[])?;
        for (end, list) in lists.into_iter().enumerate() {
            state.conduits.receiving[end].preload(list);
        }
        let outputs = keys.iter().map(|key| (key.clone(), Vec::new())).collect();
        Ok((spec, Alone { state: Mutex::new(state), keys, outputs: Mutex::new(outputs) }))
    }

    /// Without any conduit.
    pub fn silent(spec: &InstanceSpec) -> Result<Alone> {
        let state = State::new(spec, &[])?;
        Ok(Alone { state: Mutex::new(state), keys: Vec::new(), outputs: Mutex::default() })
    }

    /// What was sent so far.
    pub fn outputs(&self) -> BTreeMap<String, Vec<Message>> {
        lock(&self.outputs).clone()
    }

    /// Writes down a message sent on an end.
    pub fn record(&self, end: usize, message: &Message) {
        let mut outputs = lock(&self.outputs);
        outputs.entry(self.keys[end].clone()).or_default().push(message.clone());
    }

    /// Works on the state.
    pub fn with_state<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut lock(&self.state))
    }

    /// Everything is there from the beginning, so nothing is ever waited for.
    pub fn wait<T>(
        &self,
        until: Option<Instant>,
        mut ready: impl FnMut(&mut State) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        match self.with_state(&mut ready)? {
            None if until.is_none() => {
                Err(Error::Usage { problem: "this instance is alone: nobody will send what it waits for".to_owned() })
            }
            found => Ok(found),
        }
    }
}
