"""The cores of this machine that this process may use, as Linux describes them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from xmml.late_dataclass import dataclass
from xmml.run_options import SettingError, cpu_numbers

#: Where Linux describes CPUs and NUMA nodes, and the variable that names another folder like it.
SYSTEM_DEVICES = "/sys/devices/system"
FOLDER_VARIABLE = "XMML_CPU_FOLDER"
#: By the variable that numbers a job of a batch system: the one that says how many CPUs of this node are the job's.
CPUS_OF_JOB = {"SLURM_JOB_ID": "SLURM_CPUS_ON_NODE", "PBS_JOBID": "NCPUS"}


@dataclass(frozen=True)
class Core:
    """A physical core.

    Attributes:
        cpus: its hardware threads that this process may use, by their numbers.
        siblings: all its hardware threads.
        node: its NUMA node.
        cache: the first CPU of those that share its last-level cache.
    """

    cpus: tuple[int, ...]
    siblings: tuple[int, ...]
    node: int = 0
    cache: int = 0

    def threads(self) -> tuple[Core, ...]:
        """Return its hardware threads that may be used, as cores of their own."""
        return tuple(Core((cpu,), (cpu,), self.node, self.cache) for cpu in self.cpus)


def devices_folder() -> Path:
    """Return the folder that describes the CPUs of this machine."""
    return Path(os.environ.get(FOLDER_VARIABLE) or SYSTEM_DEVICES)


def own_cpus() -> tuple[int, ...]:
    """Return the CPUs that this process may use: its affinity mask, which no control group exceeds."""
    return tuple(sorted(os.sched_getaffinity(0)))


def read_cores(folder: Path, cpus: Iterable[int]) -> tuple[Core, ...]:
    """Return the physical cores of some CPUs, neighbours next to each other: by node, by cache, by number.

    What the folder does not describe counts as plain: a core for each CPU, one node, one cache.

    Args:
        folder: as `/sys/devices/system`.
        cpus: that may be used.
    """
    usable = set(cpus)
    nodes = {
        cpu: int(each.name.removeprefix("node"))
        for each in sorted(folder.glob("node/node[0-9]*"))
        for cpu in _listed(each / "cpulist")
    }
    caches: dict[int, int] = {}
    cores: list[Core] = []
    seen: set[int] = set()
    for cpu in sorted(usable):
        if cpu in seen:
            continue
        about = folder / f"cpu/cpu{cpu}"
        siblings = _listed(about / "topology/thread_siblings_list") or (cpu,)
        seen.update(siblings)
        if cpu not in caches:
            sharing = _listed(about / "cache/index3/shared_cpu_list")
            caches.update(dict.fromkeys((*sharing, cpu), min((*sharing, cpu)) if sharing else nodes.get(cpu, 0)))
        own = tuple(each for each in siblings if each in usable)
        cores.append(Core(own, siblings, nodes.get(cpu, 0), caches[cpu]))
    return tuple(sorted(cores, key=lambda core: (core.node, core.cache, core.cpus)))


def cpu_limit(mounted: str = "/sys/fs/cgroup", listed: str = "/proc/self/cgroup") -> float | None:
    """Return how many CPUs' time the control groups of this process allow it; `None`: all.

    Args:
        mounted: where control groups are mounted.
        listed: the file that names the groups of this process.
    """
    limits = [
        limit
        for line in _text(listed).splitlines()
        for folder in _group_folders(mounted, *line.split(":", 2)[1:])
        if (limit := _limit_of(folder)) is not None
    ]
    return min(limits, default=None)


def _group_folders(mounted: str, controllers: str, name: str) -> list[str]:
    """Return the folders of a group and of those around it, if it is one that limits CPU time."""
    if controllers and "cpu" not in controllers.split(","):
        return []
    root = f"{mounted}/{controllers}" if controllers else mounted
    # In a container the name may be the one that the group has outside, whereas its folder is the root.
    parts = [part for part in name.split("/") if part]
    inner = parts if os.path.isdir("/".join((root, *parts))) else []
    return ["/".join((root, *inner[:depth])) for depth in range(len(inner), -1, -1)]


def _limit_of(folder: str) -> float | None:
    words = _text(f"{folder}/cpu.max").split() or [
        _text(f"{folder}/cpu.cfs_quota_us").strip(),
        _text(f"{folder}/cpu.cfs_period_us").strip(),
    ]
    if len(words) != 2 or not all(word.isdigit() for word in words) or int(words[1]) == 0:
        return None  # "max", -1, or no such group
    return int(words[0]) / int(words[1])


def job_cpus() -> int | None:
    """Return how many CPUs of this node the batch system has given the job that this process is in, if it says so."""
    for job, cpus in CPUS_OF_JOB.items():
        if job in os.environ and os.environ.get(cpus, "").isdigit():
            return int(os.environ[cpus])
    return None


def cpu_text(cpus: Iterable[int]) -> str:
    """Return CPUs as Linux writes them.

    >>> cpu_text([3, 0, 1, 2, 8])
    '0-3,8'
    """
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _listed(file: Path) -> tuple[int, ...]:
    try:
        return cpu_numbers(_text(file))
    except SettingError:
        return ()


def _text(file: str | Path) -> str:
    try:
        with open(file, encoding="ascii", errors="replace") as opened:
            return opened.read()
    except OSError:
        return ""
