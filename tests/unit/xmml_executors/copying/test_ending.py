"""A copy may be done while a thread of it still tries to open a path."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waiting import LIMIT_S

#: Four threads dial, fail and dial again, so that some come back in the moment in which the interpreter ends.
PROGRAM = """
import sys, threading, time
from xmml_executors.copying import path_channel
from xmml_executors.copying.channel import Broken
from xmml_executors.copying.settings import Way

path_channel.OPEN_LIMIT_S = 0.001
mine = path_channel.credentials()
keys = path_channel.Keys("copy", path_channel.fresh_secret(), mine, mine.fingerprint)

def dial():
    while True:
        try:
            path_channel.dial(["127.0.0.1"], 1, keys, Way.DIAL, None)
        except Broken:
            pass

for _ in range(4):
    threading.Thread(target=dial, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.timeout(300)
def test_a_copy_ends_while_its_threads_dial() -> None:
    for number in range(20):
        words = [sys.executable, "-c", PROGRAM, str(0.05 + number / 1000)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
        assert (done.returncode, done.stderr) == (0, ""), number
