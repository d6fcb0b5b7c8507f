//! What a receiving program sees of a conduit: messages after the filters of its end.

use std::collections::VecDeque;

use xmml_wire::error::Result;
use xmml_wire::message::Message;

use crate::filters::Chain;

use super::ReceivingEnd;

/// What the program would get now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A message.
    Message,
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    Ended,
}

/// The filters of a receiving end, and what has come out of them.
pub struct Inlet {
    chain: Chain,
    ready: VecDeque<Message>,
    finished: bool,
    /// What is left in the filters at the end of the conduit.
    left_over: Vec<String>,
    /// Messages handed to the program.
    pub handed: u64,
}

impl Inlet {
    /// For messages that pass `chain`.
    pub fn new(chain: Chain) -> Inlet {
        Inlet { chain, ready: VecDeque::new(), finished: false, left_over: Vec::new(), handed: 0 }
    }

    /// Takes messages from `end` until the filters let one through (it then waits to be handed out).
    pub fn filter_next(&mut self, end: &mut ReceivingEnd) -> Result<Next> {
        loop {
            if !self.ready.is_empty() {
                if let Some(newer) = end.take_newer() {
                    self.ready.clear();
                    self.put(newer);
                }
                return Ok(Next::Message);
            }
            if let Some(message) = end.take() {
                if self.chain.is_empty() {
                    self.put(message);
                } else {
                    self.ready.extend(self.chain.apply(message)?);
                }
            } else if !end.is_finished() {
                return Ok(Next::Nothing);
            } else if self.finished {
                return Ok(Next::Ended);
            } else {
                self.finished = true;
                self.ready.extend(self.chain.end_of_run()?);
                self.left_over = self.chain.left_over();
            }
        }
    }

    /// The message that waits.
    pub fn waiting(&self) -> Option<&Message> {
        self.ready.front()
    }

    /// Its time stamp.
    pub fn waiting_timestamp(&self) -> Option<f64> {
        self.waiting().map(|message| message.timestamp)
    }

    /// Has a message wait that was taken from an end without filters, before which nothing waits.
    pub fn put(&mut self, message: Message) {
        if self.ready.capacity() == 0 {
            self.ready.reserve_exact(1); // never more than one is here then
        }
        self.ready.push_back(message);
    }

    /// Hands out the message that waits.
    pub fn hand_out(&mut self) -> Option<Message> {
        let message = self.ready.pop_front()?;
        self.handed += 1;
        Some(message)
    }

    /// Whether a message waits.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether anything happens to messages here.
    pub fn has_filters(&self) -> bool {
        !self.chain.is_empty()
    }

    /// What the filters have to say.
    pub fn take_warnings(&mut self) -> Vec<String> {
        if self.chain.is_empty() {
            return Vec::new();
        }
        let mut warnings = self.chain.take_warnings();
        warnings.append(&mut self.left_over);
        warnings
    }
}
