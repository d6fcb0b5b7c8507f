"""Handing files of a finished run to whoever asked for them: `xmml-run --result INSTANCE/PATH=FILE`."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xmml_planner import Plan

from xmml.late_dataclass import dataclass
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import ExitStatus, Outcome, SiteError
from xmml_executors.run_folder import RunFolder

#: So many files of a working folder are named at most.
_MOST_NAMES = 5


@dataclass(frozen=True)
class Delivery:
    """A file (or folder) that an instance writes, and where it is wanted.

    Attributes:
        instance: the instance, with the index of a copy: `section` or `section[2]`.
        path: relative to the working folder of the instance.
        target: the file or folder that it becomes a copy of.
    """

    instance: str
    path: str
    target: Path


def deliver(plan: Plan, folder: RunFolder, deliveries: Sequence[Delivery]) -> Outcome:
    """Copy what was asked for, all or nothing but for a failing disk; each file appears under its name in one piece.

    Returns:
        Done, or which instance has not written what.

    Raises:
        SiteError: a target cannot be written, or a working folder cannot be read.
    """
    for each in deliveries:
        with _work(plan, folder, each) as work:
            if not (work.lasting_path / each.path).exists():
                reason = f'instance "{each.instance}" has ended but not written {each.path}, which --result asks for'
                reason += _what_is_there(work.lasting_path)
                return Outcome(ExitStatus.INSTANCE_FAILED, reason, each.instance)
    for each in deliveries:
        with _work(plan, folder, each) as work:
            try:
                _copy(work.lasting_path / each.path, each.target)
            except OSError as problem:
                error = work.told(problem)
                where = error.filename or each.target
                raise SiteError(
                    f"{each.path} of {each.instance} cannot be copied to {each.target}: {where}: {error.strerror}"
                ) from None
    return Outcome(ExitStatus.DONE)


def _what_is_there(work: Path) -> str:
    """Return what a working folder holds instead, the first few names; empty: that cannot be read."""
    try:
        names = sorted(f"{each.name}/" if each.is_dir() else each.name for each in work.iterdir())
    except OSError:
        return ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    held = f"holds {', '.join(names[:_MOST_NAMES])}{more}" if names else "is empty"
    return f"; its working folder {held}"


def _work(plan: Plan, folder: RunFolder, delivery: Delivery) -> OpenFolder:
    """Open the working folder of the instance that writes what is wanted."""
    try:
        return folder.files.below(folder.work(plan.by_name[delivery.instance]))
    except OSError as error:
        raise SiteError(f"{delivery.path} of {delivery.instance}: {error.filename}: {error.strerror}") from None


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder beside the target, then give it the target's name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        copy = beside / target.name
        if source.is_dir():
            shutil.copytree(source, copy)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
        else:
            shutil.copy2(source, copy)
        os.replace(copy, target)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(beside)
