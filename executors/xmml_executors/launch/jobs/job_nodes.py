"""What runs on the nodes of a job, and with which of their cores: the agents, and the steps of MPI programs.

Each node on which programs are to be started has an agent. It has all cores of the job on its node, and gives each
program those that the plan says. Only where MPI programs are steps of a Slurm job, which then gives them cores by
itself, an agent is one, too, and has the cores of the programs that it starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from xmml_planner import Job, PlannedInstance
from xmml_planner.execution_plan import NodeShare
from xmml_planner.several_sites import tools_of
from xmml_planner.sites import Site
from xmml_sites.batch import NodeStep

from xmml.late_dataclass import dataclass
from xmml_executors.binding.process_binding import UNBOUND
from xmml_executors.protocol import AgentStatus, Ready

#: Reports that the step of an agent has ended, unless the agent has told so itself.
NOTE_FAILURE = (
    f"case $xmml_status in {'|'.join(str(status.value) for status in AgentStatus)}) ;; "
    """*) printf '{{"is": "failed", "status": %d}}\\n' $xmml_status >> "$xmml_folder/{node}/reports";; esac"""
)
#: Of a file below the instance's folder: the node of each rank.
RANKS_FILE = "ranks"


@dataclass(frozen=True)
class AgentNode:
    """A node with an agent.

    Attributes:
        node: counted from 0.
        cores, gpus: of the job there, that only programs of the agent have.
    """

    node: int
    cores: tuple[int, ...]
    gpus: tuple[int, ...]


class JobNodes:
    """The nodes of a job of a plan at a site."""

    def __init__(
        self, job: Job, site: Site, instances: Iterable[PlannedInstance], *, is_reached_directly: bool = False
    ) -> None:
        """
        Args:
            site: at which it is, or the part of one.
            instances: of the job.
            is_reached_directly: they receive messages of other jobs of the cluster without a relay.
        """
        self._job, self._site, self._instances = job, site, tuple(instances)
        self._is_reached_directly = is_reached_directly

    def is_mpi(self, instance: PlannedInstance) -> bool:
        """Whether an instance is started by the MPI launcher of the site."""
        launcher = tools_of(self._site).launcher(instance.ranks)
        return bool(launcher) and instance.command[: len(launcher or ())] == launcher

    def neediest(self, key: str) -> PlannedInstance | None:
        """Return the instance that needs most of what a job asks for; `None` if none needs any.

        Args:
            key: `nodes`, `cores`, `memory` or `gpus`.
        """

        def need(instance: PlannedInstance) -> int:
            if key == "memory":
                return max((share.memory_bytes for share in instance.shares), default=0)
            return sum(len(share.gpus if key == "gpus" else share.cores) for share in instance.shares)

        most = max(self._instances, key=need, default=None)
        return most if most is not None and need(most) else None

    @cached_property
    def agents(self) -> tuple[AgentNode, ...]:
        """The nodes that have agents: the first one, which also starts the MPI programs, and each on which another
        program is to be started."""
        by_node: dict[int, list[NodeShare]] = {0: []}
        for instance in self._instances:
            if not self.is_mpi(instance):
                for share in instance.shares:
                    by_node.setdefault(share.node, []).append(share)
        mpi = [share for instance in self._instances if self.is_mpi(instance) for share in instance.shares]
        return tuple(_agent(node, by_node[node], mpi) for node in sorted(by_node))

    @cached_property
    def divides_cores(self) -> bool:
        """Whether the batch system gives MPI programs, and so also the agents, cores of their own."""
        is_slurm = self._site.scheduler == "slurm"
        return is_slurm and any(_is_step(each.command) for each in self._instances if self.is_mpi(each))

    def steps(self, command: Mapping[int, str]) -> tuple[NodeStep, ...]:
        """Return the steps that start the agents; none, if there is one that can have all of its node.

        Args:
            command: of the agent of each node.
        """
        allocation = self._site.allocation
        is_launched_there = allocation is None or allocation.has_launcher
        if self._job.nodes <= 1 and not self.divides_cores and is_launched_there:
            return ()
        return tuple(
            NodeStep(
                each.node,
                command[each.node],
                *((len(each.cores), len(each.gpus)) if self.divides_cores else (0, 0)),
                on_failure=NOTE_FAILURE.format(node=each.node),
            )
            for each in self.agents
        )

    @property
    def task_cores(self) -> int:
        """How many cores each rank of its MPI programs has; 1 if they have different numbers."""
        found = {
            len(share.cores) // share.ranks
            for instance in self._instances
            if self.is_mpi(instance)
            for share in instance.shares
        }
        cores = found.pop() if len(found) == 1 else 1
        return cores if cores and self._job.cores_per_node % cores == 0 else 1

    def where_to_listen(self, nodes: Sequence[str], relay: str, coordinator: str = "") -> str | None:
        """Return where its instances listen for others, as the value of XMML_LISTEN; `None`: where the environment
        of the site says, else on the loopback device.

        Args:
            nodes: the names of the job's nodes.
            relay: `HOST:PORT/NAME`, on the login node; empty: there is none.
            coordinator: its address, `tcp:HOST:PORT?RUN`, among others that are separated by commas.
        """
        has_others = self._site.has_queue and (self._job.nodes > 1 or self._is_reached_directly)
        listen = self._site.listen or ("node" if has_others else "loopback")
        if listen == "loopback" or "XMML_LISTEN" in self._site.env:
            return None
        if listen != "node":
            return f"device:{listen}"
        host = relay.rpartition(":")[0]
        if self._site.allocation is not None and not host:
            # An address, unlike the name of a node, leads on that node itself to the network, too.
            over_tcp = (each.partition("?")[0] for each in coordinator.split(",") if each.startswith("tcp:"))
            host = next(over_tcp, "").removeprefix("tcp:").rpartition(":")[0]
        return f"towards:{nodes[-1] if host in ('', '127.0.0.1') else host}"

    def agent_of(self, instance: PlannedInstance) -> int:
        """Return the node whose agent starts an instance."""
        return 0 if self.is_mpi(instance) else instance.node

    def devices(self, instances: Sequence[PlannedInstance]) -> dict[str, Any]:
        """Return the cores and GPUs of a process, as its agent takes them: as indices into those that the agent has.

        Args:
            instances: that run in the process.
        """
        if self.is_mpi(instances[0]):
            return {}
        node = instances[0].node
        shares = [share for each in instances for share in each.shares if share.node == node]
        cores = {core for share in shares for core in share.cores}
        gpus = {gpu for share in shares for gpu in share.gpus}
        agent = next(each for each in self.agents if each.node == node)
        all_cores: Sequence[int] = agent.cores if self.divides_cores else range(self._job.cores_per_node)
        # An agent without cores of its own uses all of its node, so it sees all GPUs.
        has_own_gpus = self.divides_cores and agent.cores
        all_gpus: Sequence[int] = agent.gpus if has_own_gpus else range(self._job.gpus_per_node)
        told: dict[str, Any] = {}
        # Where no batch system gives cores out, another run may bind its programs to the same ones.
        is_bound = self._site.has_queue and instances[0].bind != "none"
        if is_bound and cores and cores <= set(all_cores):
            told |= {"cores": [all_cores.index(core) for core in sorted(cores)], "of_cores": len(all_cores)}
        if self._job.gpus_per_node:
            told["gpus"] = [all_gpus.index(gpu) for gpu in sorted(gpus)]
        return told

    def variables(self, instances: Sequence[PlannedInstance]) -> dict[str, str]:
        """Return variables that tell a process in a job of a batch system how many threads to have, and `mpirun` not to
        bind ranks to cores where others run, too; without those that the site sets.

        Args:
            instances: that run in the process.
        """
        cores = max((len(share.cores) // share.ranks for each in instances for share in each.shares), default=0)
        if not self._site.has_queue or not cores:
            return {}
        found = {"OMP_NUM_THREADS": str(cores)}
        if self._site.scheduler == "slurm":
            found["SLURM_CPUS_PER_TASK"] = str(cores)
        if self._chooses_cores(instances[0]):
            found |= UNBOUND
        return {name: value for name, value in found.items() if name not in self._site.env}

    def _chooses_cores(self, instance: PlannedInstance) -> bool:
        """Whether an instance is started by an `mpirun` that would choose cores where others run, too."""
        if not (self.is_mpi(instance) and is_mpirun(instance.command)):
            return False
        nodes = {share.node for share in instance.shares}
        others = (each for each in self._instances if each.name != instance.name)
        return any(share.cores and share.node in nodes for each in others for share in each.shares)

    def mpi_command(
        self, instance: PlannedInstance, command: Sequence[str], about: Ready, folder: str
    ) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Return how an MPI program is started on the nodes of its plan: the command, further variables, and the texts
        of files that it needs by their paths.

        Args:
            command: how its site starts it anywhere.
            about: what the agent of the first node said of itself.
            folder: of the instance at the site.
        """
        nodes = about.nodes
        hosts = [nodes[share.node] for share in instance.shares for _ in range(share.ranks)]
        file = f"{folder}/{RANKS_FILE}"
        files = {file: "".join(f"{host}\n" for host in hosts)}
        if self._site.scheduler == "slurm" and _is_step(command):
            words, is_even = _step_options(instance, self._job, nodes)
            words += [f"--het-group={about.part}"] if about.part else []
            if is_even:
                return [command[0], *words, *command[1:]], {}, {}
            return [command[0], *words, *command[1:]], {"SLURM_HOSTFILE": file}, files
        if is_mpirun(command) and (self._job.nodes > 1 or self._site.allocation is not None):
            # Under Slurm it starts a daemon on each node as a step, which must not wait for the end of other steps.
            overlap = {"SLURM_OVERLAP": "1"} if self._site.scheduler == "slurm" else {}
            return [command[0], "-machinefile", file, *command[1:]], overlap | self._slots(), files
        return list(command), {}, {}

    def _slots(self) -> dict[str, str]:
        """Return what tells `mpirun` that each core of a job has room for a rank.

        A job that somebody else has submitted may have asked for fewer tasks, with more cores each.
        """
        cores = os.environ.get("SLURM_JOB_CPUS_PER_NODE")
        return {"SLURM_TASKS_PER_NODE": cores} if cores and self._site.allocation is not None else {}


def _agent(node: int, own: Sequence[NodeShare], mpi: Sequence[NodeShare]) -> AgentNode:
    of_mpi = {core for share in mpi if share.node == node for core in share.cores if not share.takes_turns}
    cores = {core for share in own for core in share.cores} - of_mpi
    gpus = {gpu for share in own for gpu in share.gpus}
    return AgentNode(node, tuple(sorted(cores)), tuple(sorted(gpus)))


def _is_step(command: Sequence[str]) -> bool:
    return os.path.basename(command[0]) == "srun"


def is_mpirun(command: Sequence[str]) -> bool:
    """Whether a command is the launcher that MPI libraries bring along."""
    return os.path.basename(command[0]) in ("mpirun", "mpiexec")


def _step_options(instance: PlannedInstance, job: Job, nodes: Sequence[str]) -> tuple[list[str], bool]:
    """Return the options of srun for an MPI program, and whether each node has as many of its ranks."""
    shares = instance.shares
    cores = max(1, len(shares[0].cores) // shares[0].ranks)
    takes_turns = any(share.takes_turns for share in shares)
    memory = max(share.memory_bytes for share in shares)
    gpus = len(shares[0].gpus) // shares[0].ranks
    is_even = len({share.ranks for share in shares}) == 1
    words = [
        "--overlap" if takes_turns else "--exact",
        f"--nodes={len(shares)}",
        f"--cpus-per-task={cores}",
        f"--mem={-(-memory // 2**20)}M" if memory and not takes_turns else "--mem=0",
    ]
    if is_even:
        words += [
            f"--nodelist={','.join(nodes[share.node] for share in shares)}",
            f"--ntasks-per-node={shares[0].ranks}",
        ]
    else:
        words.append("--distribution=arbitrary")
    if gpus:
        words.append(f"--gpus-per-task={gpus}")
    elif job.gpus_per_node and not takes_turns:
        words.append("--gres=none")
    return words, is_even
