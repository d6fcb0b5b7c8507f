"""The people of the test bed: known at their own site only, under other names and numbers everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SYSTEM_USERS = ("root", "daemon", "bin", "sys", "sync", "nobody", "_apt", "sshd", "munge", "slurm")
SYSTEM_GROUPS = ("root", "daemon", "bin", "sys", "tty", "nogroup", "munge", "slurm")


@dataclass(frozen=True)
class User:
    """Somebody with an account at a site."""

    name: str
    number: int


def write_accounts(folder: Path, users: list[User]) -> None:
    """Write passwd, group and shadow of a site."""
    (folder / "passwd").write_text(
        _known("/etc/passwd", SYSTEM_USERS)
        + "".join(f"{u.name}:x:{u.number}:{u.number}::/home/{u.name}:/bin/bash\n" for u in users)
    )
    (folder / "group").write_text(
        _known("/etc/group", SYSTEM_GROUPS) + "".join(f"{u.name}:x:{u.number}:\n" for u in users)
    )
    shadow = "root:*:19000:0:99999:7:::\n" + "".join(f"{u.name}:*:19000:0:99999:7:::\n" for u in users)
    (folder / "shadow").touch(0o600)
    (folder / "shadow").write_text(shadow)


def _known(file: str, names: tuple[str, ...]) -> str:
    lines = Path(file).read_text().splitlines(keepends=True)
    return "".join(line for line in lines if line.split(":", 1)[0] in names)
