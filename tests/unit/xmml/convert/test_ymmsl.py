"""yMMSL of both versions, held against the reference reader."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import ymmsl
import ymmsl.v0_1
import ymmsl.v0_2
from ymmsl.v0_2.timeline_resolver import resolve_timelines

from xmml.check import check
from xmml.convert.conversion import convert
from xmml.convert.ymmsl_export import to_ymmsl
from xmml.convert.ymmsl_import import to_xmml
from xmml.convert.ymmsl_reader import parse_ymmsl
from xmml.document import Document
from xmml.model import Model
from xmml.problems import ModelError, errors_in
from xmml.reach import ANYWHERE
from xmml.resolve import resolve
from xmml.tree import parse

TESTS = Path(__file__).parents[3]
MODELS = sorted(TESTS.glob("models/*/model.xmml")) + sorted(TESTS.parent.glob("workflows/*/model.xmml"))
#: Copies come back with mappers around them: a topology of its own.
WITHOUT_COPIES = [path for path in MODELS if "multiplicity" not in path.read_text()]

#: Names, each with the one after it.
PAIRS = list(zip("abcdefgh", "bcdefghi", strict=True))

NESTED = """\
ymmsl_version: v0.2
description: nested
models:
  outer:
    description: the whole
    components:
      macro:
        ports: {o_i: state, s: answer}
        description: slow
        implementation: macro_program
      sub:
        ports: {f_init: start, o_f: result}
        description: fast, in two parts
        implementation: inner
      extra:
        ports: {f_init: in}
        description: not there
        optional: true
    conduits:
      macro.state:
      - sub.start
      - extra.in
      sub.result: macro.answer
  inner:
    ports: {f_init: start, o_f: result}
    description: two in a row
    components:
      first:
        ports: {f_init: start, o_f: result}
        description: one
        implementation: part
      second:
        ports: {f_init: start, o_f: result}
        description: two
        implementation: part
    conduits:
      start: first.start
      first.result: second.start
      second.result: result
settings:
  macro.dt: 0.5
  macro.t_max: 5
  k: 3
  sub.k: 4
  sub.second.k: 5.5
  muscle_profile_level: none
programs:
  macro_program:
    executable: python3
    args: [macro.py, --fast, 'two words']
    env: {OMP_NUM_THREADS: 2}
    keeps_state_for_next_use: helpful
  part:
    executable: bin/part
    execution_model: openmpi
resources:
  outer.macro: {threads: 4}
  outer.sub.first: {mpi_processes: 8}
  outer.sub.second: {mpi_processes: 8}
"""


def model_of(path: Path) -> Model:
    model = check(path).resolved
    assert model is not None
    return model


def imported(text: str) -> tuple[Model, tuple[str, ...]]:
    converted = to_xmml(parse_ymmsl(text, "m.ymmsl"))
    model, problems = resolve(Document("m.xmml", parse(converted.text, "m.xmml"), ("m.xmml",), ANYWHERE))
    assert not errors_in(problems), converted.text
    return model, converted.notes


@pytest.mark.parametrize("version", ["0.1", "0.2"])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.parent.name)
def test_the_reference_reader_loads_what_is_written(path: Path, version: Any) -> None:
    model = model_of(path)
    configuration: Any = ymmsl.load(to_ymmsl(model, version).text)
    written = configuration.model if version == "0.1" else next(iter(configuration.models.values()))
    components = {str(each.name): each for each in _values(written.components)}
    assert list(components) == list(model.instances)
    assert {(str(each.sender), str(each.receiver)) for each in written.conduits} == {
        (str(each.sender), str(each.receiver)) for each in model.couplings if not model.carries_state(each)
    }
    for name, instance in model.instances.items():
        copies = [instance.multiplicity] if instance.is_multiplied else []
        assert components[name].multiplicity == copies


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.parent.name)
def test_written_models_are_consistent_for_the_reference_reader(path: Path) -> None:
    converted = to_ymmsl(model_of(path), "0.2")
    configuration: Any = ymmsl.load(converted.text)
    configuration.check_consistent()


@pytest.mark.parametrize("name", ["macro_micro", "triangle", "simple"])
def test_timelines_of_written_models_match(name: str) -> None:
    configuration: Any = ymmsl.load(to_ymmsl(model_of(TESTS / f"models/{name}/model.xmml"), "0.2").text)
    for model in configuration.models.values():
        resolve_timelines(model)


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_parameters_are_settings_with_types(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(
        """<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml"><definitions><submodel id="A">
        <timescale delta="1 ms" total="1 s"/> <param id="i" value="-3"/> <param id="f" value="1e-9"/>
        <param id="b" value="true"/> <param id="t" value="3 m"/> <param id="v" value="[1, 2.5]"/>
        <param id="w" value="yes"/>
        <ports/></submodel></definitions><topology><instance id="a" submodel="A"/></topology></model>"""
    )
    settings = ymmsl.load(to_ymmsl(model_of(path), version).text).settings.as_ordered_dict()  # type: ignore[attr-defined]
    assert dict(settings) == {
        "a.i": -3, "a.f": 1e-9, "a.b": True, "a.t": "3 m", "a.v": [1, 2.5], "a.w": "yes", "a.dt": 0.001, "a.t_max": 1.0
    }  # fmt: skip


@pytest.mark.parametrize("version", ["0.1", "0.2"])
@pytest.mark.parametrize("path", WITHOUT_COPIES, ids=lambda path: path.parent.name)
def test_what_is_written_reads_as_the_same_topology(path: Path, version: Any) -> None:
    model = model_of(path)
    again, _ = imported(to_ymmsl(model, version).text)
    assert list(again.instances) == list(model.instances)
    assert sorted(map(str, again.couplings)) == sorted(
        str(each) for each in model.couplings if not model.carries_state(each)
    )
    for name, instance in model.instances.items():
        if instance.kind == "submodel":
            operators = {port.id: port.operator for port in instance.ports.values() if port.operator}
            expected = {name: "S" if operator == "B" else operator for name, operator in operators.items()}
            assert {port.id: port.operator for port in again.instances[name].ports.values()} == expected
            assert (again.instances[name].delta_s, again.instances[name].total_s) == (
                instance.delta_s,
                instance.total_s,
            )


def test_what_the_reference_writer_writes_is_read() -> None:
    from ymmsl.v0_2 import Component, Conduit, Configuration, Model, Ports, Program, Settings

    model = Model(
        "m", None, "a model", None,
        [Component("a", Ports(o_i="o", s="i"), "1", "p", False, [3]), Component("b", Ports("i", o_f="o"), "two", "q")],
        None, [Conduit("b.o", "a.i", "last repeat")],
    )  # fmt: skip
    programs = [Program("p", executable=Path("p")), Program("q", script=["#!/bin/sh", "run it"])]
    text = ymmsl.dump(Configuration("text", None, [model], None, Settings({"a.x": [1.5, 2.5], "y": True}), programs))
    file = parse_ymmsl(text, "m.ymmsl")
    assert file.models["m"].components["a"].multiplicity == (3,)
    assert file.models["m"].conduits[0].filters == ("last", "repeat")
    assert dict(file.settings) == {"a.x": [1.5, 2.5], "y": True}
    assert file.programs["q"].script == "#!/bin/sh\nrun it\n"


def test_models_inside_models_are_unfolded() -> None:
    model, notes = imported(NESTED)
    assert list(model.instances) == ["macro", "sub_first", "sub_second"]
    assert {str(each) for each in model.couplings} == {
        "macro.state -> sub_first.start",
        "sub_second.result -> macro.answer",
        "sub_first.result -> sub_second.start",
    }
    assert any("extra has no implementation" in note for note in notes)


def test_the_most_specific_setting_wins() -> None:
    model, notes = imported(NESTED)
    assert [model.instances[name].params["k"] for name in model.instances] == ["3", "4", "5.5"]
    assert any("muscle_profile_level" in note for note in notes)


def test_programs_and_resources_are_implementations() -> None:
    model, _ = imported(NESTED)
    macro, part = (model.instances[name].definition.implementation for name in ("macro", "sub_first"))
    assert macro is not None
    assert part is not None
    assert (macro.language, macro.path, macro.run.args) == ("python", "macro.py", ("--fast", "two words"))
    assert (dict(macro.run.env), macro.run.threads) == ({"OMP_NUM_THREADS": "2"}, 4)
    assert (part.path, part.run.mpi) == ("bin/part", 8)


def test_settings_dt_and_t_max_are_the_time_scale() -> None:
    model, notes = imported(NESTED)
    assert (model.instances["macro"].delta_s, model.instances["macro"].steps) == (0.5, 10)
    assert "the settings dt and t_max are taken for the time scale, in seconds" in notes


def test_custom_implementations_replace_and_remove_components() -> None:
    text = NESTED + "custom_implementations:\n  outer.sub.first: other\n  outer.macro:\n"
    model, _ = imported(text)
    assert list(model.instances) == ["sub_first", "sub_second"]
    assert model.instances["sub_first"].definition.id == "other"


def test_copies_are_coupled_through_mappers() -> None:
    model, notes = imported(NESTED.replace("implementation: inner", "implementation: inner\n        multiplicity: 5"))
    assert model.instances["sub_first"].multiplicity == 5
    assert {each.definition.class_ for each in model.instances.values() if each.kind == "mapper"} == {
        "gather",
        "scatter",
    }
    assert any("mapper" in note for note in notes)


def test_version_0_1_without_ports_assumes_operators() -> None:
    model, notes = imported(
        "ymmsl_version: v0.1\nmodel:\n  name: m\n  components: {a: pa, b: pb}\n  conduits: {a.x: b.y}\n"
    )
    assert model.instances["a"].ports["x"].operator == "Of"
    assert any("f_init and o_f are assumed" in note for note in notes)


@pytest.mark.parametrize(
    ("change", "message", "lines_above"),
    [
        (("sub.start\n", "sub.strt\n"), 'has no port "strt"', 0),
        (("sub.result: macro", "sub.result: makro"), 'no component "makro"', 0),
        (("sub.result: macro.answer", "sub.result: macro.state"), "belongs to o_i", 0),
        (("{o_i: state, s: answer}", "{o_o: state, s: answer}"), '"o_o" is no operator', 0),
        (("conduits:", "conduit:"), 'has no "conduit"', 0),
        (("{threads: 4}", "{threads: many}"), "threads must be a whole number", 0),
        (("v0.2", "v7"), 'version "v7" is not known', 0),
        (("sub.start\n", "lst sub.start\n"), 'no filter "lst"', 0),
        (("implementation: part", "implementation: inner"), "contains itself", 3),
    ],
)
def test_mistakes_have_their_place(change: tuple[str, str], message: str, lines_above: int) -> None:
    text = NESTED.replace(*change, 1)
    at = next(place for place, pair in enumerate(zip(text, NESTED, strict=False)) if pair[0] != pair[1])
    with pytest.raises(ModelError) as error:
        to_xmml(parse_ymmsl(text, "m.ymmsl"))
    problem = error.value.problems[0]
    assert message in problem.message
    assert problem.position is not None
    assert (problem.position.file, problem.position.line) == ("m.ymmsl", text.count("\n", 0, at) + 1 - lines_above)


def test_what_is_no_yaml_is_an_error_with_its_place() -> None:
    with pytest.raises(ModelError, match="not well-formed YAML"):
        parse_ymmsl(NESTED.replace("models:", "models: ["), "m.ymmsl")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "a: &a [x]\n" + "".join(f"{n}: *a\n" for n in range(2000)),
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(f"{n}: &{n} [{', '.join(['*' + p] * 10)}]\n" for p, n in PAIRS),
        "!!python/object/apply:os.system ['true']",
        "ymmsl_version: v0.2\nsettings: {a: &a [*a]}",
        "ymmsl_version: v0.2\nsettings: {a: " + "9" * 5000 + "}",
        "\x00",
        "",
        "- 1",
    ],
)  # fmt: skip
def test_hostile_files_are_refused(text: str) -> None:
    with pytest.raises(ModelError):
        to_xmml(parse_ymmsl(text, "m.ymmsl"))


def test_copies_and_kept_state_are_written(tmp_path: Path) -> None:
    model = model_of(TESTS / "models/carried_state/model.xmml")
    configuration: Any = ymmsl.load(to_ymmsl(model, "0.2").text)
    assert all("->" not in name for name in configuration.programs)


def test_a_ymmsl_file_can_become_a_cxa(tmp_path: Path) -> None:
    path = tmp_path / "m.ymmsl"
    path.write_text(NESTED)
    converted = convert(str(path), "cxa", is_ymmsl=True)
    assert "sub_first.couple(sub_second, 'result' => 'start')" in converted.text


def _values(components: Any) -> Any:
    return components.values() if hasattr(components, "values") else components


def test_a_model_without_document_is_written_too() -> None:
    model = replace(model_of(TESTS / "models/simple/model.xmml"), document=None)
    assert to_ymmsl(model, "0.2").text


def test_models_in_models_without_end_are_refused() -> None:
    levels = "".join(
        f"  m{level}:\n    components: {{a: {{implementation: {inner}}}, b: {{implementation: {inner}}}}}\n"
        for level, inner in enumerate(f"m{level + 1}" for level in range(30))
    )
    with pytest.raises(ModelError, match="more than 100000 components"):
        to_xmml(parse_ymmsl(f"ymmsl_version: v0.2\nmodels:\n{levels}", "m.ymmsl"))


def test_repeat_takes_its_factor_from_the_steps_of_the_caller() -> None:
    text = NESTED.replace("      sub.result: macro.answer", "      sub.result: repeat macro.answer")
    model, _ = imported(text)
    assert [each.factor for coupling in model.couplings for each in coupling.filters] == [10.0]


def test_a_thousand_components_are_converted_in_a_second(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(1000)]
    components = "".join(f"    {name}: {{ports: {{f_init: i, o_f: o}}, implementation: p}}\n" for name in names)
    conduits = "".join(f"    {one}.o: {two}.i\n" for one, two in pairwise(names))
    text = f"ymmsl_version: v0.1\nmodel:\n  name: m\n  components:\n{components}  conduits:\n{conduits}"
    model, _ = imported(text + "settings: {k: 1}\n")
    assert len(model.couplings) == 999


def test_a_submodel_and_a_mapper_of_the_same_id_stay_two_programs(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(
        """<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml"><definitions>
        <mapper id="A" type="fan-out"><ports><in id="i"/><out id="o"/></ports><implementation path="mapper"/></mapper>
        <submodel id="A"><timescale delta="1 s" total="1 s"/><ports><out id="o" operator="Of"/></ports>
        <implementation path="submodel"/></submodel></definitions><topology><instance id="a" submodel="A"/>
        <instance id="b" mapper="A"/><coupling from="a.o" to="b.i"/></topology></model>"""
    )
    programs: Any = ymmsl.load(to_ymmsl(model_of(path), "0.2").text).programs  # type: ignore[attr-defined]
    assert {str(each.executable) for each in programs.values()} == {"mapper", "submodel"}
