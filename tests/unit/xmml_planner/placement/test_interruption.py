"""Ctrl-C while a placement is sought is no wish to have the best that was found so far."""

from __future__ import annotations

import random
import signal
import threading
import time

import pytest
from ortools.sat.python import cp_model
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


def test_ctrl_c_ends_the_solver_at_once_and_is_not_swallowed() -> None:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 60
    person = threading.Timer(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    person.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            solve(solver, hard_problem())
    finally:
        person.join()
    assert time.monotonic() - began < 20
