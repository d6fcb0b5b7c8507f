"""The names of batch systems: those that a file of sites may have are those that there are."""

from __future__ import annotations

import json
from pathlib import Path

import xmml_schema
from xmml_planner.sites.fields import SCHEDULERS
from xmml_sites.batch import by_name


def test_each_batch_system_that_a_file_of_sites_may_name_exists_and_stands_in_its_schema() -> None:
    assert [by_name(name).name for name in SCHEDULERS] == list(SCHEDULERS)
    schema = (Path(xmml_schema.__file__).parent / "sites.json").read_text()
    assert f'"scheduler": {{"enum": {json.dumps(SCHEDULERS)}' in schema
