"""Which cores processes get, on made-up machines."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from xmml_executors.binding.assignment import Demand, assign
from xmml_executors.binding.topology import Core


def machine(nodes: int, caches: int, cores: int, threads: int = 1) -> list[Core]:
    """Return the cores of a machine whose nodes are alike. CPUs are numbered as on x86: first one of each core."""
    total = nodes * caches * cores
    return [
        Core(
            cpus := tuple(number + total * thread for thread in range(threads)), cpus, number // (caches * cores), cache
        )
        for number in range(total)
        for cache in [number // cores * cores]
    ]


def cpus(found: dict[str, tuple[Core, ...]] | None) -> dict[str, list[int]]:
    """Return the CPUs of each process."""
    assert found is not None
    return {name: sorted(cpu for core in own for cpu in core.cpus) for name, own in found.items()}


def test_each_process_has_a_physical_core() -> None:
    found = assign(machine(1, 1, 2, threads=2), [Demand("a"), Demand("b")], {})
    assert cpus(found) == {"a": [0, 2], "b": [1, 3]}


def test_a_process_has_as_many_cores_as_it_says() -> None:
    found = assign(machine(1, 1, 8), [Demand("a", 4), Demand("b", 2)], {})
    assert cpus(found) == {"a": [0, 1, 2, 3], "b": [4, 5]}


def test_who_does_not_say_how_many_shares_the_spare_ones() -> None:
    found = assign(machine(1, 1, 8), [Demand("a", grows=True), Demand("b", 2), Demand("c", grows=True)], {})
    assert {name: len(own) for name, own in cpus(found).items()} == {"a": 3, "b": 2, "c": 3}


def test_too_few_cores_bind_nothing() -> None:
    assert assign(machine(1, 1, 2), [Demand("a"), Demand("b"), Demand("c")], {}) is None


def test_a_coupled_pair_is_on_one_node() -> None:
    found = assign(machine(2, 1, 4), [Demand("a"), Demand("x", 3), Demand("b")], {("a", "b"): 2})
    nodes = {name: {core.node for core in own} for name, own in (found or {}).items()}
    assert nodes["a"] == nodes["b"] != nodes["x"]


def test_a_coupled_pair_shares_a_cache() -> None:
    found = assign(machine(1, 4, 2), [Demand("a"), Demand("x"), Demand("y"), Demand("b")], {("a", "b"): 1})
    caches = {name: own[0].cache for name, own in (found or {}).items()}
    assert caches["a"] == caches["b"]
    assert caches["a"] not in (caches["x"], caches["y"])


def test_pairs_that_are_not_coupled_have_nodes_of_their_own() -> None:
    names = ["a", "b", "c", "d"]
    found = assign(machine(2, 1, 8), [Demand(name) for name in names], {("a", "c"): 1, ("b", "d"): 1})
    nodes = {name: own[0].node for name, own in (found or {}).items()}
    assert nodes["a"] == nodes["c"] != nodes["b"] == nodes["d"]


def test_the_heaviest_tie_is_kept_on_a_node_when_not_all_fit() -> None:
    ties = {("a", "b"): 1, ("b", "c"): 9, ("a", "d"): 9}
    found = assign(machine(2, 1, 2), [Demand(name) for name in "abcd"], ties)
    nodes = {name: own[0].node for name, own in (found or {}).items()}
    assert nodes["a"] == nodes["d"]
    assert nodes["b"] == nodes["c"]


def test_who_does_not_say_how_many_stays_on_its_node() -> None:
    found = assign(machine(2, 2, 4), [Demand("a", grows=True), Demand("b", grows=True)], {("a", "b"): 1})
    assert {len(own) for own in cpus(found).values()} == {4}
    assert {core.node for own in (found or {}).values() for core in own} == {0}


def test_a_process_larger_than_a_node_has_cores_of_several() -> None:
    found = assign(machine(2, 1, 4), [Demand("a", 6)], {})
    assert len(cpus(found)["a"]) == 6


def test_processes_with_the_same_list_divide_it() -> None:
    listed = (2, 3, 6, 7)
    found = assign(machine(1, 1, 8), [Demand("a", cpus=listed), Demand("b", cpus=listed)], {})
    assert sorted(chain(*cpus(found).values())) == list(listed)
    assert {len(own) for own in cpus(found).values()} == {2}


def test_a_list_of_one_process_is_all_its_own() -> None:
    assert cpus(assign(machine(2, 1, 2), [Demand("a", cpus=(1, 2))], {})) == {"a": [1, 2]}


def test_others_keep_off_a_list() -> None:
    found = assign(machine(1, 1, 4), [Demand("a", grows=True), Demand("b", cpus=(0, 1))], {})
    assert cpus(found) == {"a": [2, 3], "b": [0, 1]}


def test_a_list_of_which_a_cpu_is_not_free_binds_nothing() -> None:
    assert assign(machine(1, 1, 4)[1:], [Demand("a", cores=2, cpus=(0, 1))], {}) is None


def test_coupled_processes_that_want_a_node_share_it() -> None:
    demands = [Demand(name, grows=True, shares=True) for name in "abc"]
    found = cpus(assign(machine(2, 1, 4), demands, {("a", "c"): 1}))
    assert found["a"] == found["c"] == [0, 1, 2, 3]
    assert found["b"] == [4, 5, 6, 7]


@st.composite
def _machines(draw: st.DrawFn) -> list[Core]:
    made = machine(*(draw(st.integers(1, most)) for most in (4, 3, 6, 2)))
    return [core for core in made if draw(st.integers(0, 9))]  # some are held by other runs, or not ours


@st.composite
def _demands(draw: st.DrawFn) -> list[Demand]:
    return [
        Demand(f"p{number}", draw(st.integers(1, 4)), draw(st.booleans()), draw(st.booleans()))
        for number in range(draw(st.integers(1, 10)))
    ]


_TIES = st.dictionaries(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] < pair[1]), st.integers(1, 9)
).map(lambda ties: {(f"p{one}", f"p{other}"): weight for (one, other), weight in ties.items()})


@given(_machines(), _demands(), _TIES)
def test_nobody_shares_a_core_and_everybody_has_enough(
    cores: list[Core], demands: list[Demand], ties: dict[tuple[str, str], int]
) -> None:
    found = assign(cores, demands, ties)
    if found is None:
        assert sum(demand.cores for demand in demands) > len(cores)
        return
    assert found == assign(cores, demands, ties)
    sets = {own for demand in demands if (own := found[demand.name])}
    used = list(chain(*sets))
    assert len(used) == len(set(used))
    assert set(used) <= set(cores)
    for demand in demands:
        own = found[demand.name]
        assert len(own) == demand.cores or (len(own) >= demand.cores and (demand.grows or demand.shares))
