"""What a launch would do, without doing it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xmml_executors.launch.dry_run import dry_run_lines
from xmml_executors.launch.site.run_site import LONGEST_S
from xmml_executors.model_files import names_below, note_built
from xmml_executors.outcome import SiteError
from xmml_planner import Plan
from xmml_planner.execution_plan import Build, Job, StagedFile
from xmml_planner.sites import RelaySite, Site


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
        jobs=(Job("here", "here", ("a",)), Job("alpha", "alpha", ("b",), nodes=2, cores_per_node=4, walltime_s=600.0)),
        sites=sites,
        stage=(StagedFile("alpha", "solver.c", ("b",)),),
        builds=(Build("make solver", str(tmp_path), ("b",), "", "alpha"),),
    )
    text = "\n".join(dry_run_lines(plan, str(tmp_path / "runs/r")))
    assert "site alpha: ssh me@alpha, slurm" in text
    assert "  1 file (13 bytes)" in text
    assert "build: make solver" in text
    for line in ("#SBATCH --partition=long", "#SBATCH --constraint=fast", "#SBATCH --nodes=2", "module load openmpi"):
        assert line in text
    assert "b: ~/xmml/runs/RUN/model/solver -v" in text
    assert "site here:" not in text
    assert "folder ~/xmml/runs/RUN with mto, " in text
    assert "sbatch --parsable ~/xmml/runs/RUN/jobs/alpha.1/job.sh" in text


CLUSTER = Site("alpha", ssh="me@alpha", scheduler="slurm", walltime_s=7200.0, can_reserve=True)
FAST = dataclasses.replace(CLUSTER, name="fast", like="alpha", partition="fast")
BETA = Site("beta", ssh="me@beta", scheduler="slurm", relay=RelaySite(listen="beta.org:40001"))
SERVER = Site("server", ssh="me@server")


def test_what_builds_here_have_made_travels_to_sites_that_build_nothing_and_is_named_for_the_others(
    make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    before = names_below(tmp_path)
    (tmp_path / "mesh.bin").write_text("mesh")
    note_built(tmp_path, before)
    (tmp_path / "solver.c").write_text("")
    plan = make_plan("a", "b", b=[str(tmp_path / "solver")])
    plan = dataclasses.replace(
        plan,
        model_folder=str(tmp_path),
        instances=tuple(dataclasses.replace(each, site="server") for each in plan.instances),
        jobs=(Job("server", "server", ("a", "b")),),
        sites=(SERVER,),
        stage=(StagedFile("server", ".", ("b",)),),
    )
    built = dataclasses.replace(plan, builds=(Build("make", str(tmp_path), ("b",), "", "server"),))
    assert "\n    mesh.bin\n    solver.c" in "\n".join(dry_run_lines(plan, str(tmp_path / "runs/r")))
    lines = dry_run_lines(built, str(tmp_path / "runs/r"))
    place = lines.index("  not sent, because builds here have made them (run:stage-in brings them):")
    assert lines[place - 1 : place + 2 : 2] == ["    solver.c", "    mesh.bin"]


def test_what_a_site_cannot_do_is_told_with_its_name(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan("a", "b")
    plan = dataclasses.replace(
        plan,
        instances=tuple(dataclasses.replace(each, site="server") for each in plan.instances),
        jobs=(Job("server", "server", ("a", "b"), nodes=2),),
        sites=(SERVER,),
    )
    with pytest.raises(SiteError, match="server: a site without a batch system has one node"):
        dry_run_lines(plan, str(tmp_path / "runs/r"))


DryRun = Callable[..., str]


@pytest.fixture
def dry_run(make_plan: Callable[..., Plan], tmp_path: Path) -> DryRun:
    """Shows what would be done for instances of which each has a job at a site of its own."""
    (tmp_path / "model.xmml").touch()

    def show(*sites: Site, **options: Any) -> str:
        plan = make_plan(*(f"at_{site.name}" for site in sites))
        plan = dataclasses.replace(
            plan,
            model_folder=str(tmp_path),
            instances=tuple(
                dataclasses.replace(each, site=site.name) for each, site in zip(plan.instances, sites, strict=True)
            ),
            jobs=tuple(
                Job(site.name, site.name, (f"at_{site.name}",), nodes=1, cores_per_node=4, walltime_s=600.0)
                for site in sites
            ),
            sites=(Site("here"), *sites),
        )
        return "\n".join(dry_run_lines(plan, "/runs/r", **options))

    return show


def test_jobs_on_one_cluster_are_shown_as_the_one_job_that_they_are(dry_run: DryRun) -> None:
    text = dry_run(CLUSTER, FAST)
    assert "jobs alpha, fast, as one heterogeneous job, " in text
    assert text.count("sbatch --parsable") == text.count("#SBATCH hetjob") == 1
    assert text.index("#SBATCH hetjob") < text.index("#SBATCH --partition=fast")
    for number in (0, 1):
        assert f"srun --het-group={number}" in text
    assert "at_alpha: " in text
    assert "at_fast: " in text


def test_jobs_are_shown_as_they_are_got_together_if_somebody_says_how(dry_run: DryRun) -> None:
    text = dry_run(CLUSTER, FAST, strategy="rendezvous")
    assert text.count("sbatch --parsable") == 2
    assert "hetjob" not in text
    text = dry_run(CLUSTER, FAST, strategy="reservation")
    assert text.count("in cores that are reserved from ") == 2
    assert text.count("#SBATCH --reservation=RESERVATION") == 2
    with pytest.raises(SiteError, match="beta cannot reserve"):
        dry_run(CLUSTER, BETA, strategy="reservation")


def test_a_job_alone_asks_for_the_time_of_the_plan(dry_run: DryRun) -> None:
    text = dry_run(CLUSTER)
    assert "  job alpha:" in text
    assert "#SBATCH --time=0:10:00" in text


def test_jobs_that_wait_for_each_other_are_shown_with_the_time_for_which_they_may(dry_run: DryRun) -> None:
    text = dry_run(CLUSTER, BETA)
    assert "  job alpha, with 10 min for waiting:" in text
    assert "  job beta, with 10 min for waiting:" in text
    assert text.count("#SBATCH --time=0:20:00") == 2
    text = dry_run(CLUSTER, FAST)
    assert "  jobs alpha, fast, as one heterogeneous job, with 2 min for waiting:" in text
    assert text.count("#SBATCH --time=0:12:00") == 2
    text = dry_run(CLUSTER, FAST, strategy="reservation")
    assert "from now on, with 5 min for waiting:" in text
    text = dry_run(dataclasses.replace(CLUSTER, walltime_s=600.0), BETA)
    assert "  job alpha:" in text


def test_a_job_of_unknown_length_is_shown_with_the_day_that_its_script_assumes(
    make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    site = Site("alpha", ssh="me@alpha", scheduler="slurm")
    plan = dataclasses.replace(
        make_plan("a"), model_folder=str(tmp_path), jobs=(Job("alpha", "alpha", ("a",)),), sites=(site,)
    )
    text = "\n".join(dry_run_lines(plan, str(tmp_path / "runs/r")))
    assert "this script assumes a day" in text
    assert "#SBATCH --time=24:00:00" in text


def test_the_relays_of_a_run_are_shown_with_their_commands(dry_run: DryRun) -> None:
    text = dry_run(BETA, SERVER)
    assert "this machine: mto --site here-RUN --listen 127.0.0.1:0 --stdin --log /runs/r/relays/here.log\n" in text
    beta, server = text.split("site server:")
    log, link = "--log ~/xmml/runs/RUN/relays/beta.log", "--link 127.0.0.1:PORT,encrypt=true"
    assert f"in the site gateway, as by mto --site beta-RUN --listen 0.0.0.0:40001 {log} {link}" in beta
    assert "mto --site" not in server
    assert "ssh leads 127.0.0.1:PORT there to the relay of this machine" in server
    assert "mto --site" not in dry_run(SERVER)
    assert "ssh leads 127.0.0.1:PORT there to the coordinator" in dry_run(SERVER)
    assert "PORT" not in dry_run(BETA, SERVER, is_direct=True)


def test_the_python_of_a_site_and_the_folder_of_the_run_are_named_as_the_run_will_use_them(
    dry_run: DryRun,
) -> None:
    text = dry_run(dataclasses.replace(CLUSTER, python="~/env/bin/python", work="~/scratch"))
    assert "exec ~/scratch/runs/RUN/mto site --run ~/scratch/runs/RUN agent --python ~/env/bin/python " in text
    assert "~/run/" not in text


def test_a_site_without_a_queue_limits_no_run_unless_its_walltime_does(dry_run: DryRun) -> None:
    assert f"sleep {LONGEST_S:.0f};" in dry_run(SERVER)
    assert "sleep 7200;" in dry_run(dataclasses.replace(SERVER, walltime_s=7200.0))


def test_what_is_not_known_before_the_run_is_explained(dry_run: DryRun) -> None:
    text = dry_run(CLUSTER)
    explained = text.strip().partition("\n")[0]
    assert explained == (
        "At the sites, ~ stands for your home folder, RUN for the name of the run, PORT for a port that is free. "
        "The run replaces these by what they stand for."
    )
    assert "RESERVATION for the name of the reservation" in dry_run(CLUSTER, FAST, strategy="reservation")
    assert "~ stands" not in dry_run(dataclasses.replace(CLUSTER, work="/scratch/me"))


def test_at_a_cluster_that_this_machine_belongs_to_the_home_folder_is_known(
    dry_run: DryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    text = dry_run(dataclasses.replace(CLUSTER, ssh=None, python="~/env/bin/python"))
    assert "sbatch --parsable /home/me/xmml/runs/RUN/jobs/alpha.1/job.sh" in text
    assert (
        "exec /home/me/xmml/runs/RUN/mto site --run /home/me/xmml/runs/RUN agent --python /home/me/env/bin/python "
        in text
    )
    assert "~" not in text
