//! Groups: objects of a pool that become visible together. They wait in their writer's memory until the group ends.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use xmml_pool::schema::Schema;
use xmml_pool::value::Value;
use xmml_wire::data::Data;
use xmml_wire::error::Result;
use xmml_wire::lock::lock;
use xmml_wire::message::Message;

use super::objects::{read_some, some, Set};
use super::pools::{Group, Member, Way, Written};
use super::ports::Port;
use super::Instance;

impl Instance {
    /// Begins a group: objects that are put on this port from now on become visible together, when it ends. `attributes` are those that all
    /// of them have, unless a `put` says otherwise.
    ///
    /// Of ranks that joined together all call this.
    ///
    /// # Errors
    /// [`Error::Usage`]: a group was begun there and has not ended, an attribute that does not exist or is not allowed, or a port that
    /// carries messages.
    pub fn begin_group(&self, port: &str, attributes: &[(&str, Value)]) -> Result<()> {
        self.begin_group_with(port, |schema| some(schema, attributes))
    }

    /// [`Instance::begin_group`] with attributes as a text gives them.
    ///
    /// # Errors
    /// As there.
    pub fn begin_group_described(&self, port: &str, attributes: &str) -> Result<()> {
        self.begin_group_with(port, |schema| read_some(schema, attributes))
    }

    fn begin_group_with(&self, port: &str, set: impl FnOnce(&Schema) -> Set) -> Result<()> {
        let begin = || {
            let Some((declared, written)) = self.written_alone(port)? else { return Ok(0) };
            let common = set(&written.schema).map_err(|problem| self.refused(declared, &problem))?;
            let mut group = lock(&written.group);
            if group.is_some() {
                return Err(self.refused(declared, "a group was begun here and has not ended"));
            }
            let number = written.groups.fetch_add(1, Ordering::Relaxed);
            *group = Some(Group { number, common, members: Vec::new() });
            Ok(0)
        };
        self.as_one(port, begin).map(drop)
    }

    /// Ends a group: each reader gets those of its objects that it chooses, all at once. Returns how many readers get some.
    ///
    /// Waits until each of them has room for what it gets, or holds nothing. Of ranks that joined together all call this.
    ///
    /// # Errors
    /// [`Error::Usage`]: no group was begun.
    pub fn end_group(&self, port: &str) -> Result<u64> {
        self.as_one(port, || {
            let Some((declared, written)) = self.written_alone(port)? else { return Ok(0) };
            let group = lock(&written.group).take();
            let group = group.ok_or_else(|| self.refused(declared, "no group was begun here"))?;
            self.offer_group(declared, &group)
        })
    }

    /// Forgets a group that was begun, with its objects; nobody has seen them.
    ///
    /// # Errors
    /// [`Error::Usage`]: a port that carries messages.
    pub fn abandon_group(&self, port: &str) -> Result<()> {
        let abandon = || {
            let Some((_, written)) = self.written_alone(port)? else { return Ok(0) };
            *lock(&written.group) = None;
            Ok(0)
        };
        self.as_one(port, abandon).map(drop)
    }

    /// Keeps an object until its group ends; returns how many readers choose it.
    pub(super) fn add_to_group(
        &self,
        port: &Port,
        written: &Written,
        group: &mut Group,
        own: Vec<Option<Value>>,
        message: Message,
    ) -> Result<u64> {
        let audience = written.audience();
        let (packed, readers) = self.chosen(port, written, &audience, own, &message, Some(group.number))?;
        let Some(packed) = packed else { return Ok(0) };
        let (ways, taps) = audience.ways(&readers);
        let message = self.shared(&self.ends_of(&taps), message, false);
        let held = || {
            let packed = packed.write(&written.schema).map_err(|problem| self.refused(port, &problem))?;
            let message = self.for_all(&self.ends_by(&ways), message, port.is_spread)?;
            Ok((packed, self.owned(&message)?))
        };
        let (packed, Message { timestamp, next_timestamp, data }) = match held() {
            Ok(held) => held,
            Err(error) if ways.is_empty() => {
                self.tell_not_shown(port, &error);
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        let chosen_by = ways.len() as u64;
        group.members.push(Member {
            parts: [Data::Bytes(packed.into()), data],
            stamps: (timestamp, next_timestamp),
            readers: readers.iter().map(|place| audience.readers[*place].clone()).collect(),
        });
        Ok(chosen_by)
    }

    /// Gives each reader what it chooses of a group: in one message, so that it sees all or nothing; or, if it shares with others, in one for
    /// each object.
    fn offer_group(&self, port: &Port, group: &Group) -> Result<u64> {
        let message = |members: &[&Member]| {
            let mut parts = Vec::with_capacity(4 * members.len() + 1);
            for Member { parts: of_member, stamps, .. } in members {
                parts.extend(of_member.iter().cloned());
                parts.extend([Data::Float(stamps.0), stamps.1.map_or(Data::Nothing, Data::Float)]);
            }
            parts.push(Data::Int(group.number as i64));
            let (timestamp, next_timestamp) = members.first().map_or((0.0, None), |member| member.stamps);
            Message { timestamp, next_timestamp, data: Data::List(parts) }
        };
        let (mut reached, mut taps) = (0, Vec::new());
        // Readers that choose the same objects share a message.
        let mut together: Vec<(Vec<usize>, SmallVec<[Way; 4]>)> = Vec::new();
        for (reader, chosen) in group.chosen_by_reader() {
            match (reader.way, reader.is_tap()) {
                (Way::Backlog(number), true) => taps.push((chosen, number)),
                (way, _) if reader.is_queue => {
                    let single = |member: &usize| self.deliver(port, &[way], message(&[&group.members[*member]]), 1);
                    reached += chosen.iter().map(single).sum::<Result<u64>>()?.min(1);
                }
                (way, _) => match together.iter_mut().find(|(same, _)| *same == chosen) {
                    Some((_, ways)) => ways.push(way),
                    None => together.push((chosen, SmallVec::from_slice(&[way]))),
                },
            }
        }
        for (chosen, ways) in together {
            let members: Vec<&Member> = chosen.iter().map(|member| &group.members[*member]).collect();
            reached += self.deliver(port, &ways, message(&members), members.len() as u64)?;
        }
        for (chosen, number) in taps {
            let members: Vec<&Member> = chosen.iter().map(|member| &group.members[*member]).collect();
            self.show(port, &[number], message(&members), members.len() as u64);
        }
        Ok(reached)
    }

    /// Says which objects of groups the program has not taken, of which it has taken others, and which groups it has not ended.
    pub(super) fn tell_rest_of_groups(&self) {
        for (number, port) in self.spec.ports.iter().enumerate() {
            let group = self.pools.written_at(number).and_then(|written| lock(&written.group).take());
            if let Some(group) = group {
                let (port, members) = (&port.name, group.members.len());
                self.warn(&format!(
                    "a group that was begun at {port} has not ended: its {members} objects were not put"
                ));
            }
        }
        for (number, read) in &self.pools.read {
            let rest = lock(&read.rest).len();
            if rest > 0 {
                self.warn(&format!("{} objects of a group were not taken at {}", rest, self.spec.ports[*number].name));
            }
        }
    }
}
