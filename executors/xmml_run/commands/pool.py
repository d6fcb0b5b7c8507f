"""`xmml pool`: look into archives of objects, and take objects out of them."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from xmml_executors.outcome import ExitStatus
from xmml_native.archives.plain import plain_attributes

from xmml_run.amounts import counted, size
from xmml_run.object_text import object_line
from xmml_run.terminal_text import shown

if TYPE_CHECKING:
    from xmml_native.archives.archive import Archive, ArchiveError, Selection

DESCRIPTION = (
    "Look into an archive, which a terminal of class archive has written, and take objects out of it. "
    "Objects are chosen by a selector, as by run:select in a model."
)

SELECTOR = "only those that this selector chooses, such as \"step %% 6 = 0 and param = 't'\""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("ls", help="list objects, with their attributes")
    listing.add_argument("archive", metavar="ARCHIVE")
    listing.add_argument("--select", metavar="SELECTOR", default="", help=SELECTOR)
    listing.add_argument("--most", metavar="N", type=_count, help="list at most N objects")
    listing.add_argument("--json", action="store_true", help="an object of JSON a line, with all attributes")
    export = actions.add_parser(
        "export",
        help="write objects as files",
        description="Write objects as one array, with attributes as dimensions and coordinates (.nc, .zarr, .npy); "
        "each by itself with its attributes (.h5); or each to a file (a folder: arrays as .npy, the rest as text, JSON "
        "or bytes; objects.csv says what is in which file).",
    )
    export.add_argument("archive", metavar="ARCHIVE")
    export.add_argument("--to", metavar="FILE", required=True, help=".nc, .zarr, .npy or .h5, or a folder: FOLDER/")
    export.add_argument("--select", metavar="SELECTOR", default="", help=SELECTOR)
    export.add_argument(
        "--dims",
        metavar="NAME,NAME",
        type=_names,
        help="attributes that become dimensions of the array; without them objects follow each other along one",
    )
    export.add_argument(
        "--which",
        choices=["only", "first", "last"],
        default="only",
        help="of objects that agree in all dimensions the first or the last counts; only (default): that is an error",
    )
    export.add_argument(
        "--fill",
        metavar="NUMBER",
        type=_number,
        help="the elements where no object is; without it NaN, for which whole numbers and truth values become float64",
    )
    export.add_argument(
        "--axes",
        metavar="NAME,NAME",
        type=_names,
        help="the axes of the payloads in .nc and .zarr (axis0, axis1, ...)",
    )
    export.add_argument("--name", metavar="NAME", default="data", help="the array in .nc and .zarr (data)")
    verify = actions.add_parser(
        "verify", help="compare each payload with the checksum that was made when it was written"
    )
    verify.add_argument("archive", metavar="ARCHIVE")
    compact = actions.add_parser(
        "compact",
        help="drop objects, and give back the room of what belongs to none",
        description="Drop objects of an archive, and give back the room of what belongs to none, such as what a writer "
        "that was killed had begun. All of it happens or nothing. Programs that read the archive go on.",
    )
    compact.add_argument("archive", metavar="ARCHIVE")
    chosen = compact.add_mutually_exclusive_group()
    chosen.add_argument("--select", metavar="SELECTOR", help="keep the objects that this selector chooses, drop others")
    chosen.add_argument("--drop", metavar="SELECTOR", help="drop the objects that this selector chooses")
    compact.add_argument(
        "--last-of",
        metavar="NAME,NAME",
        type=_names,
        default=[],
        help="of objects that agree in these attributes keep the last only",
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ArgumentTypeError(f'"{text}" has no name where one is needed; write for example step,member')
    return names


def _number(text: str) -> float | int:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ArgumentTypeError(f'"{text}" is no number')


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f'"{text}" is no number of objects')
    return int(text)


def run(options: Namespace) -> int:
    """List, export or verify objects, or compact their archive."""
    from xmml_native.archives.archive import Archive, ArchiveError

    try:
        if options.action == "compact":
            return _compact(options)
        with Archive(options.archive) as archive:
            return {"ls": _list, "export": _export, "verify": _verify}[options.action](archive, options)
    except ArchiveError as error:
        print(f"xmml pool {options.action}: {shown(str(error))}", file=sys.stderr)
        return ExitStatus.USAGE


def _chosen(archive: Archive, options: Namespace) -> Selection:
    try:
        return archive.select(options.select)
    except ValueError as error:
        raise _no_selector(error, options.select, archive) from None


def _no_selector(error: ValueError, selector: str, archive: Archive) -> ArchiveError:
    from xmml_native.archives.archive import ArchiveError

    problem, first, end = error.args
    marked = f"{selector}\n{' ' * first}{'^' * max(1, end - first)}"
    known = archive.attributes or "none are declared"
    return ArchiveError(f"this is no selector of its objects: {problem}\n{marked}\nattributes: {known}")


def _list(archive: Archive, options: Namespace) -> int:
    found = 0
    for each in islice(_chosen(archive, options), options.most):
        found += 1
        if options.json:
            print(json.dumps({"number": each.number, **plain_attributes(each.attributes)}))
        else:
            print(shown(f"{each.number:>8}  {object_line(each.attributes)}"))
    if not options.json:
        print(f"{found:,} of {counted(len(archive), 'object')}")
    return ExitStatus.DONE


def _export(archive: Archive, options: Namespace) -> int:
    from xmml_native.archives.exporters import Arrangement, write_objects

    arrangement = Arrangement(options.dims, options.which, options.fill, options.axes, options.name)
    count = write_objects(_chosen(archive, options), options.to, arrangement)
    print(f"{count:,} of {counted(len(archive), 'object')} {'is' if count == 1 else 'are'} in {shown(options.to)}")
    return ExitStatus.DONE


def _verify(archive: Archive, options: Namespace) -> int:
    found = Counter[str]()
    for problem in archive.problems():
        found[problem.kind] += 1
        print(shown(problem.text), file=sys.stderr)
    words = {"changed": "changed", "unreadable": "cannot be read"}
    said = ", ".join(f"{found[kind]:,} {word}" for kind, word in words.items() if found[kind])
    print(f"{counted(len(archive), 'object')}, {said or 'all as written'}")
    return ExitStatus.MODEL_ERROR if found else ExitStatus.DONE


def _compact(options: Namespace) -> int:
    from xmml_native.archives.archive import Archive
    from xmml_native.archives.compaction import compact_archive

    try:
        done = compact_archive(options.archive, select=options.select, drop=options.drop, last_of=options.last_of)
    except ValueError as error:
        with Archive(options.archive) as archive:
            raise _no_selector(error, options.select or options.drop, archive) from None
    print(
        f"{done.kept:,} of {counted(done.kept + done.dropped, 'object')} {'stays' if done.kept == 1 else 'stay'}; "
        f"the segments had {size(done.bytes_before)}, and have {size(done.bytes_after)}"
    )
    if done.waiting:
        print(
            f"{counted(done.waiting, 'segment')} will be removed by the next program that writes the archive, once "
            "its readers have closed it"
        )
    return ExitStatus.DONE
