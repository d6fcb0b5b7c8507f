//! Handles of ports: who opens one gets a conduit to the instance that made it, which then is like any other. The coordinator makes it
//! known to both ends, the receiver first; no payload passes here.

use std::sync::Arc;

use xmml_wire::error::Error;
use xmml_wire::methods::Table;

use super::Server;
use crate::control::ToInstance;
use crate::coordinator::Event;
use crate::handle::Handle;
use crate::spec::{ConduitSpec, Direction, FIRST_OPENED};

/// How many messages such a conduit holds before `send` blocks: nothing is known of the model's needs.
const CAPACITY: u32 = 16;

/// How many bytes it holds.
const BYTE_BUDGET: u64 = 64 << 20;

/// A handle that is being opened: the receiver has been asked.
pub struct Opening {
    asker: String,
    request: u32,
    conduit: ConduitSpec,
    table: Option<Table>,
}

impl Server {
    /// An instance opens a handle by one of its ports.
    pub(super) fn open(&mut self, asker: String, request: u32, port: &str, handle: &[u8]) {
        let checked = Handle::verified(handle, &self.options.run_id, &self.options.secret)
            .and_then(|handle| self.check_ends(&asker, port, &handle).map(|()| handle));
        let handle = match checked {
            Ok(handle) => handle,
            Err(error) => return self.refuse_opening(&asker, request, error.to_string()),
        };
        let id = self.next_opened;
        self.next_opened += 1;
        let chosen = handle.table.iter().flat_map(|table| &table.entries);
        let conduit = ConduitSpec {
            capacity: CAPACITY,
            byte_budget: BYTE_BUDGET,
            methods: chosen.map(|entry| entry.method.clone()).collect(),
            ..ConduitSpec::new(id, (&asker, port), (&handle.instance, &handle.port))
        };
        let member = self.members.get(&handle.instance);
        let is_gone = member.is_none() || self.is_over(&handle.instance);
        let table = handle.table.or_else(|| member.and_then(|member| member.table.clone()));
        let admit = ToInstance::Admit { number: handle.number, conduit: conduit.clone() };
        self.openings.insert(id, Opening { asker, request, conduit, table });
        match is_gone {
            true => self.opened(id, true),
            false => self.send_to(&handle.instance, &admit),
        }
    }

    /// Whether both ends are ports that may have conduits by handles.
    fn check_ends(&self, asker: &str, port: &str, handle: &Handle) -> Result<(), Error> {
        for (instance, port, direction) in
            [(asker, port, Direction::Out), (&*handle.instance, &*handle.port, Direction::In)]
        {
            let ports = self.specs.get(instance).map(|spec| &spec.ports);
            let is_open = |ports: &Vec<crate::spec::PortSpec>| {
                ports.iter().any(|each| each.name == port && each.direction == direction && each.open)
            };
            if !ports.is_some_and(is_open) {
                let way = if direction == Direction::In { "in" } else { "out" };
                let problem = format!("{instance}.{port} is not an open {way} port of this model (run:open=\"yes\")");
                return Err(Error::Usage { problem });
            }
        }
        Ok(())
    }

    fn refuse_opening(&mut self, asker: &str, request: u32, problem: String) {
        let answer = ToInstance::Opened { request, conduit: None, table: None, is_gone: false, problem: Some(problem) };
        self.send_to(asker, &answer);
    }

    /// The instance that made the handle knows of the conduit, or does not want it.
    pub(super) fn admitted(&mut self, conduit: u32, problem: Option<String>) {
        let Some(problem) = problem else { return self.opened(conduit, false) };
        if let Some(opening) = self.openings.remove(&conduit) {
            self.refuse_opening(&opening.asker, opening.request, problem);
        }
    }

    /// How many handles an instance waits for.
    pub(super) fn openings_asked_by(&self, instance: &str) -> usize {
        self.openings.values().filter(|opening| opening.asker == instance).count()
    }

    /// Whether an instance may say whether a conduit may end at it; an error says why not. (Whoever asked may have left meanwhile.)
    pub(super) fn may_admit(&self, instance: &str, conduit: u32) -> Result<(), String> {
        let is_asked = (FIRST_OPENED..self.next_opened).contains(&conduit);
        match self.openings.get(&conduit) {
            Some(opening) if opening.conduit.receiver == instance => Ok(()),
            None if is_asked => Ok(()),
            _ => Err(format!("it admits conduit {conduit}, of which it was not asked")),
        }
    }

    /// Makes the conduit known to whoever opened the handle.
    fn opened(&mut self, id: u32, is_gone: bool) {
        let Some(Opening { asker, request, conduit, table }) = self.openings.remove(&id) else { return };
        let shared = Arc::new(conduit.clone());
        for end in [&conduit.sender, &conduit.receiver] {
            if let Some(spec) = self.specs.get_mut(end).filter(|spec| spec.conduits.iter().all(|each| each.id != id)) {
                spec.conduits.push(shared.clone());
            }
        }
        self.shared.event(Event::Opened { instance: asker.clone(), conduit: Box::new(conduit.clone()) });
        let answer = ToInstance::Opened { request, conduit: Some(conduit), table, is_gone, problem: None };
        self.send_to(&asker, &answer);
    }

    /// An instance has given its first handle away.
    pub(super) fn hands_out(&mut self, instance: String) {
        self.givers.insert(instance);
        self.tell_lonely_givers();
    }

    /// An instance has left: nobody waits for its answer any more, and others may be alone now.
    pub(super) fn left_with_handles(&mut self, instance: &str) {
        let unanswered: Vec<u32> = self
            .openings
            .iter()
            .filter(|(_, opening)| opening.conduit.receiver == instance)
            .map(|(id, _)| *id)
            .collect();
        unanswered.into_iter().for_each(|id| self.opened(id, true));
        self.openings.retain(|_, opening| opening.asker != instance);
        self.givers.remove(instance);
        self.tell_lonely_givers();
    }

    fn tell_lonely_givers(&mut self) {
        if self.givers.is_empty() {
            return;
        }
        let is_of_model = |name: &&String| !self.taps.contains(*name);
        let mut staying =
            self.specs.keys().filter(is_of_model).filter(|name| !self.is_over(name)).map(|name| model_name(name));
        let Some(last) = staying.next() else { return };
        // Ranks of one program are one instance.
        if staying.all(|name| name == last) && self.givers.remove(last) {
            let last = last.to_owned();
            self.send_to(&last, &ToInstance::NobodyElse);
        }
    }
}

/// The instance of the model that a member is (a rank of).
fn model_name(member: &str) -> &str {
    member.split('#').next().unwrap_or(member)
}
