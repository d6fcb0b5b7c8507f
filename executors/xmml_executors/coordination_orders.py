"""What the policy of a run orders: what is to be done now that something has happened."""

from __future__ import annotations

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class Abort:
    """Tell every instance that the run is over, and why."""

    reason: str


@dataclass(frozen=True)
class Signal:
    """Send a signal to the process group of an instance."""

    instance: str
    number: int


@dataclass(frozen=True)
class Grow:
    """Enlarge a conduit."""

    conduit: int
    capacity: int


@dataclass(frozen=True)
class Confirm:
    """Ask an instance whether it is still in a wait."""

    instance: str
    epoch: int


@dataclass(frozen=True)
class Notice:
    """Tell people something that does not end the run."""

    text: str
    instance: str | None = None


@dataclass(frozen=True)
class GoOnWithout:
    """Tell the partners of an instance that it has died, and let it in no more."""

    instance: str


@dataclass(frozen=True)
class Died:
    """Note that an instance has died, and how.

    Attributes:
        goes_on: the run goes on without the instance: it is not stopping for another reason.
    """

    instance: str
    reason: str
    goes_on: bool = True


Order = Abort | Signal | Grow | Confirm | Notice | GoOnWithout | Died
