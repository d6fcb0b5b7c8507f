"""A coupled rule of a workflow, over the clusters of the test bed, carried out by a real Snakemake on the laptop."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import canal_study
import greeting
from disclosed import mode_of
from testbed.release import RELEASED_WITHIN_S, jobs_of, left_after_a_run
from waiting import wait_until
from xmml_sites.batch import umask_of_this_process

if TYPE_CHECKING:
    from testbed import Bed

#: A workflow takes far less.
LIMIT_S = 300.0

SNAKEFILE = f"""
rule all:
    input: "sum.txt"
rule couple:
    input: "model.xmml"
    output: "heard/{{number}}.txt"
    shell: "{greeting.COMMAND}"
rule add:
    input: expand("heard/{{number}}.txt", number=[1, 2])
    output: "sum.txt"
    shell: "cat {{input}} | paste -s -d + | tr -d '\\\\n' > {{output}}"
"""
PLACES = {"world": "alpha", "listener": "beta"}
ONE_RUN = f"""
rule couple:
    input: "model.xmml"
    output: "heard/{{number}}.txt"
    shell: "{greeting.COMMAND}"
"""
#: Fails at its site when it runs there for the first time.
FAILS_ONCE = """import pathlib
if not (pathlib.Path.home() / "tried").exists():
    (pathlib.Path.home() / "tried").touch()
    raise RuntimeError("not the first time")"""
#: What Slurm says of jobs of rules with these resources.
ASKED = ("Partition=short", "TimeLimit=00:05:00", "MinMemoryNode=64M", "Nice=3")
COUNT = """
rule count:
    input: "words.txt"
    output: "counted.txt"
    threads: 2
    resources: site="alpha", runtime=5, mem_mb=64, slurm_partition="short", slurm_extra="--nice=3 --comment='two words'"
    shell: 'wc -w < {input} > {output}; echo "$SLURM_JOB_ID $(hostname)" >> {output}'
"""


class Workflow:
    """A workflow on the laptop, over the sites of the test bed."""

    def __init__(self, bed: Bed, folder: Path, snakefile: str, before: str = "pass") -> None:
        self.bed, self.folder = bed, folder
        (folder / "model.xmml").write_text(greeting.model(before))
        (folder / "Snakefile").write_text(snakefile)
        (folder / "sites.toml").write_text(bed.sites_toml())
        self.env = {**os.environ, "TMPDIR": str(bed.temporary)}

    def command(self, *words: str) -> list[str]:
        places = " ".join(f"--place {name}={site}" for name, site in PLACES.items())
        command = [sys.executable, "-m", "snakemake", "--executor", "xmml", "--jobs", "2", "--xmml-sites", "sites.toml"]
        return [*command, "--xmml-keep-runs", f"--xmml-options={places}", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Carry it out to its end."""
        done = self.bed.laptop.run(self.command(*words), cwd=self.folder, env=self.env, check=False, timeout_s=LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def events(self, what: str) -> list[list[dict[str, Any]]]:
        """What has happened in each run."""
        runs = sorted((self.folder / ".snakemake/xmml/runs").glob("*/events.jsonl"))
        texts = [run.read_text().rpartition("\n")[0].splitlines() for run in runs]
        return [[each for each in map(json.loads, text) if each["what"] == what] for text in texts]


def test_coupled_rules_run_over_two_clusters_and_their_results_are_there_for_other_rules(
    firewalled: Bed, tmp_path: Path
) -> None:
    workflow = Workflow(firewalled, tmp_path, SNAKEFILE)
    workflow.run()
    assert (tmp_path / "sum.txt").read_text() == "1+1+1+2+2+2"
    assert mode_of(tmp_path / "heard/1.txt") == 0o666 & ~umask_of_this_process()
    joined = workflow.events("joined")
    assert [{each["instance"]: each["site"] for each in run} for run in joined] == [PLACES, PLACES]
    for run in (tmp_path / ".snakemake/xmml/runs").iterdir():
        jobs = json.loads((run / "provenance.json").read_text())["jobs"]
        assert {job["site"] for job in jobs} == {"alpha", "beta"}


def test_the_study_of_the_canal_over_two_clusters_and_the_laptop(firewalled: Bed, tmp_path: Path) -> None:
    """The logs of its runs grow in the folder of the model while that is brought to the sites."""
    folder = tmp_path / "canal"
    canal_study.write(folder)
    (folder / "sites.toml").write_text(firewalled.sites_toml())
    command = [sys.executable, "-m", "snakemake", "--executor", "xmml", "--jobs", "2", "--xmml-sites", "sites.toml"]
    command += ["--xmml-options=--place head=alpha --place tail=beta --place picture=laptop", *canal_study.cases()]
    env = {
        **os.environ,
        "TMPDIR": str(firewalled.temporary),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = firewalled.laptop.run(command, cwd=folder, env=env, check=False, timeout_s=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    canal_study.check(folder)


def test_ctrl_c_releases_the_jobs_of_a_coupled_rule_and_leaves_nothing(firewalled: Bed, tmp_path: Path) -> None:
    workflow = Workflow(firewalled, tmp_path, ONE_RUN, "import time; time.sleep(3600)")
    going = firewalled.laptop.start(
        workflow.command("heard/1.txt"),
        cwd=tmp_path,
        env=workflow.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:

        def has_begun() -> bool:
            assert going.poll() is None, going.communicate()
            return [len(run) for run in workflow.events("joined")] == [2]

        wait_until(has_begun, "the run does not begin", LIMIT_S)
        assert [len(jobs_of(firewalled, name)) for name in ("alpha", "beta")] == [1, 1]
        began = time.monotonic()
        going.send_signal(signal.SIGINT)
        output, _ = going.communicate(timeout=RELEASED_WITHIN_S)
    finally:
        going.kill()
        going.communicate()
    assert going.returncode == 1, output
    assert [jobs_of(firewalled, name) for name in ("alpha", "beta")] == [[], []]
    assert left_after_a_run(firewalled, began + RELEASED_WITHIN_S - time.monotonic()) == []
    assert [run[0]["status"] for run in workflow.events("run ended")] == ["interrupted"]
    assert not (tmp_path / "heard/1.txt").exists()


def test_a_coupled_rule_that_failed_is_tried_again(firewalled: Bed, tmp_path: Path) -> None:
    workflow = Workflow(firewalled, tmp_path, ONE_RUN, FAILS_ONCE)
    try:
        done = workflow.run("--retries", "1", "heard/1.txt")
    finally:
        (firewalled.site("alpha").home() / "tried").unlink()
    assert "world failed" in done.stdout + done.stderr
    assert (tmp_path / "heard/1.txt").read_text() == "1\n1\n1\n"
    ended = sorted(run[0]["status"] for run in workflow.events("run ended"))
    assert ended == ["done", "failed"]


def test_an_ordinary_rule_runs_as_a_job_of_slurm(firewalled: Bed, tmp_path: Path) -> None:
    workflow = Workflow(firewalled, tmp_path, COUNT)
    (tmp_path / "words.txt").write_text("taken there and back\n")
    workflow.run()
    words, where = (tmp_path / "counted.txt").read_text().splitlines()
    job, host = where.split()
    assert (words.strip(), host[:-1]) == ("4", "alpha")
    told = firewalled.cluster("alpha").slurm.root(f"scontrol -o show job {job}")
    assert "JobState=COMPLETED" in told
    assert mode_of(tmp_path / "counted.txt") == 0o666 & ~umask_of_this_process()
    assert "NumCPUs=2 " in told
    for asked in ASKED:
        assert f"{asked} " in told
    assert "Comment=two words " in told


def test_a_rule_whose_job_can_never_start_fails_and_leaves_no_job(firewalled: Bed, tmp_path: Path) -> None:
    workflow = Workflow(firewalled, tmp_path, COUNT.replace("runtime=5", "runtime=20"))
    (tmp_path / "words.txt").write_text("never counted\n")
    command = workflow.command()
    done = firewalled.laptop.run(command, cwd=tmp_path, env=workflow.env, check=False, timeout_s=LIMIT_S)
    assert done.returncode != 0
    assert re.search(
        r"job \d+ at alpha will never start: Partition(TimeLimit|Config); the job asks for 20 min "
        r'\(runtime of the rule\), the partition short allows 5 min: set walltime = "5 min"',
        done.stdout + done.stderr,
    )
    assert firewalled.cluster("alpha").slurm.root("squeue --noheader") == ""


def test_the_jobs_of_a_coupled_rule_have_its_resources(firewalled: Bed, tmp_path: Path) -> None:
    resources = 'resources: runtime=5, mem_mb=64, slurm_partition="short", slurm_extra="--nice=3"\n    shell'
    workflow = Workflow(firewalled, tmp_path, ONE_RUN.replace("shell", resources))
    workflow.run("heard/1.txt")
    (run,) = (tmp_path / ".snakemake/xmml/runs").iterdir()
    jobs = {each["site"]: each["id"] for each in json.loads((run / "provenance.json").read_text())["jobs"]}
    assert set(jobs) == {"alpha", "beta"}
    for site, job in jobs.items():
        told = firewalled.cluster(site).slurm.root(f"scontrol -o show job {job}")
        for asked in ASKED:
            assert f"{asked} " in told, told
