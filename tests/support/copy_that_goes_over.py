"""xmml whose part in a copy as the source holds until the copy has gone over from ssh to a path."""

from __future__ import annotations

import shlex
import sys

#: It sends so many bytes before, and the rest afterwards.
BEFORE_B = 9 << 20
#: The program: without a path it ends with an error.
CODE = f"""
import sys, threading
from copy_messages import FileMessage
from waiting import LIMIT_S
from xmml_sites.transfer.message_stream import ConnectionBroken
from xmml_sites.transfer.switching import SwitchingChannel
from xmml_run.main import xmml
send, way_out = SwitchingChannel.send, SwitchingChannel._way_out
left, gone_over = [{BEFORE_B}], threading.Event()

def held(channel, message):
    if message[1] == FileMessage.CHUNK:
        left[0] -= len(message)
        if left[0] < 0 and not gone_over.wait(LIMIT_S):
            raise ConnectionBroken("the copy has not gone over to a path")
    send(channel, message)

def watched(channel):
    way = way_out(channel)
    if way.way != "ssh":
        gone_over.set()
    return way

SwitchingChannel.send, SwitchingChannel._way_out = held, watched
sys.exit(xmml())
"""


def support() -> list[str]:
    """The folders where programs of tests find what tests share."""
    return [entry for entry in sys.path if entry.endswith("support")]


def words() -> list[str]:
    """The words of a command line that stand for xmml."""
    return [sys.executable, "-c", f"import sys; sys.path[:0] = {support()!r}\n{CODE}"]


def script() -> str:
    """The text of a shell script that stands for xmml."""
    return f'exec {shlex.join(words())} "$@"'
