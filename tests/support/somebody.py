"""A server that notes what is asked for, and has nothing."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any


class Somebody(http.server.ThreadingHTTPServer):
    """Who would hear if somebody asked; a connection without a request asks nothing."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


class Answer(http.server.BaseHTTPRequestHandler):
    """Notes what is asked for, and has nothing."""

    server: Somebody

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def listening() -> Iterator[Somebody]:
    """Serve for the length of a `with` statement."""
    with Somebody() as hearing:
        serving = threading.Thread(target=hearing.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        yield hearing
        hearing.shutdown()
        serving.join()
