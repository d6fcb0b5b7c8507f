"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

#: The longest wait [s]: a limit for what has gone wrong, far beyond what a busy machine takes.
LIMIT_S = 60.0


def wait_until(
    condition: Callable[[], Value], complaint: str | Callable[[], str], limit_s: float = LIMIT_S, pause_s: float = 0.02
) -> Value:
    """Return the first true value of a condition.

    Args:
        condition: is called again and again.
        complaint: what the failure says; called at the limit if it is a function.
        limit_s: when to fail [s].
        pause_s: between two calls [s].

    Raises:
        AssertionError: the condition was false until the limit.
    """
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(
                f"not within {limit_s:g} s: {complaint if isinstance(complaint, str) else complaint()}"
            )
        time.sleep(pause_s)
    return value
