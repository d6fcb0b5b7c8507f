"""Finding who waits for whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from xmml_executors.deadlock import Grow, WaitEdge, WaitKind, WaitReport, concerned, find_cycle, judge, witness
from xmml_planner import FIRST_OPENED, ConduitSpec
from xmml_planner.execution_plan import PoolSpec


def conduits(*pairs: tuple[str, str]) -> dict[int, ConduitSpec]:
    """Return conduits from port `o` to port `i`, numbered from 0."""
    return {
        number: ConduitSpec(number, f"{a}.o -> {b}.i", a, "o", b, "i", 4, 1 << 26)
        for number, (a, b) in enumerate(pairs)
    }


def waiting(name: str, conduit: int, kind: WaitKind = "receive", **counts: Mapping[int, int]) -> WaitReport:
    """Return the report of an instance that waits on one conduit."""
    return WaitReport(name, 1, ((conduit, kind),), counts.get("sent", {}), counts.get("received", {}))


def reports(*each: WaitReport) -> dict[str, WaitReport]:
    """Return reports by instance."""
    return {report.instance: report for report in each}


def test_two_that_wait_for_each_other_are_a_cycle() -> None:
    wires = conduits(("a", "b"), ("b", "a"))
    cycle = find_cycle(reports(waiting("a", 1), waiting("b", 0)), wires)
    assert cycle == (WaitEdge("a", "b", 1, "receive"), WaitEdge("b", "a", 0, "receive"))


def test_one_that_waits_for_itself_is_a_cycle() -> None:
    assert find_cycle(reports(waiting("a", 0)), conduits(("a", "a"))) == (WaitEdge("a", "a", 0, "receive"),)


def test_a_chain_into_a_cycle_does_not_hide_it() -> None:
    wires = conduits(("b", "a"), ("c", "b"), ("b", "c"))
    cycle = find_cycle(reports(waiting("a", 0), waiting("b", 1), waiting("c", 2)), wires)
    assert cycle is not None
    assert {link.waiter for link in cycle} == {"b", "c"}


def test_a_mapper_that_one_partner_may_yet_end_is_in_no_cycle() -> None:
    wires = conduits(("a", "m"), ("b", "m"), ("m", "a"), ("c", "b"))
    a, m = waiting("a", 2), WaitReport("m", 1, ((0, "receive"), (1, "receive")))
    assert find_cycle(reports(a, m), wires, {"m"}) is None
    assert find_cycle(reports(a, m, waiting("b", 3)), wires, {"m"}) is None
    assert find_cycle(reports(a, m), wires) is not None


def test_a_mapper_whose_partners_all_wait_for_it_is_in_a_cycle() -> None:
    wires = conduits(("a", "m"), ("b", "m"), ("m", "a"), ("m", "b"))
    mapper = WaitReport("m", 1, ((0, "receive"), (1, "receive")))
    told = reports(waiting("a", 2), waiting("b", 3), mapper)
    cycle = find_cycle(told, wires, {"m"})
    assert cycle == (WaitEdge("a", "m", 2, "receive"), WaitEdge("m", "a", 0, "receive"))
    assert concerned(cycle, told, wires, {"m"}) == {"a", "b", "m"}


def test_waiting_for_someone_who_computes_is_no_cycle() -> None:
    assert find_cycle(reports(waiting("a", 1)), conduits(("a", "b"), ("b", "a"))) is None


def test_a_message_on_its_way_is_no_cycle() -> None:
    wires = conduits(("a", "b"), ("b", "a"))
    sent = waiting("a", 1, sent={0: 5})
    assert find_cycle(reports(sent, waiting("b", 0, received={0: 4})), wires) is None
    assert find_cycle(reports(sent, waiting("b", 0, received={0: 5})), wires) is not None


def test_a_receipt_on_its_way_is_no_cycle() -> None:
    wires = conduits(("a", "b"), ("b", "a"))
    full = waiting("a", 0, "send", sent={0: 4})
    assert find_cycle(reports(full, waiting("b", 0, received={0: 4})), wires) is None


def test_one_that_waits_for_several_is_stuck_with_any_of_them() -> None:
    wires = conduits(("x", "a"), ("b", "a"), ("a", "b"))
    both = WaitReport("a", 1, ((0, "receive"), (1, "receive")))
    cycle = find_cycle(reports(both, waiting("b", 2)), wires)
    assert cycle is not None
    assert {link.waiter for link in cycle} == {"a", "b"}


def test_a_cycle_of_receives_is_a_deadlock() -> None:
    assert judge([WaitEdge("a", "b", 1, "receive"), WaitEdge("b", "a", 0, "receive")], {0: 4, 1: 4}) is None


def test_one_whose_reader_deals_with_an_object_waits_for_it_and_no_room_helps() -> None:
    wires = conduits(("a", "b"), ("a", "b"))
    leaves = waiting("a", 0, "settled", sent={0: 4})
    assert find_cycle(reports(leaves, waiting("b", 1, received={0: 4})), wires) is None
    told = reports(leaves, waiting("b", 1, received={0: 3}))
    cycle = find_cycle(told, wires)
    assert cycle is not None
    assert judge(cycle, {0: 4, 1: 4}) is None
    assert "a waits until b has dealt with its objects of o" in witness(cycle, told, wires)


def test_the_smallest_full_conduit_of_a_cycle_grows() -> None:
    cycle = [WaitEdge("a", "b", 0, "send"), WaitEdge("b", "c", 1, "send"), WaitEdge("c", "a", 2, "receive")]
    assert judge(cycle, {0: 16, 1: 4, 2: 1}) == Grow(1, 8)


def test_the_witness_says_who_waits_for_whom_at_which_port() -> None:
    wires = conduits(("a", "b"), ("b", "a"))
    told = reports(waiting("a", 1, received={1: 2}), waiting("b", 0, "send"))
    cycle = (WaitEdge("a", "b", 1, "receive"), WaitEdge("b", "a", 0, "send"))
    words = witness(cycle, told, wires)
    assert "a waits at i for message 3 of b.o" in words
    assert "b waits at o for room to send to a.i" in words


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=20), st.data())
def test_a_cycle_is_found_exactly_when_following_the_waits_never_ends(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Each instance waits for at most one other: then a cycle can also be found by walking."""
    wires = conduits(*((f"n{a}", f"n{b}") for a, b in pairs))
    told: dict[str, WaitReport] = {}
    for number, wire in wires.items():
        if wire.receiver not in told and data.draw(st.booleans()):
            told[wire.receiver] = waiting(wire.receiver, number)

    def walks_forever(name: str) -> bool:
        for _ in range(len(told) + 1):
            if name not in told:
                return False
            name = wires[told[name].waits[0][0]].sender
        return True

    cycle = find_cycle(told, wires)
    assert (cycle is not None) == any(walks_forever(name) for name in told)
    if cycle is not None:
        assert all(link.partner == cycle[(place + 1) % len(cycle)].waiter for place, link in enumerate(cycle))


def opened(sender: str, receiver: str) -> dict[int, ConduitSpec]:
    """Return a conduit that a handle has made."""
    (conduit,) = conduits((sender, receiver)).values()
    return {FIRST_OPENED: dataclasses.replace(conduit, id=FIRST_OPENED)}


def at_open_port(name: str, **counts: Mapping[int, int]) -> WaitReport:
    return waiting(name, 0, "holders", **counts)


def test_one_that_waits_for_a_holder_of_a_handle_is_stuck_only_with_all_the_others() -> None:
    wires = conduits(("b", "a"), ("b", "c"))
    one = reports(at_open_port("b"), waiting("a", 0))
    assert find_cycle(one, wires, staying=["a", "b", "c"]) is None, "c may have a handle"
    assert find_cycle(one, wires, staying=["a", "b"]) is not None, "c has left"
    both = reports(at_open_port("b"), waiting("a", 0), waiting("c", 1))
    cycle = find_cycle(both, wires, staying=["a", "b", "c"])
    assert cycle == (WaitEdge("a", "b", 0, "receive"), WaitEdge("b", "a", 0, "holders"))
    assert concerned(cycle, both, wires, staying=["a", "b", "c"]) == {"a", "b", "c"}
    assert judge(cycle, {}) is None
    assert "b waits at an open port for whoever has a handle of it; a sends nothing" in witness(cycle, both, wires)


def test_what_was_sent_by_a_handle_and_has_not_come_yet_releases_its_receiver() -> None:
    wires = {**conduits(("b", "a")), **opened("a", "b")}
    on_its_way = reports(at_open_port("b"), waiting("a", 0, sent={FIRST_OPENED: 1}))
    assert find_cycle(on_its_way, wires, staying=["a", "b"]) is None
    arrived = reports(at_open_port("b", received={FIRST_OPENED: 1}), waiting("a", 0, sent={FIRST_OPENED: 1}))
    assert find_cycle(arrived, wires, staying=["a", "b"]) is not None


def test_two_that_wait_for_holders_of_their_handles_wait_for_each_other() -> None:
    assert find_cycle(reports(at_open_port("a"), at_open_port("b")), {}, staying=["a", "b"]) is not None


def test_one_that_waits_for_the_newest_waits_for_a_newer_one_whatever_the_number() -> None:
    latest = dataclasses.replace(conduits(("a", "a"))[0], pool=PoolSpec("", is_latest=True))
    told = waiting("a", 0, sent={0: 3}, received={0: 3})
    cycle = find_cycle(reports(told), {0: latest})
    assert cycle is not None
    assert witness(cycle, reports(told), {0: latest}) == "a waits at i for a newer object of a.o"
