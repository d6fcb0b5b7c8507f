"""Answers of real batch systems, as they were recorded."""

from __future__ import annotations

import re
from pathlib import Path

from xmml_sites.ssh.command_result import CommandResult

FOLDER = Path(__file__).parents[1] / "data" / "schedulers"


def recorded(name: str) -> CommandResult:
    """The answer in a file such as `slurm/squeue_pipe`."""
    text = (FOLDER / f"{name}.txt").read_text()
    found = re.match(r"# command: .*?\n# exit status: (\d+)\n# --- stdout\n(.*)# --- stderr\n(.*)", text, re.DOTALL)
    assert found, f"{name} is not a recorded answer"
    return CommandResult(int(found[1]), found[2], found[3])
