"""A host that was broken into answers `xmml cp`."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from commands import XMML
from copy_messages import FileMessage
from waiting import LIMIT_S
from xmml_native.transfer import COPY_VERSION
from xmml_sites.transfer.messages import MAGIC, MessageKind

#: Says that it is ready, then lists files for ever.
ENDLESS = f"""
import itertools, struct, sys, msgpack

def say(*message):
    packed = msgpack.packb(message)
    sys.stdout.buffer.write(struct.pack("<I", len(packed)) + packed)

sys.stdout.buffer.write({MAGIC!r})
say({int(MessageKind.READY)}, {COPY_VERSION}, "", "", "")
try:
    for first in itertools.count(step=1000):
        names = [f"results/{{number:0100}}" for number in range(first, first + 1000)]
        say({int(FileMessage.ENTRIES)}, first, [[name, 0, 1, 0o644, 0, ""] for name in names])
except BrokenPipeError:
    pass
"""


def test_a_host_that_lists_files_for_ever_is_stopped_by_name_and_nothing_of_it_stays(tmp_path: Path) -> None:
    host = tmp_path / "host.py"
    host.write_text(ENDLESS)
    (tmp_path / "here").mkdir()
    ssh = shlex.join([sys.executable, str(host)])
    words = [XMML, "cp", "--ssh", ssh, "--way", "ssh", "--listing-memory", "8", "archive:results", "here/"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 5
    *_, told = done.stderr.splitlines()
    assert told.startswith("xmml cp: archive: the list of what there is to copy takes more than 8 MiB of memory here")
    assert told.endswith("copy the folders there one after the other, or grant more by --listing-memory")
    assert list((tmp_path / "here").iterdir()) == []
