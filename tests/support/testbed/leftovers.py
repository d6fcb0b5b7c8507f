"""What is left at the sites when everything should be over: jobs, processes, files, ports."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.bed import Bed

_LISTENING = "0A"


def leftovers(bed: Bed) -> list[str]:
    """One line for each thing that was not there when the bed was made."""
    found = []
    for cluster in bed.clusters:
        found += [f"job at {cluster.name}: {row}" for row in cluster.slurm.root("squeue -h -o '%i %j %T'").splitlines()]
    found += processes(bed).values()
    now = present(bed)
    found += sorted(now - bed.at_first)
    return found


def present(bed: Bed) -> set[str]:
    """The files of the users and the ports that somebody listens on."""
    found = set()
    for site in bed.sites.values():
        for user in site.users:
            home = site.home(user)
            found |= {f"file at {site.name}: ~{user.name}/{path.relative_to(home)}" for path in home.rglob("*")}
        for machine in site.machines:
            root = Path(f"/proc/{machine.pid}/root")
            for folder in ("tmp", "dev/shm"):
                with contextlib.suppress(OSError):
                    found |= {
                        f"file on {machine.name}: /{path.relative_to(root)}" for path in (root / folder).rglob("*")
                    }
    for machine in bed.machines.values():
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{machine.pid}/net/{table}").read_text().splitlines()[1:]:
                    local, _, state = line.split()[1:4]
                    if state == _LISTENING:
                        number = int(local.rpartition(":")[2], 16)
                        found.add(f"port on {machine.name}: {number}")
    return found


def processes(bed: Bed) -> dict[int, str]:
    """Processes of the users on the machines of this bed; that sshd holds a connection of theirs is no matter."""
    owners = {user.number: f"{user.name} at {site.name}" for site in bed.sites.values() for user in site.users}
    machines = {_namespace(machine.pid): name for name, machine in bed.machines.items()}
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            owner = owners.get(entry.stat().st_uid) if entry.name.isdigit() else None
            if owner is None:
                continue
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            where = machines.get(_namespace(int(entry.name)))
            if line and where and not line.startswith("sshd:"):
                found[int(entry.name)] = f"process of {owner} on {where}: {line[:200]}"
    return found


def _namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def wait_until_clean(bed: Bed, limit_s: float) -> list[str]:
    """Wait until nothing is left; what still is at the limit."""
    end = time.monotonic() + limit_s
    while (left := leftovers(bed)) and time.monotonic() < end:
        time.sleep(0.1)
    return left
