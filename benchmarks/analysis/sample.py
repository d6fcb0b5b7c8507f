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
        seconds, processor_s: until it had ended, and how long of that a processor worked for it.
        peak_kib: the most resident memory of the process.
    """

    round: int
    what: str
    instances: int
    couplings: int
    nodes: int
    edges: int
    seconds: float
    processor_s: float
    peak_kib: int

    @property
    def size(self) -> int:
        """What the time is to be proportional to."""
        return self.nodes or self.couplings

    def __str__(self) -> str:
        size = f"{self.nodes:,} nodes" if self.nodes else f"{self.couplings:,} couplings"
        return f"{self.what:<10} {size:>18} {self.seconds:8.3f} s, of a processor {self.processor_s:8.3f} s"
