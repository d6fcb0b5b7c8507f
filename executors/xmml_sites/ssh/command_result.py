"""What a finished command has left: the value between those who run commands and those who read the answers."""

from __future__ import annotations

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class CommandResult:
    """A command that has ended.

    Attributes:
        status: its exit status; 128 plus the number of the signal that ended it.
    """

    status: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """What it gave as the reason: the last line that says something, of the errors if there are any."""
        lines = [line.strip() for text in (self.stdout, self.stderr) for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else f"nothing, with exit status {self.status}"
