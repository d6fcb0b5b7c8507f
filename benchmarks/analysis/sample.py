"""What is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """What one measurement gave: a row of the CSV file.

    Attributes:
        what: `check`, the command from its start to its end, with the static analysis; `task graph`, unrolling alone.
        instances, couplings: of the model.
        nodes, edges: of the task graph; 0 for `check`.
        peak_kib: the most resident memory of the process.
    """

    round: int
    what: str
    instances: int
    couplings: int
    nodes: int
    edges: int
    seconds: float
    peak_kib: int

    @property
    def size(self) -> int:
        """What the time is to be proportional to."""
        return self.nodes or self.couplings
