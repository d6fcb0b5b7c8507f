"""Which files of a model a site needs (`xmml_sites.transfer.staging` brings them there)."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern
from xmml_planner import Plan
from xmml_planner.execution_plan import StagedFile
from xmml_planner.planning import is_below
from xmml_planner.staging import EVERYTHING
from xmml_sites.transfer.staging import FileToStage, file_to_stage

from xmml.files import FileUnreadable, read_bytes
from xmml.late_dataclass import dataclass
from xmml.patterns import Search
from xmml.reach import Reach
from xmml_executors.model_files import built_before, files_below
from xmml_executors.outcome import SiteError

#: Names, with the patterns of `.gitignore`, what no site needs of the folder of a model that it lies in.
IGNORE_FILE = ".xmmlignore"
#: The folder of the model, in that of a run at a site.
MODEL = "model"
#: A pattern has not more `**`.
MOST_FOLDERS_OF_ANY_DEPTH = 3
#: Of the regular expression of a pattern: what stands for `*`, and with what follows up to the next `*` of a name. The
#: first place where that fits is as good as any, since the next `*` stands for whatever comes before the rest.
_STARS = re.compile(r"(?:\[\^/\]\*)+")
_CLASS = r"(?!\[\^/\])\[\^?\]?(?:\\.|[^\]\\])*\]"
_STARS_UP_TO_STARS = re.compile(rf"(\[\^/\]\*)((?:\\.|\[\^/\](?!\*)|{_CLASS}|[^/()\[\]\\|])+)(?=\[\^/\]\*)", re.DOTALL)


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

    Of the whole folder, files that builds make are left out; a pattern that names a part of it brings them. Files that
    `.xmmlignore` in the folder or the exclusion names are left out, unless they are wanted by their own names.

    Args:
        built: the files that builds make, relative to the folder.

    Raises:
        SiteError: a pattern matches nothing, or cannot be read.
    """
    seen: set[Path] = set()
    ignored = _ignored(folder)
    for each in wanted:
        excluded = _patterns(each.exclude, "run:stage-exclude")
        has_own_name, left_out = not glob.has_magic(each.pattern), built if each.pattern == EVERYTHING else ()
        for path, is_matched in _matches(folder, each.pattern):
            inside = os.path.relpath(path, folder)
            is_unwanted = ignored.match_file(inside) or excluded.match_file(inside)
            is_left_out = inside in left_out or (is_unwanted and not (is_matched and has_own_name))
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
    return named or (Wanted(EVERYTHING),)


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


def built_files(plan: Plan, sites: Collection[str]) -> frozenset[str]:
    """Return the files of the model's folder that sites make themselves: the programs of the plan that have a build,
    and what builds of earlier runs have made here; none if nothing is built at these sites."""
    if not any(build.site in sites for build in plan.builds):
        return frozenset()
    names = {name for build in plan.builds for name in build.instances}
    programs = {instance.program for instance in plan.instances if instance.name in names and instance.program}
    inside = {os.path.relpath(program, plan.model_folder) for program in programs if os.path.isfile(program)}
    return built_before(Path(plan.model_folder)) | inside


def out_of_reach(plan: Plan, reach: Reach) -> Iterator[tuple[StagedFile, Path]]:
    """Yield what sites would get of the folder of the model although a link in it leads out of reach: for each
    `StagedFile` the first such file."""
    folder = Path(plan.model_folder)
    found: dict[tuple[Wanted, bool], Path | None] = {}
    for staged in plan.stage:
        wanted, built = Wanted(staged.path, staged.exclude), built_files(plan, {staged.site})
        if (wanted, bool(built)) not in found:
            with contextlib.suppress(SiteError):  # the launch tells of what is not there
                found[wanted, bool(built)] = _first_out_of_reach(matching_files(folder, [wanted], built), reach)
        if (file := found.get((wanted, bool(built)))) is not None:
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
            each = file_to_stage(file, str(file.relative_to(folder)))
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
        found.append(replace(each, mode=0o755 if each.mode & 0o100 else 0o644))
    return found


async def hash_files_in_thread(
    folder: Path, wanted: Iterable[Wanted], built: Collection[str] = ()
) -> list[FileToStage]:
    """Return the files that are wanted with their hashes, computed in a thread: `matching_files`, `hash_files`."""
    return await asyncio.to_thread(lambda: hash_files(folder, matching_files(folder, wanted, built)))
