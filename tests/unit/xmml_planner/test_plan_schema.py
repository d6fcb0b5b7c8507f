"""The JSON Schema of `plan.json` describes the plans that are made."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import xmml_schema
from xmml_planner import Plan, execution_plan, plan
from xmml_planner.several_sites import plan_over_sites
from xmml_planner.sites import read_sites
from xmml_planner.sites.catalogue import Link, RelaySite, Site

from xmml.check import check

ARTERY = Path(__file__).parents[3] / "docs" / "examples" / "artery"
SCHEMA: dict[str, Any] = json.loads(xmml_schema.PLAN.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture(scope="module")
def artery() -> Plan:
    """The plan of the documentation."""
    model = check(ARTERY / "model.xmml").model_or_raise()
    return plan_over_sites(model, read_sites(ARTERY / "sites.toml"), wishes={"plot": "laptop"})


def test_it_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_plan_over_sites_is_valid(artery: Plan) -> None:
    VALIDATOR.validate(artery.as_json())


def test_a_plan_for_this_machine_is_valid() -> None:
    VALIDATOR.validate(plan(check(ARTERY / "model.xmml").model_or_raise()).as_json())


@pytest.mark.parametrize("name", [*SCHEMA["$defs"], "Plan"])
def test_it_has_every_field_of_every_value_and_says_which_may_be_left_out(name: str) -> None:
    kind = {"Site": Site, "Link": Link, "RelaySite": RelaySite}.get(name) or getattr(execution_plan, name)
    described = SCHEMA if name == "Plan" else SCHEMA["$defs"][name]
    fields = dataclasses.fields(kind)
    assert set(described["properties"]) == {field.name for field in fields}
    assert set(described["required"]) == {field.name for field in fields if not field.metadata.get("left_out")}


def test_it_refuses_what_the_reader_refuses(artery: Plan) -> None:
    for path, value in ((("version",), 2), (("jobs", 0, "cores_per_node"), "four"), (("routes", 0, "unknown"), 1)):
        broken = artery.as_json()
        place: Any = broken
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        assert not VALIDATOR.is_valid(broken)
        with pytest.raises(execution_plan.PlanFormatError):
            execution_plan.plan_from_text(json.dumps(broken))
