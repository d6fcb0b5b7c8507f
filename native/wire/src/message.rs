//! One message on a conduit: a payload and the model time it belongs to.

use crate::data::Data;

/// A message as a submodel sends and receives it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Model time of the observation, in seconds.
    pub timestamp: f64,
    /// Model time of the next message on this conduit, in seconds; `None` if this is the last one or it is not known.
    pub next_timestamp: Option<f64>,
    /// What it carries.
    pub data: Data,
}
