"""People are told when a batch system does not start a step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from xmml_executors.launch.jobs.steps_awaited import STARTS_WITHIN_S, StepsAwaited
from xmml_executors.protocol import Ended, Output, SupervisorReport

WAITS = "srun: Job 3 step creation temporarily disabled, retrying (Requested nodes are busy)"
STILL = "srun: Job 3 step creation still disabled, retrying (Requested nodes are busy)"
STARTED = "srun: Step created for job 3"


class Loop(asyncio.SelectorEventLoop):
    """An event loop in which time passes when a test says so."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.run_until_complete(asyncio.sleep(0))


Say = Callable[..., None]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def loop() -> Any:
    with_time = Loop()
    yield with_time
    with_time.close()


def output(text: str, name: str = "flow") -> Output:
    return Output(name, "stderr", text)


def test_a_step_that_does_not_start_is_told_once_with_what_srun_says(loop: Loop, told: list[str]) -> None:
    steps = StepsAwaited(loop, told.append)
    steps.on_report(output(WAITS))
    steps.on_report(output(STILL))
    loop.pass_time(STARTS_WITHIN_S - 1)
    assert told == []
    loop.pass_time(2)
    loop.pass_time(60)
    assert told == [f"flow: its step has not started for 30 s; {WAITS}"]


@pytest.mark.parametrize("report", [output(STARTED), Ended("flow", 1, None, 0.1, 2**20, None, False)])
def test_one_that_starts_or_ends_in_time_is_not(loop: Loop, told: list[str], report: SupervisorReport) -> None:
    steps = StepsAwaited(loop, told.append)
    steps.on_report(output(WAITS))
    steps.on_report(report)
    loop.pass_time(2 * STARTS_WITHIN_S)
    assert told == []


def test_what_programs_write_themselves_means_nothing(loop: Loop, told: list[str]) -> None:
    steps = StepsAwaited(loop, told.append)
    steps.on_report(output("the step creation temporarily disabled me"))
    loop.pass_time(2 * STARTS_WITHIN_S)
    assert told == []
