"""A path as the way for a copy: several TCP streams, encrypted, opened from either end."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from xmml_native import Error
from xmml_native._native import Path, PathCredentials, PathListener

from xmml.late_dataclass import dataclass
from xmml_executors.copying.channel import Broken

#: Longest that somebody tries to open a path [s]; a firewall that drops connections says nothing.
OPEN_LIMIT_S = 4.0
#: For so long a path that has lost all its streams is waited for [s].
PATIENCE_S = 120.0
#: Certificates are made for one copy [s].
_GOOD_FOR_S = 30 * 24 * 3600.0
#: Bytes on their way at most, in each direction.
_WINDOW_B = 64 << 20
_DIALLER, _LISTENER = "dialler", "listener"


@dataclass(frozen=True)
class Keys:
    """What the two ends of one copy know of each other: told over ssh, never on a command line."""

    run: str
    secret: bytes
    mine: PathCredentials
    trusted: str

    def encryption(self) -> tuple[PathCredentials, list[str]]:
        return self.mine, [self.trusted]


def credentials() -> PathCredentials:
    """A certificate for this end."""
    return PathCredentials("copy", _GOOD_FOR_S)


def fresh_secret() -> bytes:
    """A secret for one copy."""
    return secrets.token_bytes(32)


class PathChannel:
    """Messages over a path."""

    def __init__(self, path: Path, listener: PathListener | None = None) -> None:
        self._path = path
        self._listener = listener  # streams that are replaced come in there

    def send(self, message: bytes) -> None:
        try:
            self._path.send(message)
        except Error as error:
            raise Broken(str(error)) from error

    def receive(self) -> bytes:
        try:
            return bytes(memoryview(self._path.receive()))
        except (Error, EOFError) as error:
            raise Broken(str(error)) from error

    def close(self) -> None:
        """Ends it in order, as far as the other end is still there."""
        try:
            self._path.close(OPEN_LIMIT_S)
        except Error:
            return

    @property
    def streams(self) -> int:
        return self._path.stats()["streams"]


class Door:
    """Where one path comes in."""

    def __init__(self, ports: tuple[int, int], keys: Keys, streams: int | None) -> None:
        """Listens at the first free one of the ports, both ends included; (0, 0): any.

        Raises:
            Broken: none of them is free.
        """
        reasons = []
        for port in range(ports[0], ports[1] + 1):
            try:
                self._listener = PathListener(
                    f"0.0.0.0:{port}",
                    run=keys.run,
                    name=_LISTENER,
                    secret=keys.secret,
                    streams=streams,
                    patience=PATIENCE_S,
                    window=_WINDOW_B,
                    encryption=keys.encryption(),
                )
                break
            except Error as error:
                reasons.append(str(error))
        else:
            raise Broken(reasons[-1] if reasons else "there is no port to listen at")
        self.port = int(self._listener.address.rpartition(":")[2])

    def accept(self, timeout_s: float) -> PathChannel:
        """Waits for the path.

        Raises:
            Broken: nobody came.
        """
        try:
            return PathChannel(self._listener.accept(timeout_s), self._listener)
        except (TimeoutError, Error) as error:
            raise Broken(str(error)) from error


def dial(addresses: Sequence[str], port: int, keys: Keys, streams: int | None) -> PathChannel:
    """Opens a path to the first of the addresses that answers.

    Raises:
        Broken: none does; the text says why.
    """
    reasons = []
    for address in addresses:
        host = f"[{address}]" if ":" in address else address
        try:
            path = Path.dial(
                f"{host}:{port}",
                _LISTENER,
                run=keys.run,
                name=_DIALLER,
                secret=keys.secret,
                streams=streams,
                patience=PATIENCE_S,
                window=_WINDOW_B,
                encryption=keys.encryption(),
            )
            if path.wait_open(OPEN_LIMIT_S):
                return PathChannel(path)
            reasons.append(f"{host}:{port} does not answer")
        except Error as error:
            reasons.append(str(error))
    raise Broken("; ".join(reasons) or "there is no address to dial")
