"""What a launch would do, without doing it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from xmml_executors.launch.rehearsal import rehearsal
from xmml_planner import Plan
from xmml_planner.execution_plan import Build, Job, StagedFile
from xmml_planner.sites import Site


def test_files_builds_scripts_and_commands_of_each_site_are_shown(
    make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    (tmp_path / "solver.c").write_text("int main() {}")
    plan = make_plan("a", "b", b=[str(tmp_path / "solver"), "-v"])
    sites = (
        Site("here"),
        Site(
            "alpha",
            ssh="me@alpha",
            scheduler="slurm",
            partition="long",
            options=("--constraint=fast",),
            modules=("openmpi",),
            walltime_s=7200.0,
        ),
    )
    plan = dataclasses.replace(
        plan,
        model_folder=str(tmp_path),
        instances=tuple(
            dataclasses.replace(each, site="here" if each.name == "a" else "alpha") for each in plan.instances
        ),
        jobs=(Job("here", "here", ("a",)), Job("alpha", "alpha", ("b",), nodes=2, cores=8, walltime_s=600.0)),
        sites=sites,
        stage=(StagedFile("alpha", "solver.c", ("b",)),),
        builds=(Build("make solver", str(tmp_path), ("b",), "", "alpha"),),
    )
    text = "\n".join(rehearsal(plan, str(tmp_path / "runs/r")))
    assert "site alpha: ssh me@alpha, slurm" in text
    assert "1 files (13 bytes)" in text
    assert "build: make solver" in text
    for line in ("#SBATCH --partition=long", "#SBATCH --constraint=fast", "#SBATCH --nodes=2", "module load openmpi"):
        assert line in text
    assert "b: ~/run/model/solver -v" in text
    assert "site here" not in text
