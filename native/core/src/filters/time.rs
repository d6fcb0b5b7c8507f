//! Filters that change time stamps or fill the time between messages.

use xmml_wire::message::Message;

use super::counting::spread;
use super::{numeric, Filter, Problem};

/// Adds seconds to both time stamps.
pub struct TimeOffset(pub f64);

impl Filter for TimeOffset {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        out.push(Message {
            timestamp: message.timestamp + self.0,
            next_timestamp: message.next_timestamp.map(|next| next + self.0),
            data: message.data,
        });
        Ok(())
    }
}

/// Multiplies both time stamps.
pub struct TimeFactor(pub f64);

impl Filter for TimeFactor {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        out.push(Message {
            timestamp: message.timestamp * self.0,
            next_timestamp: message.next_timestamp.map(|next| next * self.0),
            data: message.data,
        });
        Ok(())
    }
}

/// Puts k-1 interpolants between successive messages; needs the later one, so it is not causal.
pub struct LinearTimeInterpolation {
    k: u32,
    previous: Option<Message>,
}

impl LinearTimeInterpolation {
    pub fn new(k: u32) -> LinearTimeInterpolation {
        LinearTimeInterpolation { k, previous: None }
    }
}

impl Filter for LinearTimeInterpolation {
    fn outputs(&self, n: u64) -> u64 {
        match n.checked_sub(1) {
            None => 0,
            Some(later) => later.saturating_mul(u64::from(self.k)).saturating_add(1),
        }
    }

    fn size_ratio(&self) -> f64 {
        f64::from(self.k)
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let k = f64::from(self.k);
        let shortened = message.next_timestamp.map(|next| message.timestamp + (next - message.timestamp) / k);
        if let Some(previous) = &self.previous {
            let interval = message.timestamp - previous.timestamp;
            for part in 1..self.k {
                out.push(Message {
                    timestamp: previous.timestamp + interval * f64::from(part) / k,
                    next_timestamp: Some(if part + 1 == self.k {
                        message.timestamp
                    } else {
                        previous.timestamp + interval * f64::from(part + 1) / k
                    }),
                    data: numeric::line(&previous.data, &message.data, f64::from(part) / k)?,
                });
            }
        }
        out.push(Message { next_timestamp: shortened, data: numeric::as_reals(&message.data)?, ..message });
        self.previous = Some(message);
        Ok(())
    }
}

/// Sends k values per message on the line through the last two messages: causal, exact for linear growth.
pub struct Extrapolate {
    k: u32,
    previous: Option<Message>,
}

impl Extrapolate {
    pub fn new(k: u32) -> Extrapolate {
        Extrapolate { k, previous: None }
    }
}

impl Filter for Extrapolate {
    fn outputs(&self, n: u64) -> u64 {
        n.saturating_mul(u64::from(self.k))
    }

    fn size_ratio(&self) -> f64 {
        f64::from(self.k)
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let interval = self.previous.as_ref().map(|previous| message.timestamp - previous.timestamp);
        for (part, (timestamp, next_timestamp)) in spread(&message, self.k, interval).enumerate() {
            let data = match (&self.previous, interval) {
                (Some(previous), Some(interval)) if part > 0 && interval > 0.0 => {
                    let along = (timestamp - previous.timestamp) / interval;
                    numeric::line(&previous.data, &message.data, along)?
                }
                _ => numeric::as_reals(&message.data)?,
            };
            out.push(Message { timestamp, next_timestamp, data });
        }
        self.previous = Some(message);
        Ok(())
    }
}
