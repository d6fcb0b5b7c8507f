"""The constraint solver: OR-Tools CP-SAT, loaded when it is needed, and ended by whatever interrupts us."""

from __future__ import annotations

import importlib
import threading
from typing import Any


class SolverMissing(Exception):
    """OR-Tools is not installed; the text says how to get it."""


def cp_model() -> Any:
    """Return the module of OR-Tools in which problems are written down.

    Raises:
        SolverMissing: it is not installed.
    """
    try:
        return importlib.import_module("ortools.sat.python.cp_model")
    except ImportError:
        raise SolverMissing(
            'planning over several sites needs the solver OR-Tools, which is not installed: pip install "xmml[sites]"'
        ) from None


def solve(solver: Any, model: Any) -> Any:
    """Solve, in a thread of its own, so that whatever interrupts us (Ctrl-C) ends it at once.

    Left to itself, the solver takes Ctrl-C for a wish to hear the best that it has found so far.
    """
    solver.parameters.catch_sigint_signal = False
    has_begun, has_ended, is_interrupted = threading.Event(), threading.Event(), threading.Event()
    results: list[Any] = []

    def work() -> None:
        has_begun.set()
        try:
            if not is_interrupted.is_set():
                results.append(solver.solve(model))
        except Exception as error:
            results.append(error)
        finally:
            has_ended.set()

    try:
        threading.Thread(target=work, name="xmml solver", daemon=True).start()
        has_ended.wait()
    except BaseException:
        # Also one that comes while the thread starts, which then either has begun or solves nothing.
        is_interrupted.set()
        while has_begun.is_set() and not has_ended.is_set():
            solver.stop_search()  # a solver that does not search yet takes no notice
            has_ended.wait(0.05)
        raise
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]
