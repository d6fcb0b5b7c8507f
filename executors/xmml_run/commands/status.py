"""`xmml status`: how a run is going."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from xmml_executors.launch.journal import JOURNAL
from xmml_executors.outcome import ExitStatus

from xmml_run.arguments import add_run_argument
from xmml_run.conduit_table import conduit_lines
from xmml_run.inspection import RunView, read_run

DESCRIPTION = "Say how a run is going, or how it ended."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: Namespace) -> int:
    """Print the state of a run."""
    view = read_run(options.run)
    if options.json:
        print(json.dumps(view.as_json()))
    else:
        print("\n".join(status_lines(view)))
    return ExitStatus.DONE


def _lost(folder: Path) -> str:
    """What can be done about a run whose `xmml-run` was killed."""
    if not (folder / JOURNAL).exists():
        return "its xmml-run was killed; start it again"
    return f"its xmml-run was killed; xmml-run --resume {folder} goes on, xmml cancel {folder} removes what is left"


def status_lines(view: RunView) -> list[str]:
    """Return the state of a run, of its instances and of its conduits, a line each."""
    lines = [f"{view.folder.name}: {view.state}"]
    if view.reason:
        lines.append(f"  {view.reason}")
    if view.state == "lost":
        lines.append(f"  {_lost(view.folder)}")
    lines += [f"  {site}: {told}" for site, told in view.sites.items()]
    width = max(map(len, view.instances), default=0)
    for name, row in view.instances.items():
        numbers = f"{row['messages_sent']:,} messages sent, {row['messages_received']:,} received"
        where = f" ({row['process']})" if row.get("process") else ""
        waits = f"; waits for {', '.join(row['waits_for'])}" if row.get("waits_for") else ""
        away = "; its connection is broken, it may come back" if row.get("is_away") else ""
        lines.append(f"  {name.ljust(width)}  {row['state']:<8}  {numbers}{where}{waits}{away}")
    return [*lines, *conduit_lines(view.conduits)]
