"""The JSON Schema of `plan.json` describes the plans that are made."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import xmml_schema
from xmml_planner import Plan, execution_plan, plan, plan_from_text
from xmml_planner.several_sites import plan_over_sites
from xmml_planner.sites import read_sites
from xmml_planner.sites.allocation import AllocatedNode, Allocation, allocation_catalogue
from xmml_planner.sites.catalogue import AllocatedNodes, Link, RelaySite, Site

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


def test_a_plan_in_an_allocation_is_valid_and_comes_back_as_it_was() -> None:
    nodes = (AllocatedNode("n1", 256, gpus=8),)
    catalogue = allocation_catalogue(Allocation("slurm", "12", nodes, "n1", ends_at=1e9), ["openfoam"])
    made = plan_over_sites(check(ARTERY / "model.xmml").model_or_raise(), catalogue)
    VALIDATOR.validate(made.as_json())
    assert plan_from_text(made.to_text()).sites == made.sites


@pytest.mark.parametrize("name", [*SCHEMA["$defs"], "Plan"])
def test_it_has_every_field_of_every_value_and_says_which_may_be_left_out(name: str) -> None:
    of_sites = {each.__name__: each for each in (AllocatedNodes, Link, RelaySite, Site)}
    kind = of_sites.get(name) or getattr(execution_plan, name)
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
