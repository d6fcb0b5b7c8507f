"""The checks: each error is found where it stands, once, with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmml.check import CheckResult, check
from xmml.problems import CODES, ModelError, render

CheckText = object


def found(result: CheckResult) -> list[tuple[str, int, int]]:
    return [(p.code, p.position.line, p.position.column) for p in result.problems if p.position is not None]


@pytest.mark.parametrize("name", ["reaction.xml", "canal.xml", "restenosis.xml"])
def test_a_sound_model_has_no_problems(documents: Path, name: str) -> None:
    result = check(documents / name)
    assert result.problems == ()
    assert result.model is not None


def test_every_reversed_coupling_of_the_canals_is_told_with_the_swap(documents: Path) -> None:
    result = check(documents / "canal_reversed.xml")
    assert result.model is None
    assert [code for code, _, _ in found(result)] == ["E06"] * 6
    assert [line for _, line, _ in found(result)] == [46, 48, 50, 52, 54, 56]
    assert result.problems[0].help == 'swap the two ends: from="e1.out" to="c1.left_in"'


def test_a_problem_is_rendered_with_line_caret_and_help(documents: Path) -> None:
    problem = check(documents / "canal_reversed.xml").problems[0]
    file = documents / "canal_reversed.xml"
    assert render(problem).splitlines() == [
        f"{file}:46:5: error[E06]: this coupling runs from an in port to an out port",
        '   46 |     <coupling from="c1.left_in" to="e1.out"/>',
        "      |               ^^^^ c1.left_in receives (operator S)",
        '   help: swap the two ends: from="e1.out" to="c1.left_in"',
    ]
    assert "\x1b[" in render(problem, colour=True)


def test_a_model_with_errors_raises_them(documents: Path) -> None:
    with pytest.raises(ModelError, match="E06"):
        check(documents / "canal_reversed.xml").model_or_raise()


CHANGES = [
    # what is changed, the code, line and column of what is told, a piece of message or help
    ("E02", 4, 30, [('init="yes"', 'init="maybe"')], 'known values: "no", "yes"'),
    ("E02", 9, 25, [('operator="Oi"', 'operator="OI"')], 'did you mean "Oi"'),
    ("E02", 8, 7, [("<ports>", "<prots>"), ("</ports>", "</prots>")], 'did you mean "ports"'),
    ("E02", 14, 5, [('<timescale delta="1 ms" total="1 s"/>', "")], "before <ports> (line 16)"),
    ("E02", 9, 9, [('<out id="state"', "<out")], 'lacks the attribute id="..."'),
    ("E02", 2, 22, [('xmml_version="0.4"', 'xmml_version="0.3"')], "reads xMML 0.4"),
    ("E02", 24, 47, [('submodel="Diffusion"/>', 'submodel="Diffusion" multiplicity="0"/>')], "positive whole number"),
    ("E02", 26, 15, [('from="macro.state"', 'from="macro[0].state"')], "exactly one dot"),
    ("E03", 24, 5, [(' submodel="Diffusion"/>', "/>")], "does not say what it is an instance of"),
    ("E03", 24, 26, [('submodel="Diffusion"/>', 'mapper="M" submodel="Diffusion"/>')], None),
    ("E04", 14, 15, [('<submodel id="Reaction">', '<submodel id="Diffusion">')], "the first one is in line 4"),
    ("E04", 25, 15, [('id="micro"', 'id="macro"')], "two instances"),
    ("E04", 10, 13, [('id="reacted"', 'id="state"')], "two ports"),
    ("E04", 7, 39, [('value="1e-9"/>', 'value="1"/><param id="D" value="2"/>')], "two parameters"),
    ("E05", 25, 26, [('submodel="Reaction"', 'submodel="Reactoin"')], 'did you mean "Reaction"'),
    ("E05", 25, 26, [('submodel="Reaction"', 'mapper="Reaction"')], 'write submodel="Reaction"'),
    ("E05", 26, 34, [('to="micro.start"', 'to="micro.strat"')], 'did you mean "start"'),
    ("E05", 26, 15, [('from="macro.state"', 'from="marco.state"')], 'did you mean "macro"'),
    ("E05", 26, 15, [('from="macro.state"', 'from="Diffusion.state"')], 'write from="macro.state"'),
    ("E05", 9, 39, [('operator="Oi"', 'operator="Oi" datatype="grid"')], "there is no datatype"),
    ("E05", 26, 58, [('to="micro.start"/>', 'to="micro.start"><apply filter="f"/></coupling>')], "there is no filter"),
    (
        "E06",
        26,
        5,
        [('from="macro.state" to="micro.start"', 'from="micro.start" to="macro.state"')],
        "swap the two ends",
    ),
    ("E06", 26, 5, [('to="micro.start"', 'to="micro.end"')], "the in ports of micro are: start"),
    ("E06", 26, 5, [('from="macro.state"', 'from="macro.reacted"')], "the out ports of macro are: state"),
    ("E07", 10, 26, [('operator="S"', 'operator="Of"')], "finit, S, B"),
    ("E07", 9, 25, [('operator="Oi"', 'operator="B"')], "Oi, Of"),
    ("E08", 10, 13, [(' operator="S"', "")], 'or "S" or "B" (in every step)'),
    ("E12", 28, 5, [("</topology>", '<coupling from="micro.end" to="micro.start"/></topology>')], None),
    (
        "E14",
        6,
        61,
        [('<spacescale id="x" delta="1 mm" total="10 cm"/>', '<spacescale id="x"/><spacescale id="x"/>')],
        None,
    ),
    ("E15", 5, 18, [('delta="1 s"', 'delta="1 h"')], 'did you mean "hr"'),
    ("E15", 5, 18, [('delta="1 s"', 'delta="1 m"')], "a quantity of time"),
    ("E15", 5, 18, [('delta="1 s"', 'delta="soon"')], "not a quantity"),
    ("E15", 20, 70, [('cores="1"', 'cores="1" memory="4 GiB"')], 'did you mean "GB"'),
    ("E16", 5, 18, [('delta="1 s"', 'delta="0 s"')], "positive"),
    ("E16", 5, 30, [('total="1 min"', 'total="1 ms"')], "less than delta"),
    (
        "E17",
        24,
        5,
        [('delta="1 s" total="1 min"/>', 'delta="1 s"><total type="fixed" max="1 hr"/></timescale>')],
        "fixed",
    ),
    ("E19", 26, 34, [('submodel="Reaction"/>', 'submodel="Reaction" multiplicity="8"/>')], "put a mapper"),
    ("W05", 24, 26, [("submodel=", 'submodell="x" submodel=')], 'did you mean "submodel"'),
    ("W09", 5, 44, [('total="1 min"/>', 'total="1 min"><delta min="1 s"/></timescale>')], "the attribute counts"),
    ("W10", 25, 49, [('submodel="Reaction"/>', 'submodel="Reaction"/><instance id="a.b" submodel="Reaction"/>')], None),
    ("E02", 20, 60, [('cores="1"', 'run:mpi="0"')], "whole number"),
    ("E02", 20, 60, [('cores="1"', 'cores="3" run:mpi="2" run:threads="2"')], "make 4"),
    ("E02", 11, 1, [("<implementation language", "<x/><implementation language")], None),
]


@pytest.mark.parametrize(("code", "line", "column", "changes", "text"), CHANGES)
def test_each_error_is_told_where_it_stands(check_changed, code, line, column, changes, text) -> None:  # type: ignore[no-untyped-def]
    result = check_changed(*changes)
    codes = [each for each in result.problems if each.code == code]
    assert len(codes) >= 1, [str(problem) for problem in result.problems]
    if text is not None:
        assert (code, line, column) in found(result), [str(problem) for problem in result.problems]
        assert any(text in f"{each.message} {each.help} {each.mark.note}" for each in codes), [
            str(each) for each in codes
        ]
    assert (result.model is None) == code.startswith("E")


DEFINITIONS = """
<datatype id="a" extends="b"/><datatype id="b" extends="c"/><datatype id="c" extends="a"/><datatype id="d" extends="e"/>
<filter id="f" type="reduction" factor="2*"/>
<terminal id="T" type="source"><ports><in id="x" operator="S"/></ports></terminal>
<mapper id="M" type="fan-in"><ports><in id="x"/><out id="y" operator="Oi"/><out id="z"/></ports></mapper>
<submodel id="A"><timescale/><otherscale delta="1 s" total="1 m"/><ports/></submodel>
"""


def test_definitions_are_checked_even_if_nothing_instantiates_them(check_parts) -> None:  # type: ignore[no-untyped-def]
    result = check_parts(DEFINITIONS, '<instance mapper="M" multiplicity="2" stateful="yes"/>')
    codes = sorted(problem.code for problem in result.problems if problem.code != "W03")
    assert codes == ["E09", "E09", "E10", "E11", "E13", "E13", "E15", "E18", "E18", "E20"]


def test_code_that_belongs_nowhere_is_an_error(check_parts) -> None:  # type: ignore[no-untyped-def]
    code = (
        '<code language="python" part="oi">pass</code><code language="python">pass</code><code language="r" part="x"/>'
    )
    definitions = f'<submodel id="A"><timescale/><ports/><implementation>{code}</implementation></submodel>'
    result = check_parts(definitions, "")
    assert [problem.code for problem in result.problems if problem.is_error] == ["E02", "E02"]
    assert result.problems[0].help == 'did you mean "Oi"?'


@pytest.mark.parametrize(
    ("copy", "code", "text"),
    [
        ('<run:copy index="1" param="p" value="2"/>', None, ""),
        ('<run:copy index="2" param="p" value="2"/>', "E22", "copies 0 to 1"),
        ('<run:copy index="one" param="p" value="2"/>', "E02", "copies count from 0"),
        ('<run:copy index="0" param="p"/>', "E02", "lacks the attribute value"),
        ('<run:cpy index="0" param="p" value="2"/>', "E02", "there is no element run:cpy"),
    ],
)
def test_parameters_of_single_copies_are_checked(check_parts, copy: str, code: str | None, text: str) -> None:  # type: ignore[no-untyped-def]
    submodel = '<submodel id="A"><timescale/><param id="p" value="1"/><ports/></submodel>'
    problems = check_parts(
        submodel, f'<instance submodel="A" multiplicity="2"><extra>{copy}</extra></instance>'
    ).problems
    assert [problem.code for problem in problems] == ([code] if code else [])
    assert all(text in f"{problem.message} {problem.help}" for problem in problems)


def test_a_coupling_that_names_an_id_with_a_dot_is_an_error_and_the_id_is_not_told_again(check_changed) -> None:  # type: ignore[no-untyped-def]
    result = check_changed(('id="macro"', 'id="macro.1"'), ("macro.state", "macro.1.state"), ("macro.re", "macro.1.re"))
    assert [problem.code for problem in result.problems] == ["E02", "E02"]
    assert "needs an id without dots" in result.problems[0].help


def test_what_several_name_and_is_not_there_is_told_once_with_all_places(check_changed) -> None:  # type: ignore[no-untyped-def]
    (problem,) = check_changed(
        ('<submodel id="Diffusion"', '<submodel id="Difusion"'),
        ('Reaction"/>', 'Diffusion"/>'),
        ("micro.start", "micro.state"),
        ("micro.end", "micro.state"),
    ).errors[:1]
    assert (problem.code, problem.help) == ("E05", 'did you mean "Difusion"?')
    assert problem.mark.note == "also in line 25"
    (problem,) = check_changed(('id="macro"', 'id="macor"')).problems
    assert (problem.code, problem.help, problem.mark.note) == ("E05", 'did you mean "macor"?', "also in line 27")


def test_all_problems_come_in_one_pass_in_the_order_of_the_text(check_changed) -> None:  # type: ignore[no-untyped-def]
    result = check_changed(
        ('delta="1 s"', 'delta="1 h"'),
        ('operator="S"', 'operator="Of"'),
        ("Reaction", "Raection"),
        ("macro.state", "micro.end"),
    )
    assert [problem.code for problem in result.problems] == ["E15", "E07", "W03", "E05"]


def test_no_problem_is_told_twice(documents: Path, check_text) -> None:  # type: ignore[no-untyped-def]
    for name in ("reaction.xml", "restenosis.xml"):
        text = (
            (documents / name).read_text().replace("operator=", "operatr=").replace('"S', '"Z').replace("10 ", "10 q")
        )
        problems = check_text(text).problems
        assert len({(problem.code, problem.position, problem.message) for problem in problems}) == len(problems)


def test_every_code_is_described(check_parts) -> None:  # type: ignore[no-untyped-def]
    result = check_parts(DEFINITIONS, '<instance mapper="M" multiplicity="2"/>')
    assert {problem.code for problem in result.problems} <= set(CODES)


def test_problems_are_plain_values_for_json(documents: Path) -> None:
    plain = check(documents / "canal_reversed.xml").problems[0].as_json()
    assert (plain["line"], plain["column"], plain["code"], plain["mark"]["column"]) == (46, 5, "E06", 15)


def test_control_characters_of_a_document_do_not_reach_the_terminal(check_changed) -> None:  # type: ignore[no-untyped-def]
    result = check_changed(('delta="1 s"', 'delta="\N{RIGHT-TO-LEFT OVERRIDE}\x9b31m"'))
    assert "\x9b" not in str(result.problems[0])
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in str(result.problems[0])


def test_long_lines_are_cut_around_the_mark(check_parts) -> None:  # type: ignore[no-untyped-def]
    padding = "".join(f'<datatype id="d{n}"/>' for n in range(100))
    result = check_parts(padding + '<datatype id="d1"/>', "")
    lines = str(result.problems[0]).splitlines()
    assert len(lines[1]) < 200
    assert lines[1][lines[2].index("^") :].startswith('id="d1"')


POOLED = (
    '<submodel id="A"><timescale delta="1 s" total="9 s"/><ports>\n<out id="o" {}/></ports></submodel>'
    '<submodel id="B"><timescale delta="1 s" total="9 s"/><ports>\n<in id="i" {}/></ports></submodel>'
)
INSTANCES = '<instance id="a" submodel="A"/><instance id="b" submodel="B"/>'


@pytest.mark.parametrize(
    ("setting", "codes"),
    [
        ('run:kind="pol"', ["E02"]),
        ('run:knd="pool"', ["E02"]),
        ('run:share="queue"', ["E33"]),
        ('run:select="true" run:loss="allowed"', ["E33", "E33"]),
        ("", ["E08", "E08"]),
        ('run:kind="message"', ["E08", "E08"]),
    ],
)
def test_a_coupling_that_lacks_only_its_kind_is_not_asked_for_operators(
    check_parts, setting: str, codes: list[str]
) -> None:  # type: ignore[no-untyped-def]
    result = check_parts(POOLED.format("", ""), f'{INSTANCES}<coupling from="a.o" to="b.i" {setting}/>')
    assert [each.code for each in result.problems if each.code.startswith("E")] == codes


@pytest.mark.parametrize("operator", ["", 'operator="S"', 'operater="S"'])
def test_that_pools_need_no_operators_is_said_where_both_ports_lack_them(check_parts, operator: str) -> None:  # type: ignore[no-untyped-def]
    result = check_parts(POOLED.format("", operator), f'{INSTANCES}\n<coupling from="a.o" to="b.i"/>')
    helps = [each.help for each in result.problems if each.code == "E08"]
    advice = '; or write run:kind="pool" on the coupling (line 9), whose ports need no operator'
    assert [each.endswith(advice) for each in helps] == {
        "": [True, True],
        'operator="S"': [False],
        'operater="S"': [False, False],
    }[operator]


SELECTED = (
    '<datatype id="field" run:attributes="step:int"/>'
    '<submodel id="A"><timescale/><ports><out id="o" {}/></ports></submodel>'
    '<submodel id="B"><timescale/><param id="every" value="2"/><ports><in id="i" datatype="field"/></ports></submodel>'
)
READERS = '<instance id="a" submodel="A"/><instance id="b" submodel="B"/><instance id="c" submodel="B"/>'


def selecting(reader: str, select: str) -> str:
    return f'<coupling from="a.o" to="{reader}.i" run:kind="pool" run:select="{select}"/>'


def test_a_datatype_that_only_the_writer_lacks_is_told_once(check_parts) -> None:  # type: ignore[no-untyped-def]
    topology = READERS + selecting("b", "step = 1") + selecting("c", "step % $every = 0")
    (error,) = [each for each in check_parts(SELECTED.format(""), topology).problems if each.is_error]
    assert (error.code, error.message) == ("E32", 'b.i has the datatype "field", a.o has none')
    assert "those of its writer" in error.help


@pytest.mark.parametrize(
    ("select", "told"),
    [("step % $every = 0", 'the parameter "every" of b is 0'), ("step % $index = 0", "$index of b is 0")],
)
def test_a_remainder_by_zero_names_what_is_zero(check_parts, select: str, told: str) -> None:  # type: ignore[no-untyped-def]
    definitions = SELECTED.format('datatype="field"')
    result = check_parts(definitions, READERS + selecting("b", select), overrides={"b.every": "0"})
    (error,) = [each for each in result.problems if each.is_error]
    assert "there is no remainder by zero" in error.message
    assert error.help == told
