"""Who is at the other end of a Unix socket, as the kernel says: anybody may listen at a name that has become free."""

from __future__ import annotations

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def is_ours(connection: socket.socket) -> bool:
    """Whether the other end of a connection belongs to this user, or to root."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(found)[1] in (os.geteuid(), 0)
