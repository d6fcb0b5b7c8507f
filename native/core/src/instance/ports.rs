//! The declared ports of an instance, and which conduits hang on them.

use smallvec::SmallVec;

use xmml_wire::error::{Error, Result};

use crate::runtime::state::State;
use crate::sequence::Sequence;
use crate::spec::{Direction, InstanceSpec, Kind, Operator, PortSpec};

/// One declared port.
#[derive(Clone, Debug)]
pub struct Port {
    /// Id in the model.
    pub name: String,
    /// In or out.
    pub direction: Direction,
    /// Place in the loop.
    pub operator: Option<Operator>,
    /// Copies at the other end; 0: not multiplied.
    pub copies: u32,
    /// It receives the state of the previous run of this instance.
    pub is_state: bool,
    /// Its conduits carry parts of arrays that are spread over ranks.
    pub in_parts: bool,
    /// Its conduits are made by handles.
    pub is_open: bool,
    /// It is coupled at rank 0 only, which talks for all ranks.
    pub of_lead: bool,
    /// Where it stands in the order of operators; `None`: it is not coupled.
    pub place: Option<usize>,
    /// Sending or receiving ends, with the copy at the other end.
    ends: SmallVec<[(Option<u32>, usize); 1]>,
}

impl Port {
    /// As the model declares it, coupled to nothing.
    fn declared(spec: &PortSpec) -> Port {
        Port {
            name: spec.name.clone(),
            direction: spec.direction,
            operator: spec.operator,
            copies: spec.copies,
            is_state: false,
            in_parts: false,
            is_open: spec.open,
            of_lead: false,
            place: None,
            ends: SmallVec::new(),
        }
    }

    /// Whether anything is coupled to it.
    pub fn is_connected(&self) -> bool {
        self.of_lead || !self.ends.is_empty()
    }

    /// Indices of all its ends.
    pub fn ends(&self) -> impl Iterator<Item = usize> + '_ {
        self.ends.iter().map(|(_, end)| *end)
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
    /// In the order of their names.
    sorted: Vec<Port>,
    /// In the order of the model.
    names: Vec<String>,
}

/// Of so many ports each is looked at in turn, which is faster than a search.
const FEW: usize = 8;

impl Ports {
    /// As the model declares them, with the ends of `state`.
    pub fn new(spec: &InstanceSpec, state: &State) -> Ports {
        let mut ports = Ports {
            instance: spec.name.clone(),
            sorted: spec.ports.iter().map(Port::declared).collect(),
            names: spec.ports.iter().map(|port| port.name.clone()).collect(),
        };
        ports.sorted.sort_by(|one, other| one.name.cmp(&other.name));
        for conduit in &spec.conduits {
            let sending = (state.conduits.sending_end(conduit.id), &conduit.sender_port, conduit.receiver_copy);
            let receiving = (state.conduits.receiving_end(conduit.id), &conduit.receiver_port, conduit.sender_copy);
            for (end, port, copy) in [sending, receiving] {
                if let (Some(end), Some(port)) = (end, ports.find_mut(port)) {
                    port.ends.push((copy, end));
                    port.is_state |= conduit.is_state && port.direction == Direction::In;
                    port.in_parts |= conduit.parts.is_some();
                }
            }
        }
        ports
    }

    #[inline]
    fn place_of(&self, name: &str) -> Option<usize> {
        if self.sorted.len() <= FEW {
            return self.sorted.iter().position(|port| port.name == name);
        }
        self.sorted.binary_search_by(|port| port.name.as_str().cmp(name)).ok()
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut Port> {
        self.place_of(name).map(|place| &mut self.sorted[place])
    }

    /// The port of this name.
    pub fn get(&self, name: &str) -> Result<&Port> {
        self.place_of(name).map(|place| &self.sorted[place]).ok_or_else(|| Error::PortUnknown {
            instance: self.instance.clone(),
            port: name.to_owned(),
            known: self.names.clone(),
        })
    }

    /// The port of this name, to send on.
    pub fn out(&self, name: &str) -> Result<&Port> {
        self.directed(name, Direction::Out)
    }

    fn directed(&self, name: &str, direction: Direction) -> Result<&Port> {
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
        let port = self.directed(name, Direction::In)?;
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
        self.sorted.iter_mut().for_each(|port| port.place = sequence.place(&port.name));
    }

    /// Takes over from rank 0 which ports are coupled there only.
    pub fn follow(&mut self, lead: &InstanceSpec) {
        for conduit in &lead.conduits {
            let sends = (conduit.sender == lead.name).then_some(&conduit.sender_port);
            let receives = (conduit.receiver == lead.name).then_some(&conduit.receiver_port);
            for name in sends.into_iter().chain(receives) {
                if let Some(port) = self.find_mut(name).filter(|port| port.ends.is_empty()) {
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
    /// Those for the state of the previous run come separately.
    pub fn initial(&self, kind: Kind) -> Initial {
        let (state, partners) = self.awaited(kind).into_iter().partition(|(is_state, _)| *is_state);
        let ends = |list: Vec<(bool, usize)>| list.into_iter().map(|(_, end)| end).collect();
        Initial { partners: ends(partners), state: ends(state) }
    }

    fn awaited(&self, kind: Kind) -> Vec<(bool, usize)> {
        let mut ends: Vec<(bool, usize)> = self
            .sorted
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
