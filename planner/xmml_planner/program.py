"""What is started for one instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from xmml.late_dataclass import dataclass
from xmml.positions import Position


@dataclass(frozen=True)
class Program:
    """How one instance is started.

    Attributes:
        file: the program or script of the model, absolute; `None` for what the runtime hosts.
        needs_exec: `file` is started directly, so it must be executable.
        image: that it runs in, absolute; `None`: it runs in none.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    file: str | None = None
    needs_exec: bool = False
    position: Position | None = None
    image: str | None = None
