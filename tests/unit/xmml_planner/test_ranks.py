"""Ranks of MPI programs in a plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from needs import needs
from xmml_planner import Plan, plan, plan_from_text
from xmml_planner.summary import summary

from xmml.model import Model

MakeModel = Callable[..., Model]

pytestmark = needs("mpirun")

DEFINITIONS = """
<submodel id="Ocean"><timescale delta="1 s" total="3 s"/><spacescale id="x" delta="1 m" total="8 m"/>
  <spacescale id="y" delta="1 m" total="6 m"/>
  <ports><out id="o" operator="Oi" run:decomp="block(x:2,y:2)"/><out id="plain" operator="Oi"/></ports>
  <implementation path="/bin/true" run:mpi="4"/></submodel>
<submodel id="Ice"><timescale delta="1 s" total="3 s"/><spacescale id="x" delta="1 m" total="8 m"/>
  <ports><in id="i" operator="S" run:decomp="block(x:2)"/></ports>
  <implementation path="/bin/true" run:mpi="2"/></submodel>
"""


@pytest.fixture
def planned(model: MakeModel, tmp_path: Path) -> Callable[[str], Plan]:
    def make(topology: str) -> Plan:
        return plan(model(topology, DEFINITIONS))

    return make


OCEAN_AND_ICE = '<instance id="ocean" submodel="Ocean"/><instance id="ice" submodel="Ice"/>'


def test_every_rank_is_a_member_but_only_rank_0_is_started(planned: Callable[[str], Plan]) -> None:
    made = planned(f'{OCEAN_AND_ICE}<coupling from="ocean.o" to="ice.i"/>')
    assert [one.name for one in made.instances] == ["ocean", "ocean#1", "ocean#2", "ocean#3", "ice", "ice#1"]
    assert [one.name for one in made.instances if one.rank_of is None] == ["ocean", "ice"]
    assert made.jobs[0].instances == ("ocean", "ice")
    assert "2 instances, 6 cores" in summary(made)


def test_there_is_a_conduit_for_each_pair_of_ranks_that_can_have_elements_in_common(
    planned: Callable[[str], Plan],
) -> None:
    made = planned(f'{OCEAN_AND_ICE}<coupling from="ocean.o" to="ice.i"/>')
    pairs = [(one.sender, one.receiver) for one in made.conduits]
    assert pairs == [("ocean", "ice"), ("ocean#1", "ice"), ("ocean#2", "ice#1"), ("ocean#3", "ice#1")]


def test_a_port_without_a_decomposition_is_one_rank_with_everything(planned: Callable[[str], Plan]) -> None:
    made = planned(
        '<instance id="ocean" submodel="Ocean"/><instance id="b" submodel="B"/><coupling from="ocean.o" to="b.i"/>'
    )
    assert [one.receiver for one in made.conduits] == ["b"] * 4
    assert all(one.parts is not None and one.parts.receiver == () for one in made.conduits)


def test_an_ordinary_port_stays_with_rank_0(planned: Callable[[str], Plan]) -> None:
    made = planned(
        '<instance id="ocean" submodel="Ocean"/><instance id="b" submodel="B"/><coupling from="ocean.plain" to="b.i"/>'
    )
    (conduit,) = made.conduits
    assert (conduit.sender, conduit.parts) == ("ocean", None)


def test_a_program_is_told_how_its_arrays_are_spread(planned: Callable[[str], Plan]) -> None:
    made = planned(f'{OCEAN_AND_ICE}<coupling from="ocean.o" to="ice.i"/>')
    port = made.spec("ocean#2")["ports"][0]
    assert port["decomposition"] == [{"dimension": 0, "parts": 2}, {"dimension": 1, "parts": 2}]
    assert port["shape"] == [8, 6]
    assert [conduit["parts"]["sender_rank"] for conduit in made.spec("ocean#2")["conduits"]] == [2]


def test_ranks_of_copies_have_the_names_of_their_copies(planned: Callable[[str], Plan]) -> None:
    made = planned('<instance id="ocean" submodel="Ocean" multiplicity="2"/>')
    names = [one.name for one in made.instances]
    assert names == [f"ocean[{copy}]{rank}" for copy in range(2) for rank in ("", "#1", "#2", "#3")]


def test_a_plan_with_ranks_survives_its_text(planned: Callable[[str], Plan]) -> None:
    made = planned(f'{OCEAN_AND_ICE}<coupling from="ocean.o" to="ice.i"/>')
    assert plan_from_text(made.to_text()) == made
