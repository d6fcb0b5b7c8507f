"""xMML documents written back."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from xmml.check import check
from xmml.convert.rewrite import rewrite
from xmml.problems import ModelError
from xmml.serialise import to_json

DOCUMENTS = Path(__file__).parents[3] / "data/documents"

ANNOTATED = """<?xml version="1.0"?>
<?editor keep="yes"?>
<!-- before the root -->
<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:mad="http://www.mapper-project.eu/mad"
       xmlns:xi="http://www.w3.org/2001/XInclude" xmlns:f="urn:foreign">
  <description>a <b xmlns="http://www.w3.org/1999/xhtml">bold</b> model</description>
  <definitions>
    <!-- comes from elsewhere --><xi:include href="parts.xml" xpointer="xpointer(/parts/*)"/><!-- after it -->
    <xi:include href="nowhere.xml"><xi:fallback><!-- nothing there --></xi:fallback></xi:include>
    <submodel id="A" f:colour="red">
      <timescale delta="1 s" total="3 s"/>
      <ports> <out id="o" operator="Oi" datatype="d"/> </ports>
      <implementation><code language="python" part="Oi"><![CDATA[o = 1 < 2]]></code></implementation>
      <extra><mad:position x="1" y="2"/><f:note>keep <!-- me --> please</f:note></extra>
    </submodel>
  </definitions>
  <topology>
    <instance id="a" submodel="A"/>
  </topology>
</model>
<!-- after the root -->
"""
PARTS = """<parts xmlns:x="http://www.mapper-project.eu/xmml">
  <x:datatype id="d"/><!-- between --><x:datatype id="e"/></parts>"""


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    (tmp_path / "parts.xml").write_text(PARTS)
    path = tmp_path / "model.xmml"
    path.write_text(ANNOTATED)
    return path


def canonical(text: bytes) -> bytes:
    return etree.tostring(etree.fromstring(text).getroottree(), method="c14n")


def test_everything_in_a_document_comes_back(annotated: Path) -> None:
    assert canonical(rewrite(annotated).text.encode()) == canonical(annotated.read_bytes())


@pytest.mark.parametrize("name", ["canal.xml", "restenosis.xml", "reaction.xml"])
def test_documents_come_back_as_the_same_canonical_xml(name: str) -> None:
    assert canonical(rewrite(DOCUMENTS / name).text.encode()) == canonical((DOCUMENTS / name).read_bytes())


def test_what_was_written_back_is_written_back_as_it_is(annotated: Path, tmp_path: Path) -> None:
    first = rewrite(annotated).text
    (tmp_path / "again.xmml").write_text(first)
    assert rewrite(tmp_path / "again.xmml").text == first


def test_expanded_includes_leave_the_same_model_without_the_other_files(annotated: Path, tmp_path: Path) -> None:
    expanded = rewrite(annotated, expand=True)
    (tmp_path / "alone").mkdir()
    alone = tmp_path / "alone/model.xmml"
    alone.write_text(expanded.text)
    first, second = check(annotated).resolved, check(alone).resolved
    assert first is not None
    assert second is not None
    assert without_places(to_json(first)) == without_places(to_json(second))
    assert "xi:include" not in expanded.text
    assert expanded.notes == (f"includes are written out: {tmp_path / 'parts.xml'}",)


def test_expanding_keeps_comments_around_and_inside_includes(annotated: Path) -> None:
    text = rewrite(annotated, expand=True).text
    for comment in ("comes from elsewhere", "after it", "nothing there", "before the root", "after the root", "me"):
        assert f"<!-- {comment} -->" in text


def test_an_include_that_fails_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(ANNOTATED)
    with pytest.raises(ModelError, match=r"parts\.xml"):
        rewrite(path)


def without_places(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_places(each) for key, each in value.items() if key not in ("position", "path")}
    return [without_places(each) for each in value] if isinstance(value, list) else value
