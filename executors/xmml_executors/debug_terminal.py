"""The terminal that a debugged instance is given for a while."""

from __future__ import annotations

import os
import signal


def take_terminal_back(terminal: str) -> None:
    """Make this process group the foreground of the terminal again, after a debugger had it."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        descriptor = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
        try:
            os.tcsetpgrp(descriptor, os.getpgrp())
        finally:
            os.close(descriptor)
    except OSError:
        pass
    finally:
        signal.signal(signal.SIGTTOU, before)
