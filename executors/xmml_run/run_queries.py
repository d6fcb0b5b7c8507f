"""Asking a run that goes on (see `xmml_executors.query_server`)."""

from __future__ import annotations

import json
import socket
from typing import Any

from xmml_executors.open_folder import OpenFolder
from xmml_executors.peers import is_ours
from xmml_executors.queries import Query, query_object
from xmml_executors.run_folder import DOOR

#: How long an answer may take; a change of methods takes the longest.
ANSWER_WITHIN_S = 50.0


def ask(folder: OpenFolder, query: Query) -> dict[str, Any] | None:
    """Return the answer of the run in a folder; `None` if it does not go on (or does so on another machine).

    Of a run that was killed the name of its socket is still there, and somebody else may have taken it.
    """
    try:
        name = folder.read(DOOR).decode("ascii")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_WITHIN_S)
            connection.connect(f"\0{name}")
            if not is_ours(connection):
                return None
            connection.sendall(json.dumps(query_object(query)).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                chunk = connection.recv(65536)
                if not chunk:
                    return None
                answer += chunk
    except OSError:
        return None
    found: dict[str, Any] = json.loads(answer)
    return found
