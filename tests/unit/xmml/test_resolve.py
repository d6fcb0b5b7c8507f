"""From document to model: ids, scales, steps, start, factors, sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmml.check import check
from xmml.model import Endpoint, Model
from xmml.scales import Range, Scale
from xmml.units import parse

PORTED = "<submodel id='{id}' {attributes}><timescale delta='1 s' total='1 s'/><ports>{ports}</ports></submodel>"


def model_of(result) -> Model:  # type: ignore[no-untyped-def]
    assert result.model is not None, [str(problem) for problem in result.problems]
    return result.model  # type: ignore[no-any-return]


@pytest.fixture
def restenosis(documents: Path) -> Model:
    """The model of the artery."""
    return model_of(check(documents / "restenosis.xml"))


def test_an_instance_without_id_takes_that_of_its_definition(restenosis: Model) -> None:
    assert list(restenosis.instances) == ["START", "smc", "bf", "dd", "c2l"]
    assert restenosis.instances["START"].definition is restenosis.definitions["START"]


def test_couplings_have_ends_that_can_be_looked_up(restenosis: Model) -> None:
    coupling = restenosis.couplings[0]
    assert str(coupling) == "START.cells -> smc.initial"
    assert coupling.sender == Endpoint("START", "cells")
    assert restenosis.port(coupling.sender).operator == "Of"


def test_unnamed_scales_take_the_next_free_ids(check_parts) -> None:  # type: ignore[no-untyped-def]
    scales = (
        '<timescale/><spacescale/><spacescale id="x"/><spacescale/>'
        + "<spacescale/>" * 5
        + "<otherscale/><otherscale/>"
    )
    model = model_of(check_parts(f'<submodel id="A">{scales}<ports/></submodel>', '<instance submodel="A"/>'))
    assert [scale.id for scale in model.instances["A"].scales] == [
        "t",
        "y",
        "x",
        "z",
        "u",
        "v",
        "w",
        "s7",
        "s8",
        "a",
        "b",
    ]


def test_an_instance_overrides_single_fields_of_a_scale(documents: Path) -> None:
    model = model_of(check(documents / "canal.xml"))
    x = model.instances["c1"].spacescales[0]
    assert (x.delta, x.total) == (Range.of(parse("1 m")), Range.of(parse("3 km")))
    assert model.instances["c2"].spacescales[0].total == Range.of(parse("2 km"))


def test_unnamed_scales_of_an_instance_are_matched_by_place(check_parts) -> None:  # type: ignore[no-untyped-def]
    definition = (
        '<submodel id="A"><timescale delta="1 s" total="9 s"/>'
        '<spacescale id="p" delta="1 m"/><spacescale id="q" delta="2 m"/><ports/></submodel>'
    )
    instance = (
        '<instance submodel="A"><timescale id="mine" total="5 s"/>'
        '<spacescale total="3 m"/><spacescale id="q" total="8 m"/></instance>'
    )
    a = model_of(check_parts(definition, instance)).instances["A"]
    assert [(scale.id, scale.steps) for scale in a.scales] == [("t", 5), ("p", 3), ("q", 4)]


def test_a_fixed_range_is_filled_by_the_instance(check_parts) -> None:  # type: ignore[no-untyped-def]
    total = '<total type="fixed" min="1 s" max="1 hr"/>'
    definition = f'<submodel id="A"><timescale delta="1 s">{total}</timescale><ports/></submodel>'
    result = check_parts(definition, '<instance submodel="A"><timescale total="1 min"/></instance>')
    assert model_of(result).instances["A"].steps == 60


@pytest.mark.parametrize(
    ("total", "delta", "steps"),
    [
        ("1 s", "1 s", 1),
        ("3 s", "1 s", 3),
        ("2.5", "1", 3),
        ("0.4", "1", 0),
        ("0.35", "0.1", 4),
        ("1 yr", "10 min", 52560),
    ],
)
def test_steps_round_half_up(total: str, delta: str, steps: int) -> None:
    assert Scale("t", "time", Range.of(parse(delta)), Range.of(parse(total))).steps == steps


def test_the_mean_of_a_range_lies_between_its_bounds() -> None:
    assert Range(parse("1 s"), parse("3 s")).mean == parse("2 s")
    assert Range(None, parse("3 s")).mean == parse("3 s")
    assert Range(None, None).mean is None
    assert Scale("t", "time", Range(parse("1 s"), parse("3 s")), Range.of(parse("10 s"))).steps == 5
    assert Scale("t", "time", Range(None, parse("3 s")), Range.of(parse("10 s"))).steps is None


def test_at_least_one_iteration_is_made(check_parts) -> None:  # type: ignore[no-untyped-def]
    model = model_of(check_parts('<submodel id="A"><timescale/><ports/></submodel>', '<instance submodel="A"/>'))
    a = model.instances["A"]
    assert (a.steps, a.delta_s, a.total_s) == (1, None, None)


def test_a_submodel_that_decides_when_to_stop_has_its_total_as_bound(check_parts) -> None:  # type: ignore[no-untyped-def]
    definitions = "".join(
        f'<submodel id="{name}"><timescale delta="1 s" {total}/><ports/></submodel>'
        for name, total in (("A", 'total="7 s"'), ("B", ""))
    )
    topology = '<instance submodel="A" run:steps="until" run:order="free"/><instance submodel="B" run:steps="until"/>'
    model = model_of(check_parts(definitions, topology))
    assert [(each.until, each.steps, each.check_order) for each in model.instances.values()] == [
        (True, 7, False),
        (True, 0, True),
    ]


@pytest.mark.parametrize(
    ("definition", "instance", "init"),
    [
        (PORTED.format(id="A", attributes="", ports="<in id='i' operator='S'/>"), "", False),
        (PORTED.format(id="A", attributes="init='yes'", ports="<in id='i' operator='S'/>"), "", True),
        (PORTED.format(id="A", attributes="", ports="<out id='o' operator='Oi'/>"), "", True),
        (PORTED.format(id="A", attributes="init='yes'", ports=""), "init='no'", False),
    ],
)
def test_what_starts_at_initialisation(check_parts, definition, instance, init) -> None:  # type: ignore[no-untyped-def]
    assert model_of(check_parts(definition, f"<instance submodel='A' {instance}/>")).instances["A"].init is init


def test_state_and_interaction_come_from_the_definition_unless_given(restenosis: Model) -> None:
    assert restenosis.instances["bf"].stateful == "optional"
    assert restenosis.instances["smc"].stateful == "no"
    assert restenosis.instances["bf"].domain == "artery.blood"


def test_multiplicity_is_a_positive_integer_or_dynamic(check_changed) -> None:  # type: ignore[no-untyped-def]
    mapper = '<mapper id="M" type="fan-out"><ports><in id="i"/><out id="o"/></ports></mapper></definitions>'
    mappers = '<instance id="there" mapper="M"/><instance id="back" mapper="M"/>'
    for text, copies in (("8", 8), ("dynamic", "dynamic"), ("1", 1)):
        result = check_changed(
            ("</definitions>", mapper),
            ('submodel="Reaction"/>', f'submodel="Reaction" multiplicity="{text}"/>{mappers}'),
            ('to="micro.start"', 'to="there.i"'),
            ('from="micro.end" to="macro.reacted"', 'from="back.o" to="macro.reacted"'),
            (
                "</topology>",
                '<coupling from="there.o" to="micro.start"/><coupling from="micro.end" to="back.i"/></topology>',
            ),
        )
        micro = model_of(result).instances["micro"]
        assert (micro.multiplicity, micro.is_multiplied) == (copies, copies != 1)


def test_a_mapper_and_a_submodel_may_share_an_id(check_parts) -> None:  # type: ignore[no-untyped-def]
    definitions = (
        '<mapper id="A" type="fan-in"><ports><in id="i"/><out id="o"/></ports></mapper>'
        '<submodel id="A"><timescale/><ports/></submodel>'
    )
    model = model_of(check_parts(definitions, '<instance id="a" mapper="A"/><instance id="b" submodel="A"/>'))
    assert [each.kind for each in model.instances.values()] == ["mapper", "submodel"]
    assert set(model.definitions) == {"A", "mapper A"}


def test_the_factor_of_a_filter_is_worked_out_where_it_is_applied(restenosis: Model) -> None:
    applied = restenosis.couplings[-1].filters[0]
    assert (applied.definition.id, applied.factor, dict(applied.params)) == ("coarsen", 6.0, {"grain": "3"})
    assert applied.definition.builtin is None


def test_the_factor_of_a_coupling_wins_and_knows_the_sender(check_changed) -> None:  # type: ignore[no-untyped-def]
    result = check_changed(
        ("</definitions>", '<filter id="multiply" type="converter" factor="7"/></definitions>'),
        (
            'to="micro.start"/>',
            'to="micro.start"><apply filter="multiply" factor="x/5"/><apply filter="multiply"/></coupling>',
        ),
    )
    assert [(each.factor, each.definition.builtin) for each in model_of(result).couplings[0].filters] == [
        (20.0, "multiply"),
        (7.0, "multiply"),
    ]


def test_a_factor_without_a_value_is_an_error(check_changed) -> None:  # type: ignore[no-untyped-def]
    result = check_changed(
        ("</definitions>", '<filter id="drop" type="reduction" factor="k"/></definitions>'),
        ('to="micro.start"/>', 'to="micro.start"><apply filter="drop"/></coupling>'),
    )
    assert [problem.code for problem in result.problems] == ["E20"]
    assert '"k"' in result.problems[0].message


def test_sizes_of_messages_follow_the_scales_and_parameters_of_the_sender(restenosis: Model) -> None:
    sizes = {str(coupling): coupling.size_bytes for coupling in restenosis.couplings}
    assert sizes == {
        "START.cells -> smc.initial": 10e6,
        "smc.positions -> c2l.cells": 40_000,
        "c2l.flow_domain -> bf.domain": 40_000,
        "c2l.drug_domain -> dd.domain": 40_000,
        "bf.stress -> smc.stress": 80_000,
        "dd.concentration -> smc.drug": 55_112,
    }


def test_implementations_are_read_in_base_units(restenosis: Model) -> None:
    implementation = restenosis.definitions["CELLS"].implementation
    assert implementation is not None
    assert (implementation.memory_bytes, implementation.runtime_s, implementation.size_bytes, implementation.cores) == (
        2e9,
        600,
        1e6,
        8,
    )
    assert implementation.platforms[0].preferred
    assert implementation.libraries[0].name == "openmp"


def test_run_options_are_read_like_a_shell_does(documents: Path) -> None:
    model = model_of(check(documents / "reaction.xml"))
    implementation = model.definitions["Diffusion"].implementation
    assert implementation is not None
    assert implementation.run.args == ("--quiet", "--title", "two words")
    assert implementation.run.env == {"A": "1", "B": "2 3"}
    coupling = model.couplings[1]
    assert (coupling.capacity, coupling.methods, coupling.traffic_class) == (4, ("shm", "tcp"), "control")
    assert coupling.protect


def test_inline_code_knows_where_its_text_begins(check_parts) -> None:  # type: ignore[no-untyped-def]
    code = '<code language="python" part="Oi"><![CDATA[x = 1 < 2]]></code><code\n  language="python" part="Of">y</code>'
    definition = f'<submodel id="A"><timescale/><ports/><implementation>\n{code}</implementation></submodel>'
    model = model_of(check_parts(definition, '<instance submodel="A"/>'))
    implementation = model.definitions["A"].implementation
    assert implementation is not None
    first, second = implementation.codes
    assert (first.text, first.part) == ("x = 1 < 2", "Oi")
    assert first.position is not None
    assert (first.position.line, first.position.column) == (4, 44)
    assert second.position is not None
    assert (second.position.line, second.position.column) == (5, 31)


def test_a_model_cannot_be_changed(restenosis: Model) -> None:
    with pytest.raises(AttributeError):
        restenosis.id = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        restenosis.instances["smc"].params["n"] = "1"  # type: ignore[index]


def test_a_scale_of_two_dimensions_stands_for_x_and_y(check_parts) -> None:  # type: ignore[no-untyped-def]
    definitions = (
        '<datatype id="grid" size_estimate="x*y*sizeof(double)"/>'
        '<submodel id="A"><timescale/><spacescale dimensions="2" delta="1 mm" total="10 mm"/>'
        '<ports><out id="o" operator="Of" datatype="grid"/></ports></submodel>'
        '<submodel id="B"><timescale/><ports><in id="i" operator="finit"/></ports></submodel>'
    )
    topology = '<instance id="a" submodel="A"/><instance id="b" submodel="B"/><coupling from="a.o" to="b.i"/>'
    result = check_parts(definitions, topology)
    assert result.problems == ()
    assert result.model.couplings[0].size_bytes == 10 * 10 * 8
