"""A run that goes on without its terminal: `xmml-run --detach`, and where it says what it would say there."""

from __future__ import annotations

import os
import sys

from xmml_executors.open_folder import OpenFolder

#: What a detached run prints, in its folder.
OUTPUT = "output.log"


def detach(folder: OpenFolder) -> bool:
    """Go on in the background; return True there, and False in the process that was started from the terminal.

    The run is a session of its own: it neither gets the terminal's signals nor ends with it. Its output goes to a file.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        return False
    os.setsid()
    if os.fork():  # so that it never gets a terminal again
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = folder.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, target)
    os.close(nothing)
    os.close(output)
    return True
