"""What every strategy of co-allocation is: who takes part, where it stands, and what it is told and asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from xmml.late_dataclass import dataclass
from xmml_executors.coallocation.actions import Action
from xmml_executors.coallocation.events import Event


@dataclass(frozen=True)
class Member:
    """One job of a group.

    Attributes:
        cores: what it keeps from others while it waits.
        run_s: how long the run is planned to take, which is what the job is asked for, without waiting.
    """

    name: str
    site: str
    cores: int
    run_s: float


class Phase(Enum):
    """Where a co-allocation is."""

    GATHERING = "gathering"
    GONE = "gone"
    FAILED = "failed"


class Strategy(Protocol):
    """A co-allocation of one group.

    `deadline` says when `on_time` wants to be called. `awaits` says whether a placeholder shall become ready: it has
    not yet, and was not given up meanwhile. In the phase `FAILED`, `reason` says why, and nothing that the
    strategy asked for is left once its last actions are carried out.
    """

    @property
    def phase(self) -> Phase: ...
    @property
    def reason(self) -> str: ...
    @property
    def deadline(self) -> float | None: ...
    def adopt(self, attempts: Mapping[str, int], now: float, spent: Mapping[str, int] | None = None) -> None: ...
    def awaits(self, member: str, attempt: int) -> bool: ...
    def begin(self, now: float) -> list[Action]: ...
    def on(self, event: Event, now: float) -> list[Action]: ...
    def on_time(self, now: float) -> list[Action]: ...
    def give_up(self, reason: str, now: float) -> list[Action]: ...
    def finish(self) -> list[Action]: ...


def check_group(members: Sequence[Member]) -> None:
    """Refuse a group that is none.

    Raises:
        ValueError: no member, a name twice, or a size that is not positive.
    """
    names = [member.name for member in members]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"a group has members with distinct names, not {names}")
    for member in members:
        if member.cores < 1 or member.run_s <= 0:
            raise ValueError(f"{member.name}: {member.cores} cores for {member.run_s} s is no job")
