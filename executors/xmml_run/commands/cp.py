"""`xmml cp`: files and folders to and from another machine."""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from xmml_executors.outcome import ExitStatus
from xmml_sites.transfer.file_location import FileLocation, read_location
from xmml_sites.transfer.progress import NoProgress, Progress, Report
from xmml_sites.transfer.settings import Settings, TransferMethod

from xmml_run.arguments import words
from xmml_run.terminal_text import unguarded

DESCRIPTION = """Copy files and folders to or from a host that ssh gets to.

What stands at the destination already is not sent again: an interrupted copy goes on where it stopped, and of a
file that has changed only the parts that differ travel. Every part is checked by a checksum. Modes, times and
symbolic links are kept."""

_EPILOG = """examples:
  xmml cp results host:archive/                 the folder results below archive, which is made if need be
  xmml cp host:run/grid.h5 .
  xmml cp me@host:'a b' 'c d'

exit status: 0 everything stands at the destination; 2 wrong usage; 5 not everything could be copied; 130 interrupted"""

_MOST_FAILURES = 20


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "places",
        metavar="PLACE",
        nargs="*",
        help="one or more sources at one place, then the destination: a folder, or the name of the copy; "
        "each PATH or [USER@]HOST:PATH",
    )
    parser.add_argument(
        "--compare", action="store_true", help="compare by checksums also what has the same size and time"
    )
    parser.add_argument(
        "--streams",
        metavar="N",
        type=_streams,
        default=None,
        help="TCP streams, 1 to 128 (default: auto, as many as pay)",
    )
    parser.add_argument(
        "--way",
        choices=["auto", *TransferMethod],
        default="auto",
        help="how the bytes travel: this end dials the host (dial), the host dials this end (dialled), or through the "
        "ssh connection (ssh); auto begins through ssh and goes over to the first of the others that opens",
    )
    parser.add_argument(
        "--port",
        metavar="N[-M]",
        type=_ports,
        default=(0, 0),
        help="where whoever listens may do so, for firewalls (default: any)",
    )
    parser.add_argument("--address", help="where the listening end is dialled (default: the address that ssh has used)")
    parser.add_argument(
        "--ssh",
        metavar="COMMAND",
        type=words,
        help='how to get to the host, such as "ssh -F config" (default: ssh, with -F if XMML_SSH_CONFIG is set)',
    )
    parser.add_argument("--remote", metavar="PATH", default="xmml", help="where xmml is at the host (default: xmml)")
    parser.add_argument(
        "--listing-memory",
        metavar="MIB",
        type=_mebibytes,
        default=Settings.listing_memory_b,
        help="memory here that the list of the files at the host, and of those that fail, may take, so that a host "
        "that was broken into cannot fill it: some 200 bytes and the name for each (default: 2048)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument("-q", "--quiet", action="store_true", help="only errors")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)  # the remote end, started over ssh


def _streams(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 128:
        raise argparse.ArgumentTypeError(f'"{text}" is neither a number from 1 to 128 nor auto')
    return int(text)


def _ports(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise argparse.ArgumentTypeError(f'"{text}" is neither a port nor two with a dash between them')
    ports = int(first), int(last) if dash else int(first)
    if not 1 <= ports[0] <= ports[1] <= 65535:
        raise argparse.ArgumentTypeError(f'"{text}": ports go from 1 to 65535, the smaller one first')
    return ports


def _mebibytes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 1 << 40:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of MiB')
    return int(text) << 20


def run(options: Namespace) -> int:
    """Copy; say what came of it."""
    if options.serve:
        from xmml_sites.transfer.server import serve

        return serve(sys.stdin.buffer, sys.stdout.buffer)
    if len(options.places) < 2:
        print("xmml cp: a source and a destination are needed: xmml cp results host:archive/", file=sys.stderr)
        return ExitStatus.USAGE
    try:
        *sources, destination = [read_location(text) for text in options.places]
    except ValueError as error:
        print(f"xmml cp: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    return _copy(options, sources, destination)


def _copy(options: Namespace, sources: list[FileLocation], destination: FileLocation) -> int:
    from xmml_sites.ssh.destination import ssh_command
    from xmml_sites.transfer.copy import copy
    from xmml_sites.transfer.failure import CopyFailed, CopyUsage

    settings = Settings(
        ways=tuple(TransferMethod) if options.way == "auto" else (TransferMethod(options.way),),
        streams=options.streams,
        ports=options.port,
        address=options.address,
        compare=options.compare,
        listing_memory_b=options.listing_memory,
        ssh=options.ssh or ssh_command(),
        remote=options.remote,
    )
    shown = _shown(options)
    try:
        report = copy(sources, destination, settings, shown)
    except CopyUsage as error:
        print(f"xmml cp: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    except CopyFailed as error:
        shown.close()
        print(f"xmml cp: {error}", file=sys.stderr)
        return ExitStatus.SITE_FAILED
    finally:
        shown.close()
    return _told(options, report)


def _told(options: Namespace, report: Report) -> int:
    for path, reason in report.failed[:_MOST_FAILURES]:
        print(f"xmml cp: {path}: {reason}", file=sys.stderr)
    if len(report.failed) > _MOST_FAILURES:
        print(f"xmml cp: and {len(report.failed) - _MOST_FAILURES} more", file=sys.stderr)
    if options.json:
        import dataclasses
        import json

        json.dump(dataclasses.asdict(report), sys.stdout)  # piece by piece: a host that lies makes it long
        print()
    elif not options.quiet:
        from xmml_run.amounts import duration, size

        files = "1 file" if report.files == 1 else f"{report.files} files"
        print(
            f"{files}, {size(report.size_b)}; {size(report.sent_b)} sent in {duration(report.seconds)}, {report.way}, "
            f"{report.streams} stream{'' if report.streams == 1 else 's'}",
            file=sys.stderr,
        )
    return ExitStatus.SITE_FAILED if report.failed else ExitStatus.DONE


class _Bar(Progress):
    """A bar on a terminal."""

    def __init__(self) -> None:
        self._bar: Any = None

    def begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(file=unguarded(sys.stderr)),
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def way(self, text: str) -> None:
        self._bar.update(self._task, description=text)

    def total(self, files: int, size_b: int) -> None:
        self._bar.update(self._task, total=size_b)

    def advanced(self, size_b: int) -> None:
        self._bar.update(self._task, advance=size_b)

    def compared(self) -> None:
        """Not shown."""

    def close(self) -> None:
        """Takes the bar away, if it has begun."""
        if self._bar is not None:
            self._bar.stop()


class _None(NoProgress):
    """Nothing to be seen."""

    def close(self) -> None:
        """Nothing was open."""


def _shown(options: Namespace) -> _Bar | _None:
    return _Bar() if sys.stderr.isatty() and not options.quiet else _None()
