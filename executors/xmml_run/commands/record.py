"""`xmml record`: keep what passes out ports of a run that goes on in an archive."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from xmml_executors.outcome import ExitStatus
from xmml_executors.taps import PORT

from xmml_run.errors import NotARun
from xmml_run.tapping import add_tap_options, join_as_tap
from xmml_run.terminal_text import shown

DESCRIPTION = (
    "Keep what passes out ports of a run that goes on in an archive, until the run ends or Ctrl-C. The run does not "
    "wait for that; what the disk is too slow for is lost. xmml pool and xmml.open_archive read the archive."
)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_tap_options(parser)
    parser.add_argument("-o", "--output", metavar="ARCHIVE", required=True, help="a folder, new or of an archive")


def run(options: Namespace) -> int:
    """Keep objects until the run ends."""
    from xmml_native import Instance
    from xmml_native.archive import ArchiveError, ArchiveWriter
    from xmml_native.errors import RunAborted
    from xmml_native.terminals import keep_all

    join_as_tap(options, "record")
    try:
        with ArchiveWriter(options.output) as archive, Instance() as me:
            try:
                count = keep_all(me, PORT, archive)
                print(f"xmml record: {count:,} objects are in {shown(options.output)}", file=sys.stderr)
            except RunAborted as error:
                print(f"xmml record: {shown(str(error))}", file=sys.stderr)
            except KeyboardInterrupt:
                print(f"xmml record: what has come so far is in {shown(options.output)}", file=sys.stderr)
    except (ArchiveError, OSError) as error:
        raise NotARun(f"{options.output}: {error}") from None
    return ExitStatus.DONE
