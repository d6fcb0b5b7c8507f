"""What is measured: a row of the CSV file for each message or copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from harness.figures import Spread

#: A connection is warm after so many messages.
WARM_AFTER = 3

#: As many streams as pay; the same where the program says what is known of the link.
AUTO, FIGURES_GIVEN = "auto", "auto, link given"

#: Small copies over a network without firewalls, and through firewalls.
SMALL_OPEN, SMALL_CLOSED = "small copies, open", "small copies, ssh alone"

Part = Literal["all", "first", "warm"]
#: Which messages of a connection are meant.
PARTS: dict[Part, Callable[[int], bool]] = {
    "all": lambda number: True,
    "first": lambda number: number == 0,
    "warm": lambda number: number >= WARM_AFTER,
}


@dataclass(frozen=True)
class Sample:
    """One message or copy, or, for iperf3, one run.

    `streams` is what was asked for: a number, AUTO or FIGURES_GIVEN. `number` counts the messages of a connection from
    0. `late_us` is how much later than it should the emulated link delivered in the mean while this was measured: the
    error of the instrument.
    """

    round: int
    experiment: str
    peer: str
    streams: str
    rtt_ms: float
    loss: float
    size_b: int
    number: int
    seconds: float
    late_us: float

    @property
    def megabit_s(self) -> float:
        return 8e-6 * self.size_b / self.seconds

    @property
    def milliseconds(self) -> float:
        return 1e3 * self.seconds


def spread(
    samples: Iterable[Sample],
    figure: Callable[[Sample], float],
    *,
    experiment: str,
    peer: str,
    streams: str | None = None,
    rtt_ms: float | None = None,
    loss: float | None = None,
    size_b: int | None = None,
    part: Part = "all",
) -> Spread | None:
    """A figure over all rounds, of which each counts alike: with its median. None if it was not measured."""
    rounds: dict[int, list[float]] = {}
    for s in samples:
        if (
            s.experiment == experiment
            and s.peer == peer
            and streams in (None, s.streams)
            and rtt_ms in (None, s.rtt_ms)
            and loss in (None, s.loss)
            and size_b in (None, s.size_b)
            and PARTS[part](s.number)
        ):
            rounds.setdefault(s.round, []).append(figure(s))
    return Spread.of([Spread.of(values).median for values in rounds.values()]) if rounds else None
