"""What the control group (cgroup) of this process says of memory: its limit, and who was killed for want of it.

It is copied to sites beside the supervisor, and so needs nothing but Python's own library.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Version 1 says "no limit" by a number near this one.
UNLIMITED = 1 << 60


class MemoryGroup:
    """The control group of memory that this process and what it starts are in, version 1 or 2.

    Args:
        mounted: where control groups are mounted.
        listed: the file that says in which groups this process is.
    """

    def __init__(self, mounted: str = "/sys/fs/cgroup", listed: str = "/proc/self/cgroup") -> None:
        self.name, self.folders, self.is_version_2 = _find(mounted, listed)
        self._seen = self._hinted = self._kills()

    def ran_out(self) -> str:
        """Return why a process of the group was killed, once for each that was; empty if none was since. Ask for one
        that was killed: the group knows how many were, not which."""
        if self._kills() <= self._seen:
            return ""
        self._seen += 1
        return self._why()

    def ran_out_beside(self) -> str:
        """Return the same for a process that failed otherwise, once; a child of it may have been killed, or something
        else. It remains to be told of the one that was."""
        kills = self._kills()
        if kills <= max(self._seen, self._hinted):
            return ""
        self._hinted = kills
        return f"another process, perhaps a child of it, was killed meanwhile: {self._why()}"

    def _why(self) -> str:
        limit = self.limit()
        if limit is None:
            return "this machine had no memory left"
        return (
            f"the processes of its control group, {self.name}, needed more than the {limit / 2**20:.0f} MiB of memory "
            "that they may have together; raise that limit, or the memory of the job or container"
        )

    def limit(self) -> int | None:
        """Return the least limit [bytes] that holds for the group; `None` if there is none."""
        if self.is_version_2:
            texts = [_read(f"{folder}/memory.max").strip() for folder in self.folders]
            limits = [int(text) for text in texts if text.isdigit()]
        else:
            limits = [
                value
                for folder in self.folders[:1]
                for value in _values(f"{folder}/memory.stat", "hierarchical_memory_limit")
            ]
        return min((limit for limit in limits if limit < UNLIMITED), default=None)

    def _kills(self) -> int:
        file = "memory.events" if self.is_version_2 else "memory.oom_control"
        return sum(value for folder in self.folders[:1] for value in _values(f"{folder}/{file}", "oom_kill"))


def _find(mounted: str, listed: str) -> tuple[str, list[str], bool]:
    """Return the name of the group, its folder and those of the groups around it, and whether they are of version 2."""
    for line in _read(listed).splitlines():
        _, controllers, name = line.split(":", 2)
        is_version_2 = not controllers
        if "memory" not in controllers.split(",") and not is_version_2:
            continue
        root = mounted if is_version_2 else f"{mounted}/memory"
        # In a container the name may be the one that the group has outside, whereas its folder is the root.
        parts = [part for part in name.split("/") if part]
        inner = parts if os.path.isdir("/".join((root, *parts))) else []
        folders = ["/".join((root, *inner[:depth])) for depth in range(len(inner), -1, -1)]
        if os.path.exists(f"{folders[0]}/{'memory.events' if is_version_2 else 'memory.oom_control'}"):
            return name, folders, is_version_2
    return "", [], True


def _values(file: str, key: str) -> Iterator[int]:
    for line in _read(file).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == key and words[1].isdigit():
            yield int(words[1])


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read()
    except OSError:
        return ""
