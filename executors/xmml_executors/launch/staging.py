"""Which files a site needs, and bringing there those that it has not got.

At the site, below the work directory, `staged/` keeps every staged file under its hash, so that the next run finds it.
The run's own `model/` is made of copies, because programs may write into the folder of their model.
"""

from __future__ import annotations

import asyncio
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xmml_planner import Plan

from xmml.late_dataclass import dataclass
from xmml_executors.outcome import SiteError

#: What of a model's folder is never staged: results, version control, caches.
LEFT_OUT = frozenset({"runs", "__pycache__", ".git", ".snakemake", ".pytest_cache", ".mypy_cache", ".venv"})
#: The folder of staged files, in the work directory of a site.
STORE = "staged"


@dataclass(frozen=True)
class FileToStage:
    """A file to be at a site.

    Attributes:
        path: relative to the folder of the model.
        mode: whether it can be executed, as the permission bits.
    """

    local: Path
    path: str
    sha256: str
    mode: int
    size: int


def files_of(folder: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """Return the files that patterns name: files, folders with all that is in them, globs; relative to `folder`.

    Raises:
        SiteError: a pattern matches nothing.
    """
    seen: set[Path] = set()
    for pattern in patterns:
        found = sorted(glob.glob(str(folder / pattern), recursive=True))
        if not found:
            raise SiteError(f'no file matches "{pattern}" in {folder}, which a site needs')
        for each in found:
            for path in below(Path(each)):
                if path not in seen:
                    seen.add(path)
                    yield path


def below(path: Path) -> Iterator[Path]:
    """Return a file, or the files below a folder, without what is never staged."""
    if not path.is_dir():
        yield path
        return
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not _is_run(Path(parent) / name))
        for name in sorted(names):
            if (file := Path(parent) / name).is_file():
                yield file


def _is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, which is no part of a model, and may be growing just now."""
    return all((folder / name).is_file() for name in ("plan.json", "events.jsonl"))


def needed(plan: Plan, sites: Collection[str]) -> tuple[str, ...]:
    """Return the patterns of the files that sites need; the whole folder of the model if the plan does not say."""
    named = tuple(dict.fromkeys(each.path for each in plan.stage if each.site in sites))
    return named or (".",)


def described(folder: Path, files: Iterable[Path]) -> list[FileToStage]:
    """Return the files with their hashes.

    Raises:
        SiteError: one cannot be read, or lies outside of the model's folder.
    """
    found = []
    for file in files:
        try:
            with open(file, "rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            status = file.stat()
            path = str(file.relative_to(folder))
        except OSError as error:
            raise SiteError(f"{file} cannot be read: {error.strerror}") from None
        except ValueError:
            raise SiteError(f"{file} lies outside of the model's folder {folder} and cannot be staged") from None
        found.append(FileToStage(file, path, digest, 0o755 if status.st_mode & 0o100 else 0o644, status.st_size))
    return found


async def stage(transport: Any, work: str, run: str, agent: str, files: Iterable[FileToStage]) -> Mapping[str, int]:
    """Bring files to a site and lay them out in the run's folder.

    Args:
        work: the work directory there, absolute.
        run: the folder of the run there.
        agent: the command of the agent.

    Returns:
        How many files and bytes there are, and how many of them had to be sent.

    Raises:
        TransportError: the site cannot be reached or written.
        SiteError: something came out wrong there.
    """
    wanted = list(files)
    store = f"{work}/{STORE}"
    order = {"store": store, "files": [[each.path, each.sha256, each.mode] for each in wanted]}
    answer = await lay_out(transport, agent, order)
    missing = set(answer["missing"])
    to_send = {each.sha256: each for each in wanted if each.sha256 in missing}
    if to_send:
        changed = await _sent(transport, run, agent, order, to_send.values())
        if changed:
            with tempfile.TemporaryDirectory(prefix="xmml-stage-") as folder:
                fixed = {
                    each.path: _fixed(each, Path(folder, str(number)))
                    for number, each in enumerate(wanted)
                    if each.sha256 in changed
                }
                wanted = [fixed.get(each.path, each) for each in wanted]
                order["files"] = [[each.path, each.sha256, each.mode] for each in wanted]
                lost = await _sent(transport, run, agent, order, fixed.values())
            if lost:
                raise SiteError(f"site {transport.site}: {len(lost)} staged files did not arrive whole")
    return {
        "files": len(wanted),
        "bytes": sum(each.size for each in wanted),
        "sent_files": len(to_send),
        "sent_bytes": sum(each.size for each in to_send.values()),
    }


async def _sent(
    transport: Any, run: str, agent: str, order: Mapping[str, Any], files: Iterable[FileToStage]
) -> set[str]:
    """Send files and lay everything out; return the hashes of those that are still missing there."""
    await transport.put_many([(each.local, f"{run}/incoming/{each.sha256}") for each in files])
    return set((await lay_out(transport, agent, order))["missing"])


def _fixed(file: FileToStage, copy: Path) -> FileToStage:
    """Return a file as it is now, copied so that it stays so: the log of a run in the folder of its model grows while
    it is sent.

    Raises:
        SiteError: it cannot be read.
    """
    try:
        shutil.copyfile(file.local, copy)
        with open(copy, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise SiteError(f"{file.local} cannot be read: {error.strerror}") from None
    return replace(file, local=copy, sha256=digest, size=copy.stat().st_size)


async def lay_out(transport: Any, agent: str, order: Mapping[str, Any]) -> dict[str, Any]:
    """Have the agent make the model's folder from the store; it answers which files are missing."""
    done = await transport.run(f"{agent} stage", stdin=json.dumps(order), timeout_s=600.0)
    if done.status != 0:
        raise SiteError(f"site {transport.site}: staging failed: {done.said}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def describe(folder: Path, patterns: Iterable[str]) -> list[FileToStage]:
    """As `described`, in a thread: hashing takes its time."""
    return await asyncio.to_thread(lambda: described(folder, files_of(folder, patterns)))
