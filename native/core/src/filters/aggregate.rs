//! Filters that make one message of several.

use xmml_wire::data::Data;
use xmml_wire::message::Message;

use super::{incomplete_group, numeric, Filter, Problem};

/// Sum or mean of k successive messages, whichever runs they are of. A group that the sender does not complete is not sent.
pub struct Aggregate {
    k: usize,
    combine: fn(&[Data]) -> Result<Data, Problem>,
    group: Vec<Data>,
    seen: u64,
    start: f64,
}

impl Aggregate {
    pub fn sum(k: u32) -> Aggregate {
        Aggregate { k: k as usize, combine: numeric::sum, group: Vec::new(), seen: 0, start: 0.0 }
    }

    pub fn mean(k: u32) -> Aggregate {
        Aggregate { combine: numeric::mean, ..Aggregate::sum(k) }
    }
}

impl Filter for Aggregate {
    fn outputs(&self, n: u64) -> u64 {
        n / self.k as u64
    }

    fn size_ratio(&self) -> f64 {
        1.0 / self.k as f64
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        if self.group.is_empty() {
            self.start = message.timestamp;
        }
        self.group.push(message.data);
        self.seen += 1;
        if self.group.len() == self.k {
            let data = (self.combine)(&self.group)?;
            self.group.clear();
            out.push(Message { timestamp: self.start, next_timestamp: message.next_timestamp, data });
        }
        Ok(())
    }

    fn left_over(&self) -> Option<String> {
        incomplete_group(self.group.len(), self.k, self.seen)
    }
}
