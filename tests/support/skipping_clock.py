"""An event loop for tests of time-outs, in which no time passes for real."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Loop(asyncio.SelectorEventLoop):
    """Where every task sleeps, time jumps to the end of the shortest sleep. Tasks must not wait for anything else."""

    def __init__(self) -> None:
        self.skipped_s = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return super().time() + self.skipped_s


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: _Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.skipped_s += max(0.0, timeout or 0.0)
        return super().select(0 if timeout else timeout)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end, as `asyncio.run`."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)
