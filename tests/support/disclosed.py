"""Where a secret can be seen: in what the system shows of processes, and in files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


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

    def files_below(self, folder: Path) -> list[Path]:
        """The files that hold it."""
        return [path for path in sorted(folder.rglob("*")) if path.is_file() and self.is_in(path.read_bytes())]


def processes() -> Iterator[Path]:
    """What the system shows of each process."""
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())


def command_line(entry: Path) -> str:
    return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def started_by(process: int) -> dict[int, str]:
    """A process and those that it has started, and so on: number and command line."""
    entry = Path(f"/proc/{process}")
    found = {process: command_line(entry)}
    for task in (entry / "task").iterdir():
        for child in (task / "children").read_text().split():
            with contextlib.suppress(OSError):  # it has ended
                found |= started_by(int(child))
    return found


def mode_of(path: Path) -> int:
    """What its owner, his group and everybody may do with it."""
    return path.stat().st_mode & 0o777
