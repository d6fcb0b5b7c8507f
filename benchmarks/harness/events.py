"""What a run has noted in its folder."""

from __future__ import annotations

import json
from pathlib import Path


def times_of(events: Path, what: str) -> list[float]:
    """The times of events of a kind, in their order."""
    if not events.exists():
        return []
    lines = [json.loads(line) for line in events.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return sorted(line["time"] for line in lines if line["what"] == what)
