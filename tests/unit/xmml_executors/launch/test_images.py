"""What starts programs in images is looked for in the environment that programs have."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from images import write_container_program
from site_here import site_at
from xmml_executors.launch.preparation.image_check import check_images
from xmml_executors.outcome import SiteError
from xmml_planner import Plan
from xmml_planner.sites import AllocatedNodes, Site

Check = Callable[..., None]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_plan: Callable[..., Plan]) -> Check:
    """Look at a site for what a program in an image needs, with Apptainer on the search path of whoever launches the
    run, and not on that of login shells."""
    program = write_container_program(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bash_profile").write_text("PATH=/usr/bin:/bin\n")
    image = tmp_path / "flow.sif"
    image.touch()

    def look(site: Site, *images: str) -> None:
        plan = make_plan("flow")
        flow = [replace(plan.instances[0], site=site.name, image=each) for each in images or [str(image)]]
        at = site_at(tmp_path, site.name)
        at.site = site
        asyncio.run(check_images(at, [site.name], replace(plan, instances=tuple(flow), sites=(site,))))

    return look


def test_a_job_has_what_its_script_has_loaded(check: Check) -> None:
    check(Site("alpha", scheduler="slurm", allocation=AllocatedNodes("12", ("n1",))))


def test_a_site_has_what_its_login_shells_find(check: Check) -> None:
    with pytest.raises(SiteError, match="alpha has no apptainer, which starts programs in images"):
        check(Site("alpha", ssh="alpha", scheduler="slurm", setup=("export DATA=data  # for all",)))


IN_A_JOB = Site("alpha", scheduler="slurm", allocation=AllocatedNodes("12", ("n1",)))


def test_all_images_are_named_that_are_not_there(check: Check) -> None:
    with pytest.raises(SiteError, match=r"the images /no/flow.sif, /no/mesh.sif are not at alpha: put them there"):
        check(IN_A_JOB, "/no/mesh.sif", "/no/flow.sif")


def test_a_shell_that_ends_before_it_has_looked_does_not_mean_that_all_is_there(check: Check) -> None:
    with pytest.raises(SiteError, match=r"cannot be looked for at alpha, .* nothing, with exit status 4; check setup"):
        check(replace(IN_A_JOB, setup=("exit 4",)))
