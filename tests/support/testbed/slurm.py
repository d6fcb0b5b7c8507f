"""A Slurm cluster in a few seconds: one controller, a daemon for each node, no accounting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import LIMIT_S, wait_until
from wan import Machine, PlacedSite

from testbed import control_groups

CORES = 4
MEMORY_MB = 2000
#: Devices that Slurm takes for GPUs.
GPUS = ("/dev/zero", "/dev/full")

_CONFIGURATION = """\
ClusterName={name}
SlurmctldHost={name}-login(10.1.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/mnt/slurm
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/mnt/log/slurmctld.log
SlurmdLogFile=/mnt/log/slurmd-%h.log
ProctrackType=proctrack/{tracked_by}
TaskPlugin={tasks}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=pmi2
SelectType=select/cons_tres
SelectTypeParameters={given_out}
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,bf_hetjob_immediate
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=15
KillWait=10
MinJobAge=300
SrunPortRange=60001-60500
GresTypes=gpu
{node_lines}
PartitionName=batch Nodes=ALL Default=YES MaxTime=120 State=UP
PartitionName=short Nodes={name}1 MaxTime=5 State=UP
"""


class Slurm:
    """The batch system of a site."""

    def __init__(self, placed: PlacedSite, shared: Path, cores: int = CORES, *, is_bound: bool = False) -> None:
        """
        Args:
            is_bound: each node has one core, which is a processor of this machine that no other node has, and programs
                are bound to it; where this machine has control groups for that, they keep programs on their processor
                and within the memory of their job. Else nodes claim more cores than there are, and programs run on all
                processors.
        """
        self._placed = placed
        self._shared = shared
        self.nodes = len(placed.nodes)
        self.cores = 1 if is_bound else cores
        self._is_bound = is_bound
        self._has_control_groups = is_bound and control_groups.why_not() is None
        #: What begins a command in the control groups of a node.
        self._within: dict[str, list[str]] = {}

    def prepare(self) -> None:
        """Write what the daemons read."""
        name = self._placed.name
        (self._shared / "etc" / "slurm").mkdir()
        (self._shared / "slurm").mkdir()
        folder = self._shared / "etc" / "slurm"
        keeping = {"tracked_by": "linuxproc", "tasks": "task/none", "given_out": "CR_Core"}
        if self._is_bound:
            keeping["tasks"] = "task/affinity"
        if self._has_control_groups:
            keeping = {"tracked_by": "cgroup", "tasks": "task/cgroup,task/affinity", "given_out": "CR_Core_Memory"}
            (folder / "cgroup.conf").write_text(control_groups.CONFIGURATION)
        text = _CONFIGURATION.format(name=name, node_lines="\n".join(self._node_lines(name)), **keeping)
        (folder / "slurm.conf").write_text(text)
        (folder / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in GPUS))

    def _node_lines(self, name: str) -> list[str]:
        has = f"RealMemory={MEMORY_MB} Gres=gpu:{len(GPUS)} State=UNKNOWN"
        if not self._is_bound:
            return [f"NodeName={name}[1-{self.nodes}] CPUs={self.cores} {has}"]
        numbers = range(self.nodes)
        kept = {own: ",".join(str(other) for other in numbers if other != own) for own in numbers}
        # Slurm keeps jobs off the processors of the other nodes.
        return [f"NodeName={name}{own + 1} CPUs={self.nodes} CpuSpecList={kept[own]} {has}" for own in numbers]

    def start(self) -> None:
        """Start the daemons, and wait until all nodes are idle."""
        for machine in self._placed.machines:
            machine.run(["sh", "-ec", _MUNGE], cwd="/")
        login = self._placed.login
        login.run(["sh", "-ec", "mount --bind /mnt/etc/slurm /etc/slurm"], cwd="/")
        self.start_controller()
        for node in self._placed.nodes:
            if self._is_bound:
                node.run(["sh", "-ec", _OWN_SYSFS], cwd="/")
            if self._has_control_groups:
                self._within[node.name] = control_groups.give(node)
            self.start_node(node)
        self.settle()

    def start_controller(self) -> None:
        """Start the daemon that has the queue; jobs and reservations are in it as it left them."""
        words = "slurmctld </dev/null >/mnt/log/slurmctld.out 2>&1"
        self._placed.login.run(["sh", "-ec", words], cwd="/", env=_ENVIRONMENT)

    def stop_controller(self) -> None:
        """End the daemon that has the queue; what runs goes on."""
        words = "pid=$(cat /run/slurmctld.pid); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done"
        self._placed.login.run(["sh", "-ec", words], cwd="/")

    def start_node(self, node: Machine) -> None:
        """Start the daemon of a node."""
        node.run(
            [
                *self._within.get(node.name, []),
                "sh",
                "-ec",
                "mkdir -p /run/slurmd; mount --bind /mnt/etc/slurm /etc/slurm; "
                f"slurmd -N {node.name} </dev/null >/mnt/log/slurmd-{node.name}.out 2>&1",
            ],
            cwd="/",
            env=_ENVIRONMENT,
        )

    def settle(self, limit_s: float = 2 * LIMIT_S) -> None:
        """Wait until no job is left and every node is idle."""

        def is_idle() -> bool:
            jobs = self.root("squeue -h -o %i")
            idle = self.root("sinfo -h -p batch -t idle -N -o '%N %T'").split("\n")
            return not jobs.strip() and sum(" idle" in line and "*" not in line for line in idle) == self.nodes

        wait_until(
            is_idle, lambda: f"{self._placed.name} does not settle:\n{self.root('squeue; sinfo -N -l')}", limit_s, 0.1
        )

    def held(self) -> tuple[list[str], list[str]]:
        """Who keeps cores, or waits for some: the jobs, and the reservations as `scontrol` shows them."""
        lines = self.root("squeue -h -o 'JobId=%i %j %T'; scontrol -o show reservation").splitlines()
        jobs = [line.removeprefix("JobId=") for line in lines if line.startswith("JobId=")]
        return jobs, [line for line in lines if line.startswith("ReservationName=")]

    @contextmanager
    def users_reserve(self) -> Iterator[None]:
        """Within the block users of the login node have the operator's right to reserve. Where there is no accounting
        only root has it; so `scontrol`, there, is root's whoever calls it."""
        at_login = self._placed.login
        words = "install -m 4755 /usr/bin/scontrol /mnt/scontrol; mount --bind /mnt/scontrol /usr/bin/scontrol"
        at_login.run(["sh", "-ec", words], cwd="/")
        try:
            yield
        finally:
            at_login.run(["sh", "-ec", "umount /usr/bin/scontrol; rm /mnt/scontrol"], cwd="/")

    def root(self, command: str, *, check: bool = False) -> str:
        """What an operator's command says, run on the login node."""
        answer = self._placed.login.run(["sh", "-c", command], cwd="/", check=check, env=_ENVIRONMENT)
        return answer.stdout + answer.stderr


_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

#: Gives a machine a /sys of its own, with what is mounted in it: leases on its CPUs are none on those of this machine.
_OWN_SYSFS = """
kept=$(mktemp -d)
mount --rbind /sys/fs/cgroup $kept
mount -t sysfs none /sys
mount --rbind $kept /sys/fs/cgroup
umount -R $kept
rmdir $kept
"""

_MUNGE = """
mkdir -p /run/munge
cp /mnt/munge.key /run/munge/key
chmod 600 /run/munge/key
munged --socket=/run/munge/munge.socket.2 --key-file=/run/munge/key --pid-file=/run/munge/munged.pid \
  --log-file=/run/munge/munged.log --seed-file=/run/munge/seed --num-threads=1 --force </dev/null >/dev/null 2>&1
"""
