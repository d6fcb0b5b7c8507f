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
from xmml_executors.model_files import built_before, files_below
from xmml_executors.outcome import SiteError

#: The folder of staged files, in the work directory of a site.
STORE = "staged"


@dataclass(frozen=True)
class FileToStage:
    """A file to be at a site.

    Attributes:
        path: relative to the folder of the model.
        mode: whether it can be executed, as the permission bits.
        written: when it was last written [ns since 1970]; the copy gets the same time, which `make` compares.
    """

    local: Path
    path: str
    sha256: str
    mode: int
    size: int
    written: int


def files_of(folder: Path, patterns: Iterable[str], built: Collection[str] = ()) -> Iterator[Path]:
    """Return the files that patterns name: files, folders with all that is in them, globs; relative to `folder`.

    Args:
        built: the files that builds make. Of those only the ones that a pattern names themselves are returned.

    Raises:
        SiteError: a pattern matches nothing.
    """
    seen: set[Path] = set()
    for pattern in patterns:
        found = sorted(glob.glob(str(folder / pattern), recursive=True))
        if not found:
            raise SiteError(f'no file matches "{pattern}" in {folder}, which a site needs')
        for each in found:
            for path in files_below(Path(each)):
                is_named = path == Path(each)
                if path not in seen and (is_named or str(path.relative_to(folder)) not in built):
                    seen.add(path)
                    yield path


def needed(plan: Plan, sites: Collection[str]) -> tuple[str, ...]:
    """Return the patterns of the files that sites need; the whole folder of the model if the plan does not say."""
    named = tuple(dict.fromkeys(each.path for each in plan.stage if each.site in sites))
    return named or (".",)


def programs_at(plan: Plan, sites: Collection[str]) -> list[str]:
    """Return the programs of the model that run at sites, by their paths relative to the model's folder."""
    programs = {each.program for each in plan.instances if each.site in sites and each.program}
    paths = {os.path.relpath(program, plan.model_folder) for program in programs}
    return sorted(path for path in paths if not path.startswith(os.pardir))


def built(plan: Plan) -> frozenset[str]:
    """Return the files that builds make in the folder of the model: the programs of the plan that have a build, and
    what builds of earlier runs have made here."""
    names = {name for build in plan.builds for name in build.instances}
    programs = {instance.program for instance in plan.instances if instance.name in names and instance.program}
    inside = {os.path.relpath(program, plan.model_folder) for program in programs if os.path.isfile(program)}
    return built_before(Path(plan.model_folder)) | inside


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
        mode = 0o755 if status.st_mode & 0o100 else 0o644
        found.append(FileToStage(file, path, digest, mode, status.st_size, status.st_mtime_ns))
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
    order = {"store": store, "files": [[each.path, each.sha256, each.mode, each.written] for each in wanted]}
    answer = await ask_agent(transport, agent, "stage", order)
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
                order["files"] = [[each.path, each.sha256, each.mode, each.written] for each in wanted]
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
    return set((await ask_agent(transport, agent, "stage", order))["missing"])


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


async def ask_agent(transport: Any, agent: str, word: str, order: Mapping[str, Any]) -> dict[str, Any]:
    """Have the agent on the login node carry out an order on the files of the run, and return its answer.

    Args:
        word: `stage`: make the model's folder from the store, and say which files are missing; `hash`: say the hashes
            of programs.

    Raises:
        TransportError: the site cannot be reached.
        SiteError: the agent failed.
    """
    done = await transport.run(f"{agent} {word}", stdin=json.dumps(order), timeout_s=600.0)
    if done.status != 0:
        raise SiteError(f"site {transport.site}: staging failed: {done.said}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def describe(folder: Path, patterns: Iterable[str], built: Collection[str] = ()) -> list[FileToStage]:
    """Return the files that patterns name with their hashes, computed in a thread: see `files_of` and `described`."""
    return await asyncio.to_thread(lambda: described(folder, files_of(folder, patterns, built)))
