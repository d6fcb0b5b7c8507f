"""Parameters: precedence of files and overrides, and what they can get wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmml.check import check
from xmml.problems import Problem

HEAD = '<parameters id="restenosis" xmlns="http://www.mapper-project.eu/xmml/param" xmlns:m="http://www.mapper-project.eu/xmml">'


def smc_n(documents: Path, tmp_path: Path, contents: str, **overrides: str) -> tuple[str, list[Problem]]:
    path = tmp_path / "parameters.xml"
    path.write_text(f"{HEAD}\n{contents}\n</parameters>")
    result = check(documents / "restenosis.xml", [path], {f"smc.{name}": value for name, value in overrides.items()})
    assert result.model is not None, [str(problem) for problem in result.problems]
    return result.model.instances["smc"].params["n"], list(result.problems)


GROUPS = [
    '<m:param id="n" value="2"/>',
    '<parameterGroup domain="artery"><m:param id="n" value="3"/></parameterGroup>',
    '<parameterGroup domain="artery.tissue"><m:param id="n" value="4"/></parameterGroup>',
    '<parameterGroup submodel="CELLS"><m:param id="n" value="5"/></parameterGroup>',
    '<parameterGroup instance="smc"><m:param id="n" value="6"/></parameterGroup>',
]


@pytest.mark.parametrize("count", range(1, 6))
def test_the_more_specific_group_wins_in_any_order(documents: Path, tmp_path: Path, count: int) -> None:
    for order in (1, -1):
        value, problems = smc_n(documents, tmp_path, "".join(GROUPS[:count][::order]))
        assert (value, problems) == (str(count + 1), [])


def test_a_whole_file_is_read_with_filters(documents: Path) -> None:
    result = check(documents / "restenosis.xml", [documents / "restenosis_parameters.xml"])
    assert result.problems == ()
    assert result.model is not None
    assert result.model.instances["smc"].params["n"] == "6"
    assert result.model.couplings[-1].filters[0].factor == 10.0


def test_the_command_line_wins_over_files(documents: Path, tmp_path: Path) -> None:
    assert smc_n(documents, tmp_path, "".join(GROUPS), n="7") == ("7", [])


def test_an_instance_wins_over_its_definition_and_a_file_over_both(documents: Path, tmp_path: Path) -> None:
    text = (documents / "restenosis.xml").read_text()
    text = text.replace('domain="artery.tissue"/>', 'domain="artery.tissue"><param id="n" value="1"/></instance>', 1)
    model = tmp_path / "model.xml"
    model.write_text(text)
    result = check(model)
    assert result.model is not None
    assert result.model.instances["smc"].params["n"] == "1"
    parameters = tmp_path / "p.xml"
    parameters.write_text(f"{HEAD}{GROUPS[0]}</parameters>")
    result = check(model, [parameters])
    assert result.model is not None
    assert result.model.instances["smc"].params["n"] == "2"


def test_nested_groups_apply_where_all_selectors_do(documents: Path, tmp_path: Path) -> None:
    inner = '<parameterGroup domain="{}"><m:param id="n" value="9"/></parameterGroup>'
    for domain, value in (("artery.tissue", "9"), ("artery.blood", "1000")):
        nested = f'<parameterGroup submodel="CELLS">{inner.format(domain)}</parameterGroup>'
        assert smc_n(documents, tmp_path, nested)[0] == value


def test_a_group_with_only_an_id_applies_where_it_is_included(documents: Path, tmp_path: Path) -> None:
    group = '<parameterGroup id="g"><m:param id="n" value="9"/></parameterGroup>'
    assert smc_n(documents, tmp_path, group)[0] == "1000"
    include = '<parameterGroup instance="smc"><include parameterGroup="g"/></parameterGroup>'
    assert smc_n(documents, tmp_path, include + group)[0] == "9"


@pytest.mark.parametrize(
    ("contents", "code", "text"),
    [
        (
            '<parameterGroup id="g"><include parameterGroup="g"/></parameterGroup><include parameterGroup="g"/>',
            "E22",
            "includes itself",
        ),
        ('<include parameterGroup="g"/>', "E05", "no parameter group"),
        ('<parameterGroup id="g"/><parameterGroup id="g"/>', "E04", "two parameter groups"),
        ('<m:param id="n" value="1"/><m:param id="n" value="2"/>', "E04", "two parameters"),
        ("<parameter/>", "E02", "no element <parameter>"),
    ],
)
def test_what_a_file_gets_wrong_is_told(documents: Path, tmp_path: Path, contents: str, code: str, text: str) -> None:
    path = tmp_path / "parameters.xml"
    path.write_text(f"{HEAD}{contents}</parameters>")
    result = check(documents / "restenosis.xml", [path])
    assert [problem.code for problem in result.problems] == [code]
    assert text in result.problems[0].message
    assert str(result.problems[0].position).startswith(str(path))


def test_parameters_of_another_model_are_refused(documents: Path, tmp_path: Path) -> None:
    path = tmp_path / "parameters.xml"
    path.write_text(f"{HEAD}</parameters>".replace("restenosis", "other"))
    assert [problem.code for problem in check(documents / "restenosis.xml", [path]).problems] == ["E22"]


@pytest.mark.parametrize(
    "contents",
    [
        '<parameterGroup instance="smcc"><m:param id="n" value="1"/></parameterGroup>',
        '<parameterGroup instance="smc"><m:param id="m" value="1"/></parameterGroup>',
        '<parameterGroup domain="vein"><m:param id="n" value="1"/></parameterGroup>',
        '<m:param id="m" value="1"/>',
    ],
)
def test_what_fits_nothing_is_a_warning(documents: Path, tmp_path: Path, contents: str) -> None:
    _, problems = smc_n(documents, tmp_path, contents)
    assert [problem.code for problem in problems] == ["W13"]


def test_an_override_without_index_is_for_all_copies(check_changed) -> None:  # type: ignore[no-untyped-def]
    declared = '<timescale delta="1 ms" total="1 s"/>'
    text = {"micro.k": "1", "micro[0].k": "2", "macro.D": "3"}
    result = check_changed((declared, f'{declared}<param id="k" value="0"/>'), overrides=text)
    assert result.model is not None
    micro = result.model.instances["micro"]
    assert (dict(micro.params), {copy: dict(params) for copy, params in micro.copy_params.items()}) == (
        {"k": "1"},
        {0: {"k": "2"}},
    )
    assert result.model.instances["macro"].params == {"D": "3"}
    assert result.problems == ()


@pytest.mark.parametrize(
    ("key", "code", "text"),
    [
        ("macroo.D", "E05", 'did you mean "macro"'),
        ("macro", "E22", "INSTANCE.PARAMETER"),
        (".D", "E22", "INSTANCE.PARAMETER"),
        ("macro[1].D", "E22", "it has one copy"),
        ("macro.d", "E22", '"D"'),
    ],
)
def test_overrides_that_fit_nothing_are_told(documents: Path, key: str, code: str, text: str) -> None:
    problems = check(documents / "reaction.xml", overrides={key: "1"}).problems
    assert [problem.code for problem in problems] == [code]
    assert text in f"{problems[0].message} {problems[0].help}"
