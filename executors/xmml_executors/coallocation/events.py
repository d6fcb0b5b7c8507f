"""What a strategy is told. Times are seconds of one clock, the same for every site."""

from __future__ import annotations

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class Submitted:
    """A placeholder is in the queue of its site."""

    member: str
    attempt: int


@dataclass(frozen=True)
class Rejected:
    """A scheduler did not take a placeholder, and would not take it later either."""

    member: str
    attempt: int
    reason: str


@dataclass(frozen=True)
class Estimated:
    """When a site expects the job of a member to start, queued or not; `start` is `None` if it cannot say."""

    member: str
    start: float | None


@dataclass(frozen=True)
class Ready:
    """A placeholder runs and waits for the others."""

    member: str
    attempt: int


@dataclass(frozen=True)
class Ended:
    """A placeholder is gone, and not because it was cancelled.

    Attributes:
        for_good: another one would end in the same way.
    """

    member: str
    attempt: int
    reason: str
    for_good: bool = False


@dataclass(frozen=True)
class Reserved:
    """A site keeps cores free from the time that was asked for, under this name."""

    member: str
    name: str


@dataclass(frozen=True)
class NotReserved:
    """A site has no room at the time that was asked for.

    Attributes:
        earliest: when it would have, if it knows.
        for_good: it will not reserve anything for this user.
    """

    member: str
    reason: str
    earliest: float | None = None
    for_good: bool = False


Event = Submitted | Rejected | Estimated | Ready | Ended | Reserved | NotReserved
