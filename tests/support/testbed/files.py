"""What a machine of the test bed sees of the file system.

The system folders are those of the machine underneath. Everything in which two sites could meet by accident is hidden
or private: home directories, temporary files, accounts, the folders of the person who runs the tests. xMML itself is
there read-only, so that it can be used without being copied: its packages and its virtual environment, none of its
models and tests.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
#: Where the virtual environment is at every site: `/opt/xmml/bin/python`.
INSTALLED = "/opt/xmml"
HIDDEN = ("/root", "/var/tmp", "/mnt", "/opt", "/srv", "/media")
#: The import packages lie in these folders of the repository; nothing else of it can be seen.
ROOTS = ("xmml", "schema", "planner", "executors", "native/python", "mto")


def software() -> list[Path]:
    """The folders that must be seen, at their own places, so that the virtual environment works."""
    wanted = [Path(sys.prefix), Path(sys.base_prefix), *(REPOSITORY / root for root in ROOTS)]
    return [path for path in dict.fromkeys(wanted) if path.is_dir() and not path.is_relative_to("/usr")]


def mount_script(shared: Path, own: Path, accounts: Sequence[str]) -> str:
    """What a machine of a site does with its mounts, for sh.

    Args:
        shared: the folder that all machines of the site have in common; there: etc/, home/, modules/.
        own: the folder of this machine alone.
        accounts: the files of shared/etc that take the place of those in /etc.
    """
    hidden = dict.fromkeys([*HIDDEN, *(f"/{path.parts[1]}" for path in software())])
    lines = ["mkdir -p /run/keep"]
    for number, path in enumerate(software()):
        lines.append(f"mkdir /run/keep/{number}; mount --bind {shlex.quote(str(path))} /run/keep/{number}")
    lines.append(f"mkdir /run/keep/shared /run/keep/tmp; mount --bind {shlex.quote(str(shared))} /run/keep/shared")
    lines.append(f"mount --bind {shlex.quote(str(own))} /run/keep/tmp")
    hidden.pop("/tmp", None)
    lines += [f"mount -t tmpfs -o size=1m,mode=755 tmpfs {folder}" for folder in hidden]
    lines.append("mount --bind /run/keep/tmp /tmp")
    lines.append("mount --bind /run/keep/shared /mnt")
    lines.append("mount --bind /mnt/home /home")
    for number, path in enumerate(software()):
        word = shlex.quote(str(path))
        lines.append(f"mkdir -p {word}; mount --bind /run/keep/{number} {word}; mount -o remount,bind,ro {word}")
    lines.append(f"mkdir {INSTALLED}; mount --bind {shlex.quote(sys.prefix)} {INSTALLED}")
    lines.append(f"mount -o remount,bind,ro {INSTALLED}")
    lines.append("mkdir /opt/modules; mount --bind /mnt/modules /opt/modules")
    lines += [f"mount --bind /mnt/etc/{name} /etc/{name}" for name in accounts]
    lines.append("mount -t tmpfs -o mode=1777,size=256m tmpfs /dev/shm")
    lines.append("umount /run/keep/*; rmdir /run/keep/* /run/keep")
    return "\n".join(lines)
