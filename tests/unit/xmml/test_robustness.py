"""Whatever a file holds, checking it gives problems or a model: no traceback, no hang. Random changes: tests/fuzz."""

from __future__ import annotations

from pathlib import Path

import pytest
from bounds import bounded_time
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xmml.check import check
from xmml.problems import CODES, render_all


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_give_problems_and_nothing_else(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.xml"
    path.write_bytes(data)
    result = check(path)
    assert result.model is not None or result.errors
    assert {problem.code for problem in result.problems} <= set(CODES)
    assert render_all(result.problems, colour=True) or not result.problems


def test_a_large_model_is_checked_with_and_without_problems(tmp_path: Path) -> None:
    instances = "".join(f'<instance id="a{n}" submodel="A"/>\n' for n in range(2000))
    couplings = "".join(f'<coupling from="a{n}.o" to="a{n + 1}.i"/>\n' for n in range(1999))
    text = (
        '<model id="m" xmlns="http://www.mapper-project.eu/xmml"><definitions><submodel id="A">'
        '<timescale delta="1 s" total="9 s"/>'
        '<ports><in id="i" operator="S"/><out id="o" operator="Oi"/></ports></submodel></definitions>'
        f"<topology>{instances}{couplings}</topology></model>"
    )
    path = tmp_path / "model.xml"
    path.write_text(text)
    with bounded_time():
        assert check(path).problems == ()
    path.write_text(text.replace('.i"', '.j"'))
    with bounded_time():
        assert len(check(path).problems) == 1999


ENDLESS = {
    "version": ('xmml_version="0.4"', f'xmml_version="{"1.1" * 30_000}!"'),
    "domain": ('id="macro"', f'id="macro" domain="{"a.a" * 100_000}!"'),
    "digits": ('delta="1 s"', f'delta="{"1" * 1_000_000} s"'),
    "blanks": ('delta="1 s"', f'delta="1{" " * 1_000_000}!"'),
    "letters": ('delta="1 s"', f'delta="1 {"a" * 1_000_000}!"'),
    "dots": ('from="macro.state"', f'from="{"a." * 1_000_000}"'),
    "port": ('from="macro.state"', f'from="macro.state{" " * 300_000}x"'),
    "reference": ('submodel="Reaction"', f'submodel="{"ab" * 100_000}"'),
    "formula": ("</definitions>", f'<filter id="f" type="reduction" factor="{"(" * 1_000_000}"/></definitions>'),
    "methods": ('run:methods="shm', f'run:methods="{"tcp," * 30_000}shm'),
    "copies": ('id="macro"', f'id="macro" multiplicity="{"9" * 1_000_000}"'),
    "attributes": ('id="macro"', 'id="macro" ' + " ".join(f'a{n}="1"' for n in range(20_000))),
    "namespaces": ('id="macro"', 'id="macro" ' + " ".join(f'xmlns:a{n}="u{n}" a{n}:x="1"' for n in range(5_000))),
    "problems": ("</definitions>", '<datatype id="d"/>' * 5_000 + "</definitions>"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_values_are_refused_in_few_words(documents: Path, tmp_path: Path, name: str) -> None:
    old, new = ENDLESS[name]
    path = tmp_path / "model.xml"
    path.write_text((documents / "reaction.xml").read_text().replace(old, new, 1))
    with bounded_time():
        result = check(path)
    assert result.errors
    assert all(len(str(problem)) < 3000 for problem in result.problems)


@pytest.mark.parametrize(("length", "told"), [(100, 5), (90_000, 1)])
def test_code_is_compiled_as_long_as_that_is_bearable(tmp_path: Path, length: int, told: int) -> None:
    code = f'<code language="python" part="Oi">={"#" * length}</code>'
    submodels = "".join(
        f'<submodel id="A{n}"><timescale delta="1 s" total="9 s"/><implementation>{code}</implementation></submodel>'
        for n in range(5)
    )
    path = tmp_path / "model.xml"
    path.write_text(
        f'<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml"><definitions>{submodels}'
        '</definitions><topology><instance id="a" submodel="A0"/></topology></model>'
    )
    assert [problem.code for problem in check(path).errors].count("E26") == told
