"""Two ends of a wide-area path in one process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from waiting import LIMIT_S

from xmml import path

WHO = {"secret": b"of both ends", "run": "survey"}


@contextmanager
def kept_address() -> Iterator[str]:
    """An address on which nobody listens yet, and whose port nobody else is given meanwhile."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{kept.getsockname()[1]}"


def pair(listening: dict[str, object] | None = None, **settings: object) -> tuple[path.Path, path.Path]:
    """The dialling end, with these settings, and the listening one, with those."""
    listener = path.listen("127.0.0.1:0", name="tokyo", **WHO, **(listening or {}))
    here = path.dial(listener.address, "tokyo", name="amsterdam", **WHO, **settings)
    return here, listener.accept(timeout=LIMIT_S)
