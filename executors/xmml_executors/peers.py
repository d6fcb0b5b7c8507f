"""Who is at the other end of a Unix socket, as the kernel says: anybody may listen at a name that has become free."""

from __future__ import annotations

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def user_of(connection: socket.socket) -> int:
    """Return the user at the other end of a connection.

    Raises:
        OSError: the kernel does not say.
    """
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(found)[1]
    return user


def is_ours(connection: socket.socket) -> bool:
    """Whether the other end of a connection belongs to this user, or to root."""
    return user_of(connection) in (os.geteuid(), 0)
