"""A path as the way for a copy: several TCP streams, encrypted, opened from either end."""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from xmml_native import Error
from xmml_native._native import Path, PathListener, leave_paths, make_path_credentials

from xmml.late_dataclass import dataclass
from xmml_sites.transfer.message_stream import ConnectionBroken
from xmml_sites.transfer.settings import TransferMethod

#: Longest that somebody tries to open a path [s]; a firewall that drops connections says nothing.
OPEN_LIMIT_S = 4.0
#: For so long a path that has lost all its streams is waited for [s].
PATIENCE_S = 120.0
#: Certificates are made for one copy [s].
_GOOD_FOR_S = 30 * 24 * 3600.0
#: Bytes on their way at most, in each direction.
_WINDOW_B = 64 << 20
_DIALLER, _LISTENER = "dialler", "listener"

# A copy may be done while a thread dials: CPython would end that thread, and by that abort the process.
atexit.register(leave_paths)


@dataclass(frozen=True, repr=False)
class Credentials:
    """A certificate and its key, and the fingerprint by which the other end knows them."""

    pem: str
    fingerprint: str


@dataclass(frozen=True, repr=False)
class Keys:
    """What the two ends of one copy know of each other: told over ssh, never on a command line."""

    run: str
    secret: bytes
    mine: Credentials
    trusted: str

    def of_an_end(self, name: str) -> Mapping[str, Any]:
        """What the end called `name` opens a path with."""
        return {
            "run": self.run,
            "name": name,
            "secret": self.secret,
            "credentials": self.mine.pem,
            "trusted": [self.trusted],
        }


def credentials() -> Credentials:
    """A certificate for this end."""
    return Credentials(*make_path_credentials("copy", _GOOD_FOR_S))


def _settings(streams: int | None) -> Mapping[str, Any]:
    return {"streams": streams or "auto", "patience": PATIENCE_S, "window": _WINDOW_B, "queue": _WINDOW_B}


def fresh_secret() -> bytes:
    """A secret for one copy."""
    return os.urandom(32)


def _everywhere() -> str:
    """The address of all devices of this machine: that of IPv6 stands for IPv4, too."""
    return "[::]" if socket.has_dualstack_ipv6() else "0.0.0.0"


def _in_brackets(host: str) -> str:
    """A host as it stands before a port; an address of IPv6 may have its brackets already."""
    bare = host.removeprefix("[").removesuffix("]")
    return f"[{bare}]" if ":" in bare else host


class PathMessageStream:
    """Messages over a path."""

    def __init__(self, path: Path, way: TransferMethod, listener: PathListener | None = None) -> None:
        self._path, self.way = path, way
        self._listener = listener  # streams that are replaced come in there

    def send(self, message: bytes) -> None:
        try:
            self._path.send(message)
        except Error as error:
            raise ConnectionBroken(str(error)) from error

    def receive(self) -> memoryview:
        try:
            message: memoryview | None = self._path.receive()
        except Error as error:
            raise ConnectionBroken(str(error)) from error
        if message is None:
            raise ConnectionBroken("the other end of the path has finished")
        return message

    def close(self) -> None:
        """Close the path after everything sent has arrived, or after `OPEN_LIMIT_S`."""
        self._close_within(OPEN_LIMIT_S)

    def leave(self) -> None:
        self._close_within(0)

    def _close_within(self, limit_s: float) -> None:
        try:
            self._path.close(limit_s)
        except Error:
            return

    @property
    def streams(self) -> int:
        return int(self._path.stats()["streams"])


class SinglePathListener:
    """A listener for one path."""

    def __init__(self, ports: tuple[int, int], keys: Keys, way: TransferMethod, streams: int | None) -> None:
        """Listen at the first free one of the ports, both ends included; (0, 0): any.

        Raises:
            ConnectionBroken: none of them is free.
        """
        self._way = way
        reasons = []
        for port in range(ports[0], ports[1] + 1):
            try:
                settings = _settings(streams)
                self._listener = PathListener(f"{_everywhere()}:{port}", settings=settings, **keys.of_an_end(_LISTENER))
                break
            except Error as error:
                reasons.append(str(error))
        else:
            raise ConnectionBroken(reasons[-1] if reasons else "there is no port to listen at")
        self.port = int(self._listener.address.rpartition(":")[2])

    def accept(self, timeout_s: float) -> PathMessageStream:
        """Wait for the path.

        Raises:
            ConnectionBroken: nobody came.
        """
        try:
            return PathMessageStream(self._listener.accept(timeout_s), self._way, self._listener)
        except (TimeoutError, Error) as error:
            raise ConnectionBroken(str(error)) from error


def dial(
    addresses: Sequence[str], port: int, keys: Keys, way: TransferMethod, streams: int | None
) -> PathMessageStream:
    """Open a path to the first of the addresses that answers.

    Raises:
        ConnectionBroken: none does; the text says why.
    """
    reasons = []
    for address in addresses:
        host = _in_brackets(address)
        try:
            end, settings = keys.of_an_end(_DIALLER), _settings(streams)
            path = Path.dial(f"{host}:{port}", _LISTENER, timeout=OPEN_LIMIT_S, settings=settings, **end)
            return PathMessageStream(path, way)
        except TimeoutError:
            reasons.append(f"{host}:{port} does not answer")
        except Error as error:
            reasons.append(str(error))
    raise ConnectionBroken("; ".join(reasons) or "there is no address to dial")
