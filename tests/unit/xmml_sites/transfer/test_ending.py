"""A copy may be done while a thread of it still tries to open a path."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waiting import LIMIT_S

#: Four threads dial, fail and dial again, so that some come back in the moment in which the interpreter ends.
PROGRAM = """
import sys, threading, time
from xmml_sites.transfer import path_message_stream
from xmml_sites.transfer.message_stream import ConnectionBroken
from xmml_sites.transfer.settings import TransferMethod

path_message_stream.OPEN_LIMIT_S = 0.001
mine = path_message_stream.credentials()
keys = path_message_stream.Keys("copy", path_message_stream.fresh_secret(), mine, mine.fingerprint)

def dial():
    while True:
        try:
            path_message_stream.dial(["127.0.0.1"], 1, keys, TransferMethod.DIAL, None)
        except ConnectionBroken:
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
