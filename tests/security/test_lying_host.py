"""A host that was broken into answers `xmml cp`."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import XMML
from copy_messages import FileMessage
from waiting import LIMIT_S
from xmml_native.transfer import COPY_VERSION
from xmml_sites.transfer.messages import MAGIC, MessageKind

#: Says that it is ready.
READY = f"""
import itertools, os, struct, sys, time, msgpack

def say(*message):
    packed = msgpack.packb(message)
    sys.stdout.buffer.write(struct.pack("<I", len(packed)) + packed)
    sys.stdout.buffer.flush()

def hear(*kinds):
    heard = None
    while heard not in kinds and (length := sys.stdin.buffer.read(4)):
        heard, *_ = msgpack.unpackb(sys.stdin.buffer.read(*struct.unpack("<I", length)))

sys.stdout.buffer.write({MAGIC!r})
say({int(MessageKind.READY)}, {COPY_VERSION}, "", "", "")
"""

#: Then lists files for ever.
ENDLESS = f"""{READY}
try:
    for first in itertools.count(step=1000):
        names = [f"results/{{number:0100}}" for number in range(first, first + 1000)]
        say({int(FileMessage.ENTRIES)}, first, [[name, 0, 1, 0o644, 0, ""] for name in names])
except BrokenPipeError:
    pass
"""


#: Then gives `lib` as a link to a folder, and hangs up; at the next attempt, as a folder with a file.
LINK_FIRST = f"""{READY}
attempted = sys.argv[1] + "/attempted"
if not os.path.exists(attempted):
    open(attempted, "w").close()
    say({int(FileMessage.ENTRIES)}, 0, [["lib", 2, 0, 0o777, 0, sys.argv[1] + "/home"]])
    time.sleep(1)
    sys.exit(255)
say({int(FileMessage.ENTRIES)}, 0, [["lib", 1, 0, 0o755, 0, ""], ["lib/evil.pth", 0, 0, 0o644, 1, ""]])
say({int(FileMessage.LISTED)}, 1, 0, [])
hear({int(FileMessage.CONSIDERED)}, {int(FileMessage.STOPPED)})
say({int(FileMessage.CHUNK)}, [], b"", [1])
say({int(FileMessage.FINISHED)})
hear({int(FileMessage.DONE)}, {int(FileMessage.STOPPED)})
"""

#: Then lists 4,000 entries of long names below a link, none of which can be made; the list takes 16 MB.
FAILING = f"""{READY}
path, listed = "results", [["results", 1, 0, 0o755, 0, ""]]
for name in ["\U0001f600" + "d" * 240, *["d" * 240] * 14]:
    path += "/" + name
    listed.append([path, 1, 0, 0o755, 0, ""])
path += "/l"
listed.append([path, 2, 0, 0o644, 0, "x"])
say({int(FileMessage.ENTRIES)}, 0, listed)
count = len(listed)
for first in range(count, count + 4000, 500):
    links = [[f"{{path}}/{{number:06}}", 2, 0, 0o644, 0, ""] for number in range(first, first + 500)]
    say({int(FileMessage.ENTRIES)}, first, links)
say({int(FileMessage.LISTED)}, 0, 0, [])
hear({int(FileMessage.CONSIDERED)}, {int(FileMessage.STOPPED)})
say({int(FileMessage.FINISHED)})
hear({int(FileMessage.DONE)}, {int(FileMessage.STOPPED)})
"""

#: Runs a command; prints the most memory that one of its processes took [KiB].
MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""
#: What a copy takes beside what it holds of the host: mostly Python and its modules.
BASE_KIB = 64 << 10


def answered_by(host: str, folder: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """Copies from a host that answers by a program; returns what came of it, and the memory that it took at most [KiB].

    Args:
        host: the program, which gets the folder as its first argument.
    """
    program = folder / "host.py"
    program.write_text(host)
    ssh = shlex.join([sys.executable, str(program), str(folder)])
    command = [sys.executable, "-c", MEASURED, XMML, "cp", "--ssh", ssh, "--way", "ssh", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    return done, int(done.stdout)


def test_a_host_that_lists_files_for_ever_is_stopped_by_name_and_nothing_of_it_stays(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    done, _ = answered_by(ENDLESS, tmp_path, "--listing-memory", "8", "archive:results", "here/")
    assert done.returncode == 5
    *_, told = done.stderr.splitlines()
    assert told.startswith("xmml cp: archive: the list of what there is to copy takes more than 8 MiB of memory here")
    assert told.endswith("copy the folders there one after the other, or grant more by --listing-memory")
    assert list((tmp_path / "here").iterdir()) == []


def test_a_host_of_which_everything_fails_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    done, memory_kib = answered_by(FAILING, tmp_path, "--listing-memory", "32", "archive:results", "here/")
    assert done.returncode == 5
    *_, told = done.stderr.splitlines()
    assert told.startswith("xmml cp: archive: the list of what there is to copy takes more than 32 MiB of memory here")
    assert "failures (the first: results/" in told
    assert memory_kib < BASE_KIB + (32 << 10)


@pytest.mark.parametrize("there", ["mylib", "here/"])
def test_a_host_that_gives_a_link_for_a_folder_has_nothing_written_where_it_leads(tmp_path: Path, there: str) -> None:
    (tmp_path / "home").mkdir()
    first, _ = answered_by(LINK_FIRST, tmp_path, "host:proj/lib", there)
    assert first.returncode == 5
    assert "host does not keep to the protocol" in first.stderr
    copy = tmp_path / there / ("lib" if there.endswith("/") else "")
    assert not copy.is_symlink()
    second, _ = answered_by(LINK_FIRST, tmp_path, "host:proj/lib", there)
    assert second.returncode == 0, second.stderr
    assert (copy / "evil.pth").is_file()
    assert list((tmp_path / "home").iterdir()) == []
