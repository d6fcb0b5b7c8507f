"""What follows from a model without walking through its steps: counts, conflicts, who starts."""

from __future__ import annotations

import pytest
from bounds import bounded_time
from small_models import model

from xmml.analysis.counts import Count
from xmml.analysis.network import network
from xmml.analysis.static import StaticAnalysis, static_analysis

INTERACT = "a 3 init\nb 3 init\na.Oi -> b.S\nb.Oi -> a.S"
CALL = "m 3\nu 2\nm.Oi -> u.finit\nu.Of -> m.S"
ISR = """
ic 1
smc 10000
bf 10000000
dd 10000
c2l mapper
flow mapper
ic.Of -> smc.finit
smc.Oi -> c2l
c2l -> flow
c2l -> dd.finit
flow -> bf.finit
bf.Of.s -> bf.finit.t state
bf.Of -> smc.S
dd.Of -> smc.B
"""


def static(text: str) -> StaticAnalysis:
    return static_analysis(network(model(text)))


def numbers(counts: dict[str, Count]) -> dict[str, int | None]:
    return {name: count.value for name, count in counts.items()}


# --- counts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("a 3", {"a": 1}),
        ("a 1\nb 1\na.Of -> b.finit", {"a": 1, "b": 1}),
        (CALL, {"m": 1, "u": 3}),
        ("m 2\ne 2\nu 2\nm.Oi -> e.finit\ne.Oi -> u.finit\nu.Of -> e.S\ne.Of -> m.S", {"m": 1, "e": 2, "u": 4}),
        ("a 2\nm mapper\nb 1\na.Oi -> m\nm -> b.finit", {"a": 1, "m": 2, "b": 2}),
        ("a 2\nm mapper\nc 1\na.Oi -> m.x\nc.Of -> m.y", {"a": 1, "m": 1, "c": 1}),
        ("a 6\nb 1\na.Oi -> b.finit | drop 4", {"a": 1, "b": 2}),
        ("a 6\nb 1\na.Oi -> b.finit | last", {"a": 1, "b": 1}),
        ("a 6\nb 1\na.Oi -> b.finit | lineartimeinterpolation 3", {"a": 1, "b": 16}),
        ("a 6\nb 1\na.Oi -> b.finit | null", {"a": 1, "b": 0}),
        ("u 3\nu.Of.s -> u.finit.t state", {"u": 1}),
        ("m 2\nthere mapper\nback mapper\nw 1 x5\nm.Oi -> there\nthere -> w.finit\nw.Of -> back\nback -> m.S",
         {"m": 1, "there": 2, "back": 2, "w": 10}),
        ("s source\nb 1\ns -> b.finit", {"s": 1, "b": 1}),
        ("s source repeat=yes\nb 7\ns -> b.S", {"s": 7, "b": 1}),
        ("s source repeat=yes\nb 7\ns -> b.S | sum 3", {"s": 21, "b": 1}),
    ],
)  # fmt: skip
def test_an_instance_runs_as_often_as_it_is_called(text: str, runs: dict[str, int]) -> None:
    assert numbers(static(text).runs) == runs


def test_messages_are_counted_before_and_after_the_filters_and_as_they_are_taken() -> None:
    found = static("a 7\nb 2\na.Oi -> b.S | sum 2")
    assert [str(each) for each in (*found.sent, *found.delivered, *found.received)] == ["7", "3", "2"]
    assert found.unconsumed == (1,)


def test_all_copies_are_counted_together() -> None:
    found = static("m 2\nt mapper\nw 1 x5\nm.Oi -> t\nt -> w.finit")
    assert [each.value for each in found.sent] == [2, 10]


def test_the_state_left_for_a_run_that_does_not_follow_is_not_unconsumed() -> None:
    found = static("m 4\nu 1\nm.Oi -> u.finit\nu.Of.s -> u.finit.t state\nu.Of -> m.S")
    assert (found.sent[1].value, found.received[1].value, found.unconsumed) == (4, 3, (0, 0, 0))


def test_a_program_that_decides_when_to_stop_gives_bounds() -> None:
    found = static("a 10 until\nb 1\na.Oi -> b.finit\nb.Of -> a.S")
    assert [str(found.runs["b"]), str(found.steps["a"]), str(found.received[1])] == ["at most 10"] * 3
    assert found.conflicts == ()
    assert not found.is_conclusive


def test_a_program_that_decides_without_a_bound_leaves_the_numbers_open() -> None:
    found = static("a until\nb 1\na.Oi -> b.finit")
    assert str(found.runs["b"]) == "unknown"
    assert found.sent == (Count(None),)


def test_what_a_filter_of_the_users_own_lets_through_is_a_bound() -> None:
    assert static("a 6\nb 1\na.Oi -> b.finit | reduction 2").runs["b"] == Count(3, at_most=True)


def test_a_source_of_unknown_length_leaves_the_numbers_open() -> None:
    net = network(model("s source\nb 3\ns -> b.S"))
    assert static_analysis(net, uncertain={"s"}).conflicts == ()


def test_numbers_too_large_to_be_lived_through_are_unknown() -> None:
    text = "".join(f"i{level} 1000000000\n" for level in range(40))
    text += "".join(f"i{level}.Oi -> i{level + 1}.finit\n" for level in range(39))
    runs = static(text).runs
    assert runs["i2"].value == 10**18
    assert runs["i39"] == Count(None)


@pytest.mark.parametrize(
    "text",
    [
        "m 1000000000\nu 1000000\nm.Oi -> u.finit\nu.Of -> m.S",
        "c 1000000000\nf 3000000000\nc.Oi -> f.S | repeat 3\nf.Oi -> c.S | sum 3",
        "c 1000000000\nf 3000000000\nc.Oi -> f.S | repeat 3\nf.Oi -> c.S | sum 4",
        "a 1000000000\nb 1000000000\na.Oi -> b.finit | last | drop 2 | last",
    ],
)
def test_a_billion_steps_are_not_made_one_by_one(text: str) -> None:
    with bounded_time():
        static_analysis(network(model(text)))


# --- conflicts --------------------------------------------------------------------------------------------------------

WITHOUT_CONFLICT = [
    INTERACT,
    CALL,
    ISR,
    "a 3\nb 3 init\na.Oi -> b.S",
    "a 2\na.Oi -> a.S",
    "a 1\nb 1\na.Of -> b.S",
    "a 2\nb 2\na.Oi -> b.S\na.Oi -> b.B",
    "i 1\nm 2\nu 1\ni.Of -> m.finit\nm.Oi -> u.finit\nu.Of -> m.S",
    "m 3\nu 2\nv 2\nm.Oi -> u.finit\nm.Oi -> v.finit\nu.Oi -> v.S\nv.Oi -> u.S\nu.Of -> m.S",
    "a 3\nb 3\nm mapper\nn mapper\na.Oi -> m\nm -> b.S\nb.Oi -> n\nn -> a.S",
    "m 4\nu 1 stateful\nm.Oi -> u.finit\nu.Of.s -> u.finit.t state\nu.Of -> m.S",
    "m 2\nthere mapper\nback mapper\nw 1 x5\nm.Oi -> there\nthere -> w.finit\nw.Of -> back\nback -> m.S",
    # filters between loops of different lengths, for which there is a timetable
    "c 10\nf 30\nc.Oi -> f.S | repeat 3\nf.Oi -> c.S | sum 3",
    "c 10\nf 28\nc.Oi -> f.S | lineartimeinterpolation 3\nf.Oi -> c.S | drop 3",
    "c 1000000000\nf 4000000000\nc.Oi -> f.S | extrapolate 4\nf.Oi -> c.S | mean 4",
    "c 6\nf 24\nj 1\nc.Oi -> j.finit | repeat 4\nf.Oi -> j.finit\nj.Of -> f.S\nj.Of -> c.S | sum 4",
    "m 3\nu 4\nm.Oi -> u.finit\nu.Oi -> m.S | last",
]


@pytest.mark.parametrize("text", WITHOUT_CONFLICT)
def test_a_model_that_finishes_is_known_to(text: str) -> None:
    found = static(text)
    assert found.conflicts == ()
    assert found.is_conclusive


@pytest.mark.parametrize(
    ("text", "kind", "instances", "couplings"),
    [
        ("a 2 init\nb 3 init\na.Oi -> b.S\nb.Oi -> a.S", "rate", {"a", "b"}, (0,)),
        ("a 1 init\nb 1\na.Of -> b.finit\nb.Of -> a.finit", "deadlock", {"a", "b"}, (0, 1)),
        ("a 1 init\nb 1 init\na.Of -> b.S\nb.Of -> a.S", "deadlock", {"a", "b"}, (0, 1)),
        ("a 2\nc 1\nb 1\na.Oi -> c.finit.i\nb.Of -> c.finit.j", "rate", {"a", "b", "c"}, (1, 0)),
        ("a 1\nb 2 init\na.Of -> b.S", "rate", {"a", "b"}, (0,)),
        ("a 1\na.Of -> a.finit", "deadlock", {"a"}, (0,)),
        ("a 2\na.Oi -> a.S | last", "deadlock", {"a"}, (0,)),
        ("m mapper\nn mapper\nm -> n\nn -> m", "deadlock", {"m", "n"}, (0, 1)),
        ("s source repeat=yes\nb 1\ns -> b.finit", "rate", {"s", "b"}, (0,)),
        ("m 4\nu 1\nm.Oi -> u.finit\nu.Of.s -> u.finit.t state | drop 2\nu.Of -> m.S", "rate", {"u"}, (1,)),
        # loops of different lengths, and filters that hold back the message that is needed
        ("i 2\np 2\nj 2\ni.Oi -> p.S\np.Oi -> j.S\nj.Of -> i.finit", "deadlock", {"i", "p", "j"}, (2, 1, 0)),
        (
            "i 2\np 2\nj 2\nu 2\ni.Oi -> p.S\np.Oi -> j.S\nj.Of -> u.finit\nu.Of -> i.finit",
            "deadlock",
            {"i", "p", "j", "u"},
            (0, 1, 2, 3),
        ),
        (
            "c 10\nf 28\nc.Oi -> f.S | lineartimeinterpolation 3\nf.Oi -> c.S | mean 3 | repeat 2",
            "deadlock",
            {"c", "f"},
            (1, 0),
        ),
        (
            "c 1000000000\nf 4000000000\nc.Oi -> f.S | repeat 4\nf.Oi -> c.S | sum 8 | repeat 2",
            "deadlock",
            {"c", "f"},
            (1, 0),
        ),
    ],
)
def test_a_model_that_cannot_finish_is_told_with_who_and_where(
    text: str, kind: str, instances: set[str], couplings: tuple[int, ...]
) -> None:
    (conflict,) = static(text).conflicts
    assert conflict.kind == kind
    assert set(conflict.instances) == instances
    assert sorted(conflict.couplings) == sorted(couplings)
    assert conflict.help


def test_who_leaves_frees_those_that_wait_for_it() -> None:
    found = static("b 1\nc 1\nm mapper\nm -> b.finit\nb.Of -> m.x\nc.Of -> m.y | null")
    assert found.conflicts == ()
    assert numbers(found.runs) == {"b": 0, "c": 1, "m": 0}


def test_a_submodel_leaves_only_when_all_that_call_it_have_left() -> None:
    (conflict,) = static("a 2\nb 1\na.Of -> b.finit\nb.Of -> a.finit\nc 1\nc.Of -> a.finit | null").conflicts
    assert set(conflict.instances) == {"a", "b"}


def test_one_cause_is_told_once() -> None:
    text = "a 1\nb 1\nc 4\nd 4\na.Of -> b.finit\nb.Of -> a.finit\nb.Of -> c.finit\nc.Oi -> d.S\nd.Oi -> c.S"
    assert [conflict.kind for conflict in static(text).conflicts] == ["deadlock"]


def test_a_rate_conflict_says_how_the_numbers_come_about() -> None:
    (conflict,) = static("a 2\nb 6\na.Oi -> b.S").conflicts
    assert conflict.words == (
        '"b" waits for messages that never come: b.S takes 6 (6 steps), but gets 2 from a.Oi (2 steps)'
    )
    assert "factor 3" in conflict.help


def test_a_deadlock_says_who_waits_for_whom_at_which_operator() -> None:
    (conflict,) = static("a 1 init\nb 1\na.Of -> b.finit\nb.Of -> a.S").conflicts
    assert "b.finit waits before its run (finit) for a.Of, sent at the end of its run (Of)" in conflict.words
    assert "a.S waits in its first step (S) for b.Of, sent at the end of its run (Of)" in conflict.words


def test_a_program_that_keeps_no_order_is_not_judged() -> None:
    text = "a 1 init\nb 1 init\na.Of -> b.S\nb.Of -> a.S"
    one = model(text)
    object.__setattr__(one.instances["a"], "check_order", False)
    assert static_analysis(network(one)).conflicts == ()


# --- start ------------------------------------------------------------------------------------------------------------


def test_who_is_not_called_starts() -> None:
    assert static(ISR).initial == ("ic",)
    assert static(INTERACT).initial == ("a", "b")


def test_who_is_called_only_by_itself_never_starts() -> None:
    found = static("a 1\nb 1\nc 1\na.Of -> b.finit\nb.Of -> a.finit\nb.Of -> c.finit")
    assert found.never_start == ("a", "b", "c")


# --- size -------------------------------------------------------------------------------------------------------------


def test_a_thousand_instances_with_ten_thousand_couplings_are_analysed() -> None:
    text = "".join(f"i{number} 1000 init\n" for number in range(1000))
    text += "".join(
        f"i{number}.Oi -> i{(number + step) % 1000}.S\n"
        for number in range(1000)
        for step in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
    )
    with bounded_time():
        found = static_analysis(network(model(text)))
    assert found.is_conclusive
