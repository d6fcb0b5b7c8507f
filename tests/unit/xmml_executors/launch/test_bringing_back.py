"""Bringing back takes as long as something comes, and ends when nothing does."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import skipping_clock
from xmml_executors.launch import teardown
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.journal import Journal
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.launch.teardown import SILENT_S
from xmml_executors.run_folder import RunFolder
from xmml_native import mto
from xmml_planner import Plan
from xmml_planner.execution_plan import Job
from xmml_planner.sites import Site

PIECES = 10


def brought_back(monkeypatch: pytest.MonkeyPatch, pause_s: float) -> list[str]:
    """Bring back from a site that makes a pause before each piece."""

    async def slowly(*arguments: Any) -> list[str]:
        *_, on_piece = arguments
        for _ in range(PIECES):
            await asyncio.sleep(pause_s)
            on_piece()
        return []

    monkeypatch.setattr(teardown, "_bring_back", slowly)
    nothing: Any = None
    return skipping_clock.run(teardown.fetch_results(nothing, nothing, nothing, {}))


def test_bringing_back_may_take_longer_than_a_site_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert brought_back(monkeypatch, 0.9 * SILENT_S) == []


def test_a_site_from_which_nothing_comes_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimeoutError):
        brought_back(monkeypatch, 1.1 * SILENT_S)


#: Writes what the real tar writes in pieces; before each it waits until something of the last one was taken.
TAR_IN_PIECES = """#!/bin/sh
exec "{python}" -c '
import os, subprocess, sys, time
said = subprocess.run(["{tar}", *sys.argv[1:]], stdout=subprocess.PIPE, check=True).stdout
for number in range({pieces}):
    while number and not os.path.exists("{taken}." + str(number)):
        time.sleep(0.02)
    sys.stdout.buffer.write(said[len(said) * number // {pieces} : len(said) * (number + 1) // {pieces}])
    sys.stdout.buffer.flush()
' "$@"
"""


def test_each_piece_of_a_result_that_comes_is_a_sign_of_life(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job("there", "there", ("a",))
    plan = dataclasses.replace(make_plan("a"), jobs=(job,), sites=(Site("there"),))
    folder = RunFolder(tmp_path / "run", plan)
    there = tmp_path / "there"
    work = there / plan.by_name["a"].folder / "work"
    work.mkdir(parents=True)
    (work / "result.txt").write_text("42")
    (there / "mto").symlink_to(mto.PROGRAM)
    tar = tmp_path / "tools" / "tar"
    tar.parent.mkdir()
    taken = tmp_path / "taken"
    tar.write_text(TAR_IN_PIECES.format(python=sys.executable, tar=shutil.which("tar"), pieces=PIECES, taken=taken))
    tar.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tar.parent}{os.pathsep}{os.environ['PATH']}")
    real, pieces = teardown._bring_back, 0

    async def counting(*arguments: Any) -> list[str]:
        *others, on_piece = arguments

        def on_counted_piece() -> None:
            nonlocal pieces
            pieces += 1
            Path(f"{taken}.{pieces}").touch()
            on_piece()

        return await real(*others, on_counted_piece)

    monkeypatch.setattr(teardown, "_bring_back", counting)

    async def carry_out() -> list[str]:
        site = RunSite(Site("there", python=sys.executable), folder.run_id, Journal(folder.path))
        site.folder = str(there)
        try:
            jobs = {"there": SiteJob("there", "there", site.site, job, 60.0, JobNodes(job, site.site, ()))}
            return await teardown.fetch_results(site, plan, folder, jobs)
        finally:
            await site.transport.close()

    try:
        assert asyncio.run(carry_out()) == []
    finally:
        folder.close()
    assert (folder.path / "instances/a/work/result.txt").read_text() == "42"
    assert pieces >= PIECES // 2
