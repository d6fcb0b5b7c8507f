"""Reading: encodings, positions, bounds, hostile documents."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xmml.document import load, read
from xmml.problems import ModelError, Problem
from xmml.tree import RUN, Element, parse

XMML = 'xmlns="http://www.mapper-project.eu/xmml"'


def only_problem(path: Path) -> Problem:
    document, problems = load(path)
    assert document is None
    assert len(problems) == 1
    return problems[0]


def refused(tmp_path: Path, data: str | bytes) -> Problem:
    path = tmp_path / "model.xml"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return only_problem(path)


def test_importing_xmml_loads_neither_lxml_nor_numpy() -> None:
    code = "import sys, xmml; sys.exit(bool({'lxml', 'numpy', 'networkx'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ).returncode
        == 0
    )


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    import xmml

    with pytest.raises(AttributeError, match="Instanz"):
        _ = xmml.Instanz


def test_every_element_and_attribute_has_line_and_column() -> None:
    root = parse('<a>\r\n\t<b é="1"\n   xmlns:r="urn:r" r:c="&lt;2>" /><!-- <d/> --><d/>\r</a>', "f.xml")
    b, d = root.children
    assert str(b.position) == "f.xml:2:2"
    assert str(b.mark("é").position) == "f.xml:2:5"
    assert str(b.mark("c", namespace="urn:r").position) == "f.xml:3:20"
    assert str(d.position) == "f.xml:3:48"


def test_positions_count_characters_and_not_bytes() -> None:
    root = parse("<a>ééé\N{GRINNING FACE}<b/></a>", "f.xml")
    assert root.children[0].position.column == 8


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig", "iso-8859-1"])
def test_documents_are_read_in_the_encoding_they_declare(tmp_path: Path, documents: Path, encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    text = (
        (documents / "reaction.xml")
        .read_text()
        .replace("UTF-8", declared)
        .replace("<definitions>", "<!-- é --><definitions>")
    )
    path = tmp_path / "model.xml"
    path.write_bytes(text.encode(encoding))
    assert read(path).root.get("id") == "reaction"


def test_text_that_is_not_of_its_encoding_is_refused(tmp_path: Path) -> None:
    assert "utf-8" in refused(tmp_path, b"<a>\xff</a>").message
    assert "base64" in refused(tmp_path, b'<?xml version="1.0" encoding="base64"?><a/>').message


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("<a>\n  <b>\n</a>", 3, 3, "mismatched tag"),
        ("", 1, 1, "no element found"),
        ("<a><p:b/></a>", 1, 4, "unbound prefix"),
        ("<a>&nbsp;</a>", 1, 4, "undefined entity"),
        ("plain text", 1, 1, "syntax error"),
    ],
)
def test_what_is_not_well_formed_is_told_with_its_place(
    tmp_path: Path, text: str, line: int, column: int, message: str
) -> None:
    problem = refused(tmp_path, text)
    assert (problem.code, problem.position.line, problem.position.column) == ("E01", line, column)  # type: ignore[union-attr]
    assert message in problem.message


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("<a>\n  <b>\n</a>", "<b> in line 2 is still open: close it with </b>"),
        ("<a>\n  <x:b xmlns:x='u'>\n", "<x:b> in line 2 is still open: close it with </x:b>"),
        ("<a run:args='-q'/>", 'xmlns:run="urn:xmml:run:1"'),
        ("<a> this & that </a>", "&amp;"),
    ],
)
def test_the_usual_slips_in_xml_are_told_how_to_mend(tmp_path: Path, text: str, help: str) -> None:
    assert help in refused(tmp_path, text).help


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    assert "no such file" in only_problem(tmp_path / "none.xml").message
    assert "it is a folder" in only_problem(tmp_path).message
    os.mkfifo(tmp_path / "pipe")
    assert "regular file" in only_problem(tmp_path / "pipe").message
    assert "regular file" in only_problem(Path("/dev/zero")).message


def test_a_document_type_is_passed_over_and_never_loaded(documents: Path) -> None:
    assert read(documents / "canal.xml").root.get("id") == "canals"


def test_small_internal_entities_are_expanded(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text(
        f'<!DOCTYPE model [<!ENTITY step "1 s">]><model id="m" {XMML}><definitions><submodel id="A">'
        '<timescale delta="&step;" total="&step;"/><ports/></submodel></definitions><topology/></model>'
    )
    scale = read(path).root.children[0].children[0].children[0]
    assert scale.get("delta") == "1 s"


def test_external_entities_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    problem = refused(tmp_path, f'<!DOCTYPE a [<!ENTITY e SYSTEM "{secret}">]>\n<a>&e;</a>')
    assert "external entity" in problem.message
    assert str(problem.position).endswith(":2:4")


def test_an_undeclared_entity_beside_a_document_type_is_told(tmp_path: Path) -> None:
    assert "&e; is not declared" in refused(tmp_path, '<!DOCTYPE a SYSTEM "x.dtd"><a>&e;</a>').message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<cxa/>", "its root is <cxa>"),
        ('<model id="m"/>', "no namespace"),
        ('<model id="m" xmlns="urn:other"/>', "urn:other"),
        ('<model id="m"><submodels/></model>', "old version"),
        ('<parameters xmlns="http://www.mapper-project.eu/xmml/param"/>', "parameter file"),
    ],
)
def test_a_document_of_another_kind_is_told_what_it_is(tmp_path: Path, text: str, message: str) -> None:
    assert message in refused(tmp_path, text).message


def test_a_namespace_that_is_no_uri_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text(f'<model id="m" {XMML}><definitions/><topology/><x xmlns="a b \x7f%%%"/></model>')
    _, problems = load(path)
    assert problems


def test_read_raises_all_problems_together(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text(f'<model {XMML}><definitions/><topology x="1"><instance init="si"/></topology></model>')
    with pytest.raises(ModelError) as caught:
        read(path)
    assert len(caught.value.problems) == 2
    assert "error[E02]" in str(caught.value)


def test_foreign_attributes_are_found_by_namespace(documents: Path) -> None:
    root = read(documents / "reaction.xml").root
    implementation = next(element for element in root.walk() if element.name == "implementation")
    assert isinstance(implementation, Element)
    assert implementation.get("args", RUN) == "--quiet --title 'two words'"
    assert implementation.get("args") is None
