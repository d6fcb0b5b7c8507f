"""Where a run's results come from: versions, host, command line, and hashes of everything that went in."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from xmml_planner import Plan

import xmml
from xmml.files import FileUnreadable, open_file
from xmml_executors.launch.site.journal import jobs_at_sites, programs_at_sites, staged_at_sites
from xmml_executors.run_folder import RunFolder


def provenance(
    plan: Plan, folder: RunFolder, command_line: Sequence[str], started: float, parameter_files: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the provenance of a run as plain values. `started` is the time of day in seconds."""
    elsewhere = {site.name for site in plan.sites if not site.is_here or site.has_queue}
    local = [instance for instance in plan.instances if instance.site not in elsewhere]
    programs = sorted({instance.program for instance in local if instance.program})
    return {
        "run": folder.run_id,
        "model": {"id": plan.model, "version": plan.model_version, "file": plan.model_path},
        "command_line": list(command_line),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(started)),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": platform.node(),
        "jobs": jobs_at_sites(folder.files),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "user": str(os.getuid()),
        "versions": {"xmml": xmml.__version__, "python": platform.python_version()},
        "interpreter": sys.executable,
        "sha256": {path: _sha256(path) for path in (plan.model_path, *parameter_files, *programs)},
        "sha256_at_sites": programs_at_sites(folder.files),
        "staged": folder.staged,
        "staged_at_sites": staged_at_sites(folder.files),
        "results": {
            instance.name: {str(path): _sha256(folder.files.lasting_path / path) for path in folder.results(instance)}
            for instance in plan.instances
            if instance.stage_out
        },
    }


def _sha256(path: str | Path) -> str | None:
    """Return the hash of a file; `None` if it is none or cannot be read."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, FileUnreadable):
        return None
