"""Ctrl-C while a placement is sought is no wish to have the best that was found so far."""

from __future__ import annotations

import random
import signal
import threading
from typing import Any

import pytest
from ortools.sat.python import cp_model
from waiting import LIMIT_S
from xmml_planner.placement import solver as solver_module
from xmml_planner.placement.solver import solve


def hard_problem() -> cp_model.CpModel:
    """Market split (Cornuejols and Dawande, 1998): small, and nobody solves it soon."""
    chance = random.Random(1)
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in range(50)]
    for _ in range(6):
        weights = [chance.randrange(100) for _ in chosen]
        model.add(sum(weight * each for weight, each in zip(weights, chosen, strict=True)) == sum(weights) // 2)
    return model


class Interrupting(threading.Thread):
    """A thread whose start Ctrl-C interrupts."""

    def __init__(self, is_started: bool, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._is_started_first = is_started

    def start(self) -> None:
        if self._is_started_first:
            super().start()
        raise KeyboardInterrupt


@pytest.mark.parametrize("is_started", [True, False])
def test_ctrl_c_while_the_solver_starts_leaves_no_solver(monkeypatch: pytest.MonkeyPatch, is_started: bool) -> None:
    started: list[threading.Thread] = []

    def thread(**arguments: Any) -> threading.Thread:
        started.append(Interrupting(is_started, **arguments))
        return started[0]

    monkeypatch.setattr(solver_module.threading, "Thread", thread)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 3600
    with pytest.raises(KeyboardInterrupt):
        solve(solver, hard_problem())
    if is_started:
        started[0].join(LIMIT_S)
    assert not started[0].is_alive()


def test_ctrl_c_ends_the_solver_and_is_not_swallowed() -> None:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 3600
    solver.parameters.log_search_progress = True
    solver.parameters.log_to_stdout = False
    searches = threading.Event()
    solver.log_callback = lambda _: searches.set()

    def interrupt() -> None:
        assert searches.wait(LIMIT_S), "the solver does not begin"
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    person = threading.Thread(target=interrupt)
    person.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            solve(solver, hard_problem())
    finally:
        person.join()
