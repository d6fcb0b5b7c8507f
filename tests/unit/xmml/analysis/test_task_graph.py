"""Task graphs of small models: what was published for them, node by node."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from small_models import model

from xmml.analysis.deadlock import witness
from xmml.analysis.network import network
from xmml.analysis.outcome import Outcome, outcome
from xmml.analysis.task_graph import TaskGraph
from xmml.analysis.unrolling import Start, unroll


@dataclass(frozen=True)
class Unrolled:
    """A task graph by the labels of its nodes."""

    graph: TaskGraph
    outcome: Outcome
    words: str

    @property
    def nodes(self) -> set[str]:
        return {self.graph.label(node) for node in range(len(self.graph))}

    def edges(self, *kinds: str) -> set[str]:
        label = self.graph.label
        return {
            f"{label(one)} -> {label(other)}"
            for one, other, kind, _ in self.graph.edges()
            if not kinds or kind in kinds
        }

    def count(self) -> tuple[int, int, int, int]:
        """Nodes, messages, steps, states."""
        graph = self.graph
        return len(graph), len(graph.message_from), len(graph.step_from), len(graph.state_from)

    @property
    def starts(self) -> set[str]:
        return {self.graph.label(node) for node in self.graph.starts}

    @property
    def ends(self) -> set[str]:
        return {self.graph.label(node) for node in self.graph.ends}

    @property
    def blocked(self) -> set[str]:
        return {self.graph.blocked_label(task) for task in self.graph.blocked}

    @property
    def unconsumed(self) -> dict[str, int]:
        channels = self.graph.network.channels
        return {channels[channel].name: number for channel, number in self.outcome.unconsumed.items()}

    @property
    def cycles(self) -> list[set[str]]:
        return [{self.outcome.blocked[number].name for number in cycle} for cycle in self.outcome.cycles]


def unrolled(text: str, *, start: Start = "spontaneous", collapse: bool = True, **options: int) -> Unrolled:
    net = network(model(text))
    made = unroll(net, start=start, collapse=collapse, **options)
    assert not made.truncated
    came = outcome(net, made.final)
    order = {node: place for place, node in enumerate(made.task_graph.order)}
    assert len(order) == len(made.task_graph)
    assert all(order[one] < order[other] for one, other, _, _ in made.task_graph.edges()), "the order is topological"
    return Unrolled(made.task_graph, came, witness(net, came))


def test_an_instance_without_ports_is_one_node() -> None:
    a = unrolled("a 3")
    assert a.nodes == a.starts == a.ends == {"a"}
    assert a.count() == (1, 0, 0, 0)
    assert a.outcome.finished


def test_a_dispatch_is_one_edge() -> None:
    chain = unrolled("a\nb\na.Of -> b.finit")
    assert chain.edges() == {"a -> b"}
    assert (chain.starts, chain.ends) == ({"a"}, {"b"})


INTERACT = "a 3{0}\nb 3{1}\na.Oi -> b.S\nb.Oi -> a.S"


@pytest.mark.parametrize("start", ["spontaneous", "external"])
def test_interacting_instances_that_both_start_go_in_step(start: Start) -> None:
    pair = unrolled(INTERACT.format(" init", " init"), start=start)
    assert pair.nodes == {
        f"{name}({part})" for name in "ab" for part in ("0,finit-Oi", "0-1,S-Oi", "1-2,S-Oi", "2,S-Of")
    }
    assert pair.count() == (8, 6, 6, 0)
    assert pair.edges("message") >= {"a(0,finit-Oi) -> b(0-1,S-Oi)", "b(1-2,S-Oi) -> a(2,S-Of)"}
    assert pair.starts == {"a(0,finit-Oi)", "b(0,finit-Oi)"}
    assert pair.ends == {"a(2,S-Of)", "b(2,S-Of)"}
    assert pair.outcome.finished


def test_an_externally_initialised_partner_takes_turns_with_the_one_that_starts() -> None:
    pair = unrolled(INTERACT.format(" init", ""), start="external")
    chain = ["a(0,finit-Oi)", "b(0,finit-Oi)", "a(0-1,S-Oi)", "b(0-1,S-Oi)", "a(1-2,S-Oi)", "b(1-2,S-Oi)", "a(2,S-Of)"]
    assert pair.edges("message") == {f"{one} -> {other}" for one, other in itertools.pairwise(chain)}
    assert pair.edges("step") >= {"b(1-2,S-Oi) -> b(2,S-Of)"}
    assert not any(edge.endswith("-> b(2,S-Of)") for edge in pair.edges("message"))
    assert pair.count() == (8, 6, 6, 0)
    assert (pair.starts, pair.ends) == ({"a(0,finit-Oi)"}, {"a(2,S-Of)", "b(2,S-Of)"})
    assert pair.outcome.finished


def test_nothing_starts_if_everybody_waits_to_be_initialised() -> None:
    pair = unrolled(INTERACT.format("", ""), start="external")
    assert pair.nodes == set()
    assert not pair.outcome.finished
    assert "there is no initial submodel" in pair.words


def test_spontaneously_interacting_instances_need_no_mark_to_start() -> None:
    pair = unrolled(INTERACT.format("", ""))
    assert pair.count() == (8, 6, 6, 0)
    assert pair.outcome.finished


CALL = "m 3 init\nu{0}\nm.Oi -> u.finit\nu.Of -> m.{1}"
CALL_CHAIN = ["m(0,finit-Oi)", "u", "m(0-1,S-Oi)", "u[1]", "m(1-2,S-Oi)", "u[2]", "m(2,S-Of)"]


@pytest.mark.parametrize("start", ["spontaneous", "external"])
def test_call_and_release_alternate(start: Start) -> None:
    call = unrolled(CALL.format("", "S"), start=start)
    assert call.edges("message") == {f"{one} -> {other}" for one, other in itertools.pairwise(CALL_CHAIN)}
    assert call.count() == (7, 6, 3, 0)
    assert (call.starts, call.ends) == ({"m(0,finit-Oi)"}, {"m(2,S-Of)"})
    assert call.outcome.finished


def test_a_stateful_micro_hands_its_state_to_its_next_run() -> None:
    call = unrolled(CALL.format(" stateful", "S"))
    assert call.edges("state") == {"u -> u[1]", "u[1] -> u[2]"}
    assert call.count() == (7, 6, 3, 2)


def test_state_through_ports_is_the_same_and_not_needed_for_the_first_run() -> None:
    call = unrolled(CALL.format("", "S") + "\nu.Of.state -> u.finit.before state")
    assert call.edges("state") == {"u -> u[1]", "u[1] -> u[2]"}
    assert call.count() == (7, 6, 3, 2)
    assert call.outcome.finished
    assert call.unconsumed == {}


def test_a_release_into_b_gives_the_same_nodes_as_into_s() -> None:
    assert unrolled(CALL.format("", "B")).nodes == set(CALL_CHAIN)


def test_an_instance_with_more_steps_than_its_partner_is_starved() -> None:
    pair = unrolled("a 2\nb 3\na.Oi.o -> b.S.i\nb.Oi.o -> a.S.i")
    assert pair.blocked == {"Deadlock[b(2,S)]"}
    assert pair.unconsumed == {"b.o -> a.i": 1}
    assert pair.outcome.starved == (0,)
    assert pair.outcome.cycles == ()
    assert not pair.outcome.finished
    assert (
        "b, run 0, iteration 2, waits at S for a message on port i from a.o, which sent 2 messages and has left"
        in pair.words
    )


@pytest.mark.parametrize("mark", ["", " init"])
@pytest.mark.parametrize("start", ["spontaneous", "external"])
def test_dispatch_both_ways_is_a_deadlock_even_with_init(mark: str, start: Start) -> None:
    pair = unrolled(f"a{mark}\nb{mark}\na.Of -> b.finit\nb.Of -> a.finit", start=start)
    assert pair.nodes == set()
    assert pair.blocked == {"Deadlock[a(0,finit)]", "Deadlock[b(0,finit)]"}
    assert pair.cycles == [{"a", "b"}]


def test_waiting_at_s_for_what_the_partner_sends_at_its_end_is_a_deadlock() -> None:
    pair = unrolled("a init\nb init\na.Of -> b.S\nb.Of -> a.S")
    assert pair.blocked == {"Deadlock[a(0,S)]", "Deadlock[b(0,S)]"}
    assert pair.cycles == [{"a", "b"}]
    assert pair.words.startswith("deadlock: 2 instances wait for each other: a, b\n")


def test_a_sender_may_run_ahead_of_its_receiver() -> None:
    pair = unrolled("a 3\nb 3 init\na.Oi -> b.S")
    assert pair.nodes == {"a(0,finit-Oi)", "a(0-1,S-Oi)", "a(1-2,S-Oi)", "a(2,S-Of)", "b"}
    assert pair.edges("message") == {"a(0,finit-Oi) -> b", "a(0-1,S-Oi) -> b", "a(1-2,S-Oi) -> b"}
    assert pair.outcome.finished


def test_runs_of_a_called_pipeline_keep_their_numbers() -> None:
    pipe = unrolled("a 3\nd\ne\na.Oi -> d.finit\nd.Of -> e.finit")
    assert {"d", "d[1]", "d[2]", "e", "e[1]", "e[2]"} <= pipe.nodes
    assert {"d -> e", "d[1] -> e[1]", "d[2] -> e[2]"} <= pipe.edges("message")


def test_every_run_of_a_called_instance_that_tells_nobody_is_an_end() -> None:
    calls = unrolled("a 3\nd\na.Oi -> d.finit")
    assert calls.ends == {"a(2,S-Of)", "d", "d[1]", "d[2]"}


def test_a_fan_in_mapper_joins_two_dispatches() -> None:
    joined = unrolled("a\nb\nm mapper\nc\na.Of -> m\nb.Of -> m\nm -> c.finit")
    assert joined.edges() == {"a -> m", "b -> m", "m -> c"}


def test_a_fan_out_mapper_fires_once_for_every_message() -> None:
    spread = unrolled("a 2\nm mapper\nb\nc\na.Oi -> m\nm -> b.finit\nm -> c.finit")
    assert {"m", "m[1]", "b", "b[1]", "c", "c[1]"} <= spread.nodes
    assert {"m -> b", "m -> c", "m[1] -> b[1]", "m[1] -> c[1]"} <= spread.edges()


def test_messages_for_s_and_b_of_a_silent_receiver_lead_to_one_node() -> None:
    pair = unrolled("a 2\nb 2 init\na.Oi.x -> b.S\na.Oi.y -> b.B")
    assert "b" in pair.nodes
    assert [pair.graph.label(node) for node in pair.graph.message_to] == ["b"] * 4


def test_a_first_state_is_dispatched_before_call_and_release() -> None:
    chain = unrolled("i\nm 2\nu\ni.Of -> m.finit\nm.Oi -> u.finit\nu.Of -> m.S")
    labels = ["i", "m(0,finit-Oi)", "u", "m(0-1,S-Oi)", "u[1]", "m(1,S-Of)"]
    assert chain.edges("message") == {f"{one} -> {other}" for one, other in itertools.pairwise(labels)}


def test_a_call_through_a_chain_of_micros_keeps_its_runs_apart() -> None:
    chain = unrolled("m 2\nu\nv\nm.Oi -> u.finit\nu.Of -> v.finit\nv.Of -> m.S")
    assert {"u -> v", "v -> m(0-1,S-Oi)", "u[1] -> v[1]", "v[1] -> m(1,S-Of)"} <= chain.edges("message")


def test_a_run_for_which_only_one_of_two_messages_came_is_blocked() -> None:
    two = unrolled("a 2\nb\nc\na.Oi.o -> c.finit.i\nb.Of.o -> c.finit.j")
    assert two.blocked == {"Deadlock[c[1](0,finit)]"}
    assert two.unconsumed == {"a.o -> c.i": 1}
    assert "c, run 1, waits at finit for a message on port j from b.o, which sent 1 message and has left" in two.words


def test_a_mapper_that_lacks_one_of_its_messages_does_not_fire() -> None:
    two = unrolled("a 2\nb\nm mapper\nk\na.Oi -> m\nb.Of -> m\nm -> k.finit")
    assert two.blocked == {"Deadlock[m[1]]"}
    assert two.unconsumed == {"a.Oi -> m.in": 1}
    assert two.outcome.finished, "at run time such a mapper leaves"
    assert "m, firing 1, waits for a message on port in2 from b.Of" in two.words


def test_one_dispatch_feeds_one_step_only() -> None:
    two = unrolled("a\nb 2 init\na.Of -> b.S")
    assert two.blocked == {"Deadlock[b(1,S)]"}
    one = unrolled("a\nb 1 init\na.Of -> b.S")
    assert one.blocked == set()
    assert one.outcome.finished


def test_an_instance_may_send_to_itself_for_the_same_step() -> None:
    own = unrolled("a 2\na.Oi -> a.S")
    assert own.edges("message") == {"a(0,finit-Oi) -> a(0-1,S-Oi)", "a(0-1,S-Oi) -> a(1,S-Of)"}
    assert own.outcome.finished


def test_an_instance_that_waits_for_its_own_end_to_begin_is_blocked() -> None:
    own = unrolled("a\na.Of.o -> a.finit.i")
    assert own.blocked == {"Deadlock[a(0,finit)]"}
    assert own.cycles == [{"a"}]
    assert own.words.startswith("deadlock: a waits for itself")


def test_call_and_release_nest() -> None:
    nest = unrolled("m 2\ne 2\nu\nm.Oi -> e.finit\ne.Of -> m.S\ne.Oi -> u.finit\nu.Of -> e.S")
    assert len(nest.nodes) == 13
    assert {"u", "u[1]", "u[2]", "u[3]", "e(0,finit-Oi)", "e[1](0,finit-Oi)"} <= nest.nodes
    assert not any(label.startswith(("e[2]", "u[4]")) for label in nest.nodes)


def test_two_called_micros_that_interact_go_on() -> None:
    both = unrolled("m 2\nu 2\nv 2\nm.Oi -> u.finit\nm.Oi -> v.finit\nu.Oi -> v.S\nv.Oi -> u.S\nu.Of -> m.S")
    assert len(both.graph) == 15
    assert both.outcome.finished


def test_interaction_through_two_mappers_goes_on() -> None:
    through = unrolled("a 2\nb 2\nm mapper\nn mapper\na.Oi -> m\nm -> b.S\nb.Oi -> n\nn -> a.S")
    assert through.outcome.finished
    assert {"m", "m[1]", "n", "n[1]"} <= through.nodes


def restenosis(steps: int) -> str:
    """In-stent restenosis: tissue, blood flow and drug diffusion, with their mappers and the first state."""
    return f"""
        ic
        smc {steps}
        bf 10000000 stateful
        dd
        agents2lattice mapper
        bf2agents mapper
        dd2agents mapper
        ic.Of -> smc.finit
        smc.Oi -> agents2lattice
        agents2lattice.lattice -> bf.finit
        agents2lattice.lattice -> dd.finit
        agents2lattice.cells -> bf2agents.cells
        agents2lattice.cells -> dd2agents.cells
        bf.Of -> bf2agents
        dd.Of -> dd2agents
        bf2agents -> smc.S
        dd2agents -> smc.S
    """


def test_in_stent_restenosis_with_three_steps() -> None:
    isr = unrolled(restenosis(3))
    assert isr.count() == (20, 1 + 9 * 3, 3, 2)
    assert isr.graph.edge_count == 33
    assert (isr.starts, isr.ends) == ({"ic"}, {"smc(2,S-Of)"})
    assert isr.outcome.finished


def test_in_stent_restenosis_with_ten_thousand_steps() -> None:
    isr = unrolled(restenosis(10_000))
    assert len(isr.graph) == 60_002
    assert isr.graph.edge_count == 110_000
    assert isr.outcome.finished


def test_canals_that_are_initialised_by_their_first_messages() -> None:
    ends = "".join(
        f"c{n} 3 init\ne{n} 3\nc{n}.Oi.left -> e{n}.S\ne{n}.Oi -> c{n}.S.left_in\n"
        f"c{n}.Oi.right -> j.S.in{n}\nj.Oi.out{n} -> c{n}.S.right_in\n"
        for n in (1, 2, 3)
    )
    canal = unrolled(f"j 3\n{ends}", start="external")
    assert canal.count() == (28, 12 * 3, 7 * 3, 0)
    assert canal.graph.edge_count == 57
    assert canal.starts == {f"c{n}(0,finit-Oi)" for n in (1, 2, 3)}
    assert canal.outcome.finished
