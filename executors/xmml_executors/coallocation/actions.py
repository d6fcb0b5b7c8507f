"""What a strategy wants done. Times are seconds of the clock that events are told in."""

from __future__ import annotations

from collections.abc import Mapping

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class Submit:
    """Put a placeholder into the queue of the member's site.

    Attributes:
        attempt: numbers the placeholders of the member; events say which one they are about.
        slack_s: how much longer than the run the job is asked for, because it may wait so long for the others.
        patience_s: how long it waits for a word before it ends by itself (the dead-man's timer).
        reservation: the name of the reservation that it runs in.
    """

    member: str
    attempt: int
    slack_s: float
    patience_s: float
    reservation: str | None = None


@dataclass(frozen=True)
class SubmitTogether:
    """Submit all members as one heterogeneous job, whose parts start at the same moment."""

    members: tuple[str, ...]
    attempt: int
    slack_s: float
    patience_s: float


@dataclass(frozen=True)
class Estimate:
    """Ask the site when the member's job will start: the queued one, or one that were submitted now."""

    member: str


@dataclass(frozen=True)
class Hold:
    """Let a placeholder that is ready wait until this time before it ends by itself."""

    member: str
    attempt: int
    until: float


@dataclass(frozen=True)
class Go:
    """Tell all placeholders to begin; these attempts and no others."""

    attempts: Mapping[str, int]


@dataclass(frozen=True)
class Cancel:
    """Take a placeholder out of the queue, or end it."""

    member: str
    attempt: int
    reason: str


@dataclass(frozen=True)
class Reserve:
    """Reserve the cores of a member at its site."""

    member: str
    start: float
    end: float


@dataclass(frozen=True)
class Unreserve:
    """Give a reservation back."""

    member: str
    name: str


Action = Submit | SubmitTogether | Estimate | Hold | Go | Cancel | Reserve | Unreserve
