"""Several runs ask one queue: one question answers all, and not too often."""

from __future__ import annotations

import asyncio

import pytest
from xmml_sites.batch import JobState, SchedulerUnavailable, by_name
from xmml_sites.job import JobQueue
from xmml_sites.ssh.command_result import CommandResult
from xmml_sites.ssh.local import LocalTransport

#: Longer than a test takes.
LONG_S = 3600.0


class Login(LocalTransport):
    """Answers as the login node of a Slurm does, when it may, and counts what it was asked."""

    def __init__(self) -> None:
        super().__init__("alpha")
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_down = False

    async def run(self, command: str, **_: object) -> CommandResult:  # type: ignore[override]
        self.asked.append(command.rpartition("-j ")[2].strip("'"))
        await self.may_answer.wait()
        if self.is_down:
            return CommandResult(1, "", "slurm_load_jobs error: Unable to contact slurm controller")
        rows = "".join(f"{id}|RUNNING|None|N/A|alpha1\n" for id in self.asked[-1].split(","))
        return CommandResult(0, f"1795209540 2026-11-21T01:19:00\n{rows}", "")


@pytest.fixture
def login() -> Login:
    return Login()


@pytest.fixture
def queue(login: Login) -> JobQueue:
    return JobQueue(login, by_name("slurm", ""))


async def turn() -> None:
    """Let other tasks come as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_who_asks_at_the_same_time_is_answered_by_one_question(login: Login, queue: JobQueue) -> None:
    async def ask() -> None:
        first, second = await asyncio.gather(queue.status(["1", "2"]), queue.status(["2", "3"]))
        assert (set(first), set(second)) == ({"1", "2"}, {"2", "3"})
        assert first["1"].state is JobState.RUNNING

    asyncio.run(ask())
    assert login.asked == ["1,2,3"]


def test_who_asks_while_an_answer_is_on_its_way_gets_a_later_one(login: Login, queue: JobQueue) -> None:
    async def ask() -> None:
        login.may_answer.clear()
        first = asyncio.create_task(queue.status(["1"]))
        await turn()
        second = asyncio.create_task(queue.status(["1"]))
        await turn()
        login.may_answer.set()
        await asyncio.gather(first, second)

    asyncio.run(ask())
    assert login.asked == ["1", "1"]


def test_a_question_waits_until_it_is_due_again(login: Login, queue: JobQueue) -> None:
    async def ask() -> None:
        await queue.status(["1"])
        queue.pause_s = LONG_S
        waiting = [asyncio.create_task(queue.status([id])) for id in ("1", "2")]
        await turn()
        assert login.asked == ["1"]
        for each in waiting:
            each.cancel()

    asyncio.run(ask())


def test_all_who_wait_are_told_that_a_queue_does_not_answer(login: Login, queue: JobQueue) -> None:
    async def ask() -> None:
        login.is_down = True
        answers = await asyncio.gather(queue.status(["1"]), queue.status(["2"]), return_exceptions=True)
        assert [type(each) for each in answers] == [SchedulerUnavailable] * 2
        login.is_down = False
        assert set(await queue.status(["1"])) == {"1"}

    asyncio.run(ask())


def test_nothing_is_asked_about_no_jobs(login: Login, queue: JobQueue) -> None:
    assert asyncio.run(queue.status([])) == {}
    assert login.asked == []
