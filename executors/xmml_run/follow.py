"""Following a run that goes on without us."""

from __future__ import annotations

import time
from pathlib import Path

from xmml_executors.run_lock import is_owned

from xmml_run.file_growth import wait_for_growth

#: How long to wait for the events to grow before looking whether the run goes on.
LOOK_EVERY_S = 0.5


def wait_until_ended(folder: Path, limit_s: float) -> bool:
    """Wait until a run has ended and everything is cleaned up; return whether it has."""
    until = time.monotonic() + limit_s
    while is_owned(folder):
        if time.monotonic() > until:
            return False
        wait_for_growth([folder / "events.jsonl"], min(LOOK_EVERY_S, max(0.01, until - time.monotonic())))
    return True
