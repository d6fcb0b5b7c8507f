//! Filters that decide which messages pass, and how often.

use std::io::Write;

use xmml_wire::message::Message;

use super::{Filter, Problem};

/// Forwards everything.
pub struct Pipe;

impl Filter for Pipe {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        out.push(message);
        Ok(())
    }
}

/// Forwards nothing.
pub struct Null;

impl Filter for Null {
    fn outputs(&self, _n: u64) -> u64 {
        0
    }

    fn size_ratio(&self) -> f64 {
        0.0
    }

    fn apply(&mut self, _message: Message, _out: &mut Vec<Message>) -> Result<(), Problem> {
        Ok(())
    }
}

/// Prints a line per message and forwards it.
pub struct Console {
    conduit: String,
}

impl Console {
    pub fn new(conduit: &str) -> Console {
        Console { conduit: conduit.to_owned() }
    }
}

impl Filter for Console {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        // Nobody may be listening any more; that is no reason to stop the conduit.
        let _ = writeln!(std::io::stdout(), "{}: t={} s, {}", self.conduit, message.timestamp, message.data.describe());
        out.push(message);
        Ok(())
    }
}

/// Forwards messages 0, k, 2k, ...
pub struct Drop {
    k: u64,
    seen: u64,
}

impl Drop {
    pub fn new(k: u32) -> Drop {
        Drop { k: u64::from(k), seen: 0 }
    }
}

impl Filter for Drop {
    fn outputs(&self, n: u64) -> u64 {
        n.div_ceil(self.k)
    }

    fn size_ratio(&self) -> f64 {
        1.0 / self.k as f64
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        if self.seen % self.k == 0 {
            out.push(message);
        }
        self.seen += 1;
        Ok(())
    }
}

/// Forwards messages up to a time, then drops.
pub struct BlockAfter {
    limit: f64,
    dropped: u64,
    warning: Option<String>,
}

impl BlockAfter {
    pub fn new(limit: f64) -> BlockAfter {
        BlockAfter { limit, dropped: 0, warning: None }
    }
}

impl Filter for BlockAfter {
    /// An upper bound: how many are in time is known only when they come.
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        if message.timestamp <= self.limit {
            out.push(message);
            return Ok(());
        }
        if self.dropped == 0 {
            self.warning =
                Some(format!("drops messages from t={} s on, which is after {} s", message.timestamp, self.limit));
        }
        self.dropped += 1;
        Ok(())
    }

    fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }
}

/// Forwards each message k times, spread over the interval to the next one.
pub struct Repeat {
    k: u32,
    previous: Option<f64>,
}

impl Repeat {
    pub fn new(k: u32) -> Repeat {
        Repeat { k, previous: None }
    }
}

impl Filter for Repeat {
    fn outputs(&self, n: u64) -> u64 {
        n.saturating_mul(u64::from(self.k))
    }

    fn size_ratio(&self) -> f64 {
        f64::from(self.k)
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let interval = self.previous.map(|previous| message.timestamp - previous);
        self.previous = Some(message.timestamp);
        out.extend(spread(&message, self.k, interval).map(|(timestamp, next_timestamp)| Message {
            timestamp,
            next_timestamp,
            data: message.data.clone(),
        }));
        Ok(())
    }
}

/// Time stamps of `k` messages that share the interval of one: equal parts of it. Where its end is not known it is as long as the
/// interval before it, or, for a first message, nothing. The last next time stamp is that of the message itself.
pub(super) fn spread(
    message: &Message,
    k: u32,
    interval_before: Option<f64>,
) -> impl Iterator<Item = (f64, Option<f64>)> {
    let (start, next) = (message.timestamp, message.next_timestamp);
    let interval = next.map(|next| next - start).or(interval_before);
    (0..k).map(move |part| {
        let at = |part: u32| interval.map(|interval| start + interval * f64::from(part) / f64::from(k));
        (at(part).unwrap_or(start), if part + 1 == k { next } else { at(part + 1) })
    })
}

/// Forwards only the last message of each run of the sender, when that run ends.
#[derive(Default)]
pub struct Last {
    held: Option<Message>,
}

impl Filter for Last {
    fn outputs(&self, _n: u64) -> u64 {
        0
    }

    fn outputs_at_end(&self, n: u64) -> u64 {
        n.min(1)
    }

    fn size_ratio(&self) -> f64 {
        0.0
    }

    fn apply(&mut self, message: Message, _out: &mut Vec<Message>) -> Result<(), Problem> {
        self.held = Some(message);
        Ok(())
    }

    fn end_of_run(&mut self, out: &mut Vec<Message>) -> Result<(), Problem> {
        out.extend(self.held.take());
        Ok(())
    }
}
