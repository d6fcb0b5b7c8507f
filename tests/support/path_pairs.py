"""Two ends of a wide-area path in one process."""

from __future__ import annotations

from waiting import LIMIT_S

from xmml import path

WHO = {"secret": b"of both ends", "run": "survey"}


def pair(listening: dict[str, object] | None = None, **settings: object) -> tuple[path.Path, path.Path]:
    """The dialling end, with these settings, and the listening one, with those."""
    listener = path.listen("127.0.0.1:0", name="tokyo", **WHO, **(listening or {}))
    here = path.dial(listener.address, "tokyo", name="amsterdam", **WHO, **settings)
    return here, listener.accept(timeout=LIMIT_S)
