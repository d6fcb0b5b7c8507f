"""What can go wrong for an instance, by cause, and where in the user's program it happened."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType


class Error(RuntimeError):
    """Anything that goes wrong between a program and its run."""


class NotInARunError(Error):
    """The program was not started by ``xmml-run``."""


class PortError(Error):
    """The port is not in the model, is used in the wrong direction, or is not coupled."""


class OrderError(Error):
    """A call out of the order of the submodel execution loop."""


class EndedError(Error):
    """A receive on a conduit whose sender has ended."""


class ReceiveTimeoutError(Error, TimeoutError):
    """The time-out of a receive passed."""


class ArchiveError(Error):
    """An archive that cannot be read or written, or objects of it that do not fit together."""


class DataTypeError(Error, TypeError):
    """A value that no message can carry, or one of another type than asked for."""


class ParameterError(Error, ValueError):
    """A parameter is missing or cannot be converted."""


class RunAborted(Error):
    """The run was stopped: another instance failed, or somebody interrupted it."""


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def _is_ours(code: CodeType) -> bool:
    # A hosted instance is started with python -c, whose text is the file "<string>".
    return code.co_filename.startswith((_PACKAGE, "<frozen ")) or code.co_filename == "<string>"


def _is_users(code: CodeType) -> bool:
    return (
        not _is_ours(code)
        and not code.co_filename.startswith(_STANDARD_LIBRARY)
        and "site-packages" not in code.co_filename
    )


def call_site() -> str | None:
    """Return ``file:line`` of the innermost call that is not in this package."""
    frame = sys._getframe()
    while frame is not None:
        if not _is_ours(frame.f_code):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


def describe(error: BaseException) -> str:
    """Return one line for the run's report: ``ValueError: negative depth at section.py:41``."""
    name = type(error).__name__
    text = " ".join(str(error).split())
    what = f"{name}: {text}" if text else name
    if isinstance(error, SystemExit):
        what = f"exit with status {error.code}"
    elif isinstance(error, Error):
        what = text
    place = _place(error.__traceback__)
    return what if place is None or "called at" in text else f"{what} at {place}"


def _place(trace: TracebackType | None) -> str | None:
    """The innermost line of the user's own code, else of any code that is not ours."""
    users = others = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if not _is_ours(code):
            others = f"{code.co_filename}:{trace.tb_lineno}"
            if _is_users(code):
                users = others
        trace = trace.tb_next
    return users or others


def print_users_traceback(error: BaseException) -> None:
    """Print ``error`` to stderr as the interpreter would, but without this package's frames above the user's code."""
    import traceback

    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
