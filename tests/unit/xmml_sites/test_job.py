"""What a queue has answered is noted at the site, whatever becomes of who has asked."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until
from xmml_sites.batch import RESULT, JobScript, JobState, JobStatus, by_name, read_result
from xmml_sites.batch.slurm import Slurm
from xmml_sites.job import ANSWER, JobEnd, JobQueue, noted, noting, query_noted_ids
from xmml_sites.ssh import TransportError
from xmml_sites.ssh.command_result import CommandResult
from xmml_sites.ssh.local import LocalTransport


def sh(command: str) -> CommandResult:
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True)
    return CommandResult(done.returncode, done.stdout, done.stderr)


def folders(tmp_path: Path, *names: str) -> list[str]:
    for name in names:
        (tmp_path / name).mkdir()
    return [str(tmp_path / name) for name in names]


def test_an_answer_is_given_and_noted_for_each_job(tmp_path: Path) -> None:
    a, b, other = folders(tmp_path, "a job", "b", "other")
    answer = sh(noting("echo 12; echo said >&2", [a, b]))
    assert answer == CommandResult(0, "12\n", "said\n")
    found = noted(sh(query_noted_ids([a, other, b])))
    assert [each and each.stdout.strip() for each in found] == ["12", None, "12"]


def test_what_a_queue_does_not_take_is_not_noted(tmp_path: Path) -> None:
    (a,) = folders(tmp_path, "a")
    assert sh(noting("echo no >&2; false", [a])) == CommandResult(1, "\n", "no\n")
    assert noted(sh(query_noted_ids([a]))) == [None]
    assert list(Path(a).iterdir()) == []


def test_nobody_who_listens_is_needed_for_the_note(tmp_path: Path) -> None:
    (a,) = folders(tmp_path, "a")
    subprocess.run(["/bin/sh", "-c", noting("echo 12", [a]) + " >&-"], capture_output=True)
    assert (Path(a) / ANSWER).read_text() == "12\n"


def test_who_looks_waits_for_a_queue_that_is_being_asked(tmp_path: Path) -> None:
    (a,) = folders(tmp_path, "a")
    gate = tmp_path / "gate"
    wait = f"while [ ! -e '{gate}' ]; do sleep 0.02; done; echo 12"
    asking = subprocess.Popen(["/bin/sh", "-c", noting(wait, [a])], stdout=subprocess.PIPE)
    try:
        wait_until((Path(a) / ANSWER).exists, "the queue is not asked")
        looking = subprocess.Popen(["/bin/sh", "-c", query_noted_ids([a])], stdout=subprocess.PIPE, text=True)
        assert looking.poll() is None
        gate.touch()
        said, _ = looking.communicate()
        assert [each and each.stdout.strip() for each in noted(CommandResult(0, said, ""))] == ["12"]
    finally:
        gate.touch()
        asking.communicate()


def test_jobs_of_which_nothing_is_heard_are_not_taken_for_never_submitted(tmp_path: Path) -> None:
    class KilledThere(LocalTransport):
        """Answers as a login node that kills a command after its first line."""

        async def run(self, command: str, *others: Any, **how: Any) -> CommandResult:
            first, _, _ = command.partition("\n(")
            return await super().run(f"{first}\nkill -9 $$", *others, **how)

    a, b = folders(tmp_path, "a", "b")
    for each in (a, b):
        sh(noting("echo 12", [each]))
    queue = JobQueue(KilledThere("alpha"), Slurm())
    with pytest.raises(TransportError, match=r"site alpha: .* ended early, with exit status 137"):
        asyncio.run(queue.find([a, b]))
    assert asyncio.run(JobQueue(LocalTransport("alpha"), Slurm()).find([a, b])) == {a: "12", b: "12"}


def end_of(folder: str, status: JobStatus) -> JobEnd:
    async def ask() -> JobEnd:
        transport = LocalTransport("alpha")
        try:
            return await JobQueue(transport, Slurm()).end_of(folder, status)
        finally:
            await transport.close()

    return asyncio.run(ask())


def result(status: int, phase: str, detail: str = "") -> str:
    return f"status={status}\nphase={phase}\ndetail={detail}\nhost=n1\nbegan=1\nnow=2\n"


@pytest.mark.parametrize(
    ("left", "told", "why", "is_lasting"),
    [
        (result(3, "command"), JobState.FAILED, "", False),
        (
            result(1, "module", "openfoam"),
            JobState.FAILED,
            "the module 'openfoam' failed on n1 with",
            True,
        ),
        (result(2, "setup", "cd /no"), JobState.FAILED, "the line of its setup 'cd /no' failed on n1 with", True),
        (result(143, "walltime"), JobState.WALLTIME_EXPIRED, "its time was over", False),
        (result(143, "stopped", "command"), JobState.CANCELLED, "it was cancelled", False),
        (result(143, "stopped", "command"), JobState.GONE, "it was ended from outside", False),
        (None, JobState.NODE_FAILED, "its node failed", False),
        (None, JobState.GONE, "the queue does not know it any more", False),
        ("nonsense", JobState.FAILED, "the queue calls it failed", False),
    ],
)
def test_how_a_job_has_ended_is_told_by_itself_or_else_by_its_queue(
    tmp_path: Path, left: str | None, told: JobState, why: str, is_lasting: bool
) -> None:
    (folder,) = folders(tmp_path, "a")
    if left is not None:
        (Path(folder) / RESULT).write_text(left)
    end = end_of(folder, JobStatus(told))
    assert end.why.startswith(why)
    assert bool(end.why) == bool(why)
    assert end.is_lasting == is_lasting


@pytest.mark.parametrize(
    ("setup", "phase"), [(("export A=1  # for all", "# nothing", ""), "command"), (("false  # for all",), "setup")]
)
def test_lines_of_the_set_up_of_a_job_may_have_comments(tmp_path: Path, setup: tuple[str, ...], phase: str) -> None:
    script = tmp_path / "script"
    script.write_text(by_name("local", "").render(JobScript("a", str(tmp_path), "true", walltime_s=60.0, setup=setup)))
    subprocess.run(["bash", script], check=False, start_new_session=True)  # it ends its process group
    assert read_result((tmp_path / RESULT).read_text()).phase == phase
