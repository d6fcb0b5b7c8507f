"""`xmml methods`: how conduits of a run travel, and have them travel otherwise while it goes on."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import ExitStatus
from xmml_executors.queries import AskChange

from xmml.problems import did_you_mean
from xmml.run_options import METHODS
from xmml_run.arguments import add_run_argument
from xmml_run.conduit_table import conduit_lines
from xmml_run.errors import NotARun
from xmml_run.inspection import open_run, read_own_run, read_run
from xmml_run.run_queries import ask, no_answer
from xmml_run.terminal_text import printable

DESCRIPTION = "Say how the conduits of a run travel; with --set, have them travel otherwise while messages pass."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)
    parser.add_argument("sender", metavar="FROM", nargs="?", help="an instance, or INSTANCE.PORT")
    parser.add_argument("receiver", metavar="TO", nargs="?", help="an instance, or INSTANCE.PORT")
    parser.add_argument(
        "--set", metavar="METHODS", dest="methods", help='allow these, in this order ("shm,tcp"; "all": fastest first)'
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: Namespace) -> int:
    """Print how conduits travel, after changing them if that was asked for."""
    methods = None if options.methods is None else wanted_methods(options.methods)
    folder = open_run(options.run)
    view = read_run(folder) if methods is None else read_own_run(folder)
    chosen = [row for row in view.conduits if _fits(row, options.sender, options.receiver)]
    if not chosen and (options.sender or options.receiver):
        names = ", ".join(row["name"] for row in view.conduits[:20]) or "none"
        raise NotARun(f"no conduit goes that way; those of the run are {names}")
    problems: list[str] = []
    if methods is not None:
        problems = _change(folder, chosen, methods)
        wanted = {row["id"] for row in chosen}
        chosen = [row for row in read_run(folder).conduits if row["id"] in wanted]
    if options.json:
        print(json.dumps({"conduits": [dict(row) for row in chosen], "problems": problems}))
    else:
        print("\n".join(map(printable, conduit_lines(chosen))))
    for problem in problems:
        print(f"xmml methods: {problem}", file=sys.stderr)
    return ExitStatus.SITE_FAILED if problems else ExitStatus.DONE


def wanted_methods(text: str) -> list[str]:
    """Return the methods that a text names; none if it is "all".

    Raises:
        NotARun: one of them does not exist.
    """
    names = [] if text == "all" else [name for name in text.split(",") if name]
    for name in names:
        if name not in METHODS:
            raise NotARun(f'"{name}" is not a method; {did_you_mean(name, METHODS, "methods")}')
    return names


def _change(folder: OpenFolder, conduits: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> list[str]:
    answer = ask(folder, AskChange([row["id"] for row in conduits], methods))
    if answer is None:
        raise no_answer(folder, "does not go on (on this machine): there is nothing to change")
    if "error" in answer:
        return [answer["error"]]
    names = {row["id"]: row["name"] for row in conduits}
    return [
        f"{names[each['conduit']]} goes on as before: {each['problem']}"
        for each in answer["changes"]
        if each["problem"] is not None
    ]


def _fits(row: Mapping[str, Any], sender: str | None, receiver: str | None) -> bool:
    ends = row["name"].split(" -> ")
    return all(wanted is None or _names(wanted, end) for wanted, end in zip((sender, receiver), ends, strict=True))


def _names(wanted: str, end: str) -> bool:
    instance, _, port = end.rpartition(".")
    element = instance.partition("[")[0]
    return wanted in (end, instance, element, f"{element}.{port}")
