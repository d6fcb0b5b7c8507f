"""Asking a run that goes on (see `xmml_executors.query_server`)."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from xmml_executors.open_folder import OpenFolder
from xmml_executors.peers import is_ours
from xmml_executors.queries import Query, query_object
from xmml_executors.run_folder import DOOR
from xmml_executors.run_lock import is_owned

from xmml_run.errors import NotARun

#: How long an answer may take; a change of methods takes the longest.
ANSWER_WITHIN_S = 50.0
#: How long to wait for room at the door of a run that goes on: every user of the machine can crowd it.
ROOM_WITHIN_S = 30.0


def ask(folder: OpenFolder, query: Query) -> dict[str, Any] | None:
    """Return the answer of the run in a folder; `None` if it does not go on (or does so on another machine).

    Of a run that was killed the name of its socket is still there, and somebody else may have taken it.
    """
    try:
        name = folder.read(DOOR).decode("ascii")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            if not _is_connected(connection, f"\0{name}", folder) or not is_ours(connection):
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


def no_answer(folder: OpenFolder, if_ended: str) -> NotARun:
    """Return what to say of a run that has not answered.

    Args:
        if_ended: what follows the name of the run if nobody carries it out.
    """
    if is_owned(folder):
        return NotARun(
            f"{folder.path} goes on, but its xmml-run does not answer here: it is ending or suspended, runs on another "
            "machine, or somebody keeps its socket busy; try again"
        )
    return NotARun(f"{folder.path} {if_ended}")


def _is_connected(connection: socket.socket, address: str, folder: OpenFolder) -> bool:
    """Connect, with patience if the door is crowded and somebody carries out the run.

    Raises:
        OSError: nobody is there, or no room was left in time.
    """
    connection.settimeout(ANSWER_WITHIN_S)
    try:
        connection.connect(address)
    except BlockingIOError:  # Linux does not let a socket with a time-out of Python wait for room
        if not is_owned(folder):
            return False
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(ROOM_WITHIN_S), 0))
        connection.connect(address)
        connection.settimeout(ANSWER_WITHIN_S)
    return True
