"""Control groups for the nodes of a cluster: in them Slurm keeps programs on their cores and within their memory.

Each node sees groups of its own as the whole tree. They are of version 1, which is what the machines that run the tests
have; Slurm wants more of version 2 than a machine without systemd can give.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from wan import Machine

CONTROLLERS = ("cpuset", "freezer", "memory")
_TREE = Path("/sys/fs/cgroup")
_NAME = "xmml-bed-"
#: A new group has neither processors nor memory until it is told.
_INHERITED = ("cpuset.cpus", "cpuset.mems")

#: What Slurm reads.
CONFIGURATION = f"""\
CgroupPlugin=cgroup/v1
CgroupAutomount=no
CgroupMountpoint={_TREE}
ConstrainCores=yes
ConstrainRAMSpace=yes
"""


@cache
def why_not() -> str | None:
    """Why there can be none here, and what to do about it; None if there can."""
    folders = [_TREE / controller for controller in CONTROLLERS]
    if all((folder / "tasks").exists() and os.access(folder, os.W_OK) for folder in folders):
        return None
    return (
        f"needs control groups of version 1 that can be written: {', '.join(map(str, folders))} (boot with "
        "systemd.unified_cgroup_hierarchy=0; in a container: docker run --privileged)"
    )


def give(node: Machine) -> list[str]:
    """Let a node have groups of its own, and those of nodes that are gone be removed.

    Returns:
        The beginning of a command: what follows it there is in these groups, and takes them for the whole tree.
    """
    remove_left()
    for controller in CONTROLLERS:
        group = _TREE / controller / f"{_NAME}{node.pid}"
        group.mkdir()
        for name in _INHERITED if controller == "cpuset" else ():
            (group / name).write_text((group.parent / name).read_text())
        node.run(["mount", "--bind", str(group), str(group.parent)], cwd="/")
    enter = "".join(f"echo $$ > {_TREE / controller}/tasks; " for controller in CONTROLLERS)
    return ["sh", "-ec", f'{enter}exec unshare --cgroup "$@"', "sh"]


def remove_left() -> bool:
    """Remove the groups of nodes that are gone; return whether none is left."""
    for group in _of_nodes_that_are_gone():
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):  # a process in it has not quite ended
                os.rmdir(folder)
    return not any(_of_nodes_that_are_gone())


def _of_nodes_that_are_gone() -> Iterator[Path]:
    for controller in CONTROLLERS:
        for group in (_TREE / controller).glob(f"{_NAME}*"):
            if not Path("/proc", group.name.removeprefix(_NAME)).exists():
                yield group
