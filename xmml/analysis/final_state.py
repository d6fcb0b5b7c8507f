"""Where everything stands when nothing moves any more: what unrolling and simulating a network both end in."""

from __future__ import annotations

from dataclasses import dataclass

from xmml.model import Operator


@dataclass(frozen=True, slots=True)
class Stop:
    """Where one process stands.

    Attributes:
        process: its place in `Network.processes`.
        finished: it has left: no run will follow.
        started: it has carried out at least one operator (a mapper: fired at least once).
        runs: runs (firings) that it completed.
        run, iteration, operator: what it would do next; the operator of a mapper or terminal is `None`.
        missing: channels it waits for a message from.
    """

    process: int
    finished: bool
    started: bool
    runs: int
    run: int
    iteration: int
    operator: Operator | None
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalState:
    """The end of a run.

    Attributes:
        stops: one for each process.
        sent: by channel, messages that its sender sent (before filters).
        delivered: by channel, messages that came out of its filters.
        received: by channel, messages that its receiver took.
    """

    stops: tuple[Stop, ...]
    sent: tuple[int, ...]
    delivered: tuple[int, ...]
    received: tuple[int, ...]
