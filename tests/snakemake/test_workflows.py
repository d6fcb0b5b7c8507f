"""Coupled runs in a workflow, carried out by a real Snakemake."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import greeting
from commands import SNAKEMAKE
from gates import awaits, says
from processes import command_line, processes
from waiting import wait_until

from workflows import Workflow, ended

SNAKEFILE = """
rule all:
    input: expand("heard/{{number}}.txt", number={numbers})
rule couple:
    input: "model.xmml"
    output: "heard/{{number}}.txt"
    {more}
    shell: "{command}"
"""
OPTIONS = ("--xmml-sites", "--xmml-runs", "--xmml-keep-runs", "--xmml-options")


class Greetings(Workflow):
    """A workflow that carries out the model of greetings for some numbers; `more` and `behind` stand in its rule and
    behind the command."""

    def __init__(
        self, folder: Path, numbers: list[int], before: str = "pass", more: str = "", behind: str = ""
    ) -> None:
        super().__init__(folder, SNAKEFILE.format(numbers=numbers, more=more, command=greeting.COMMAND + behind))
        (folder / "model.xmml").write_text(greeting.model(before))

    def heard(self, number: int) -> str:
        return (self.folder / f"heard/{number}.txt").read_text()

    def processes(self) -> list[int]:
        """The processes that work in the folder or below."""
        found = []
        for entry in processes():
            with contextlib.suppress(OSError):  # it has ended, or is another's
                if Path(os.readlink(entry / "cwd")).is_relative_to(self.folder):
                    found.append(int(entry.name))
        return found


def test_each_rule_is_a_run_of_its_own_and_leaves_its_results(tmp_path: Path) -> None:
    workflow = Greetings(tmp_path, [1, 2, 3])
    status, output = workflow.run()
    assert status == 0, output
    assert [workflow.heard(number) for number in (1, 2, 3)] == ["1\n" * 3, "2\n" * 3, "3\n" * 3]
    assert not any((tmp_path / ".snakemake/xmml/runs").iterdir())


def test_runs_are_kept_when_asked_for(tmp_path: Path) -> None:
    Greetings(tmp_path, [7]).run("--xmml-keep-runs")
    (run,) = (tmp_path / ".snakemake/xmml/runs").iterdir()
    assert (run / "report.html").exists()


def test_options_for_all_runs_are_passed_on(tmp_path: Path) -> None:
    status, output = Greetings(tmp_path, [1]).run("--xmml-options=-p world.numbr=3")
    assert status != 0
    assert "numbr" in output + "".join(log.read_text() for log in tmp_path.glob(".snakemake/xmml/logs/*/*"))


def test_a_dry_run_runs_nothing(tmp_path: Path) -> None:
    workflow = Greetings(tmp_path, [1])
    status, output = workflow.run("--dry-run")
    assert status == 0
    assert "couple" in output
    assert not (tmp_path / "heard").exists()


def test_a_failure_is_told_with_instance_reason_and_log(tmp_path: Path) -> None:
    status, output = Greetings(tmp_path, [1], before='raise ValueError("out of words")').run()
    assert status != 0
    assert "world failed: ValueError: out of words at model.xmml:7" in output
    assert ".snakemake/xmml/logs/couple/" in output
    assert not (tmp_path / "heard/1.txt").exists()


def test_a_failure_is_told_with_its_reason_also_if_the_rule_redirects_what_the_run_writes(tmp_path: Path) -> None:
    workflow = Greetings(tmp_path, [1], before='raise ValueError("out of words")', behind=" > run.log 2>&1")
    status, output = workflow.run()
    assert status != 0
    assert "world failed: ValueError: out of words at model.xmml:7" in output
    assert "run.log" in output


def test_a_run_whose_output_is_piped_to_tee_is_a_coupled_run(tmp_path: Path) -> None:
    workflow = Greetings(tmp_path, [1], before='print("hear, hear")', behind=" | tee run.log")
    status, output = workflow.run("--xmml-keep-runs")
    assert status == 0, output
    assert workflow.heard(1) == "1\n" * 3
    assert "hear, hear" in (tmp_path / "run.log").read_text()
    assert [run.name.split("-")[0] for run in (tmp_path / ".snakemake/xmml/runs").iterdir()] == ["couple"]


def test_a_run_with_other_commands_is_refused_and_not_taken_for_an_ordinary_rule(tmp_path: Path) -> None:
    workflow = Greetings(tmp_path, [1], behind=" | grep -v step > run.log")
    status, output = workflow.run()
    assert status != 0
    assert "Error in rule couple" in output
    assert "cannot be a coupled run because of: | grep -v step > run.log" in output
    assert not (tmp_path / "run.log").exists()
    assert not (tmp_path / "runs").exists()


def test_a_local_rule_may_run_a_model_and_other_commands(tmp_path: Path) -> None:
    """As Snakemake itself does it: with the `xmml-run` that is found first, on this machine."""
    workflow = Greetings(tmp_path, [1], more="localrule: True", behind=" && echo ended > run.log")
    workflow.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    status, output = workflow.run()
    assert status == 0, output
    assert (tmp_path / "run.log").read_text() == "ended\n"


def test_a_coupled_run_in_a_group_is_refused(tmp_path: Path) -> None:
    status, output = Greetings(tmp_path, [1], more='group: "all of them"').run()
    assert status != 0
    assert 'rule "couple" is a coupled run, which has its own jobs at several sites and cannot be in a group' in output
    assert not (tmp_path / "heard/1.txt").exists()


def test_a_failed_run_is_tried_again(tmp_path: Path) -> None:
    flag = tmp_path / "failed once"
    before = f"import pathlib\nif not pathlib.Path({str(flag)!r}).exists():\n"
    before += f"    pathlib.Path({str(flag)!r}).touch()\n    raise ValueError('not yet')"
    workflow = Greetings(tmp_path, [5], before=before, more="retries: 1")
    status, output = workflow.run()
    assert status == 0, output
    assert workflow.heard(5) == "5\n" * 3


def test_a_result_that_is_missing_fails_the_rule(tmp_path: Path) -> None:
    workflow = Greetings(tmp_path, [1])
    text = (tmp_path / "Snakefile").read_text().replace("listener/heard.txt", "listener/unheard.txt")
    (tmp_path / "Snakefile").write_text(text)
    status, output = workflow.run()
    assert status != 0
    assert 'instance "listener" has ended but not written unheard.txt' in output


def blocked(tmp_path: Path) -> tuple[Greetings, Path, Path]:
    """A workflow whose run waits until a file is there, the file, and the one that says that it waits."""
    go, waits = tmp_path / "go", tmp_path / "waits"
    return Greetings(tmp_path, [1], before=f"{says(waits)}\n{awaits(go)}"), go, waits


def test_ctrl_c_ends_the_runs_and_leaves_no_process(tmp_path: Path) -> None:
    workflow, _, waits = blocked(tmp_path)
    with workflow.going() as running:
        wait_until(waits.exists, "the run does not begin")
        os.kill(running.pid, signal.SIGINT)
        status, output = ended(running)
    assert status != 0, output
    wait_until(lambda: not workflow.processes(), "a process of the run has not ended")


def test_a_second_ctrl_c_does_not_wait_for_a_run_that_is_slow_to_end(tmp_path: Path) -> None:
    workflow, _, waits = blocked(tmp_path)
    with workflow.going() as running:
        assert running.stdout is not None
        wait_until(waits.exists, "the run does not begin")
        (slow,) = [pid for pid in workflow.processes() if is_xmml_run(pid)]
        os.kill(slow, signal.SIGSTOP)
        try:
            os.kill(running.pid, signal.SIGINT)
            assert any("Ctrl-C once more" in line for line in running.stdout)
            os.kill(running.pid, signal.SIGINT)
            status, output = ended(running)
        finally:
            os.kill(slow, signal.SIGCONT)
    assert status != 0, output
    assert "by themselves" in output
    wait_until(lambda: not workflow.processes(), "the run does not end by itself")


def is_xmml_run(pid: int) -> bool:
    return "xmml_run" in command_line(Path(f"/proc/{pid}")).split()


def test_a_run_goes_on_where_a_killed_snakemake_left_it(tmp_path: Path) -> None:
    workflow, go, waits = blocked(tmp_path)
    with workflow.going():
        wait_until(waits.exists, "the run does not begin")
    workflow.run("--unlock")
    with workflow.going() as again:
        assert again.stdout is not None
        assert any("goes on with the run in" in line for line in again.stdout)
        go.touch()
        status, output = ended(again)
    assert status == 0, output
    assert workflow.heard(1) == "1\n" * 3


def test_a_catalogue_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    status, output = Greetings(tmp_path, [1]).run("--xmml-sites", "nowhere.toml")
    assert status != 0
    assert "nowhere.toml" in output


def test_options_whose_quotation_marks_do_not_match_are_refused_at_once(tmp_path: Path) -> None:
    status, output = Greetings(tmp_path, [1]).run("--xmml-options=-p 'a.k=1")
    assert status != 0
    assert "--xmml-options cannot be split into words: No closing quotation: -p 'a.k=1" in output
    assert "Traceback" not in output


def test_every_setting_is_explained() -> None:
    text = subprocess.run([*SNAKEMAKE, "--help"], capture_output=True, text=True).stdout
    assert [each for each in OPTIONS if each not in text] == []


#: A rule that plans its run, and leaves the plan.
PLANS = """
rule couple:
    input: "model.xmml"
    output: "plan.json"
    resources: {resources}
    shell: "xmml-run {{input}} --place world=alpha --place listener=beta --dry-run --json {more} > {{output}}"
"""
CLUSTERS = """
[site.alpha]
ssh = "nowhere"
scheduler = "slurm"
cores = 2
nodes = 2
partition = "batch"
[site.beta]
ssh = "elsewhere"
scheduler = "pbs"
cores = 2
partition = "workq"
"""


class Plans(Workflow):
    """A workflow with a coupled rule that plans its run over two clusters, as it would be carried out."""

    def __init__(self, folder: Path, resources: str, more: str = "") -> None:
        options = ("--xmml-sites", "sites.toml")
        super().__init__(folder, PLANS.format(resources=resources, more=more), *options)
        (folder / "model.xmml").write_text(greeting.model())
        (folder / "sites.toml").write_text(CLUSTERS)

    def planned(self, *options: str) -> tuple[dict[str, Any], dict[str, Any], str]:
        """The sites and the jobs of the plan by name, and what Snakemake wrote."""
        status, output = self.run(*options)
        assert status == 0, output
        plan = json.loads((self.folder / "plan.json").read_text())["plan"]
        return *({each["name"]: each for each in plan[what]} for what in ("sites", "jobs")), output


def test_the_jobs_of_a_coupled_rule_have_its_resources(tmp_path: Path) -> None:
    resources = 'slurm_partition="long", slurm_account="abc", constraint="fast", slurm_extra="--nice=5", '
    sites, jobs, output = Plans(tmp_path, resources + 'runtime="2h", mem_mb=1000').planned()
    assert (sites["alpha"]["partition"], sites["alpha"]["account"]) == ("long", "abc")
    assert sites["alpha"]["options"] == ["--constraint=fast", "--nice=5"]
    assert {name: (job["walltime_s"], job["memory_per_node_bytes"]) for name, job in jobs.items()} == {
        "alpha": (7200.0, 1000 * 2**20),
        "beta": (7200.0, 1000 * 2**20),
    }
    assert "without effect" not in output


def test_those_that_only_slurm_knows_are_not_for_the_jobs_of_other_queues(tmp_path: Path) -> None:
    sites, _, _ = Plans(tmp_path, 'slurm_partition="long", constraint="fast"').planned()
    assert (sites["beta"]["partition"], sites["beta"].get("options", [])) == ("workq", [])


def test_what_the_command_of_a_rule_says_of_jobs_counts_more_than_its_resources(tmp_path: Path) -> None:
    workflow = Plans(tmp_path, 'slurm_partition="long", runtime=120', more="--job alpha.partition=short")
    sites, jobs, _ = workflow.planned()
    assert (sites["alpha"]["partition"], jobs["alpha"]["walltime_s"]) == ("short", 7200.0)


def test_memory_that_snakemake_guesses_is_not_asked_for(tmp_path: Path) -> None:
    _, jobs, _ = Plans(tmp_path, "runtime=5").planned("--default-resources", "slurm_account=abc")
    assert jobs["alpha"].get("memory_per_node_bytes", 0) == 0


def test_memory_that_a_rule_computes_is_asked_for(tmp_path: Path) -> None:
    workflow = Plans(tmp_path, "mem_mb=lambda wildcards, attempt: 1500 * attempt")
    _, jobs, _ = workflow.planned("--default-resources", "slurm_account=abc")
    assert jobs["alpha"]["memory_per_node_bytes"] == 1500 * 2**20


def test_resources_that_a_coupled_rule_cannot_have_are_told(tmp_path: Path) -> None:
    _, _, output = Plans(tmp_path, 'site="alpha", gpu=1, tasks=8').planned()
    assert "rule couple: resources without effect: tasks, gpu: the jobs of a coupled run are as large" in output
    assert "without effect: site: a coupled run is placed as a whole: write --place INSTANCE=SITE" in output


def test_resources_for_slurm_are_told_where_there_is_none(tmp_path: Path) -> None:
    status, output = Greetings(tmp_path, [1], more='resources: slurm_partition="long", runtime=5').run()
    assert status == 0, output
    assert "rule couple: resources without effect: slurm_partition: no site has a queue of Slurm" in output


def test_more_time_than_a_site_allows_is_refused(tmp_path: Path) -> None:
    workflow = Plans(tmp_path, "runtime=120")
    (tmp_path / "sites.toml").write_text(CLUSTERS + 'walltime = "1 h"\n')
    status, output = workflow.run()
    assert status != 0
    assert "jobs at beta are to have a walltime of 2 hr, but have at most 1 hr there" in output
