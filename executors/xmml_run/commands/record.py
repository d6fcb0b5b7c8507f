"""`xmml record`: keep what passes out ports of a run that goes on in an archive."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from xmml_executors.outcome import ExitStatus
from xmml_executors.taps import PORT

from xmml_run.errors import NotARun
from xmml_run.tapping import add_tap_options, join_as_tap
from xmml_run.terminal_text import shown

if TYPE_CHECKING:
    from xmml_native.archives.writer import ArchiveWriter

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
    from xmml_native.archives.writer import ArchiveWriter
    from xmml_native.errors import ArchiveError

    is_new = not os.path.lexists(options.output)
    try:
        # The archive first: a tap that could keep nothing shall not join.
        with ArchiveWriter(options.output) as archive:
            join_as_tap(options, "record")
            return _keep(archive, options.output)
    except NotARun:
        if is_new:
            shutil.rmtree(options.output, ignore_errors=True)
        raise
    except ArchiveError as error:
        raise NotARun(str(error)) from None
    except OSError as error:
        raise NotARun(f"{options.output}: {error}") from None
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED


def _keep(archive: ArchiveWriter, output: str) -> int:
    from xmml_native import Instance
    from xmml_native.archives.terminal import keep_all
    from xmml_native.errors import RunAborted

    with Instance() as me:
        try:
            count = keep_all(me, PORT, archive)
            print(f"xmml record: {count:,} objects are in {shown(output)}", file=sys.stderr)
        except RunAborted as error:
            print(f"xmml record: {shown(str(error))}", file=sys.stderr)
        except KeyboardInterrupt:
            print(f"xmml record: interrupted; what has come so far is in {shown(output)}", file=sys.stderr)
            return ExitStatus.INTERRUPTED
    return ExitStatus.DONE
