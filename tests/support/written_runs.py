"""Folders of runs as files alone: nobody carries them out."""

from __future__ import annotations

import json
from pathlib import Path

from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_seal import seal
from xmml_planner import Job, Plan, PlannedInstance

A = PlannedInstance(
    "a", "a", "submodel", 0, 1, True, 1, False, 1.0, 1.0, {}, (), ("/bin/true",), {}, 1, "instances/a", "local"
)
PLAN = Plan("m", "/m.xmml", "/", (Job("all", "local", ("a",)),), (), (A,), ())


def write_run(folder: Path, *events: dict[str, object], plan: Plan = PLAN) -> None:
    (folder / "plan.json").write_text(plan.to_text())
    lines = [json.dumps({"time": 1.0, "site": "local", "instance": "a", **event}) for event in events]
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    folder.chmod(0o700)
    seal(OpenFolder(folder), "r-1")
