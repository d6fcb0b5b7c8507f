"""What is left when all should be over, at the sites and on the laptop: jobs, reservations, processes, files, ports,
sockets."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wan import Machine

    from testbed.bed import Bed

_LISTENING = "0A"


def leftovers(bed: Bed, *names: str) -> list[str]:
    """One line for each thing that was not there when the bed was made: at the named sites (default: at all of them),
    and on the laptop."""
    chosen = names or tuple(bed.sites)
    found = []
    for cluster in bed.clusters:
        if cluster.name in chosen:
            jobs, reservations = cluster.slurm.held()
            found += [f"job at {cluster.name}: {row}" for row in jobs]
            found += [f"reservation at {cluster.name}: {row}" for row in reservations]
    found += processes(bed, *chosen).values()
    found += sorted(present(bed, *chosen) - bed.at_first)
    return found


def present(bed: Bed, *names: str) -> set[str]:
    """The files of the users, the temporary ones of the laptop, and what somebody listens on: ports, and sockets of the
    kernel's own name space; at the named sites, and on the laptop."""
    found = {f"file on laptop: {bed.temporary}/{path}" for path in _below(bed.temporary)}
    for site in (bed.sites[name] for name in names):
        for user in site.users:
            found |= {f"file at {site.name}: ~{user.name}/{path}" for path in _below(site.home(user))}
        for machine in site.machines:
            for seen, folder in site.temporary(machine).items():
                found |= {f"file on {machine.name}: {seen}/{path}" for path in _below(folder)}
    for where, machine in _machines(bed, names).items():
        with contextlib.suppress(OSError):  # it has no power
            found |= {f"port on {where}: {number}" for number in _ports(machine)}
            found |= {f"socket on {where}: {name}" for name in _sockets(machine)}
    return found


def _below(folder: Path) -> Iterator[Path]:
    """The paths of files and folders below a folder, relative to it. What vanishes meanwhile is left out."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(parent, name).relative_to(folder)


def processes(bed: Bed, *names: str) -> dict[int, str]:
    """Processes of the users on the machines of the named sites; that sshd holds a connection of theirs is no matter.
    Of those on the laptop, where who runs the tests is the user, all."""
    owners = {user.number: f"{user.name} at {name}" for name in names for user in bed.sites[name].users}
    machines = {}
    for name, machine in _machines(bed, names).items():
        with contextlib.suppress(OSError):  # it has no power
            machines[_namespace(machine.pid)] = name
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if not entry.name.isdigit() or int(entry.name) == bed.laptop.pid:
                continue
            where = machines.get(_namespace(int(entry.name)))
            owner = "the tester" if where == "laptop" else owners.get(entry.stat().st_uid)
            if where is None or owner is None:
                continue
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if line and not line.startswith("sshd:"):
                found[int(entry.name)] = f"process of {owner} on {where}: {line[:200]}"
    return found


def _machines(bed: Bed, names: tuple[str, ...]) -> dict[str, Machine]:
    """The laptop, and those of the named sites."""
    chosen = [bed.laptop, *(machine for name in names for machine in bed.sites[name].machines)]
    return {name: machine for name, machine in bed.machines.items() if machine in chosen}


def _ports(machine: Machine) -> Iterator[int]:
    """The TCP ports on which somebody listens."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{machine.pid}/net/{table}").read_text().splitlines()[1:]:
            local, _, state = line.split()[1:4]
            if state == _LISTENING:
                yield int(local.rpartition(":")[2], 16)


def _sockets(machine: Machine) -> Iterator[str]:
    """The names outside of any file system at which a process can be reached on its machine."""
    for line in Path(f"/proc/{machine.pid}/net/unix").read_text().splitlines()[1:]:
        name = line.split(maxsplit=7)[7:]
        if name and name[0].startswith("@"):
            yield name[0]


def _namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def wait_until_clean(bed: Bed, limit_s: float, *names: str, is_kept: Callable[[str], bool] | None = None) -> list[str]:
    """Wait until nothing is left at the named sites (default: at all of them), nor on the laptop; what still is at the
    limit.

    Args:
        is_kept: says of a line whether it may stay.
    """
    end = time.monotonic() + limit_s
    while True:
        left = [line for line in leftovers(bed, *names) if is_kept is None or not is_kept(line)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)
