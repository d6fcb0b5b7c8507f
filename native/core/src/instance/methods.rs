//! Asking how conduits travel, and having them travel otherwise.

use std::time::{Duration, Instant};

use xmml_wire::error::{Error, Result};
use xmml_wire::methods::{self, MethodReport};

use crate::control::ToCoordinator;
use crate::runtime::link::connect_limit;
use crate::runtime::state::State;
use crate::runtime::traffic::method_report;
use crate::runtime::wait::{wait, WaitFor};

use super::ports::Port;
use super::{Backend, Instance};

/// A change of methods may be tried as long as a connection, and must be told to both ends, for which there is so long.
const CHANGE_SLACK: Duration = Duration::from_secs(5);

impl Instance {
    /// How each conduit of the port travels: the method in use, why others were refused, and what has passed.
    pub fn methods(&self, port: &str) -> Result<Vec<MethodReport>> {
        let port = self.ports.get(port)?;
        let now = Instant::now();
        Ok(self.with_state(|state| {
            let ends = self.ends_now(port, state);
            ends.into_iter().map(|end| method_report(state, port.direction, end, now)).collect()
        }))
    }

    /// The ends of a port: of couplings of the model, or those that handles have made.
    fn ends_now(&self, port: &Port, state: &State) -> Vec<usize> {
        match self.has_holders(port) {
            Some(_) => state.open.all_ends(&port.name),
            None => port.all_ends().collect(),
        }
    }

    /// Allows these methods on every conduit of the port from now on, in this order (none: all, fastest first), instead of what the model
    /// says. Also while messages pass: none is lost, doubled or reordered. May be called at either end. Returns when the conduits travel
    /// by what is allowed now, or, where the partner has not joined yet, when it is known what to try.
    ///
    /// # Errors
    /// [`Error::Usage`] for a method that does not exist, or if none of them leads to the receiver: the conduit then goes on as before,
    /// and the text says why. Needs the coordinator.
    pub fn set_methods(&self, port: &str, methods: &[String]) -> Result<()> {
        let declared = self.ports.get(port)?;
        methods::check_names(methods)?;
        drop(self.program()?);
        let Backend::Run { runtime } = &self.backend else { return Ok(()) };
        let requests: Vec<(u64, u32)> = {
            let mut state = runtime.state();
            let ends = self.ends_now(declared, &state);
            let ids: Vec<u32> =
                ends.into_iter().map(|end| state.conduits.spec_at(declared.direction, end).id).collect();
            ids.into_iter().map(|conduit| (state.changes.request(), conduit)).collect()
        };
        for (request, conduit) in &requests {
            runtime.tell(&ToCoordinator::Change { request: *request, conduit: *conduit, methods: methods.to_vec() });
        }
        let limit = connect_limit() + CHANGE_SLACK;
        let until = Instant::now() + limit;
        let settled = wait(runtime, &WaitFor::default(), Some(until), |state| {
            Ok(requests.iter().all(|(request, _)| state.changes.is_settled(*request)).then_some(()))
        });
        let mut state = runtime.state();
        let problems: Vec<String> = requests
            .iter()
            .filter_map(|(request, _)| state.changes.take(*request))
            .filter_map(|changed| changed.problem)
            .collect();
        drop(state);
        if settled?.is_none() {
            let problem = format!("nobody answered within {} s", limit.as_secs());
            return Err(Error::Protocol { peer: "the coordinator".into(), problem });
        }
        match problems.first() {
            None => Ok(()),
            Some(problem) => {
                Err(Error::Usage { problem: format!("{}.{port} does not change its methods: {problem}", self.name()) })
            }
        }
    }
}
