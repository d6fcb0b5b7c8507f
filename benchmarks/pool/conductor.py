"""Lets the ends of a case begin together, and takes what they report.

Each end connects to a Unix socket. Before each pass it writes an empty line and waits for a byte, which comes when all
ends have done so. Behind the last pass it writes what it has measured, as JSON in a line, and again waits for all.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from harness import processes

PASSES = 2


class Conductor:
    """The benchmark's end of these lines; `reports` are complete when all ends have reported."""

    def __init__(self, folder: Path, ends: int, limit_s: float) -> None:
        self.address = folder / "conductor"
        self.ends = ends
        self.limit_s = limit_s
        self.reports: list[dict[str, Any]] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.address))
        self.listener.listen(ends)

    def conduct(self, process: subprocess.Popen[bytes]) -> None:
        """Serve all ends until they have reported, or one has ended before.

        Raises:
            RunFailed: an end was silent for too long.
        """
        lines: list[socket.socket] = []
        self.listener.settimeout(0.1)
        until = time.monotonic() + self.limit_s
        try:
            while len(lines) < self.ends:
                if process.poll() is not None:
                    return
                try:
                    line, _ = self.listener.accept()
                except TimeoutError:
                    if time.monotonic() > until:
                        raise
                    continue
                line.settimeout(self.limit_s)
                lines.append(line)
            for _ in range(PASSES):
                if not all(self.said(line) for line in lines):
                    return
                for line in lines:
                    line.sendall(b"\n")
            reports = [self.said(line) for line in lines]
            if all(reports):
                self.reports = [json.loads(report) for report in reports]
            for line in lines:
                line.sendall(b"\n")
        except TimeoutError:
            raise processes.RunFailed(f"an end was silent for {self.limit_s:.0f} s") from None
        except ConnectionError:
            return
        finally:
            self.close(lines)

    def said(self, line: socket.socket) -> bytes:
        """Return the next line of an end; empty if it has ended."""
        text = b""
        while not text.endswith(b"\n"):
            some = line.recv(1 << 12)
            if not some:
                return b""
            text += some
        return text

    def close(self, lines: list[socket.socket]) -> None:
        for each in (*lines, self.listener):
            each.close()
