"""Several independent mistakes in one document: each is told, and nothing follows from another."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import check_pages
import pytest
from lxml import etree
from wan.soak import LONG

from xmml.check import check

CASES = 1000 if LONG else 50
XMML = "{http://www.mapper-project.eu/xmml}"
HEAD = (
    '<model id="combined" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
    "<definitions>{}</definitions><topology>{}</topology></model>"
)
#: Words so unlike each other that no name of one part looks like a misspelt one of another.
WORDS = ("ALPHALPHALPHA", "brunobrunobru", "x95_x95_x95_x", "kvkvkvkvkvkvk", "wut7wut7wut7w")
#: What only a model without errors is asked, what is not about the document alone, and what cannot be taken apart.
ELSEWHERE = {"E01", "E21", "W02", "W04", "W06", "W11", "W12", "E22", "W13", "E27/wrong-iterations", "W14/wrong-staged"}
_REFERENCES = ("submodel", "mapper", "terminal", "filter", "datatype", "datatype_in", "datatype_out", "extends")
_NAMED = ("datatype", "filter", "terminal", "mapper", "submodel", "instance")

Parts = tuple[list[str], list[str], list[str], list[str]]


def documents() -> list[Path]:
    found = check_pages.wrong_documents()
    return [path for path in found if ELSEWHERE.isdisjoint({path.parent.name, f"{path.parent.name}/{path.stem}"})]


def parts_of(path: Path, word: str) -> Parts:
    """Return datatypes, other definitions, instances and couplings of a document, all names with a word before them."""
    root = etree.parse(path).getroot()
    for element in root.iter(f"{XMML}*"):
        name = element.tag.removeprefix(XMML)
        for attribute in _REFERENCES:
            if name != attribute and attribute in element.attrib:
                element.set(attribute, f"{word}{element.get(attribute)}")
        if name in _NAMED and "id" in element.attrib:
            if name == "filter" and "class" not in element.attrib:
                element.set("class", element.get("id", ""))
            element.set("id", f"{word}{element.get('id')}")
        for end in ("from", "to"):
            if end in element.attrib:
                element.set(end, f"{word}{element.get(end)}")
    definitions, topology = root.find(f"{XMML}definitions"), root.find(f"{XMML}topology")
    assert definitions is not None
    assert topology is not None

    def texts(parent: etree._Element, *names: str, but: bool = False) -> list[str]:
        return [
            etree.tostring(child, encoding="unicode")
            for child in parent.iterchildren(f"{XMML}*")
            if (child.tag.removeprefix(XMML) in names) is not but
        ]

    return (
        texts(definitions, "datatype"),
        texts(definitions, "datatype", but=True),
        texts(topology, "coupling", but=True),
        texts(topology, "coupling"),
    )


def combined(paths: list[Path]) -> str:
    parts = [parts_of(path, word) for path, word in zip(paths, WORDS, strict=False)]
    definitions = [text for kind in (0, 1) for part in parts for text in part[kind]]
    topology = [text for kind in (2, 3) for part in parts for text in part[kind]]
    return HEAD.format("\n".join(definitions), "\n".join(topology))


def codes_in(text: str, folder: Path) -> list[str]:
    path = folder / "model.xmml"
    path.write_text(text, encoding="utf-8")
    return sorted(problem.code for problem in check(path).problems)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the documents name."""
    for file in check_pages.DOCUMENTS.glob("*/*"):
        if file.suffix in (".py", ".csv"):
            shutil.copy(file, tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", documents(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_part_alone_tells_what_its_document_tells(path: Path, folder: Path) -> None:
    assert codes_in(combined([path]), folder) == [problem.code for problem in check_pages.problems_of(path)]


@pytest.mark.parametrize("seed", range(CASES))
def test_independent_mistakes_are_all_told_and_nothing_else(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    paths = rng.sample(documents(), rng.randint(2, len(WORDS)))
    expected = sorted(problem.code for path in paths for problem in check_pages.problems_of(path))
    assert codes_in(combined(paths), folder) == expected, [f"{path.parent.name}/{path.stem}" for path in paths]
