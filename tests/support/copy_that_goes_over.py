"""xmml whose part in a copy as the source holds until the copy has gone over from ssh to a path."""

from __future__ import annotations

import shlex
import sys

#: It reads so many bytes before, and the rest afterwards.
BEFORE_B = 9 << 20
#: The program: without a path it ends with an error.
CODE = f"""
import os, sys, threading
from waiting import LIMIT_S
from xmml_sites.transfer.switching import SwitchingChannel
from xmml_run.main import xmml
read, way_out = os.pread, SwitchingChannel._way_out
left, gone_over = [{BEFORE_B}], threading.Event()

def held(descriptor, length, offset):
    left[0] -= length
    if left[0] < 0 and not gone_over.wait(LIMIT_S):
        raise OSError(0, "the copy has not gone over to a path")
    return read(descriptor, length, offset)

def watched(channel):
    way = way_out(channel)
    if way.way != "ssh":
        gone_over.set()
    return way

os.pread, SwitchingChannel._way_out = held, watched
sys.exit(xmml())
"""


def words() -> list[str]:
    """The words of a command line that stand for xmml."""
    path = f"import sys; sys.path[:0] = {[entry for entry in sys.path if entry.endswith('support')]!r}"
    return [sys.executable, "-c", f"{path}\n{CODE}"]


def script() -> str:
    """The text of a shell script that stands for xmml."""
    return f'exec {shlex.join(words())} "$@"'
