"""Writing a model back: as XML that reads as the same model, and as JSON."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from xmml.check import check
from xmml.serialise import to_json, to_xml


@pytest.mark.parametrize("name", ["reaction.xml", "canal.xml", "restenosis.xml"])
def test_the_resolved_document_reads_as_the_same_model(documents: Path, tmp_path: Path, name: str) -> None:
    model = check(documents / name).model
    assert model is not None
    shutil.copytree(documents, tmp_path, dirs_exist_ok=True)  # for the programs that the model names
    path = tmp_path / name
    path.write_text(to_xml(model))
    result = check(path)
    assert {problem.code for problem in result.problems} <= {"W03"}  # what an included file defines too much
    assert result.model is not None
    assert replace(result.model, path=model.path) == model
    assert "XInclude" not in path.read_text()


def test_parameters_overrides_and_factors_are_written_out(documents: Path, tmp_path: Path) -> None:
    text = (documents / "restenosis.xml").read_text()
    text = text.replace('filter="coarsen"/>', 'filter="coarsen"><extra>kept</extra></apply>')
    text = text.replace(
        'submodel="DRUG" domain="artery.tissue"/>', 'submodel="DRUG" run:order="free" xmlns:run="urn:xmml:run:1"/>'
    )
    text = text.replace('total="1e-3 m"/>\n      <ports>', 'total="1e-3 m"/><param id="k" value="0"/>\n      <ports>')
    (tmp_path / "model.xml").write_text(text)
    files = [documents / "restenosis_parameters.xml"]
    model = check(tmp_path / "model.xml", files, {"smc[0].n": "8", "dd.k": "1 <&>"}).model
    assert model is not None
    (tmp_path / "resolved.xml").write_text(to_xml(model))
    again = check(tmp_path / "resolved.xml").model
    assert again is not None
    assert again.instances == model.instances
    assert again.couplings == model.couplings
    assert "kept" in to_xml(model)
    assert 'connectionId="42"' in to_xml(model)


def test_open_and_fixed_ranges_are_written_as_ranges(check_parts, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    definition = (
        '<submodel id="A"><timescale delta="1 s" characteristic="3 s"><total max="1 hr"/></timescale>'
        '<spacescale dimensions="3"><delta type="fixed" min="1 m" max="1 m"/></spacescale>'
        '<otherscale type="age" total="9"/><ports/></submodel>'
    )
    model = check_parts(definition, '<instance submodel="A"/>').model
    path = tmp_path / "resolved.xml"
    path.write_text(to_xml(model))
    again = check(path).model
    assert again is not None
    assert again.instances == model.instances


@pytest.mark.parametrize("name", ["reaction.xml", "canal.xml", "restenosis.xml"])
def test_the_json_form_is_plain(documents: Path, name: str) -> None:
    model = check(documents / name).model
    assert model is not None
    plain = json.loads(json.dumps(to_json(model), allow_nan=False))
    assert plain["id"] == model.id
    assert list(plain["instances"]) == list(model.instances)
    assert len(plain["couplings"]) == len(model.couplings)


def test_json_gives_quantities_with_units_and_definitions_by_id(documents: Path) -> None:
    model = check(documents / "reaction.xml").model
    assert model is not None
    macro = to_json(model)["instances"]["macro"]
    assert macro["definition"] == "Diffusion"
    assert macro["timescale"]["total"]["max"] == {"value": 60.0, "unit": "s"}
