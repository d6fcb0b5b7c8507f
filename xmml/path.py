"""Wide-area paths: several TCP streams between two programs that behave as one channel for messages.

For programs that are part of a run, and for any others. ``docs/wide-area.md`` explains them.

>>> from xmml import path
>>> listener = path.listen("127.0.0.1:0", secret=b"of both ends", run="survey", name="tokyo")
>>> here = path.dial(listener.address, "tokyo", secret=b"of both ends", run="survey", name="amsterdam", streams=2)
>>> there = listener.accept(timeout=30)
>>> here.send(b"hello")
>>> bytes(there.receive())
b'hello'
"""

from __future__ import annotations

import atexit
import os
import stat
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from xmml_native._native import (
    Path,
    PathListener,
    cycle_paths,
    gather_from_paths,
    leave_paths,
    make_path_credentials,
    scatter_to_paths,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer

#: Bytes of the shortest secret that is taken from a file: shorter ones can be found by trying.
LEAST_SECRET = 16

__all__ = ["Path", "PathListener", "cycle", "dial", "gather", "listen", "make_credentials", "relay", "scatter"]


# Their threads need the interpreter to let go of what was sent, and never get it while it ends.
atexit.register(leave_paths)


def dial(
    address: str,
    peer: str,
    *,
    run: str,
    name: str,
    secret: bytes | None = None,
    secret_file: str | os.PathLike[str] | None = None,
    credentials_file: str | os.PathLike[str] | None = None,
    trusted: Iterable[str] = (),
    timeout: float | None = 30.0,
    **settings: Any,
) -> Path:
    """Open a path to the program called `peer` that listens at `address`, and may start later.

    Args:
        address: ``host:port``.
        peer: The name that the listening program has given itself.
        run: The same at both ends.
        name: Who this end is.
        secret: The secret that both ends share; or
        secret_file: a file that holds it as hexadecimal digits, readable by its owner only.
        credentials_file: For an encrypted path, what `make_credentials` has written.
        trusted: For an encrypted path, the fingerprints that are believed at the other end.
        timeout: Seconds to wait for the other end; None waits without end.
        settings: streams (1 to 128 or "auto"), chunk, window, queue, max_message, socket_buffer, pace, congestion,
            patience, silence, workers, zero_copy ("auto", "on" or "off"), relays (True: this program passes on what
            comes, see `relay`), link (round trip time in seconds and bytes per second).

    Raises:
        xmml.Error: The other end refuses, or cannot be believed.
        TimeoutError: Nobody has answered in time.
        PermissionError: Others can read the file of the secret or that of the credentials.
    """
    key, pem = _secret(secret, secret_file), _text(credentials_file)
    return Path.dial(
        address,
        peer,
        secret=key,
        run=run,
        name=name,
        credentials=pem,
        trusted=list(trusted),
        timeout=timeout,
        settings=settings,
    )


def listen(
    address: str,
    *,
    run: str,
    name: str,
    secret: bytes | None = None,
    secret_file: str | os.PathLike[str] | None = None,
    credentials_file: str | os.PathLike[str] | None = None,
    trusted: Iterable[str] = (),
    **settings: Any,
) -> PathListener:
    """Listen at `address`, ``host:port`` (port 0: any free one); the settings become those of the accepted paths.

    The arguments are those of `dial`.

    Raises:
        xmml.Error: The address cannot be listened at.
        PermissionError: Others can read the file of the secret or that of the credentials.
    """
    key, pem = _secret(secret, secret_file), _text(credentials_file)
    return PathListener(
        address, secret=key, run=run, name=name, credentials=pem, trusted=list(trusted), settings=settings
    )


def make_credentials(file: str | os.PathLike[str], name: str, seconds: float) -> str:
    """Write a new key and certificate to a new file that its owner only can read; return the fingerprint.

    The other end needs the fingerprint, which is no secret.

    Args:
        file: Must not exist.
        name: Who shows the certificate.
        seconds: For so long it is good.
    """
    pem, fingerprint = make_path_credentials(name, seconds)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as opened:
        opened.write(pem)
    return fingerprint


def cycle(to: Path, source: Path, data: Buffer, lane: str = "bulk", timeout: float | None = None) -> memoryview | None:
    """Send on one path and receive from another; None once that one has ended.

    The data may change when this returns, also after an error: what has not left by then is copied.

    Raises:
        TimeoutError: Nothing has come in time, or there was no room for the message.
        xmml.Error: Why a path has failed.
    """
    return cycle_paths(to, source, data, lane, timeout)


def scatter(paths: Sequence[Path], parts: Sequence[Buffer], lane: str = "bulk", timeout: float | None = None) -> None:
    """Send each path its part, on all of them at once.

    The parts may change when this returns: what has not left in time is copied.

    Raises:
        TimeoutError: A path had no room in time; nothing was sent on any.
        xmml.Error: Why a path has failed, or there are not as many parts as paths.
    """
    scatter_to_paths(paths, parts, lane, timeout)


def gather(paths: Sequence[Path], lane: str = "bulk", timeout: float | None = None) -> list[memoryview]:
    """Receive one message of each path, in their order; none is taken before all have come.

    Raises:
        TimeoutError: Not all have come in time; those that have can still be received.
        xmml.Error: A path has failed or is there twice, or its other end has finished.
    """
    return gather_from_paths(paths, lane, timeout)


def relay(one: Path, other: Path) -> tuple[int, int]:
    """Pass everything on between two paths until both have ended; return how many messages, there and back.

    Who sends is told that a message has arrived when it has come through: from now on, and from the first message on if
    the paths were opened with ``relays=True``.

    Raises:
        xmml.Error: Why one of the paths has failed, and how much is not known to have come through; both are given up
            then, and their other ends are told.
    """
    return one.relay(other)


def _secret(secret: bytes | None, file: str | os.PathLike[str] | None) -> bytes:
    if (secret is None) == (file is None):
        raise ValueError("give either secret or secret_file")
    if secret is not None:
        return secret
    try:
        key = bytes.fromhex(_private_text(file or "", "this secret").strip())
    except ValueError:
        key = b""
    if not key:
        raise ValueError(f"{os.fspath(file or '')} holds no secret: hexadecimal digits are expected")
    if len(key) < LEAST_SECRET:
        raise ValueError(
            f"the secret in {os.fspath(file or '')} has {len(key)} bytes; at least {LEAST_SECRET} are needed"
        )
    return key


def _text(file: str | os.PathLike[str] | None) -> str | None:
    return None if file is None else _private_text(file, "this key")


def _private_text(file: str | os.PathLike[str], what: str) -> str:
    mode = stat.S_IMODE(os.stat(file).st_mode)
    if mode & 0o077:
        raise PermissionError(f"{os.fspath(file)}: others can read {what} (mode {mode:o}); chmod 600 it")
    return FilePath(file).read_text(encoding="ascii")
