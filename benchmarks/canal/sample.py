"""What is measured, and the figures made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness.figures import Spread

MPI, COUPLED = "mpi", "coupled"


@dataclass(frozen=True)
class Sample:
    """One run of one program: a row of the CSV file. Times are per step, those of a half from its own clock.

    `total_s` is the whole command, `start_s` from its start until the clocks run (after the warm-up). Sending is
    packing what leaves and handing it over, receiving is waiting for what comes and unpacking it.
    """

    round: int
    peer: str
    cells: int
    steps: int
    step_s: float
    west_sending_s: float
    west_receiving_s: float
    east_sending_s: float
    east_receiving_s: float
    start_s: float
    total_s: float
    fingerprint: str

    @property
    def exchange_s(self) -> float:
        """What a step spends on its neighbour, waiting included: the mean of both halves."""
        west = self.west_sending_s + self.west_receiving_s
        return (west + self.east_sending_s + self.east_receiving_s) / 2

    @property
    def message_b(self) -> int:
        """What crosses the face in each direction in a step: five numbers for each cell there."""
        return 5 * 8 * self.cells**2

    @property
    def updates_per_s(self) -> float:
        """Cells updated per second, by both halves together."""
        return self.cells**3 / self.step_s


def of(samples: Sequence[Sample], peer: str, cells: int) -> list[Sample]:
    """The runs of one program at one size, in the order of their rounds."""
    return sorted((s for s in samples if (s.peer, s.cells) == (peer, cells)), key=lambda s: s.round)


def spread(runs: Iterable[Sample], figure: Callable[[Sample], float]) -> Spread:
    """One figure over some runs."""
    return Spread.of(figure(run) for run in runs)


def efficiency(samples: Sequence[Sample], cells: int) -> Spread | None:
    """T_mono / T_coupled of each round that has both; None if none has."""
    coupled = {run.round: run.step_s for run in of(samples, COUPLED, cells)}
    ratios = [run.step_s / coupled[run.round] for run in of(samples, MPI, cells) if run.round in coupled]
    return Spread.of(ratios) if ratios else None
