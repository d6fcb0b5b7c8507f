"""Output that nobody can read any more: the exit status is that of the command all the same."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest

#: Prints when it is told to, and then is interrupted.
INTERRUPTED = """import sys
from xmml_run.main import _guarded

def command(words):
    sys.stdin.read(1)
    print("half a line", end="")
    raise KeyboardInterrupt

sys.exit(_guarded("xmml", command, []))
"""


@pytest.mark.parametrize("ends", [pty.openpty, os.pipe], ids=["terminal", "pipe"])
def test_an_interrupted_command_keeps_its_exit_status(ends: Callable[[], tuple[int, int]]) -> None:
    reading, writing = ends()
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    words = [sys.executable, "-c", INTERRUPTED]
    started = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=writing, stderr=writing, env=environment)
    os.close(writing)
    os.close(reading)
    started.communicate(b"x")
    assert started.returncode == 130
