"""How a run ended: the exit status, and the line that says why."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from xmml.late_dataclass import dataclass


class ExitStatus(IntEnum):
    """What `xmml-run` and `xmml` return to the shell."""

    DONE = 0
    MODEL_ERROR = 1
    USAGE = 2
    NO_PLAN = 3
    INSTANCE_FAILED = 4
    SITE_FAILED = 5
    DEADLOCK = 6
    INTERRUPTED = 130

    @property
    def word(self) -> str:
        """The status as a word, for JSON and reports."""
        return _WORDS[self]


_WORDS = {
    ExitStatus.DONE: "done",
    ExitStatus.MODEL_ERROR: "model-error",
    ExitStatus.USAGE: "usage",
    ExitStatus.NO_PLAN: "no-plan",
    ExitStatus.INSTANCE_FAILED: "failed",
    ExitStatus.SITE_FAILED: "site-failed",
    ExitStatus.DEADLOCK: "deadlock",
    ExitStatus.INTERRUPTED: "interrupted",
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        exit_status: what it returns.
        reason: which instance, what, where; empty if it is done.
        instance: the instance that was the cause, if one was.
        log: the file to look into, if there is one.
    """

    exit_status: ExitStatus
    reason: str = ""
    instance: str | None = None
    log: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the model ran to its end."""
        return self.exit_status is ExitStatus.DONE

    def last_line(self) -> str:
        """Return the line a failed run ends with."""
        return f"{self.reason}; see {self.log}" if self.log else self.reason


class SiteError(Exception):
    """Something on this machine, not in the model, keeps the run from going on; the text says what and what to do."""


def not_all_back(left: Sequence[str], *, interrupted: bool) -> Outcome:
    """Return how a run ended whose instances have all done their work, if results are left at sites.

    Args:
        left: what is told of each site.
        interrupted: the user has interrupted the fetching.
    """
    if interrupted:
        reason = "the run was interrupted while its results came back: what is missing still lies at its site"
        return Outcome(ExitStatus.INTERRUPTED, reason)
    return Outcome(ExitStatus.SITE_FAILED, "; ".join(left))
