"""After the run: what it leaves for people and tools to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xmml_planner import Plan

from xmml_executors.open_folder import OpenFolder
from xmml_executors.profile import trace
from xmml_executors.provenance import provenance
from xmml_executors.report import report
from xmml_executors.run_folder import EVENTS, RunFolder
from xmml_executors.run_result import RunResult


def collect(
    plan: Plan,
    folder: RunFolder,
    result: RunResult,
    command_line: Sequence[str],
    started: float,
    parameter_files: Iterable[str] = (),
) -> None:
    """Write `provenance.json`, `profile.json` and `report.html`.

    Raises:
        SiteError: the folder cannot be written.
    """
    folder.flush()
    came_from = provenance(plan, folder, command_line, started, parameter_files)
    folder.write("provenance.json", json.dumps(came_from, indent=1, ensure_ascii=False) + "\n")
    folder.write("profile.json", json.dumps(trace(read_events(folder.files))))
    folder.write("report.html", report(plan, result, folder.path.name, came_from))


def read_events(folder: OpenFolder) -> Iterator[dict[str, Any]]:
    """Return the events of a run; a last line that is being written is left out."""
    with folder.open_to_read(EVENTS) as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line.decode())
