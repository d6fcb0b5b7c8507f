//! Instances whose connection broke, and who may come back: for a while they count as away, and what is said to them is kept.

use std::time::{Duration, Instant};

use xmml_wire::connection::Outgoing;
use xmml_wire::frame::encode_control;
use xmml_wire::handshake::fresh_nonce;
use xmml_wire::liveness::backoff::limit_from_environment;
use xmml_wire::liveness::fruitless::Fruitless;

use super::{Control, Server, Standing};
use crate::control::conversation::Conversation;
use crate::control::{Again, ToInstance};
use crate::coordinator::Event;

/// How long an instance may be away, unless `XMML_AWAY_LIMIT_S` says otherwise (0: nobody is taken back).
const AWAY_LIMIT: Duration = Duration::from_secs(60);

/// What an instance needs to come back, and what it must then be told.
pub struct Ticket {
    token: Vec<u8>,
    pub conversation: Conversation,
    /// Connections in a row that broke before anything had passed that waited.
    fruitless: Fruitless,
    /// Something that it said has not come.
    lacks_something: bool,
}

impl Ticket {
    /// Its connection is broken. Whether none has brought anything for too long.
    fn has_come_in_vain(&mut self) -> bool {
        let waits = self.conversation.waits() | std::mem::take(&mut self.lacks_something);
        self.fruitless.lost(self.conversation.progress(), waits, Instant::now()).is_none()
    }
}

/// How long an instance may be away.
pub fn away_limit() -> Duration {
    limit_from_environment("XMML_AWAY_LIMIT_S", AWAY_LIMIT)
}

impl Server {
    /// A ticket for an instance that is being welcomed, and what it is told of it; nothing where a connection breaks only because its
    /// process has ended.
    pub(super) fn ticket(&self, token: u64) -> Option<(Ticket, Again)> {
        let can_break = self.controls.get(&token).is_some_and(|control| control.connection.can_fall_silent());
        let limit_ms = u64::try_from(self.away_limit.as_millis()).unwrap_or(u64::MAX);
        let secret = fresh_nonce().ok().filter(|_| can_break && limit_ms > 0)?.to_vec();
        let again = Again { token: secret.clone(), limit_ms };
        let fruitless = Fruitless::new(self.away_limit);
        let conversation = Conversation::default();
        Some((Ticket { token: secret, conversation, fruitless, lacks_something: false }, again))
    }

    /// Says something to an instance; if it is away, when it comes back.
    pub(super) fn send_to(&mut self, instance: &str, message: &ToInstance) {
        let Some(member) = self.members.get_mut(instance) else { return };
        let frame: Outgoing = encode_control(&message.encode()).into();
        if member.ticket.as_mut().is_some_and(|ticket| !ticket.conversation.say(&frame)) {
            member.ticket = None;
        }
        if let Some(token) = member.connection {
            self.push(token, frame);
        }
    }

    /// A message that belongs to the conversation has come from an instance; now and then it is told so.
    pub(super) fn note_heard(&mut self, token: u64, instance: &str) {
        let ticket = self.members.get_mut(instance).and_then(|member| member.ticket.as_mut());
        if let Some(count) = ticket.and_then(|ticket| ticket.conversation.hear()) {
            self.send(token, &ToInstance::Heard { count });
        }
    }

    /// An instance has so many messages of ours.
    pub(super) fn has_heard(&mut self, token: u64, instance: &str, count: u64) {
        let ticket = self.members.get_mut(instance).and_then(|member| member.ticket.as_mut());
        if let Some(Err(problem)) = ticket.map(|ticket| ticket.conversation.has(count)) {
            self.complain(token, &problem);
        }
    }

    /// A connection is broken: its instance is away, or lost if it cannot come back, or has come back in vain for too long.
    pub(super) fn part_from(&mut self, token: u64, reason: &str) {
        if let Some(Control { name, standing: Standing::Proven, .. }) = self.controls.get(&token) {
            let text = format!("a process that has proved to be {name} went away before it asked to join: {reason}");
            self.shared.event(Event::Warning { instance: name.clone(), text });
        }
        let name = self.controls.get(&token).map(|control| control.name.clone());
        let member = name.and_then(|name| self.members.get_mut(&name));
        let member = member.filter(|member| member.connection == Some(token));
        let Some(ticket) = member.and_then(|member| member.ticket.as_mut()) else { return self.lose(token) };
        let is_in_vain = ticket.has_come_in_vain();
        let Some(control) = self.take_down(token) else { return };
        if is_in_vain {
            return self.takes_back_no_more(control.name, reason);
        }
        self.goes_away(control.name);
    }

    /// What an instance said was changed on its way. It comes back by another connection; people are told.
    pub(super) fn changed_on_its_way(&mut self, token: u64, problem: &str) {
        if let Some(instance) = self.controls.get(&token).map(|control| control.name.clone()) {
            let text = format!("what it told the coordinator: {problem}; it is said again over a new connection");
            self.shared.event(Event::Warning { instance: instance.clone(), text });
            if let Some(ticket) = self.members.get_mut(&instance).and_then(|member| member.ticket.as_mut()) {
                ticket.lacks_something = true;
            }
        }
        self.part_from(token, problem);
    }

    /// No connection of an instance has brought anything for too long.
    fn takes_back_no_more(&mut self, instance: String, reason: &str) {
        let Some(member) = self.members.get_mut(&instance) else { return };
        (member.connection, member.ticket) = (None, None);
        if member.left.is_none() {
            let limit_s = self.away_limit.as_secs_f64();
            let text = format!(
                "for {limit_s} s every connection between it and the coordinator broke before anything had passed: {reason}"
            );
            self.shared.event(Event::Failed { instance: instance.clone(), text });
            self.shared.event(Event::Lost { instance });
        }
    }

    fn goes_away(&mut self, instance: String) {
        let Some(member) = self.members.get_mut(&instance) else { return };
        let until = Instant::now() + self.away_limit;
        member.connection = None;
        member.away_until = Some(until);
        self.away.push_back((until, instance.clone()));
        // Who has left only wants to hear that this is known.
        if member.left.is_none() {
            self.shared.event(Event::Away { instance, limit_s: self.away_limit.as_secs_f64() });
        }
    }

    /// When somebody will have been away for too long. (All may be away for the same time, so they are in order.)
    pub(super) fn next_given_up(&self) -> Option<Instant> {
        self.away.front().map(|(until, _)| *until)
    }

    /// Gives those up who have been away for too long.
    pub(super) fn give_up_the_absent(&mut self, now: Instant) {
        while self.next_given_up().is_some_and(|until| until <= now) {
            let Some((until, instance)) = self.away.pop_front() else { return };
            let Some(member) = self.members.get_mut(&instance).filter(|member| member.away_until == Some(until)) else {
                continue;
            };
            member.away_until = None;
            member.ticket = None;
            if member.left.is_none() {
                let text = format!("it did not come back within {} s", self.away_limit.as_secs_f64());
                self.shared.event(Event::Warning { instance: instance.clone(), text });
                self.shared.event(Event::Lost { instance });
            }
        }
    }

    /// Somebody says that it is an instance whose connection broke. It must have the token that only this instance was given.
    pub(super) fn rejoin(&mut self, token: u64, presented: &[u8], heard: u64) {
        let Some(control) = self.controls.get(&token) else { return };
        let instance = control.name.clone();
        match control.standing {
            Standing::Proven => {}
            Standing::TurnedDown => return,
            Standing::Asked(_) | Standing::Joined => {
                return self.complain(token, "it came back by the connection on which it had asked to join");
            }
        }
        let ticket = self.members.get(&instance).and_then(|member| member.ticket.as_ref());
        if !ticket.is_some_and(|ticket| is_same(&ticket.token, presented)) {
            let is_known = ticket.is_some();
            let reason = match self.aborted.clone() {
                Some(reason) => reason,
                None if is_known => {
                    format!("another process is {instance}; who comes back must be the one that joined")
                }
                None => format!("{instance} was away for too long, and is not expected any more"),
            };
            if is_known {
                let text = format!("somebody who is not {instance} tried to come back as {instance}");
                self.shared.event(Event::Warning { instance, text });
            }
            return self.turn_down(token, reason);
        }
        self.take_back(token, instance, heard);
    }

    fn take_back(&mut self, token: u64, instance: String, heard: u64) {
        let Some(member) = self.members.get_mut(&instance) else { return };
        // It knows that its connection broke, maybe before we do.
        if let Some(old) = member.connection.filter(|old| *old != token) {
            self.take_down(old);
            self.goes_away(instance.clone());
        }
        let Some(member) = self.members.get_mut(&instance) else { return };
        let Some(ticket) = &mut member.ticket else { return };
        if let Err(problem) = ticket.conversation.has(heard) {
            return self.complain(token, &problem);
        }
        self.entrants.leave(token);
        if let Some(control) = self.controls.get_mut(&token) {
            control.standing = Standing::Joined;
        }
        let back = ToInstance::WelcomeBack { heard: ticket.conversation.tell() };
        let rest: Vec<Outgoing> = ticket.conversation.rest().collect();
        let has_left = member.left.is_some();
        member.connection = Some(token);
        member.away_until = None;
        self.send(token, &back);
        rest.into_iter().for_each(|frame| self.push(token, frame));
        if !has_left {
            self.shared.event(Event::Back { instance });
        }
    }
}

/// Compares without telling by the time it takes where the difference is.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
