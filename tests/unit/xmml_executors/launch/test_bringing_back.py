"""Bringing back takes as long as something comes, and ends when nothing does."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xmml_executors.launch import bringing_back
from xmml_executors.launch.job_at_site import JobAtSite
from xmml_executors.launch.journal import Journal
from xmml_executors.launch.run_site import RunSite, program_files
from xmml_executors.run_folder import RunFolder
from xmml_planner import Plan
from xmml_planner.execution_plan import Job
from xmml_planner.sites import Site

#: Writes what the real tar writes, in ten pieces with a pause before each.
SLOW_TAR = """#!{python}
import subprocess, sys, time
said = subprocess.run(["{tar}", *sys.argv[1:]], stdout=subprocess.PIPE, check=True).stdout
for number in range(10):
    time.sleep({pause_s})
    sys.stdout.buffer.write(said[len(said) * number // 10 : len(said) * (number + 1) // 10])
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def bring(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[float, float], RunFolder]:
    """Bring a result back from a site that makes a pause before each piece."""

    def bring(pause_s: float, silent_s: float) -> RunFolder:
        plan = make_plan("a")
        job = Job("there", "there", ("a",))
        plan = dataclasses.replace(plan, jobs=(job,), sites=(Site("there"),))
        folder = RunFolder(tmp_path / "run", plan)
        there = tmp_path / "there"
        work = there / plan.by_name["a"].folder / "work"
        work.mkdir(parents=True)
        (work / "result.txt").write_text("42")
        for name, text in program_files().items():
            (there / name).write_text(text)
        tools = tmp_path / "tools"
        tools.mkdir()
        tar = tools / "tar"
        tar.write_text(SLOW_TAR.format(python=sys.executable, tar=shutil.which("tar"), pause_s=pause_s))
        tar.chmod(0o700)
        monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(bringing_back, "SILENT_S", silent_s)

        async def carry_out() -> list[str]:
            site = RunSite(Site("there", python=sys.executable), folder.run_id, Journal(folder.path))
            site.folder = str(there)
            try:
                jobs = {"there": JobAtSite("there", "there", site.site, job, 60.0)}
                return await bringing_back.bring_back(site, plan, folder, jobs)
            finally:
                await site.transport.close()

        try:
            assert asyncio.run(carry_out()) == []
        finally:
            folder.close()
        return folder

    return bring


def test_bringing_back_may_take_longer_than_a_site_may_be_silent(bring: Callable[[float, float], RunFolder]) -> None:
    folder = bring(0.6, 5.0)
    assert (folder.path / "instances/a/work/result.txt").read_text() == "42"


def test_a_site_from_which_nothing_comes_is_waited_for_no_longer(bring: Callable[[float, float], RunFolder]) -> None:
    with pytest.raises(TimeoutError):
        bring(1000.0, 2.0)
