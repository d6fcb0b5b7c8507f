"""Where in a job its instances run: nodes, cores and GPUs of each, and what the job asks for on each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xmml_planner import Plan, summary
from xmml_planner.execution_plan import NodeShare
from xmml_planner.placement.demands import Demands, Group, Unit
from xmml_planner.placement.layout import Layout, lay_out
from xmml_planner.placement.packing import fits, pieces_at
from xmml_planner.several_sites import plan_over_sites
from xmml_planner.sites import Site, sites_from_text

from xmml.model import Model

ALPHA = (
    '[site.alpha]\nssh = "alpha"\nscheduler = "slurm"\nnodes = 4\ncores = 4\nmemory = "16 GB"\ngpus = 2\nmpi = "srun"\n'
)

Programs = Callable[..., Plan]


@pytest.fixture
def programs(model: Callable[..., Model], tmp_path: Path) -> Programs:
    """Returns the plan of programs that run at the same time, by their names and the attributes of their
    implementations; `x*3` is three copies."""

    def make(attributes: Mapping[str, str], site: str = ALPHA) -> Plan:
        (tmp_path / "x.py").write_text("")
        names = [name.partition("*")[0] for name in attributes]
        definitions = "".join(
            f'<submodel id="P-{name}"><timescale delta="1 s" total="10 s"/><ports/>'
            f'<implementation path="x.py" language="python" runtime="1 hr" {each}/></submodel>'
            for name, each in zip(names, attributes.values(), strict=True)
        )
        instances = "".join(
            f'<instance id="{name}" submodel="P-{name}" multiplicity="{label.partition("*")[2] or 1}"/>'
            for name, label in zip(names, attributes, strict=True)
        )
        return plan_over_sites(model(instances, definitions), sites_from_text(site))

    return make


def nodes(made: Plan) -> dict[str, list[tuple[int, int, tuple[int, ...]]]]:
    """Node, ranks and cores of each instance."""
    return {each.name: [(share.node, share.ranks, share.cores) for share in each.shares] for each in made.instances}


def test_a_job_asks_on_each_node_for_what_the_largest_share_of_a_node_needs(programs: Programs) -> None:
    made = programs({"wide": 'run:threads="4"', "narrow": 'cores="1"'})
    (job,) = made.jobs
    assert (job.nodes, job.cores_per_node) == (2, 4)
    assert nodes(made) == {"wide": [(0, 1, (0, 1, 2, 3))], "narrow": [(1, 1, (0,))]}


def test_instances_spread_evenly_over_the_nodes_that_they_need(programs: Programs) -> None:
    made = programs({"x*6": ""})
    (job,) = made.jobs
    assert (job.nodes, job.cores_per_node) == (2, 3)
    assert Counter(share.node for each in made.instances for share in each.shares) == {0: 3, 1: 3}


def test_the_ranks_of_an_mpi_program_stay_together_with_their_threads(programs: Programs) -> None:
    made = programs({"flow": 'run:mpi="3" run:threads="2"'})
    (job,) = made.jobs
    assert (job.nodes, job.cores_per_node) == (2, 4)
    assert nodes(made) == {"flow": [(0, 2, (0, 1, 2, 3)), (1, 1, (0, 1))]}


def test_memory_can_be_what_spreads_instances(programs: Programs) -> None:
    made = programs({"x*3": 'memory="10 GB"'})
    (job,) = made.jobs
    assert (job.nodes, job.cores_per_node, job.memory_per_node_bytes) == (3, 1, 10_000_000_000)
    assert [each.shares[0].node for each in made.instances] == [0, 1, 2]


def test_every_instance_has_gpus_of_its_own(programs: Programs) -> None:
    made = programs({"a": 'run:gpus="1"', "b": 'run:gpus="1"', "c": 'run:gpus="2"'})
    (job,) = made.jobs
    assert job.gpus_per_node == 2
    taken = [(share.node, gpu) for each in made.instances for share in each.shares for gpu in share.gpus]
    assert sorted(taken) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_whoever_computes_while_others_wait_has_their_cores(model: Callable[..., Model], tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    ports = {
        "A": '<out id="o" operator="Oi"/><in id="i" operator="S"/>',
        "B": '<in id="i" operator="finit"/><out id="o" operator="Of"/>',
    }
    definitions = "".join(
        f'<submodel id="{name}1"><timescale delta="1 s" total="10 s"/><ports>{own}</ports>'
        f'<implementation path="x.py" language="python" runtime="1 hr" {cores}/></submodel>'
        for (name, own), cores in zip(ports.items(), ('cores="2"', 'run:mpi="8"'), strict=True)
    )
    topology = (
        '<instance id="a" submodel="A1"/><instance id="b" submodel="B1"/>'
        '<coupling from="a.o" to="b.i"/><coupling from="b.o" to="a.i"/>'
    )
    made = plan_over_sites(model(topology, definitions), sites_from_text(ALPHA))
    (job,) = made.jobs
    assert (job.nodes, job.cores_per_node) == (2, 4)
    assert made.by_name["a"].shares == (NodeShare(0, 1, (0, 1), takes_turns=True),)
    assert [share.ranks for share in made.by_name["b"].shares] == [4, 4]


def test_what_only_hands_messages_on_is_beside_one_that_it_serves(model: Callable[..., Model]) -> None:
    made = plan_over_sites(
        model(
            '<instance id="a" submodel="A" multiplicity="8"/><instance id="b" submodel="B"/>'
            '<instance id="g" mapper="G"/>'
            '<coupling from="a.o" to="g.in"/><coupling from="g.out" to="b.i"/>',
            '<mapper id="G" type="fan-in" class="gather"><ports><in id="in"/><out id="out"/></ports></mapper>',
        ),
        sites_from_text(ALPHA),
    )
    (share,) = made.by_name["g"].shares
    assert share.cores == ()
    assert share.node in {made.by_name[name].node for name in ("a[0]", "b")}


def test_instances_share_processes_with_others_of_their_node_only(model: Callable[..., Model]) -> None:
    made = plan_over_sites(model('<instance id="a" submodel="A" multiplicity="8"/>'), sites_from_text(ALPHA), hosts=1)
    processes = {(each.process, each.node) for each in made.instances}
    assert processes == {("hosts/1", 0), ("hosts/2", 1)}


def test_the_table_of_a_plan_says_what_runs_on_which_node(programs: Programs) -> None:
    lines = summary(programs({"flow": 'run:mpi="6"', "x": ""})).splitlines()
    assert "    node 0: flow (4 ranks)" in lines
    assert "    node 1: flow (2 ranks), x" in lines
    lines = summary(programs({"x*16": ""})).splitlines()
    assert "    nodes 0 to 3: x (4 of 16)" in lines


def test_hundreds_of_programs_that_each_fill_more_than_half_a_node_find_their_nodes_at_once() -> None:
    wanted = _demands([(65, 1, 0, 0, 300)], in_order=False)
    layout = lay_out(wanted, [0], {0: range(300)}, Site("s", nodes=1000, cores=128), lambda process: ())
    assert (layout.nodes, layout.cores) == (300, 65)


def test_gpus_can_be_what_spreads_instances() -> None:
    wanted = _demands([(1, 1, 0, 1, 10)], in_order=False)
    layout = lay_out(wanted, [0], {0: range(10)}, Site("s", nodes=100, cores=64, gpus=4), lambda process: ())
    assert (layout.nodes, layout.cores, layout.gpus) == (3, 4, 4)


# --- any packing ----------------------------------------------------------------------------------------------------

units = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 4), st.integers(0, 1), st.integers(1, 4)),
    min_size=1,
    max_size=5,
)


def _demands(described: list[tuple[int, int, int, int, int]], in_order: bool) -> Demands:
    made: list[Unit] = []
    first = 0
    for number, (cores, ranks, memory, gpus, count) in enumerate(described):
        processes = tuple(range(first, first + count))
        first += count
        made.append(
            Unit(
                f"u{number}",
                f"u{number}",
                processes,
                cores * ranks,
                cores,
                memory,
                gpus,
                memory * ranks,
                gpus * ranks,
                ranks,
                (),
                None,
            )
        )
    numbers = tuple(range(len(made)))
    of = tuple(number for number, unit in enumerate(made) for _ in unit.processes)
    groups = tuple(Group((number,), ()) for number in numbers) if in_order else (Group(numbers, ()),)
    before = tuple((number, number + 1) for number in numbers[:-1]) if in_order else ()
    return Demands(tuple(made), of, groups, numbers if in_order else tuple(0 for _ in made), before, frozenset(), {})


@settings(max_examples=300, deadline=None)
@given(described=units, in_order=st.booleans())
def test_no_core_gpu_or_byte_is_given_twice_and_everybody_has_what_it_needs(
    described: list[tuple[int, int, int, int, int]], in_order: bool
) -> None:
    wanted = _demands(described, in_order)
    site = Site("s", nodes=6, cores=4, memory_bytes=8, gpus=2)
    here = {number: list(unit.processes) for number, unit in enumerate(wanted.units)}
    pieces = pieces_at(wanted, {number: unit.count for number, unit in enumerate(wanted.units)})
    layout = lay_out(wanted, range(len(wanted.groups)), here, site, lambda process: ())
    if not all(fits(each, site) for each in pieces):
        return
    for number, unit in enumerate(wanted.units):
        for process in unit.processes:
            shares = layout.shares[process]
            assert sum(share.ranks for share in shares) == unit.ranks
            assert all(len(share.cores) == share.ranks * unit.cores_of_rank for share in shares)
            assert all(len(share.gpus) == share.ranks * unit.gpus_of_rank for share in shares)
        _assert_disjoint(layout, site, wanted, [number] if in_order else list(here))


def _assert_disjoint(layout: Layout, site: Site, wanted: Demands, together: list[int]) -> None:
    shares = [
        share for unit in together for process in wanted.units[unit].processes for share in layout.shares[process]
    ]
    for kind in ("cores", "gpus"):
        taken = Counter((share.node, each) for share in shares for each in getattr(share, kind))
        assert not taken or max(taken.values()) == 1
    assert all(core < layout.cores <= site.cores for share in shares for core in share.cores)
    assert all(gpu < layout.gpus <= site.gpus for share in shares for gpu in share.gpus)
    memory: Counter[int] = Counter()
    for share in shares:
        memory[share.node] += share.memory_bytes
        assert share.node < layout.nodes <= site.nodes
    assert max(memory.values()) <= layout.memory_bytes <= (site.memory_bytes or 0)
