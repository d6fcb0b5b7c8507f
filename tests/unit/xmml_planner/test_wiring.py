"""From couplings to conduits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xmml_planner import FilterSpec, Plan, plan
from xmml_planner.wiring import FilterCost, FilterRefused

from xmml.model import Model
from xmml.problems import ModelError

MakeModel = Callable[..., Model]

AB = '<instance id="a" submodel="A"/><instance id="b" submodel="B"/>'
MAPPER = '<mapper id="M" class="scatter" type="fan-in-out"><ports><in id="i"/><out id="o"/></ports></mapper>'
FILTERS = (
    '<filter id="half" class="multiply" factor="0.5" type="converter"/>'
    '<filter id="pack" class="compress" type="converter"/>'
    '<filter id="burst" class="repeat" factor="100" type="interpolation"/>'
    '<filter id="own" class="filters:own" type="converter"/><filter id="wrong" class="nothing" type="converter"/>'
)


def costs(spec: FilterSpec) -> FilterCost:
    """A filter table for these tests."""
    table = {"multiply": FilterCost(1.0, 1), "compress": FilterCost(0.5, 1), "repeat": FilterCost(100.0, 100)}
    table["checksum"] = FilterCost(1.0, 1)
    if spec.name not in table:
        raise FilterRefused(f'there is no filter "{spec.name}"')
    return table[spec.name]


def planned(model: Model) -> Plan:
    return plan(model, filter_cost=costs)


def test_a_coupling_becomes_one_conduit(model: MakeModel) -> None:
    (conduit,) = planned(model(f'{AB}<coupling from="a.o" to="b.i"/>')).conduits
    assert (conduit.name, conduit.sender, conduit.receiver) == ("a.o -> b.i", "a", "b")
    assert (conduit.sender_copy, conduit.receiver_copy) == (None, None)


def test_the_capacity_of_the_model_wins(model: MakeModel) -> None:
    (conduit,) = planned(model(f'{AB}<coupling from="a.o" to="b.i" run:capacity="3"/>')).conduits
    assert conduit.capacity == 3


def test_a_latest_coupling_holds_the_newest_message_alone(model: MakeModel) -> None:
    (conduit,) = planned(model(f'{AB}<coupling from="a.o" to="b.i" run:kind="latest"/>')).conduits
    assert (conduit.capacity, conduit.byte_budget) == (1, 0)
    assert conduit.pool is not None
    assert (conduit.pool.is_latest, conduit.pool.noun) == (True, "latest")


def test_a_conduit_holds_what_a_filter_before_it_emits_at_once(model: MakeModel) -> None:
    coupling = '<coupling from="a.o" to="b.i"><apply filter="burst"/><apply filter="pack"/></coupling>'
    found = {"repeat": FilterCost(1.0, 100), "compress": FilterCost(0.5, 1)}
    made = plan(model(f"{AB}{coupling}", FILTERS), filter_cost=lambda spec: found[spec.name])
    (conduit,) = made.conduits
    assert [each.name for each in conduit.sender_filters] == ["repeat", "compress"]
    assert conduit.capacity == 100


def test_filters_are_placed_where_less_crosses_the_wire(model: MakeModel) -> None:
    coupling = '<coupling from="a.o" to="b.i"><apply filter="pack"/><apply filter="half"/></coupling>'
    (conduit,) = planned(model(f"{AB}{coupling}", FILTERS)).conduits
    assert conduit.sender_filters == (FilterSpec("compress"),)
    assert conduit.receiver_filters == (FilterSpec("multiply", 0.5),)


def test_a_compressed_coupling_packs_after_the_senders_filters_and_unpacks_before_the_receivers(
    model: MakeModel,
) -> None:
    coupling = '<coupling from="a.o" to="b.i" run:compress="yes"><apply filter="half"/></coupling>'
    (conduit,) = planned(model(f"{AB}{coupling}", FILTERS)).conduits
    assert [each.name for each in conduit.sender_filters] == ["zstd"]
    assert [each.name for each in conduit.receiver_filters] == ["unzstd", "multiply"]


def test_filters_of_the_wire_stand_between_those_of_the_sender_and_those_of_the_receiver(model: MakeModel) -> None:
    applied = "".join(f'<apply filter="{name}"/>' for name in ("check", "pack", "half"))
    check = '<filter id="check" class="checksum" type="converter"/>'
    (conduit,) = planned(model(f'{AB}<coupling from="a.o" to="b.i">{applied}</coupling>', FILTERS + check)).conduits
    assert [each.name for each in conduit.sender_filters] == ["compress", "checksum"]
    assert [each.name for each in conduit.receiver_filters] == ["checksum", "multiply"]


def test_a_python_filter_runs_between_two_conduits(model: MakeModel) -> None:
    coupling = (
        '<coupling from="a.o" to="b.i"><apply filter="pack"/><apply filter="own"/><apply filter="half"/></coupling>'
    )
    made = planned(model(f"{AB}{coupling}", FILTERS))
    first, second = made.conduits
    assert (first.sender, first.receiver, first.receiver_port) == ("a", "a.o-own-b.i", "in")
    assert (second.sender, second.sender_port, second.receiver) == ("a.o-own-b.i", "out", "b")
    assert [each.name for each in first.sender_filters] == ["compress"]
    assert [each.name for each in second.receiver_filters] == ["multiply"]
    assert made.by_name["a.o-own-b.i"].kind == "mapper"


def test_a_filter_that_does_not_exist_is_a_problem_of_the_model(model: MakeModel) -> None:
    coupling = '<coupling from="a.o" to="b.i"><apply filter="wrong"/></coupling>'
    with pytest.raises(ModelError, match=r'model\.xmml:1:\d+: .*there is no built-in filter "nothing"'):
        planned(model(f"{AB}{coupling}", FILTERS))


def test_a_mapper_addresses_the_copies_it_scatters_to(model: MakeModel) -> None:
    topology = (
        '<instance id="a" submodel="A"/><instance id="m" mapper="M"/><instance id="b" submodel="B" multiplicity="3"/>'
        '<coupling from="a.o" to="m.i"/><coupling from="m.o" to="b.i"/>'
    )
    made = planned(model(topology, MAPPER))
    assert [(conduit.receiver, conduit.receiver_copy) for conduit in made.conduits[1:]] == [
        ("b[0]", 0),
        ("b[1]", 1),
        ("b[2]", 2),
    ]
    assert {port.name: port.copies for port in made.by_name["m"].ports} == {"i": 0, "o": 3}
    assert [port.copies for port in made.by_name["b[1]"].ports] == [0]


def test_a_mapper_tells_the_copies_it_gathers_from(model: MakeModel) -> None:
    topology = (
        '<instance id="a" submodel="A" multiplicity="2"/><instance id="m" mapper="M"/><instance id="b" submodel="B"/>'
        '<coupling from="a.o" to="m.i"/><coupling from="m.o" to="b.i"/>'
    )
    made = planned(model(topology, MAPPER))
    assert [(conduit.sender, conduit.sender_copy) for conduit in made.conduits[:2]] == [("a[0]", 0), ("a[1]", 1)]
    assert {port.name: port.copies for port in made.by_name["m"].ports} == {"i": 2, "o": 0}


def test_a_python_filter_before_a_copy_keeps_the_index_that_the_mapper_uses(model: MakeModel) -> None:
    topology = (
        '<instance id="a" submodel="A"/><instance id="m" mapper="M"/><instance id="b" submodel="B" multiplicity="2"/>'
        '<coupling from="a.o" to="m.i"/><coupling from="m.o" to="b.i"><apply filter="own"/></coupling>'
    )
    made = planned(model(topology, FILTERS + MAPPER))
    into = {conduit.receiver: conduit.receiver_copy for conduit in made.conduits if conduit.sender == "m"}
    assert into == {"m.o-own-b[0].i": 0, "m.o-own-b[1].i": 1}


def test_one_out_port_may_have_several_receivers(model: MakeModel) -> None:
    topology = f'{AB}<instance id="c" submodel="B"/><coupling from="a.o" to="b.i"/><coupling from="a.o" to="c.i"/>'
    assert [conduit.receiver for conduit in planned(model(topology)).conduits] == ["b", "c"]


STATEFUL = (
    '<submodel id="S"><timescale delta="1 s" total="3 s"/><ports><in id="before" operator="finit" type="{0}"/>'
    '<in id="start" operator="finit" type="state"/><out id="after" operator="Of" type="state"/></ports>'
    '<implementation><code language="python" part="Of">after = 1</code></implementation></submodel>'
)


def test_only_the_last_conduit_of_a_coupling_that_carries_state_brings_it(model: MakeModel) -> None:
    topology = '<instance id="s" submodel="S"/><coupling from="s.after" to="s.before"><apply filter="own"/></coupling>'
    made = planned(model(topology, FILTERS + STATEFUL.format("state")))
    assert [(each.receiver_port, each.is_state) for each in made.conduits] == [("in", False), ("before", True)]
    assert made.spec("s")["conduits"][1]["is_state"] is True


@pytest.mark.parametrize(("receiver", "kind"), [("t.before", "normal"), ("t.start", "state")])
def test_state_is_carried_only_between_state_ports_of_one_instance(model: MakeModel, receiver: str, kind: str) -> None:
    topology = (
        f'<instance id="s" submodel="S"/><instance id="t" submodel="S"/><coupling from="s.after" to="{receiver}"/>'
    )
    (conduit,) = planned(model(topology, STATEFUL.format(kind))).conduits
    assert not conduit.is_state


LAST = (
    '<filter id="last" type="reduction"/><submodel id="C"><timescale delta="1 s" total="1 s"/>'
    '<ports><in id="i" operator="finit"/></ports>'
    '<implementation><code language="python" part="finit">print(i)</code></implementation></submodel>'
)
AC = '<instance id="a" submodel="A"/><instance id="c" submodel="C"/>'


def test_what_waits_for_the_end_of_a_run_works_at_the_sender(model: MakeModel) -> None:
    chain = "".join(f'<apply filter="{name}"/>' for name in ("last", "burst", "last", "half"))
    found = {"last": FilterCost(0.0, 0), "repeat": FilterCost(100.0, 100), "multiply": FilterCost(1.0, 1)}
    made = plan(
        model(f'{AC}<coupling from="a.o" to="c.i">{chain}</coupling>', FILTERS + LAST),
        filter_cost=lambda spec: found[spec.name],
    )
    (conduit,) = made.conduits
    assert [each.name for each in conduit.sender_filters] == ["last", "repeat", "last"]


def test_what_waits_for_the_end_of_a_run_cannot_stand_behind_a_filter_that_runs_by_itself(model: MakeModel) -> None:
    coupling = '<coupling from="a.o" to="c.i"><apply filter="own"/><apply filter="last"/></coupling>'
    with pytest.raises(ModelError) as error:
        plan(model(f"{AC}{coupling}", FILTERS + LAST), filter_cost=lambda spec: FilterCost(1.0, 1))
    assert "cannot know when a run of a ends" in str(error.value)
    assert 'apply "last" first' in str(error.value)
