"""Which nodes of a job have agents, what programs have of them, and how MPI programs are started on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.protocol import Ready
from xmml_planner import Job, Plan, PlannedInstance
from xmml_planner.execution_plan import NodeShare
from xmml_planner.sites import AllocatedNodes, Site
from xmml_sites.batch import NodeStep

SLURM = Site("alpha", ssh="alpha", scheduler="slurm", mpi="srun", nodes=3, cores=4)
PBS = dataclasses.replace(SLURM, scheduler="pbs", mpi="mpirun")
NODES = ["n0", "n1", "n2"]
ABOUT = Ready("n1", 4711, 3, "80", "/usr/bin/python3", "/usr/bin", NODES, "")

PLAIN = ("/x/flow",)

Planned = Callable[..., PlannedInstance]


@pytest.fixture
def planned(make_plan: Callable[..., Plan]) -> Planned:
    """Returns an instance of a plan from its name, command, and shares of nodes."""

    def make(name: str, command: tuple[str, ...], *shares: NodeShare) -> PlannedInstance:
        return dataclasses.replace(make_plan(name).instances[0], command=command, shares=shares)

    return make


def nodes_of(site: Site, *instances: PlannedInstance, gpus: int = 0, is_reached_directly: bool = False) -> JobNodes:
    nodes = 1 + max(share.node for each in instances for share in each.shares)
    names = tuple(each.name for each in instances)
    job = Job("j", site.name, names, nodes=nodes, cores_per_node=4, gpus_per_node=gpus)
    return JobNodes(job, site, instances, is_reached_directly=is_reached_directly)


def without_notes(steps: tuple[NodeStep, ...]) -> list[NodeStep]:
    """Steps without what notes that they have failed, which each has."""
    assert all('"is": "failed"' in step.on_failure for step in steps)
    return [dataclasses.replace(step, on_failure="") for step in steps]


def test_a_job_on_one_node_without_mpi_needs_no_steps(planned: Planned) -> None:
    one, other = (planned(name, PLAIN, NodeShare(0, 1, (at,))) for at, name in enumerate("ab"))
    job = nodes_of(SLURM, one, other)
    assert job.steps({0: "agent"}) == ()
    assert job.devices([other]) == {"cores": [1], "of_cores": 4}


def test_the_only_agent_of_several_nodes_is_told_the_names_of_all(planned: Planned) -> None:
    mpi = planned("flow", ("mpirun", "-n", "8", "/x/flow"), *(NodeShare(node, 4, (0, 1, 2, 3)) for node in (0, 1)))
    assert without_notes(nodes_of(PBS, mpi).steps({0: "agent"})) == [NodeStep(0, "agent")]


def test_nodes_with_programs_have_agents_that_share_them_with_nobody(planned: Planned) -> None:
    job = nodes_of(SLURM, planned("a", PLAIN, NodeShare(0, 1, (0,))), planned("b", PLAIN, NodeShare(2, 1, (0, 1))))
    assert without_notes(job.steps({0: "zero", 2: "two"})) == [NodeStep(0, "zero"), NodeStep(2, "two")]


def test_beside_steps_of_mpi_an_agent_has_the_cores_of_its_programs(planned: Planned) -> None:
    mpi = planned("flow", ("srun", "-n", "3", "/x/flow"), NodeShare(0, 1, (0,)), NodeShare(1, 2, (0, 1)))
    one = planned("a", PLAIN, NodeShare(1, 1, (2,)))
    other = planned("b", PLAIN, NodeShare(1, 1, (3,)))
    job = nodes_of(SLURM, mpi, one, other)
    assert without_notes(job.steps({0: "zero", 1: "one"})) == [NodeStep(0, "zero"), NodeStep(1, "one", cores=2)]
    assert job.devices([one]) == {"cores": [0], "of_cores": 2}
    assert job.devices([one, other]) == {"cores": [0, 1], "of_cores": 2}
    assert (job.agent_of(mpi), job.agent_of(other)) == (0, 1)


def test_who_uses_cores_of_an_mpi_program_by_turns_is_not_bound_to_cores(planned: Planned) -> None:
    mpi = planned("flow", ("srun", "-n", "4", "/x/flow"), NodeShare(0, 4, (0, 1, 2, 3)))
    caller = planned("a", PLAIN, NodeShare(0, 1, (0,), takes_turns=True))
    job = nodes_of(SLURM, mpi, caller)
    assert without_notes(job.steps({0: "agent"})) == [NodeStep(0, "agent")]
    assert "cores" not in job.devices([caller])


def test_without_a_batch_system_that_gives_out_cores_nobody_is_bound(planned: Planned) -> None:
    site = dataclasses.replace(SLURM, scheduler="local")
    one, other = (planned(name, PLAIN, NodeShare(0, 1, (at,), (at,))) for at, name in enumerate("ab"))
    assert nodes_of(site, one, other, gpus=2).devices([other]) == {"gpus": [1]}


def test_who_is_to_be_bound_to_nothing_has_no_cores_of_its_own(planned: Planned) -> None:
    one = planned("a", PLAIN, NodeShare(0, 1, (0,)))
    free = dataclasses.replace(planned("b", PLAIN, NodeShare(0, 1, (1,))), bind="none")
    job = nodes_of(PBS, one, free)
    assert job.devices([one])["cores"] == [0]
    assert "cores" not in job.devices([free])


def test_who_uses_cores_of_an_mpi_program_by_turns_has_its_own_gpus_among_all_of_the_node(planned: Planned) -> None:
    mpi = planned("flow", ("srun", "-n", "4", "/x/flow"), NodeShare(0, 4, (0, 1, 2, 3), (0,)))
    caller = planned("a", PLAIN, NodeShare(0, 1, (0,), (1,), takes_turns=True))
    assert nodes_of(SLURM, mpi, caller, gpus=2).devices([caller]) == {"gpus": [1]}


def test_mpirun_leaves_cores_to_the_kernel_where_other_programs_run_too(planned: Planned) -> None:
    one, other = (planned(name, ("mpirun", "-n", "2", "/x"), NodeShare(0, 2, (0, 1))) for name in "ab")
    far = planned("c", PLAIN, NodeShare(1, 1, (0,)))
    assert "OMPI_MCA_hwloc_base_binding_policy" not in nodes_of(PBS, one, far).variables([one])
    assert nodes_of(PBS, one, other).variables([one])["OMPI_MCA_hwloc_base_binding_policy"] == "none"


def test_what_a_site_says_of_threads_counts(planned: Planned) -> None:
    site = dataclasses.replace(PBS, env={"OMP_NUM_THREADS": "2"})
    one = planned("a", PLAIN, NodeShare(0, 1, (0, 1, 2, 3)))
    assert nodes_of(PBS, one).variables([one]) == {"OMP_NUM_THREADS": "4"}
    assert nodes_of(site, one).variables([one]) == {}


MPI: Mapping[str, tuple[Site, tuple[NodeShare, ...], list[str], dict[str, str]]] = {
    "as many ranks on each node": (
        SLURM,
        (NodeShare(0, 2, (0, 1, 2, 3)), NodeShare(1, 2, (0, 1, 2, 3))),
        ["--exact", "--nodes=2", "--cpus-per-task=2", "--mem=0", "--nodelist=n0,n1", "--ntasks-per-node=2"],
        {},
    ),
    "different numbers": (
        SLURM,
        (NodeShare(0, 3, (0, 1, 2)), NodeShare(2, 1, (0,))),
        ["--exact", "--nodes=2", "--cpus-per-task=1", "--mem=0", "--distribution=arbitrary"],
        {"SLURM_HOSTFILE": "/run/flow/ranks"},
    ),
    "memory of its own": (
        SLURM,
        (NodeShare(0, 4, (0, 1, 2, 3), memory_bytes=3 << 20),),
        ["--exact", "--nodes=1", "--cpus-per-task=1", "--mem=3M", "--nodelist=n0", "--ntasks-per-node=4"],
        {},
    ),
    "cores of others by turns": (
        SLURM,
        (NodeShare(0, 4, (0, 1, 2, 3), takes_turns=True),),
        ["--overlap", "--nodes=1", "--cpus-per-task=1", "--mem=0", "--nodelist=n0", "--ntasks-per-node=4"],
        {},
    ),
    "mpirun on several nodes": (
        PBS,
        (NodeShare(0, 3, (0, 1, 2)), NodeShare(1, 1, (0,))),
        ["-machinefile", "/run/flow/ranks"],
        {},
    ),
    "mpirun on several nodes of a Slurm job": (
        dataclasses.replace(SLURM, mpi="mpirun"),
        (NodeShare(0, 3, (0, 1, 2)), NodeShare(1, 1, (0,))),
        ["-machinefile", "/run/flow/ranks"],
        {"SLURM_OVERLAP": "1"},
    ),
    "mpirun on one node": (PBS, (NodeShare(0, 4, (0, 1, 2, 3)),), [], {}),
}


@pytest.mark.parametrize("case", MPI)
def test_mpi_programs_start_on_their_nodes_with_their_cores(case: str, planned: Planned) -> None:
    site, shares, options, variables = MPI[case]
    launcher = (site.mpi, "-n", str(sum(share.ranks for share in shares)))
    flow = planned("flow", (*launcher, "/x/flow"), *shares)
    command, env, files = nodes_of(site, flow).mpi_command(flow, flow.command, ABOUT, "/run/flow")
    assert command == [launcher[0], *options, *launcher[1:], "/x/flow"]
    assert env == variables
    hosts = [NODES[share.node] for share in shares for _ in range(share.ranks)]
    if "/run/flow/ranks" in (*options, *variables.values()):
        assert files == {"/run/flow/ranks": "".join(f"{host}\n" for host in hosts)}


def test_an_mpi_program_of_a_heterogeneous_job_starts_in_its_part(planned: Planned) -> None:
    flow = planned("flow", ("srun", "-n", "2", "/x/flow"), NodeShare(0, 2, (0, 1)))
    command, _, _ = nodes_of(SLURM, flow).mpi_command(flow, flow.command, replace(ABOUT, part="1"), "/run/flow")
    assert "--het-group=1" in command


def test_ranks_with_gpus_ask_for_them_and_others_leave_them_alone(planned: Planned) -> None:
    with_gpus = planned("flow", ("srun", "-n", "2", "/x/flow"), NodeShare(0, 2, (0, 1), (0, 1)))
    without = planned("heat", ("srun", "-n", "1", "/x/heat"), NodeShare(0, 1, (2,)))
    job = nodes_of(SLURM, with_gpus, without, gpus=2)
    assert "--gpus-per-task=1" in job.mpi_command(with_gpus, with_gpus.command, ABOUT, "/run")[0]
    assert "--gres=none" in job.mpi_command(without, without.command, ABOUT, "/run")[0]


def test_programs_know_how_many_threads_they_are_to_have(planned: Planned) -> None:
    mpi = planned("flow", ("srun", "-n", "2", "/x/flow"), NodeShare(0, 2, (0, 1, 2, 3)))
    assert nodes_of(SLURM, mpi).variables([mpi]) == {"OMP_NUM_THREADS": "2", "SLURM_CPUS_PER_TASK": "2"}
    assert nodes_of(PBS, mpi).variables([mpi]) == {"OMP_NUM_THREADS": "2"}


LISTENS = {
    "node": ("node", 1, "towards:login"),
    "a device": ("ib0", 1, "device:ib0"),
    "loopback": ("loopback", 2, None),
    "by default with others": (None, 2, "towards:login"),
    "by default alone": (None, 1, None),
}


@pytest.mark.parametrize("case", LISTENS)
def test_instances_listen_where_the_site_says(case: str, planned: Planned) -> None:
    listen, nodes, expected = LISTENS[case]
    job = nodes_of(dataclasses.replace(SLURM, listen=listen), planned("a", PLAIN, NodeShare(nodes - 1, 1, (0,))))
    assert job.where_to_listen(NODES[:nodes], "login:4000/alpha") == expected


@pytest.mark.parametrize(
    ("site", "expected"),
    [(SLURM, "towards:login"), (replace(SLURM, listen="loopback"), None), (replace(SLURM, scheduler="local"), None)],
    ids=["by default", "loopback", "without a queue"],
)
def test_in_a_job_of_one_node_that_other_jobs_reach_directly_they_listen_on_the_network(
    planned: Planned, site: Site, expected: str | None
) -> None:
    job = nodes_of(site, planned("a", PLAIN, NodeShare(0, 1, (0,))), is_reached_directly=True)
    assert job.where_to_listen(NODES[:1], "login:4000/alpha") == expected


def test_without_a_relay_they_listen_towards_another_node(planned: Planned) -> None:
    job = nodes_of(SLURM, planned("a", PLAIN, NodeShare(1, 1, (0,))))
    assert job.where_to_listen(NODES[:2], "") == "towards:n1"


def test_in_an_allocation_they_listen_towards_the_coordinator(planned: Planned) -> None:
    site = dataclasses.replace(SLURM, listen="node", allocation=AllocatedNodes("12", ("n1",)))
    job = nodes_of(site, planned("a", PLAIN, NodeShare(0, 1, (0,))))
    addresses = "unix:@xmml?run,tcp:10.1.0.11:4711?run"
    assert job.where_to_listen(NODES[:1], "", addresses) == "towards:10.1.0.11"
