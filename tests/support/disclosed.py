"""Where a secret can be seen: in what the system shows of processes, and in files."""

from __future__ import annotations

import contextlib
from pathlib import Path

from folders import below
from processes import children, command_line, processes


class Secret:
    """A secret that may stand as it is or in hexadecimal digits."""

    def __init__(self, secret: bytes) -> None:
        digits = secret.hex().encode()
        self._forms = (secret, digits, digits.upper())

    def is_in(self, text: bytes) -> bool:
        return any(form in text for form in self._forms)

    def shown_by_processes(self) -> list[str]:
        """The command lines and environments, of all processes there are, in which it stands."""
        found = []
        for entry in processes():
            for kind in ("cmdline", "environ"):
                with contextlib.suppress(OSError):  # it has ended, or is another's
                    if self.is_in((entry / kind).read_bytes()):
                        found.append(f"{kind} of {entry.name}: {command_line(entry)}")
        return found

    def is_in_memory_of(self, process: int) -> bool:
        """Whether a process that we have started, or that was started by one, holds it."""
        with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
            for line in maps:
                place, rights = line.split()[:2]
                if rights.startswith("rw"):
                    begin, end = (int(address, 16) for address in place.split("-"))
                    memory.seek(begin)
                    with contextlib.suppress(OSError):  # of a device, or given back meanwhile
                        if self.is_in(memory.read(end - begin)):
                            return True
        return False

    def files_below(self, folder: Path) -> list[Path]:
        """The files that hold it."""
        found = []
        for path in sorted(below(folder)):
            with contextlib.suppress(FileNotFoundError):  # it is gone by now
                if path.is_file() and self.is_in(path.read_bytes()):
                    found.append(path)
        return found


def started_by(process: int) -> dict[int, str]:
    """A process and those that it has started, and so on: number and command line."""
    found = {process: command_line(Path(f"/proc/{process}"))}
    with contextlib.suppress(OSError):  # it has ended
        for child in children(process):
            found |= started_by(child)
    return found


def mode_of(path: Path) -> int:
    """What its owner, his group and everybody may do with it."""
    return path.stat().st_mode & 0o777
