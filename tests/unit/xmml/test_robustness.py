"""Whatever a file holds, checking it gives problems or a model: no traceback, no hang."""

from __future__ import annotations

import copy
import random
import re
import time
from pathlib import Path

import pytest
import xmml_schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from xmml.check import check
from xmml.problems import CODES, render_all
from xmml.serialise import to_json, to_xml

NAMES = ["canal.xml", "restenosis.xml", "reaction.xml"]
TOKEN = re.compile(r'<!?/?[\w:]+|/?>|[\w:-]+=|"[^"]*"|[^<>"\s]+|\s+')


def survives(path: Path, parameters: Path | None = None) -> None:
    started = time.monotonic()
    result = check(path, [parameters] if parameters else [], {"c1.x": "1"})
    assert time.monotonic() - started < 10
    assert result.model is not None or result.errors
    assert {problem.code for problem in result.problems} <= set(CODES)
    assert render_all(result.problems, colour=True) or not result.problems
    if result.model is not None:
        to_xml(result.model)
        to_json(result.model)


def mutated(text: str, rng: random.Random) -> str:
    """Return the text with some of its tokens dropped, doubled, swapped or replaced."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.randint(1, 6)):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(6):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = tokens[other]
            case 4:
                quoted = [place for place, token in enumerate(tokens) if token.startswith('"')]
                if len(quoted) > 1:
                    tokens[rng.choice(quoted)] = rng.choice(
                        ['""', '"0"', '"-1"', '"é.ü"', '"1e400 s"', tokens[rng.choice(quoted)]]
                    )
            case 5:
                start = rng.randrange(len(tokens))
                tokens[at:at] = tokens[start : start + rng.randint(1, 30)]
    return "".join(tokens)


def restructured(text: str, rng: random.Random) -> str:
    """Return the document, still well-formed, with elements and attributes dropped, doubled, moved or replaced."""
    root = etree.fromstring(text.encode())
    values = [value for element in root.iter("*") for value in element.attrib.values()]
    for _ in range(rng.randint(1, 4)):
        elements = list(root.iter("*"))
        element, other = rng.choice(elements), rng.choice(elements)
        parent = element.getparent()
        match rng.randrange(6):
            case 0 if parent is not None:
                parent.remove(element)
            case 1 if parent is not None:
                parent.insert(rng.randint(0, len(parent)), copy.deepcopy(element))
            case 2:
                other.append(copy.deepcopy(element))
            case 3 | 4 if element.attrib:
                element.set(
                    rng.choice(list(element.attrib)), rng.choice([*values, "", "0", "-1", "\u00e9.\u00fc", "1e400 s"])
                )
            case _:
                element.set(
                    rng.choice(["id", "operator", "delta", "multiplicity", "factor", "spare"]), rng.choice(values)
                )
    return str(etree.tostring(root, encoding="unicode"))


@pytest.mark.parametrize("name", NAMES)
def test_restructured_documents_give_problems_and_nothing_else(documents: Path, tmp_path: Path, name: str) -> None:
    text = (documents / name).read_text()
    (tmp_path / "canal_metadata.xml").write_text((documents / "canal_metadata.xml").read_text())
    rng = random.Random(name)
    path = tmp_path / "model.xml"
    for _ in range(100):
        path.write_text(restructured(text, rng))
        survives(path)


@pytest.mark.parametrize("name", NAMES)
def test_mutated_documents_give_problems_and_nothing_else(documents: Path, tmp_path: Path, name: str) -> None:
    text = (documents / name).read_text()
    (tmp_path / "canal_metadata.xml").write_text((documents / "canal_metadata.xml").read_text())
    rng = random.Random(name)
    path = tmp_path / "model.xml"
    for _ in range(150):
        path.write_text(mutated(text, rng))
        survives(path)


def test_mutated_parameter_files_give_problems_and_nothing_else(documents: Path, tmp_path: Path) -> None:
    text = (documents / "restenosis_parameters.xml").read_text()
    rng = random.Random(0)
    path = tmp_path / "parameters.xml"
    for _ in range(100):
        path.write_text(mutated(text, rng))
        survives(documents / "restenosis.xml", path)


def test_bytes_changed_at_random_give_problems_and_nothing_else(documents: Path, tmp_path: Path) -> None:
    data = (documents / "reaction.xml").read_bytes()
    rng = random.Random(1)
    path = tmp_path / "model.xml"
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed[: rng.randint(1, len(changed))] if rng.random() < 0.2 else changed)
        survives(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_give_problems_and_nothing_else(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.xml"
    path.write_bytes(data)
    survives(path)


def test_a_large_model_is_checked_in_seconds(tmp_path: Path) -> None:
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
    started = time.monotonic()
    assert check(path).problems == ()
    assert time.monotonic() - started < 5
    path.write_text(text.replace('.i"', '.j"'))
    started = time.monotonic()
    assert len(check(path).problems) == 1999
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("name", ["restenosis.xml", "reaction.xml"])
def test_whatever_the_schema_refuses_has_errors(documents: Path, tmp_path: Path, name: str) -> None:
    schema = etree.XMLSchema(file=str(xmml_schema.MODEL))
    rng = random.Random(name)
    path = tmp_path / "model.xml"
    for _ in range(150):
        text = restructured((documents / name).read_text(), rng)
        path.write_text(text)
        result = check(path)
        if schema.validate(etree.fromstring(text)):
            assert all("run:" in problem.message for problem in result.problems if problem.code == "E02")
        else:
            assert result.errors


ENDLESS = {
    "version": ('xmml_version="0.4"', f'xmml_version="{"1.1" * 30_000}!"'),
    "domain": ('id="macro"', f'id="macro" domain="{"a.a" * 100_000}!"'),
    "digits": ('delta="1 s"', f'delta="{"1" * 1_000_000} s"'),
    "blanks": ('delta="1 s"', f'delta="1{" " * 1_000_000}!"'),
    "letters": ('delta="1 s"', f'delta="1 {"a" * 1_000_000}!"'),
    "dots": ('from="macro.state"', f'from="{"a." * 1_000_000}"'),
    "reference": ('submodel="Reaction"', f'submodel="{"ab" * 100_000}"'),
    "formula": ("</definitions>", f'<filter id="f" type="reduction" factor="{"(" * 1_000_000}"/></definitions>'),
    "methods": ('run:methods="shm', f'run:methods="{"tcp," * 30_000}shm'),
    "copies": ('id="macro"', f'id="macro" multiplicity="{"9" * 1_000_000}"'),
    "attributes": ('id="macro"', 'id="macro" ' + " ".join(f'a{n}="1"' for n in range(20_000))),
    "namespaces": ('id="macro"', 'id="macro" ' + " ".join(f'xmlns:a{n}="u{n}" a{n}:x="1"' for n in range(5_000))),
    "problems": ("</definitions>", '<datatype id="d"/>' * 5_000 + "</definitions>"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_values_are_refused_at_once_in_few_words(documents: Path, tmp_path: Path, name: str) -> None:
    old, new = ENDLESS[name]
    path = tmp_path / "model.xml"
    path.write_text((documents / "reaction.xml").read_text().replace(old, new, 1))
    started = time.monotonic()
    result = check(path)
    assert time.monotonic() - started < 5
    assert result.errors
    assert all(len(str(problem)) < 3000 for problem in result.problems)
