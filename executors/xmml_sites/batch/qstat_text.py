"""Reads what `qstat -f` prints, which every PBS prints alike.

Its JSON would be easier to read, but of several jobs that are named the OpenPBS of 2026 prints only the first one in
it, and Torque has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping


def jobs(text: str) -> dict[str, Mapping[str, str]]:
    """Return the facts of each job by its id."""
    parts = re.split(r"^Job Id: *", text, flags=re.MULTILINE)[1:]
    return {id.strip(): facts(rest) for id, _, rest in (part.partition("\n") for part in parts)}


def facts(text: str) -> Mapping[str, str]:
    """Return the facts of one job. Long values are continued in lines that begin with a tabulator."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"^[ \t]+([\w.]+) = (.*)$", re.sub(r"\n\t", "", text), re.MULTILINE):
        found.setdefault(name, value)  # what comes again stands in the environment of somebody
    return found
