"""Coupled runs in a workflow, carried out by a real Snakemake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import greeting
from waiting import wait_until

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
#: How long a test waits for what takes a second or two on a machine at rest.
LIMIT_S = 60.0


class Workflow:
    """A folder with a model and a Snakefile."""

    def __init__(self, folder: Path, numbers: list[int], before: str = "pass", more: str = "") -> None:
        self.folder = folder
        (folder / "model.xmml").write_text(greeting.model(before))
        (folder / "Snakefile").write_text(SNAKEFILE.format(numbers=numbers, more=more, command=greeting.COMMAND))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--executor", "xmml", "--jobs", "4", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments)
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=2 * LIMIT_S)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def heard(self, number: int) -> str:
        return (self.folder / f"heard/{number}.txt").read_text()

    def processes(self) -> list[int]:
        """The processes that work in the folder or below."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    folder = os.readlink(entry / "cwd")
                except OSError:
                    continue
                if Path(folder).is_relative_to(self.folder):
                    found.append(int(entry.name))
        return found


def test_each_rule_is_a_run_of_its_own_and_leaves_its_results(tmp_path: Path) -> None:
    workflow = Workflow(tmp_path, [1, 2, 3])
    done = workflow.run()
    assert done.returncode == 0, done.stderr
    assert [workflow.heard(number) for number in (1, 2, 3)] == ["1\n" * 3, "2\n" * 3, "3\n" * 3]
    assert not any((tmp_path / ".snakemake/xmml/runs").iterdir())


def test_runs_are_kept_when_asked_for(tmp_path: Path) -> None:
    Workflow(tmp_path, [7]).run("--xmml-keep-runs")
    (run,) = (tmp_path / ".snakemake/xmml/runs").iterdir()
    assert (run / "report.html").exists()


def test_options_for_all_runs_are_passed_on(tmp_path: Path) -> None:
    done = Workflow(tmp_path, [1]).run("--xmml-options=-p world.numbr=3")
    assert done.returncode != 0
    assert "numbr" in done.stderr + "".join(log.read_text() for log in tmp_path.glob(".snakemake/xmml/logs/*/*"))


def test_a_dry_run_runs_nothing(tmp_path: Path) -> None:
    workflow = Workflow(tmp_path, [1])
    done = workflow.run("--dry-run")
    assert done.returncode == 0
    assert "couple" in done.stdout + done.stderr
    assert not (tmp_path / "heard").exists()


def test_a_failure_is_told_with_instance_reason_and_log(tmp_path: Path) -> None:
    done = Workflow(tmp_path, [1], before='raise ValueError("out of words")').run()
    assert done.returncode != 0
    assert "world failed: ValueError: out of words at model.xmml:7" in done.stderr
    assert "out of words" in done.stderr
    assert ".snakemake/xmml/logs/couple/" in done.stderr
    assert not (tmp_path / "heard/1.txt").exists()


def test_a_failed_run_is_tried_again(tmp_path: Path) -> None:
    flag = tmp_path / "failed once"
    before = f"import pathlib\nif not pathlib.Path({str(flag)!r}).exists():\n"
    before += f"    pathlib.Path({str(flag)!r}).touch()\n    raise ValueError('not yet')"
    workflow = Workflow(tmp_path, [5], before=before, more="retries: 1")
    done = workflow.run()
    assert done.returncode == 0, done.stderr
    assert workflow.heard(5) == "5\n" * 3


def test_a_result_that_is_missing_fails_the_rule(tmp_path: Path) -> None:
    workflow = Workflow(tmp_path, [1])
    text = (tmp_path / "Snakefile").read_text().replace("listener/heard.txt", "listener/unheard.txt")
    (tmp_path / "Snakefile").write_text(text)
    done = workflow.run()
    assert done.returncode != 0
    assert 'instance "listener" has ended but not written unheard.txt' in done.stderr


def blocked(tmp_path: Path) -> tuple[Workflow, Path, Path]:
    """A workflow whose run waits until a file is there, the file, and the one that says that it waits."""
    go, waits = tmp_path / "go", tmp_path / "waits"
    before = f"import pathlib, time\npathlib.Path({str(waits)!r}).touch()\n"
    before += f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    return Workflow(tmp_path, [1], before=before), go, waits


def test_ctrl_c_ends_the_runs_and_leaves_no_process(tmp_path: Path) -> None:
    workflow, _, waits = blocked(tmp_path)
    running = workflow.start()
    try:
        wait_until(waits.exists, "the run has begun")
        os.kill(running.pid, signal.SIGINT)
        output, _ = running.communicate(timeout=LIMIT_S)
    finally:
        running.kill()
    assert running.returncode != 0, output
    wait_until(lambda: not workflow.processes(), "every process of the run has ended")


def test_a_second_ctrl_c_does_not_wait_for_a_run_that_is_slow_to_end(tmp_path: Path) -> None:
    workflow, _, waits = blocked(tmp_path)
    running = workflow.start()
    assert running.stdout is not None
    try:
        wait_until(waits.exists, "the run has begun")
        (slow,) = [pid for pid in workflow.processes() if is_xmml_run(pid)]
        os.kill(slow, signal.SIGSTOP)
        try:
            os.kill(running.pid, signal.SIGINT)
            assert any("Ctrl-C once more" in line for line in running.stdout)
            os.kill(running.pid, signal.SIGINT)
            output, _ = running.communicate(timeout=LIMIT_S)
        finally:
            os.kill(slow, signal.SIGCONT)
    finally:
        running.kill()
    assert running.returncode != 0, output
    assert "by themselves" in output
    wait_until(lambda: not workflow.processes(), "the run has ended by itself")


def is_xmml_run(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"xmml_run" in words


def test_a_run_goes_on_where_a_killed_snakemake_left_it(tmp_path: Path) -> None:
    workflow, go, waits = blocked(tmp_path)
    running = workflow.start()
    try:
        wait_until(waits.exists, "the run has begun")
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.communicate()
    workflow.run("--unlock")
    again = workflow.start()
    assert again.stdout is not None
    try:
        assert any("goes on with the run in" in line for line in again.stdout)
        go.touch()
        output, _ = again.communicate(timeout=LIMIT_S)
    finally:
        again.kill()
    assert again.returncode == 0, output
    assert workflow.heard(1) == "1\n" * 3


def test_a_catalogue_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    done = Workflow(tmp_path, [1]).run("--xmml-sites", "nowhere.toml")
    assert done.returncode != 0
    assert "nowhere.toml" in done.stderr


def test_every_setting_is_explained() -> None:
    text = subprocess.run([sys.executable, "-m", "snakemake", "--help"], capture_output=True, text=True).stdout
    assert [each for each in OPTIONS if each not in text] == []
