"""What commands do with the allocation of their job."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace

import pytest
from xmml_executors.outcome import ExitStatus
from xmml_planner.sites.allocation import AllocatedNode, Allocation
from xmml_run.allocated import AllocationProblem, allocation_of, claimed

OPTIONS = Namespace(no_allocation=False, model="model.xmml")


def test_outside_of_a_job_there_is_no_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "PBS_JOBID"):
        monkeypatch.delenv(name, raising=False)
    assert allocation_of(OPTIONS) is None


@pytest.mark.parametrize("options", [{"no_allocation": True}, {"model": "plan.json"}, {"by_hand": ["a"]}])
def test_in_a_job_the_allocation_is_left_alone_if_it_cannot_be_or_is_not_to_be_used(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    assert allocation_of(Namespace(**{**vars(OPTIONS), **options})) is None


def test_a_batch_system_that_does_not_answer_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        AllocationProblem, match=r"what job 12 has is not known: scontrol .* with --no-allocation"
    ) as told:
        allocation_of(OPTIONS)
    assert told.value.exit_status is ExitStatus.SITE_FAILED


@pytest.mark.parametrize(("place", "said"), [("0", "it was started 4 times"), ("1", "")])
def test_of_several_copies_the_first_says_what_to_do(monkeypatch: pytest.MonkeyPatch, place: str, said: str) -> None:
    step = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": place}
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AllocationProblem) as told:
        allocation_of(OPTIONS)
    assert str(told.value).startswith(said)
    assert bool(str(told.value)) is bool(said)


def test_an_allocation_can_be_claimed_once() -> None:
    allocation = Allocation("slurm", f"a job of the test in {os.getpid()}", (AllocatedNode("n1", 1),), "n1")
    assert claimed(allocation)
    assert not claimed(allocation)


#: Takes names as another user, and listens under the first of them.
IMPOSTOR = """import os, socket, sys
os.setuid(54321)
names = [socket.socket(socket.AF_UNIX) for _ in sys.argv[1:]]
for each, name in zip(names, sys.argv[1:]):
    each.bind("\\0" + name)
names[0].listen()
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can be another user: sudo make test")
def test_no_other_user_can_claim_it() -> None:
    allocation = Allocation("slurm", f"another job of the test in {os.getpid()}", (AllocatedNode("n1", 1),), "n1")
    name = f"xmml-allocation-{os.getuid()}-{allocation.name}"
    command = [sys.executable, "-c", IMPOSTOR, f"{name}-0", f"{name}-1", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as impostor:
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == "taken\n"
        assert claimed(allocation)
        assert not claimed(allocation)
        impostor.kill()
