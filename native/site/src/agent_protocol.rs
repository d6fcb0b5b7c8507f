//! What an agent is told by the launcher, and what it reports of itself: one line of JSON each.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::binding::Devices;
use crate::lines::shortened;
use crate::protocol::{Order, Start, Text};
use crate::working_folder::WorkingFolder;

/// An order to an agent.
pub enum AgentOrder {
    /// Wait for so many seconds more, as long as the launcher lives.
    Hold(f64),
    /// Start the supervisor; every later order is passed on to it.
    Go,
    /// End.
    Abort,
    /// Make a working folder and copy the model's files into it.
    Prepare(WorkingFolder),
    /// As the supervisor is told, with what must be there before.
    Start(Box<Start>, WorkingFolder, Devices),
    /// For the supervisor.
    Other(Vec<u8>),
}

#[derive(Deserialize)]
struct Head<'a> {
    n: u64,
    #[serde(rename = "do", borrow)]
    what: Cow<'a, str>,
    s: Option<f64>,
}

impl AgentOrder {
    /// Reads an order and its number.
    ///
    /// # Errors
    /// The line is none; the text says why.
    pub fn read(line: &[u8]) -> Result<(u64, AgentOrder), String> {
        let told = |error: serde_json::Error| format!("{error}: {}", shortened(line));
        let head: Head = serde_json::from_slice(line).map_err(told)?;
        let order = match head.what.as_ref() {
            "hold" => AgentOrder::Hold(head.s.ok_or_else(|| format!("missing field `s`: {}", shortened(line)))?),
            "go" => AgentOrder::Go,
            "abort" => AgentOrder::Abort,
            "prepare" => AgentOrder::Prepare(serde_json::from_slice(line).map_err(told)?),
            "start" => AgentOrder::Start(
                serde_json::from_slice(line).map_err(told)?,
                serde_json::from_slice(line).map_err(told)?,
                serde_json::from_slice(line).map_err(told)?,
            ),
            _ => {
                Order::read(line)?;
                AgentOrder::Other([line, b"\n"].concat())
            }
        };
        Ok((head.n, order))
    }
}

/// What an agent reports of itself.
#[derive(Serialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum AgentReport<'a> {
    /// It waits for a word.
    Ready {
        host: &'a str,
        /// Where the login proxy connects to it.
        port: u16,
        pid: u32,
        job: String,
        /// The Python that submodels run in, with its path if it was found.
        python: Text,
        path: Text,
        /// The names of the job's nodes.
        nodes: Vec<String>,
        /// The job's number in a heterogeneous job.
        part: String,
    },
    /// A process is bound to CPUs of its own.
    Bound {
        /// Of its instance, or of the process that instances share.
        name: &'a str,
        /// Its CPUs; none: it is not bound.
        cpus: &'a [usize],
        /// Why it is not.
        reason: &'a str,
    },
    /// The batch system, or somebody, ends the job.
    Killed,
    /// Nobody said anything until its patience was over.
    #[serde(rename = "given up")]
    GivenUp,
    /// The launcher has not been heard of for too long.
    #[serde(rename = "lease over")]
    LeaseOver,
    /// Everything has ended.
    Over,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_which_nothing_is_known_is_an_error_that_shows_it() {
        let Err(problem) = AgentOrder::read(br#"{"n": 1, "do": "dance"}"#) else { panic!("it was understood") };
        assert!(problem.starts_with("\"do\" is \"dance\", expected "), "{problem}");
    }
}
