"""A program may end while threads of it wait in a path."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Four threads wait, fail and wait again, so that some come back in the moment in which the interpreter ends.
PROGRAM = """
import sys, threading, time
from xmml import path

def wait():
    while True:
        try:
            path.dial("127.0.0.1:1", "there", secret=b"0123456789abcdef", run="r", name="here", timeout=0.001)
        except Exception:
            pass

for _ in range(4):
    threading.Thread(target=wait, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.timeout(300)
def test_a_program_ends_while_its_threads_wait_in_a_path() -> None:
    for number in range(20):
        words = [sys.executable, "-c", PROGRAM, str(0.05 + number / 1000)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), number
