"""`xmml status`: how a run is going."""

from __future__ import annotations

import json
import socket
from argparse import ArgumentParser, Namespace

from xmml_executors.launch.site.journal import read_journal
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import ExitStatus, SiteError

from xmml_run.arguments import add_run_argument
from xmml_run.conduit_table import conduit_lines
from xmml_run.inspection import RunView, open_run, read_run
from xmml_run.resume import what_resuming_does
from xmml_run.terminal_text import printable

DESCRIPTION = (
    "Say how a run is going, or how it ended: of a run over sites the last news of each site, then each instance with "
    "its messages and what it waits for, and each conduit. A run is running from its launch on, also while its jobs "
    "wait in queues. A run whose xmml-run was killed is lost, or cancelled when xmml cancel has cleaned up after it: "
    "then the commands that go on with it or clean up are shown, and what they would do."
)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: Namespace) -> int:
    """Print the state of a run."""
    view = read_run(open_run(options.run))
    if options.json:
        print(json.dumps(view.as_json()))
    else:
        print("\n".join(map(printable, status_lines(view))))
    return ExitStatus.DONE


def lost_lines(folder: OpenFolder) -> list[str]:
    """Return what can be done about a run whose `xmml-run` was killed, a line each."""
    try:
        told = read_journal(folder)
    except SiteError as error:
        return [str(error)]
    if told is None:
        return ["its xmml-run was killed; start it again with xmml-run MODEL"]
    resuming = f"xmml-run --resume {folder.path} {what_resuming_does(told)}"
    if told.is_cancelled:
        return ["its xmml-run was killed, and xmml cancel has removed what it had at its sites", resuming]
    left = (
        f"ends and removes what is left at {', '.join(told.unclean)}" if told.unclean else "finds nothing at its sites"
    )
    return [
        "its xmml-run was killed",
        resuming,
        f"xmml cancel {folder.path} {left}",
    ]


def status_lines(view: RunView) -> list[str]:
    """Return the state of a run, of its instances and of its conduits, a line each."""
    lines = [f"{view.folder.path.name}: {view.state}"]
    if view.reason:
        lines.append(f"  {view.reason}")
    if view.foreign:
        lines.append(f"  {view.foreign}: nothing is done with it")
    elif view.state in ("lost", "cancelled"):
        lines += [f"  {line}" for line in lost_lines(view.folder)]
        lines += ["  last news:"] if view.state == "lost" else []
    lines += [f"  {site}: {told}" for site, told in view.sites.items()]
    width = max(map(len, view.instances), default=0)
    is_elsewhere = bool({row["host"] for row in view.instances.values()} - {None, socket.gethostname()})
    has_sites = len({row["site"] for row in view.instances.values()}) > 1
    for name, row in view.instances.items():
        sent = row["messages_sent"]
        numbers = f"{sent:,} message{'' if sent == 1 else 's'} sent, {row['messages_received']:,} received"
        where = f" ({row['process']})" if row.get("process") else ""
        site = f", at {row['site']}" if has_sites else ""
        host = f", on {row['host']}" if is_elsewhere and row["host"] else ""
        cpus = f", on CPU{'' if row['cpus'].isdecimal() else 's'} {row['cpus']}" if row.get("cpus") else ""
        waits = f"; waits for {', '.join(row['waits_for'])}" if row.get("waits_for") else ""
        away = "; its connection is broken, it may come back" if row.get("is_away") else ""
        lines.append(f"  {name.ljust(width)}  {row['state']:<8}  {numbers}{site}{host}{cpus}{where}{waits}{away}")
    if view.not_bound:
        lines.append(f"  not bound to cores: {view.not_bound}")
    return [*lines, *conduit_lines(view.conduits)]
