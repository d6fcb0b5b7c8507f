//! The declared ports of an instance, and which conduits hang on them.

use smallvec::SmallVec;

use xmml_wire::error::{Error, Result};

use crate::runtime::state::State;
use crate::sequence::Sequence;
use crate::spec::{Direction, InstanceSpec, Kind, Operator, PortSpec};

use super::names::PortNames;

/// One declared port.
#[derive(Clone, Debug)]
pub struct Port {
    /// Id in the model.
    pub name: String,
    /// Its place among the ports of the model.
    pub number: usize,
    /// In or out.
    pub direction: Direction,
    /// Place in the loop.
    pub operator: Option<Operator>,
    /// Copies at the other end; 0: not multiplied.
    pub copies: u32,
    /// It receives the state of the previous pass of this instance.
    pub is_state: bool,
    /// Its arrays are spread over the ranks of this instance: each has its block of them.
    pub is_spread: bool,
    /// Its messages are parts of arrays that are spread over ranks, of this instance or of the other one.
    pub in_parts: bool,
    /// Its conduits are made by handles.
    pub is_open: bool,
    /// It is coupled at rank 0 only, which talks for all ranks.
    pub of_lead: bool,
    /// Where it stands in the order of operators; `None`: it is not coupled.
    pub place: Option<usize>,
    /// Sending or receiving ends of messages, with the copy at the other end.
    ends: SmallVec<[(Option<u32>, usize); 1]>,
    /// Sending or receiving ends of objects.
    pool_ends: Vec<usize>,
}

impl Port {
    /// As the model declares it, coupled to nothing.
    fn declared((number, spec): (usize, &PortSpec)) -> Port {
        Port {
            name: spec.name.clone(),
            number,
            direction: spec.direction,
            operator: spec.operator,
            copies: spec.copies,
            is_state: false,
            is_spread: spec.decomposition.ranks() > 1,
            in_parts: false,
            is_open: spec.open,
            of_lead: false,
            place: None,
            ends: SmallVec::new(),
            pool_ends: Vec::new(),
        }
    }

    /// Whether anything is coupled to it.
    pub fn is_connected(&self) -> bool {
        self.of_lead || !self.ends.is_empty() || !self.pool_ends.is_empty()
    }

    /// Indices of its ends by which messages travel.
    pub fn ends(&self) -> impl Iterator<Item = usize> + '_ {
        self.ends.iter().map(|(_, end)| *end)
    }

    /// Indices of all its ends, those of pools too.
    pub fn all_ends(&self) -> impl Iterator<Item = usize> + '_ {
        self.ends().chain(self.pool_ends.iter().copied())
    }
}

/// Receiving ends on f_init.
#[derive(Clone, Debug)]
pub struct Initial {
    /// From other instances: by these it is decided whether there is a run.
    pub partners: Vec<usize>,
    /// From the previous run of this instance.
    pub state: Vec<usize>,
}

/// All declared ports.
#[derive(Clone, Debug)]
pub struct Ports {
    instance: String,
    /// In the order of the model, by which they are numbered.
    list: Vec<Port>,
    /// Their names, for those who look a port up once.
    names: PortNames,
    /// Their numbers in the order of their names.
    sorted: Vec<usize>,
}

/// Of so many ports each is looked at in turn, which is faster than a search.
const FEW: usize = 8;

impl Ports {
    /// As the model declares them, with the ends of `state`.
    pub fn new(spec: &InstanceSpec, state: &State) -> Ports {
        let mut ports = Ports {
            instance: spec.name.clone(),
            list: spec.ports.iter().enumerate().map(Port::declared).collect(),
            names: PortNames::new(spec.ports.iter().map(|port| &*port.name)),
            sorted: (0..spec.ports.len()).collect(),
        };
        ports.sorted.sort_by_key(|number| &spec.ports[*number].name);
        for conduit in &spec.conduits {
            let sending = (state.conduits.sending_end(conduit.id), &conduit.sender_port, conduit.receiver_copy);
            let receiving = (state.conduits.receiving_end(conduit.id), &conduit.receiver_port, conduit.sender_copy);
            for (end, port, copy) in [sending, receiving] {
                if let (Some(end), Some(port)) = (end, ports.find_mut(port)) {
                    if conduit.pool.is_some() {
                        port.pool_ends.push(end);
                        continue;
                    }
                    port.ends.push((copy, end));
                    port.is_state |= conduit.is_state && port.direction == Direction::In;
                    port.in_parts |= conduit.parts.is_some();
                }
            }
        }
        ports
    }

    /// The number of the port of this name: a bound one is known by its address, without a comparison of texts.
    #[inline(always)]
    pub fn number_of(&self, name: &str) -> Option<usize> {
        if let Some(number) = self.names.number_of(name) {
            return Some(number);
        }
        if self.list.len() <= FEW {
            return self.list.iter().position(|port| port.name == name);
        }
        let found = self.sorted.binary_search_by(|number| self.list[*number].name.as_str().cmp(name));
        found.ok().map(|place| self.sorted[place])
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut Port> {
        self.number_of(name).map(|number| &mut self.list[number])
    }

    /// The names of all ports.
    pub fn names(&self) -> &PortNames {
        &self.names
    }

    fn number_or_error(&self, name: &str) -> Result<usize> {
        self.number_of(name).ok_or_else(|| Error::PortUnknown {
            instance: self.instance.clone(),
            port: name.to_owned(),
            known: self.list.iter().map(|port| port.name.clone()).collect(),
        })
    }

    /// The port of this name.
    pub fn get(&self, name: &str) -> Result<&Port> {
        self.number_or_error(name).map(|number| &self.list[number])
    }

    /// The name of a port of this direction, as it lies here.
    pub fn bind(&self, name: &str, direction: Direction) -> Result<&str> {
        let number = self.number_or_error(name)?;
        self.named(name, direction)?;
        Ok(self.names.get(number))
    }

    /// The port of this name, to send on.
    pub fn out(&self, name: &str) -> Result<&Port> {
        self.named(name, Direction::Out)
    }

    /// The port of this name, which must have this direction.
    pub fn named(&self, name: &str, direction: Direction) -> Result<&Port> {
        let port = self.get(name)?;
        if port.direction == direction {
            return Ok(port);
        }
        let sends = port.direction == Direction::Out;
        Err(Error::PortDirection { instance: self.instance.clone(), port: name.to_owned(), sends })
    }

    /// Where a send on a port goes: one copy, or (`None`) all receivers. Empty if it is not coupled.
    pub fn receivers(&self, port: &Port, to: Option<u32>) -> Result<SmallVec<[usize; 2]>> {
        let Some(copy) = to else { return Ok(port.ends().collect()) };
        self.check_copy(port, copy, "to")?;
        Ok(port.ends.iter().filter(|(other, _)| *other == Some(copy)).map(|(_, end)| *end).collect())
    }

    /// Where a receive on a port comes from; `None` if it is not coupled.
    pub fn sender(&self, name: &str, of: Option<u32>) -> Result<(&Port, Option<usize>)> {
        let port = self.named(name, Direction::In)?;
        match of {
            Some(copy) => {
                self.check_copy(port, copy, "of")?;
                Ok((port, port.ends.iter().find(|(other, _)| *other == Some(copy)).map(|(_, end)| *end)))
            }
            None if port.copies > 0 && port.is_connected() => Err(Error::Usage {
                problem: format!(
                    "{}.{name} comes from {} copies: say which (of=0 to {}), or receive them all",
                    self.instance,
                    port.copies,
                    port.copies - 1
                ),
            }),
            None => Ok((port, port.ends.first().map(|(_, end)| *end))),
        }
    }

    /// Where the parts of a message on a port come from; empty if it is not coupled.
    pub fn senders(&self, name: &str, of: Option<u32>) -> Result<(&Port, Vec<usize>)> {
        let (port, _) = self.sender(name, of)?;
        Ok((port, port.ends.iter().filter(|(copy, _)| of.is_none() || *copy == of).map(|(_, end)| *end).collect()))
    }

    /// Notes where the ports stand in the order of operators, so that no call need look for that.
    pub fn take_places(&mut self, sequence: &Sequence) {
        self.list.iter_mut().for_each(|port| port.place = sequence.place(&port.name));
    }

    /// Takes over from rank 0 which ports are coupled there only.
    pub fn follow(&mut self, lead: &InstanceSpec) {
        for conduit in &lead.conduits {
            let sends = (conduit.sender == lead.name).then_some(&conduit.sender_port);
            let receives = (conduit.receiver == lead.name).then_some(&conduit.receiver_port);
            for name in sends.into_iter().chain(receives) {
                if let Some(port) = self.find_mut(name).filter(|port| port.all_ends().next().is_none()) {
                    port.of_lead = true;
                    port.is_state |= conduit.is_state && port.direction == Direction::In;
                }
            }
        }
    }

    fn check_copy(&self, port: &Port, copy: u32, word: &str) -> Result<()> {
        if copy < port.copies {
            return Ok(());
        }
        let problem = match port.copies {
            0 => format!("{}.{} does not lead to a multiplied instance: leave out {word}=", self.instance, port.name),
            copies => format!(
                "{}.{}: there is no copy {copy}; {word}= goes from 0 to {}",
                self.instance,
                port.name,
                copies - 1
            ),
        };
        Err(Error::Usage { problem })
    }

    /// The receiving ends that a run waits for before it begins: f_init of a submodel, everything of a mapper, nothing of a terminal.
    /// Those for the state of the previous pass come separately.
    pub fn initial(&self, kind: Kind) -> Initial {
        let (state, partners) = self.awaited(kind).into_iter().partition(|(is_state, _)| *is_state);
        let ends = |list: Vec<(bool, usize)>| list.into_iter().map(|(_, end)| end).collect();
        Initial { partners: ends(partners), state: ends(state) }
    }

    fn awaited(&self, kind: Kind) -> Vec<(bool, usize)> {
        let mut ends: Vec<(bool, usize)> = self
            .list
            .iter()
            .filter(|port| port.direction == Direction::In)
            .filter(|port| match kind {
                Kind::Submodel => port.operator == Some(Operator::Finit),
                Kind::Mapper => true,
                Kind::Terminal => false,
            })
            .flat_map(|port| port.ends().map(|end| (port.is_state, end)))
            .collect();
        ends.sort_unstable();
        ends
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::instance::Instance;

    /// With an in port and so many out ports, in no order of their names.
    fn cell(out: usize) -> Instance {
        let mut spec = InstanceSpec::new("cell");
        spec.add_port("in", "S").unwrap();
        (0..out).rev().for_each(|number| spec.add_port(&format!("out{number}"), "Oi").unwrap());
        Instance::alone(spec, BTreeMap::new()).unwrap()
    }

    #[test]
    fn a_port_is_found_by_its_name_and_by_its_bound_name() {
        for count in [2, FEW, 3 * FEW] {
            let me = cell(count);
            for number in 0..count {
                let name = format!("out{number}");
                let bound = me.bind_out(&name).unwrap();
                assert_eq!(bound, name);
                assert_eq!(me.port_number(&name), Some(count - number));
                assert_eq!(me.port_number(bound), Some(count - number));
                assert!(std::ptr::eq(me.bind_out(bound).unwrap(), bound));
            }
            assert_eq!((me.bind_in("in").unwrap(), me.port_number("in")), ("in", Some(0)));
            assert_eq!(me.port_number("out"), None);
        }
    }

    #[test]
    fn what_cannot_be_bound_is_the_error_of_a_call() {
        let me = cell(2);
        let unknown = me.skip("output").unwrap_err().to_string();
        assert_eq!(me.bind_out("output").unwrap_err().to_string(), unknown);
        assert_eq!(me.bind_in("output").unwrap_err().to_string(), unknown);
        assert_eq!(me.bind_out("in").unwrap_err().to_string(), me.skip("in").unwrap_err().to_string());
        let sends = me.receive("out0", None, None).unwrap_err().to_string();
        assert_eq!(me.bind_in("out0").unwrap_err().to_string(), sends);
    }
}
