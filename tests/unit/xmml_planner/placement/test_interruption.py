"""Ctrl-C while a placement is sought is no wish to have the best that was found so far."""

from __future__ import annotations

import random
import signal
import threading

import pytest
from ortools.sat.python import cp_model
from waiting import LIMIT_S
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
