//! The submodel execution loop: single rules by example, and all of them against an independent description of the legal programs.

use proptest::prelude::*;
use proptest::sample::Index;
use xmml_core::sequence::Sequence;
use xmml_core::spec::{ConduitSpec, Direction, InstanceSpec, Kind, Operator, PortSpec};
use xmml_wire::error::Error;

/// A port: name, operator, copies at the other end (0: not multiplied), whether it is coupled.
type PortOf = (&'static str, Operator, u32, bool);

fn sends(operator: Operator) -> bool {
    matches!(operator, Operator::Oi | Operator::Of)
}

fn spec(kind: Kind, steps: u64, until: bool, ports: &[PortOf]) -> InstanceSpec {
    let conduit = |id: usize, name: &str, out: bool, copy: Option<u32>| {
        let ends = if out { ("me", "other") } else { ("other", "me") };
        ConduitSpec {
            sender_copy: copy.filter(|_| !out),
            receiver_copy: copy.filter(|_| out),
            ..ConduitSpec::new(id as u32, (ends.0, name), (ends.1, name))
        }
    };
    let mut conduits = Vec::new();
    for (name, operator, copies, coupled) in ports {
        for copy in 0..(*copies).max(1) {
            if *coupled {
                conduits.push(conduit(conduits.len(), name, sends(*operator), (*copies > 0).then_some(copy)).into());
            }
        }
    }
    InstanceSpec {
        kind,
        steps,
        until,
        total_s: steps as f64,
        ports: ports
            .iter()
            .map(|(name, operator, copies, _)| PortSpec {
                name: (*name).into(),
                direction: if sends(*operator) { Direction::Out } else { Direction::In },
                operator: (kind == Kind::Submodel).then_some(*operator),
                copies: *copies,
                decomposition: Default::default(),
                shape: vec![],
                open: false,
                attributes: None,
            })
            .collect(),
        conduits,
        ..InstanceSpec::new("me")
    }
}

const ALL: &[PortOf] = &[
    ("initial", Operator::Finit, 0, true),
    ("state", Operator::Oi, 0, true),
    ("left", Operator::S, 0, true),
    ("edge", Operator::B, 0, true),
    ("final", Operator::Of, 0, true),
];

fn running(steps: u64, until: bool, ports: &[PortOf]) -> Sequence {
    let mut sequence = Sequence::new(&spec(Kind::Submodel, steps, until, ports));
    sequence.may_reuse().unwrap();
    sequence.begin_run();
    sequence
}

/// One thing a program does.
#[derive(Clone, Debug, PartialEq)]
enum Call {
    Reuse,
    Step,
    Port(&'static str, Operator, Option<u32>),
    Leave,
}

fn perform(sequence: &mut Sequence, call: &Call) -> Result<(), Error> {
    match call {
        Call::Reuse => sequence.may_reuse().map(|()| sequence.begin_run()),
        Call::Step => sequence.next_step().map(|_| ()),
        Call::Leave => sequence.may_leave().map(|()| sequence.end()),
        Call::Port(name, operator, copy) if sends(*operator) => {
            sequence.may_send(name, *copy).map(|()| sequence.sent(name, *copy))
        }
        Call::Port(name, _, copy) => sequence.may_receive(name, *copy).map(|()| sequence.received(name, *copy)),
    }
}

fn refusal(sequence: &Sequence, port: &str, send: bool) -> String {
    match send {
        true => sequence.may_send(port, None).unwrap_err().to_string(),
        false => sequence.may_receive(port, None).unwrap_err().to_string(),
    }
}

#[test]
fn a_call_before_reuse_says_that_reuse_comes_first() {
    let sequence = Sequence::new(&spec(Kind::Submodel, 3, false, ALL));
    assert_eq!(
        refusal(&sequence, "state", true),
        "me: send on \"state\" (Oi) is out of order; expected reuse() first, which begins a pass"
    );
}

#[test]
fn a_send_before_the_initial_receive_names_the_port_that_is_due() {
    let sequence = running(3, false, ALL);
    assert_eq!(
        refusal(&sequence, "state", true),
        "me: send on \"state\" (Oi) is out of order; expected receive on \"initial\" (finit)"
    );
}

#[test]
fn a_second_send_in_one_iteration_names_the_receives_that_are_due() {
    let mut sequence = running(3, false, ALL);
    sequence.received("initial", None);
    sequence.sent("state", None);
    assert_eq!(
        refusal(&sequence, "state", true),
        "me: another send on \"state\" (Oi) is out of order; \
         expected receive on \"edge\" (B) and receive on \"left\" (S) in iteration 1 of 3"
    );
}

#[test]
fn stopping_early_is_refused_unless_the_model_says_until() {
    for until in [false, true] {
        let mut sequence = running(3, until, &ALL[1..]);
        assert_eq!(sequence.next_step().unwrap(), Some(0));
        sequence.sent("state", None);
        sequence.received("left", None);
        sequence.received("edge", None);
        match until {
            true => sequence.may_send("final", None).unwrap(),
            false => assert_eq!(
                refusal(&sequence, "final", true),
                "me: send on \"final\" (Of) is out of order; expected iteration 2 of 3 \
                 (if the program decides when to stop, the model says run:steps=\"until\")"
            ),
        }
    }
}

#[test]
fn steps_are_counted_up_to_the_number_in_the_model() {
    let mut sequence = running(2, false, &[]);
    assert_eq!(sequence.next_step().unwrap(), Some(0));
    assert_eq!(sequence.next_step().unwrap(), Some(1));
    assert!(sequence.is_last_iteration());
    assert_eq!(sequence.next_step().unwrap(), None);
    assert_eq!(sequence.next_step().unwrap(), None);
}

#[test]
fn steps_until_without_a_bound_never_end_by_themselves() {
    let mut sequence = running(0, true, &[]);
    for step in 0..1000 {
        assert_eq!(sequence.next_step().unwrap(), Some(step));
    }
}

#[test]
fn without_steps_a_complete_iteration_is_followed_by_the_next() {
    let mut sequence = running(2, false, &[ALL[1], ALL[2]]);
    for iteration in 0..2 {
        assert_eq!(sequence.iteration_of("state", None), iteration);
        sequence.may_send("state", None).unwrap();
        sequence.sent("state", None);
        assert_eq!(sequence.iteration_of("left", None), iteration);
        sequence.may_receive("left", None).unwrap();
        sequence.received("left", None);
    }
    assert!(sequence.may_send("state", None).is_err());
    sequence.may_leave().unwrap();
}

#[test]
fn an_unsent_final_port_is_refused_at_reuse_unless_it_is_skipped() {
    let mut sequence = running(1, false, &ALL[4..]);
    assert_eq!(
        sequence.may_reuse().unwrap_err().to_string(),
        "me: reuse() is out of order; expected send on \"final\" (Of), or skip"
    );
    sequence.skip("final").unwrap();
    sequence.may_reuse().unwrap();
}

#[test]
fn skipping_a_port_that_receives_is_an_error() {
    let mut sequence = running(1, false, ALL);
    assert!(matches!(sequence.skip("initial"), Err(Error::PortDirection { .. })));
}

#[test]
fn each_copy_has_its_turn_once() {
    let ports = [("scatter", Operator::Oi, 3, true), ("gather", Operator::S, 3, true)];
    let mut sequence = running(1, false, &ports);
    sequence.sent("scatter", Some(1));
    assert!(sequence.may_send("scatter", Some(1)).is_err());
    assert!(sequence.may_send("scatter", None).is_err(), "copy 1 would get it twice");
    assert_eq!(
        refusal(&sequence, "gather", false),
        "me: receive on \"gather\" (S) is out of order; \
         expected send on \"scatter\"[0] (Oi) and send on \"scatter\"[2] (Oi) in iteration 1 of 1"
    );
    sequence.sent("scatter", Some(0));
    sequence.skip("scatter").unwrap();
    for copy in [2, 0, 1] {
        sequence.may_receive("gather", Some(copy)).unwrap();
        sequence.received("gather", Some(copy));
    }
    sequence.may_leave().unwrap();
}

#[test]
fn a_port_that_has_ended_is_not_expected_and_the_loop_may_stop() {
    let mut sequence = running(10, false, &ALL[1..]);
    sequence.next_step().unwrap();
    sequence.sent("state", None);
    sequence.may_receive("left", None).unwrap();
    sequence.ended("left", None);
    sequence.may_receive("edge", None).unwrap();
    sequence.may_send("final", None).unwrap();
    sequence.received("edge", None);
    assert_eq!(sequence.next_step().unwrap(), Some(1));
    sequence.sent("state", None);
    sequence.received("edge", None);
    assert_eq!(sequence.next_step().unwrap(), Some(2));
}

#[test]
fn a_time_out_changes_nothing() {
    let sequence = running(1, false, &ALL[2..]);
    sequence.may_receive("left", None).unwrap();
    sequence.may_receive("left", None).unwrap();
}

#[test]
fn a_mapper_receives_everything_then_sends_everything() {
    let ports = [("a", Operator::Finit, 0, true), ("b", Operator::Finit, 2, true), ("sum", Operator::Of, 0, true)];
    let mut mapper = Sequence::new(&spec(Kind::Mapper, 1, false, &ports));
    mapper.begin_run();
    mapper.received("b", Some(1));
    assert_eq!(
        refusal(&mapper, "sum", true),
        "me: send on \"sum\" is out of order; expected receive on \"a\" and receive on \"b\"[0]"
    );
    mapper.received("a", None);
    mapper.received("b", Some(0));
    assert!(mapper.may_reuse().is_err());
    mapper.may_send("sum", None).unwrap();
    mapper.sent("sum", None);
    mapper.may_reuse().unwrap();
    assert!(mapper.next_step().is_err());
}

#[test]
fn free_order_checks_nothing() {
    let mut free = spec(Kind::Submodel, 2, false, ALL);
    free.check_order = false;
    let mut sequence = Sequence::new(&free);
    sequence.may_send("final", None).unwrap();
    sequence.sent("final", None);
    sequence.may_receive("initial", None).unwrap();
    assert_eq!(sequence.next_step().unwrap(), Some(0));
    sequence.may_leave().unwrap();
}

/// What the loop is, said a second time and differently: the calls of one run as sets that follow each other.
fn stages(ports: &[PortOf], iterations: u64, stepping: bool) -> Vec<Vec<Call>> {
    let of = |operators: &[Operator]| {
        let mut calls = Vec::new();
        for (name, operator, copies, coupled) in ports {
            if *coupled && operators.contains(operator) {
                match copies {
                    0 => calls.push(Call::Port(name, *operator, None)),
                    _ => calls.extend((0..*copies).map(|copy| Call::Port(name, *operator, Some(copy)))),
                }
            }
        }
        calls
    };
    let mut stages = vec![vec![Call::Reuse], of(&[Operator::Finit])];
    for _ in 0..iterations {
        if stepping {
            stages.push(vec![Call::Step]);
        }
        stages.push(of(&[Operator::Oi]));
        stages.push(of(&[Operator::S, Operator::B]));
    }
    stages.push(of(&[Operator::Of]));
    stages.retain(|stage| !stage.is_empty());
    stages
}

/// Whether a program is one of the legal ones: each stage's calls in any order, stage after stage.
fn is_legal(program: &[Call], ports: &[PortOf], steps: u64, stepping: bool) -> bool {
    let stages = stages(ports, steps, stepping);
    let mut rest = program;
    while rest != [Call::Leave] {
        for stage in &stages {
            if rest.len() < stage.len() {
                return false;
            }
            let (mut now, after) = (rest[..stage.len()].to_vec(), &rest[stage.len()..]);
            for call in stage {
                match now.iter().position(|other| other == call) {
                    Some(at) => now.swap_remove(at),
                    None => return false,
                };
            }
            rest = after;
        }
    }
    true
}

fn accepts(program: &[Call], ports: &[PortOf], steps: u64) -> bool {
    let mut sequence = Sequence::new(&spec(Kind::Submodel, steps, false, ports));
    program.iter().all(|call| perform(&mut sequence, call).is_ok())
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn some_ports() -> impl Strategy<Value = Vec<PortOf>> {
    let operator = prop_oneof![
        Just(Operator::Finit),
        Just(Operator::Oi),
        Just(Operator::S),
        Just(Operator::B),
        Just(Operator::Of)
    ];
    prop::collection::vec((operator, 0u32..3, prop::bool::weighted(0.85)), 0..6).prop_map(|ports| {
        ports.into_iter().zip(NAMES).map(|((o, copies, coupled), name)| (name, o, copies, coupled)).collect()
    })
}

/// A legal program: runs of stages, each shuffled by the given numbers.
fn legal(ports: &[PortOf], steps: u64, stepping: bool, runs: usize, order: &[Index]) -> Vec<Call> {
    let mut program = Vec::new();
    let mut draws = order.iter().cycle();
    for _ in 0..runs {
        for mut stage in stages(ports, steps, stepping) {
            while !stage.is_empty() {
                let at = draws.next().map_or(0, |draw| draw.index(stage.len()));
                program.push(stage.swap_remove(at));
            }
        }
    }
    program.push(Call::Leave);
    program
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_legal_program_passes(
        ports in some_ports(), steps in 1u64..4, stepping: bool, runs in 0usize..3,
        order in prop::collection::vec(any::<Index>(), 1..40),
    ) {
        let program = legal(&ports, steps, stepping, runs, &order);
        prop_assert!(is_legal(&program, &ports, steps, stepping));
        let mut sequence = Sequence::new(&spec(Kind::Submodel, steps, false, &ports));
        for call in &program {
            let outcome = perform(&mut sequence, call);
            prop_assert!(outcome.is_ok(), "{call:?} of {program:?}: {}", outcome.unwrap_err());
        }
    }

    #[test]
    fn every_single_change_that_breaks_the_order_is_caught(
        ports in some_ports(), steps in 1u64..4, stepping: bool, runs in 1usize..3,
        order in prop::collection::vec(any::<Index>(), 1..40),
        kind in 0..3, at: Index, other: Index,
    ) {
        let mut program = legal(&ports, steps, stepping, runs, &order);
        // Only calls on ports are changed: one more step, or reuse after leaving, is another program, not another order.
        let calls: Vec<usize> =
            (0..program.len()).filter(|&at| matches!(program[at], Call::Port(..))).collect();
        if calls.is_empty() {
            return Ok(());
        }
        let (at, other) = (calls[at.index(calls.len())], calls[other.index(calls.len())]);
        match kind {
            0 => { program.remove(at); }
            1 => { let call = program[at].clone(); program.insert(other, call); }
            _ => program.swap(at, other),
        }
        prop_assert_eq!(accepts(&program, &ports, steps), is_legal(&program, &ports, steps, stepping), "{:?}", program);
    }
}
