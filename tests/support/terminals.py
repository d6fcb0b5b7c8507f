"""A command on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import time
from collections.abc import Mapping

from waiting import LIMIT_S


class Terminal:
    """A command on a pseudo-terminal, and what it has shown."""

    def __init__(self, *words: str, environment: Mapping[str, str] | None = None) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execve(words[0], words, {**(os.environ if environment is None else environment), "TERM": "xterm"})
        self.shown = ""

    def expect(self, pattern: str) -> str:
        """Wait until the terminal shows something, and return what was shown until then."""
        deadline = time.monotonic() + LIMIT_S
        while not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, self.shown
            assert self.read(), f"{pattern} was not shown: {self.shown}"
        return self.shown

    def read(self) -> bool:
        """Take what is shown within a moment; False at the end."""
        ready, _, _ = select.select([self.descriptor], [], [], 1.0)
        if not ready:
            return True
        try:
            chunk = os.read(self.descriptor, 65536)
        except OSError:
            return False
        self.shown += chunk.decode("utf-8", "replace")
        return bool(chunk)

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self.descriptor, text.encode())

    def end(self) -> int:
        """Wait for the end and return the exit status."""
        deadline = time.monotonic() + LIMIT_S
        while self.read():
            assert time.monotonic() < deadline, self.shown
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Leave nothing behind."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)
