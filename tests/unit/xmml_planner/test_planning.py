"""Whole plans."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from xmml_planner import Plan, PlanFormatError, missing_programs, opened_conduit, plan, plan_from_text, summary

from xmml.model import Model
from xmml.problems import ModelError

MakeModel = Callable[..., Model]

AB = '<instance id="a" submodel="A"/><instance id="b" submodel="B"/><coupling from="a.o" to="b.i"/>'
MAPPER = '<mapper id="M" class="scatter" type="fan-in-out"><ports><in id="i"/><out id="o"/></ports></mapper>'
SCATTERED = (
    '<instance id="a" submodel="A"/><instance id="m" mapper="M"/>'
    '<instance id="b" submodel="B" multiplicity="3"><param id="k" value="1"/></instance>'
    '<coupling from="a.o" to="m.i"/><coupling from="m.o" to="b.i"/>'
)


def test_the_same_model_gives_the_same_plan(model: MakeModel) -> None:
    assert plan(model(SCATTERED, MAPPER)).to_text() == plan(model(SCATTERED, MAPPER)).to_text()


def test_a_plan_survives_json(model: MakeModel) -> None:
    made = plan(model(SCATTERED, MAPPER))
    assert plan_from_text(made.to_text()) == made


def test_a_copy_has_its_index_the_count_and_a_folder_of_its_own(model: MakeModel) -> None:
    copy = plan(model(SCATTERED, MAPPER)).by_name["b[2]"]
    assert (copy.element, copy.index, copy.count, copy.folder) == ("b", 2, 3, "instances/b[2]")


def test_a_single_copy_can_have_a_parameter_of_its_own(tmp_path: Path, model: MakeModel) -> None:
    from xmml.check import check

    model(SCATTERED, MAPPER)
    result = check(tmp_path / "model.xmml", overrides={"b.k": "2", "b[1].k": "3"})
    made = plan(result.model_or_raise())
    assert [made.by_name[f"b[{index}]"].params["k"] for index in range(3)] == ["2", "3", "2"]


def test_the_specification_of_an_instance_holds_the_conduits_at_its_ports(model: MakeModel) -> None:
    made = plan(model(SCATTERED, MAPPER))
    assert [conduit["name"] for conduit in made.spec("b[1]")["conduits"]] == ["m.o -> b[1].i"]
    assert len(made.spec("m")["conduits"]) == 4
    assert json.loads(json.dumps(made.spec("a")))["steps"] == 3


def test_a_conduit_of_an_instance_to_itself_is_given_once(model: MakeModel) -> None:
    both = (
        '<submodel id="C"><timescale delta="1 s" total="2 s"/>'
        '<ports><out id="o" operator="Oi"/><in id="i" operator="S"/></ports>'
        '<implementation><code language="python" part="Oi">o = 1</code></implementation></submodel>'
    )
    made = plan(model('<instance id="c" submodel="C"/><coupling from="c.o" to="c.i"/>', both))
    assert len(made.spec("c")["conduits"]) == 1


def test_a_build_is_run_once_for_all_who_need_it(model: MakeModel) -> None:
    def built(name: str) -> str:
        return (
            f'<submodel id="{name}"><timescale delta="1 s" total="2 s"/><ports><out id="o" operator="Oi"/></ports>'
            f'<implementation language="c" path="{name}" run:build="make"/></submodel>'
        )

    topology = '<instance id="x" submodel="X"/><instance id="y" submodel="Y"/>'
    made = plan(model(topology, built("X") + built("Y")))
    assert [(build.command, build.instances) for build in made.builds] == [("make", ("x", "y"))]


def test_what_a_build_did_not_make_is_missing_afterwards(model: MakeModel) -> None:
    definition = (
        '<submodel id="X"><timescale delta="1 s" total="2 s"/><ports><out id="o" operator="Oi"/></ports>'
        '<implementation language="c" path="x" run:build="true"/></submodel>'
    )
    (problem,) = missing_programs(plan(model('<instance id="x" submodel="X"/>', definition)))
    assert 'instance "x"' in problem.message
    assert problem.position is not None
    assert problem.position.file.endswith("model.xmml")


def program(implementation: str) -> tuple[str, str]:
    """Return topology and definition of an instance with a program."""
    ports = '<ports><out id="o" operator="Oi"/></ports>'
    return (
        '<instance id="x" submodel="X"/>',
        f'<submodel id="X"><timescale delta="1 s" total="2 s"/>{ports}<implementation {implementation}/></submodel>',
    )


def test_a_program_that_is_still_a_source_is_refused_with_how_to_build_it(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "heater.c").write_text("")
    with pytest.raises(ModelError, match=r'must be built from heater\.c: add run:build="make heater"'):
        plan(model(*program('path="heater"')))
    with pytest.raises(ModelError, match=r'must be built: write path="heater" run:build="make heater"'):
        plan(model(*program('path="heater.c"')))


def test_what_a_build_made_is_suggested_for_a_misspelt_path(model: MakeModel, tmp_path: Path) -> None:
    made = plan(model(*program('path="heatr" run:build="make heater"')))
    for name in ("heater", "heater.c", "heatr.c"):
        (tmp_path / name).write_text("")
    (problem,) = missing_programs(made)
    assert problem.help == 'did you mean "heater"?'


def test_the_summary_names_instances_commands_and_wires(model: MakeModel) -> None:
    text = summary(plan(model(SCATTERED, MAPPER)))
    assert "5 instances" in text
    assert "b[0..2]" in text
    assert "mapper scatter" in text
    assert "a.o -> m.i" in text


def test_the_summary_of_a_model_without_instances_is_short(model: MakeModel) -> None:
    assert "0 instances" in summary(plan(model("")))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda plain: plain.update(version=99), "version 99"),
        (lambda plain: plain.pop("instances"), '"instances" is missing'),
        (lambda plain: plain["instances"][0].update(steps="many"), r"plan\.instances\[0\]\.steps: expected int"),
        (lambda plain: plain["conduits"][0].update(colour="red"), "unknown field"),
        (lambda plain: plain.update(conduits=7), "expected a list"),
    ],
)
def test_a_spoilt_plan_is_refused_with_the_place(
    model: MakeModel, spoil: Callable[[dict[str, object]], object], complaint: str
) -> None:
    plain = plan(model(AB)).as_json()
    spoil(plain)
    with pytest.raises(PlanFormatError, match=complaint):
        plan_from_text(json.dumps(plain))


def test_a_plan_that_was_read_keeps_its_text_until_it_is_changed(model: MakeModel) -> None:
    made = plan(model(AB))
    text = json.dumps(made.as_json(), indent=3)
    read = plan_from_text(text)
    assert (read.text, read.to_text(), read) == (text, made.text, made)
    assert dataclasses.replace(read, model="other").text == dataclasses.replace(made, model="other").to_text()


def test_the_text_of_a_plan_can_be_let_go_of(model: MakeModel) -> None:
    made = plan(model(AB))
    read = plan_from_text(json.dumps(made.as_json(), indent=3))
    read.let_go_of_text()
    assert "text" not in vars(read)
    assert read.text == made.to_text()
    read.let_go_of_text()
    read.let_go_of_text()  # nothing is there


def test_what_has_its_default_is_left_out_of_conduits_and_ports(model: MakeModel) -> None:
    plain = plan(model(AB)).as_json()
    assert plain["conduits"][0].keys() == {
        *("id", "name", "sender", "sender_port", "receiver", "receiver_port", "capacity", "byte_budget")
    }
    assert plain["instances"][0]["ports"][0].keys() == {"name", "direction", "operator"}


@pytest.mark.parametrize("text", ["<model/>", "[" * 100_000])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(PlanFormatError, match="not JSON"):
        plan_from_text(text)


def test_a_plan_is_a_value(model: MakeModel) -> None:
    made = plan(model(AB))
    assert isinstance(made, Plan)
    assert made == plan(model(AB))


def test_a_program_is_told_its_scales_in_base_units(model: MakeModel) -> None:
    definition = (
        '<submodel id="C"><timescale delta="1 s" total="3 s"/><spacescale id="x" delta="1 mm" total="1 m"/>'
        '<ports><out id="o" operator="Oi"/></ports>'
        '<implementation><code language="python" part="Oi">o = t</code></implementation></submodel>'
    )
    made = plan(model('<instance id="c" submodel="C"/>', definition))
    scales = made.spec("c")["scales"]
    assert scales[1] == {"name": "x", "kind": "space", "delta": 0.001, "total": 1.0, "steps": 1000}
    assert plan_from_text(made.to_text()) == made


def test_a_conduit_that_a_handle_has_made_is_told_without_what_has_its_default(model: MakeModel) -> None:
    told = {"id": 1 << 30, "name": "a.o -> b.i", "sender": "a", "sender_port": "o", "receiver": "b"}
    told |= {"receiver_port": "i", "capacity": 16, "byte_budget": 1 << 26}
    made = plan(model(AB)).with_opened([opened_conduit(told)])
    assert made.by_conduit[1 << 30].name == "a.o -> b.i"
    assert made.by_conduit[1 << 30].sender_copy is None
