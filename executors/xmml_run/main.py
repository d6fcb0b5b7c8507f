"""Where the commands `xmml-run` and `xmml` begin."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence

#: Large models are many objects that stay; looking through them for garbage as often as usual takes a sixth of the
#: time.
GARBAGE_THRESHOLDS = (100_000, 50, 100)


def xmml_run(arguments: Sequence[str] | None = None) -> int:
    """The command `xmml-run`: check, plan, run, collect."""

    def command(words: Sequence[str]) -> int:
        from xmml_run.run_command import run_model  # takes most of the time of a start, in which Ctrl-C is guarded

        return run_model(words)

    return _guarded("xmml-run", command, sys.argv[1:] if arguments is None else arguments)


def xmml(arguments: Sequence[str] | None = None) -> int:
    """The command `xmml`: everything around a run."""

    def command(words: Sequence[str]) -> int:
        from xmml_run.xmml_command import xmml_command

        return xmml_command(words)

    return _guarded("xmml", command, sys.argv[1:] if arguments is None else arguments)


def _guarded(name: str, command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command; that nobody reads its output any more, Ctrl-C outside of a run, or a limit of the system ends it
    without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale may lack what a model or a program writes
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited: nobody hears of the end of a child while it is ignored
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    atexit.register(gc.freeze)  # what is left then goes with the process: no need to look through it
    from xmml_run.terminal_text import guarded_terminal

    with guarded_terminal():
        status = _carried_out(name, command, arguments)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        _silence()  # else the interpreter tries again when it ends, and makes another exit status of the failure
    return status


def _carried_out(name: str, command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Carry out a command, and return its exit status whatever becomes of it."""
    status = 0
    try:
        status = command(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno == errno.EIO:
            _silence()
            return status
        from xmml_executors.limits import is_reached

        if not is_reached(error):
            raise
        return _limit_reached(name, error)
    except MemoryError as error:
        return _limit_reached(name, error)
    return status


def _limit_reached(name: str, error: OSError | MemoryError) -> int:
    """Say which limit to raise."""
    from xmml_executors.limits import explained
    from xmml_executors.outcome import ExitStatus

    print(f"{name}: {explained(error)}", file=sys.stderr)
    return int(ExitStatus.SITE_FAILED)


def _silence() -> None:
    """Let what is still to be written go nowhere: the reader or the terminal is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.dup2(nowhere, sys.stderr.fileno())
