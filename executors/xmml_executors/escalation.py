"""Ending a process that does not end by itself: SIGTERM, then SIGKILL, then nothing more is expected of it."""

from __future__ import annotations

import signal


class Escalation:
    """What is still to be done about processes that have to end, and when."""

    def __init__(self, now: float, *, terminate_s: float, kill_s: float, give_up_s: float) -> None:
        """Begin, with nothing done.

        Args:
            now: monotonic seconds.
            terminate_s: from now to SIGTERM.
            kill_s: from now to SIGKILL.
            give_up_s: from now to the moment when nothing more is expected.
        """
        self._steps: list[tuple[float, int | None]] = [
            (now + give_up_s, None),
            (now + kill_s, signal.SIGKILL),
            (now + terminate_s, signal.SIGTERM),
        ]

    @property
    def deadline(self) -> float | None:
        """When `due` has something to return; `None`: everything has been done."""
        return self._steps[-1][0] if self._steps else None

    def due(self, now: float) -> list[int | None]:
        """Return the signals whose time has come, once; `None` stands for giving up."""
        found = []
        while self._steps and self._steps[-1][0] <= now:
            found.append(self._steps.pop()[1])
        return found

    def was_killed(self, now: float, give_up_s: float) -> None:
        """SIGKILL was sent ahead of its time: all that is left is to give up."""
        self._steps = [(now + give_up_s, None)]
