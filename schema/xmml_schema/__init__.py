"""The schemas of xMML documents and of what the commands print, as files beside this module."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent

#: Model documents: xMML 0.4.
MODEL = _FOLDER / "xmml.xsd"
#: Parameter files of xMML 0.4.
PARAMETERS = _FOLDER / "xmml-param.xsd"
#: The attributes and elements of the run extension, `urn:xmml:run:1`.
RUN = _FOLDER / "run.xsd"
#: Which of these schemas belongs to which namespace (XML catalog), for editors.
CATALOG = _FOLDER / "catalog.xml"
#: What `xmml analyse --json` prints (JSON Schema).
ANALYSIS = _FOLDER / "analysis.schema.json"
#: What `xmml check --format json` prints (JSON Schema).
CHECK_REPORT = _FOLDER / "check-report.schema.json"
#: Files of sites (JSON Schema for `sites.toml`).
SITES = _FOLDER / "sites.json"
#: Plans, `plan.json` (JSON Schema).
PLAN = _FOLDER / "plan.schema.json"
