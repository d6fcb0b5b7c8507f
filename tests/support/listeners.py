"""Where processes listen, as the system shows it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def sockets_of(processes: Iterable[int]) -> set[str]:
    """Return the inodes of the sockets of processes."""
    links = set()
    for number in processes:
        for entry in Path(f"/proc/{number}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                links.add(os.readlink(entry))
    return {link.removeprefix("socket:[").rstrip("]") for link in links}


def abstract_sockets(processes: Iterable[int]) -> list[str]:
    """Return the names of the abstract sockets at which processes listen."""
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    own = sockets_of(processes)
    return sorted({row[7].removeprefix("@") for row in rows if len(row) > 7 and row[6] in own and row[7][0] == "@"})


def ports(processes: Iterable[int]) -> list[int]:
    """Return the ports of the loopback interface at which processes listen."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    own = sockets_of(processes)
    return sorted({int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in own})
