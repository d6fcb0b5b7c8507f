"""Documents that would cost endless time or memory are refused with a word of why, or handled within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bounds import bounded_memory, bounded_time
from inputs import HEAD, XINCLUDE, XMML
from wan.soak import LONG

from xmml import tree
from xmml.check import CheckResult, check
from xmml.convert.ymmsl_import import ymmsl_to_xmml
from xmml.problems import ModelError

Check = Callable[..., CheckResult]

SUBMODELS = """<definitions>
<submodel id="A"><timescale delta="1 s" total="{total}"/>
<ports><out id="o" operator="Oi"/><in id="i" operator="S"/></ports></submodel>
<submodel id="B"><timescale delta="1 ms" total="{total_b}"/>
<ports><in id="start" operator="finit"/><out id="end" operator="Of"/></ports></submodel>
<mapper id="M" type="fan-out"><ports><in id="i"/><out id="o"/></ports></mapper>{more}
</definitions>"""


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[Check]:
    """Check a document given as text or bytes, within bounds of time and memory."""

    def run(document: str | bytes, **options: object) -> CheckResult:
        path = tmp_path / "model.xml"
        path.write_bytes(document if isinstance(document, bytes) else document.encode())
        with bounded_time():
            return check(path, **options)  # type: ignore[arg-type]

    with bounded_memory():
        yield run


def model(topology: str, more: str = "", total: str = "3 s", total_b: str = "3 ms") -> str:
    """Return a model with an interacting submodel A, a called one B and a fan-out mapper M."""
    definitions = SUBMODELS.format(more=more, total=total, total_b=total_b)
    return f"{HEAD}{definitions}<topology>{topology}</topology></model>"


def messages(result: CheckResult) -> list[str]:
    """Return what the errors say, each with its code."""
    return [f"{problem.code}: {problem.message}" for problem in result.errors]


PAIR = '<instance id="a" submodel="A" init="yes"/><instance id="b" submodel="B"/>'
PAIR += '<coupling from="a.o" to="b.start"/><coupling from="b.end" to="a.i"/>'


# -- XML


LEVELS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 13))


@pytest.mark.parametrize(
    ("entities", "used"),
    [
        (f'<!ENTITY e0 "aaaaaaaaaa">{LEVELS}', "<description>&e12;</description>"),
        (f'<!ENTITY e0 "<b/>">{LEVELS}', "<extra>&e12;</extra>"),
        (f'<!ENTITY e0 "">{LEVELS}', "<description>&e12;</description>"),
        (f'<!ENTITY e0 "aaaaaaaaaa">{LEVELS}', '<extra a="&e12;"/>'),
        (f'<!ENTITY e "{"x" * 1000}">', f"<description>{'&e;' * 1000}</description>"),
    ],
    ids=["text", "elements", "nothing", "attribute", "long"],
)
def test_entities_that_multiply_are_refused(checked: Check, entities: str, used: str) -> None:
    (told,) = messages(checked(f"<!DOCTYPE model [{entities}]>{HEAD}{used}</model>"))
    assert "entities blow this document up" in told or "amplification" in told


def test_an_entity_that_holds_itself_is_refused(checked: Check) -> None:
    document = f'<!DOCTYPE model [<!ENTITY a "&b;"><!ENTITY b "&a;">]>{HEAD}<description>&a;</description></model>'
    assert messages(checked(document)) == ["E01: not well-formed XML: recursive entity reference"]


@pytest.mark.parametrize("closed", [True, False])
def test_a_hundred_thousand_levels_are_refused(checked: Check, closed: bool) -> None:
    document = HEAD + "<extra>" * 100_000 + ("</extra>" * 100_000 + "</model>" if closed else "")
    assert messages(checked(document)) == ["E01: elements are nested more than 64 deep"]


def test_levels_that_includes_add_up_are_refused(checked: Check, tmp_path: Path) -> None:
    for number in range(4):
        inner = f'<xi:include href="part{number + 1}.xml"/>' if number < 3 else ""
        text = "<extra>" * 40 + inner + "</extra>" * 40
        text = text.replace("<extra>", f'<extra xmlns="{XMML}" xmlns:xi="{XINCLUDE}">', 1)
        (tmp_path / f"part{number}.xml").write_text(text)
    result = checked(f'{HEAD}<xi:include href="part0.xml"/></model>')
    assert messages(result) == ["E01: with what is included, elements are nested more than 64 deep"]


def test_a_hundred_megabytes_are_refused(checked: Check, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    with open(path, "wb") as file:
        file.truncate(100 * 1024 * 1024)
    with bounded_time():
        assert messages(check(path)) == ["E01: cannot read the document: it is larger than 64 MiB"]


def test_more_elements_than_a_million_are_refused(checked: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tree.MAX_ELEMENTS == 1_000_000
    if not LONG:
        monkeypatch.setattr(tree, "MAX_ELEMENTS", 10_000)
    document = f"{HEAD}<extra>{'<a/>' * (tree.MAX_ELEMENTS + 1)}</extra></model>"
    assert messages(checked(document)) == [f"E01: the document has more than {tree.MAX_ELEMENTS} elements"]


def test_a_thousand_attributes_too_many_are_refused(checked: Check) -> None:
    attributes = " ".join(f'a{number}="1"' for number in range(2000))
    assert messages(checked(f"{HEAD}<extra {attributes}/></model>")) == [
        "E01: an element has more than 1000 attributes"
    ]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\xff\xff\xff", "the file is not utf-8 text (byte 0 cannot be decoded)"),
        (b"\xfe\xff\xd8\x00", "the file is not utf-16-be text (byte 0 cannot be decoded)"),
        (b'<?xml version="1.0" encoding="klingon"?><model/>', 'the encoding "klingon" is not supported'),
        (b'<?xml version="1.0" encoding="utf-7"?><model/>', 'the encoding "utf-7" is not supported'),
        (b"<model>\x00</model>", "not well-formed XML: invalid token"),
        (b"<model>&#0;</model>", "not well-formed XML: reference to invalid character number"),
        (b"\x00" * 1000, "not well-formed XML: invalid token"),
        (b"", "not well-formed XML: no element found"),
    ],
)
def test_what_is_no_text_is_refused(checked: Check, data: bytes, told: str) -> None:
    assert messages(checked(data)) == [f"E01: {told}"]


def test_ten_thousand_mistakes_are_told_up_to_a_bound(checked: Check) -> None:
    wrong = '<instance id="a" submodel="none"/>' * 10_000
    result = checked(model(wrong))
    assert 2000 <= len(result.errors) <= 6000


# -- includes and parameter files


def test_files_that_include_each_other_are_refused(checked: Check, tmp_path: Path) -> None:
    (tmp_path / "one.xml").write_text(f'<a xmlns:xi="{XINCLUDE}"><xi:include href="two.xml"/></a>')
    (tmp_path / "two.xml").write_text(f'<a xmlns:xi="{XINCLUDE}"><xi:include href="one.xml"/></a>')
    (told,) = messages(checked(f'{HEAD}<xi:include href="one.xml"/></model>'))
    assert told.endswith('includes "one.xml" includes "two.xml" includes "one.xml"')


def test_includes_that_multiply_are_refused(checked: Check, tmp_path: Path) -> None:
    for number in range(8):
        inner = f'<xi:include href="part{number + 1}.xml"/>' * 10
        (tmp_path / f"part{number}.xml").write_text(f'<a xmlns:xi="{XINCLUDE}">{inner}</a>')
    (tmp_path / "part8.xml").write_text("<a/>")
    told = messages(checked(f'{HEAD}<xi:include href="part0.xml"/></model>'))
    assert "E01: the document makes more than 1000 inclusions" in told


def test_an_included_file_whose_name_holds_nul_is_refused(checked: Check) -> None:
    told = messages(checked(f'{HEAD}<xi:include href="a%00b.xml"/></model>'))
    assert told == ["E01: the name of this file holds the character NUL"]


def test_a_parameter_group_that_includes_itself_is_refused(checked: Check, tmp_path: Path) -> None:
    path = tmp_path / "parameters.xml"
    groups = '<parameterGroup id="g"><include parameterGroup="h"/></parameterGroup>'
    groups += '<parameterGroup id="h"><include parameterGroup="g"/></parameterGroup><include parameterGroup="g"/>'
    path.write_text(f'<parameters id="m" xmlns="{XMML}/param">{groups}</parameters>')
    told = messages(checked(model(PAIR), parameter_files=[path]))
    assert 'E22: the group "g" includes itself' in told


def test_parameter_groups_whose_includes_multiply_are_refused(checked: Check, tmp_path: Path) -> None:
    path = tmp_path / "parameters.xml"
    groups = "".join(
        f'<parameterGroup id="g{number}">{f"""<include parameterGroup="g{number + 1}"/>""" * 10}</parameterGroup>'
        for number in range(10)
    )
    groups += f'<parameterGroup id="g10"><x:param xmlns:x="{XMML}" id="k" value="1"/></parameterGroup>'
    path.write_text(f'<parameters id="m" xmlns="{XMML}/param">{groups}<include parameterGroup="g0"/></parameters>')
    told = messages(checked(model(PAIR), parameter_files=[path]))
    assert "E22: these parameters make more than 10000 inclusions" in told


# -- numbers


@pytest.mark.parametrize("digits", [30, 1000, 100_000])
def test_integers_of_many_digits_are_refused(checked: Check, digits: int) -> None:
    number = "9" * digits
    definition = f'<implementation cores="{number}"/>'
    told = messages(checked(model(PAIR.replace('init="yes"', f'multiplicity="{number}"'))))
    assert told[0].startswith('E02: multiplicity="999')
    text = model(PAIR).replace("</ports></submodel>", f"</ports>{definition}</submodel>", 1)
    assert messages(checked(text))[0].startswith('E15: cores="999')
    text = model(PAIR).replace('to="b.start"', f'to="b.start" run:capacity="{number}"')
    assert messages(checked(text))[0].startswith('E02: run:capacity="999')
    text = model(PAIR).replace('total="3 s"', f'total="{number} s"')
    told = messages(checked(text))
    assert any(each.startswith(("E15: total:", 'E27: "a" would make more than 10^18 iterations')) for each in told)


def test_leading_zeros_without_end_are_read(checked: Check) -> None:
    assert checked(model(PAIR.replace('id="b"', f'id="b" multiplicity="{"0" * 100_000}1"'))).model is not None


@pytest.mark.parametrize(("delta", "total"), [("1e-300 s", "1e300 s"), ("1e-270 ys", "1e270 Ys")])
def test_more_iterations_than_can_be_made_are_refused(checked: Check, delta: str, total: str) -> None:
    told = messages(checked(model(PAIR).replace('delta="1 s" total="3 s"', f'delta="{delta}" total="{total}"')))
    assert told[0].startswith('E27: "a" would make more than 10^18 iterations: 1 runs of about 10^')


def test_iterations_that_multiply_along_calls_are_refused(checked: Check) -> None:
    submodels = "".join(
        f'<submodel id="S{n}"><timescale delta="1 s" total="1e17 s"/><ports><in id="start" operator="finit"/>'
        '<out id="call" operator="Oi"/><in id="back" operator="S"/><out id="end" operator="Of"/></ports></submodel>'
        for n in range(400)
    )
    instances = "".join(f'<instance id="s{n}" submodel="S{n}"/>' for n in range(400))
    couplings = "".join(
        f'<coupling from="s{n}.call" to="s{n + 1}.start"/><coupling from="s{n + 1}.end" to="s{n}.back"/>'
        for n in range(399)
    )
    told = messages(checked(model(instances + couplings, submodels)))
    assert told[0].startswith('E27: "s1" would make more than 10^18 iterations')


def test_scales_in_space_of_any_size_are_read(checked: Check) -> None:
    scale = '<spacescale id="x" delta="1e-300 m" total="1e300 m"/>'
    text = model(PAIR).replace("<definitions>", '<definitions><datatype id="d" size_estimate="8*x"/>')
    text = text.replace('total="3 s"/>', f'total="3 s"/>{scale}', 1)
    text = text.replace('<out id="o" operator="Oi"/>', '<out id="o" operator="Oi" datatype="d"/>', 1)
    assert checked(text).model is not None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("0 s", "E16: delta must be positive"),
        ("-1 s", "E16: delta must be positive"),
        ("1e301 s", 'E15: delta: "1e301 s" is out of range'),
        ("1e999999999 s", 'E15: delta: "1e999999999 s" is out of range'),
        ("1e-999999999 s", 'E15: delta: "1e-999999999 s" is out of range'),
    ],
)
def test_impossible_steps_are_refused(checked: Check, value: str, told: str) -> None:
    assert told in messages(checked(model(PAIR).replace('delta="1 s"', f'delta="{value}"', 1)))


def test_an_endless_run_time_is_refused(checked: Check) -> None:
    text = model(PAIR).replace("</ports></submodel>", '</ports><implementation runtime="1e300 s"/></submodel>', 1)
    assert messages(checked(text)) == ['E27: a run time of "1e300 s" is more than three hundred years']


def test_a_thousand_million_copies_are_refused_before_any_is_made(checked: Check) -> None:
    text = model(PAIR.replace('id="b" submodel', 'id="b" multiplicity="999999999" submodel'))
    assert "E27: with this instance there are 1000000000 instances and copies; at most 100000 are possible" in messages(
        checked(text)
    )


def test_conduits_that_multiply_are_refused_before_any_is_made(checked: Check) -> None:
    text = model(PAIR.replace('init="yes"', 'multiplicity="30000"').replace('id="b"', 'id="b" multiplicity="30000"'))
    assert "E27: with this coupling there are 900000000 conduits; at most 1000000 are possible" in messages(
        checked(text)
    )


# -- shapes


def test_very_many_couplings_from_one_port_are_handled(checked: Check) -> None:
    number_of = 100_000 if LONG else 10_000
    ports = "".join(f'<in id="i{number}" operator="S"/>' for number in range(number_of))
    submodel = f'<submodel id="C"><timescale delta="1 s" total="3 s"/><ports>{ports}</ports></submodel>'
    couplings = "".join(f'<coupling from="a.o" to="c.i{number}"/>' for number in range(number_of))
    text = model(f'<instance id="a" submodel="A"/><instance id="c" submodel="C"/>{couplings}', submodel)
    result = checked(text)
    assert result.errors == ()
    assert any(each.message.startswith(f"a.o sends to {number_of} receivers: c.i0, ") for each in result.problems)


@pytest.mark.parametrize("length", [1, 2, 5000])
def test_datatypes_that_extend_each_other_in_a_circle_are_refused(checked: Check, length: int) -> None:
    datatypes = "".join(f'<datatype id="d{n}" extends="d{(n + 1) % length}"/>' for n in range(length))
    told = messages(checked(model(PAIR).replace("<definitions>", f"<definitions>{datatypes}")))
    assert told
    assert all(each.startswith("E13: ") for each in told)


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("(" * 10_000 + "1" + ")" * 10_000, "the formula is longer than 10000 characters"),
        ("(" * 150 + "1" + ")" * 150, "the formula is nested too deep"),
        ("-" * 9_999 + "1", "the formula has more than 400 parts"),
        ("1" + "^2" * 4_000, "the formula has more than 400 parts"),
    ],
)
def test_formulas_without_end_are_refused(checked: Check, formula: str, told: str) -> None:
    datatype = f'<datatype id="d" size_estimate="{formula}"/>'
    (problem,) = messages(checked(model(PAIR).replace("<definitions>", f"<definitions>{datatype}")))
    assert problem.startswith("E20: ")
    assert problem.endswith(told)


@pytest.mark.parametrize("code", ["(" * 10_000, "-" * 100_000 + "1", "[" * 150 + "]" * 150, "if 1:\n" * 5_000])
def test_inline_code_without_end_is_refused(checked: Check, code: str) -> None:
    implementation = f'<implementation><code language="python" part="Oi"><![CDATA[{code}]]></code></implementation>'
    text = model(PAIR).replace("</ports></submodel>", f"</ports>{implementation}</submodel>", 1)
    assert all(each.startswith("E26: ") for each in messages(checked(text)))


# -- yMMSL


def test_yaml_whose_aliases_multiply_is_refused(tmp_path: Path) -> None:
    anchors = "\n".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(12))
    problems = imported(tmp_path, f"ymmsl_version: v0.2\nsettings:\n  a0: &a0 1\n{anchors}\n")
    assert problems
    assert all(problem.startswith(("Y01", "Y02")) for problem in problems)


def test_yaml_nested_without_end_is_refused(tmp_path: Path) -> None:
    text = "ymmsl_version: v0.2\nsettings: " + "[" * 100_000
    assert imported(tmp_path, text) == ["Y01: nested more than 32 deep"]


def test_yaml_of_a_hundred_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.ymmsl"
    with open(path, "wb") as file:
        file.truncate(100 * 1024 * 1024)
    with pytest.raises(ModelError, match="it is larger than 64 MiB"):
        ymmsl_to_xmml(path)


def imported(folder: Path, text: str) -> list[str]:
    """Return what is wrong with a yMMSL text, within bounds of time and memory."""
    path = folder / "model.ymmsl"
    path.write_text(text)
    with bounded_memory(), bounded_time(), pytest.raises(ModelError) as caught:
        ymmsl_to_xmml(path)
    return [f"{problem.code}: {problem.message}" for problem in caught.value.problems]
