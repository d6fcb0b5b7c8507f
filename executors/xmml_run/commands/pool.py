"""`xmml pool`: look into archives of objects, and take objects out of them."""

from __future__ import annotations

import csv
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from itertools import islice
from typing import TYPE_CHECKING, Any

from xmml_executors.outcome import ExitStatus

from xmml_run.object_text import object_line, plain_attributes
from xmml_run.terminal_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xmml_native.archive import Archive, ArchivedObject

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
    listing.add_argument("--most", metavar="N", type=_count, help="no more than so many")
    listing.add_argument("--json", action="store_true", help="an object of JSON a line, with all attributes")
    export = actions.add_parser("export", help="write objects as files: arrays as .npy, the rest as JSON or bytes")
    export.add_argument("archive", metavar="ARCHIVE")
    export.add_argument("folder", metavar="FOLDER", help="a new folder; objects.csv there says what is in which file")
    export.add_argument("--select", metavar="SELECTOR", default="", help=SELECTOR)
    verify = actions.add_parser(
        "verify", help="compare each payload with the checksum that was made when it was written"
    )
    verify.add_argument("archive", metavar="ARCHIVE")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def run(options: Namespace) -> int:
    """List, export or verify objects."""
    from xmml_native.archive import Archive, ArchiveError

    try:
        with Archive(options.archive) as archive:
            return {"ls": _list, "export": _export, "verify": _verify}[options.action](archive, options)
    except ArchiveError as error:
        print(f"xmml pool {options.action}: {shown(str(error))}", file=sys.stderr)
        return ExitStatus.USAGE


def _chosen(archive: Archive, options: Namespace) -> Iterator[ArchivedObject]:
    from xmml_native.archive import ArchiveError

    try:
        return archive.select(options.select)
    except ValueError as error:
        problem, first, end = error.args
        marked = f"{options.select}\n{' ' * first}{'^' * max(1, end - first)}"
        known = archive.attributes or "none are declared"
        raise ArchiveError(f"this is no selector of its objects: {problem}\n{marked}\nattributes: {known}") from None


def _list(archive: Archive, options: Namespace) -> int:
    found = 0
    for each in islice(_chosen(archive, options), options.most):
        found += 1
        if options.json:
            print(json.dumps({"number": each.number, **plain_attributes(each.attributes)}))
        else:
            print(shown(f"{each.number:>8}  {object_line(each.attributes)}"))
    if not options.json:
        print(f"{found} of {len(archive)} objects")
    return ExitStatus.DONE


def _export(archive: Archive, options: Namespace) -> int:
    from xmml_native.archive import ArchiveError

    chosen = _chosen(archive, options)
    try:
        os.makedirs(options.folder)
        names = ["sys.file", *dict.fromkeys(name for each in archive for name in each.attributes)]
        with open(os.path.join(options.folder, "objects.csv"), "w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, names)
            table.writeheader()
            count = 0
            for each in chosen:
                table.writerow({"sys.file": _written(each, options.folder), **plain_attributes(each.attributes)})
                count += 1
    except OSError as error:
        raise ArchiveError(f"{error.filename or options.folder}: {error.strerror or error}") from None
    print(f"{count} of {len(archive)} objects are in {shown(options.folder)}")
    return ExitStatus.DONE


def _written(each: ArchivedObject, folder: str) -> str:
    """Write a payload; return the name of its file."""
    data = each.data
    stem = f"{each.number:08}"
    if isinstance(data, bytes | str):
        name, content = (f"{stem}.bin", data) if isinstance(data, bytes) else (f"{stem}.txt", data.encode())
    elif hasattr(data, "dtype"):
        from xmml_native.terminals import npy_bytes

        name, content = f"{stem}.npy", npy_bytes(data)
    else:
        name, content = f"{stem}.json", json.dumps(data, default=_nested).encode()
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)
    return name


def _nested(value: Any) -> Any:
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value.tolist() if hasattr(value, "tolist") else value.hex()


def _verify(archive: Archive, options: Namespace) -> int:
    problems = 0
    for problem in archive.verify():
        problems += 1
        print(shown(problem), file=sys.stderr)
    print(f"{len(archive)} objects, {f'{problems} of them damaged' if problems else 'all as written'}")
    return ExitStatus.MODEL_ERROR if problems else ExitStatus.DONE
