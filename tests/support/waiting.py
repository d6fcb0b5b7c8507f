"""Waiting for what another process or task does."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")
Complaint = str | Callable[[], str]

#: The longest wait [s]: a limit for what has gone wrong, far beyond what a busy machine takes.
LIMIT_S = 60.0
#: The same for a whole run of a model, a workflow or a benchmark.
RUN_LIMIT_S = 300.0


def wait_until(
    condition: Callable[[], Value], complaint: Complaint, limit_s: float = LIMIT_S, pause_s: float = 0.02
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
        _fail_after(end, limit_s, complaint)
        time.sleep(pause_s)
    return value


async def until(
    condition: Callable[[], Any], complaint: Complaint, limit_s: float = LIMIT_S, pause_s: float = 0.02
) -> Any:
    """Do as `wait_until`, while other tasks of the event loop go on. The condition may be asynchronous."""
    end = time.monotonic() + limit_s
    while not (value := await _awaited(condition())):
        _fail_after(end, limit_s, complaint)
        await asyncio.sleep(pause_s)
    return value


def number_in(file: Path) -> int:
    """Return the number that somebody writes into a file, as soon as it is there."""
    return int(wait_until(lambda: file.exists() and file.read_text().strip(), f"no number in {file}"))


def complete_lines(file: Path) -> list[dict[str, Any]]:
    """Return the JSON objects in a file of lines that somebody may be writing; none if there is no file."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _fail_after(end: float, limit_s: float, complaint: Complaint) -> None:
    if time.monotonic() > end:
        raise AssertionError(f"not within {limit_s:g} s: {complaint if isinstance(complaint, str) else complaint()}")
