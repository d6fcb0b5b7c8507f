"""The constraint solver: OR-Tools CP-SAT, loaded when it is needed, and ended by whatever interrupts us."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor, wait
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
    with ThreadPoolExecutor(1, thread_name_prefix="xmml solver") as pool:
        solving = pool.submit(solver.solve, model)
        try:
            return solving.result()
        except BaseException:
            while not solving.done():  # one that has not begun yet does not hear the first word
                solver.stop_search()
                wait([solving], timeout=0.05)
            raise
