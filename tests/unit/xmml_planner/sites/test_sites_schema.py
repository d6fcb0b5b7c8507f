"""The JSON Schema of `sites.toml` says what the reader does."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import jsonschema
import printed
import pytest
import xmml_schema
from site_files import FULL, MISTAKES
from xmml_planner.sites import sites_from_text
from xmml_planner.sites.fields import LINK_FIELDS, RELAY_FIELDS, SITE_FIELDS

SCHEMA: dict[str, Any] = json.loads(xmml_schema.SITES.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_it_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("kind", "fields"), [("site", {*SITE_FIELDS, "relay"}), ("relay", set(RELAY_FIELDS)), ("link", set(LINK_FIELDS))]
)
def test_it_has_the_keys_that_are_read_each_with_a_description(kind: str, fields: set[str]) -> None:
    properties = SCHEMA["$defs"][kind]["properties"]
    assert set(properties) == fields
    assert all(len(each["description"]) > 5 for each in properties.values())


def test_it_accepts_what_the_reader_accepts() -> None:
    sites_from_text(FULL)
    VALIDATOR.validate(tomllib.loads(FULL))


#: What JSON Schema cannot say: references, what depends on another key, units.
BEYOND = {"S05", "S06"}


@pytest.mark.parametrize(("text", "place", "message", "help"), MISTAKES, ids=[case[2] for case in MISTAKES])
def test_it_refuses_what_the_reader_refuses_as_far_as_a_schema_can(
    text: str, place: str, message: str, help: str
) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    accepted = VALIDATOR.is_valid(document)
    code = place.partition("[")[2][:3]
    beyond = code in BEYOND or message in (
        "cores is missing",
        "no",
        "site b: ssh is missing",
        '"G" in "16 G" is not a unit',
        "a quantity of time",
        "two ways",
        "where the number of ranks goes",
        "where the image goes",
        "--compat takes the",
        "cannot be split into words",
        "this is a command",
        "this is a URL",
        "not an ssh destination",
        "found nan",
    )
    assert accepted == beyond


@pytest.mark.parametrize("name", sorted(printed.files("sites.md")))
def test_the_files_that_the_documentation_shows_are_what_both_accept(name: str) -> None:
    shown = printed.files("sites.md")[name]
    sites_from_text(shown)
    VALIDATOR.validate(tomllib.loads(shown))


def test_the_documentation_has_every_key() -> None:
    page = (printed.DOCS / "sites.md").read_text(encoding="utf-8")
    for key in (*SITE_FIELDS, *RELAY_FIELDS, *LINK_FIELDS):
        assert f"`{key}`" in page, key
