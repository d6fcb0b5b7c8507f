"""Transports, each to a real place: over ssh to a real sshd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sshd import Sshd
from xmml_sites.ssh.asyncssh_transport import AsyncsshTransport
from xmml_sites.ssh.destination import Destination
from xmml_sites.ssh.local import LocalTransport
from xmml_sites.ssh.openssh_transport import OpensshTransport

OVER_SSH = {"asyncssh": AsyncsshTransport, "openssh": OpensshTransport}


def make(kind: str, server: Sshd) -> Any:
    """Return a transport of some kind to a server; `local`: to this machine."""
    if kind == "local":
        return LocalTransport("here")
    return OVER_SSH[kind]("alpha", Destination(server.name), [server.config])


def leases(folder: Path) -> list[Path]:
    """Return the folders of leases that exist."""
    return list(folder.glob("xmml-lease.*"))
