//! What the launcher says to the login proxy, and what that answers: one line of JSON each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::Value;

use crate::protocol::Text;

/// What the launcher says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request<'a> {
    /// From now on tell what is in the reports of these jobs from there on.
    #[serde(default)]
    pub listen: BTreeMap<String, u64>,
    /// Tell nothing of these jobs any more.
    #[serde(default)]
    pub forget: Vec<String>,
    /// The job that an order is for; answered by [`Answer::Taken`] when it is in the file, by [`Answer::Lost`] if the folder
    /// of that is gone, and with a reason if it could not be written for a minute.
    pub to: Option<String>,
    /// The order, with its number.
    #[serde(borrow)]
    pub order: Option<&'a RawValue>,
    /// The launcher of these runs lives (without `runs`: of this one): its number; answered by [`Answer::Alive`].
    pub lease: Option<Value>,
    /// Silence for so many seconds ends what runs.
    pub s: Option<Value>,
    /// The folders of the runs.
    pub runs: Option<Vec<Text>>,
    /// From now on tell when the agent of a job, at a host and port, or its node, is gone.
    #[serde(default)]
    pub watch: BTreeMap<String, (String, u16)>,
}

/// An order, as far as the login proxy reads it.
#[derive(Deserialize)]
pub struct Numbered {
    /// Its number.
    pub n: u64,
}

/// What the login proxy says; the lease that a request had is told as it came. The launcher has the same words
/// (`gateway_protocol.py`).
#[derive(Serialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Answer<'a> {
    /// It has begun.
    Talking { host: String },
    /// An order is in the file of its agent.
    Taken { agent: &'a str, order: u64 },
    /// The leases are renewed.
    Alive {
        lease: &'a Value,
        /// The runs whose leases could not be renewed, and why.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        unwritten: BTreeMap<Text, String>,
    },
    /// An agent has exited without a word, or its node does not answer.
    Gone { agent: &'a str, why: &'a str },
    /// An order could not be written; without a reason: the folder of the agent is gone.
    Lost {
        agent: &'a str,
        file: Text,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// An agent has reported something; the next report begins there.
    Told { agent: &'a str, next: u64, report: &'a RawValue },
}
