"""XInclude: what is put in place, from where, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xmml.check import check
from xmml.document import Document, load
from xmml.problems import Problem

HEAD = '<model id="m" xmlns="http://www.mapper-project.eu/xmml" xmlns:xi="http://www.w3.org/2001/XInclude">'
FRAGMENT = (
    '<metadata xmlns:m="http://www.mapper-project.eu/xmml">\n'
    '  <m:datatype id="a"/>\n'
    '  <m:datatype id="b"/>\n'
    "</metadata>"
)
ONE = '<datatype id="a" xmlns="http://www.mapper-project.eu/xmml"/>'

Loaded = tuple[Document | None, list[Problem]]


@pytest.fixture
def load_with(tmp_path: Path) -> Callable[[str], Loaded]:
    """Load a model with something in its definitions, beside the files fragment.xml and one.xml."""
    (tmp_path / "fragment.xml").write_text(FRAGMENT)
    (tmp_path / "one.xml").write_text(ONE)

    def run(inside: str) -> Loaded:
        (tmp_path / "model.xml").write_text(f"{HEAD}\n<definitions>\n{inside}\n</definitions><topology/></model>")
        return load(tmp_path / "model.xml")

    return run


def datatypes(loaded: Loaded) -> list[str | None]:
    document, problems = loaded
    assert problems == []
    assert document is not None
    return [element.get("id") for element in document.root.walk() if element.name == "datatype"]


@pytest.mark.parametrize(
    ("include", "ids"),
    [
        ('<xi:include href="fragment.xml#xpointer(/metadata/*)"/>', ["a", "b"]),
        ('<xi:include href="fragment.xml" xpointer="xpointer(/metadata/datatype)"/>', ["a", "b"]),
        ('<xi:include href="fragment.xml" xpointer="xmlns(m=urn:x)xpointer(/*/m:datatype)"/>', ["a", "b"]),
        ('<xi:include href="one.xml"/>', ["a"]),
        ('<xi:include href="none.xml"><xi:fallback><datatype id="c"/></xi:fallback></xi:include>', ["c"]),
        ('<xi:include href="none.xml"><xi:fallback/></xi:include>', []),
        (
            '<xi:include href="none.xml"><xi:fallback><xi:include href="one.xml"/></xi:fallback></xi:include>',
            ["a"],
        ),
    ],
)
def test_parts_of_other_files_are_put_in_place(
    load_with: Callable[[str], Loaded], include: str, ids: list[str]
) -> None:
    assert datatypes(load_with(include)) == ids


def test_files_are_found_relative_to_the_including_file(tmp_path: Path, load_with: Callable[[str], Loaded]) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "outer.xml").write_text(
        '<metadata xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="../one.xml"/></metadata>'
    )
    loaded = load_with('<xi:include href="sub/outer.xml" xpointer="xpointer(/metadata/*)"/>')
    assert datatypes(loaded) == ["a"]
    assert loaded[0] is not None
    assert [Path(file).name for file in loaded[0].files] == ["model.xml", "outer.xml", "one.xml"]


def test_text_can_be_included_as_code(tmp_path: Path, load_with: Callable[[str], Loaded]) -> None:
    (tmp_path / "header.py").write_text("if 1 < 2: pass")
    document, problems = load_with(
        '<submodel id="A"><timescale/><ports/><implementation><code language="python" part="header">'
        '<xi:include href="header.py" parse="text"/></code></implementation></submodel>'
    )
    assert problems == []
    assert document is not None
    assert next(element for element in document.root.walk() if element.name == "code").text() == "if 1 < 2: pass"


def test_problems_in_included_files_name_that_file_line_and_column(
    tmp_path: Path, load_with: Callable[[str], Loaded]
) -> None:
    (tmp_path / "fragment.xml").write_text(FRAGMENT.replace('id="b"', "size_estimate='1'"))
    _, problems = load_with('<xi:include href="fragment.xml#xpointer(/metadata/*)"/>')
    assert [str(problem.position) for problem in problems] == [f"{tmp_path / 'fragment.xml'}:3:3"]
    assert problems[0].quote == "  <m:datatype size_estimate='1'/>"


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ('<xi:include href="none.xml"/>', "no such file"),
        ('<xi:include href="."/>', "it is a folder"),
        ('<xi:include href="http://example.org/x.xml"/>', "nothing is fetched"),
        ('<xi:include href="file:///etc/passwd" parse="text"/>', "nothing is fetched"),
        ('<xi:include href="/etc/passwd" parse="text"/>', "not a file relative"),
        ('<xi:include href="%2Fetc/passwd" parse="text"/>', "not a file relative"),
        ('<xi:include xpointer="xpointer(/a)"/>', "names no file"),
        ('<xi:include href="one.xml" xpointer="element(/1)"/>', "not supported"),
        ('<xi:include href="one.xml" xpointer="xpointer(//a)"/>', "not supported"),
        ('<xi:include href="fragment.xml#xpointer(/metadata/nothing)"/>', "selects nothing"),
        ('<xi:include href="one.xml" parse="html"/>', "parse must be"),
        ('<xi:include href="model.xml"/>', "circle"),
        ("<xi:fallback/>", "only inside xi:include"),
        ('<xi:include href="broken.xml"><xi:fallback/></xi:include>', "mismatched tag"),
    ],
)
def test_what_cannot_be_included_is_told(
    tmp_path: Path, load_with: Callable[[str], Loaded], include: str, message: str
) -> None:
    (tmp_path / "broken.xml").write_text("<a>\n</b>")
    document, problems = load_with(include)
    assert document is None
    assert len(problems) == 1
    assert problems[0].code == "E01"
    assert message in problems[0].message


def test_a_circle_over_several_files_is_told(tmp_path: Path, load_with: Callable[[str], Loaded]) -> None:
    for name, other in (("p", "q"), ("q", "p")):
        text = f'<x xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="{other}.xml"/></x>'
        (tmp_path / f"{name}.xml").write_text(text)
    _, problems = load_with('<xi:include href="p.xml"/>')
    assert '"p.xml" includes "q.xml" includes "p.xml"' in problems[0].message
    assert str(problems[0].position).startswith(str(tmp_path / "q.xml"))


def test_includes_of_includes_cannot_multiply_without_end(tmp_path: Path, load_with: Callable[[str], Loaded]) -> None:
    for level in range(7):
        inner = f'<xi:include href="l{level + 1}.xml"/>' * 10 if level < 6 else ""
        (tmp_path / f"l{level}.xml").write_text(f'<x xmlns:xi="http://www.w3.org/2001/XInclude">{inner}</x>')
    _, problems = load_with('<xi:include href="l0.xml"/>')
    assert any("inclusions" in problem.message for problem in problems)


def test_files_cannot_include_files_without_end(tmp_path: Path, load_with: Callable[[str], Loaded]) -> None:
    for level in range(20):
        inner = f'<xi:include href="l{level + 1}.xml"/>'
        (tmp_path / f"l{level}.xml").write_text(f'<x xmlns:xi="http://www.w3.org/2001/XInclude">{inner}</x>')
    _, problems = load_with('<xi:include href="l0.xml"/>')
    assert "deep" in problems[0].message


def test_a_mistake_in_attributes_that_models_share_is_told_where_it_stands(
    tmp_path: Path, load_with: Callable[[str], Loaded]
) -> None:
    (tmp_path / "shared.xml").write_text(
        '<definitions xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">\n'
        '  <datatype id="described" run:attributes="step:int"/>\n'
        '  <datatype id="field" extends="described" run:attributes="level:itn"/>\n'
        "</definitions>"
    )
    loaded = load_with('<xi:include href="shared.xml#xpointer(/*/*)"/>')
    assert datatypes(loaded) == ["described", "field"]
    (wrong,) = [problem for problem in check(tmp_path / "model.xml").problems if problem.code == "E31"]
    assert str(wrong.position).endswith("shared.xml:3:66")
    assert "there is no type 'itn'; did you mean int?" in wrong.message
