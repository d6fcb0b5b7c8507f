//! What the ranks of a parallel program do together where a program of one process goes straight to the implementation.
//!
//! Of several ranks that joined together
//! ([`Instance::join_team`]), rank 0 is the instance of the model; it talks to the run on all ordinary ports, and tells the others what
//! came of it. If a port is parallel (`run:decomp`), each further rank is a member of the run too, `name#rank`, and sends and receives its
//! own part there. Every rank keeps the place in the loop by itself, so steps and times need no words between them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use xmml_wire::buffer::BufferPool;
use xmml_wire::data::{Array, Data, Order};
use xmml_wire::error::{Error, Result};
use xmml_wire::message::Message;
use xmml_wire::methods::Place;

use crate::parallel::decomposition::Decomposition;
use crate::parallel::gathering::{gathered, Gathered};
use crate::sequence::Sequence;
use crate::spec::{without_rank, ConduitSpec, InstanceSpec, Operator, RANK_MARK};
use crate::team::{self, Team};

use super::alone::Alone;
use super::pools::Pools;
use super::ports::Ports;
use super::{Backend, Instance, JoinOptions, Received, Sent, Stamps};

/// What rank 0 tells the others when it has joined.
#[derive(Serialize, Deserialize)]
struct Lead {
    spec: InstanceSpec,
    /// Its host.
    node: String,
    coordinator: Option<String>,
    secret_file: Option<PathBuf>,
}

/// What rank 0 tells the others of a receive.
#[derive(Serialize, Deserialize)]
enum Outcome {
    Message(team::Announced),
    Ended,
    TimedOut,
    NotConnected,
    NoStateYet,
}

impl Instance {
    /// Joins the run with all ranks of a parallel program; every rank calls this.
    ///
    /// # Errors
    /// What keeps one of the ranks from joining, on every rank.
    pub fn join_team(options: JoinOptions, team: Box<dyn Team>) -> Result<Instance> {
        let language = options.language;
        let (own, lead) = if team.rank() == 0 {
            let joined = Instance::join_as_member(options.clone());
            let lead = joined.as_ref().map_err(Error::clone).map(|me| Lead {
                spec: me.spec.clone(),
                node: Place::here().host,
                coordinator: options.coordinator.or_else(|| std::env::var("XMML_COORDINATOR").ok()),
                secret_file: options.secret_file.or_else(|| std::env::var_os("XMML_SECRET_FILE").map(PathBuf::from)),
            });
            let lead = team::share(&*team, Some(lead.and_then(|lead| fits(lead, team.size()))))?;
            (joined, lead)
        } else {
            let lead: Lead = team::share(&*team, None)?;
            let joined = match lead.spec.ports.iter().any(|port| port.decomposition.ranks() > 1) {
                true => Instance::join_as_member(JoinOptions {
                    instance: Some(format!("{}{RANK_MARK}{}", lead.spec.name, team.rank())),
                    coordinator: lead.coordinator.clone(),
                    secret_file: lead.secret_file.clone(),
                    language,
                }),
                false => Instance::bystander(&lead.spec),
            };
            (joined, lead)
        };
        team::agree(&*team, own.as_ref().map(|_| ()).map_err(Error::clone))?;
        let mut me = own?;
        if language == "fortran" {
            me.prefer_order(Order::ColumnMajor);
        }
        if team.rank() > 0 {
            me.follow(&lead);
        }
        me.team = Some(team);
        Ok(me)
    }

    /// A program of which only one rank has joined, although others should have their parts of arrays, would let everybody wait for them.
    pub(super) fn check_that_it_is_all(&self) -> Result<()> {
        match self.spec.ports.iter().find(|port| port.decomposition.ranks() > 1) {
            None => Ok(()),
            Some(port) => Err(Error::Usage {
                problem: format!(
                    "{}.{} is spread over {} ranks (run:decomp), but this one has joined alone; let all of them join together: xmml.Instance(comm=...) (C: xmml_join_mpi)",
                    self.spec.name,
                    port.name,
                    port.decomposition.ranks()
                ),
            }),
        }
    }

    /// A rank that has no part in the run itself.
    fn bystander(lead: &InstanceSpec) -> Result<Instance> {
        let spec = InstanceSpec { conduits: Vec::new(), ..lead.clone() };
        let alone = Alone::silent(&spec)?;
        let ports = alone.with_state(|state| Ports::new(&spec, state));
        Instance::assemble(spec, ports, Backend::Alone(Box::new(alone)))
    }

    /// Takes over from rank 0 what every rank goes by: the ports that are coupled, the order of operators, the parameters.
    fn follow(&mut self, Lead { spec: lead, node, .. }: &Lead) {
        self.ports.follow(lead);
        let sequence = Sequence::new(lead);
        self.ports.take_places(&sequence);
        self.program_even_after_leaving().sequence = sequence;
        let of_all = lead.conduits.iter().filter(|conduit| !self.is_spread_at(conduit)).chain(&self.spec.conduits);
        let pools = InstanceSpec { conduits: of_all.cloned().collect(), ..lead.clone() };
        if let Ok(pools) = self.with_state(|state| Pools::new(&pools, state)) {
            self.pools = pools; // rank 0 has told if one cannot be read
        }
        self.pools.put_at(node);
        self.spec.ports = lead.ports.clone();
        self.spec.params = lead.params.clone();
    }

    /// Whether the port of this instance at which a conduit begins or ends has a block of each array at each rank.
    fn is_spread_at(&self, conduit: &ConduitSpec) -> bool {
        let sends = without_rank(&conduit.sender) == self.model_name();
        let port = if sends { &conduit.sender_port } else { &conduit.receiver_port };
        self.ports.get(port).is_ok_and(|port| port.is_spread)
    }

    /// Which rank of a parallel program this is, from 0; 0 if it has not joined with others.
    pub fn rank(&self) -> u32 {
        self.team.as_ref().map_or(0, |team| team.rank())
    }

    /// How many ranks have joined together; 1 if it has not joined with others.
    pub fn ranks(&self) -> u32 {
        self.team.as_ref().map_or(1, |team| team.size())
    }

    /// The name in the model, the same on all ranks.
    pub fn model_name(&self) -> &str {
        without_rank(&self.spec.name)
    }

    /// The ranks that make this call together; `None` if this process makes it alone: it is the only one, or each rank has its own part.
    pub(super) fn together(&self, port: &str) -> Result<Option<&dyn Team>> {
        let Some(team) = self.team.as_deref().filter(|team| team.size() > 1) else { return Ok(None) };
        Ok((!self.ports.get(port)?.is_spread).then_some(team))
    }

    /// Whether there is another pass to do; waits until every coupled f_init port (of a mapper: every in port) has a message or has
    /// ended. How long partners compute is not ours to bound: the wait ends with the run at the latest.
    ///
    /// # Errors
    /// [`Error::OperatorOrder`] if the previous run is not complete; an error naming the ports if some have ended while others have
    /// messages.
    pub fn reuse(&self) -> Result<bool> {
        let Some(team) = self.team.as_deref().filter(|team| team.size() > 1) else { return self.reuse_here() };
        if team.rank() == 0 {
            let begins = self.reuse_here();
            return Ok(team::share(team, Some(begins.map(|begins| (begins, self.origin()))))?.0);
        }
        let (begins, origin): (bool, f64) = team::share(team, None)?;
        let is_first = {
            let program = self.program()?;
            program.sequence.may_reuse()?;
            !program.reused
        };
        if !is_first {
            self.end_run_of_outlets()?;
        }
        {
            let mut program = self.program()?;
            program.reused = true;
            if begins {
                program.sequence.begin_run();
                program.clock.begin_run(Some(origin));
            } else {
                program.sequence.end();
            }
        }
        self.note_progress();
        Ok(begins)
    }

    /// [`Instance::send_block`] on an ordinary port, which all ranks call: rank 0 sends.
    pub(super) fn send_together(
        &self,
        team: &dyn Team,
        port: &str,
        to: Option<u32>,
        data: Data,
        shape: Option<&[u64]>,
        stamps: Stamps,
    ) -> Result<Sent> {
        if team.rank() == 0 {
            return team::share(team, Some(self.send_here(port, to, data, shape, stamps)));
        }
        let sent: Sent = team::share(team, None)?;
        self.note_sent(port, to, sent)?;
        Ok(sent)
    }

    /// Rank 0 has sent; this rank goes on in the loop like it.
    fn note_sent(&self, port: &str, to: Option<u32>, sent: Sent) -> Result<()> {
        let declared = self.ports.get(port)?;
        let mut program = self.program()?;
        if sent != Sent::NotConnected {
            program.sequence.send(declared.place, to)?;
            if !matches!(declared.operator, None | Some(Operator::Of)) {
                program.follow_iteration();
            }
        }
        if sent == Sent::ReceiverGone {
            program.sequence.receiver_gone();
        }
        Ok(())
    }

    /// Puts the blocks of all ranks together on rank 0, which sends the whole array on an ordinary port. All ranks call this.
    ///
    /// # Errors
    /// On every rank: the blocks do not make one array, or what keeps rank 0 from sending it.
    pub fn send_gathered(
        &self,
        port: &str,
        to: Option<u32>,
        block: Array,
        decomposition: &Decomposition,
        stamps: Stamps,
    ) -> Result<Sent> {
        let whole = match &self.team {
            Some(team) if self.ports.get(port)?.is_spread => {
                let problem = format!(
                    "{}.{port} is parallel (run:decomp): send sends the block of each of the {} ranks",
                    self.spec.name,
                    team.size()
                );
                return Err(Error::Usage { problem });
            }
            Some(team) if team.size() > 1 => gathered(&**team, block, decomposition)?,
            _ => Gathered::Whole(block),
        };
        match whole {
            Gathered::Whole(array) => self.send(port, to, Data::Array(array), stamps),
            Gathered::Delivered => self.send(port, to, Data::Nothing, stamps),
        }
    }

    /// [`Instance::receive`] on an ordinary port, which all ranks call: rank 0 receives.
    pub(super) fn receive_together(
        &self,
        team: &dyn Team,
        port: &str,
        of: Option<u32>,
        timeout: Option<Duration>,
    ) -> Result<Received> {
        if team.rank() > 0 {
            return self.receive_from_lead(team, port, of);
        }
        let received = self.receive_here(port, of, timeout);
        let (outcome, payload) = match &received {
            Ok(Received::Message(message)) => match team::share_message(message) {
                Ok((announced, payload)) => (Ok(Outcome::Message(announced)), payload),
                Err(error) => (Err(error), Vec::new()),
            },
            Ok(Received::Ended) => (Ok(Outcome::Ended), Vec::new()),
            Ok(Received::TimedOut) => (Ok(Outcome::TimedOut), Vec::new()),
            Ok(Received::NotConnected) => (Ok(Outcome::NotConnected), Vec::new()),
            Ok(Received::NoStateYet) => (Ok(Outcome::NoStateYet), Vec::new()),
            Err(error) => (Err(error.clone()), Vec::new()),
        };
        if let Outcome::Message(announced) = team::share(team, Some(outcome))? {
            announced.give(team, &payload)?;
        }
        received
    }

    fn receive_from_lead(&self, team: &dyn Team, port: &str, of: Option<u32>) -> Result<Received> {
        Ok(match team::share(team, None)? {
            Outcome::Message(announced) => {
                let message = team::take_message(team, announced, &BufferPool::new())?;
                self.note_received(port, of, &message)?;
                Received::Message(message)
            }
            Outcome::Ended => {
                self.program()?.sequence.ended(port, of);
                Received::Ended
            }
            Outcome::TimedOut => Received::TimedOut,
            Outcome::NotConnected => Received::NotConnected,
            Outcome::NoStateYet => Received::NoStateYet,
        })
    }

    /// Rank 0 has received; this rank goes on in the loop like it.
    fn note_received(&self, port: &str, of: Option<u32>, message: &Message) -> Result<()> {
        let declared = self.ports.get(port)?;
        let mut program = self.program()?;
        program.sequence.may_receive(port, of)?;
        program.sequence.received(port, of);
        program.clock.received(message.timestamp, message.next_timestamp);
        if declared.place.is_some() && matches!(declared.operator, Some(Operator::S | Operator::B)) {
            program.follow_iteration();
        }
        Ok(())
    }

    /// A receive that each rank makes by itself. With a time-out, either all ranks have their parts in time, or none takes its own.
    pub(super) fn receive_own(&self, port: &str, of: Option<u32>, timeout: Option<Duration>) -> Result<Received> {
        let team = self.team.as_deref().filter(|team| team.size() > 1);
        let (Some(team), Some(timeout)) = (team, timeout) else { return self.receive_here(port, of, timeout) };
        let until = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        let found = self.look_for_message(port, of, until).map(|found| found.is_some());
        match every(team, found)? {
            true => self.receive_here(port, of, None),
            false => Ok(Received::TimedOut),
        }
    }

    /// Whether a receive would return a message at once, on all ranks.
    pub fn has_message(&self, port: &str, of: Option<u32>) -> Result<bool> {
        let look = || self.look_for_message(port, of, Instant::now()).map(|found| found == Some(true));
        if let Some(team) = self.together(port)? {
            return team::share(team, (team.rank() == 0).then(look));
        }
        match self.team.as_deref().filter(|team| team.size() > 1) {
            Some(team) if self.comes_from_pools(self.ports.get(port)?) => self.has_object(team, port),
            Some(team) => every(team, look()),
            None => look(),
        }
    }

    /// Ends normally: flushes filters and messages, ends every out conduit, tells the coordinator. May be called again.
    ///
    /// Waits until every message is with the kernel (methods that cannot break) or with the receiver (those that can), which may mean
    /// until a receiver joins. The wait ends with the run at the latest.
    ///
    /// # Errors
    /// [`Error::OperatorOrder`] if the run is not complete; whatever keeps messages from being delivered.
    pub fn leave(&self) -> Result<()> {
        match self.team.as_deref().filter(|team| team.size() > 1) {
            Some(_) if self.program_even_after_leaving().left => Ok(()),
            Some(team) => team::agree(team, self.leave_here()),
            None => self.leave_here(),
        }
    }
}

/// The rank count of the model and that of the communicator must be the same.
fn fits(lead: Lead, size: u32) -> Result<Lead> {
    for port in &lead.spec.ports {
        let ranks = port.decomposition.ranks();
        if ranks > 1 && ranks != size {
            return Err(Error::Usage {
                problem: format!(
                    "{}.{}: the model spreads it over {ranks} ranks (run:decomp), but {size} joined together; join with a communicator of {ranks}",
                    lead.spec.name, port.name
                ),
            });
        }
    }
    Ok(lead)
}

/// Whether it is so on every rank.
pub(super) fn every(team: &dyn Team, own: Result<bool>) -> Result<bool> {
    if team.rank() > 0 {
        team::deliver_value(team, &own)?;
        return team::share(team, None);
    }
    let mut all = own;
    for rank in 1..team.size() {
        let theirs: Result<bool> = team::collect_value(team, rank)?;
        all = all.and_then(|all| Ok(theirs? && all));
    }
    team::share(team, Some(all))
}
