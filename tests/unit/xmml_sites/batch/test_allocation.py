"""What a batch system says of the job in which a process runs: recorded answers of Slurm, texts like those of PBS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest
from recorded import recorded
from xmml_planner.sites.allocation import AllocatedNode
from xmml_sites.batch import SchedulerUnavailable
from xmml_sites.batch.allocation import (
    allocation_here,
    copies_started,
    pbs_allocation,
    place_among_copies,
    slurm_allocation,
)
from xmml_sites.ssh.command_result import CommandResult

MIB = 2**20
ENV = {
    "SLURM_JOB_ID": "31",
    "SLURMD_NODENAME": "alpha1",
    "SLURM_CLUSTER_NAME": "alpha",
    "SLURM_JOB_PARTITION": "batch",
    "SLURM_SUBMIT_HOST": "alpha-login",
}
#: A moment after the jobs were recorded, by the local time of the cluster.
NOW = datetime(2026, 11, 26, 13, 10).timestamp()


def slurm(job: str = "show_job") -> Callable[[Sequence[str]], CommandResult]:
    """A Slurm that answers as one did."""
    names = {"alpha[1-2]": "alpha1\nalpha2\n", "alpha1": "alpha1\n", "alpha2": "alpha2\n"}

    def answer(command: Sequence[str]) -> CommandResult:
        match command[1:]:
            case ["show", "job", "-d", _]:
                return recorded(f"slurm/{job}")
            case ["show", "hostnames", nodes]:
                return CommandResult(0, names[nodes], "")
            case _:
                return recorded("slurm/show_node")

    return answer


def test_a_slurm_job_has_the_cores_and_gpus_that_slurm_tells_and_the_memory_of_its_nodes() -> None:
    found = slurm_allocation(ENV, slurm(), NOW)
    assert found.nodes == (
        AllocatedNode("alpha1", 3, 2000 * MIB, 1),
        AllocatedNode("alpha2", 3, 2000 * MIB, 1),
    )
    assert (found.job, found.launch_host, found.cluster, found.partition) == ("31", "alpha1", "alpha", "batch")
    assert found.ends_in_s is not None
    assert 0 < found.ends_in_s < 7200


@pytest.mark.parametrize(
    ("asked", "memory"), [({"SLURM_MEM_PER_NODE": "500"}, 500 * MIB), ({"SLURM_MEM_PER_CPU": "100"}, 300 * MIB)]
)
def test_memory_that_slurm_does_not_give_is_what_the_job_has_asked_for(asked: Mapping[str, str], memory: int) -> None:
    assert slurm_allocation({**ENV, **asked}, slurm(), NOW).nodes[0].memory_bytes == memory


def test_the_components_of_a_heterogeneous_job_are_told_apart() -> None:
    found = slurm_allocation({**ENV, "SLURM_JOB_ID": "29"}, slurm("show_job_het"), NOW)
    assert [(node.host, node.cores, node.gpus, node.component) for node in found.nodes] == [
        ("alpha1", 4, 2, 0),
        ("alpha2", 2, 0, 1),
    ]


STEP = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_CPUS_ON_NODE": "2"}


def test_a_step_on_one_node_has_its_own_cores_only() -> None:
    found = slurm_allocation({**ENV, **STEP, "SLURM_STEP_NODELIST": "alpha1"}, slurm(), NOW)
    assert [(node.host, node.cores, node.gpus) for node in found.nodes] == [("alpha1", 2, 0)]
    assert found.name == "step 0 of job 31"


def test_a_step_on_all_nodes_has_the_cores_of_its_job() -> None:
    found = slurm_allocation({**ENV, **STEP, "SLURM_STEP_NODELIST": "alpha[1-2]"}, slurm(), NOW)
    assert [node.cores for node in found.nodes] == [3, 3]


def test_a_slurm_that_does_not_answer_is_told() -> None:
    def answer(command: Sequence[str]) -> CommandResult:
        return CommandResult(1, "", "slurm_load_jobs error: Unable to contact slurm controller\n")

    with pytest.raises(SchedulerUnavailable, match=r"scontrol show job -d 31: .*Unable to contact"):
        slurm_allocation(ENV, answer, NOW)


def test_an_environment_without_a_job_has_no_allocation() -> None:
    assert allocation_here({"SLURM_CONF": "/etc/slurm/slurm.conf"}) is None


@pytest.mark.parametrize(
    ("env", "copies", "place"),
    [
        ({}, 1, 0),
        ({"SLURM_PROCID": "0"}, 1, 0),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}, 4, 3),
        ({"SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}, 1, 0),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, 2, 1),
        # the shell of `srun --pty`, which only the first task has
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0", "SLURM_PTY_PORT": "4711"}, 1, 0),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1", "SLURM_PTY_PORT": "4711"}, 4, 1),
        # started by mpirun on another node, in the step of its daemon there
        (
            {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
            | {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"},
            2,
            1,
        ),
    ],
)
def test_copies_that_a_launcher_has_started_are_counted(env: Mapping[str, str], copies: int, place: int) -> None:
    assert (copies_started(env), place_among_copies(env)) == (copies, place)


# --- PBS --------------------------------------------------------------------------------------------------------------

OPENPBS = """Job Id: 7.server
    Job_Name = canal
    exec_host = n1/0*4+n2/0*4
    exec_vnode = (n1:ncpus=4:mem=2097152kb:ngpus=1)+(n2:ncpus=4:mem=2097152kb:ng
\tpus=1)
    Resource_List.walltime = 01:00:00
    resources_used.walltime = 00:10:00

"""


def pbs(told: str) -> Callable[[Sequence[str]], CommandResult]:
    return lambda command: CommandResult(0, told, "")


def nodefile(folder: Path, *lines: str) -> dict[str, str]:
    (folder / "nodes").write_text("".join(f"{line}\n" for line in lines))
    return {"PBS_JOBID": "7.server", "PBS_NODEFILE": str(folder / "nodes"), "PBS_QUEUE": "workq"}


def test_openpbs_tells_cores_memory_and_gpus_of_each_host(tmp_path: Path) -> None:
    env = nodefile(tmp_path, "n1.example.org", "n2.example.org")
    found = pbs_allocation(env, pbs(OPENPBS), "n2", 0.0)
    assert found.nodes == (
        AllocatedNode("n1.example.org", 4, 2**31, 1),
        AllocatedNode("n2.example.org", 4, 2**31, 1),
    )
    assert (found.launch_host, found.dialect, found.ends_in_s) == ("n2.example.org", "openpbs", 3000.0)


def test_torque_tells_cores_by_the_lines_of_its_file_of_nodes(tmp_path: Path) -> None:
    env = {**nodefile(tmp_path, "n1", "n1", "n1", "n2", "n2", "n2"), "PBS_NUM_PPN": "3"}
    found = pbs_allocation(env, pbs("Job Id: 7.server\n    exec_host = n1/0+n1/1+n1/2+n2/0+n2/1+n2/2\n"), "n1", 0.0)
    assert found.nodes == (AllocatedNode("n1", 3), AllocatedNode("n2", 3))
    assert found.dialect == "torque"
