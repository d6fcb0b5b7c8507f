"""A report that is in order but for its number, which is beyond those that xmml-run counts with: a program says it to
the coordinator of its run, over the connection that it has."""

from __future__ import annotations

#: Python text that defines `forge_report()`.
FORGE_REPORT = """
import os, socket

def forge_report():
    def text(word):
        return bytes([0xa0 + len(word)]) + word.encode()
    empty = b"".join(text(each) + b"\\x90" for each in ("waits", "sent", "received"))
    waiting = text("epoch") + b"\\xcf" + b"\\xff" * 8 + empty
    body = b"\\x81" + text("Waiting") + b"\\x84" + waiting
    frame = len(body).to_bytes(8, "little") + bytes([5, 1]) + bytes(14) + body  # kind 5, format 1
    for each in os.listdir("/proc/self/fd"):
        try:
            connection = socket.socket(fileno=os.dup(int(each)))
            peer = connection.getpeername()
        except OSError:
            continue
        if isinstance(peer, bytes) and peer[1:].decode() in os.environ["XMML_COORDINATOR"]:
            connection.send(frame, socket.MSG_DONTWAIT)
"""
