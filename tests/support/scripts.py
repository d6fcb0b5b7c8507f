"""Programs that tests write to be found and started by other programs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def write_python(path: Path, text: str) -> Path:
    """Write an executable Python program and return its path.

    The interpreter does not stand in the first line: there the kernel splits its path at spaces.
    """
    # A shell runs the second line; for Python it is a string.
    path.write_text(f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} \"$0\" \"$@\"\n' '''\n{text}")
    path.chmod(0o755)
    return path
