"""What is known about each instance while it runs and afterwards."""

from __future__ import annotations

from collections import deque
from dataclasses import field
from enum import Enum
from typing import Any

from xmml.late_dataclass import dataclass

#: Lines of an instance's standard error kept for explaining a failure.
LAST_WORDS = 30


class Lifecycle(Enum):
    """The life of an instance. It only goes on in this order, and ends in one of the last four.

    One that has died was not missed: the run went on without it. If it then turns out that it died of an object that
    nobody survives, it has failed. If it turns out that one that failed had nothing more to do, it has died.
    """

    PLANNED = "planned"
    STARTED = "started"
    RUNNING = "running"
    LEFT = "left"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    DIED = "died"

    @property
    def is_final(self) -> bool:
        """Whether its process is gone."""
        return self in (Lifecycle.DONE, Lifecycle.FAILED, Lifecycle.STOPPED, Lifecycle.DIED)


#: The states that may follow each state.
TRANSITIONS: dict[Lifecycle, frozenset[Lifecycle]] = {
    Lifecycle.PLANNED: frozenset({Lifecycle.STARTED, Lifecycle.FAILED, Lifecycle.STOPPED}),
    Lifecycle.STARTED: frozenset({Lifecycle.RUNNING, Lifecycle.FAILED, Lifecycle.STOPPED, Lifecycle.DIED}),
    Lifecycle.RUNNING: frozenset({Lifecycle.LEFT, Lifecycle.FAILED, Lifecycle.STOPPED, Lifecycle.DIED}),
    Lifecycle.LEFT: frozenset({Lifecycle.DONE, Lifecycle.FAILED, Lifecycle.STOPPED, Lifecycle.DIED}),
    Lifecycle.DONE: frozenset(),
    Lifecycle.FAILED: frozenset({Lifecycle.DIED}),
    Lifecycle.STOPPED: frozenset(),
    Lifecycle.DIED: frozenset({Lifecycle.FAILED}),
}


@dataclass(frozen=True)
class Awaited:
    """What an instance waits for: the instance at the other end, and the conduit, by its name."""

    partner: str
    conduit: str


@dataclass
class InstanceRecord:
    """One instance: its state, how far it is, what it has exchanged, and how its process ended.

    Attributes:
        run, iteration, time: where it is in the submodel execution loop; runs count from 1, `time` is model time in
            seconds.
        host: the host that it joined from; empty: it has not joined.
        process: the process that it shares with others, if it does.
        died_with: the other instances of that process, if the process itself ended.
        rank_of: the instance that it is a further rank of, if it is.
        cpus: that its process is bound to, as Linux writes them; empty: to none.
        runs: completed passes, known when it has left.
        replaced: how many messages newer ones have replaced, in words, by conduit, once both ends have left.
        waits_for: what it waits for now.
        away_since: when its connection to the run broke, if it may come back (monotonic seconds).
        has_vanished: the process that has joined is gone, though the one that was started may not be.
        failure: what it reported as the reason of its failure.
        died_at: since when it counts as dead, and the run goes on without it (monotonic seconds).
        death: how it died.
        is_outlived: the run went on without it when its process was gone.
        given_again: how many objects that it was given others got after its death; one that it and too many others
            died of is none of them.
        no_memory: if a process of it was killed for want of memory, of which.
    """

    name: str
    state: Lifecycle = Lifecycle.PLANNED
    pid: int | None = None
    host: str = ""
    process: str | None = None
    died_with: tuple[str, ...] = ()
    rank_of: str | None = None
    cpus: str = ""
    language: str = ""
    run: int = 0
    iteration: int = 0
    time: float = 0.0
    runs: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    dropped: int = 0
    replaced: dict[int, str] = field(default_factory=dict)
    methods: dict[int, str] = field(default_factory=dict)
    waits_for: tuple[Awaited, ...] = ()
    away_since: float | None = None
    has_vanished: bool = False
    failure: str = ""
    died_at: float | None = None
    death: str = ""
    is_outlived: bool = False
    given_again: int = 0
    exit_status: int | None = None
    signal: int | None = None
    no_memory: str = ""
    started_at: float | None = None
    joined_at: float | None = None
    left_at: float | None = None
    ended_at: float | None = None
    cpu_s: float = 0.0
    memory_bytes: int = 0
    last_words: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))

    def become(self, state: Lifecycle) -> None:
        """Go over to another state.

        Raises:
            ValueError: the life of an instance has no such step.
        """
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"{self.name} cannot become {state.value}: it is {self.state.value}")
        self.state = state

    @property
    def may_still_act(self) -> bool:
        """Whether it may still do something that others wait for: it has not left, nor ended."""
        return not self.state.is_final and self.state is not Lifecycle.LEFT

    @property
    def is_alive(self) -> bool:
        """Whether it has a process."""
        return self.state in (Lifecycle.STARTED, Lifecycle.RUNNING, Lifecycle.LEFT)

    @property
    def wall_s(self) -> float | None:
        """How long its process ran."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

    def as_json(self) -> dict[str, Any]:
        """Return what the run's summary says about it."""
        return {
            "state": self.state.value,
            "host": self.host or None,
            "process": self.process,
            "cpus": self.cpus or None,
            "runs": self.runs,
            "messages_sent": self.messages_sent,
            "messages_received": self.messages_received,
            "bytes_sent": self.bytes_sent,
            "bytes_received": self.bytes_received,
            **({"death": self.death, "given_again": self.given_again} if self.state is Lifecycle.DIED else {}),
        }
