"""Transports, each to a real place: over ssh to a real sshd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sshd import Sshd
from xmml_executors.transports.destination import Destination
from xmml_executors.transports.local import LocalTransport
from xmml_executors.transports.over_asyncssh import AsyncsshTransport
from xmml_executors.transports.over_openssh import OpensshTransport

OVER_SSH = {"asyncssh": AsyncsshTransport, "openssh": OpensshTransport}


def make(kind: str, server: Sshd) -> Any:
    """Return a transport of some kind to a server; `local`: to this machine."""
    if kind == "local":
        return LocalTransport("here")
    return OVER_SSH[kind]("alpha", Destination(server.name), [server.config])


def leases(folder: Path) -> list[Path]:
    """Return the folders of leases that exist."""
    return list(folder.glob("xmml-lease.*"))
