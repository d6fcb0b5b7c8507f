"""Which files a site needs, and bringing there those that it has not got.

At the site, below the work directory, `staged/` keeps every staged file under its hash, so that the next run finds it.
The run's own `model/` is made of copies, because programs may write into the folder of their model. Of a file of which
the site has an earlier version, only the ranges travel that have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern
from xmml_planner import Plan
from xmml_planner.execution_plan import StagedFile
from xmml_planner.planning import is_below
from xmml_sites.ssh import Transport
from xmml_sites.transfer.site_files import FileCommand, site_files

from xmml.files import FileUnreadable, open_file, read_bytes
from xmml.late_dataclass import dataclass
from xmml.patterns import Search
from xmml.reach import Reach
from xmml_executors.launch.site.timeouts import lease_s
from xmml_executors.model_files import built_before, files_below
from xmml_executors.outcome import SiteError
from xmml_executors.typed_json import check_type

#: Names, with the patterns of `.gitignore`, what no site needs of the folder of a model that it lies in.
IGNORE_FILE = ".xmmlignore"
#: The folder of staged files, in the work directory of a site.
STORE = "staged"
#: A pattern has not more `**`.
MOST_FOLDERS_OF_ANY_DEPTH = 3
#: Of the regular expression of a pattern: what stands for `*`, and with what follows up to the next `*` of a name. The
#: first place where that fits is as good as any, since the next `*` stands for whatever comes before the rest.
_STARS = re.compile(r"(?:\[\^/\]\*)+")
_CLASS = r"(?!\[\^/\])\[\^?\]?(?:\\.|[^\]\\])*\]"
_STARS_UP_TO_STARS = re.compile(rf"(\[\^/\]\*)((?:\\.|\[\^/\](?!\*)|{_CLASS}|[^/()\[\]\\|])+)(?=\[\^/\]\*)", re.DOTALL)
#: The slowest rate at which files are waited for [bytes/s], and the time that they may take in any case [s].
SLOWEST = 20_000
LEAST_TIME_S = 600.0
#: What a file may take besides, for some twenty operations of a file system that may be slow [s].
TIME_PER_FILE_S = 0.2


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


@dataclass(frozen=True)
class Wanted:
    """What a site needs of the folder of a model.

    Attributes:
        pattern: file, folder or glob, relative to the folder.
        exclude: patterns, as in `.gitignore`, of files in it that are not needed.
    """

    pattern: str
    exclude: tuple[str, ...] = ()


def matching_files(folder: Path, wanted: Iterable[Wanted], built: Collection[str] = ()) -> Iterator[Path]:
    """Return the files of a model's folder that are wanted: files, folders with all that is in them, globs.

    Files that builds make are left out, unless a pattern matches them themselves; files that `.xmmlignore` in the
    folder or the exclusion names, unless they are wanted by their own names.

    Args:
        built: the files that builds make, relative to the folder.

    Raises:
        SiteError: a pattern matches nothing, or cannot be read.
    """
    seen: set[Path] = set()
    ignored = _ignored(folder)
    for each in wanted:
        excluded = _patterns(each.exclude, "run:stage-exclude")
        has_own_name = not glob.has_magic(each.pattern)
        for path, is_matched in _matches(folder, each.pattern):
            inside = os.path.relpath(path, folder)
            is_unwanted = ignored.match_file(inside) or excluded.match_file(inside)
            is_left_out = (inside in built and not is_matched) or (is_unwanted and not (is_matched and has_own_name))
            if path not in seen and not is_left_out:
                seen.add(path)
                yield path


def _matches(folder: Path, pattern: str) -> Iterator[tuple[Path, bool]]:
    """Yield the files that a pattern names, and whether it matches them themselves, not only a folder of theirs."""
    found = Search().matches(str(folder), pattern)
    if not found:
        raise SiteError(f'no file matches "{pattern}" in {folder}, which a site needs')
    for each in found:
        for path in files_below(Path(each)):
            yield path, path == Path(each)


def _ignored(folder: Path) -> GitIgnoreSpec:
    """Return what the file `.xmmlignore` in the folder of a model says; nothing if there is none."""
    file = folder / IGNORE_FILE
    try:
        lines = read_bytes(file).decode().splitlines() if os.path.lexists(file) else []
    except (FileUnreadable, ValueError) as error:
        raise SiteError(f"{file} cannot be read: {error}") from None
    return _patterns(lines, str(file))


def _patterns(lines: Iterable[str], source: str) -> GitIgnoreSpec:
    try:
        # No other backend knows what keeps a pattern from being tried without end.
        return GitIgnoreSpec([_pattern(line) for line in lines if line], backend="simple")
    except ValueError as error:
        raise SiteError(f"{source}: a pattern cannot be read: {error}") from None


def _pattern(line: str) -> GitIgnoreSpecPattern:
    """Return a pattern of `.gitignore`. It may come from anybody, so whether a name matches is known after a time that
    does not grow with a power of the number of its `*`.

    Raises:
        ValueError: it is none, or has too many `**`.
    """
    pattern = GitIgnoreSpecPattern(line)
    if line.split("/").count("**") > MOST_FOLDERS_OF_ANY_DEPTH:
        raise ValueError(f"{line!r} has more than {MOST_FOLDERS_OF_ANY_DEPTH} **")
    if pattern.regex is not None:
        pattern.regex = re.compile(_STARS_UP_TO_STARS.sub(r"(?>\1?\2)", _STARS.sub("[^/]*", pattern.regex.pattern)))
    return pattern


def patterns_for(plan: Plan, sites: Collection[str]) -> tuple[Wanted, ...]:
    """Return what sites need of the folder of the model; all of it if the plan does not say."""
    named = tuple(dict.fromkeys(Wanted(each.path, each.exclude) for each in plan.stage if each.site in sites))
    return named or (Wanted("."),)


def programs_at(plan: Plan, sites: Collection[str]) -> list[str]:
    """Return the programs of the model that run at sites, by their paths relative to the model's folder."""
    programs = {each.program for each in plan.instances if each.site in sites and each.program}
    paths = {os.path.relpath(program, plan.model_folder) for program in programs}
    return sorted(path for path in paths if not path.startswith(os.pardir))


def images_at(plan: Plan, sites: Collection[str]) -> list[str]:
    """Return the images that programs at sites run in, by their paths relative to the model's folder, as far as they
    are there."""
    images = {each.image for each in plan.instances if each.site in sites and each.image}
    return sorted(os.path.relpath(image, plan.model_folder) for image in images if is_below(image, plan.model_folder))


def built_files(plan: Plan) -> frozenset[str]:
    """Return the files that builds make in the folder of the model: the programs of the plan that have a build, and
    what builds of earlier runs have made here."""
    names = {name for build in plan.builds for name in build.instances}
    programs = {instance.program for instance in plan.instances if instance.name in names and instance.program}
    inside = {os.path.relpath(program, plan.model_folder) for program in programs if os.path.isfile(program)}
    return built_before(Path(plan.model_folder)) | inside


def out_of_reach(plan: Plan, reach: Reach) -> Iterator[tuple[StagedFile, Path]]:
    """Yield what sites would get of the folder of the model although a link in it leads out of reach: for each
    `StagedFile` the first such file."""
    folder, built = Path(plan.model_folder), built_files(plan)
    found: dict[Wanted, Path | None] = {}
    for staged in plan.stage:
        wanted = Wanted(staged.path, staged.exclude)
        if wanted not in found:
            with contextlib.suppress(SiteError):  # the launch tells of what is not there
                found[wanted] = _first_out_of_reach(matching_files(folder, [wanted], built), reach)
        if (file := found.get(wanted)) is not None:
            yield staged, file


def _first_out_of_reach(files: Iterable[Path], reach: Reach) -> Path | None:
    in_reach: dict[Path, bool] = {}
    for file in files:
        if file.parent not in in_reach:
            in_reach[file.parent] = reach.holds(str(file.parent))
        if not in_reach[file.parent] or (file.is_symlink() and not reach.holds(str(file))):
            return file
    return None


def hash_files(folder: Path, files: Iterable[Path]) -> list[FileToStage]:
    """Return the files with their hashes, as far as they are still there.

    Raises:
        SiteError: one cannot be read, or lies outside of the model's folder.
    """
    found = []
    for file in files:
        try:
            with open_file(file) as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            status = file.stat()
            path = str(file.relative_to(folder))
        except FileUnreadable as error:
            if not os.path.lexists(file):
                continue  # it was removed after it had been found
            raise SiteError(f"{file} cannot be read: {error}") from None
        except FileNotFoundError:
            continue  # as above
        except OSError as error:
            raise SiteError(f"{file} cannot be read: {error.strerror}") from None
        except ValueError:
            raise SiteError(f"{file} lies outside of the model's folder {folder} and cannot be staged") from None
        mode = 0o755 if status.st_mode & 0o100 else 0o644
        found.append(FileToStage(file, path, digest, mode, status.st_size, status.st_mtime_ns))
    return found


async def stage(
    transport: Transport, work: str, command: str, files: Iterable[FileToStage], images: Collection[str] = ()
) -> Mapping[str, Any]:
    """Bring files to a site and lay them out in the run's folder.

    Args:
        work: the work directory there, absolute.
        command: that serves the run there (`mto site`).
        images: paths of files that no program writes to: they are not copied from the store.

    Returns:
        How many files and bytes there are, how many of them had to be sent, and the hash of each file, by its path in
        the folder of the model.

    Raises:
        TransportError: the site cannot be reached or written.
        SiteError: something came out wrong there.
    """
    wanted = list(files)
    order = {"store": f"{work}/{STORE}", "images": list(images)}
    size = sum(each.size for each in wanted)
    sent_files = sent_bytes = 0
    limit_s = LEAST_TIME_S + TIME_PER_FILE_S * len(wanted) + 2 * size / SLOWEST
    async with site_files(
        transport,
        command,
        "stage",
        "staging",
        timeout_s=limit_s,
        lease_s=lease_s(),
    ) as there:
        missing = await _lay_out(there, order, wanted, transport.site)
        if missing:
            sent_files, sent_bytes = len(missing), await _send(there, missing)
            changed = {each.sha256 for each in await _lay_out(there, order, wanted, transport.site)}
            with tempfile.TemporaryDirectory(prefix="xmml-stage-") as folder:
                fixed = {
                    each.path: _fixed(each, Path(folder, str(number)))
                    for number, each in enumerate(wanted)
                    if each.sha256 in changed
                }
                wanted = [fixed.get(each.path, each) for each in wanted]
                if fixed:
                    sent_bytes += await _send(there, list(fixed.values()))
                    lost = await _lay_out(there, order, wanted, transport.site)
                    if lost:
                        raise SiteError(f"site {transport.site}: {len(lost)} staged files did not arrive whole")
    hashes = {each.path: each.sha256 for each in wanted}
    return {
        "files": len(wanted),
        "bytes": size,
        "sent_files": sent_files,
        "sent_bytes": sent_bytes,
        "sha256": hashes,
    }


async def _lay_out(
    there: FileCommand, order: Mapping[str, Any], files: Sequence[FileToStage], site: str
) -> list[FileToStage]:
    """Have files laid out; return those, each content once, that the site has not got, and now waits for."""
    rows = [[each.path, each.sha256, each.mode, each.written] for each in files]
    answer = await there.order({**order, "files": rows})
    missing = set(check_type(Sequence[str], answer.get("missing"), f"site {site}", "the list of missing files"))
    return list({each.sha256: each for each in files if each.sha256 in missing}.values())


async def _send(there: FileCommand, files: Sequence[FileToStage]) -> int:
    """Send files under their hashes; return how many bytes that was. Of one of which the site has an earlier version,
    what has changed is sent. One that changes meanwhile is found to be missing later."""
    size = sum(each.size for each in files)
    report = await there.give([each.local for each in files], [each.sha256 for each in files], size)
    return report.sent_b


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


async def hash_files_in_thread(
    folder: Path, wanted: Iterable[Wanted], built: Collection[str] = ()
) -> list[FileToStage]:
    """Return the files that are wanted with their hashes, computed in a thread: `matching_files`, `hash_files`."""
    return await asyncio.to_thread(lambda: hash_files(folder, matching_files(folder, wanted, built)))
