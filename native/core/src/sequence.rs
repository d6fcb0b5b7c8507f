//! The submodel execution loop as a state machine: which call may come next.
//!
//! A run of a submodel is f_init\*, then (O_i\*, (S or B)\*)\*, then O_f\*: each coupled port (each copy of a multiplied partner) exactly
//! once in its place. A run of a mapper receives once on every in port, then sends once on every out port. Operators without coupled
//! ports may be skipped. A program may walk the iterations with [`Sequence::next_step`], or just send and receive: then an iteration begins with the
//! first call after the previous one was complete.
//!
//! Nothing here waits or sends: the runtime asks (`may_...`) before it acts, and tells what became of it after.

use rustc_hash::FxHashMap;
use smallvec::{smallvec, SmallVec};

use xmml_wire::error::{Error, Result};

use crate::spec::{Direction, InstanceSpec, Kind, Operator};

/// Where in its life an instance is, and what it has done in the current run and iteration.
#[derive(Clone, Debug)]
pub struct Sequence {
    instance: String,
    kind: Kind,
    check: bool,
    /// Iterations per run; `None`: no bound.
    bound: Option<u64>,
    until: bool,
    /// Coupled ports only.
    ports: PortTable,
    phase: Phase,
    /// Runs begun.
    runs: u64,
    /// Iterations begun in this run.
    iterations: u64,
    /// The program asks for its iterations.
    stepping: bool,
    /// A partner inside the loop has stopped, so this instance may stop before its last iteration.
    partner_stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before the first reuse.
    Outside,
    /// f_init.
    Start,
    /// O_i, S and B.
    Loop,
    /// O_f.
    Final,
    /// After the last run.
    Over,
}

/// Ports by name, in the order of their names. Programs have few, and look them up at every call.
#[derive(Clone, Debug, Default)]
struct PortTable(Vec<(String, Port)>);

impl PortTable {
    fn insert(&mut self, name: String, port: Port) {
        let at = self.0.partition_point(|(other, _)| *other < name);
        self.0.insert(at, (name, port));
    }

    fn at(&self, name: &str) -> Option<usize> {
        if self.0.len() <= 8 {
            return self.0.iter().position(|(other, _)| other == name);
        }
        self.0.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()
    }

    fn get(&self, name: &str) -> Option<&Port> {
        self.at(name).map(|at| &self.0[at].1)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Port> {
        self.at(name).map(|at| &mut self.0[at].1)
    }

    fn values(&self) -> impl Iterator<Item = &Port> {
        self.0.iter().map(|(_, port)| port)
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.0.iter_mut().map(|(_, port)| port)
    }

    fn iter(&self) -> impl Iterator<Item = (&String, &Port)> {
        self.0.iter().map(|(name, port)| (name, port))
    }
}

/// Nearly every port is coupled once.
type Turns = SmallVec<[bool; 8]>;

#[derive(Clone, Debug)]
struct Port {
    operator: Operator,
    sends: bool,
    /// Whether a call has to say which copy.
    multiplied: bool,
    /// Whether it receives the state of the previous pass, which the first has not.
    is_state: bool,
    /// For each copy, whether it has had its turn.
    done: Turns,
    /// For each copy, whether it has ended and needs no turn any more.
    ended: Turns,
    /// Copies that still need their turn.
    left: usize,
}

impl Port {
    fn reset(&mut self) {
        if let ([done], [ended]) = (&mut self.done[..], &self.ended[..]) {
            // Nearly every port: worth not to be a loop.
            *done = *ended;
            self.left = usize::from(!*ended);
            return;
        }
        self.done.copy_from_slice(&self.ended);
        self.left = self.done.iter().filter(|&&done| !done).count();
    }

    fn copies(&self, copy: Option<u32>) -> std::ops::Range<usize> {
        match copy {
            Some(copy) if self.multiplied && (copy as usize) < self.done.len() => copy as usize..copy as usize + 1,
            _ => 0..self.done.len(),
        }
    }

    fn mark(&mut self, copy: Option<u32>) {
        for copy in self.copies(copy) {
            self.left -= usize::from(!self.done[copy]);
            self.done[copy] = true;
        }
    }

    fn had_its_turn(&self, copy: Option<u32>) -> bool {
        self.copies(copy).any(|copy| self.done[copy] && !self.ended[copy])
    }
}

impl Sequence {
    /// Before the first run of this instance.
    pub fn new(spec: &InstanceSpec) -> Sequence {
        // Whether state comes by it, for each coupled port.
        let mut coupled: FxHashMap<(bool, &str), bool> = FxHashMap::default();
        for conduit in spec.conduits.iter().filter(|conduit| conduit.pool.is_none()) {
            if conduit.sender == spec.name {
                coupled.insert((true, &conduit.sender_port), false);
            }
            if conduit.receiver == spec.name {
                *coupled.entry((false, &conduit.receiver_port)).or_default() |= conduit.is_state;
            }
        }
        let mut ports = PortTable::default();
        for port in &spec.ports {
            let sends = port.direction == Direction::Out;
            let Some(is_state) = coupled.get(&(sends, &*port.name)).copied() else { continue };
            // Without an operator (mappers) the loop is: receive everything, send everything.
            let operator = port.operator.unwrap_or(if sends { Operator::Of } else { Operator::Finit });
            let copies = port.copies.max(1) as usize;
            ports.insert(
                port.name.clone(),
                Port {
                    operator,
                    sends,
                    multiplied: port.copies > 0,
                    is_state,
                    done: smallvec![false; copies],
                    ended: smallvec![false; copies],
                    left: copies,
                },
            );
        }
        Sequence {
            instance: spec.name.clone(),
            kind: spec.kind,
            check: spec.check_order && spec.kind != Kind::Terminal,
            bound: match spec.steps {
                0 if spec.until => None,
                steps => Some(steps.max(1)),
            },
            until: spec.until,
            ports,
            phase: Phase::Outside,
            runs: 0,
            iterations: 0,
            stepping: false,
            partner_stopped: false,
        }
    }

    /// Number of the current run, from 0.
    pub fn run(&self) -> u64 {
        self.runs.saturating_sub(1)
    }

    /// Runs begun so far.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Number of the current iteration, from 0; `None` before the first of this run.
    pub fn iteration(&self) -> Option<u64> {
        self.iterations.checked_sub(1)
    }

    /// Iterations begun in this run.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Number of the iteration to which a call on this port would belong, from 0: the current one, or the next if the call begins it.
    pub fn iteration_of(&self, port: &str, copy: Option<u32>) -> u64 {
        let begins =
            self.ports.get(port).is_some_and(|port| in_loop(port.operator) && self.begins_iteration(port, copy));
        self.iterations + u64::from(begins) - u64::from(begins || self.iterations > 0)
    }

    /// Whether the current iteration is the last one that the model allows.
    pub fn is_last_iteration(&self) -> bool {
        self.bound.is_some_and(|bound| self.iterations >= bound)
    }

    /// Whether reuse() may be called: the previous run, if any, is complete.
    pub fn may_reuse(&self) -> Result<()> {
        match self.run_is_complete() {
            true => Ok(()),
            false => Err(self.out_of_order("reuse()".into())),
        }
    }

    /// Whether the instance may leave: like [`may_reuse`](Sequence::may_reuse).
    pub fn may_leave(&self) -> Result<()> {
        match self.run_is_complete() {
            true => Ok(()),
            false => Err(self.out_of_order("leaving".into())),
        }
    }

    /// reuse() was true.
    pub fn begin_run(&mut self) {
        self.phase = Phase::Start;
        self.runs += 1;
        self.iterations = 0;
        self.stepping = false;
        self.partner_stopped = false;
        for port in self.ports.values_mut() {
            port.reset();
            if port.is_state && self.runs == 1 {
                port.mark(None);
            }
        }
    }

    /// reuse() was false.
    pub fn end(&mut self) {
        self.phase = Phase::Over;
    }

    /// Begins the next iteration and returns its number, or `None` after the last one.
    pub fn next_step(&mut self) -> Result<Option<u64>> {
        if self.check {
            let in_order = match self.phase {
                Phase::Outside | Phase::Over => false,
                Phase::Start => self.is_complete(Operator::Finit),
                Phase::Loop => self.iteration_is_complete(),
                Phase::Final => true,
            };
            if self.kind == Kind::Mapper || !in_order {
                return Err(self.out_of_order("the next step".into()));
            }
        }
        if self.phase == Phase::Final && self.check {
            return Ok(None);
        }
        if self.is_last_iteration() {
            self.phase = Phase::Final;
            return Ok(None);
        }
        self.stepping = true;
        self.begin_iteration();
        Ok(self.iteration())
    }

    /// Where a port stands here, for calls that need not look for it again; `None`: it is not coupled.
    pub fn place(&self, port: &str) -> Option<usize> {
        self.ports.at(port)
    }

    /// Whether a send on this port (to this copy; `None`: to all) may come now. Always, if the port is not coupled.
    pub fn may_send(&self, port: &str, to: Option<u32>) -> Result<()> {
        self.may(port, to, "send on")
    }

    /// Asks whether a send may come now, and if so takes it for done (also if it will be dropped because the receiver is gone).
    /// `place` is that of the port.
    pub fn send(&mut self, place: Option<usize>, to: Option<u32>) -> Result<()> {
        let Some(at) = place else { return Ok(()) };
        self.may_at(at, to, "send on")?;
        self.did_at(at, to);
        Ok(())
    }

    /// A message was sent, or dropped because the receiver is gone.
    pub fn sent(&mut self, port: &str, to: Option<u32>) {
        self.did(port, to);
    }

    /// Whether a receive on this port (of this copy) may come now. Always, if the port is not coupled.
    pub fn may_receive(&self, port: &str, of: Option<u32>) -> Result<()> {
        self.may(port, of, "receive on")
    }

    /// The same by the place of the port.
    pub fn may_receive_at(&self, place: Option<usize>, of: Option<u32>) -> Result<()> {
        place.map_or(Ok(()), |at| self.may_at(at, of, "receive on"))
    }

    /// A message was received.
    pub fn received(&mut self, port: &str, of: Option<u32>) {
        self.did(port, of);
    }

    /// The same by the place of the port.
    pub fn received_at(&mut self, place: Option<usize>, of: Option<u32>) {
        if let Some(at) = place {
            self.did_at(at, of);
        }
    }

    /// A receive met the end of its conduit: nothing is expected of it from now on, and the loop may stop early.
    pub fn ended(&mut self, port: &str, of: Option<u32>) {
        self.partner_stopped = true;
        if let Some(port) = self.ports.get_mut(port) {
            port.mark(of);
            for copy in port.copies(of) {
                port.ended[copy] = true;
            }
        }
    }

    /// A send met a receiver that has left: the loop may stop early.
    pub fn receiver_gone(&mut self) {
        self.partner_stopped = true;
    }

    /// Declares that nothing (more) will be sent on this port in its place of the loop.
    pub fn skip(&mut self, port: &str) -> Result<()> {
        let Some(state) = self.ports.get(port) else { return Ok(()) };
        if !state.sends {
            return Err(Error::PortDirection { instance: self.instance.clone(), port: port.into(), sends: true });
        }
        // Of a multiplied partner, the copies that have had their message stay as they are.
        let rest = (0..state.done.len()).find(|&copy| !state.done[copy]).map(|copy| copy as u32);
        let multiplied = state.multiplied;
        self.may(port, rest.filter(|_| multiplied), "skip")?;
        self.did(port, None);
        Ok(())
    }

    fn may(&self, port: &str, copy: Option<u32>, verb: &str) -> Result<()> {
        match self.ports.at(port) {
            Some(at) => self.may_at(at, copy, verb),
            None => Ok(()),
        }
    }

    fn may_at(&self, at: usize, copy: Option<u32>, verb: &str) -> Result<()> {
        if !self.check {
            return Ok(());
        }
        let (port, state) = &self.ports.0[at];
        let again = state.had_its_turn(copy);
        let allowed = match (self.phase, state.operator) {
            (Phase::Outside | Phase::Over, _) => false,
            (Phase::Start, Operator::Finit) => !again,
            (_, Operator::Finit) => false,
            (Phase::Start, _) if !self.is_complete(Operator::Finit) => false,
            (_, Operator::Of) => !again && self.loop_may_end(),
            (Phase::Final, _) => false,
            (Phase::Start, operator) => self.fits_fresh_iteration(operator),
            (Phase::Loop, operator) => {
                (!again && self.fits_this_iteration(operator))
                    || (self.iteration_is_complete()
                        && !self.stepping
                        && !self.is_last_iteration()
                        && self.fits_fresh_iteration(operator))
            }
        };
        match allowed {
            true => Ok(()),
            false => {
                let again = if again && self.phase != Phase::Outside { "another " } else { "" };
                Err(self.out_of_order(format!("{again}{verb} {}", self.named(port, copy, state.operator))))
            }
        }
    }

    fn did(&mut self, port: &str, copy: Option<u32>) {
        if let Some(at) = self.ports.at(port) {
            self.did_at(at, copy);
        }
    }

    fn did_at(&mut self, at: usize, copy: Option<u32>) {
        let state = &self.ports.0[at].1;
        match state.operator {
            Operator::Finit => {}
            Operator::Of => self.phase = Phase::Final,
            _ if self.begins_iteration(state, copy) => self.begin_iteration(),
            _ => {}
        }
        self.ports.0[at].1.mark(copy);
    }

    /// Whether a call on a port of the loop begins an iteration by itself.
    fn begins_iteration(&self, port: &Port, copy: Option<u32>) -> bool {
        match self.phase {
            Phase::Start | Phase::Outside => true,
            Phase::Loop if self.stepping => false,
            _ => port.had_its_turn(copy) || self.iteration_is_complete(),
        }
    }

    fn begin_iteration(&mut self) {
        self.phase = Phase::Loop;
        self.iterations += 1;
        for port in self.ports.values_mut() {
            if in_loop(port.operator) {
                port.reset();
            }
        }
    }

    fn is_complete(&self, operator: Operator) -> bool {
        self.ports.values().all(|port| port.operator != operator || port.left == 0)
    }

    fn iteration_is_complete(&self) -> bool {
        self.ports.values().all(|port| !in_loop(port.operator) || port.left == 0)
    }

    /// O_i before S and B; nothing of O_i after the first of S and B.
    fn fits_this_iteration(&self, operator: Operator) -> bool {
        match operator {
            Operator::Oi => !self.ports.values().any(|port| {
                matches!(port.operator, Operator::S | Operator::B)
                    && port.done.iter().zip(&port.ended).any(|(&done, &ended)| done && !ended)
            }),
            _ => self.is_complete(Operator::Oi),
        }
    }

    fn fits_fresh_iteration(&self, operator: Operator) -> bool {
        operator == Operator::Oi || !self.ports.values().any(|port| port.operator == Operator::Oi)
    }

    fn loop_may_end(&self) -> bool {
        if self.phase == Phase::Final || self.partner_stopped {
            return true;
        }
        if !self.ports.values().any(|port| in_loop(port.operator)) {
            return true;
        }
        let complete = self.phase == Phase::Start || self.iteration_is_complete();
        complete && (self.until || self.is_last_iteration())
    }

    fn run_is_complete(&self) -> bool {
        if !self.check {
            return true;
        }
        match self.phase {
            Phase::Outside | Phase::Over => true,
            _ => {
                (self.is_complete(Operator::Finit) || self.partner_stopped)
                    && self.loop_may_end()
                    && (self.is_complete(Operator::Of) || self.stopped_before_final())
            }
        }
    }

    /// A mapper whose partner ended amid its receives has nothing to send.
    fn stopped_before_final(&self) -> bool {
        self.kind == Kind::Mapper && self.partner_stopped
    }

    fn out_of_order(&self, call: String) -> Error {
        Error::OperatorOrder { instance: self.instance.clone(), call, expected: self.expected() }
    }

    /// What should come next, for people.
    fn expected(&self) -> String {
        match self.phase {
            Phase::Outside => return "reuse() first, which begins a pass".into(),
            Phase::Over => {
                return "nothing: reuse() was false, so there is no pass to do; leave".into();
            }
            _ => {}
        }
        if !self.is_complete(Operator::Finit) && self.phase == Phase::Start {
            return self.outstanding(&[Operator::Finit]);
        }
        if !self.loop_may_end() {
            let of = match self.bound {
                Some(bound) => format!(" of {bound}"),
                None => String::new(),
            };
            let hint = match self.until {
                true => "",
                false => " (if the program decides when to stop, the model says run:steps=\"until\")",
            };
            if self.phase == Phase::Start {
                return format!("the first iteration{of}{hint}");
            }
            let now = format!(" in iteration {}{of}", self.iterations);
            if !self.is_complete(Operator::Oi) {
                return self.outstanding(&[Operator::Oi]) + &now;
            }
            if !self.iteration_is_complete() {
                return self.outstanding(&[Operator::S, Operator::B]) + &now;
            }
            return format!("iteration {}{of}{hint}", self.iterations + 1);
        }
        let looping = self.ports.values().any(|port| in_loop(port.operator));
        let more = match looping && !self.is_last_iteration() && self.phase != Phase::Final {
            true => "another iteration, or ",
            false => "",
        };
        match self.is_complete(Operator::Of) {
            true => format!("{more}reuse(), which begins the next run"),
            false => format!("{more}{}, or skip", self.outstanding(&[Operator::Of])),
        }
    }

    /// The calls on ports of these operators that are still to come.
    fn outstanding(&self, operators: &[Operator]) -> String {
        const SHOWN: usize = 4;
        let mut calls = Vec::new();
        for (name, port) in self.ports.iter() {
            if !operators.contains(&port.operator) || port.left == 0 {
                continue;
            }
            let verb = if port.sends { "send on" } else { "receive on" };
            let whole = port.left == port.done.len();
            let copies = (0..port.done.len()).filter(|&copy| !port.done[copy]).take(SHOWN + 1);
            for copy in copies.take(if whole { 1 } else { SHOWN + 1 }) {
                let copy = (port.multiplied && !whole).then_some(copy as u32);
                calls.push(format!("{verb} {}", self.named(name, copy, port.operator)));
            }
        }
        if calls.len() > SHOWN {
            calls.truncate(SHOWN);
            calls.push("more".into());
        }
        calls.join(" and ")
    }

    fn named(&self, port: &str, copy: Option<u32>, operator: Operator) -> String {
        let operator = match operator {
            Operator::Finit => "finit",
            Operator::Oi => "Oi",
            Operator::S => "S",
            Operator::B => "B",
            Operator::Of => "Of",
        };
        let operator = match self.kind {
            Kind::Mapper => String::new(),
            _ => format!(" ({operator})"),
        };
        match copy {
            Some(copy) => format!("\"{port}\"[{copy}]{operator}"),
            None => format!("\"{port}\"{operator}"),
        }
    }
}

const fn in_loop(operator: Operator) -> bool {
    matches!(operator, Operator::Oi | Operator::S | Operator::B)
}
