"""What is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """What one run gave: a row of the CSV file. Memory is 0 where it was not measured; `is_planned`: time counts from
    the finished plan; `methods`: the only ones that conduits may take, if that was said."""

    round: int
    peer: str
    instances: int
    conduits: int
    first_messages_s: float
    total_s: float
    is_planned: bool = False
    command_kib: int = 0
    helpers_kib: int = 0
    instances_kib: int = 0
    methods: str = ""

    @property
    def has_memory(self) -> bool:
        """Whether memory was measured; then the times say little."""
        return self.command_kib > 0

    @property
    def together_kib(self) -> int:
        return self.command_kib + self.helpers_kib + self.instances_kib
