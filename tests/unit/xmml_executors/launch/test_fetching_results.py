"""Fetching results takes as long as something arrives, and ends when nothing does."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import skipping_clock
from xmml_executors.executor import LastReport, SiteProgress
from xmml_executors.launch import teardown
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.journal import Journal
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.launch.teardown import Arrived, NotFetched
from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_folder import RunFolder
from xmml_native import mto
from xmml_planner import Plan
from xmml_planner.execution_plan import Job
from xmml_planner.sites import Site
from xmml_sites.ssh import channel_transport
from xmml_sites.ssh.conversation import Conversation
from xmml_sites.transfer.results import ResultsRefused
from xmml_sites.transfer.site_files import SILENT_S

PIECES = 10


@pytest.fixture
def there(make_plan: Callable[..., Plan], tmp_path: Path) -> Any:
    """What is brought back: that of `a`, which ran there, to a folder; `b` ran elsewhere."""
    job = Job("there", "there", ("a",))
    jobs = {"there": SiteJob("there", "there", Site("there"), job, 60.0, JobNodes(job, Site("there"), ()))}
    arrived = Arrived("there", lambda _: None)
    return (
        SimpleNamespace(name="there"),
        make_plan("a", "b"),
        SimpleNamespace(path=tmp_path, files=OpenFolder(tmp_path)),
        jobs,
        arrived,
    )


def fetched(there: Any, monkeypatch: pytest.MonkeyPatch, pause_s: float) -> NotFetched:
    """Bring back from a site that makes a pause before each piece."""

    async def slowly(*arguments: Any) -> NotFetched:
        *_, on_piece = arguments
        for _ in range(PIECES):
            await asyncio.sleep(pause_s)
            on_piece()
        return NotFetched()

    monkeypatch.setattr(teardown, "_fetch_once", slowly)
    return skipping_clock.run(teardown.fetch_results(*there))


def test_fetching_may_take_longer_than_a_site_may_be_silent(there: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetched(there, monkeypatch, 0.9 * SILENT_S) == NotFetched()


def test_a_site_from_which_nothing_comes_is_waited_for_no_longer_and_what_came_of_it_in_part_goes(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [tmp_path / "instances" / name / "work/.mesh.nc.xmml-part" for name in ("a", "b")]
    for part in parts:
        part.parent.mkdir(parents=True)
        part.touch()
    with pytest.raises(TimeoutError):
        fetched(there, monkeypatch, 1.1 * SILENT_S)
    assert [part.exists() for part in parts] == [False, True], "the other one may be coming from another site"


PIECE_B = 2**18


class Result:
    """A result at a site that is this machine, and where it comes to."""

    def __init__(
        self,
        make_plan: Callable[..., Plan],
        tmp_path: Path,
        folder: str = "run",
        result: str = "result",
        stage_out: tuple[str, ...] = (),
    ) -> None:
        self._job = Job("there", "there", ("a",))
        plan = make_plan("a")
        instances = tuple(dataclasses.replace(each, stage_out=stage_out) for each in plan.instances)
        self._plan = dataclasses.replace(plan, instances=instances, jobs=(self._job,), sites=(Site("there"),))
        self._folder = RunFolder(tmp_path / folder, self._plan)
        self.told: list[LastReport] = []
        self._there = tmp_path / "there"
        path = f"{self._plan.by_name['a'].folder}/work/{result}"
        self.here, there = self._folder.path / path, self._there / path
        there.parent.mkdir(parents=True)
        self.content = os.urandom(PIECES * PIECE_B)
        there.write_bytes(self.content)
        self.there = there
        (self._there / "mto").symlink_to(mto.PROGRAM)

    def fetch(self) -> NotFetched:
        try:
            return asyncio.run(self._fetch())
        finally:
            self._folder.close()

    async def _fetch(self) -> NotFetched:
        site = RunSite(Site("there", python=sys.executable), self._folder.run_id, Journal(self._folder.files))
        site.folder = str(self._there)
        try:
            jobs = {"there": SiteJob("there", "there", site.site, self._job, 60.0, JobNodes(self._job, site.site, ()))}
            arrived = Arrived("there", self.told.append)
            return await teardown.fetch_results(site, self._plan, self._folder, jobs, arrived)
        finally:
            await site.transport.close()


def counted_signs(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return what grows with each sign of life of a site."""
    real, signs = teardown._fetch_once, list[None]()

    async def counting(*arguments: Any) -> NotFetched:
        *others, on_piece = arguments

        def on_sign() -> None:
            signs.append(None)
            on_piece()

        return await real(*others, on_sign)

    monkeypatch.setattr(teardown, "_fetch_once", counting)
    return signs


def test_each_piece_of_a_result_that_comes_is_a_sign_of_life(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, signs = Result(make_plan, tmp_path), counted_signs(monkeypatch)
    assert result.fetch() == NotFetched([], [], 0, [])
    assert result.here.read_bytes() == result.content
    assert len(signs) >= PIECES
    assert SiteProgress("there", "fetching results") in result.told


def test_it_is_noted_now_and_then_how_much_has_come_as_long_as_something_comes(
    there: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float, str]] = []
    *others, _ = there

    async def arriving(*arguments: Any) -> NotFetched:
        *_, arrived, on_piece = arguments
        arrived.total(30_000_000)
        for pause_s in (1, 4.5, 0.9 * SILENT_S):
            await asyncio.sleep(pause_s)
            arrived.advanced(10_000_000)
            on_piece()
        return NotFetched()

    async def fetch() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        arrived = Arrived("there", lambda report: told.append((round(loop.time() - begun), report.doing)))
        await teardown.fetch_results(*others, arrived)

    monkeypatch.setattr(teardown, "_fetch_once", arriving)
    skipping_clock.run(fetch())
    assert told == [
        (0, "fetching results, 0.0 of 30.0 MB"),
        (5, "fetching results, 10.0 of 30.0 MB"),
        (10, "fetching results, 20.0 of 30.0 MB"),
    ]


def test_comparing_what_has_come_before_is_a_sign_of_life_although_nothing_comes_meanwhile(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, signs = Result(make_plan, tmp_path), counted_signs(monkeypatch)
    result.here.parent.mkdir(parents=True, exist_ok=True)
    (result.here.parent / ".result.xmml-part").write_bytes(result.content)

    class NothingComes(Conversation):
        def __init__(self, site: str, channel: Any, open_channel: Any, on_piece: object, lease_s: float) -> None:
            super().__init__(site, channel, open_channel, None, lease_s)

    monkeypatch.setattr(channel_transport, "Conversation", NothingComes)
    assert result.fetch() == NotFetched([], [], 0, [])
    assert result.here.read_bytes() == result.content
    assert signs


@pytest.mark.parametrize("link", ["runs", "runs/run"])
def test_results_come_into_a_folder_of_a_run_that_lies_behind_a_link_of_the_user(
    make_plan: Callable[..., Plan], tmp_path: Path, link: str
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / "scratch")
    result = Result(make_plan, tmp_path, "runs/run")
    assert result.fetch() == NotFetched([], [], 0, [])
    assert result.here.read_bytes() == result.content


def test_results_are_not_written_through_a_link_below_the_folder_of_the_run(
    make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    result = Result(make_plan, tmp_path, result="folder/result")
    (work := result.here.parents[1]).rmdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    work.symlink_to(elsewhere)
    with pytest.raises(
        ResultsRefused, match=r"at the target, instances/a/work is a symbolic link.*put a folder in its place"
    ):
        result.fetch()
    assert not list(elsewhere.iterdir())


def test_a_link_that_a_pattern_names_comes_as_a_copy_of_the_file_that_it_leads_to(
    make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    result = Result(make_plan, tmp_path, stage_out=("last",))
    result.there.rename(elsewhere := tmp_path / "elsewhere")
    (result.there.parent / "last").symlink_to(elsewhere)
    assert result.fetch() == NotFetched([], [], 0, [])
    last = result.here.parent / "last"
    assert not last.is_symlink()
    assert last.read_bytes() == result.content


def test_links_in_a_folder_are_left_out_and_told(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    result = Result(make_plan, tmp_path)
    (result.there.parent / "last").symlink_to("result")
    rest = result.fetch()
    assert rest == NotFetched([], [], 1, ["instances/a/work/last"])
    assert teardown.links_left_out(rest) == (
        "not copied: a symbolic link among the results: instances/a/work/last; "
        "run:stage-out with the name of a link copies the file or folder that it leads to"
    )
    many = NotFetched(links=1200, first_links=["a/one", "a/two"])
    assert "1,200 symbolic links among the results: a/one, a/two, ...;" in teardown.links_left_out(many)
