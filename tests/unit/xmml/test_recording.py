"""A record from the start of a run: the document of a model with an archive that its author did not write."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmml.check import check, check_document
from xmml.model import Model
from xmml.recording import RecordError, with_record
from xmml.serialise import to_xml

MODEL = """\
<model id="m" xmlns="http://www.mapper-project.eu/xmml" xmlns:r="urn:xmml:run:1">
  <definitions>
    <datatype id="field" r:attributes="step:int"/>
    <submodel id="Flow">
      <timescale delta="1 s" total="3 s"/>
      <ports>
        <out id="velocity" operator="Oi" datatype="field"/><out id="last" operator="Of"/>
        <out id="kept" operator="Of" type="state"/><in id="kept_in" operator="finit" type="state"/>
      </ports>
      <implementation language="python" path="flow.py"/>
    </submodel>
    <submodel id="See">
      <timescale delta="1 s" total="3 s"/>
      <ports><in id="velocity" operator="S" datatype="field"/><in id="last" operator="finit"/></ports>
      <implementation language="python" path="see.py"/>
    </submodel>
    <mapper id="Same" type="fan-in"><ports><in id="i"/><out id="o"/></ports>
      <implementation language="python" path="m.py"/></mapper>
  </definitions>
  <topology>
    <instance id="flow" submodel="Flow"/>
    <instance id="{name}" submodel="See"/>
    <instance id="same" mapper="Same"/>
    <coupling from="flow.velocity" to="{name}.velocity"/>
    <coupling from="flow.kept" to="flow.kept_in"/>
    <coupling from="flow.last" to="same.i"/>
    <coupling from="same.o" to="{name}.last"/>
  </topology>
</model>
"""


def model_of(folder: Path, name: str = "see") -> Model:
    for program in ("flow.py", "see.py", "m.py"):
        (folder / program).touch()
    (folder / "model.xmml").write_text(MODEL.format(name=name))
    return check(folder / "model.xmml").model_or_raise()


def recorded(model: Model, *patterns: str) -> Model:
    return check_document(with_record(model, patterns)).model_or_raise()


def test_an_archive_takes_everything_from_the_ports_that_are_named(tmp_path: Path) -> None:
    model = recorded(model_of(tmp_path), "flow.velocity", "*.last", "flow.*")
    assert [str(pool) for pool in model.pools] == ["flow.velocity -> record.objects", "flow.last -> record.objects"]
    assert not any(pool.select or pool.may_lose or pool.is_latest for pool in model.pools)
    assert (model.instances["record"].definition.class_, model.instances["record"].kind) == ("archive", "terminal")


def test_the_attributes_of_a_port_are_kept(tmp_path: Path) -> None:
    assert recorded(model_of(tmp_path), "flow.velocity").pools[0].attributes == "step:int"


def test_what_the_model_says_stays_as_it_is(tmp_path: Path) -> None:
    model = model_of(tmp_path)
    more = recorded(model, "flow.velocity")
    assert more.couplings == model.couplings
    assert {name: more.instances[name] for name in model.instances} == model.instances
    assert model.pools == ()


def test_the_resolved_document_reads_as_the_same_model(tmp_path: Path) -> None:
    model = recorded(model_of(tmp_path), "flow.velocity")
    (tmp_path / "resolved.xmml").write_text(to_xml(model))
    again = check(tmp_path / "resolved.xmml").model_or_raise()
    assert (again.pools, again.couplings, again.instances) == (model.pools, model.couplings, model.instances)


def test_a_name_of_the_model_is_not_taken(tmp_path: Path) -> None:
    assert str(recorded(model_of(tmp_path, "record"), "flow.last").pools[0].receiver) == "record-.objects"


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("flow.velocty", 'no out port is called "flow.velocty"; did you mean "flow.velocity"'),
        ("flow", '"flow" is an instance, and ports are recorded; did you mean "flow.*"?'),
        ("see", 'no out port is called "see"'),
        ("see.velocity", 'no out port is called "see.velocity"'),
        ("same.o", "same.o cannot be recorded: it is of a mapper"),
        ("flow.kept", "flow.kept cannot be recorded: it is for the state of the submodel"),
    ],
)
def test_what_cannot_be_recorded_is_said(tmp_path: Path, pattern: str, told: str) -> None:
    with pytest.raises(RecordError) as raised:
        with_record(model_of(tmp_path), ["flow.velocity", pattern])
    assert told in str(raised.value)
