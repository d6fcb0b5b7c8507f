"""Builds at a site: in the environment of the part that needs them, and over when nobody waits for them any more."""

from __future__ import annotations

import asyncio
import dataclasses
import shlex
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from waiting import until
from xmml_executors.launch.preparation import builds
from xmml_executors.launch.preparation.builds import build_at, builds_at
from xmml_executors.launch.site.journal import Journal
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder
from xmml_native.machine import start_of
from xmml_planner import Build, Plan
from xmml_planner.sites import Site

#: A build that never ends, with a process of its own below; both write their numbers first.
ENDLESS = "sleep 600 & echo $! >> pids; echo $$ >> pids; echo compiling; wait"


class Building:
    """Builds at `cluster`, which is this machine, and its part `gpu`."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        cluster = Site("cluster", python=sys.executable, env={"COMPILER": "gcc"})
        gpu = dataclasses.replace(
            cluster, name="gpu", like="cluster", setup=("export OFFLOAD=yes  # to the GPU",), env={"COMPILER": "nvc"}
        )
        self.cluster = cluster
        self.plan = dataclasses.replace(plan, sites=(cluster, gpu))
        self.folder = RunFolder(folder / "run", plan)
        self.there = folder / "there"
        (self.there / "model").mkdir(parents=True)

    def add(self, command: str, *parts: str) -> None:
        builds = tuple(Build(command, "/models", ("a",), "m.xmml:1", part) for part in parts)
        self.plan = dataclasses.replace(self.plan, builds=(*self.plan.builds, *builds))

    def run(self, meanwhile: Callable[[asyncio.Task[None]], Coroutine[Any, Any, None]] | None = None) -> None:
        """Build; `meanwhile` is told the task that does it."""

        async def carry_out() -> None:
            site = RunSite(self.cluster, self.folder.run_id, Journal(self.folder.files))
            site.folder = str(self.there)
            parts = {each.name for each in self.plan.sites}
            task = asyncio.create_task(build_at(site, parts, self.plan, self.folder, lambda *_: None))
            try:
                if meanwhile is not None:
                    await meanwhile(task)
                await task
            finally:
                await site.transport.close()

        asyncio.run(carry_out())

    def pids(self) -> list[int]:
        """The processes of an endless build, when both have told of themselves."""
        file = self.there / "model/pids"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def log(self, number: int) -> str:
        """What a build has said; nothing, if it has not begun."""
        file = self.folder.path / f"builds/cluster-{number}.log"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def building(make_plan: Callable[..., Plan], tmp_path: Path) -> Building:
    """Builds at a cluster with a part."""
    return Building(make_plan("a"), tmp_path)


def test_each_part_of_a_cluster_builds_in_its_own_environment(building: Building) -> None:
    building.add("echo $COMPILER $OFFLOAD", "cluster", "gpu")
    building.run()
    assert (building.log(1), building.log(2)) == ("gcc\n", "nvc yes\n")


def test_a_build_for_two_parts_with_one_environment_runs_once(building: Building) -> None:
    cluster = building.plan.sites[0]
    twin = dataclasses.replace(cluster, name="twin", like="cluster", partition="large")
    building.plan = dataclasses.replace(building.plan, sites=(*building.plan.sites, twin))
    building.add("make", "cluster", "twin", "gpu")
    assert [part.name for _, part in builds_at(building.plan, {"cluster", "twin", "gpu"})] == ["cluster", "gpu"]


def test_a_build_that_fails_is_told_with_its_last_words(building: Building) -> None:
    building.add("echo no such mesh; echo; exit 3", "gpu")
    with pytest.raises(
        SiteError, match=r"a: its build at cluster, .*, ended with exit status 3: no such mesh; see .*log"
    ):
        building.run()


def test_of_a_program_that_cannot_be_compiled_the_first_error_is_told(building: Building) -> None:
    lines = ["cc -o flow flow.c", "flow.c:3:5: error: expected ;", "flow.c:4:1: error: x", "make: *** [flow] Error 1"]
    building.add(f"printf '%s\\n' {shlex.join(lines)}; exit 2", "gpu")
    with pytest.raises(SiteError, match=r"exit status 2: flow\.c:3:5: error: expected ;; see .*log"):
        building.run()


def test_an_interrupted_build_leaves_no_process(building: Building) -> None:
    building.add(ENDLESS, "cluster")

    async def interrupt(task: asyncio.Task[None]) -> None:
        await until(lambda: len(building.pids()) == 2, "the build has not begun")
        await until(lambda: building.log(1), "the build has said nothing")
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        building.run(interrupt)
    assert [start_of(pid) for pid in building.pids()] == ["", ""]
    assert building.log(1) == "compiling\n", "what it has said so far is kept"


def test_a_build_that_takes_too_long_is_ended(building: Building, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "BUILD_WITHIN_S", 2.0)
    building.add(ENDLESS, "cluster")
    with pytest.raises(SiteError, match="took longer than 2 s"):
        building.run()
    assert {start_of(pid) for pid in building.pids()} <= {""}


@pytest.mark.parametrize("is_prepared", [True, False])
def test_builds_are_ended_where_the_folder_of_the_run_was_prepared(building: Building, is_prepared: bool) -> None:
    program, told = building.there / "mto", building.there / "told"
    if is_prepared:
        program.write_text(f'#!/bin/sh\necho "$4" > {told}\n')
        program.chmod(0o755)

    async def end_builds() -> None:
        site = RunSite(building.cluster, building.folder.run_id, Journal(building.folder.files))
        try:
            await site.end_builds(str(building.there))
        finally:
            await site.transport.close()

    asyncio.run(end_builds())
    assert (told.read_text() if told.exists() else "") == ("end-builds\n" if is_prepared else "")
