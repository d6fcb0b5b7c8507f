"""Where the commands `xmml-run` and `xmml` begin."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence


def xmml_run(arguments: Sequence[str] | None = None) -> int:
    """The command `xmml-run`: check, plan, run, collect."""
    from xmml_run.run_command import run_model

    return _guarded(run_model, sys.argv[1:] if arguments is None else arguments)


def xmml(arguments: Sequence[str] | None = None) -> int:
    """The command `xmml`: everything around a run."""
    from xmml_run.xmml_command import xmml_command

    return _guarded(xmml_command, sys.argv[1:] if arguments is None else arguments)


def _guarded(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command; that nobody reads its output any more, or Ctrl-C outside of a run, ends it without a traceback."""
    try:
        return command(arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
