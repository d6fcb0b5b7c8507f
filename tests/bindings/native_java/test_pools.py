"""Pools in Java: what no other language has. tests/models/test_pools_in_every_language.py has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_language import java_program
from model_runs import Run, run_document
from needs import needs_java

pytestmark = needs_java

SOURCE = Path(__file__).parent / "Pools.java"
MANY = 20_000
MODEL = """\
<model id="pools" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <datatype id="described"
      run:attributes="natural:uint number:real whole:int wholes:int[] numbers:real[] text:str"/>
    <submodel id="Writer">
      <timescale delta="1 s" total="1 s"/>
      <param id="many" value="{many}"/>
      <ports><out id="objects" datatype="described"/></ports>
      <implementation {program}/>
    </submodel>
    <submodel id="Reader">
      <timescale delta="1 s" total="1 s"/>
      <ports><in id="objects" datatype="described"/></ports>
      <implementation {program}/>
    </submodel>
  </definitions>
  <topology>
    <instance id="writer" submodel="Writer"/>
    <instance id="reader" submodel="Reader"/>
    <coupling from="writer.objects" to="reader.objects" run:kind="pool"/>
  </topology>
</model>
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pools")
    document = folder / "model.xmml"
    document.write_text(MODEL.format(many=MANY, program=java_program(SOURCE, "-Xmx256m")))
    return run_document(document)


def test_a_whole_number_that_no_long_holds_is_a_big_integer(run: Run) -> None:
    equal, problem, *_ = run.lines("reader")
    assert equal == "true true"
    expected = "reader.objects: natural: expected an integer that a long holds, but it is a BigInteger"
    assert problem == expected


def test_narrow_numbers_and_arrays_widen(run: Run) -> None:
    _, _, first, second, *_ = run.lines("reader")
    assert first == "1.0 -1 -1.0 [-1, 2] [0.5]"
    assert second == "[3, 4] 10 Optional.empty"


def test_a_whole_number_that_no_attribute_holds_is_refused(run: Run) -> None:
    assert run.lines("writer") == [f"natural = {2**64} is larger than any int or uint"]


def test_attributes_of_objects_that_nobody_holds_are_given_back(run: Run) -> None:
    *_, taken, most_kb = run.lines("reader")
    assert int(taken) == MANY
    assert int(most_kb) * 1024 < MANY * 60_000 / 2, "as if the collector had never run"
