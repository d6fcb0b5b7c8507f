"""Which host keys are known: from the files that OpenSSH reads, always, and from nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import asyncssh

USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


def known_hosts_files(options: asyncssh.SSHClientConnectionOptions) -> list[Path]:
    """The files that the configuration names, or OpenSSH's own; the first is where a new key is written."""
    user = options.config.get("UserKnownHostsFile", None)
    everybody = options.config.get("GlobalKnownHostsFile", None)
    named = [*_listed(user, USER_FILES), *_listed(everybody, GLOBAL_FILES)]
    return [Path(name).expanduser() for name in named if name != "none"]


def _listed(value: object, default: Iterable[str]) -> list[str]:
    if value is None:
        return list(default)
    return [str(name) for name in value] if isinstance(value, list | tuple) else [str(value)]


def known_hosts(files: Iterable[Path]) -> bytes:
    """What the files say together. Never empty, which asyncssh would take for "look elsewhere"."""
    text = [b"# what is known of host keys\n"]
    for file in files:
        if file.is_file():
            text.append(file.read_bytes().rstrip(b"\n") + b"\n")
    return b"".join(text)


def is_known(known: bytes, key: asyncssh.SSHKey, host: str, address: str, port: int) -> bool | None:
    """Whether this key is the machine's; `None` if nothing is known of the machine."""
    entries = asyncssh.import_known_hosts(known.decode(errors="replace"))
    found = entries.match(host, address, port if port != 22 else None)
    keys, authorities = found[0], found[1]
    if key in keys:
        return True
    return False if keys or authorities else None
