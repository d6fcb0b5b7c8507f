"""Results of a job, fetched from its site: the site lists what there is, and the files come that were asked for.

A site that somebody has broken into lists what it likes, so each path is checked before anything is made here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from xmml.late_dataclass import dataclass
from xmml_sites.ssh import Transport, TransportError
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.site_files import LONGEST_S, site_files

#: Error messages show at most so much of a path.
SHOWN_CHARACTERS = 200


class ResultsRefused(TransportError):
    """A site lists a file that nobody asked for, or cannot give one that it lists."""


@dataclass(frozen=True)
class Listing:
    """The results that lie at a site.

    Attributes:
        found: the paths of files, relative to the folder of the run or job.
        bytes: of all of them together.
        too_large: folders with more than the order lets pass, relative to the same.
        not_there: folders, each with a result that it does not have.
        links: how many symbolic links were left out.
        first_links: some of them.
    """

    found: Sequence[str]
    bytes: int
    too_large: Sequence[str] = ()
    not_there: Sequence[tuple[str, str]] = ()
    links: int = 0
    first_links: Sequence[str] = ()


def is_path_below(path: str) -> bool:
    """Return whether a path that a site names can be that of a file below a folder of this machine.

    It is relative, leads nowhere else, is written in the one form that all compare with, and the file system can hold
    it: it has no NUL, and each of its characters stands for bytes.
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    is_plain = bool(path) and "\0" not in path and os.path.normpath(path) == path
    return is_plain and not path.startswith("/") and path.split("/")[0] not in (".", "..")


def is_in(path: str, names: Collection[str]) -> bool:
    """Return whether a path has one of these names or lies in a folder of one."""
    return path in names or any(path.startswith(f"{name}/") for name in names)


def read_listing(answer: Mapping[str, Any]) -> Listing:
    """Return the listing that the answer of a site says.

    Raises:
        Malformed: the answer has other members, or members of other types.
    """
    try:
        listing = Listing(**answer)
        not_there = [(folder, name) for folder, name in listing.not_there]
    except (TypeError, ValueError):
        raise Malformed("the answer to an order is no list of results") from None
    texts = (listing.found, listing.too_large, listing.first_links, *not_there)
    numbers = (listing.bytes, listing.links)
    is_right = all(isinstance(each, (list, tuple)) for each in texts) and all(
        isinstance(text, str) for each in texts for text in each
    )
    if not is_right or any(type(number) is not int or number < 0 for number in numbers):
        raise Malformed("the answer to an order is no list of results")
    return Listing(listing.found, listing.bytes, listing.too_large, not_there, listing.links, listing.first_links)


async def fetch_listed(
    transport: Transport,
    command: str,
    doing: str,
    order: Mapping[str, Any],
    base: Path,
    *,
    is_wanted: Callable[[str], bool],
    make_folder: Callable[[str], None],
    lease_s: float,
    on_piece: Callable[[], None],
    on_begin: Callable[[], None] | None = None,
    on_listing: Callable[[Listing], None] | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Listing:
    """Have a site list results and copy them here; return the listing.

    Args:
        transport: the way to the site.
        command: that serves a run or job there (`mto site`).
        doing: what this is, for messages.
        order: which files and folders are results (`native/site/src/results.rs`).
        base: the folder here that the paths are relative to.
        is_wanted: whether a path was asked for.
        make_folder: is called with each folder, relative to `base`, before files arrive in it.
        lease_s: the command ends when it has not heard of us for so long.
        on_piece: is called whenever something comes.
        on_begin: is called when the command runs at the site: before, all ways there may have been in use.
        on_listing: is called with what will come.
        on_bytes: is called with the number of bytes that are new here.

    Raises:
        ResultsRefused: the site lists a file that is not wanted, or a file does not come.
        TransportError: the site cannot be reached, or does not answer sensibly.
    """
    async with site_files(
        transport, command, "results", doing, timeout_s=LONGEST_S, lease_s=lease_s, on_piece=on_piece
    ) as there:
        if on_begin is not None:
            on_begin()
        listing = read_listing(await there.order(order))
        for path in listing.found:
            if not (is_path_below(path) and is_wanted(path)):
                raise ResultsRefused(transport.site, f"it lists a file that was not requested: {_shown(path)}")
        for folder in sorted({os.path.dirname(path) for path in listing.found}):
            make_folder(folder)
        if on_listing is not None:
            on_listing(listing)
        report = await there.take(base, listing.found, listing.bytes, on_bytes)
    if report.failed:
        (path, why), *others = report.failed
        more = f", and {len(others)} more files" if others else ""
        raise ResultsRefused(transport.site, f"{doing} failed: {path}: {why}{more}")
    return listing


def _shown(path: str) -> str:
    """Return a path that nobody vouches for as a message may show it."""
    text = repr(path)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
