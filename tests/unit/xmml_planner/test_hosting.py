"""Which instances share a process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from xmml_planner import Plan, plan, plan_from_text
from xmml_planner.hosting import members, share_processes

from xmml.model import Model

MakeModel = Callable[..., Model]

COUPLINGS = "".join(f'<coupling from="a{n}.o" to="b{n}.i"/>' for n in range(4))
INSTANCES = "".join(f'<instance id="a{n}" submodel="A"/><instance id="b{n}" submodel="B"/>' for n in range(4))
PAIRS = INSTANCES + COUPLINGS


def groups(made: Plan) -> list[set[str]]:
    return [{instance.name for instance in group} for group in members(made).values()]


def test_partners_are_put_together_and_the_processes_are_equally_full(model: MakeModel) -> None:
    assert groups(plan(model(PAIRS), hosts=2)) == [{"a0", "b0", "a1", "b1"}, {"a2", "b2", "a3", "b3"}]


def test_an_instance_that_would_be_alone_has_a_process_of_its_own(model: MakeModel) -> None:
    made = plan(model(PAIRS), hosts=8)
    assert groups(made) == []
    assert {instance.process for instance in made.instances} == {None}


def test_by_default_there_is_a_process_for_each_core(model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5, 7})
    assert groups(plan(model(PAIRS))) == [{f"a{n}", f"b{n}"} for n in range(4)]


def test_none_shares_if_nobody_wants_it(model: MakeModel) -> None:
    assert groups(plan(model(PAIRS), hosts=0)) == []


@pytest.mark.parametrize("place", ["instance", "implementation"])
def test_who_wants_an_own_process_gets_it(model: MakeModel, place: str) -> None:
    on_instance = ' run:host="own"' if place == "instance" else ""
    on_implementation = ' run:host="own"' if place == "implementation" else ""
    third = (
        '<submodel id="C"><timescale delta="1 s" total="3 s"/><ports/>'
        f'<implementation{on_implementation}><code language="python" part="Oi">1</code></implementation></submodel>'
    )
    made = plan(model(f'{INSTANCES}<instance id="c" submodel="C"{on_instance}/>{COUPLINGS}', third), hosts=1)
    assert made.by_name["c"].process is None
    assert len(groups(made)[0]) == 8


def test_copies_without_which_the_run_goes_on_share_no_process(model: MakeModel) -> None:
    third = (
        '<submodel id="C"><timescale delta="1 s" total="3 s"/><ports>{}</ports><implementation>'
        '<code language="python" part="Oi">1</code></implementation></submodel>'
    )
    definitions = third.format('<out id="o"/>') + third.replace('"C"', '"D"').format('<in id="i"/>')
    made = plan(
        model(
            '<instance id="c" submodel="C"/><instance id="d" submodel="D" multiplicity="3" run:on-death="continue"/>'
            '<coupling from="c.o" to="d.i" run:kind="pool" run:share="queue"/>',
            definitions,
        ),
        hosts=1,
    )
    assert groups(made) == []
    assert made.may_die == {"d[0]", "d[1]", "d[2]"}


@pytest.mark.parametrize("place", ["instance", "implementation"])
@pytest.mark.parametrize(("bind", "shares"), [("core", False), ("0-1", False), ("none", True)])
def test_who_is_bound_otherwise_than_others_has_an_own_process(
    model: MakeModel, place: str, bind: str, shares: bool
) -> None:
    where = {"instance": "", "implementation": "", place: f' run:bind="{bind}"'}
    third = (
        '<submodel id="C"><timescale delta="1 s" total="3 s"/><ports/>'
        f'<implementation{where["implementation"]}><code language="python" part="Oi">1</code></implementation>'
        "</submodel>"
    )
    made = plan(model(f'{INSTANCES}<instance id="c" submodel="C"{where["instance"]}/>{COUPLINGS}', third), hosts=1)
    assert (made.by_name["c"].process is not None) == shares
    assert made.by_name["c"].bind == bind


@pytest.mark.parametrize("wish", ['run:threads="2"', 'run:gpus="1"', 'run:env="A=1"', 'cores="2"', 'run:args="-v"'])
def test_who_wants_something_for_itself_has_an_own_process(model: MakeModel, wish: str) -> None:
    third = (
        '<submodel id="C"><timescale delta="1 s" total="3 s"/><ports/>'
        f'<implementation {wish}><code language="python" part="Oi">1</code></implementation></submodel>'
    )
    made = plan(model(f'{INSTANCES}<instance id="c" submodel="C"/>{COUPLINGS}', third), hosts=1)
    assert made.by_name["c"].process is None


def test_modules_from_different_folders_do_not_meet(model: MakeModel, tmp_path: Path) -> None:
    both = ""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "physics.py").write_text("class Wave:\n    def run(self): pass\n")
        both += (
            f'<submodel id="{name}" class="physics:Wave"><timescale delta="1 s" total="3 s"/><ports/>'
            f'<implementation language="python" path="{name}/physics.py"/></submodel>'
        )
    topology = "".join(f'<instance id="{name}{n}" submodel="{name}"/>' for n in range(2) for name in ("one", "two"))
    made = plan(model(topology, both), hosts=1)
    assert groups(made) == [{"one0", "one1"}, {"two0", "two1"}]


def test_the_processes_are_part_of_the_plan_and_can_be_chosen_anew(model: MakeModel) -> None:
    made = plan_from_text(plan(model(PAIRS), hosts=2).to_text())
    assert len(groups(made)) == 2
    assert groups(share_processes(made, 1)) == [{instance.name for instance in made.instances}]
    assert "a1" not in set().union(*groups(share_processes(made, 1, apart=["a1"])))
