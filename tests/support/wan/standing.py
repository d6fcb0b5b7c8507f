"""What stands while a block lasts."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Self


class Standing:
    """Builds something when its block begins, and takes it down at the end; or at once, if it cannot be built."""

    def __init__(self) -> None:
        self._parts = contextlib.ExitStack()

    def _build(self, parts: contextlib.ExitStack) -> None:
        """Build it; whatever is to be taken down is put on the stack."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as parts:
            self._build(parts)
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()
