"""Where a site's `ssh` leads, and which OpenSSH configuration says how."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from xmml.late_dataclass import dataclass

#: Names another configuration than ~/.ssh/config, as `ssh -F` does.
CONFIGURATION = "XMML_SSH_CONFIG"

#: How long a machine may take to answer the first dial [s].
CONNECT_S = 20
#: Of every connection by OpenSSH: a machine that does not answer, or dies, is noticed, and every command is ours.
CONNECTION_OPTIONS = tuple(
    word
    for option in (
        f"ConnectTimeout={CONNECT_S}",
        "ServerAliveInterval=10",
        "ServerAliveCountMax=3",
        "RemoteCommand=none",
    )
    for word in ("-o", option)
)

#: What no name of a user or host has: what means something to a shell, to which a configuration may hand both (`%h` in
#: `ProxyCommand`), and, in a host, to `known_hosts` (`*`).
_OF_SHELLS = r"\s@:/'\"`$;&<>|(){}"
_OF_PATTERNS = r"\[\]*?!,#\\"
_DESTINATION = re.compile(
    rf"(?:ssh://)?(?:(?P<user>[^{_OF_SHELLS}-][^{_OF_SHELLS}]*)@)?"
    rf"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^{_OF_SHELLS}{_OF_PATTERNS}-][^{_OF_SHELLS}{_OF_PATTERNS}]*))"
    r"(?::(?P<port>\d+))?"
)


@dataclass(frozen=True)
class Destination:
    """`user@host:port`; what is not said comes from the OpenSSH configuration."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (f"{self.user}@" if self.user else "") + host + (f":{self.port}" if self.port else "")

    @property
    def command(self) -> str:
        """The command that logs in there, to be typed. `ssh` takes no port behind a host, and no brackets around an
        address."""
        port = ["-p", str(self.port)] if self.port else []
        return shlex.join(["ssh", *port, f"{self.user}@{self.host}" if self.user else self.host])


def read_destination(text: str) -> Destination:
    """Read `host`, `user@host`, `user@host:port` or `user@[address]:port`.

    Raises:
        ValueError: it is none of these.
    """
    found = _DESTINATION.fullmatch(text)
    if not found or (found["port"] and not 0 < int(found["port"]) < 65536):
        raise ValueError(f"{text!r} is not a host, user@host or user@host:port")
    return Destination(found["v6"] or found["host"], found["user"], int(found["port"]) if found["port"] else None)


def read_jumps(text: str) -> list[Destination]:
    """Read the machines on the way as `ProxyJump` names them: destinations or `ssh://user@host:port`, with commas.

    Raises:
        ValueError: one is neither.
    """
    return [read_destination(jump.strip().removeprefix("ssh://").rstrip("/")) for jump in text.split(",")]


def chosen_configuration() -> list[Path]:
    """The OpenSSH configuration that the environment names, if it does."""
    chosen = os.environ.get(CONFIGURATION)
    return [Path(chosen)] if chosen else []


def ssh_command() -> tuple[str, ...]:
    """Return the beginning of a command line of `ssh`, with the configuration that the environment names, if any."""
    return ("ssh", *(word for file in chosen_configuration() for word in ("-F", str(file))))


def configuration_files() -> list[Path]:
    """The OpenSSH configuration that counts, the more particular file first."""
    return chosen_configuration() or [
        path for path in (Path.home() / ".ssh" / "config", Path("/etc/ssh/ssh_config")) if os.access(path, os.R_OK)
    ]
