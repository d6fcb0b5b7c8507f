//! Sending and receiving.
//!
//! A message passes [`Instance::send`], `send_here` (order of operators, time stamps), `filter_and_send` (the filters of the sender) and
//! `transmit`: [`short::send`] writes a short one into shared memory, past all queues; `transmit_encoded` numbers any other. If that
//! cannot be written at once, [`SendingEnd::send`] keeps it where a connection can break, and it is queued on its connection; what is
//! queued is written when the state is unlocked ([`Locked`]). Where its payload lies meanwhile: [`payloads`].
//!
//! It is received by [`short::receive`], or the caller that waits (or the I/O thread) reads it: [`Runtime::read`], [`State::deliver`],
//! [`ReceivingEnd::message`] (which drops what comes twice), and, when the program asks, [`State::next_for_program`] (the filters of the
//! receiver).
//!
//! After a break: [`State::connection_lost`], `IoThread::dial`, then the receiver says what it has
//! ([`State::add_sender_connection`]), and the sender sends again what is missing ([`Routing::on_resume`]).
//!
//! [`payloads`]: super::payloads
//! [`SendingEnd::send`]: crate::conduit::SendingEnd::send
//! [`ReceivingEnd::message`]: crate::conduit::ReceivingEnd::message
//! [`Locked`]: crate::runtime::Locked
//! [`Runtime::read`]: crate::runtime::Runtime::read
//! [`Routing::on_resume`]: crate::runtime::routing::Routing::on_resume

use std::time::{Duration, Instant};

use xmml_wire::data::Data;
use xmml_wire::error::{Error, Result};
use xmml_wire::frame::{encode_apart, EncodedMessage};
use xmml_wire::message::Message;

use crate::conduit::inlet::Next;
use crate::conduit::Room;
use crate::runtime::short;
use crate::runtime::state::State;
use crate::runtime::wait::WaitFor;
use crate::spec::{Kind, Operator};

use super::payloads::kept;
use super::ports::Port;
use super::{Backend, Instance, Received, Sent, Stamps};

impl Instance {
    /// Sends `data`. Without `to`, a port that leads to several receivers sends to each. The message may refer to the caller's memory
    /// ([`xmml_wire::buffer::Buffer::wrap`]): what cannot be written at once, or what a filter may hold back, is copied before this
    /// returns.
    ///
    /// Waits while the conduit is full; the wait ends with a receipt, a larger capacity, the receiver's leaving, or the end of the run.
    ///
    /// Of ranks that joined together all call this: on an ordinary port what rank 0 gives is sent, on a parallel one each sends its block.
    pub fn send(&self, port: &str, to: Option<u32>, data: Data, stamps: Stamps) -> Result<Sent> {
        self.send_block(port, to, data, None, stamps)
    }

    /// [`Instance::send`] of a block of an array whose whole has the extents `shape`; `None`: those that the model gives.
    pub fn send_block(
        &self,
        port: &str,
        to: Option<u32>,
        data: Data,
        shape: Option<&[u64]>,
        stamps: Stamps,
    ) -> Result<Sent> {
        match self.together(port)? {
            Some(team) => self.send_together(team, port, to, data, shape, stamps),
            None => self.send_here(port, to, data, shape, stamps),
        }
    }

    /// Takes the next message; never insists on one (see [`Received`]). Without a time-out it waits until a message or the end of the
    /// conduit comes, or the run ends: how long a partner computes is not ours to bound.
    ///
    /// Of ranks that joined together all call this: on an ordinary port each has the message, on a parallel one its own block.
    pub fn receive(&self, port: &str, of: Option<u32>, timeout: Option<Duration>) -> Result<Received> {
        let received = self.receive_any(port, of, timeout)?;
        self.without_attributes(port, received)
    }

    /// [`Instance::receive`] of a message, or of an object as it travels.
    pub(super) fn receive_any(&self, port: &str, of: Option<u32>, timeout: Option<Duration>) -> Result<Received> {
        match self.together(port)? {
            Some(team) => self.receive_together(team, port, of, timeout),
            None => match self.readers_of_parts(port)? {
                Some(team) => self.take_parts(team, port, timeout),
                None => self.receive_own(port, of, timeout),
            },
        }
    }

    /// [`Instance::send_block`], as far as this process has to do with it.
    pub(super) fn send_here(
        &self,
        port: &str,
        to: Option<u32>,
        data: Data,
        shape: Option<&[u64]>,
        stamps: Stamps,
    ) -> Result<Sent> {
        let out = self.ports.out(port)?;
        if let Some(time) = stamps.impossible() {
            let problem = format!("{}.{port}: the time stamp is {time}; it must be a finite number", self.spec.name);
            return Err(Error::Usage { problem });
        }
        let (declared, ends) = match self.has_holders(out) {
            Some(runtime) => (out, self.ends_by_handles(runtime, out, to)?.into()),
            None => (out, self.ports.receivers(out, to)?),
        };
        let object = self.as_object(declared)?;
        if ends.is_empty() && object.is_none() {
            drop(self.program()?);
            return Ok(Sent::NotConnected);
        }
        let mut spread = self.spread(declared, &data, shape)?;
        let (mut message, position) = {
            let mut program = self.program()?;
            program.sequence.send(declared.place, to)?;
            if !matches!(declared.operator, None | Some(Operator::Of)) {
                program.follow_iteration();
            }
            let iterations = program.sequence.iterations();
            let is_last = program.sequence.is_last_iteration();
            let of_loop = program.clock.stamps(declared.operator, iterations, is_last);
            let (timestamp, next_timestamp) = stamps.or(of_loop);
            (Message { timestamp, next_timestamp, data }, program.position())
        };
        self.hand_over(&mut message.data)?;
        if let Some(spread) = &mut spread {
            spread.handed_over(&message.data);
        }
        let mut delivered = false;
        let mut once = None;
        let is_one_of_many = ends.len() > 1;
        if object.is_some() {
            message = self.shared(&self.ends_of_readers(declared), message, spread.is_some());
        }
        if is_one_of_many {
            message = self.for_all(&ends, message, spread.is_some())?;
        }
        for end in ends {
            delivered |= match self.part_of(&spread, end, &message)? {
                Some(part) => self.filter_and_send(declared, end, &part)?,
                None if is_one_of_many && !self.has_filters(end) => {
                    self.transmit_encoded(&declared.name, end, &message, Some(&mut once))?
                }
                None => self.filter_and_send(declared, end, &message)?,
            };
            if self.spec.kind == Kind::Terminal && !declared.is_open {
                self.end_run_of_outlet(end)?; // each message of a source is a run of its own
            }
        }
        if let Some(object) = object {
            message.data = self.as_offered(declared, spread, message.data)?;
            delivered |= self.offer_sent(declared, object, &message)?;
        }
        self.note_position(position);
        if !delivered {
            self.program()?.sequence.receiver_gone();
            return Ok(Sent::ReceiverGone);
        }
        Ok(Sent::Queued)
    }

    /// Whether messages of a sending end pass filters; those that handles have made have none.
    pub(super) fn has_filters(&self, end: usize) -> bool {
        self.filters_outlet.get(end).copied().unwrap_or(false)
    }

    /// Sends a message on one conduit through its filters; false if the receiver has left.
    pub(super) fn filter_and_send(&self, port: &Port, end: usize, message: &Message) -> Result<bool> {
        if !self.has_filters(end) {
            return self.transmit(&port.name, end, message);
        }
        let messages = {
            let mut program = self.program()?;
            let outlet = &mut program.outlets[end];
            let messages = outlet.apply(self.owned(message)?)?;
            let warnings = outlet.take_warnings();
            drop(program);
            warnings.iter().for_each(|warning| self.warn(warning));
            messages
        };
        // A filter that lets nothing through has taken the message all the same.
        let mut delivered = self.with_state(|state| !state.conduits.sending[end].is_gone());
        for message in &messages {
            delivered = self.transmit(&port.name, end, message)?;
        }
        Ok(delivered)
    }

    /// Puts one message on a conduit, waiting for room; false if the receiver has left.
    pub(super) fn transmit(&self, port: &str, end: usize, message: &Message) -> Result<bool> {
        if let Backend::Run { runtime } = &self.backend {
            // The model says nothing of an end that a handle has made.
            let (_, copy, checksum) = self.outgoing.get(end).copied().unwrap_or_default();
            if checksum.is_none() && short::send(runtime, end, copy, message) {
                return Ok(true);
            }
        }
        self.transmit_encoded(port, end, message, None)
    }

    /// [`Instance::transmit`] of a message that goes to several receivers: `once` is what the first call made of it for all.
    pub(super) fn transmit_encoded(
        &self,
        port: &str,
        end: usize,
        message: &Message,
        once: Option<&mut Option<EncodedMessage>>,
    ) -> Result<bool> {
        let runtime = match &self.backend {
            Backend::Run { runtime } => runtime,
            Backend::Alone(alone) => {
                alone.record(end, &self.owned(message)?);
                return Ok(true);
            }
        };
        runtime.note_caller();
        let (id, copy, checksum) = match self.outgoing.get(end) {
            Some(outgoing) => *outgoing,
            None => (runtime.state().conduits.sending[end].spec.id, None, None),
        };
        let encoded = match once {
            None => encode(id, copy, message)?,
            Some(Some(encoded)) => encoded.readdressed(id, 0, copy),
            Some(once) => once.insert(encode(id, copy, message)?.in_few_pieces()).clone(),
        };
        let encoded = match checksum {
            Some(algorithm) => encoded.checked(algorithm),
            None => encoded,
        };
        let bytes = encoded.frame_len();
        let mut encoded = Some(encoded);
        let mut try_to_send = |state: &mut State| match state.conduits.sending[end].room(bytes) {
            Room::Full => Ok(None),
            Room::Gone => {
                state.conduits.sending[end].drop_message();
                Ok(Some(false))
            }
            Room::Free => {
                let Some(frame) = &mut encoded else { return Ok(Some(true)) };
                frame.number(state.conduits.sending[end].next_sequence());
                if state.routing().write_at_once(end, frame) {
                    encoded = None;
                    return Ok(Some(true));
                }
                let Some(frame) = encoded.take().map(EncodedMessage::in_few_pieces) else { return Ok(Some(true)) };
                let frame = kept(frame, state, end, runtime)?;
                if let Some(now) = state.conduits.sending[end].send(frame.into(), bytes) {
                    state.routing().queue_on_link(end, now);
                }
                Ok(Some(true))
            }
        };
        let (goes_back, mut sent, receipts) = {
            let mut state = runtime.state();
            let sending = &mut state.conduits.sending[end];
            let goes_back = message.timestamp < sending.last_timestamp;
            sending.last_timestamp = sending.last_timestamp.max(message.timestamp);
            let link = sending.may_have_receipts().then_some(sending.link);
            let receipts = link.and_then(|link| state.connections.links[link].connection.clone());
            // Receipts are looked for before, so that they do not pile up; without any to come, this is all there is to do.
            let may_go = receipts.is_none() && state.standing.over.is_none();
            let sent = if may_go { try_to_send(&mut state)? } else { None };
            (goes_back, sent, receipts)
        };
        if goes_back {
            self.warn_once("time goes back", port, || {
                format!(
                    "{}.{port}: the time stamp {} s of a message is before that of the message sent before it",
                    self.spec.name, message.timestamp
                )
            });
        }
        if sent.is_none() {
            if let Some(connection) = receipts {
                runtime.read(&connection);
            }
            sent = self.wait(&WaitFor::room(end), None, try_to_send)?;
        }
        Ok(sent.unwrap_or(false))
    }

    /// [`Instance::receive`], as far as this process has to do with it.
    pub(super) fn receive_here(&self, port: &str, of: Option<u32>, timeout: Option<Duration>) -> Result<Received> {
        let (declared, end) = self.ports.sender(port, of)?;
        if self.has_holders(declared).is_some() {
            let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            return self.receive_from_holders(declared, until);
        }
        if self.comes_from_pools(declared) {
            return self.take_here(declared, timeout);
        }
        let Some(end) = end else {
            drop(self.program()?);
            return Ok(Received::NotConnected);
        };
        if declared.is_state && self.is_first_run() {
            drop(self.program()?);
            return Ok(Received::NoStateYet);
        }
        self.program()?.sequence.may_receive_at(declared.place, of)?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        if declared.in_parts {
            return self.receive_parts(port, of, until);
        }
        let runtime = self.runtime_without_callbacks();
        if let Some(message) = runtime.and_then(|runtime| short::receive(runtime, end, until.is_none())) {
            self.account_for(declared, of, &message)?;
            return Ok(Received::Message(message));
        }
        let mut has_filters = false;
        let received = self.wait(&WaitFor::messages(&[end]), until, |state| {
            has_filters = state.conduits.inlets[end].has_filters();
            let next = state.next_for_program(end)?;
            Ok(match next {
                Next::Message => state.conduits.inlets[end].hand_out().map(Received::Message),
                Next::Ended => Some(Received::Ended),
                Next::Nothing => None,
            })
        });
        if has_filters {
            self.tell_warnings_of(&[end]);
        }
        let received = received?;
        match &received {
            Some(Received::Message(message)) => self.account_for(declared, of, message)?,
            Some(Received::Ended) => self.program()?.sequence.ended(port, of),
            _ => {}
        }
        Ok(received.unwrap_or(Received::TimedOut))
    }

    pub(super) fn account_for(&self, port: &Port, of: Option<u32>, message: &Message) -> Result<()> {
        let (drift, position) = {
            let mut program = self.program()?;
            program.sequence.received_at(port.place, of);
            program.clock.received(message.timestamp, message.next_timestamp);
            let mut drift = None;
            if matches!(port.operator, Some(Operator::S | Operator::B)) {
                program.follow_iteration();
                drift = program.clock.drift(message.timestamp, message.next_timestamp);
            }
            (drift, program.position())
        };
        if let Some(drift) = drift {
            let (time, delta) = (self.time(), self.spec.delta_s);
            self.warn_once("drift", &port.name, || {
                format!(
                    "{}.{}: a message for {} s arrived in the iteration at {time} s: the two timelines are {drift} s apart, more than half the time step of {delta} s",
                    self.spec.name, port.name, message.timestamp
                )
            });
        }
        self.note_position(position);
        Ok(())
    }
}

/// Encodes a message for a conduit, without the number that it gets when it is sent.
fn encode(conduit: u32, copy: Option<u32>, message: &Message) -> Result<EncodedMessage> {
    #[cfg(test)]
    tests::ENCODED.set(tests::ENCODED.get() + 1);
    encode_apart(conduit, 0, copy, message)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;
    use crate::coordinator::{Coordinator, CoordinatorOptions};
    use crate::instance::JoinOptions;
    use crate::spec::{ConduitSpec, InstanceSpec};

    thread_local! {
        /// How many messages this thread has encoded.
        pub(super) static ENCODED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    const RECEIVERS: [&str; 3] = ["b", "c", "d"];

    /// `a`, whose one out port leads to all receivers, or one of them.
    fn spec(name: &str) -> InstanceSpec {
        let mut spec = InstanceSpec::new(name);
        let (port, place) = if name == "a" { ("out", "Oi") } else { ("in", "S") };
        spec.add_port(port, place).unwrap();
        let conduits = (0..).zip(RECEIVERS).map(|(id, receiver)| ConduitSpec::new(id, ("a", "out"), (receiver, "in")));
        let mine = conduits.filter(|conduit| name == "a" || name == conduit.receiver);
        InstanceSpec { check_order: false, conduits: mine.map(Into::into).collect(), ..spec }
    }

    #[test]
    fn a_message_to_several_receivers_is_encoded_once() {
        let secret = [7_u8; 32];
        let options = CoordinatorOptions { run_id: "run".into(), secret: secret.to_vec(), listen: None, relay: None };
        let coordinator = Coordinator::start(options).unwrap();
        let secret_file = std::env::temp_dir().join(format!("xmml-encoded-once-{}", std::process::id()));
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&secret_file).unwrap();
        file.write_all(secret.map(|byte| format!("{byte:02x}")).concat().as_bytes()).unwrap();
        let join = |name: &str| {
            coordinator.define(spec(name));
            Instance::join(JoinOptions {
                coordinator: Some(coordinator.addresses().join(",")),
                instance: Some(name.into()),
                secret_file: Some(secret_file.clone()),
                language: "rust",
            })
        };
        let (a, receivers) = (join("a"), RECEIVERS.map(join));
        std::fs::remove_file(&secret_file).unwrap();
        let (a, receivers) = (a.unwrap(), receivers.map(Result::unwrap));
        assert!(a.reuse().unwrap() && receivers.iter().all(|me| me.reuse().unwrap()));
        let values = [Data::Int(7), Data::Bytes(vec![1; 100_000].into()), Data::List(vec![Data::Int(1); 9])];
        for (count, data) in (1..).zip(values) {
            assert_eq!(a.send("out", None, data.clone(), Stamps::default()).unwrap(), Sent::Queued);
            assert_eq!(ENCODED.get(), count);
            for me in &receivers {
                let Received::Message(message) = me.receive("in", None, None).unwrap() else { panic!("no message") };
                assert_eq!(message.data, data);
            }
        }
    }
}
