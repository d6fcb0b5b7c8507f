"""Outcomes: who is blocked and why, who leaves, what is left over, in values and in words."""

from __future__ import annotations

from small_models import model

from xmml.analysis.deadlock import MOST_TOLD, witness
from xmml.analysis.network import Network, network
from xmml.analysis.outcome import Outcome, outcome
from xmml.analysis.unrolling import unroll


def came_of(text: str) -> tuple[Network, Outcome]:
    net = network(model(text))
    return net, outcome(net, unroll(net).final)


def reasons(came: Outcome) -> dict[str, str]:
    return {each.name: each.reason for each in came.blocked}


def test_all_is_well_without_words() -> None:
    net, came = came_of("m 3\nu\nm.Oi -> u.finit\nu.Of -> m.S")
    assert came.finished
    assert witness(net, came) == ""


def test_a_cycle_is_told_member_by_member() -> None:
    net, came = came_of("a\nb 2\nc\na.Of.o -> b.finit.start\nb.Oi.o -> c.finit.i\nc.Of.o -> b.S.i\nb.Of.p -> c.finit.j")
    assert [[came.blocked[number].name for number in cycle] for cycle in came.cycles] == [["b", "c"]]
    assert witness(net, came).splitlines() == [
        "deadlock: 2 instances wait for each other: b, c",
        "  b, run 0, iteration 0, waits at S for a message on port i from c.o, which sends at Of "
        "and has sent 0 messages",
        "  c, run 0, waits at finit for a message on port j from b.p, which sends at Of and has sent 0 messages",
        "never started: c",
        "messages never taken: 1 on b.o -> c.i",
    ]


def test_who_waits_for_a_member_of_a_cycle_is_held_up() -> None:
    _, came = came_of("a\nb\nc\nd\na.Of -> b.S\nb.Of -> a.S\na.Of -> c.finit\nc.Of -> d.finit")
    assert reasons(came) == {"a": "cycle", "b": "cycle", "c": "blocked sender", "d": "blocked sender"}
    assert came.never_started == ("c", "d")


def test_who_waits_for_another_run_belongs_to_the_cycle_that_it_closes() -> None:
    _, came = came_of("m 3\nu\nm.Oi -> u.finit | drop 2\nu.Of -> m.S")
    assert reasons(came) == {"m": "cycle", "u": "cycle"}


def test_who_just_waits_for_the_end_is_not_blocked() -> None:
    _, came = came_of("a\nm 3\nu\nm.Oi -> u.finit\na.Of -> m.S")
    assert reasons(came) == {"m": "starvation"}
    assert not came.finished


def test_of_a_group_that_waits_for_each_other_a_shortest_cycle_is_told() -> None:
    _, came = came_of("a\nb\nc\na.Of -> b.S\nb.Of -> c.S\nc.Of -> a.S\nb.Of -> a.S")
    assert [[came.blocked[number].name for number in cycle] for cycle in came.cycles] == [["a", "b"]]
    assert set(reasons(came).values()) == {"cycle"}


def test_who_is_never_called_leaves_without_a_run() -> None:
    _, came = came_of("a\nb\nc\na.Of -> b.finit | null\nb.Of -> c.finit")
    assert came.finished
    assert came.never_started == ("b", "c")


def test_state_for_a_run_that_does_not_follow_is_not_left_over() -> None:
    _, came = came_of("m 2\nu\nm.Oi -> u.finit\nu.Of -> m.S\nu.Of.state -> u.finit.before state")
    assert came.finished
    assert came.unconsumed == {}


def test_what_an_endless_source_sends_is_not_left_over() -> None:
    _, came = came_of("t source repeat=yes\na 2\nb 5\nt.out -> a.S\nt.out -> b.S")
    assert came.finished
    assert came.unconsumed == {}


def test_an_endless_source_does_not_let_its_receiver_leave_when_other_callers_have() -> None:
    _, came = came_of("t source repeat=yes\na 2\nb\nt -> b.finit\na.Oi -> b.finit")
    assert not came.finished
    assert reasons(came) == {"b": "starvation"}


def test_a_mapper_leaves_when_one_of_its_senders_has() -> None:
    net, came = came_of("a 3\nb\nm mapper\nc\na.Oi -> m\nb.Of -> m\nm -> c.finit")
    assert came.finished
    assert [(each.name, each.run, each.leaves) for each in came.blocked] == [("m", 1, True)]
    assert "what the others sent is dropped" in witness(net, came)


def test_a_witness_of_many_stays_short() -> None:
    many = (
        "\n".join(f"i{n}" for n in range(100)) + "\n" + "\n".join(f"i{n}.Of -> i{(n + 1) % 100}.S" for n in range(100))
    )
    net, came = came_of(many)
    assert len(came.blocked) == 100
    words = witness(net, came)
    assert len(words.splitlines()) == MOST_TOLD + 2
    assert "and 80 more" in words


def test_a_chain_of_thousands_is_no_matter_of_depth() -> None:
    many = 2000
    text = "\n".join(f"i{n}" for n in range(many)) + "\n"
    text += "\n".join(f"i{n}.Of -> i{(n + 1) % many}.S" for n in range(many))
    _, came = came_of(text)
    assert len(came.cycles) == 1
    assert len(came.cycles[0]) == many
