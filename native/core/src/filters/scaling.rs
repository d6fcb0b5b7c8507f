//! Filters that change the values, one message for one.

use xmml_wire::message::Message;

use super::{numeric, Filter, Problem};
use crate::units::Unit;

/// Multiplies every number.
pub struct Multiply {
    factor: f64,
}

impl Multiply {
    pub fn new(factor: f64) -> Multiply {
        Multiply { factor }
    }

    /// Converts from one unit to another of the same dimension.
    pub fn converting(from: &str, to: &str) -> Result<Multiply, Problem> {
        Ok(Multiply { factor: Unit::parse(from)?.ratio(Unit::parse(to)?)? })
    }
}

impl Filter for Multiply {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        out.push(Message { data: numeric::scale(&message.data, self.factor)?, ..message });
        Ok(())
    }
}
