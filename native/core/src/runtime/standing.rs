//! How the run stands, as far as an instance knows.

use std::time::{Duration, Instant};

use xmml_wire::error::Error;

/// Whether the run goes on, and with its coordinator.
#[derive(Default)]
pub struct Standing {
    /// Why the run is over, if it is.
    pub over: Option<Error>,
    /// There is no connection to the coordinator.
    pub coordinator_lost: Option<CoordinatorLost>,
    /// The coordinator has written down that this instance left.
    pub farewell: bool,
}

/// Since when there is no connection to the coordinator, and what is known of that.
#[derive(Clone, Debug)]
pub struct CoordinatorLost {
    /// When it broke.
    pub since: Instant,
    /// So long after that waits go on.
    pub limit: Duration,
    /// There will be no other one.
    pub for_good: bool,
    /// What keeps another one from coming about; may be empty.
    pub problem: String,
}

impl CoordinatorLost {
    /// When waits end.
    pub fn until(&self) -> Instant {
        self.since + self.limit
    }

    /// Why they do.
    pub fn error(&self) -> Error {
        let seconds = self.limit.as_secs_f64();
        let problem = match self.problem.is_empty() {
            true => format!("the connection to it broke {seconds} s ago; this run has nobody to end it"),
            false => format!(
                "the connection to it broke {seconds} s ago and could not be made again ({}); this run has nobody to end it",
                self.problem
            ),
        };
        Error::Protocol { peer: "the coordinator".into(), problem }
    }
}
